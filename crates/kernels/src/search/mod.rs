//! Kernels that compare elements: sorting, searching, finding.

pub mod nonzero;
pub mod order;
pub mod search_sorted;
pub mod topk;
pub mod unique;
