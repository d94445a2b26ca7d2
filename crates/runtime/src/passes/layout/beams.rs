//! Caches of keys and values are read from a variable by a Gather that puts beams in another order.
//! Where they stay in order, as with one beam they always do, the cache is handed over, not copied.

use crate::graph::net::{FusedOp, Net, Node, Operation};
use crate::graph::rewriter::GraphRewriter;
use crate::ops::gather;
use crate::passes::context::PassCx;
use crate::prelude::*;
use infer::ops::gather::Gather;
use infer::ops::variable::Variable;
use kernels::gather::GatherPlan;
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn beams(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| chosen(rewriter, node))
}

/// The choice of as many beams as a variable holds.
fn chosen(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let gather = node.is::<Gather>()?;
    let &[data, indices, axis] = &node.inputs[..] else { return None };
    rewriter.maker(data)?.is::<Variable>().filter(|variable| variable.reads())?;
    let net = &*rewriter.net;
    // Others are moved as what stands for them.
    net.values[data].fact.element_type.byte_size()?;
    let is_first = net.values[axis].fact.value.as_deref()?.i64s()? == [0];
    let (sizes, count) = (net.sizes(data)?, net.sizes(indices)?);
    let (&size, inner) = sizes.split_first()?;
    if !is_first || gather.batch_dims(1).ok()? != 0 || count[..] != [size] {
        return None;
    }
    let plan = GatherPlan { batch: 1, outer: 1, size, count: size, inner: inner.iter().product() };
    let operation = Operation::Fused(Arc::new(Beams { plan }));
    Some(Node { operation, inputs: smallvec![data, indices], ..node.clone() })
}

/// Rows of a variable, in the order of the indices.
struct Beams {
    plan: GatherPlan,
}

impl FusedOp for Beams {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        gather::kernel(cx, self.plan, true)
    }
}
