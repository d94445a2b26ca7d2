//! Operands packed for the microkernels.

pub(crate) mod a_conflict;
pub(crate) mod b;
pub(crate) mod bf16;
pub(crate) mod convert_a_bf16;
