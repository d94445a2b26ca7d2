//! Quantized lowering. FakeQuantize gives activations their quantization parameters; weights stored
//! as integers have a scale per channel. A convolution or MatMul of both runs in integers. Its sums
//! are exact, while f32 sums round at each step along k. So a value halfway between two quantized
//! values may round to the other one.

use crate::fused::convolution::ChannelsLast;
use crate::fused::quantized::{IntegerConvolution, IntegerInput, Reads};
use crate::graph::net::{Integers, Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::number;
use crate::graph::rewriter::GraphRewriter;
use crate::ops::pool;
use crate::passes::context::PassCx;
use crate::passes::quantization::concat::{self, Part};
use crate::passes::quantization::integers::{integers, repeated, without_zero_points};
use crate::tensor::Tensor;
use infer::ops::convert::Convert;
use infer::ops::fake_quantize::FakeQuantize;
use infer::ops::interpolate::{self, Interpolate};
use infer::ops::matmul::MatMul;
use infer::ops::pool::Pool;
use infer::ops::unary::{self, Unary};
use kernels::conv::Convolution;
use kernels::gemm::{Precision, Window};
use kernels::quantize::{ColumnQuantizers, Quantizer};
use kernels::quantized::{QuantParams, QuantizedConvolution};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Notes which values are quantized and which are integers times scales, before other passes
/// rewrite the nodes that compute them.
pub(crate) fn notice(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut found = 0;
    // The results of Converts and their inputs, also behind zero points that are 0.
    let mut converted = HashMap::new();
    for i in 0..net.nodes.len() {
        let node = &net.nodes[i];
        let Some(&first) = node.outputs.first() else { continue };
        if node.is::<Convert>().is_some() {
            converted.extend(node.inputs.first().map(|input| (first, *input)));
        } else if let Some(of) = without_zero_points(net, node).and_then(|v| converted.get(&v)) {
            converted.insert(first, *of);
        }
        let quant_params = quant_params(net, node);
        let integers = integers(net, &converted, node);
        found += usize::from(quant_params.is_some()) + usize::from(integers.is_some());
        net.values[first].integers = integers.map(Box::new);
        for output in node.outputs.clone() {
            net.values[output].quant_params = quant_params.filter(|_| net.is_f32(output));
        }
    }
    found
}

/// The quantization parameters of the output of a node: its own, or those of its input.
fn quant_params(net: &Net, node: &Node) -> Option<QuantParams> {
    if node.is::<FakeQuantize>().is_some() {
        return Some(rounding(net, node)?.quant_params);
    }
    let keeps = is_largest(net, node).is_some()
        || node.is::<Unary>().is_some_and(|u| u.kind() == unary::Kind::Relu)
        || node.is::<Interpolate>().is_some_and(|rule| rule.mode() == interpolate::Mode::Nearest);
    if keeps {
        return net.values[*node.inputs.first()?].quant_params;
    }
    moved(net, node)
}

/// The quantization parameters that a moving node passes on. It may insert zeros.
fn moved(net: &Net, node: &Node) -> Option<QuantParams> {
    let moves = node.op()?.traits().moves;
    let is_zero = |v: ValueId| number(net, v) == Some(0.0);
    let read = node.inputs.iter().enumerate().filter(|(i, _)| moves.contains(*i));
    let mut all =
        read.map(|(_, v)| *v).filter(|v| !is_zero(*v)).map(|v| net.values[v].quant_params);
    let first = all.next()??;
    all.all(|params| params == Some(first)).then_some(first)
}

/// Max pooling in which every window covers an input element. A window of padding alone has no
/// quantized value.
fn is_largest(net: &Net, node: &Node) -> Option<()> {
    let rule = node.is::<Pool>().filter(|rule| rule.is_max())?;
    let (data, result) = (net.sizes(*node.inputs.first()?)?, net.sizes(*node.outputs.first()?)?);
    let (axes, _) = pool::geometry(rule, &data, &result);
    /// The most windows along an axis, since a file may declare any number.
    const MAX_WINDOWS: usize = 1 << 20;
    let looks = |a: &Window| (0..a.output).all(|output| !a.taps_within(output).is_empty());
    axes.iter().all(|a| a.output <= MAX_WINDOWS && looks(a)).then_some(())
}

/// How a FakeQuantize rounds, with one range for all elements.
pub(crate) struct Rounding {
    pub(crate) to: Quantizer,
    pub(crate) scale: f32,
    pub(crate) low: f32,
    quant_params: QuantParams,
}

/// The rounding of a FakeQuantize with one range for all elements, in which 0 is a quantized value.
pub(crate) fn rounding(net: &Net, node: &Node) -> Option<Rounding> {
    let count = node.is::<FakeQuantize>()?.levels();
    let &[data, from_low, from_high, low, high] = &node.inputs[..] else { return None };
    let (from_low, from_high) = (number(net, from_low)?, number(net, from_high)?);
    let (low, high) = (number(net, low)?, number(net, high)?);
    let to = Quantizer::new(from_low, from_high, count).filter(|_| net.is_f32(data))?;
    let scale = (f64::from(high) - f64::from(low)) / (count - 1) as f64;
    let quant_params = QuantParams::new(low.into(), scale)?;
    Some(Rounding { to, scale: scale as f32, low, quant_params })
}

/// The parameters of a FakeQuantize with a range per column, and the largest quantized value.
pub(crate) fn column_rounding(net: &Net, node: &Node) -> Option<(Tensor, f32)> {
    let levels = node.is::<FakeQuantize>()?.levels();
    let columns = *net.sizes(*node.outputs.first()?)?.last()?;
    let &[data, ref limits @ ..] = &node.inputs[..] else { return None };
    let limits: [ValueId; 4] = limits.try_into().ok().filter(|_| net.is_f32(data))?;
    let of_columns = |v: ValueId| {
        let limit = net.values[v].constant.as_ref()?;
        let own = limit.as_slice::<f32>()?;
        let last = limit.sizes().last().copied().unwrap_or(1);
        (own.len() == 1 || own.len() == last && last == columns).then_some(own)
    };
    let [a, b, c, d] = limits.map(of_columns);
    let all = [a?, b?, c?, d?];
    let of = |column: usize| all.map(|limit| limit[if limit.len() == 1 { 0 } else { column }]);
    let each: Vec<[f32; 4]> = (0..columns).map(of).collect();
    let parameters = ColumnQuantizers::parameters(&each, levels)?;
    let parameters = Tensor::from_vec(&[parameters.len()], parameters).ok()?;
    Some((parameters, levels.checked_sub(1)? as f32))
}

/// Runs quantized convolutions and MatMuls in integers.
pub(crate) fn multiply(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, in_integers)
}

