//! What a caller knows before a propagation begins.

use crate::extensions::Extensions;
use crate::fact::Fact;
use crate::lattice::shape::PartialShape;
use crate::lattice::value::PartialValue;
use ir::ElementType;
use std::collections::HashMap;
use std::sync::Arc;

/// What a caller knows of an input beyond what the model declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSpec {
    /// The element type, where the model leaves it open.
    pub element_type: Option<ElementType>,
    /// The shape to use in place of the declared one.
    pub shape: Option<PartialShape>,
    /// The value, if it is small and decides shapes.
    pub value: Option<Arc<PartialValue>>,
}

/// What a caller knows of the inputs and the variables of a model.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// By position of the Parameter; missing entries are nothing known.
    pub parameters: Vec<InputSpec>,
    /// What variables hold when a run begins, by variable id; `None` when that is not known, as in
    /// a check without a run.
    pub variables: Option<HashMap<String, Fact>>,
    /// Whether sizes are wanted as specifications name them even where what is computed has fewer
    /// or more elements: to report on a file, never to plan its execution.
    pub nominal: bool,
    /// Operations that the program adds to those of the table.
    pub extensions: Extensions,
}

impl Inputs {
    /// Known shapes for the first Parameters.
    pub fn shapes(shapes: impl IntoIterator<Item = PartialShape>) -> Inputs {
        let given = |shape| InputSpec { shape: Some(shape), ..InputSpec::default() };
        Inputs { parameters: shapes.into_iter().map(given).collect(), ..Inputs::default() }
    }
}
