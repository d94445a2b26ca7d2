//! RMSNorm fusion: `x · 1 / sqrt(mean(x²) + ε)` over the last axis, written as separate operations,
//! becomes one node. It computes the same numbers in the same order, unless the root is written as
//! Power.

use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::pattern::{either_way, mean_of_rows, number, of_inverse_root, operands};
use crate::graph::rewriter::GraphRewriter;
use crate::ops::normalize::NormalizeRows;
use crate::passes::context::PassCx;
use infer::ops::binary::Kind;
use kernels::layer_norm::{Divisor, Normalization};
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn rms(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| normalized(rewriter, node))
}

/// The normalization that a product of a value and the reciprocal of its root mean square is.
fn normalized(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let (value, eps) = either_way(node, Kind::Multiply).find_map(|[value, factor]| {
        let eps = reciprocal(rewriter, factor, value)?;
        Some((value, eps))
    })?;
    let net = &*rewriter.net;
    let sizes = net.sizes(value).filter(|_| net.is_f32(value))?;
    let columns = *sizes.last().filter(|n| **n > 1)?;
    // Otherwise the product broadcasts the value.
    if net.sizes(*node.outputs.first()?)? != sizes {
        return None;
    }
    let normalization =
        Normalization { center: false, divisor: Divisor::DeviationInside(f64::from(eps)) };
    let made = NormalizeRows { columns, normalization, post_ops: Vec::new() };
    let operation = Operation::Fused(Arc::new(made));
    Some(Node { operation, inputs: smallvec![value], ..node.clone() })
}

/// The ε of `1 / sqrt(mean(value²) + ε)`, if `factor` is that and nothing else reads its
/// intermediate values.
fn reciprocal(rewriter: &GraphRewriter<'_>, factor: ValueId, value: ValueId) -> Option<f32> {
    let net = &*rewriter.net;
    let sum = of_inverse_root(rewriter, rewriter.only_for(factor)?)?;
    let (mean, eps) = either_way(rewriter.only_for(sum)?, Kind::Add)
        .find_map(|[mean, eps]| Some((mean, number(net, eps)?)))?;
    let mean = rewriter.only_for(mean)?;
    is_square(net, rewriter.only_for(mean_of_rows(net, mean)?)?, value).then_some(eps)
}

/// Whether a node squares a value.
fn is_square(net: &Net, node: &Node, value: ValueId) -> bool {
    let power = operands(node, Kind::Power);
    let times = operands(node, Kind::Multiply);
    power.is_some_and(|[base, by]| base == value && number(net, by) == Some(2.0))
        || times == Some([value, value])
}
