//! Post-op fusion. Bias, activation, residual and scale are applied to blocks of MatMuls,
//! convolutions and normalizations while they are in the cache. Each post-op rounds like the
//! operation it replaces, so the bits stay the same.

use crate::fused::convolution::ChannelsLast;
use crate::fused::hard_swish::HardSwish;
use crate::fused::matmul::FusedMatMul;
use crate::fused::normalize::NormalizeMaps;
use crate::fused::quantized::IntegerConvolution;
use crate::fused::transpose::Reinterpret;
use crate::graph::net::{FusedOp, Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::{kind, seen};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, QuantizerInput};
use crate::ops::binary::common_power;
use crate::ops::normalize;
use crate::ops::normalize::NormalizeRows;
use crate::ops::unary::function;
use crate::passes::context::PassCx;
use crate::passes::quantization::lowering;
use crate::tensor::Tensor;
use infer::ops::binary::{Binary, Kind};
use infer::ops::matmul::MatMul;
use infer::ops::normalize::Normalize;
use infer::ops::prelu::PRelu;
use infer::ops::reshape::Reshape;
use infer::ops::squeeze::Squeeze;
use infer::ops::unary::Unary;
use kernels::unary::Unary as Function;
use std::sync::Arc;

pub(crate) fn epilogue(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, joined)
}

/// The producer of a node's input, with the node appended to its post-ops.
fn joined(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let &[output] = &node.outputs[..] else { return None };
    if let Some(producer) = reshaped(rewriter, node, output) {
        return Some(producer);
    }
    let (input, step) = step(rewriter.net, node, output, &PostOpProducers { rewriter })?;
    let mut producer = rewriter.take(input)?;
    let op = attached(rewriter, &mut producer, step);
    producer.operation = Operation::Fused(extended(&producer, rewriter.net, op)?);
    producer.outputs = node.outputs.clone();
    producer.layer = node.layer;
    Some(producer)
}

/// The post-op, with its operands as further inputs of `producer`.
pub(super) fn attached(
    rewriter: &mut GraphRewriter<'_>,
    producer: &mut Node,
    step: Absorbed,
) -> PostOp {
    let at = producer.inputs.len();
    match step {
        Absorbed::Alone(op) => op,
        Absorbed::Constant(make, columns) => {
            producer.inputs.push(rewriter.add(Value::known(columns)));
            make(Operand::Columns(at))
        }
        Absorbed::Parameters(parameters, most) => {
            producer.inputs.push(rewriter.add(Value::known(parameters)));
            PostOp::QuantizeColumns(QuantizerInput { input: at, most })
        }
        Absorbed::Operand(make, place, operand) => {
            let place = match place {
                OperandShape::Number(value) => Operand::Number(value),
                OperandShape::Columns => Operand::Columns(at),
                OperandShape::Matrix => Operand::Matrix(at),
            };
            if !matches!(place, Operand::Number(_)) {
                producer.inputs.push(operand);
            }
            make(place)
        }
    }
}

/// Folds a Reshape that keeps the last axis into the MatMul or convolution before it. That writes
/// its result in the new shape, so that the next node can become a post-op.
fn reshaped(rewriter: &mut GraphRewriter<'_>, node: &Node, output: ValueId) -> Option<Node> {
    let written = node.is::<Reshape>().is_some() || node.is::<Squeeze>().is_some();
    let moves = written || node.fused::<Reinterpret>().is_some();
    let &input = node.inputs.first().filter(|_| moves)?;
    let (from, to) = (rewriter.net.sizes(input)?, rewriter.net.sizes(output)?);
    let maker = rewriter.only_for(input).filter(|_| from.last() == to.last())?;
    let operation = match maker.fused::<ChannelsLast>() {
        // The means of a convolution are per batch element, so the batch axis must stay.
        Some(_) => (from.first() == to.first()).then(|| maker.operation.clone())?,
        None if maker.fused::<FusedMatMul>().is_some() || is_matmul(rewriter.net, maker) => {
            Operation::Fused(Arc::new(FusedMatMul::of(rewriter.net, maker)?))
        }
        None => return None,
    };
    let maker = rewriter.take(input)?;
    Some(Node { operation, outputs: node.outputs.clone(), ..maker })
}

/// A node as a post-op.
pub(super) enum Absorbed {
    Alone(PostOp),
    /// One number for each column, which no value of the net holds.
    Constant(fn(Operand) -> PostOp, Tensor),
    Operand(fn(Operand) -> PostOp, OperandShape, ValueId),
    /// Quantizes each column with its own parameters; the number is the largest quantized value.
    Parameters(Tensor, f32),
}

impl Absorbed {
    /// Whether each column has an operand of its own.
    pub(super) fn is_by_column(&self) -> bool {
        match self {
            Absorbed::Alone(_) => false,
            Absorbed::Constant(..) | Absorbed::Parameters(..) => true,
            Absorbed::Operand(_, shape, _) => matches!(shape, OperandShape::Columns),
        }
    }

