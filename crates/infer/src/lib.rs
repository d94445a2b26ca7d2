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

mod attrs;
mod causes;
mod cx;
mod dim;
mod driver;
mod error;
mod fact;
mod interface;
mod op;
pub mod ops;
mod relics;
pub mod rules;
mod shape;
mod symbols;
mod table;
#[cfg(test)]
mod testing;
mod value;
mod variables;

pub use attrs::Attrs;
pub use cx::{InferCx, ValueCx};
pub use dim::{Dim, Symbol, Why};
pub use driver::{Analysis, analyse, infer_op, infer_shapes, port_name, propagate};
pub use error::{AttrError, RuleError};
pub use fact::{Fact, Facts, InputSpec, Inputs, NodeFacts};
pub use interface::{input_type, output_type};
pub use op::{Op, OpTraits, Parse};
pub use shape::{Dims, PartialShape, ShapeTextError};
pub use symbols::Symbols;
pub use table::{ROWS, Row, Versions, find, named, opset};
pub use value::{Elements, Interval, MAX_ELEMENTS, PartialValue};
pub use variables::{declared_variables, variables};

/// What every file of [`ops`] needs.
mod prelude {
    pub use crate::attrs::Attrs;
    pub use crate::cx::{InferCx, ValueCx};
    pub use crate::dim::Dim;
    pub use crate::error::{AttrError, RuleError};
    pub(crate) use crate::op::no_attributes;
    pub use crate::op::{Op, OpTraits, Parse};
    pub use crate::require;
    pub use crate::shape::PartialShape;
    pub use crate::value::PartialValue;
    pub use ir::ElementType;
}
