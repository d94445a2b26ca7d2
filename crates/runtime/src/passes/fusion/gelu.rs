//! Gelu fusion. Gelu written with Erf, `0.5 · x · (1 + erf(x / √2))` in any order, also as `1 -
//! erf(-x / √2)`, becomes one Gelu. It can then be a post-op of a MatMul, not five passes over
//! memory.

use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::pattern::{either_way, number, operands};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use infer::ops::binary::Kind;
use infer::ops::unary::{self, Unary};
use smallvec::smallvec;

pub(crate) fn gelu(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| {
        let value = argument(rewriter, node)?;
        let is_same = rewriter.net.sizes(value)? == rewriter.net.sizes(*node.outputs.first()?)?;
        if !is_same || !rewriter.net.is_f32(value) {
            return None;
        }
        let operation = Operation::source(Unary::plain(unary::Kind::Gelu))?;
        Some(Node { operation, inputs: smallvec![value], ..node.clone() })
    })
}

/// The input of the Gelu that a node computes: the product of it, 0.5 and the weight, in any order.
fn argument(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<ValueId> {
    either_way(node, Kind::Multiply).find_map(|[pair, one]| {
        either_way(rewriter.only_for(pair)?, Kind::Multiply).find_map(|[a, b]| {
            let orders = [[a, b, one], [one, a, b], [a, one, b]];
            orders.into_iter().find_map(|[value, half, weight]| {
                let is_half = number(rewriter.net, half) == Some(0.5);
                (is_half && is_weight(rewriter, weight, value)).then_some(value)
            })
        })
    })
}

/// Whether a value is `1 + erf(of / √2)`, and nothing else reads its intermediate values.
fn is_weight(rewriter: &GraphRewriter<'_>, weight: ValueId, of: ValueId) -> bool {
    let scaled = |value: ValueId| {
        let node = rewriter.only_for(value)?;
        node.is::<Unary>().filter(|u| u.kind() == unary::Kind::Erf)?;
        scale(rewriter.net, rewriter.only_for(*node.inputs.first()?)?, of)
    };
    let near = |scale: f32, exact: f32| (scale / exact - 1.0).abs() <= 4.0 * f32::EPSILON;
    let Some(node) = rewriter.only_for(weight) else { return false };
    let is_one = |value: ValueId| number(rewriter.net, value) == Some(1.0);
    let sum = either_way(node, Kind::Add).any(|[one, erf]| {
        is_one(one) && scaled(erf).is_some_and(|s| near(s, std::f32::consts::FRAC_1_SQRT_2))
    });
    let difference = operands(node, Kind::Subtract).is_some_and(|[one, erf]| {
        is_one(one) && scaled(erf).is_some_and(|s| near(s, -std::f32::consts::FRAC_1_SQRT_2))
    });
    sum || difference
}

/// The factor by which a node scales a value.
fn scale(net: &Net, node: &Node, value: ValueId) -> Option<f32> {
    let product = either_way(node, Kind::Multiply)
        .find_map(|[of, by]| number(net, by).filter(|_| of == value));
    let quotient = || {
        let [of, by] = operands(node, Kind::Divide)?;
        number(net, by).filter(|_| of == value).map(f32::recip)
    };
    product.or_else(quotient)
}
