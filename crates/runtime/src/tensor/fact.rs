//! What shape inference may know of a tensor.

use crate::tensor::Tensor;
use infer::{Fact, PartialShape, PartialValue};

/// Integer and floating-point tensors up to this many elements may decide shapes.
const SMALL: usize = 64;

/// The type and shape of a tensor, and its values if they are few.
pub(crate) fn fact_of(tensor: &Tensor) -> Fact {
    let fact = Fact::new(tensor.element_type(), PartialShape::fixed(tensor.sizes()));
    if tensor.count() > SMALL {
        return fact;
    }
    match PartialValue::from_bytes(tensor.element_type(), tensor.sizes(), tensor.bytes()) {
        Some(value) => fact.with_value(value),
        None => fact,
    }
}
