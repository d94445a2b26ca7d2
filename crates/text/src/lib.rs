//! Text generation with a language model: a directory with `openvino_model.xml`,
//! `openvino_tokenizer.xml` and `openvino_detokenizer.xml`, as optimum-intel writes it.
//!
//! ```no_run
//! use irrun_text::{GenerationConfig, Pipeline};
//! use std::ops::ControlFlow;
//!
//! let mut pipeline = Pipeline::open("llama".as_ref())?;
//! let config = GenerationConfig { max_new_tokens: Some(32), ..pipeline.config().clone() };
//! let tokens = pipeline.encode("Once upon a time", true)?;
//! let generated = pipeline.generate(&tokens, &config, &mut |text| {
//!     print!("{text}");
//!     ControlFlow::Continue(())
//! })?;
//! println!("\n{} tokens", generated.tokens.len());
//! # Ok::<(), irrun_text::Error>(())
//! ```
//!
//! The tokens are the same on every machine and for any number of threads: logits have the same
//! bits ([numerics](https://github.com/irrun/irrun/blob/main/docs/numerics.md)), and sampling
//! depends only on them and on [`GenerationConfig::seed`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod chat;
mod config;
mod decoder;
mod edit;
mod error;
mod language_model;
mod model;
mod pipeline;
mod sampler;
mod stop;
mod tokenizer;

pub use chat::{ChatTemplate, Message};
pub use config::GenerationConfig;
pub use error::Error;
pub use language_model::LanguageModel;
pub use pipeline::{Finish, Generated, Listener, Pipeline};
pub use tokenizer::Tokenizer;
