//! Scale and shift folding. A constant scale behind a convolution, as batch normalization leaves
//! it, multiplies the filters, and the shifts before and behind it become one bias. The rounding
//! differs.

use crate::fused::convolution::ChannelsLast;
use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::{either_way, kind, operands};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp};
use crate::passes::context::PassCx;
use crate::tensor::Tensor;
use infer::ops::binary::Kind;
use std::sync::Arc;

pub(crate) fn fold(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, folded)
}

/// The convolution that a node scales or shifts, with other filters and bias.
fn folded(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let &[output] = &node.outputs[..] else { return None };
    let (data, change) = change(rewriter.net, node, output)?;
    let (made, bias) = convolution(rewriter, data, &change)?;
    let maker = rewriter.maker(made)?;
    let filters = change.of_filters(rewriter.net.values[maker.inputs[1]].constant.as_ref()?)?;
    let bias = change.of_bias(bias);
    // A number that overflows here might not have step by step.
    if !filters.as_slice::<f32>()?.iter().chain(&bias).all(|x| x.is_finite()) {
        return None;
    }
    let mut convolution = rewriter.take(made)?;
    if made != data {
        rewriter.take(data)?;
    }
    let mut conv = convolution.fused::<ChannelsLast>()?.clone();
    convolution.inputs.truncate(1);
    convolution.inputs.push(rewriter.add(Value::known(filters)));
    conv.post_ops.clear();
    if !bias.is_empty() {
        conv.post_ops.push(PostOp::Add(Operand::Columns(convolution.inputs.len())));
        let bias = Tensor::from_vec(&[bias.len()], bias).ok()?;
        convolution.inputs.push(rewriter.add(Value::known(bias)));
    }
    let operation = Operation::Fused(Arc::new(conv));
    Some(Node { operation, outputs: node.outputs.clone(), layer: node.layer, ..convolution })
}

/// What a node does to each column.
pub(super) enum Change {
    Scale(Vec<f32>),
    Shift(Vec<f32>),
}

impl Change {
    /// The filters of the convolution of scaled results; output channels come first.
    fn of_filters(&self, filters: &Tensor) -> Option<Tensor> {
        let Change::Scale(scale) = self else { return Some(filters.clone()) };
        let mut values = filters.as_slice::<f32>()?.to_vec();
        let of_one = values.len().checked_div(scale.len()).filter(|len| *len > 0)?;
        for (filter, scale) in values.chunks_exact_mut(of_one).zip(scale) {
            filter.iter_mut().for_each(|weight| *weight *= scale);
        }
        Tensor::from_vec(filters.sizes(), values).ok()
    }

    fn of_bias(&self, mut bias: Vec<f32>) -> Vec<f32> {
        match self {
            Change::Scale(scale) => bias.iter_mut().zip(scale).for_each(|(b, s)| *b *= s),
            Change::Shift(shift) => bias.iter_mut().zip(shift).for_each(|(b, s)| *b += s),
        }
        bias
    }
}

/// The value that a node scales or shifts by a constant, and how.
pub(super) fn change(net: &Net, node: &Node, output: ValueId) -> Option<(ValueId, Change)> {
    let columns = |[data, constant]: [ValueId; 2]| {
        let is_whole = net.is_f32(data) && net.sizes(data) == net.sizes(output);
        Some((data, per_column(net, constant, output).filter(|_| is_whole)?))
    };
    let either = |kind| either_way(node, kind).find_map(columns);
    Some(match kind(node)? {
        Kind::Multiply => either(Kind::Multiply).map(|(data, by)| (data, Change::Scale(by)))?,
        Kind::Add => either(Kind::Add).map(|(data, by)| (data, Change::Shift(by)))?,
        Kind::Subtract => {
            let (data, by) = columns(operands(node, Kind::Subtract)?)?;
            (data, Change::Shift(by.into_iter().map(|x| -x).collect()))
        }
        _ => return None,
    })
}

/// A constant with one f32 for each column of `result`, or one for all.
fn per_column(net: &Net, constant: ValueId, result: ValueId) -> Option<Vec<f32>> {
    let constant = net.values[constant].constant.as_ref()?;
    let columns = *net.sizes(result)?.last()?;
    match constant.as_slice::<f32>()? {
        &[one] => Some(vec![one; columns]),
        all if all.len() == columns && constant.sizes().last() == Some(&columns) => {
            Some(all.to_vec())
        }
        _ => None,
    }
}

/// The result of the convolution that a change of `data` is folded into, and the bias so far, empty
/// if there is none.
fn convolution(
    rewriter: &GraphRewriter<'_>,
    data: ValueId,
    by: &Change,
) -> Option<(ValueId, Vec<f32>)> {
    let scales = matches!(by, Change::Scale(_));
    let maker = rewriter.only_for(data)?;
    if let Some(bias) = bias(rewriter.net, maker) {
        // A shift alone is a post-op with the same bits.
        return (scales || !bias.is_empty()).then_some((data, bias));
    }
    let (made, Change::Shift(shift)) = change(rewriter.net, maker, data)? else { return None };
    let bias = bias(rewriter.net, rewriter.only_for(made)?)?;
    (scales && bias.is_empty()).then_some((made, shift))
}

/// The bias of a convolution of constant filters, empty if it has none.
fn bias(net: &Net, node: &Node) -> Option<Vec<f32>> {
    net.values[*node.inputs.get(1)?].constant.as_ref()?;
    bias_of_any(net, node)
}

/// The bias of a convolution of one input without other post-ops, empty if it has none.
pub(super) fn bias_of_any(net: &Net, node: &Node) -> Option<Vec<f32>> {
    let conv = node.fused::<ChannelsLast>().filter(|conv| !conv.is_transposed)?;
    if conv.gates.is_some() || !conv.concat_inputs.is_empty() {
        return None;
    }
    match conv.post_ops[..] {
        [] => Some(Vec::new()),
        [PostOp::Add(Operand::Columns(input))] => {
            let bias = net.values[*node.inputs.get(input)?].constant.as_ref()?;
            Some(bias.as_slice::<f32>()?.to_vec())
        }
        _ => None,
    }
}
