//! What every file of `ops` needs.

pub(crate) use crate::lattice::dim::Dim;
pub(crate) use crate::lattice::shape::PartialShape;
pub(crate) use crate::lattice::value::PartialValue;
pub(crate) use crate::require;
pub(crate) use crate::rule::attrs::Attrs;
pub(crate) use crate::rule::cx::{InferCx, ValueCx};
pub(crate) use crate::rule::error::{AttrError, RuleError};
pub(crate) use crate::rule::input_set::InputSet;
pub(crate) use crate::rule::op::no_attributes;
pub(crate) use crate::rule::op::{Op, OpTraits, Parse};
pub(crate) use ir::ElementType;
