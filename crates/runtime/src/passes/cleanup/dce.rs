//! Dead code elimination.

use crate::graph::net::{Net, Node};
use crate::passes::context::PassCx;
use infer::ops::adaptive_pool::AdaptivePool;
use infer::ops::pool::Pool;

/// Drops the output of indices of a pooling if nothing reads it. Without it, pooling is several
/// times faster.
pub(crate) fn unread_indices(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut read = vec![false; net.values.len()];
    for &value in net.nodes.iter().flat_map(|n| &n.inputs).chain(&net.outputs) {
        read[value] = true;
    }
    let mut changes = 0;
    for node in &mut net.nodes {
        let pools = node.is::<Pool>().is_some() || node.is::<AdaptivePool>().is_some();
        if pools && matches!(node.outputs[..], [_, indices] if !read[indices]) {
            node.outputs.truncate(1);
            changes += 1;
        }
    }
    changes
}

/// Removes nodes whose outputs nothing reads, and the memory of constants that nothing reads, so
/// that what is planned next finds memory that the process has touched.
pub(crate) fn dead_code(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut needed = vec![false; net.values.len()];
    net.outputs.iter().for_each(|&v| needed[v] = true);
    let before = net.nodes.len();
    let mut kept: Vec<Node> = Vec::with_capacity(before);
    for node in std::mem::take(&mut net.nodes).into_iter().rev() {
        if node.has_effect() || node.outputs.iter().any(|v| needed[*v]) {
            node.inputs.iter().for_each(|&v| needed[v] = true);
            kept.push(node);
        }
    }
    kept.reverse();
    net.nodes = kept;
    for (value, _) in net.values.iter_mut().zip(needed).filter(|(_, needed)| !needed) {
        value.constant = None;
        value.integers = None;
    }
    before - net.nodes.len()
}
