//! Common subexpression elimination.

use crate::graph::net::{Net, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use std::any::{Any, TypeId};
use std::collections::HashMap;

/// Replaces nodes that compute the same by one of them.
pub(crate) fn common_subexpressions(net: &mut Net, cx: &PassCx<'_>) -> usize {
    type Key = (TypeId, String, Vec<ValueId>, usize);
    let mut known: HashMap<Key, Vec<ValueId>> = HashMap::new();
    GraphRewriter::over(net, |rewriter, node| {
        let Operation::Source { op, .. } = &node.operation else { return rewriter.keep(node) };
        // The printed form of an operation leaves its bodies out.
        let has_bodies = cx.graph.layers().get(node.layer).is_some_and(|l| !l.bodies.is_empty());
        if has_bodies || !op.traits().pure {
            return rewriter.keep(node);
        }
        let any: &dyn Any = &**op;
        // The printed form of an operation holds all its attributes. Versions of an operation may
        // differ in the number of outputs alone, as Proposal does.
        let outputs = node.outputs.len();
        let key = (any.type_id(), format!("{op:?}"), node.inputs.to_vec(), outputs);
        match known.get(&key) {
            Some(outputs) => {
                for (&output, &other) in node.outputs.iter().zip(outputs) {
                    rewriter.replace(&node, output, other);
                }
            }
            None => {
                known.insert(key, node.outputs.to_vec());
                rewriter.keep(node);
            }
        }
    })
}
