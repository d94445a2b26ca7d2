//! One file per operation or family: attributes, shape rule, value rule, table tests. The file of
//! the same name in `runtime/src/ops` chooses the kernel.

pub mod binary;
pub mod broadcast;
pub mod caffe_reshape;
pub mod class_nms;
pub mod comparison;
pub mod concat;
pub mod condition;
pub mod constant;
pub mod convert;
pub mod convolution;
pub mod detection_output;
pub mod gather;
pub mod iteration;
pub mod matmul;
pub mod mxnet_reshape;
pub mod non_max_suppression;
pub mod parameter;
pub mod prior_box;
pub mod prior_box_clustered;
pub mod reduce;
pub mod region_yolo;
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
