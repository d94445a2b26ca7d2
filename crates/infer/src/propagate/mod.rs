//! Propagation of facts through a graph, and its findings.

mod attributes;
mod causes;
pub(crate) mod declared;
pub(crate) mod driver;
pub(crate) mod graph_facts;
pub(crate) mod inputs;
pub(crate) mod interface;
mod relics;
pub(crate) mod variables;
