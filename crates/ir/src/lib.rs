//! Reads and writes OpenVINO IR: `model.xml` with its `model.bin`.
//!
//! ```no_run
//! let graph = irrun_ir::read("model.xml")?;
//! for &layer in graph.order() {
//!     println!("{}", graph.layers()[layer].title());
//! }
//! # Ok::<(), irrun_ir::ReadError>(())
//! ```
//!
//! This crate does not know the meaning of operations. It knows three layer types by name, because
//! the format defines the interface of a graph by them: Parameter (an input), Result (an output)
//! and Assign (a sink). Every other layer, supported or not, is a node with attributes and ports.

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod build;
mod diagnostic;
mod element;
mod graph;
mod legacy;
mod read;
mod text;
mod topology;
mod weights;
mod write;

pub use build::{GraphBuilder, LayerBuilder};
pub use diagnostic::{ByteOffset, Code, Diagnostic, Diagnostics, ReadError, Severity, SourceFile};
pub use element::ElementType;
pub use graph::{
    Body, Edge, Element, Graph, Layer, OutputRef, Parts, Port, PortMap, Role, Slice, Version,
};
pub use read::{AttributeOffsets, read, read_bytes};
pub use text::{join_names, leading_integer, split_names};
pub use weights::{Weights, WeightsError, WeightsSlice, disable_mmap};
pub use write::{write, write_xml};
