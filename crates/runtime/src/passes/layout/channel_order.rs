//! Output channel reordering. A pixel shuffle behind a convolution moves single elements: those
//! that become neighbours are not stored side by side. With its filters in another order, the
//! convolution stores them so, and the pixel shuffle moves runs. The bits stay.

use crate::fused::quantized::IntegerConvolution;
use crate::fused::transpose::{Permute, Reinterpret};
use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp, Quantize};
use crate::passes::context::PassCx;
use crate::passes::layout::nhwc::reordered;
use crate::tensor::{Element, Sizes, Tensor};
use infer::{Fact, PartialShape};
use ir::ElementType;
use kernels::copy::CopyPlan;
use kernels::par::Threads;
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn reorder(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| match reordering(rewriter, &node) {
        Some(nodes) => {
            rewriter.changed();
            nodes.into_iter().for_each(|node| rewriter.keep(node));
        }
        None => rewriter.keep(node),
    })
}

/// A convolution, the Reshape that splits its channels, and the transposition of the parts, in
/// which the convolution has its channels in the order of the transposed parts.
fn reordering(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<[Node; 3]> {
    let order = &node.fused::<Permute>()?.order;
    let &[split] = &node.inputs[..] else { return None };
    let reshape = rewriter.only_for(split)?;
    reshape.fused::<Reinterpret>()?;
    let whole = *reshape.inputs.first()?;
    // Nothing else reads the convolution in its old order.
    let maker = rewriter.only_for(whole)?.clone();
    let sizes = rewriter.net.sizes(split)?;
    let first = channel_axes(&sizes, maker.fused::<IntegerConvolution>()?.columns)?;
    let turned: Sizes = order.iter().copied().filter(|axis| *axis >= first).collect();
    if turned.is_sorted() {
        return None;
    }
    let parts = Parts { sizes: &sizes[first..], order: turned.iter().map(|a| a - first).collect() };
    let convolution = parts.convolution(rewriter, maker)?;
    let mut reshape = rewriter.take(split)?;
    rewriter.take(whole)?;
    let place = |axis: &usize| match turned.iter().position(|other| other == axis) {
        Some(at) => first + at,
        None => *axis,
    };
    let all: Sizes = (0..first).chain(turned.iter().copied()).collect();
    let like = &rewriter.net.values[split];
    let shape = PartialShape::fixed(&reordered(&sizes, &all));
    let fact = Fact::new(like.fact.element_type, shape);
    let split = rewriter.add_for_one(Value::of(fact));
    reshape.outputs = smallvec![split];
    let order: Sizes = order.iter().map(place).collect();
    let operation = Operation::Fused(Arc::new(Permute { order }));
    let permute = Node { operation, inputs: smallvec![split], ..node.clone() };
    Some([convolution, reshape, permute])
}

/// The first of the last axes that the channels are split into.
fn channel_axes(sizes: &[usize], channels: usize) -> Option<usize> {
    (0..sizes.len()).rev().find(|axis| sizes[*axis..].iter().product::<usize>() == channels)
}

/// The parts of the channels, and their new order.
struct Parts<'a> {
    sizes: &'a [usize],
    order: Sizes,
}

impl Parts<'_> {
    /// The convolution with its channels in the new order.
    fn convolution(&self, rewriter: &mut GraphRewriter<'_>, mut node: Node) -> Option<Node> {
        let conv = node.fused::<IntegerConvolution>()?;
        let is_plain = !conv.alone()?.has_groups();
        let mut reordered = vec![1, 2];
        for op in &conv.post_ops {
            match *op {
                PostOp::Add(Operand::Columns(input))
                | PostOp::Multiply(Operand::Columns(input)) => {
                    reordered.push(input);
                }
                PostOp::Add(Operand::Number(_))
                | PostOp::Multiply(Operand::Number(_))
                | PostOp::Apply(_)
                | PostOp::Quantize { .. } => {}
                _ => return None,
            }
        }
        if !is_plain || matches!(conv.writes, Some(Quantize::Columns(_))) {
            return None;
        }
        let tensors: Vec<Tensor> = reordered
            .iter()
            .map(|input| self.tensor(rewriter.net, *node.inputs.get(*input)?))
            .collect::<Option<_>>()?;
        for (input, tensor) in reordered.into_iter().zip(tensors) {
            node.inputs[input] = rewriter.add(Value::known(tensor));
        }
        Some(node)
    }

    /// A constant that begins with the channels, or has nothing else.
    fn tensor(&self, net: &Net, value: ValueId) -> Option<Tensor> {
        let constant = net.values[value].constant.as_ref()?;
        match constant.element_type() {
            ElementType::I8 => self.rows::<i8>(constant),
            ElementType::F32 => self.rows::<f32>(constant),
            _ => None,
        }
    }

    fn rows<T: Element>(&self, constant: &Tensor) -> Option<Tensor> {
        let channels: usize = self.sizes.iter().product();
        let row = constant.count().checked_div(channels).filter(|row| *row > 0)?;
        let is_whole = constant.sizes().first() == Some(&channels) || row == 1;
        let sizes: Sizes = self.sizes.iter().copied().chain([row]).collect();
        let order: Sizes = self.order.iter().copied().chain([self.order.len()]).collect();
        let from =
            constant.as_slice::<T>().filter(|all| is_whole && all.len() == row * channels)?;
        let mut to = from.to_vec();
        CopyPlan::transpose(&sizes, &order).run(Threads::single(), from, &mut to);
        Tensor::from_vec(constant.sizes(), to).ok()
    }
}