    /// The same with constant operands of columns one after the other, `times` times; `None` for
    /// other operands of columns.
    pub(super) fn repeated(self, net: &Net, times: usize) -> Option<Absorbed> {
        if times == 1 {
            return Some(self);
        }
        let (make, columns) = match self {
            Absorbed::Constant(make, columns) => (make, columns),
            Absorbed::Operand(make, OperandShape::Columns, operand) => {
                (make, net.values[operand].constant.clone()?)
            }
            Absorbed::Parameters(..) => return None,
            other => return Some(other),
        };
        let repeated = columns.as_slice::<f32>()?.repeat(times);
        Some(Absorbed::Constant(make, Tensor::from_vec(&[repeated.len()], repeated).ok()?))
    }
}

/// How an operand is broadcast to the result.
pub(super) enum OperandShape {
    Number(f32),
    Columns,
    Matrix,
}

/// The inputs of a node that can take it as a post-op.
pub(super) trait Producers {
    /// Whether what makes a value takes post-ops, and is read by this node alone.
    fn takes(&self, net: &Net, value: ValueId) -> bool;

    /// Whether it takes a FakeQuantize, too, with ranges of columns or one range.
    fn rounds(&self, net: &Net, value: ValueId, columns: bool) -> bool;

    /// Whether it takes divisions, too.
    fn divides(&self) -> bool {
        false
    }
}

/// Nodes that take post-ops already.
struct PostOpProducers<'a, 'n> {
    rewriter: &'a GraphRewriter<'n>,
}

impl Producers for PostOpProducers<'_, '_> {
    fn takes(&self, net: &Net, value: ValueId) -> bool {
        self.rewriter.only_for(value).is_some_and(|maker| takes_post_ops(net, maker))
    }

    /// Others than convolutions keep the FakeQuantize as a node.
    fn rounds(&self, _: &Net, value: ValueId, columns: bool) -> bool {
        self.rewriter.only_for(value).is_some_and(|maker| {
            let is_depthwise = maker.fused::<ChannelsLast>().is_some_and(|c| c.is_depthwise());
            maker.fused::<IntegerConvolution>().is_some() || is_depthwise && !columns
        })
    }
}

/// The input of a node that becomes its producer, and the post-op.
pub(super) fn step(
    net: &Net,
    node: &Node,
    output: ValueId,
    producers: &dyn Producers,
) -> Option<(ValueId, Absorbed)> {
    let feeds = |v: ValueId| {
        let same = net.sizes(v).is_some() && net.sizes(v) == net.sizes(output);
        same && producers.takes(net, v)
    };
    if let Some(unary) = node.is::<Unary>() {
        let input = node.inputs[0];
        let function = seen(net, node, |cx| function(unary, cx)).ok()?;
        return feeds(input).then_some((input, Absorbed::Alone(PostOp::Apply(function))));
    }
    if let Some(hard_swish) = node.fused::<HardSwish>() {
        let (input, function) = (node.inputs[0], hard_swish.function());
        return feeds(input).then_some((input, Absorbed::Alone(PostOp::Apply(function))));
    }
    if let Some(rounding) = lowering::rounding(net, node) {
        let input = node.inputs[0];
        let (to, scale, low) = (rounding.to, rounding.scale, rounding.low);
        let op = PostOp::Quantize { to, scale, low };
        let fits = producers.rounds(net, input, false) && feeds(input);
        return fits.then_some((input, Absorbed::Alone(op)));
    }
    if let Some((parameters, most)) = lowering::column_rounding(net, node) {
        let input = node.inputs[0];
        let fits = producers.rounds(net, input, true) && feeds(input);
        return fits.then_some((input, Absorbed::Parameters(parameters, most)));
    }
    if node.is::<PRelu>().is_some() {
        let &[input, slope] = &node.inputs[..] else { return None };
        let [alpha] = *net.values[slope].constant.as_ref()?.as_slice::<f32>()? else { return None };
        let function = Function::LeakyRelu { alpha: f64::from(alpha) };
        return feeds(input).then_some((input, Absorbed::Alone(PostOp::Apply(function))));
    }
    let &[a, b] = &node.inputs[..] else { return None };
    let make = match kind(node)? {
        Kind::Add => PostOp::Add,
        Kind::Multiply => PostOp::Multiply,
        Kind::Divide if producers.divides() => {
            let place = place(net, b, output).filter(|_| a != b && feeds(a))?;
            return Some((a, Absorbed::Operand(PostOp::Divide, place, b)));
        }
        Kind::Power => {
            let power = node.is::<Binary>()?;
            let function = seen(net, node, |cx| common_power(power, cx))?;
            return feeds(a).then_some((a, Absorbed::Alone(PostOp::Apply(function))));
        }
        Kind::Subtract => {
            let negated = negated(net, b, output).filter(|_| feeds(a))?;
            return Some((a, negated));
        }
        _ => return None,
    };
    // If both inputs have producers to fuse with, the one computed last takes the other as operand.
    [(b, a), (a, b)].into_iter().filter(|_| a != b).find_map(|(producer, operand)| {
        let place = place(net, operand, output).filter(|_| feeds(producer))?;
        Some((producer, Absorbed::Operand(make, place, operand)))
    })
}

