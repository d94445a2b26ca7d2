//! Quantized propagation. A quantized convolution quantizes its input while it reads it. If the
//! producer can quantize its output instead, and every reader takes quantized values, the value
//! stays u8. Such readers are quantized convolutions, their residuals, depthwise convolutions, max
//! pooling, movements such as Split, and Concat of inputs with equal parameters. Depthwise
//! convolutions of such values run in integers if their filters are integers.

use crate::fused::convolution::ChannelsLast;
use crate::fused::pool::{Elements, PoolLast};
use crate::fused::quantize::QuantizeValues;
use crate::fused::quantized::IntegerConvolution;
use crate::fused::through::{IndexedCopy, StridedCopy};
use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::kernel::post_ops::{Operand, PostOp, Quantize, QuantizerInput};
use crate::passes::context::PassCx;
use crate::passes::layout::movement::{is_movement, is_nearest};
use crate::passes::quantization::depthwise;
use crate::passes::quantization::lowering::{column_rounding, rounding};
use crate::tensor::Tensor;
use infer::Fact;
use infer::ops::concat::Concat;
use infer::ops::fake_quantize::FakeQuantize;
use ir::ElementType;
use kernels::quantize::{ColumnQuantizers, Quantizer};
use kernels::quantized::QuantParams;
use std::collections::HashMap;
use std::sync::Arc;

/// The quantization of a value that is stored as u8.
#[derive(Clone, Copy)]
enum Bytes {
    /// One FakeQuantize.
    Uniform {
        quantizer: Quantizer,
        scale: f32,
        /// The value that 0 stands for.
        low: f32,
    },
    /// Parameters per channel, which this value holds.
    Columns(ValueId),
}

/// Keeps quantized values as u8 where every reader takes u8.
pub(crate) fn keep(net: &mut Net, _: &PassCx<'_>) -> usize {
    let columns = columns_of_nodes(net);
    let all = stored_as_bytes(net, &columns);
    let mut found = 0;
    for i in 0..net.nodes.len() {
        let reads_bytes = net.nodes[i].inputs.iter().any(|v| bytes_of(&all, *v).is_some());
        let written = net.nodes[i].outputs.first().filter(|v| bytes_of(&all, **v).is_some());
        if let Some(&value) = written {
            let shape = net.values[value].fact.shape.clone();
            net.values[value].fact = Fact::new(ElementType::U8, shape);
        } else if !reads_bytes {
            continue;
        }
        found += usize::from(written.is_some());
        if let Some(node) = on_bytes(net, &all, i, &columns) {
            net.nodes[i] = node;
        }
    }
    found
}

/// By node, the parameters of each column and the largest quantized value.
type Columns = HashMap<usize, (ValueId, f32)>;

/// The per-column parameters of FakeQuantizes that are nodes of their own.
fn columns_of_nodes(net: &mut Net) -> Columns {
    let mut all = Columns::new();
    for i in 0..net.nodes.len() {
        if let Some((parameters, most)) = column_rounding(net, &net.nodes[i]) {
            all.insert(i, (net.add(Value::known(parameters)), most));
        }
    }
    all
}

/// The quantization of a value that is stored as u8. None for values added later.
fn bytes_of(all: &[Option<Bytes>], value: ValueId) -> Option<Bytes> {
    all.get(value).copied().flatten()
}

/// Values that are stored quantized, with their parameters. Starts from all values that can be,
/// then removes those with a reader that needs f32, and, until nothing changes, those that are
/// connected to a removed one through pooling or Concat.
fn stored_as_bytes(net: &Net, columns: &Columns) -> Vec<Option<Bytes>> {
    let readers = net.readers();
    let mut all = vec![None; net.values.len()];
    let mut makers = vec![None; net.values.len()];
    for (i, node) in net.nodes.iter().enumerate() {
        let Some(&value) = node.outputs.first() else { continue };
        makers[value] = Some(i);
        let of_columns = columns.get(&i).map(|(parameters, _)| Bytes::Columns(*parameters));
        let bytes = possible(net, &all, node).or(of_columns);
        all[value] = bytes.filter(|_| !net.outputs.contains(&value));
    }
    let mut left: Vec<ValueId> = (0..all.len()).collect();
    while let Some(value) = left.pop() {
        let Some(bytes) = all[value] else { continue };
        let maker = makers[value].map(|i| &net.nodes[i]);
        let from = maker.map_or(&[][..], |node| passed(net, node));
        let is_made = from.iter().all(|v| all[*v].is_some());
        let reader = |i: &usize| accepts(net, &all, &net.nodes[*i], (value, bytes));
        if is_made && readers[value].iter().all(reader) {
            continue;
        }
        all[value] = None;
        left.extend_from_slice(from);
        let passing = readers[value].iter().map(|i| &net.nodes[*i]);
        let passing = passing.filter(|node| passed(net, node).contains(&value));
        left.extend(passing.filter_map(|node| node.outputs.first()));
    }
    all
}

