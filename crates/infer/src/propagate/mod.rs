//! The walk over a graph, and what it finds.

mod causes;
pub mod declared;
pub mod driver;
pub mod graph_facts;
pub mod inputs;
pub mod interface;
mod relics;
pub mod variables;
