//! What a caller knows before the propagation.

use crate::extensions::Extensions;
use crate::fact::Fact;
use crate::lattice::shape::PartialShape;
use crate::lattice::value::PartialValue;
use ir::ElementType;
use std::collections::HashMap;
use std::sync::Arc;

/// What a caller knows of an input, beyond its declaration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSpec {
    /// The element type, if the model leaves it open.
    pub element_type: Option<ElementType>,
    /// The shape, in place of the declared one.
    pub shape: Option<PartialShape>,
    /// What gives `shape`, such as a flag: messages about its open sizes name it, not the model.
    pub shape_from: Option<&'static str>,
    /// The value, if it is small and determines shapes.
    pub value: Option<Arc<PartialValue>>,
}

/// What a caller knows of the inputs and the variables of a model.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// By index of the Parameter; missing entries mean nothing is known.
    pub parameters: Vec<InputSpec>,
    /// Type and shape of each variable at the beginning of a run, by id. `None` if unknown, as in a
    /// check without a run.
    pub variables: Option<HashMap<String, Fact>>,
    /// Whether to give sizes as the specifications define them, even where the computed output has
    /// another number of elements. For reports about a file, never for compilation.
    pub nominal: bool,
    /// Operations that the program adds to those of the table.
    pub extensions: Extensions,
}

impl Inputs {
    /// Shapes of the first Parameters.
    pub fn shapes(shapes: impl IntoIterator<Item = PartialShape>) -> Inputs {
        let given = |shape| InputSpec { shape: Some(shape), ..InputSpec::default() };
        Inputs { parameters: shapes.into_iter().map(given).collect(), ..Inputs::default() }
    }
}
