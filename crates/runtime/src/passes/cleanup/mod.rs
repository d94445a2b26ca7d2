//! What need not be computed, or only once.

pub(crate) mod cse;
pub(crate) mod dce;
pub(crate) mod fold;
pub(crate) mod nop;
