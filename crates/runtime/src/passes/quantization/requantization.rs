//! Requantization scale folding. The scales of a convolution's sums and its bias absorb the scale
//! and the zero point of the quantizer behind them, so that each sum is multiplied once. The scale
//! of the output's quantizer is also absorbed past LeakyRelu and a quantized residual. The
//! rounding differs: a value halfway between two quantized values may round to the other one.

use crate::fused::quantized::IntegerConvolution;
use crate::graph::net::{Net, Node, Operation, Value};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, Quantize, QuantizerInput};
use crate::passes::context::PassCx;
use crate::tensor::Tensor;
use kernels::quantize::{ColumnQuantizers, Quantizers, Requantization};
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
            let parameters = constant(rewriter, node, columns.input)?;
            Quantizers::Columns(ColumnQuantizers::new(parameters, columns.most))
        }
    };
    if clamped.is_some_and(|(low, high)| !quantizers.clamps(low, high)) {
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
    replace(rewriter, (node, SCALES), scales)?;
    match bias {
        Some(input) => replace(rewriter, (node, input), shifts)?,
        None => {
            let shifts = Tensor::from_vec(&[shifts.len()], shifts).ok()?;
            node.inputs.push(rewriter.add(Value::known(shifts)));
        }
    }
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
    let factors = match conv.writes? {
        Quantize::Uniform(to) => {
            let (factor, to) = to.scaling();
            conv.writes = Some(Quantize::Uniform(to));
            vec![factor; columns]
        }
        Quantize::Columns(QuantizerInput { input, most }) => {
            let parameters = constant(rewriter, node, input)?;
            let (factors, parameters) = ColumnQuantizers::new(parameters, most).scaling();
            let factors = factors.to_vec();
            replace(rewriter, (node, input), parameters)?;
            factors
        }
    };
    scale_sums(rewriter, (node, bias), &factors)?;
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
    let (sums, residual) = match &mut rest[..] {
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
    match sums {
        Some((sums_scale, sums_low)) => {
            *low += *sums_low * factor;
            (*sums_scale, *sums_low) = (*sums_scale * factor, 0.0);
        }
        None => {
            let factors = vec![factor; constant(rewriter, node, SCALES)?.len()];
            scale_sums(rewriter, (node, bias), &factors)?;
        }
    }
    conv.post_ops.splice(usize::from(bias.is_some()).., rest);
    conv.writes = Some(Quantize::Uniform(to));
    node.operation = Operation::Fused(Arc::new(conv));
    Some(())
}

/// Multiplies the scales of the sums of a convolution and its bias by a factor for each column.
fn scale_sums(
    rewriter: &mut GraphRewriter<'_>,
    (node, bias): (&mut Node, Option<usize>),
    factors: &[f32],
) -> Option<()> {
    for input in [Some(SCALES), bias].into_iter().flatten() {
        let values = constant(rewriter, node, input)?;
        let scaled = values.iter().zip(factors).map(|(x, factor)| x * factor).collect();
        replace(rewriter, (node, input), scaled)?;
    }
    Some(())
}

/// Replaces a constant input.
fn replace(
    rewriter: &mut GraphRewriter<'_>,
    (node, input): (&mut Node, usize),
    values: Vec<f32>,
) -> Option<()> {
    let values = Tensor::from_vec(&[values.len()], values).ok()?;
    *node.inputs.get_mut(input)? = rewriter.add(Value::known(values));
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
