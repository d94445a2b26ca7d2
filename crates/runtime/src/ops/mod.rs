//! One file per operation or family, of the same name as its rule in `infer/src/ops`: chooses
//! the kernel.

pub(crate) mod binary;
pub(crate) mod broadcast;
pub(crate) mod caffe_reshape;
pub(crate) mod comparison;
pub(crate) mod concat;
pub(crate) mod condition;
pub(crate) mod constant;
pub(crate) mod convert;
pub(crate) mod convolution;
mod ctc;
pub(crate) mod gather;
pub(crate) mod iteration;
pub(crate) mod matmul;
pub(crate) mod mxnet_reshape;
pub(crate) mod parameter;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod reshape;
pub(crate) mod result;
pub(crate) mod roll;
pub(crate) mod scaled_dot_product_attention;
pub(crate) mod select;
pub(crate) mod shape_of;
pub(crate) mod slice;
pub(crate) mod split;
pub(crate) mod squeeze;
pub(crate) mod static_reshape;
pub(crate) mod strided_slice;
pub(crate) mod transpose;
pub(crate) mod unary;
pub(crate) mod variable;

use crate::kernel::{Kernel, KernelError, Reuse, RunCx};

/// The output is the input under another shape: no byte moves.
struct SameBytes;

impl Kernel for SameBytes {
    fn run(&self, _cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::same_bytes()
    }

    fn name(&self) -> &'static str {
        "view"
    }
}
