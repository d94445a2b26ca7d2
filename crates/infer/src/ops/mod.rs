//! One file per operation or family: attributes, shape rule, value rule, table tests. The file of
//! the same name in `runtime/src/ops` chooses the kernel.

pub mod binary;
pub mod broadcast;
pub mod caffe_reshape;
pub mod comparison;
pub mod concat;
pub mod condition;
pub mod constant;
pub mod convert;
pub mod convolution;
pub mod ctc;
pub mod gather;
pub mod iteration;
pub mod matmul;
pub mod mxnet_reshape;
pub mod parameter;
pub mod recurrent;
pub mod reduce;
pub mod reshape;
pub mod result;
pub mod roll;
pub mod scaled_dot_product_attention;
pub mod select;
pub mod shape_of;
pub mod slice;
pub mod split;
pub mod squeeze;
pub mod static_reshape;
pub mod strided_slice;
pub mod transpose;
pub mod unary;
pub mod variable;
