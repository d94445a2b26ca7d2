//! What passes see besides the net.

use crate::memory::resources::Resources;
use infer::Fact;
use ir::Graph;
use std::collections::HashMap;

/// The graph, the options and the variables of the model.
pub(crate) struct PassCx<'a> {
    pub(crate) graph: &'a Graph,
    /// The variables that have a value in every run, if that is known.
    pub(crate) variables: Option<&'a HashMap<String, Fact>>,
    pub(crate) resources: Resources,
}
