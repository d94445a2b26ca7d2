//! Rules of operations, and what they see: attributes, inputs and context.

pub(crate) mod attrs;
pub(crate) mod context;
pub(crate) mod cx;
pub(crate) mod error;
pub(crate) mod input_set;
pub(crate) mod op;
pub(crate) mod prelude;
