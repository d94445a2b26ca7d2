//! HSwish fusion. `x · min(max(x + 3, 0), 6)` becomes one function, with the factor of the second
//! operand if it has one. Files that store constants in f16 have 0.16662598 in place of 1/6 there.
//! It can then be a post-op of a convolution, which a value with two readers cannot.

use crate::fused::hard_swish::HardSwish;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::pattern::{either_way, number, operands};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use infer::ops::binary::Kind;
use infer::ops::unary::{Form, Unary};
use kernels::unary;
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn hard_swish(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| {
        let (value, factor) = product(rewriter, node).or_else(|| quotient(rewriter, node))?;
        let is_same = rewriter.net.sizes(value)? == rewriter.net.sizes(*node.outputs.first()?)?;
        if !is_same || !rewriter.net.is_f32(value) {
            return None;
        }
        let operation = Operation::Fused(Arc::new(HardSwish { factor }));
        Some(Node { operation, inputs: smallvec![value], ..node.clone() })
    })
}

/// `x` and the factor of a product of `x` and its gate, which may be scaled.
fn product(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<(ValueId, f32)> {
    either_way(node, Kind::Multiply).find_map(|[value, other]| {
        let gate = rewriter.only_for(other)?;
        if is_gate(rewriter, gate, value) {
            return Some((value, 1.0));
        }
        let (of, factor) = scaled(rewriter.net, gate)?;
        is_gate(rewriter, rewriter.only_for(of)?, value).then_some((value, factor))
    })
}

/// `x` and the factor of an HSwish that is divided by 6 at last.
fn quotient(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<(ValueId, f32)> {
    let [value, by] = operands(node, Kind::Divide)?;
    let by = number(rewriter.net, by)?;
    let maker = rewriter.only_for(value)?;
    let HardSwish { factor: 1.0 } = maker.fused::<HardSwish>()? else { return None };
    (by == 6.0).then_some((*maker.inputs.first()?, SIXTH))
}

const SIXTH: f32 = unary::SIXTH as f32;

/// The value that a node scales by a number, and the number.
fn scaled(net: &Net, node: &Node) -> Option<(ValueId, f32)> {
    let product =
        either_way(node, Kind::Multiply).find_map(|[of, by]| Some((of, number(net, by)?)));
    let quotient = || {
        let [of, by] = operands(node, Kind::Divide)?;
        (number(net, by)? == 6.0).then_some((of, SIXTH))
    };
    product.or_else(quotient)
}

/// Whether a node is `min(max(of + 3, 0), 6)`, and nothing else reads its sum.
fn is_gate(rewriter: &GraphRewriter<'_>, node: &Node, of: ValueId) -> bool {
    let clamps = Form::Clamp { min: 0.0, max: 6.0 };
    let is_clamp = node.is::<Unary>().is_some_and(|u| u.form() == clamps);
    let sum = node.inputs.first().filter(|_| is_clamp).and_then(|&sum| rewriter.only_for(sum));
    sum.is_some_and(|sum| {
        either_way(sum, Kind::Add)
            .any(|[value, three]| value == of && number(rewriter.net, three) == Some(3.0))
    })
}
