//! Kernels that move elements and compute nothing.

pub mod copy;
pub mod gather;
pub mod gather_tree;
pub mod indices;
pub mod one_hot;
pub mod pad;
pub mod reverse;
pub mod roll;
pub mod runs;
pub mod scatter;
pub mod scatter_elements;
pub mod scatter_indices;
