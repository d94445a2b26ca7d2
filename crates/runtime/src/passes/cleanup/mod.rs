//! Passes that remove what need not be computed, or not twice.

pub(crate) mod cse;
pub(crate) mod dce;
pub(crate) mod fold;
pub(crate) mod nop;
pub(crate) mod split;
