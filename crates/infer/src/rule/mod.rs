//! What a rule is, and what it sees: attributes, inputs, and the propagation around it.

pub(crate) mod attrs;
pub(crate) mod context;
pub(crate) mod cx;
pub(crate) mod error;
pub(crate) mod input_set;
pub(crate) mod op;
pub(crate) mod prelude;