/// The quantization that the first output of a node can be stored with.
fn possible(net: &Net, all: &[Option<Bytes>], node: &Node) -> Option<Bytes> {
    if let Some(conv) = node.fused::<IntegerConvolution>() {
        return match *conv.post_ops.last()? {
            PostOp::Quantize { to: quantizer, scale, low } => {
                Some(Bytes::Uniform { quantizer, scale, low })
            }
            PostOp::QuantizeColumns(columns) => {
                Some(Bytes::Columns(*node.inputs.get(columns.input)?))
            }
            _ => None,
        };
    }
    if let Some(conv) = node.fused::<ChannelsLast>().filter(|c| c.is_depthwise()) {
        let PostOp::Quantize { to, scale, low } = *conv.post_ops.last()? else { return None };
        return Some(Bytes::Uniform { quantizer: to, scale, low });
    }
    if let Some(rounding) = rounding(net, node) {
        return Some(Bytes::Uniform {
            quantizer: rounding.to,
            scale: rounding.scale,
            low: rounding.low,
        });
    }
    let quant_params = |v: &ValueId| net.values[*v].quant_params;
    let own = quant_params(node.outputs.first()?)?;
    let data = passed(net, node);
    let (first, others) = data.split_first()?;
    let are_alike = data.iter().all(|v| quant_params(v) == Some(own));
    let bytes = bytes_of(all, *first).filter(|_| are_alike)?;
    let is_alike = |v: &ValueId| match (bytes_of(all, *v), bytes) {
        (
            Some(Bytes::Uniform { scale, low, .. }),
            Bytes::Uniform { scale: own_scale, low: own_low, .. },
        ) => (scale, low) == (own_scale, own_low),
        _ => false,
    };
    others.iter().all(is_alike).then_some(bytes)
}

/// The inputs of a node whose elements it passes through to its only output, whatever their type.
fn passed<'n>(net: &Net, node: &'n Node) -> &'n [ValueId] {
    let passes_first = node.fused::<PoolLast>().is_some() || moves(net, node);
    match (node.is::<Concat>().is_some(), passes_first && node.outputs.len() == 1) {
        (true, _) => &node.inputs,
        (false, true) => &node.inputs[..1],
        (false, false) => &[],
    }
}

/// Whether a node only moves or repeats elements of its first input.
fn moves(net: &Net, node: &Node) -> bool {
    let is_fused = node.fused::<IndexedCopy>().is_some() || node.fused::<StridedCopy>().is_some();
    is_fused || is_movement(net, node) || is_nearest(net, node)
}

/// Whether a node takes a value as u8 with this quantization.
fn accepts(
    net: &Net,
    all: &[Option<Bytes>],
    node: &Node,
    (value, bytes): (ValueId, Bytes),
) -> bool {
    let mut places = (0..node.inputs.len()).filter(|i| node.inputs[*i] == value);
    if let Some(conv) = node.fused::<IntegerConvolution>() {
        // With other parameters, the convolution quantizes the f32 values itself.
        let is_data = |i: usize| conv.accepts_quantized(i, net.values[value].quant_params);
        let is_added = |i| conv.post_ops.contains(&PostOp::Add(Operand::Matrix(i)));
        let are_uniform = matches!(bytes, Bytes::Uniform { .. });
        return are_uniform && places.all(|i| is_data(i) || is_added(i));
    }
    if let Some(conv) = node.fused::<ChannelsLast>() {
        return conv.with_quantized_input(0).is_some() && places.all(|i| i == 0);
    }
    let is_passed =
        passed(net, node).contains(&value) && places.all(|i| passed(net, node).len() > i);
    is_passed && node.outputs.first().is_some_and(|v| bytes_of(all, *v).is_some())
}

