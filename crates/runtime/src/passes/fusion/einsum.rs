//! Einsum to MatMul. Movements and one MatMul are known to other passes: constant operands are
//! packed once, movements are read through, and attention is recognised.

use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::tensor::Sizes;
use infer::ops::einsum::Einsum;
use infer::ops::matmul::MatMul;
use infer::ops::transpose::Transpose;
use infer::{Fact, Op, PartialShape};
use ir::ElementType;
use smallvec::{SmallVec, smallvec};

pub(crate) fn to_matmul(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| {
        let made =
            Equation::of(rewriter, &node).and_then(|equation| equation.write(rewriter, &node));
        match made {
            // `replace` also counts the change.
            Some(value) => rewriter.replace(&node, node.outputs[0], value),
            None => rewriter.keep(node),
        }
    })
}

/// An axis of an operand: its label and its size.
type Axis = (usize, usize);

/// Two operands in which each label is one axis of one size, and the labels of the result.
struct Equation {
    operands: [Vec<Axis>; 2],
    result: Vec<usize>,
}

impl Equation {
    /// The equation of an f32 node. `None` if an operand has a repeated label (a diagonal), or is
    /// summed or broadcast by itself.
    fn of(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Equation> {
        let rule = node.is::<Einsum>()?;
        let &[a, b] = &node.inputs[..] else { return None };
        let net = &*rewriter.net;
        let sizes = [net.sizes(a)?, net.sizes(b)?];
        let is_f32 = node.inputs.iter().chain(&node.outputs).all(|v| net.is_f32(*v));
        let (labels, result) = rule.axes(&[sizes[0].len(), sizes[1].len()]).ok()?;
        let axes = |i: usize| -> Vec<Axis> {
            labels[i].iter().copied().zip(sizes[i].iter().copied()).collect()
        };
        let operands = [axes(0), axes(1)];
        let [left, right] = &operands;
        let once = |own: &[Axis]| own.iter().enumerate().all(|(i, (l, _))| !has(&own[..i], *l));
        let alone = |own: &[Axis], other: &[Axis]| {
            own.iter().all(|(label, size)| match find(other, *label) {
                Some(same) => same == *size,
                None => result.contains(label),
            })
        };
        let is_plain = once(left) && once(right) && alone(left, right) && alone(right, left);
        let is_empty = sizes.iter().flatten().any(|size| *size == 0);
        (is_f32 && is_plain && !is_empty).then_some(Equation { operands, result })
    }

    /// Writes the equation as a MatMul and returns its value.
    fn write(&self, rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<ValueId> {
        let [left, right] = &self.operands;
        let of_result = |l: bool, r: bool| -> Vec<usize> {
            let wanted = |label: &&usize| has(left, **label) == l && has(right, **label) == r;
            self.result.iter().filter(wanted).copied().collect()
        };
        let (batch, rows, columns) =
            (of_result(true, true), of_result(true, false), of_result(false, true));
        let summed = left.iter().map(|(label, _)| *label).filter(|l| !self.result.contains(l));
        let summed: Vec<usize> = summed.collect();
        let size = |labels: &[usize]| -> usize {
            labels.iter().filter_map(|l| find(left, *l).or(find(right, *l))).product()
        };
        let sizes = |labels: &[usize]| -> Sizes { labels.iter().map(|l| size(&[*l])).collect() };
        let matrices = |m: &[usize], n: &[usize]| -> Sizes {
            sizes(&batch).into_iter().chain([size(m), size(n)]).collect()
        };
        // MatMul can read its second operand transposed.
        let transposed = right.last().is_some_and(|(label, _)| summed.contains(label));
        let (outer, inner) = if transposed { (&columns, &summed) } else { (&summed, &columns) };
        let mut writer = Writer { rewriter, layer: node.layer };
        let transpose =
            |writer: &mut Writer<'_, '_>, i: usize, outer: &[usize], inner: &[usize]| {
                let own: Vec<usize> = self.operands[i].iter().map(|(label, _)| *label).collect();
                let order = [&batch[..], outer, inner].concat();
                let moved = writer.transposed(node.inputs[i], (&own, &order), &sizes(&order))?;
                writer.reshaped(moved, &matrices(outer, inner))
            };
        let a = transpose(&mut writer, 0, &rows, &summed)?;
        let b = transpose(&mut writer, 1, outer, inner)?;
        let matmul = MatMul::transposing(false, transposed);
        let c = writer.node(matmul, smallvec![a, b], &matrices(&rows, &columns))?;
        let order = [&batch[..], &rows, &columns].concat();
        let c = writer.reshaped(c, &sizes(&order))?;
        writer.transposed(c, (&order, &self.result), &sizes(&self.result))
    }
}

fn find(axes: &[Axis], label: usize) -> Option<usize> {
    axes.iter().find(|(own, _)| *own == label).map(|(_, size)| *size)
}

fn has(axes: &[Axis], label: usize) -> bool {
    find(axes, label).is_some()
}

/// Adds nodes in place of one.
struct Writer<'s, 'n> {
    rewriter: &'s mut GraphRewriter<'n>,
    layer: usize,
}

impl Writer<'_, '_> {
    fn node(
        &mut self,
        op: impl Op,
        inputs: SmallVec<[ValueId; 4]>,
        sizes: &[usize],
    ) -> Option<ValueId> {
        let fact = Fact::new(ElementType::F32, PartialShape::fixed(sizes));
        let operation = Operation::source(op)?;
        let output = self.rewriter.add(Value::of(fact));
        let outputs = smallvec![output];
        self.rewriter.keep(Node { operation, inputs, outputs, layer: self.layer });
        Some(output)
    }

    fn numbers(&mut self, values: impl Iterator<Item = usize>) -> Option<ValueId> {
        self.rewriter.list(values.map(|v| i64::try_from(v).ok()).collect::<Option<_>>()?)
    }

    /// A Transpose of a value, with axes given by label.
    fn transposed(
        &mut self,
        value: ValueId,
        (own, order): (&[usize], &[usize]),
        sizes: &[usize],
    ) -> Option<ValueId> {
        if own == order {
            return Some(value);
        }
        let places = order.iter().filter_map(|label| own.iter().position(|l| l == label));
        let order = self.numbers(places)?;
        self.node(Transpose, smallvec![value, order], sizes)
    }

    /// A Reshape of a value.
    fn reshaped(&mut self, value: ValueId, sizes: &[usize]) -> Option<ValueId> {
        self.rewriter.reshaped(value, sizes, self.layer)
    }
}
