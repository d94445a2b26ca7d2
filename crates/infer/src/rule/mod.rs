//! What a rule is, and what it sees: attributes, inputs, and the propagation around it.

pub mod attrs;
pub mod context;
pub mod cx;
pub mod error;
pub mod input_set;
pub mod op;
pub mod prelude;
