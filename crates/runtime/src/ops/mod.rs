//! Kernels of the operations: one file per operation or family, named like its rule in
//! `infer/src/ops`.

pub(crate) mod adaptive_pool;
pub(crate) mod batch_norm;
pub(crate) mod binary;
pub(crate) mod binary_convolution;
pub(crate) mod broadcast;
pub(crate) mod caffe_reshape;
pub(crate) mod class_nms;
pub(crate) mod col2im;
pub(crate) mod color;
pub(crate) mod comparison;
pub(crate) mod concat;
pub(crate) mod condition;
pub(crate) mod constant;
pub(crate) mod convert;
pub(crate) mod convert_promote_types;
pub(crate) mod convolution;
pub(crate) mod ctc;
pub(crate) mod cum_sum;
pub(crate) mod deformable_convolution;
pub(crate) mod detection_output;
pub(crate) mod einsum;
pub(crate) mod embedding_bag;
pub(crate) mod experimental_detectron_detection_output;
pub(crate) mod experimental_detectron_prior_grid_generator;
pub(crate) mod experimental_detectron_roi_feature_extractor;
pub(crate) mod experimental_detectron_top_k_rois;
pub(crate) mod extract_image_patches;
pub(crate) mod eye;
pub(crate) mod fake_convert;
pub(crate) mod fake_quantize;
pub(crate) mod fourier;
pub(crate) mod gather;
pub(crate) mod gather_elements;
pub(crate) mod gather_nd;
pub(crate) mod gather_tree;
pub(crate) mod generate_proposals;
pub(crate) mod grid_sample;
pub(crate) mod group_normalization;
pub(crate) mod grouped_matmul;
pub(crate) mod interpolate;
pub(crate) mod inverse;
pub(crate) mod iteration;
pub(crate) mod lrn;
pub(crate) mod matmul;
pub(crate) mod mxnet_reshape;
pub(crate) mod non_max_suppression;
pub(crate) mod nonzero;
pub(crate) mod normalize;
pub(crate) mod one_hot;
pub(crate) mod pad;
pub(crate) mod parameter;
pub(crate) mod pool;
pub(crate) mod prelu;
pub(crate) mod prior_box;
pub(crate) mod prior_box_clustered;
pub(crate) mod proposal;
pub(crate) mod psroi_pooling;
pub(crate) mod ragged;
pub(crate) mod random_uniform;
pub(crate) mod range;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod region_yolo;
pub(crate) mod reorg_yolo;
pub(crate) mod reshape;
pub(crate) mod result;
pub(crate) mod reverse;
pub(crate) mod reverse_sequence;
pub(crate) mod roi_align;
pub(crate) mod roi_pooling;
pub(crate) mod roll;
pub(crate) mod scaled_dot_product_attention;
pub(crate) mod scatter;
pub(crate) mod scatter_elements_update;
pub(crate) mod scatter_nd_update;
pub(crate) mod scatter_update;
pub(crate) mod search_sorted;
pub(crate) mod segment_max;
pub(crate) mod select;
pub(crate) mod sentencepiece;
pub(crate) mod shape_of;
pub(crate) mod shuffle_channels;
pub(crate) mod slice;
pub(crate) mod slice_scatter;
pub(crate) mod softmax;
pub(crate) mod space_to_batch;
pub(crate) mod space_to_depth;
pub(crate) mod sparse_fill_empty_rows;
pub(crate) mod split;
pub(crate) mod squeeze;
pub(crate) mod static_reshape;
pub(crate) mod stft;
pub(crate) mod strided_slice;
pub(crate) mod string_tensor;
pub(crate) mod text_bytes;
pub(crate) mod text_normalize;
pub(crate) mod text_split;
pub(crate) mod text_values;
pub(crate) mod tokenizer;
pub(crate) mod topk;
pub(crate) mod transpose;
pub(crate) mod unary;
pub(crate) mod unique;
pub(crate) mod variable;
pub(crate) mod vocab;

use crate::error::KernelError;
use crate::kernel::{Kernel, Reuse, RunCx};

/// A view: the output is the input in another shape.
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
