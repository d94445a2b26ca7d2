//! One file per operation or family, of the same name as its rule in `infer/src/ops`: chooses
//! the kernel.

pub(crate) mod batch_norm;
pub(crate) mod binary;
pub(crate) mod broadcast;
pub(crate) mod caffe_reshape;
pub(crate) mod comparison;
pub(crate) mod concat;
pub(crate) mod condition;
pub(crate) mod constant;
pub(crate) mod convert;
pub(crate) mod convert_promote_types;
pub(crate) mod convolution;
pub(crate) mod cum_sum;
pub(crate) mod fake_convert;
pub(crate) mod fake_quantize;
pub(crate) mod gather;
pub(crate) mod group_normalization;
pub(crate) mod inverse;
pub(crate) mod iteration;
pub(crate) mod lrn;
pub(crate) mod matmul;
pub(crate) mod mxnet_reshape;
pub(crate) mod normalize;
pub(crate) mod parameter;
pub(crate) mod prelu;
pub(crate) mod reduce;
pub(crate) mod reshape;
pub(crate) mod result;
pub(crate) mod roll;
pub(crate) mod scaled_dot_product_attention;
pub(crate) mod select;
pub(crate) mod shape_of;
pub(crate) mod slice;
pub(crate) mod softmax;
pub(crate) mod split;
pub(crate) mod squeeze;
pub(crate) mod static_reshape;
pub(crate) mod strided_slice;
pub(crate) mod topk;
pub(crate) mod transpose;
pub(crate) mod unary;
pub(crate) mod variable;
mod convolution;
mod eye;
mod gather;
mod gather_elements;
mod gather_nd;
mod gather_tree;
mod iteration;
mod matmul;
mod mxnet_reshape;
mod one_hot;
mod pad;
mod parameter;
mod range;
mod reduce;
mod reshape;
mod result;
mod reverse;
mod reverse_sequence;
mod roll;
mod scaled_dot_product_attention;
mod scatter;
mod scatter_elements_update;
mod scatter_nd_update;
mod scatter_update;
mod select;
mod shape_of;
mod slice;
mod slice_scatter;
mod split;
mod squeeze;
mod static_reshape;
mod strided_slice;
mod transpose;
mod unary;
mod variable;

use crate::kernel::{Kernel, KernelError, Reuse, RunCx};

/// The output is the input under another shape: no byte moves.
pub(crate) struct SameBytes;

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
