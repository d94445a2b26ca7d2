//! Tensors as arrays of `ndarray`.
#![forbid(unsafe_code)]

use crate::tensor::{Element, Sizes, Tensor};
use ndarray::{ArrayD, ArrayViewD, IxDyn};

impl Tensor {
    /// A tensor with the elements of an array, copied only if it is not in standard layout.
    pub fn from_array<T: Element>(array: ArrayD<T>) -> Tensor {
        let sizes: Sizes = array.shape().into();
        let values = if array.is_standard_layout() {
            array.into_raw_vec_and_offset().0
        } else {
            array.iter().copied().collect()
        };
        Tensor::from_vec(&sizes, values).expect("an array has as many elements as its shape")
    }

    /// The elements as an array view, if `T` is their type.
    pub fn view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        ArrayViewD::from_shape(IxDyn(&self.sizes), self.as_slice()?).ok()
    }
}
