//! Constant-1: a tensor in the `.bin`.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/constant-1.html>
//!
//! Only the length of the bytes is checked. Values are read only if the tensor is small enough to
//! determine shapes.

use crate::rule::prelude::*;
use ir::{Code, Weights, WeightsError, WeightsSlice};
use std::sync::Arc;

/// Constant-1, written `Const`.
#[derive(Debug)]
pub struct Constant {
    element_type: ElementType,
    sizes: Vec<usize>,
    offset: u64,
    size: u64,
    weights: Arc<Weights>,
}

impl Parse for Constant {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Constant {
            element_type: attrs.element_type("element_type")?,
            sizes: attrs.list("shape")?,
            offset: attrs.required("offset", unsigned)?,
            size: attrs.required("size", unsigned)?,
            weights: Arc::clone(attrs.weights()),
        })
    }
}

fn unsigned(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a number of bytes"))
}

impl Constant {
    /// The shape.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The packed bytes in the file. An empty tensor needs no file.
    ///
    /// # Errors
    /// When some are missing.
    pub fn bytes(&self) -> Result<WeightsSlice, WeightsError> {
        if self.count() == Some(0) {
            return WeightsSlice::new(&Arc::default(), 0, 0);
        }
        WeightsSlice::new(&self.weights, self.offset, self.size)
    }

    fn count(&self) -> Option<u64> {
        let sizes = self.sizes.iter().map(|&s| u64::try_from(s).ok());
        let product = sizes.clone().try_fold(1u64, |n, s| n.checked_mul(s?));
        // A tensor with a dim of 0 is empty, however large its other dims are.
        if sizes.clone().any(|s| s == Some(0)) { Some(0) } else { product }
    }
}

impl Op for Constant {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(0..=0)?;
        let shape = PartialShape::fixed(&self.sizes);
        let needed = self.count().and_then(|n| match self.element_type {
            ElementType::String => Some(if n == 0 { 0 } else { 4 }),
            t => t.packed_len(n),
        });
        match needed {
            None => {
                let message = format!("{}{shape} would not fit any memory", self.element_type);
                return Err(RuleError::new(message));
            }
            Some(needed) if needed > self.size => {
                let (t, size) = (self.element_type, self.size);
                let message = format!("{t}{shape} needs {needed} bytes, but its size is {size}");
                return Err(RuleError { code: Code::Weights, ..RuleError::new(message) });
            }
            Some(_) => {}
        }
        self.bytes()
            .map_err(|e| RuleError { code: Code::Weights, ..RuleError::new(e.to_string()) })?;
        cx.set(0, self.element_type, shape);
        Ok(())
    }

    fn value(&self, _cx: &ValueCx<'_>) -> Option<PartialValue> {
        PartialValue::from_bytes(self.element_type, &self.sizes, self.bytes().ok()?.bytes())
    }
}
