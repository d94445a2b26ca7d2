//! One file per operation or family, of the same name as its rule in `infer/src/ops`: chooses
//! the kernel.

pub(crate) mod binary;
mod broadcast;
mod caffe_reshape;
mod comparison;
mod concat;
mod condition;
mod constant;
pub(crate) mod convert;
mod convolution;
mod embedding_bag;
mod gather;
mod iteration;
mod matmul;
mod mxnet_reshape;
mod nonzero;
mod parameter;
mod random_uniform;
mod reduce;
mod reshape;
mod result;
mod roll;
mod scaled_dot_product_attention;
mod search_sorted;
mod segment_max;
mod select;
mod shape_of;
mod slice;
mod sparse_fill_empty_rows;
mod split;
mod squeeze;
mod static_reshape;
mod strided_slice;
mod string_tensor;
mod topk;
mod transpose;
mod unary;
mod unique;
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
