//! One file per operation or family, of the same name as its rule in `infer/src/ops`: chooses
//! the kernel.

pub(crate) mod binary;
mod broadcast;
mod caffe_reshape;
pub(crate) mod class_nms;
mod comparison;
mod concat;
mod condition;
mod constant;
pub(crate) mod convert;
mod convolution;
pub(crate) mod detection_output;
mod gather;
mod iteration;
mod matmul;
mod mxnet_reshape;
pub(crate) mod non_max_suppression;
mod parameter;
pub(crate) mod prior_box;
pub(crate) mod prior_box_clustered;
mod reduce;
pub(crate) mod region_yolo;
mod reshape;
mod result;
mod roll;
mod scaled_dot_product_attention;
mod select;
mod shape_of;
mod slice;
mod split;
mod squeeze;
mod static_reshape;
mod strided_slice;
mod transpose;
mod unary;
mod variable;

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
