//! Reads and writes OpenVINO IR: `model.xml` and the `model.bin` beside it.
//!
//! ```no_run
//! let graph = irrun_ir::read("model.xml")?;
//! for &layer in graph.order() {
//!     println!("{}", graph.layers()[layer].title());
//! }
//! # Ok::<(), irrun_ir::ReadError>(())
//! ```
//!
//! This crate knows no operation's meaning. It knows three layer types by name because the format
//! defines the interface of a graph by them: Parameter (an input), Result (an output) and Assign
//! (a sink). Everything else, supported or not, is a node with attributes and ports.

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod audit;
mod build;
mod decode;
mod element;
mod graph;
mod preprocess;
mod problem;
mod reader;
mod structure;
mod text;
mod weights;
mod writer;
mod xml;

pub use build::{GraphBuilder, LayerBuilder};
pub use element::ElementType;
pub use graph::{
    Body, Edge, Element, Graph, Layer, OutputRef, Parts, Port, PortMap, Role, Slice, Version,
};
pub use problem::{At, Code, Problem, Problems, ReadError, Severity, Source};
pub use reader::{read, read_bytes};
pub use text::{join_names, leading_integer, split_names};
pub use weights::{Weights, WeightsError, WeightsSlice};
pub use writer::{write, write_xml};
