//! Quantize on write. A FakeQuantize whose result is stored as u8 runs while the element-wise
//! operations or the Concat before it write: a quarter of the bytes are written, and read.

use crate::fused::element_wise::{ChainShape, ElementWiseChain};
use crate::fused::quantize::QuantizeValues;
use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::kind;
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, Quantize, QuantizerInput, clamped};
use crate::passes::context::PassCx;
use crate::passes::fusion::concat::{along_rows, feeding};
use crate::passes::fusion::element_wise::{AnyProducer, as_post_op};
use crate::passes::fusion::post_ops::attached;
use crate::tensor::Tensor;
use infer::ops::binary::Kind;
use kernels::gemm::BLOCK;
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn quantize(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| {
        behind_concat(rewriter, node).or_else(|| behind_chain(rewriter, node))
    })
}

/// Whether the node that makes `value` will quantize it, if it is stored as u8.
pub(super) fn will_quantize(rewriter: &GraphRewriter<'_>, value: ValueId) -> bool {
    let Some(maker) = rewriter.maker(value).filter(|_| rewriter.uses(value) == 1) else {
        return false;
    };
    // The gates of channels are multiplied by the convolution that reads their product.
    let is_gated = kind(maker) == Some(Kind::Multiply)
        && maker.inputs.iter().all(|v| rewriter.net.values[*v].constant.is_none());
    let is_chain = || {
        let step = as_post_op(rewriter.net, maker, &AnyProducer);
        step.is_some_and(|step| matches!(step.shape, ChainShape::Rows(columns) if columns <= BLOCK))
    };
    !is_gated && (along_rows(rewriter.net, maker).is_some() || is_chain())
}

/// The Concat before a FakeQuantize that is stored as u8, with its quantizers.
fn behind_concat(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let &QuantizeValues { writes, columns } = node.fused()?;
    let value = *node.inputs.first()?;
    let mut concat = feeding(rewriter, value)?;
    let mut made = rewriter.take(value)?;
    let chain = Chain { post_ops: &concat.post_ops, inputs: &made.inputs, columns };
    let absorbs = !concat.post_ops.is_empty()
        && concat.branches.iter().all(|branch| branch.post_ops.is_empty());
    let quantizers = if absorbs { chain.absorbed(rewriter.net, (writes, node)) } else { None };
    if let Some((parameters, most)) = quantizers {
        concat.post_ops.clear();
        made.inputs.truncate(concat.branches.len());
        let input = made.inputs.len();
        concat.writes = Some(Quantize::Columns(QuantizerInput { input, most }));
        made.inputs.push(rewriter.add(Value::known(parameters)));
    } else {
        concat.writes = Some(writes.moved(made.inputs.len() - 1));
        made.inputs.extend(node.inputs[1..].iter().copied());
    }
    let operation = Operation::Fused(Arc::new(concat));
    Some(Node { operation, outputs: node.outputs.clone(), layer: node.layer, ..made })
}

/// The element-wise operations before a FakeQuantize that is stored as u8, with its quantizers: a
/// chain, or quantizers of their own if these absorb all of them.
fn behind_chain(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let &QuantizeValues { writes, columns } = node.fused()?;
    let value = *node.inputs.first()?;
    let (mut made, mut chain) = chain(rewriter, value)?;
    let ChainShape::Rows(own) = chain.shape else { return None };
    if own > BLOCK || own != columns && !matches!(writes, Quantize::Uniform(_)) {
        return None;
    }
    rewriter.take(value)?;
    let post_ops = Chain { post_ops: &chain.post_ops, inputs: &made.inputs, columns };
    let fits = own == columns && rewriter.net.is_f32(made.inputs[0]);
    let quantizers = if fits { post_ops.absorbed(rewriter.net, (writes, node)) } else { None };
    if let Some((parameters, most)) = quantizers {
        let writes = Quantize::Columns(QuantizerInput { input: 1, most });
        let operation = Operation::Fused(Arc::new(QuantizeValues { writes, columns }));
        let inputs = smallvec![made.inputs[0], rewriter.add(Value::known(parameters))];
        return Some(Node { operation, inputs, ..node.clone() });
    }
    chain.writes = Some(writes.moved(made.inputs.len() - 1));
    made.inputs.extend(node.inputs[1..].iter().copied());
    let operation = Operation::Fused(Arc::new(chain));
    Some(Node { operation, outputs: node.outputs.clone(), layer: node.layer, ..made })
}

/// The element-wise operations that make a value which only the visited node reads.
fn chain(rewriter: &mut GraphRewriter<'_>, value: ValueId) -> Option<(Node, ElementWiseChain)> {
    let maker = rewriter.only_for(value)?.clone();
    if let Some(chain) = maker.fused::<ElementWiseChain>().cloned() {
        return Some((maker, chain));
    }
    let step = as_post_op(rewriter.net, &maker, &AnyProducer)?;
    let mut chain = ElementWiseChain::new(step.shape);
    let mut made = Node { inputs: smallvec![step.input], ..maker };
    chain.post_ops.push(attached(rewriter, &mut made, step.op));
    Some((made, chain))
}

/// Post-ops of rows, with the inputs that hold their operands.
struct Chain<'a> {
    post_ops: &'a [PostOp],
    inputs: &'a [ValueId],
    columns: usize,
}

impl Chain<'_> {
    /// The parameters of quantizers that do what the post-ops and the quantizers behind them do,
    /// if the post-ops are scales and shifts of columns and an activation that only clamps, and the
    /// largest quantized value.
    fn absorbed(&self, net: &Net, (writes, node): (Quantize, &Node)) -> Option<(Tensor, f32)> {
        let quantizers = writes.constant(|input| constant(net, &node.inputs, input))?;
        let affine = match self.post_ops {
            [affine @ .., last] if let Some((low, high)) = clamped(last) => {
                quantizers.clamps(low, high).then_some(affine)?
            }
            affine => affine,
        };
        let (mut scales, mut shifts) = (vec![1.0; self.columns], vec![0.0; self.columns]);
        for op in affine {
            let (PostOp::Multiply(by) | PostOp::Add(by)) = op else { return None };
            let by = self.of_columns(net, *by)?;
            for ((scale, shift), by) in scales.iter_mut().zip(&mut shifts).zip(by) {
                if matches!(op, PostOp::Multiply(_)) {
                    (*scale, *shift) = (*scale * by, *shift * by);
                } else {
                    *shift += by;
                }
            }
        }
        let (parameters, most) = quantizers.of_scaled(&scales, &shifts)?;
        Some((Tensor::from_vec(&[parameters.len()], parameters).ok()?, most))
    }

    /// A constant operand, for each column.
    fn of_columns(&self, net: &Net, operand: Operand) -> Option<Vec<f64>> {
        match operand {
            Operand::Number(number) => Some(vec![number.into(); self.columns]),
            Operand::Columns(input) => {
                let own = constant(net, self.inputs, input)?;
                (own.len() == self.columns).then(|| own.iter().map(|x| (*x).into()).collect())
            }
            Operand::Matrix(_) => None,
        }
    }
}

/// The values of a constant input.
fn constant<'n>(net: &'n Net, inputs: &[ValueId], input: usize) -> Option<&'n [f32]> {
    net.values[*inputs.get(input)?].constant.as_ref()?.as_slice()
}
