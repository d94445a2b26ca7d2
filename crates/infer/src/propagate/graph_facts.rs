//! The facts of a whole graph.

use crate::extensions::Extensions;
use crate::fact::Fact;
use crate::lattice::dim::Why;
use crate::rule::op::Op;
use ir::OutputRef;
use std::collections::HashMap;
use std::sync::Arc;

/// The facts of one layer.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The operation with its attributes.
    pub op: Arc<dyn Op>,
    /// A fact for each output port.
    pub outputs: Vec<Fact>,
    /// Facts of the bodies, in the order of [`ir::Layer::bodies`].
    pub bodies: Vec<Facts>,
}

/// The facts of all layers of a graph.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub(crate) nodes: Vec<Option<NodeFacts>>,
    pub(crate) reasons: Arc<Vec<String>>,
    pub(crate) variables: Option<HashMap<String, Fact>>,
    pub(crate) extensions: Extensions,
}

impl Facts {
    /// The facts of the layer at an index of [`ir::Graph::layers`]; `None` for layers that nothing
    /// needs and for unsupported ones.
    pub fn node(&self, layer: usize) -> Option<&NodeFacts> {
        self.nodes.get(layer)?.as_ref()
    }

    /// The fact of an output.
    pub fn output(&self, output: OutputRef) -> Option<&Fact> {
        self.node(output.layer)?.outputs.get(output.port)
    }

    /// The variables given to the propagation: see [`crate::Inputs::variables`].
    pub fn variables(&self) -> Option<&HashMap<String, Fact>> {
        self.variables.as_ref()
    }

    /// The extensions of the program: see [`crate::Inputs::extensions`].
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Why something is unknown, as text.
    pub fn reason(&self, why: Why) -> Option<&str> {
        let index = usize::try_from(why.0).ok()?.checked_sub(1)?;
        self.reasons.get(index).map(String::as_str)
    }
}
