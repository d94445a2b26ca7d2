//! Elimination of beam reordering. A KV cache is read from its variable through a Gather over the
//! beams. If the beams are in order, as they always are with one beam, the tensor is handed over
//! without a copy.

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

/// The Gather of beams with as many indices as the variable has rows.
fn chosen(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let gather = node.is::<Gather>()?;
    let &[data, indices, axis] = &node.inputs[..] else { return None };
    rewriter.maker(data)?.is::<Variable>().filter(|variable| variable.reads())?;
    let net = &*rewriter.net;
    // Element types without a byte size are left to the general Gather.
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

/// Gathers the rows of a variable. Hands the tensor over if the indices are in order.
struct Beams {
    plan: GatherPlan,
}

impl FusedOp for Beams {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        gather::kernel(cx, self.plan, true)
    }
}
