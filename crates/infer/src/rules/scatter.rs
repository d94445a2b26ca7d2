//! Shared by operations that write updates into a copy of their data.

use crate::lattice::value::{Elements, PartialValue, wrap_i64};
use crate::rule::attrs::Attrs;
use crate::rule::cx::{InferCx, ValueCx};
use crate::rule::error::{AttrError, RuleError};
use crate::rule::input_set::InputSet;
use crate::rule::op::OpTraits;
use ir::ElementType;

/// How an element is combined with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The update replaces the element.
    None,
    /// Their sum.
    Sum,
    /// The element minus the update.
    Sub,
    /// Their product.
    Prod,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// Their mean, in which all updates of an element have equal weight.
    Mean,
}

impl Reduction {
    /// Reads the attribute `reduction`; `others` is a word that only some operations have.
    ///
    /// # Errors
    /// When it is not one of the words.
    pub fn parse(attrs: &mut Attrs<'_>, others: (&str, Reduction)) -> Result<Self, AttrError> {
        use Reduction::*;
        let words =
            [("none", None), ("sum", Sum), ("prod", Prod), ("min", Min), ("max", Max), others];
        attrs.choice_or("reduction", &words, None)
    }

    /// Whether elements of data (input 0) and updates (input 2) are only moved.
    pub fn traits(self) -> OpTraits {
        if self == Reduction::None {
            OpTraits::moving(InputSet::of([0, 2]))
        } else {
            OpTraits::PURE
        }
    }
}

/// The element type that data (input 0) and `updates` share, which must support the reduction.
///
/// # Errors
/// When they differ, or the type does not support the reduction.
pub fn element_type(
    cx: &InferCx<'_>,
    updates: usize,
    reduction: Reduction,
) -> Result<ElementType, RuleError> {
    let found = cx.same_type([0, updates])?;
    let allowed = match reduction {
        Reduction::None => true,
        Reduction::Mean => found != ElementType::Boolean && found != ElementType::String,
        _ => found != ElementType::String,
    };
    if allowed {
        Ok(found)
    } else {
        Err(RuleError::element_type(0, format!("{found} has no reduction {reduction:?}")))
    }
}

/// The value of a list in which the elements at indices (input 1) are replaced by `updates`.
/// Negative indices count from the end if `wrap`.
pub fn replaced(cx: &ValueCx<'_>, updates: usize, wrap: bool) -> Option<PartialValue> {
    let (data, updates) = (cx.value(0)?, cx.value(updates)?);
    let [size] = data.sizes[..] else { return None };
    let size = i64::try_from(size).ok()?;
    let place = |v: i128| {
        let index = wrap_i64(v);
        usize::try_from(if wrap && index < 0 { index.saturating_add(size) } else { index }).ok()
    };
    let indices: Option<Vec<usize>> =
        cx.value(1)?.intervals()?.iter().map(|v| place(v.value()?)).collect();
    written(data, updates, &indices?)
}

/// The value with the elements at these indices replaced.
pub fn written(
    data: &PartialValue,
    updates: &PartialValue,
    indices: &[usize],
) -> Option<PartialValue> {
    let mut out = data.clone();
    let replaced = match (&mut out.elements, &updates.elements) {
        (Elements::Int(to), Elements::Int(from)) => replace(to, indices, from),
        (Elements::Real(to), Elements::Real(from)) => replace(to, indices, from),
        _ => None,
    };
    replaced.map(|()| out)
}

fn replace<T: Copy>(to: &mut [T], indices: &[usize], from: &[T]) -> Option<()> {
    if indices.len() != from.len() {
        return None;
    }
    for (index, value) in indices.iter().zip(from) {
        *to.get_mut(*index)? = *value;
    }
    Some(())
}
