//! What every file of `ops` needs.

pub use crate::lattice::dim::Dim;
pub use crate::lattice::shape::PartialShape;
pub use crate::lattice::value::PartialValue;
pub use crate::require;
pub use crate::rule::attrs::Attrs;
pub use crate::rule::cx::{InferCx, ValueCx};
pub use crate::rule::error::{AttrError, RuleError};
pub use crate::rule::input_set::InputSet;
pub(crate) use crate::rule::op::no_attributes;
pub use crate::rule::op::{Op, OpTraits, Parse};
pub use ir::ElementType;