/// As [`step`], where a constant has one number for each channel, which is axis 1.
pub(super) fn step_of_channels(
    net: &Net,
    node: &Node,
    output: ValueId,
    producers: &dyn Producers,
) -> Option<(ValueId, Absorbed)> {
    let &[a, b] = &node.inputs[..] else { return None };
    let (data, constant) = if net.values[b].constant.is_some() { (a, b) } else { (b, a) };
    let (own, all) = (net.sizes(constant)?, net.sizes(output)?);
    let axis = (own.len() + 1).checked_sub(all.len())?;
    let is_by_channel = own.get(axis) == all.get(1)
        && own[axis] == own.iter().product::<usize>()
        && net.is_f32(constant)
        && net.sizes(data) == Some(all)
        && producers.takes(net, data);
    let constant_of = net.values[constant].constant.as_ref().filter(|_| is_by_channel)?;
    let make = match kind(node)? {
        Kind::Add => PostOp::Add,
        Kind::Multiply => PostOp::Multiply,
        Kind::Divide if data == a => PostOp::Divide,
        Kind::Subtract if data == a => {
            return Some((a, Absorbed::Constant(PostOp::Add, minus(constant_of)?)));
        }
        _ => return None,
    };
    Some((data, Absorbed::Operand(make, OperandShape::Columns, constant)))
}

/// A constant of f32 times -1.
fn minus(constant: &Tensor) -> Option<Tensor> {
    let negated = constant.as_slice::<f32>()?.iter().map(|x| -x).collect();
    Tensor::from_vec(constant.sizes(), negated).ok()
}

/// The subtraction of a constant as an addition, which has the same bits.
fn negated(net: &Net, constant: ValueId, result: ValueId) -> Option<Absorbed> {
    match place(net, constant, result)? {
        OperandShape::Number(value) => Some(Absorbed::Alone(PostOp::Add(Operand::Number(-value)))),
        OperandShape::Columns => {
            let negated = minus(net.values[constant].constant.as_ref()?)?;
            Some(Absorbed::Constant(PostOp::Add, negated))
        }
        OperandShape::Matrix => None,
    }
}

fn place(net: &Net, operand: ValueId, result: ValueId) -> Option<OperandShape> {
    if !net.is_f32(operand) {
        return None;
    }
    let (own, all) = (net.sizes(operand)?, net.sizes(result)?);
    let (count, columns) = (own.iter().product::<usize>(), *all.last()?);
    if count == 1 {
        let constant = net.values[operand].constant.as_ref()?;
        return Some(OperandShape::Number(*constant.as_slice::<f32>()?.first()?));
    }
    let lead = own.iter().position(|s| *s != 1)?;
    if all.ends_with(&own[lead..]) && count == all.iter().product() {
        return Some(OperandShape::Matrix);
    }
    (lead + 1 == own.len() && count == columns).then_some(OperandShape::Columns)
}

/// Whether a node takes post-ops.
pub(crate) fn takes_post_ops(net: &Net, node: &Node) -> bool {
    is_matmul(net, node)
        || node.fused::<FusedMatMul>().is_some()
        || node.fused::<ChannelsLast>().is_some()
        || node.fused::<IntegerConvolution>().is_some()
        || node.fused::<NormalizeRows>().is_some()
        || node.fused::<NormalizeMaps>().is_some()
        || rows(net, node).is_some()
}

/// Whether a node is a MatMul of f32 matrices.
fn is_matmul(net: &Net, node: &Node) -> bool {
    let matrices = |v: &ValueId| net.is_f32(*v) && net.sizes(*v).is_some_and(|s| s.len() > 1);
    node.is::<MatMul>().is_some() && node.inputs.iter().all(matrices)
}

/// The normalization along rows that a node computes.
fn rows(net: &Net, node: &Node) -> Option<NormalizeRows> {
    let rule = node.is::<Normalize>()?;
    net.sizes(*node.inputs.first()?)?;
    seen(net, node, |cx| normalize::rows(rule, cx)).ok()?
}

/// The operation of a producer with one more post-op.
fn extended(node: &Node, net: &Net, op: PostOp) -> Option<Arc<dyn FusedOp>> {
    if let Some(conv) = node.fused::<ChannelsLast>() {
        let mut conv = conv.clone();
        conv.post_ops.push(op);
        return Some(Arc::new(conv));
    }
    if let Some(conv) = node.fused::<IntegerConvolution>() {
        let mut conv = conv.clone();
        conv.post_ops.push(op);
        return Some(Arc::new(conv));
    }
    if let Some(maps) = node.fused::<NormalizeMaps>() {
        let mut maps = maps.clone();
        maps.post_ops.push(op);
        return Some(Arc::new(maps));
    }
    if let Some(mut own) = node.fused::<NormalizeRows>().cloned().or_else(|| rows(net, node)) {
        own.post_ops.push(op);
        return Some(Arc::new(own));
    }
    let mut matmul = FusedMatMul::of(net, node)?;
    matmul.post_ops.push(op);
    Some(Arc::new(matmul))
}
