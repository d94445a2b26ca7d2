//! Facts of tensors, for shape inference.

use crate::tensor::{Tensor, TensorError};
use infer::{Fact, PartialShape, PartialValue};
use ir::ElementType;
use std::sync::Arc;

/// Tensors of up to this many elements are those that mostly determine shapes.
const FEW: usize = 64;

/// The type and shape of a tensor, and its values if they are few.
pub(crate) fn fact_of(tensor: &Tensor) -> Fact {
    if tensor.count() > FEW {
        return Fact::new(tensor.element_type(), PartialShape::fixed(tensor.sizes()));
    }
    fact_with_values(tensor)
}

/// The type and shape of a tensor, and its values unless they are more than inference reads.
pub(crate) fn fact_with_values(tensor: &Tensor) -> Fact {
    let fact = Fact::new(tensor.element_type(), PartialShape::fixed(tensor.sizes()));
    match PartialValue::from_bytes(tensor.element_type(), tensor.sizes(), tensor.bytes()) {
        Some(value) => fact.with_value(value),
        None => fact,
    }
}

/// The fact with f32 in place of f16.
pub(crate) fn in_f32(mut fact: Fact) -> Fact {
    if fact.element_type == ElementType::F16 {
        fact.element_type = ElementType::F32;
        if let Some(value) = &mut fact.value {
            Arc::make_mut(value).element_type = ElementType::F32;
        }
    }
    fact
}

impl Tensor {
    /// A scalar as a list of one element.
    ///
    /// # Errors
    /// As [`Tensor::part`].
    pub(crate) fn as_list(&self) -> Result<Tensor, TensorError> {
        self.part(0, self.element_type(), &[1])
    }

    /// Whether the first element is not 0. True if there are no elements.
    pub(crate) fn truth(&self) -> bool {
        let value = PartialValue::from_bytes(self.element_type(), self.sizes(), self.bytes());
        value.and_then(|value| value.truth()).unwrap_or(true)
    }
}
