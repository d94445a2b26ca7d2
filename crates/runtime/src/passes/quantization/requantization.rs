//! Requantization scale folding. The scales of a convolution's sums and its bias absorb the scale
//! and the zero point of the quantizer behind them, so that each sum is multiplied once. The
//! rounding differs: a value halfway between two quantized values may round to the other one.

use crate::fused::quantized::IntegerConvolution;
use crate::graph::net::{Net, Node, Operation, Value};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, Quantize};
use crate::passes::context::PassCx;
use crate::tensor::Tensor;
use kernels::quantize::{ColumnQuantizers, Quantizers, Requantization};
use kernels::unary::Unary;
use std::sync::Arc;

/// The input with the scales of the sums.
const SCALES: usize = 2;

pub(crate) fn fold(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::editing(net, folded)
}

/// Gives a convolution the scales and the bias that its first quantizer leaves.
fn folded(rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<()> {
    let mut conv = node.fused::<IntegerConvolution>()?.clone();
    conv.alone()?;
    let constant = |input: usize| -> Option<&[f32]> {
        rewriter.net.values[*node.inputs.get(input)?].constant.as_ref()?.as_slice()
    };
    let (bias, rest) = match &conv.post_ops[..] {
        [PostOp::Add(Operand::Columns(input)), rest @ ..] => (Some(*input), rest),
        rest => (None, rest),
    };
    let (clamped, rest) = match rest {
        [PostOp::Apply(Unary::Relu {}), rest @ ..] => (Some((0.0, f32::INFINITY)), rest),
        [PostOp::Apply(Unary::Clamp { low, high }), rest @ ..] => {
            (Some((*low as f32, *high as f32)), rest)
        }
        rest => (None, rest),
    };
    let quantizer = match rest.first() {
        Some(PostOp::Quantize { to, .. }) => Quantize::Uniform(*to),
        Some(_) => return None,
        None => conv.writes?,
    };
    let quantizers = match quantizer {
        Quantize::Uniform(to) => Quantizers::Uniform(to),
        Quantize::Columns(columns) => {
            Quantizers::Columns(ColumnQuantizers::new(constant(columns.input)?, columns.most))
        }
    };
    if clamped.is_some_and(|(low, high)| !quantizers.clamps(low, high)) {
        return None;
    }
    let scales = constant(SCALES)?;
    let shifts = match bias {
        Some(input) => constant(input)?.to_vec(),
        None => vec![0.0; scales.len()],
    };
    let Requantization { scales, shifts, to } = quantizers.combined(scales, &shifts)?;
    let mut rest = rest.to_vec();
    match rest.first_mut() {
        Some(PostOp::Quantize { to: own, .. }) => *own = to,
        _ => conv.writes = Some(Quantize::Uniform(to)),
    }
    let added = bias.unwrap_or(node.inputs.len());
    conv.post_ops = [PostOp::Add(Operand::Columns(added))].into_iter().chain(rest).collect();
    let [scales, shifts] = [scales, shifts].map(|all| Tensor::from_vec(&[all.len()], all).ok());
    let [scales, shifts] = [scales?, shifts?].map(|all| rewriter.add(Value::known(all)));
    node.inputs[SCALES] = scales;
    match bias {
        Some(input) => node.inputs[input] = shifts,
        None => node.inputs.push(shifts),
    }
    node.operation = Operation::Fused(Arc::new(conv));
    Some(())
}