/// The node that reads u8 inputs, and writes u8 if its output is stored so.
fn on_bytes(net: &mut Net, all: &[Option<Bytes>], i: usize, columns: &Columns) -> Option<Node> {
    let mut node = net.nodes[i].clone();
    let written = node.outputs.first().and_then(|v| bytes_of(all, *v));
    let read = node.inputs.first().and_then(|v| bytes_of(all, *v));
    if let Some(read) = read
        && let Some(params) = quant_params(net, &node, read)
    {
        node = depthwise::in_integers(net, &node, &params).unwrap_or(node);
    }
    if let Some(conv) = node.fused::<IntegerConvolution>() {
        let mut conv = conv.clone();
        for &value in &node.inputs {
            if let Some(bytes) = bytes_of(all, value) {
                conv = reading(&conv, &node, value, bytes);
            }
        }
        conv.writes = match written.and_then(|_| conv.post_ops.pop()) {
            Some(PostOp::Quantize { to, .. }) => Some(Quantize::Uniform(to)),
            Some(PostOp::QuantizeColumns(columns)) => Some(Quantize::Columns(columns)),
            _ => None,
        };
        node.operation = Operation::Fused(Arc::new(conv));
    } else if let Some(conv) = node.fused::<ChannelsLast>() {
        let mut conv = conv.clone();
        if let Some(bytes) = read {
            conv = conv.with_quantized_input(node.inputs.len())?;
            node.inputs.push(parameters(net, bytes, conv.conv.inputs)?);
        }
        if let Some(Bytes::Uniform { quantizer: to, .. }) = written {
            conv.post_ops.pop();
            conv.writes = Some(to);
        }
        node.operation = Operation::Fused(Arc::new(conv));
    } else if let Some(pool) = node.fused::<PoolLast>() {
        let pool = PoolLast { elements: Elements::Quantized, ..pool.clone() };
        node.operation = Operation::Fused(Arc::new(pool));
    } else if node.is::<FakeQuantize>().is_some() {
        let count = *net.sizes(*node.outputs.first()?)?.last()?;
        node.inputs.truncate(1);
        let writes = match written? {
            Bytes::Uniform { quantizer: to, .. } => Quantize::Uniform(to),
            Bytes::Columns(parameters) => {
                node.inputs.push(parameters);
                Quantize::Columns(QuantizerInput { input: 1, most: columns.get(&i)?.1 })
            }
        };
        let operation = QuantizeValues { writes, columns: count };
        node.operation = Operation::Fused(Arc::new(operation));
    }
    Some(node)
}

/// A convolution that reads value `value` as u8.
fn reading(
    conv: &IntegerConvolution,
    node: &Node,
    value: ValueId,
    bytes: Bytes,
) -> IntegerConvolution {
    let mut conv = conv.clone();
    for (i, _) in node.inputs.iter().enumerate().filter(|(_, v)| **v == value) {
        conv = conv.reading_quantized(i);
    }
    for op in &mut conv.post_ops {
        match (*op, bytes) {
            (PostOp::Add(Operand::Matrix(at)), Bytes::Uniform { scale, low, .. })
                if node.inputs[at] == value =>
            {
                *op = PostOp::AddQuantized { values: at, scale, low };
            }
            _ => {}
        }
    }
    conv
}

/// The quantization parameters of each channel of the data of a convolution, if 0 is a quantized
/// value of each.
fn quant_params(net: &Net, node: &Node, bytes: Bytes) -> Option<Vec<QuantParams>> {
    let channels = node.fused::<ChannelsLast>()?.conv.inputs;
    match bytes {
        Bytes::Uniform { scale, low, .. } => {
            Some(vec![QuantParams::new(low.into(), scale.into())?; channels])
        }
        Bytes::Columns(parameters) => {
            let parameters = net.values[parameters].constant.as_ref()?.as_slice()?;
            let columns = ColumnQuantizers::new(parameters, 0.0).dequantization();
            columns.map(|(scale, low)| QuantParams::new(low.into(), scale.into())).collect()
        }
    }
}

/// The quantization parameters of `channels` channels.
fn parameters(net: &mut Net, bytes: Bytes, channels: usize) -> Option<ValueId> {
    match bytes {
        Bytes::Columns(parameters) => Some(parameters),
        Bytes::Uniform { quantizer: to, scale, low } => {
            let all = ColumnQuantizers::alike(to, (scale, low), channels);
            Some(net.add(Value::known(Tensor::from_vec(&[all.len()], all).ok()?)))
        }
    }
}
