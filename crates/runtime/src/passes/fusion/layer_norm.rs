//! Normalisation over the last axis as TensorFlow and Keras write it: with the factor
//! `s = γ / sqrt(variance + ε)`, a value becomes `x · s + (β - mean · s)`. It becomes one node, with γ and β
//! as steps behind it.

use crate::fused::normalize::NormalizeRows;
use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::{either_way, kind, mean_of_rows, number, of_inverse_root, operands};
use crate::graph::rewriter::Sweep;
use crate::passes::PassCx;
use infer::ops::binary::Kind;
use infer::ops::unary::{self, Unary};
use kernels::normalize::{Divisor, Normalization};
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn layer_norm(net: &mut Net, _: &PassCx<'_>) -> usize {
    Sweep::replacing(net, |sweep, node| {
        let found = Found::at(sweep, node)?;
        found.write(sweep, node)
    })
}

/// A normalisation, and the nodes that apply its factor and its shift.
struct Found {
    value: ValueId,
    columns: usize,
    eps: f32,
    /// What the normalised value is multiplied by, and the node that does it.
    gamma: Option<(ValueId, Node)>,
    /// What is added to that.
    beta: Option<ValueId>,
}

impl Found {
    /// The normalisation that a sum of a scaled value and a shift is.
    fn at(sweep: &Sweep<'_>, node: &Node) -> Option<Found> {
        either_way(node, Kind::Add).find_map(|[scaled, shift]| {
            let product = sweep.only_for(scaled)?;
            either_way(product, Kind::Multiply)
                .find_map(|[value, scale]| Found::of(sweep, (value, scale, shift), node, product))
        })
    }

    fn of(
        sweep: &Sweep<'_>,
        (value, scale, shift): (ValueId, ValueId, ValueId),
        node: &Node,
        product: &Node,
    ) -> Option<Found> {
        let net = &*sweep.net;
        let sizes = net.sizes(value).filter(|_| net.is_f32(value))?;
        let columns = *sizes.last().filter(|n| **n > 1)?;
        if net.sizes(*node.outputs.first()?)? != sizes
            || net.sizes(*product.outputs.first()?)? != sizes
        {
            return None;
        }
        let (mean, eps, gamma) = factor(sweep, scale, value)?;
        let beta = match is_moved_mean(sweep, shift, (mean, scale)) {
            true => None,
            false => Some(shifted(sweep, shift, (mean, scale))?),
        };
        let gamma = gamma.map(|gamma| (gamma, product.clone()));
        Some(Found { value, columns, eps, gamma, beta })
    }

    /// Puts the normalisation and its factor before the node that adds the shift; gives what that becomes.
    fn write(self, sweep: &mut Sweep<'_>, node: &Node) -> Option<Node> {
        let divisor = Divisor::DeviationInside(f64::from(self.eps));
        let form = Normalization { center: true, divisor };
        let made = NormalizeRows { columns: self.columns, form, then: Vec::new() };
        let operation = Operation::Made(Arc::new(made));
        let mut last = Node { operation, inputs: smallvec![self.value], ..node.clone() };
        let multiply = self.gamma.map(|(gamma, product)| (gamma, product.operation));
        let add = self.beta.map(|beta| (beta, node.operation.clone()));
        for (operand, operation) in multiply.into_iter().chain(add) {
            let fact = sweep.net.values[*node.outputs.first()?].fact.clone();
            let between = sweep.add(Value::of(fact));
            sweep.keep(Node { outputs: smallvec![between], ..last });
            last = Node { operation, inputs: smallvec![between, operand], ..node.clone() };
        }
        Some(last)
    }
}

/// The mean, ε and γ, if there is one, of a factor for each row of a value.
fn factor(
    sweep: &Sweep<'_>,
    scale: ValueId,
    value: ValueId,
) -> Option<(ValueId, f32, Option<ValueId>)> {
    if let Some((mean, eps)) = inverse(sweep, scale, value) {
        return Some((mean, eps, None));
    }
    either_way(sweep.maker(scale)?, Kind::Multiply).find_map(|[inverted, gamma]| {
        let (mean, eps) = inverse(sweep, inverted, value)?;
        Some((mean, eps, Some(gamma)))
    })
}

/// The mean and the ε of `1 / sqrt(mean((value - mean)²) + ε)`.
fn inverse(sweep: &Sweep<'_>, inverse: ValueId, value: ValueId) -> Option<(ValueId, f32)> {
    let net = &*sweep.net;
    let sum = of_inverse_root(sweep, sweep.maker(inverse)?)?;
    let (variance, eps) = either_way(sweep.maker(sum)?, Kind::Add)
        .find_map(|[variance, eps]| Some((variance, number(net, eps)?)))?;
    let squares = mean_of_rows(net, sweep.maker(variance)?)?;
    let [_, mean] =
        either_way(sweep.maker(squares)?, Kind::SquaredDifference).find(|[of, _]| *of == value)?;
    (mean_of_rows(net, sweep.maker(mean)?)? == value).then_some((mean, eps))
}

/// The β of `β - mean · scale`, or of `β + -mean · scale`.
fn shifted(
    sweep: &Sweep<'_>,
    shift: ValueId,
    of @ (mean, scale): (ValueId, ValueId),
) -> Option<ValueId> {
    let node = sweep.maker(shift)?;
    if kind(node)? == Kind::Subtract {
        let [beta, moved] = operands(node, Kind::Subtract)?;
        let mut products = either_way(sweep.maker(moved)?, Kind::Multiply);
        return products.any(|pair| pair == [mean, scale]).then_some(beta);
    }
    either_way(node, Kind::Add)
        .find_map(|[moved, beta]| is_moved_mean(sweep, moved, of).then_some(beta))
}

/// Whether a value is `-mean · scale`.
fn is_moved_mean(sweep: &Sweep<'_>, value: ValueId, (mean, scale): (ValueId, ValueId)) -> bool {
    let is_negative = |value: ValueId| {
        let Some(node) = sweep.maker(value) else { return false };
        let negative = node.is::<Unary>().is_some_and(|u| u.kind() == unary::Kind::Negative);
        negative && node.inputs.first() == Some(&mean)
            || either_way(node, Kind::Multiply)
                .any(|[of, by]| of == mean && number(sweep.net, by) == Some(-1.0))
    };
    let Some(node) = sweep.maker(value) else { return false };
    either_way(node, Kind::Multiply).any(|[of, by]| by == scale && is_negative(of))
}
