//! The declarations of variables in a graph.

use crate::fact::Fact;
use crate::ops::variable::Variable;
use crate::rule::attrs::Attrs;
use crate::table;
use ir::Graph;
use std::any::Any;
use std::collections::HashMap;

/// What the ReadValue layers of a graph and its bodies declare, by variable id. Only their
/// attributes are read.
pub fn declared_variables(graph: &Graph) -> HashMap<String, Fact> {
    let mut found = HashMap::new();
    for layer in graph.order().iter().filter_map(|&p| graph.layers().get(p)) {
        for body in &layer.bodies {
            found.extend(declared_variables(&body.graph));
        }
        let row = layer.is("ReadValue").then(|| table::find(&layer.op_type, &layer.version).ok());
        let Some(row) = row.flatten() else { continue };
        let Ok(op) = (row.parse)(&mut Attrs::new(layer, &graph.weights_of(layer))) else {
            continue;
        };
        let op: &dyn Any = &*op;
        if let Some(variable) = op.downcast_ref::<Variable>() {
            found.insert(variable.id().to_owned(), variable.declared());
        }
    }
    found
}
