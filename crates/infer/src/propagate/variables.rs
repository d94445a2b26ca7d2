//! The variables of a model: what ReadValue reads and Assign writes.

use crate::fact::Fact;
use crate::ops::variable::Variable;
use crate::propagate::driver::analyse;
use crate::propagate::graph_facts::Facts;
use crate::propagate::inputs::Inputs;
use ir::Graph;
use std::any::Any;
use std::collections::BTreeMap;

/// The declared type and shape of each variable that a model reads, bodies included, sorted by id.
/// Variables of layers that failed are not listed.
pub fn variables(graph: &Graph) -> Vec<(String, Fact)> {
    let has_any = graph.order().iter().filter_map(|&p| graph.layers().get(p));
    if !has_any.into_iter().any(|l| l.is("ReadValue") || !l.bodies.is_empty()) {
        return Vec::new();
    }
    let mut found = BTreeMap::new();
    collect(graph, &analyse(graph, &Inputs::default()).facts, &mut found);
    found.into_iter().collect()
}

fn collect(graph: &Graph, facts: &Facts, found: &mut BTreeMap<String, Fact>) {
    for &position in graph.order() {
        let Some(node) = facts.node(position) else { continue };
        let op: &dyn Any = &*node.op;
        if let (Some(variable), Some(fact)) = (op.downcast_ref::<Variable>(), node.outputs.first())
            && variable.reads()
        {
            found.entry(variable.id().to_owned()).or_insert_with(|| fact.clone());
        }
        let bodies = graph.layers().get(position).map_or(&[][..], |l| &l.bodies);
        for (body, facts) in bodies.iter().zip(&node.bodies) {
            collect(&body.graph, facts, found);
        }
    }
}
