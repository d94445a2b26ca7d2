//! Requantization scale folding. The scales of a convolution's sums and its bias absorb the scale
//! and the zero point of the quantizer behind them, so that each sum is multiplied once. The scale
//! of the output's quantizer is also absorbed past LeakyRelu and a quantized residual. The
//! rounding differs: a value halfway between two quantized values may round to the other one.

use crate::fused::quantized::IntegerConvolution;
use crate::graph::net::{Net, Node, Operation, Value};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, Quantize, QuantizerInput, clamped};
use crate::passes::context::PassCx;
use crate::tensor::Tensor;
use kernels::quantize::{ColumnQuantizers, Requantization};
use kernels::unary::Unary;
use std::sync::Arc;

/// The input with the scales of the sums.
const SCALES: usize = 2;

pub(crate) fn fold(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::editing(net, |rewriter, node| {
        let folds = [folded, folded_past_activation, folded_past_residual];
        let all = folds.map(|fold| fold(rewriter, node));
        all.into_iter().flatten().next()
    })
}

/// Gives a convolution the scales and the bias that its first quantizer leaves.
fn folded(rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<()> {
    let mut conv = node.fused::<IntegerConvolution>()?.clone();
    conv.alone()?;
    let (bias, rest) = bias(&conv.post_ops);
    let limits = rest.first().and_then(clamped);
    let rest = if limits.is_some() { &rest[1..] } else { rest };
    let quantizer = match rest.first() {
        Some(PostOp::Quantize { to, .. }) => Quantize::Uniform(*to),
        Some(_) => return None,
        None => conv.writes?,
    };
    let quantizers = quantizer.constant(|input| constant(rewriter, node, input))?;
    if limits.is_some_and(|(low, high)| !quantizers.clamps(low, high)) {
        return None;
    }
    let scales = constant(rewriter, node, SCALES)?;
    let shifts = match bias {
        Some(input) => constant(rewriter, node, input)?.to_vec(),
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
    if bias.is_none() {
        // The constant replaces it.
        node.inputs.push(node.inputs[SCALES]);
    }
    replace(rewriter, node, vec![(SCALES, scales), (added, shifts)])?;
    node.operation = Operation::Fused(Arc::new(conv));
    Some(())
}

/// Gives a convolution whose output is quantized behind LeakyRelu the scales that this quantizer
/// leaves: a factor above 0 may precede the activation.
fn folded_past_activation(rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<()> {
    let mut conv = node.fused::<IntegerConvolution>()?.clone();
    conv.alone()?;
    let (bias, [PostOp::Apply(Unary::LeakyRelu { .. })]) = bias(&conv.post_ops) else {
        return None;
    };
    let columns = constant(rewriter, node, SCALES)?.len();
    let mut left = None;
    let factors = match conv.writes? {
        Quantize::Uniform(to) => {
            let (factor, to) = to.scaling();
            conv.writes = Some(Quantize::Uniform(to));
            vec![factor; columns]
        }
        Quantize::Columns(QuantizerInput { input, most }) => {
            let parameters = constant(rewriter, node, input)?;
            let (factors, parameters) = ColumnQuantizers::new(parameters, most).scaling();
            left = Some((input, parameters));
            factors.to_vec()
        }
    };
    let mut replaced = scaled_sums(rewriter, node, bias, &factors)?;
    replaced.extend(left);
    replace(rewriter, node, replaced)?;
    node.operation = Operation::Fused(Arc::new(conv));
    Some(())
}

/// The same where a residual of quantized values is added before the activation.
fn folded_past_residual(rewriter: &mut GraphRewriter<'_>, node: &mut Node) -> Option<()> {
    let mut conv = node.fused::<IntegerConvolution>()?.clone();
    conv.alone()?;
    let Some(Quantize::Uniform(to)) = conv.writes else { return None };
    let (factor, mut to) = to.scaling();
    let (bias, rest) = bias(&conv.post_ops);
    let mut rest = rest.to_vec();
    let (mut sums, residual) = match &mut rest[..] {
        [PostOp::Quantize { scale, low, .. }, rest @ ..] => (Some((scale, low)), rest),
        rest => (None, rest),
    };
    let [PostOp::AddQuantized { scale, low, .. }, activation @ ..] = residual else { return None };
    let activates = match activation {
        [] => false,
        [PostOp::Apply(Unary::Relu {} | Unary::LeakyRelu { .. })] => true,
        _ => return None,
    };
    (*scale, *low) = (*scale * factor, *low * factor);
    if !activates {
        let (offset, from_zero) = to.offset();
        (*low, to) = (*low - offset, from_zero);
    }
    if let Some((sums_scale, sums_low)) = &mut sums {
        *low += **sums_low * factor;
        (**sums_scale, **sums_low) = (**sums_scale * factor, 0.0);
    }
    let of_sums = sums.as_ref().map_or(0.0, |(scale, _)| **scale);
    if ![*scale, *low, of_sums, to.offset().0].iter().all(|x| x.is_finite()) {
        return None;
    }
    if sums.is_none() {
        let factors = vec![factor; constant(rewriter, node, SCALES)?.len()];
        let replaced = scaled_sums(rewriter, node, bias, &factors)?;
        replace(rewriter, node, replaced)?;
    }
    conv.post_ops.splice(usize::from(bias.is_some()).., rest);
    conv.writes = Some(Quantize::Uniform(to));
    node.operation = Operation::Fused(Arc::new(conv));
    Some(())
}

/// The scales of the sums of a convolution and its bias, each with its input, times a factor for
/// each column. `None` if one is computed by the run, or a product is not finite.
fn scaled_sums(
    rewriter: &GraphRewriter<'_>,
    node: &Node,
    bias: Option<usize>,
    factors: &[f32],
) -> Option<Vec<(usize, Vec<f32>)>> {
    let scaled = |input: usize| {
        let values = constant(rewriter, node, input)?.iter().zip(factors);
        let values: Vec<f32> = values.map(|(x, factor)| x * factor).collect();
        values.iter().all(|x| x.is_finite()).then_some((input, values))
    };
    [Some(SCALES), bias].into_iter().flatten().map(scaled).collect()
}

/// Replaces constant inputs, all or none.
fn replace(
    rewriter: &mut GraphRewriter<'_>,
    node: &mut Node,
    constants: Vec<(usize, Vec<f32>)>,
) -> Option<()> {
    let tensor = |(input, values): (usize, Vec<f32>)| {
        Some((input, Tensor::from_vec(&[values.len()], values).ok()?))
    };
    let tensors: Vec<(usize, Tensor)> = constants.into_iter().map(tensor).collect::<Option<_>>()?;
    for (input, tensor) in tensors {
        node.inputs[input] = rewriter.add(Value::known(tensor));
    }
    Some(())
}

/// The input with the bias that the first post-op adds, and the other post-ops.
fn bias(post_ops: &[PostOp]) -> (Option<usize>, &[PostOp]) {
    match post_ops {
        [PostOp::Add(Operand::Columns(input)), rest @ ..] => (Some(*input), rest),
        rest => (None, rest),
    }
}

/// The values of a constant input.
fn constant<'a>(rewriter: &'a GraphRewriter<'_>, node: &Node, input: usize) -> Option<&'a [f32]> {
    rewriter.net.values[*node.inputs.get(input)?].constant.as_ref()?.as_slice()
}
