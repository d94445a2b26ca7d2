//! A quantized convolution quantizes its input while it reads it, unless the convolution that made the
//! input requantizes its output: then the values stay u8, if every reader takes quantized values. These
//! readers are quantized convolutions, residuals of them, depthwise convolutions and max pooling.

use crate::fused::convolution::ChannelsLast;
use crate::fused::pool::{Elements, PoolLast};
use crate::fused::quantized::{IntegerConvolution, Reads};
use crate::graph::net::{FusedOp, Net, Node, Operation, Value, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, Quantize};
use crate::passes::context::PassCx;
use crate::passes::quantization::lowering::rounding;
use crate::tensor::Tensor;
use infer::Fact;
use ir::ElementType;
use kernels::quantize::{ColumnQuantizers, Quantizer};
use std::sync::Arc;

/// Data that are rounded for a convolution alone are rounded while it reads them.
pub(crate) fn round(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| {
        let conv = node.fused::<IntegerConvolution>()?;
        let Reads::F32 { channels_first, .. } = conv.reads else { return None };
        let maker = rewriter.only_for(*node.inputs.first()?)?;
        let quantizer = rounding(rewriter.net, maker)?.to;
        let reads = Reads::F32 { quantizer, channels_first };
        let operation = Operation::Fused(Arc::new(IntegerConvolution { reads, ..conv.clone() }));
        let mut node = Node { operation, ..node.clone() };
        node.inputs[0] = *maker.inputs.first()?;
        Some(node)
    })
}

/// What the bytes are that a value becomes.
#[derive(Clone, Copy)]
enum Bytes {
    /// One FakeQuantize: its quantizer, the distance between its values, and the first of them.
    Uniform(Quantizer, f32, f32),
    /// Each channel has its own; a value holds the parameters.
    Columns(ValueId),
}

/// Keeps what convolutions round as bytes.
pub(crate) fn keep(net: &mut Net, _: &PassCx<'_>) -> usize {
    let readers = net.readers();
    let mut found = 0;
    for i in 0..net.nodes.len() {
        let Some((made, bytes)) = writing(net, &readers, &net.nodes[i]) else { continue };
        net.nodes[i].operation = Operation::Fused(made);
        store(net, &readers, net.nodes[i].outputs[0], bytes);
        found += 1;
    }
    found
}

/// A convolution that writes quantized values, if its readers take them, and what these are.
fn writing(net: &Net, readers: &[Vec<usize>], node: &Node) -> Option<(Arc<dyn FusedOp>, Bytes)> {
    let (made, bytes): (Arc<dyn FusedOp>, _) = match node.fused::<IntegerConvolution>() {
        Some(conv) => {
            let mut conv = conv.clone();
            let (writes, bytes) = match conv.post_ops.pop()? {
                PostOp::Quantize { to, scale, low } => {
                    (Quantize::Uniform(to), Bytes::Uniform(to, scale, low))
                }
                PostOp::QuantizeColumns(columns) => {
                    let parameters = *node.inputs.get(columns.input)?;
                    (Quantize::Columns(columns), Bytes::Columns(parameters))
                }
                _ => return None,
            };
            conv.writes = Some(writes);
            (Arc::new(conv), bytes)
        }
        None => {
            let mut conv = node.fused::<ChannelsLast>().filter(|c| c.is_depthwise())?.clone();
            let PostOp::Quantize { to, scale, low } = conv.post_ops.pop()? else { return None };
            conv.writes = Some(to);
            (Arc::new(conv), Bytes::Uniform(to, scale, low))
        }
    };
    let &value = node.outputs.first()?;
    is_taken(net, readers, (value, bytes), POOLS).then_some((made, bytes))
}

/// The most pools in a row that quantized values pass through. A file may hold any number, and each is
/// a recursive call.
const POOLS: usize = 8;

/// Whether all that reads a value takes such bytes, behind so many pools at most.
fn is_taken(
    net: &Net,
    readers: &[Vec<usize>],
    (value, bytes): (ValueId, Bytes),
    pools: usize,
) -> bool {
    let takes = |node: &Node| {
        let mut places = (0..node.inputs.len()).filter(|i| node.inputs[*i] == value);
        if let Some(conv) = node.fused::<IntegerConvolution>() {
            // Another FakeQuantize quantizes values in f32.
            let is_data =
                |i: usize| i == 0 && conv.accepts_quantized(net.values[value].quant_params);
            let is_added = |i| conv.post_ops.contains(&PostOp::Add(Operand::Matrix(i)));
            let are_uniform = matches!(bytes, Bytes::Uniform(..));
            return are_uniform && places.all(|i| is_data(i) || is_added(i));
        }
        if let Some(conv) = node.fused::<ChannelsLast>() {
            return conv.with_levels(0).is_some() && places.all(|i| i == 0);
        }
        let quant_params = |v: ValueId| net.values[v].quant_params;
        let keeps =
            quant_params(value).is_some() && quant_params(node.outputs[0]) == quant_params(value);
        let passes = node.fused::<PoolLast>().is_some() && keeps && pools > 0;
        passes && is_taken(net, readers, (node.outputs[0], bytes), pools - 1)
    };
    !net.outputs.contains(&value) && readers[value].iter().all(|i| takes(&net.nodes[*i]))
}

/// Makes a value bytes that [`is_taken`], and what reads it read those.
fn store(net: &mut Net, readers: &[Vec<usize>], value: ValueId, bytes: Bytes) {
    let shape = net.values[value].fact.shape.clone();
    net.values[value].fact = Fact::new(ElementType::U8, shape);
    for &i in &readers[value] {
        let node = &net.nodes[i];
        if let Some(pool) = node.fused::<PoolLast>() {
            let output = node.outputs[0];
            let pool = PoolLast { elements: Elements::Quantized, ..pool.clone() };
            net.nodes[i].operation = Operation::Fused(Arc::new(pool));
            store(net, readers, output, bytes);
        } else if let Some(conv) = node.fused::<IntegerConvolution>() {
            let conv = reading(conv, node, value, bytes);
            net.nodes[i].operation = Operation::Fused(Arc::new(conv));
        } else if let Some(conv) =
            node.fused::<ChannelsLast>().and_then(|c| c.with_levels(node.inputs.len()))
        {
            let Some(parameters) = parameters(net, bytes, conv.conv.inputs) else { continue };
            net.nodes[i].operation = Operation::Fused(Arc::new(conv));
            net.nodes[i].inputs.push(parameters);
        }
    }
}

/// A convolution that reads bytes where it has read a value.
fn reading(
    conv: &IntegerConvolution,
    node: &Node,
    value: ValueId,
    bytes: Bytes,
) -> IntegerConvolution {
    let mut conv = conv.clone();
    if node.inputs[0] == value {
        conv.reads = Reads::Quantized;
    }
    for op in &mut conv.post_ops {
        match (*op, bytes) {
            (PostOp::Add(Operand::Matrix(at)), Bytes::Uniform(_, scale, low))
                if node.inputs[at] == value =>
            {
                *op = PostOp::AddQuantized { values: at, scale, low };
            }
            _ => {}
        }
    }
    conv
}

/// The quantization parameters of so many channels.
fn parameters(net: &mut Net, bytes: Bytes, channels: usize) -> Option<ValueId> {
    match bytes {
        Bytes::Columns(parameters) => Some(parameters),
        Bytes::Uniform(to, scale, low) => {
            let all = ColumnQuantizers::alike(to, (scale, low), channels);
            Some(net.add(Value::known(Tensor::from_vec(&[all.len()], all).ok()?)))
        }
    }
}
