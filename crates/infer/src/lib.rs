//! Propagates element types, shapes and small values through an OpenVINO IR graph.
//!
//! ```no_run
//! let graph = ir::read("model.xml")?;
//! let facts = irrun_infer::propagate(&graph, &irrun_infer::Inputs::default())?;
//! for &result in graph.results() {
//!     println!("{}", facts.output(graph.inputs_of(result)[0]).unwrap());
//! }
//! # Ok::<(), ir::Diagnostics>(())
//! ```
//!
//! One rule per operation serves static, bounded and dynamic shapes: a [`Dim`] is an interval
//! with an equality label, and static means that its bounds are equal. Small integer tensors
//! travel along as [`PartialValue`]s, so that shape arithmetic is followed through a graph.
//! Nothing here touches tensor data larger than a shape.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod extensions;
mod fact;
mod lattice;
pub mod ops;
mod propagate;
mod rule;
pub mod rules;
mod table;
#[cfg(test)]
mod testing;

pub use extensions::Extensions;
pub use fact::Fact;
pub use lattice::dim::{Dim, Symbol, Why};
pub use lattice::shape::{Dims, PartialShape, ShapeTextError};
pub use lattice::symbols::Symbols;
pub use lattice::value::{Elements, Interval, MAX_ELEMENTS, PartialValue};
pub use propagate::declared::declared_variables;
pub use propagate::driver::{Analysis, analyse, infer_op, infer_shapes, port_name, propagate};
pub use propagate::graph_facts::{Facts, NodeFacts};
pub use propagate::inputs::{InputSpec, Inputs};
pub use propagate::interface::{input_type, output_type};
pub use propagate::variables::variables;
pub use rule::attrs::Attrs;
pub use rule::cx::{InferCx, ValueCx};
pub use rule::error::{AttrError, RuleError};
pub use rule::input_set::InputSet;
pub use rule::op::{Op, OpTraits, Parse};
pub use table::{ROWS, Row, Versions, find, named, opset};
