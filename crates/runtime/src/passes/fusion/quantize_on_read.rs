//! Quantize on read. A FakeQuantize whose only reader is a quantized convolution runs while that
//! reads. If it reads NCHW, as the first layer does, its quantizers also absorb the constant scales
//! and shifts of channels before the FakeQuantize, which normalize images. The rounding differs.

use crate::fused::quantized::{IntegerConvolution, IntegerInput, Reads};
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::pattern::{either_way, kind, operands};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::passes::fusion::quantize_on_write;
use crate::passes::quantization::lowering::rounding;
use infer::ops::binary::Kind;
use kernels::quantize::Quantizer;
use std::sync::Arc;

pub(crate) fn quantize(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, quantizing)
}

/// The convolution that quantizes the input of the FakeQuantize before it.
fn quantizing(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let conv = node.fused::<IntegerConvolution>()?;
    let quantized = conv.alone()?.clone();
    let maker = rewriter.only_for(*node.inputs.first()?)?;
    let (to, mut data) = (rounding(rewriter.net, maker)?.to, *maker.inputs.first()?);
    let reads = match conv.data.reads {
        Reads::F32(_) if quantize_on_write::will_quantize(rewriter, data) => return None,
        Reads::F32(_) => Reads::F32(to),
        Reads::Planes(ref own) => {
            let mut quantizers = vec![to; own.len()];
            while let Some(before) = absorbed(rewriter, data, &mut quantizers) {
                data = before;
            }
            Reads::Planes(quantizers.into())
        }
        Reads::Quantized => return None,
    };
    let input = IntegerInput { quantized, reads };
    let made = IntegerConvolution { data: input, ..conv.clone() };
    let mut node = Node { operation: Operation::Fused(Arc::new(made)), ..node.clone() };
    node.inputs[0] = data;
    Some(node)
}

/// The data of the node that makes `value`, if it scales or shifts channels. The quantizers do the
/// same from now on.
fn absorbed(
    rewriter: &GraphRewriter<'_>,
    value: ValueId,
    quantizers: &mut Vec<Quantizer>,
) -> Option<ValueId> {
    let (net, node) = (&*rewriter.net, rewriter.maker(value)?);
    let channels = |[data, constant]: [ValueId; 2]| {
        let sizes = net.sizes(data).filter(|_| net.is_f32(data))?;
        let factors = per_channel(net, constant, &sizes)?;
        (net.sizes(value)? == sizes && factors.len() == quantizers.len()).then_some((data, factors))
    };
    let (data, [factors, shifts]) = match kind(node)? {
        Kind::Multiply => {
            let (data, by) = either_way(node, Kind::Multiply).find_map(channels)?;
            let zeros = vec![0.0; by.len()];
            (data, [by, zeros])
        }
        Kind::Add => {
            let (data, by) = either_way(node, Kind::Add).find_map(channels)?;
            (data, [vec![1.0; by.len()], by])
        }
        Kind::Subtract => {
            let (data, by) = channels(operands(node, Kind::Subtract)?)?;
            (data, [vec![1.0; by.len()], by.into_iter().map(|x| -x).collect()])
        }
        _ => return None,
    };
    let all = quantizers.iter().zip(factors.iter().zip(&shifts));
    *quantizers = all.map(|(to, (by, add))| to.of_scaled(*by, *add)).collect::<Option<_>>()?;
    Some(data)
}

/// A constant with one f32 for each channel of NCHW data of these sizes, or one for all.
fn per_channel(net: &Net, constant: ValueId, data: &[usize]) -> Option<Vec<f32>> {
    let channels = *data.get(1)?;
    let constant = net.values[constant].constant.as_ref()?;
    match (constant.as_slice::<f32>()?, constant.sizes()) {
        (&[one], _) => Some(vec![one; channels]),
        (all, own @ [1, count, rest @ ..]) => {
            let is_aligned = own.len() == data.len() && rest.iter().all(|n| *n == 1);
            (is_aligned && *count == channels).then(|| all.to_vec())
        }
        _ => None,
    }
}
