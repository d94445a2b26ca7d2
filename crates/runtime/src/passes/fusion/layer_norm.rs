//! LayerNorm fusion, as TensorFlow and Keras write it: `x · s + (β - mean · s)` over the last axis,
//! with `s = γ / sqrt(variance + ε)`. It becomes one node, with γ and β as post-ops.

use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::{either_way, kind, mean_of_rows, number, of_inverse_root, operands};
use crate::graph::rewriter::GraphRewriter;
use crate::ops::normalize::NormalizeRows;
use crate::passes::context::PassCx;
use infer::ops::binary::Kind;
use infer::ops::unary::{self, Unary};
use kernels::layer_norm::{Divisor, Normalization};
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn layer_norm(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| {
        let found = Found::at(rewriter, node)?;
        found.write(rewriter, node)
    })
}

/// A normalization, with the nodes that apply scale and bias.
struct Found {
    value: ValueId,
    columns: usize,
    eps: f32,
    /// The scale, and the node that multiplies by it.
    gamma: Option<(ValueId, Node)>,
    /// The bias.
    beta: Option<ValueId>,
}

impl Found {
    /// The normalization that ends in this Add of a scaled value and a shift.
    fn at(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Found> {
        either_way(node, Kind::Add).find_map(|[scaled, shift]| {
            let product = rewriter.only_for(scaled)?;
            either_way(product, Kind::Multiply).find_map(|[value, scale]| {
                Found::of(rewriter, (value, scale, shift), node, product)
            })
        })
    }

    fn of(
        rewriter: &GraphRewriter<'_>,
        (value, scale, shift): (ValueId, ValueId, ValueId),
        node: &Node,
        product: &Node,
    ) -> Option<Found> {
        let net = &*rewriter.net;
        let sizes = net.sizes(value).filter(|_| net.is_f32(value))?;
        let columns = *sizes.last().filter(|n| **n > 1)?;
        if net.sizes(*node.outputs.first()?)? != sizes
            || net.sizes(*product.outputs.first()?)? != sizes
        {
            return None;
        }
        let (mean, eps, gamma) = factor(rewriter, scale, value)?;
        let beta = if is_moved_mean(rewriter, shift, (mean, scale)) {
            None
        } else {
            Some(shifted(rewriter, shift, (mean, scale))?)
        };
        let gamma = gamma.map(|gamma| (gamma, product.clone()));
        Some(Found { value, columns, eps, gamma, beta })
    }

    /// Adds the normalization and its scale before the node that adds the bias. Returns what
    /// replaces that node.
    fn write(self, rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
        let divisor = Divisor::DeviationInside(f64::from(self.eps));
        let normalization = Normalization { center: true, divisor };
        let made = NormalizeRows { columns: self.columns, normalization, post_ops: Vec::new() };
        let operation = Operation::Fused(Arc::new(made));
        let mut last = Node { operation, inputs: smallvec![self.value], ..node.clone() };
        let multiply = self.gamma.map(|(gamma, product)| (gamma, product.operation));
        let add = self.beta.map(|beta| (beta, node.operation.clone()));
        for (operand, operation) in multiply.into_iter().chain(add) {
            let fact = rewriter.net.values[*node.outputs.first()?].fact.clone();
            let between = rewriter.add(Value::of(fact));
            rewriter.keep(Node { outputs: smallvec![between], ..last });
            last = Node { operation, inputs: smallvec![between, operand], ..node.clone() };
        }
        Some(last)
    }
}

/// The mean, ε and γ (if there is one) of a scale per row.
fn factor(
    rewriter: &GraphRewriter<'_>,
    scale: ValueId,
    value: ValueId,
) -> Option<(ValueId, f32, Option<ValueId>)> {
    if let Some((mean, eps)) = inverse(rewriter, scale, value) {
        return Some((mean, eps, None));
    }
    either_way(rewriter.maker(scale)?, Kind::Multiply).find_map(|[inverted, gamma]| {
        let (mean, eps) = inverse(rewriter, inverted, value)?;
        Some((mean, eps, Some(gamma)))
    })
}

/// The mean and the ε of `1 / sqrt(mean((value - mean)²) + ε)`.
fn inverse(
    rewriter: &GraphRewriter<'_>,
    inverse: ValueId,
    value: ValueId,
) -> Option<(ValueId, f32)> {
    let net = &*rewriter.net;
    let sum = of_inverse_root(rewriter, rewriter.maker(inverse)?)?;
    let (variance, eps) = either_way(rewriter.maker(sum)?, Kind::Add)
        .find_map(|[variance, eps]| Some((variance, number(net, eps)?)))?;
    let squares = mean_of_rows(net, rewriter.maker(variance)?)?;
    let [_, mean] = either_way(rewriter.maker(squares)?, Kind::SquaredDifference)
        .find(|[of, _]| *of == value)?;
    (mean_of_rows(net, rewriter.maker(mean)?)? == value).then_some((mean, eps))
}

/// The β of `β - mean · scale`, or of `β + -mean · scale`.
fn shifted(
    rewriter: &GraphRewriter<'_>,
    shift: ValueId,
    of @ (mean, scale): (ValueId, ValueId),
) -> Option<ValueId> {
    let node = rewriter.maker(shift)?;
    if kind(node)? == Kind::Subtract {
        let [beta, moved] = operands(node, Kind::Subtract)?;
        let mut products = either_way(rewriter.maker(moved)?, Kind::Multiply);
        return products.any(|pair| pair == [mean, scale]).then_some(beta);
    }
    either_way(node, Kind::Add)
        .find_map(|[moved, beta]| is_moved_mean(rewriter, moved, of).then_some(beta))
}

/// Whether a value is `-mean · scale`.
fn is_moved_mean(
    rewriter: &GraphRewriter<'_>,
    value: ValueId,
    (mean, scale): (ValueId, ValueId),
) -> bool {
    let is_negative = |value: ValueId| {
        let Some(node) = rewriter.maker(value) else { return false };
        let negative = node.is::<Unary>().is_some_and(|u| u.kind() == unary::Kind::Negative);
        negative && node.inputs.first() == Some(&mean)
            || either_way(node, Kind::Multiply)
                .any(|[of, by]| of == mean && number(rewriter.net, by) == Some(-1.0))
    };
    let Some(node) = rewriter.maker(value) else { return false };
    either_way(node, Kind::Multiply).any(|[of, by]| by == scale && is_negative(of))
}
