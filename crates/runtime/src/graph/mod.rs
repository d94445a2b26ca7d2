//! The graph that passes rewrite on its way to a plan.

pub(crate) mod net;
pub(crate) mod pattern;
pub(crate) mod rewriter;
