//! One file per operation or family, of the same name as its rule in `infer/src/ops`: chooses
//! the kernel.

pub(crate) mod adaptive_pool;
pub(crate) mod binary;
mod broadcast;
mod caffe_reshape;
pub(crate) mod col2im;
mod comparison;
mod concat;
mod condition;
mod constant;
pub(crate) mod convert;
mod convolution;
pub(crate) mod extract_image_patches;
mod gather;
mod iteration;
mod matmul;
mod mxnet_reshape;
mod parameter;
pub(crate) mod pool;
pub(crate) mod psroi_pooling;
mod reduce;
pub(crate) mod reorg_yolo;
mod reshape;
mod result;
pub(crate) mod roi_align;
pub(crate) mod roi_pooling;
mod roll;
mod scaled_dot_product_attention;
mod select;
mod shape_of;
pub(crate) mod shuffle_channels;
mod slice;
pub(crate) mod space_to_batch;
pub(crate) mod space_to_depth;
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
