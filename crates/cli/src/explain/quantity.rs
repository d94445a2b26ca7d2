//! The numbers that shapes are computed with.

use infer::{Dim, Elements, Fact, Interval};
use ir::OutputRef;
use std::sync::Arc;

/// A number that rules of operations compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Quantity {
    /// A dim of a tensor.
    Dim(OutputRef, usize),
    /// An element of a small tensor.
    Element(OutputRef, usize),
}

impl Quantity {
    pub(super) fn tensor(self) -> OutputRef {
        match self {
            Quantity::Dim(tensor, _) | Quantity::Element(tensor, _) => tensor,
        }
    }

    pub(super) fn of(self, fact: &Fact) -> Option<i64> {
        match self {
            Quantity::Dim(_, axis) => fact.shape.dims()?.get(axis)?.value(),
            Quantity::Element(_, index) => {
                let value = fact.value.as_ref()?.intervals()?.get(index)?.value()?;
                i64::try_from(value).ok()
            }
        }
    }

    /// The fact with another number here.
    pub(super) fn put(self, fact: &Fact, number: i64) -> Fact {
        match self {
            Quantity::Dim(_, axis) => {
                let shape = fact.shape.clone().with_dim(axis, Dim::fixed(number));
                Fact { shape, value: None, ..fact.clone() }
            }
            Quantity::Element(..) => self.with(fact, Interval::exact(number)),
        }
    }

    /// The fact with this number not known.
    pub(super) fn opened(self, fact: &Fact) -> Fact {
        match self {
            Quantity::Dim(_, axis) => {
                let shape = fact.shape.clone().with_dim(axis, Dim::any());
                Fact { shape, value: None, ..fact.clone() }
            }
            Quantity::Element(..) => self.with(fact, Interval::between(1, Interval::INF)),
        }
    }

    fn with(self, fact: &Fact, number: Interval) -> Fact {
        let mut fact = fact.clone();
        if let Quantity::Element(_, index) = self
            && let Some(value) = &mut fact.value
            && let Elements::Int(elements) = &mut Arc::make_mut(value).elements
            && let Some(slot) = elements.get_mut(index)
        {
            *slot = number;
        }
        fact
    }

    pub(super) fn name(self) -> String {
        match self {
            Quantity::Dim(_, axis) => format!("dim {axis}"),
            Quantity::Element(_, index) => format!("element {index}"),
        }
    }
}
