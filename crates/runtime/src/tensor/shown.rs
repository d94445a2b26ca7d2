//! How tensors are printed and compared.
#![forbid(unsafe_code)]

use crate::tensor::Tensor;
use std::fmt;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.element_type, &self.sizes[..])
    }
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.element_type == other.element_type
            && self.sizes == other.sizes
            && self.bytes() == other.bytes()
            && self.as_strings() == other.as_strings()
    }
}