fn in_integers(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let &[data, filters] = &node.inputs[..] else { return None };
    let net = &*rewriter.net;
    let integers = net.values[filters].integers.clone()?;
    let (conv, channels_first) = convolution(net, node, &integers)?;
    let parts = match net.values[data].quant_params {
        Some(params) => vec![Part { data, conv: conv.clone(), params, integers: *integers }],
        None if channels_first || conv.groups > 1 => return None,
        None => concat::parts(rewriter, data, &conv, &integers)?,
    };
    let is_alone = parts.len() == 1;
    let (mut inputs, mut made) = (SmallVec::new(), Vec::new());
    for Part { data, conv, params, integers } in parts {
        let quantized = QuantizedConvolution::new(&conv, params)?;
        let quantized = if is_alone { quantized } else { quantized.in_panels() };
        let quantizer = params.quantizer()?;
        let reads = match channels_first {
            true => Reads::Planes(vec![quantizer; conv.inputs].into()),
            false => Reads::F32(quantizer),
        };
        made.push(IntegerInput { quantized, reads });
        let scales = repeated(&integers.scales, conv.outputs)?;
        let scales = scales.iter().map(|s| s * params.scale()).collect();
        let scales = Tensor::from_vec(&[conv.outputs], scales).ok()?;
        let [filters, scales] = [integers.values, scales].map(|t| rewriter.add(Value::known(t)));
        inputs.extend([data, filters, scales]);
    }
    let concat = made.split_off(1);
    let made = IntegerConvolution {
        data: made.pop()?,
        concat,
        columns: conv.outputs,
        gates: None,
        post_ops: Vec::new(),
        writes: None,
    };
    Some(Node { operation: Operation::Fused(Arc::new(made)), inputs, ..node.clone() })
}

/// The convolution that a node computes, and whether it reads NCHW. A MatMul counts as a 1×1
/// convolution.
fn convolution(net: &Net, node: &Node, integers: &Integers) -> Option<(Convolution, bool)> {
    if let Some(ChannelsLast {
        conv,
        is_transposed: false,
        channels_first,
        gates: None,
        post_ops,
        ..
    }) = node.fused::<ChannelsLast>()
    {
        return post_ops.is_empty().then(|| (conv.clone(), *channels_first));
    }
    let matmul = node.is::<MatMul>()?;
    let (sizes, &[outputs, inputs]) = (net.sizes(node.inputs[0])?, integers.values.sizes()) else {
        return None;
    };
    let is_plain = sizes.len() > 1 && matmul.transposed(sizes.len(), 2) == (false, true);
    if !is_plain || !net.is_f32(node.inputs[0]) {
        return None;
    }
    let rows: usize = sizes.iter().rev().skip(1).product();
    let line = Window { input: rows, output: rows, ..Window::NONE };
    let axes = [Window::NONE, Window::NONE, line];
    let precision = Precision::F32;
    Some((Convolution { batch: 1, axes, inputs, outputs, groups: 1, precision }, false))
}
