//! Regions around convolutions compute in NHWC. Transposes are inserted only at the boundaries of a
//! region.
//!
//! Each NCHW value `v` of a region has an NHWC value `last[v]`. A reader outside the region gets a
//! Transpose of it.

mod interpolate;
mod normalize;
mod pixel_shuffle;

use crate::fused::convolution::{Bf16Ports, ChannelsLast};
use crate::fused::pool::{Elements, PoolLast};
use crate::fused::transpose::{Permute, Reinterpret};
use crate::graph::net::{FusedOp, Net, Node, Operation, Value, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::ops::convolution::geometry;
use crate::ops::pool;
use crate::passes::context::PassCx;
use crate::passes::layout::nhwc::{moved, reordered, to_first, to_last};
use crate::passes::layout::padding::Padded;
use crate::tensor::{Sizes, Tensor};
use infer::ops::binary::Binary;
use infer::ops::concat::Concat;
use infer::ops::convolution::Convolution;
use infer::ops::fake_quantize::FakeQuantize;
use infer::ops::group_normalization::GroupNormalization;
use infer::ops::interpolate::Interpolate;
use infer::ops::normalize::Normalize;
use infer::ops::pad::Pad;
use infer::ops::pool::Pool;
use infer::ops::prelu::PRelu;
use infer::ops::reduce::Reduce;
use infer::ops::reshape::Reshape;
use infer::ops::slice::Slice;
use infer::ops::space_to_depth::SpaceToDepth;
use infer::ops::split::Split;
use infer::ops::transpose::{self, Transpose};
use infer::ops::unary::Unary;
use infer::rules::axes::{normalize, normalize_unique};
use infer::rules::broadcast::AutoBroadcast;
use infer::{Fact, PartialShape};
use ir::ElementType;
use kernels::conv::ChannelsPool;
use kernels::copy::CopyPlan;
use kernels::par::Threads;
use smallvec::{SmallVec, smallvec};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(crate) fn layout(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut layout = ChannelsLastPass::default();
    let changes = GraphRewriter::over(net, |rewriter, node| {
        if layout.convert(rewriter, &node).is_some() {
            return rewriter.changed();
        }
        for &input in &node.inputs {
            layout
                .restore(rewriter.net, input, node.layer)
                .into_iter()
                .for_each(|n| rewriter.keep(n));
        }
        rewriter.keep(node);
    });
    let outputs = net.outputs.clone();
    let layer = net.nodes.last().map_or(0, |n| n.layer);
    let restored = outputs.into_iter().filter_map(|v| layout.restore(net, v, layer));
    let restored: Vec<Node> = restored.collect();
    net.nodes.extend(restored);
    changes
}

#[derive(Default)]
struct ChannelsLastPass {
    /// The NHWC value of each NCHW value.
    last: HashMap<ValueId, ValueId>,
    /// Values of which only the NHWC form is computed so far.
    pending: HashSet<ValueId>,
}

fn f32_of(sizes: &[usize]) -> Value {
    Value::of(Fact::new(ElementType::F32, PartialShape::fixed(sizes)))
}

fn made(made: impl FusedOp, inputs: &[ValueId], output: ValueId, layer: usize) -> Node {
    let operation = Operation::Fused(Arc::new(made));
    Node { operation, inputs: inputs.into(), outputs: smallvec![output], layer }
}

/// Rewrites a node with one output, some of whose inputs are NHWC.
type Rule =
    for<'r, 'n> fn(&mut ChannelsLastPass, &'r mut GraphRewriter<'n>, &Node, ValueId) -> Option<()>;

/// How a node within a region is rewritten; `None` if the region ends before it.
fn rule_of(node: &Node) -> Option<Rule> {
    macro_rules! rules {
        ($($operation:ty => $rule:ident),* $(,)?) => {
            $(if node.is::<$operation>().is_some() {
                return Some(ChannelsLastPass::$rule);
            })*
        };
    }
    rules! {
        Unary => unary,
        Binary => binary,
        FakeQuantize => fake_quantize,
        Concat => concat,
        Reduce => reduce,
        PRelu => prelu,
        GroupNormalization => group_normalization,
        Normalize => normalize,
        Interpolate => interpolate,
        Slice => slice,
        Pad => pad,
        Reshape => reshape,
        SpaceToDepth => space_to_depth,
    }
    None
}

impl ChannelsLastPass {
    /// A Transpose back to NCHW, if only the NHWC form of the value is computed so far.
    fn restore(&mut self, net: &Net, value: ValueId, layer: usize) -> Option<Node> {
        if !self.pending.remove(&value) {
            return None;
        }
        let rank = net.sizes(value)?.len();
        Some(made(Permute { order: to_first(rank) }, &[self.last[&value]], value, layer))
    }

    /// The NHWC value; a Transpose makes it if there is none yet.
    fn transposed(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        value: ValueId,
        layer: usize,
    ) -> Option<ValueId> {
        if let Some(&last) = self.last.get(&value) {
            return Some(last);
        }
        let sizes = rewriter.net.sizes(value)?;
        let order = to_last(sizes.len());
        let quant_params = rewriter.net.values[value].quant_params;
        let last = rewriter.add(Value { quant_params, ..f32_of(&reordered(&sizes, &order)) });
        rewriter.keep(made(Permute { order }, &[value], last, layer));
        self.last.insert(value, last);
        Some(last)
    }

    /// A new NHWC value that stands for `value`.
    fn result(&mut self, rewriter: &mut GraphRewriter<'_>, value: ValueId) -> Option<ValueId> {
        let sizes = rewriter.net.sizes(value)?;
        let quant_params = rewriter.net.values[value].quant_params;
        let last = rewriter
            .add(Value { quant_params, ..f32_of(&reordered(&sizes, &to_last(sizes.len()))) });
        self.last.insert(value, last);
        self.pending.insert(value);
        Some(last)
    }

    /// Rewrites a node to work on NHWC values. `None` if it cannot or should not.
    fn convert(&mut self, rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<()> {
        let (&output, others) = node.outputs.split_first()?;
        let static_f32 = rewriter.net.is_f32(output) && rewriter.net.is_f32(*node.inputs.first()?);
        if !static_f32 {
            return None;
        }
        if node.is::<Split>().is_some() && self.pending.contains(&node.inputs[0]) {
            return self.split(rewriter, node);
        }
        if others.iter().any(|v| rewriter.uses(*v) > 0) {
            return None;
        }
        if node.is::<Pool>().is_some() && self.pending.contains(&node.inputs[0]) {
            return self.pool(rewriter, node, output);
        }
        if !others.is_empty() {
            return None;
        }
        if node.is::<Convolution>().is_some() {
            return self.convolution(rewriter, node, output);
        }
        if node.is::<Transpose>().is_some() {
            return self.transpose(rewriter, node, output);
        }
        if !node.inputs.iter().any(|v| self.pending.contains(v)) {
            return self.pixel_shuffle(rewriter, node, output);
        }
        rule_of(node).and_then(|rule| rule(self, rewriter, node, output))
    }

    fn unary(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let mut inputs = node.inputs.clone();
        inputs[0] = *self.last.get(&node.inputs[0])?;
        self.rewritten(rewriter, node, inputs, output)
    }

    /// Keeps the same operation on other inputs, with an NHWC output.
    fn rewritten(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        inputs: SmallVec<[ValueId; 4]>,
        output: ValueId,
    ) -> Option<()> {
        let outputs = smallvec![self.result(rewriter, output)?];
        rewriter.keep(Node { inputs, outputs, ..node.clone() });
        Some(())
    }

    fn convolution(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rule = node.is::<Convolution>()?;
        let &[data, filters, ..] = &node.inputs[..] else { return None };
        let net = &*rewriter.net;
        let sizes = [net.sizes(data)?, net.sizes(filters)?, net.sizes(output)?];
        if !net.is_f32(filters) {
            return None;
        }
        let mut conv = geometry(rule, [&sizes[0], &sizes[1], &sizes[2]]);
        let is_transposed = rule.kind().is_transposed();
        // The input, in NHWC if that exists by now. If a Pad makes it, the convolution reads the
        // input of the Pad instead.
        let last = self.last.get(&data).copied();
        let mut from = last.unwrap_or(data);
        let padded = Padded::of(rewriter, (from, filters), last.is_some());
        if let Some(padded) = padded.filter(|_| !is_transposed) {
            padded.read_by(&mut conv);
            from = padded.from;
        }
        let channels_first = !is_transposed && conv.reads_channels_first() && last.is_none();
        let input = if channels_first || last.is_some() {
            from
        } else {
            self.transposed(rewriter, from, node.layer)?
        };
        let last = self.result(rewriter, output)?;
        let conv = ChannelsLast {
            conv,
            is_transposed,
            channels_first,
            gates: None,
            concat_inputs: 0..0,
            post_ops: Vec::new(),
            gives_means: false,
            quantized_input: None,
            writes: None,
            bf16: Bf16Ports::default(),
        };
        rewriter.keep(made(conv, &[input, filters], last, node.layer));
        Some(())
    }

    /// MaxPool qualifies only if nothing reads its output of indices.
    fn pool(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rule = node.is::<Pool>()?;
        let (data, result) = (rewriter.net.sizes(node.inputs[0])?, rewriter.net.sizes(output)?);
        let (axes, pooling) = pool::geometry(rule, &data, &result);
        let pool = ChannelsPool { batch: data[0], axes, channels: data[1], pooling };
        let inputs = [self.last[&node.inputs[0]]];
        let last = self.result(rewriter, output)?;
        rewriter.keep(made(
            PoolLast { pool, elements: Elements::Values },
            &inputs,
            last,
            node.layer,
        ));
        Some(())
    }

    /// A Transpose to or from NHWC makes no copy: it only links the two values.
    fn transpose(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let input = node.inputs[0];
        let rank = rewriter.net.sizes(input)?.len();
        let value = rewriter.net.values[*node.inputs.get(1)?].fact.value.as_deref()?.i64s()?;
        let order: Sizes = transpose::order(&value, rank).ok()?.into_iter().collect();
        if rank < 3 {
            return None;
        }
        if self.pending.contains(&input) && order == to_last(rank) {
            rewriter.replace(node, output, self.last[&input]);
            return Some(());
        }
        if order == to_first(rank) && !self.last.contains_key(&input) {
            self.last.insert(output, input);
            self.pending.insert(output);
            return Some(());
        }
        None
    }

    /// Operands of the same rank are transposed. Constants are transposed at compile time.
    fn binary(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rank = rewriter.net.sizes(output)?.len();
        let numpy = node.is::<Binary>()?.broadcast() == AutoBroadcast::Numpy;
        let fits = |&v: &ValueId| {
            let small = rewriter.net.values[v].constant.is_some();
            let sizes = rewriter.net.sizes(v).unwrap_or_default();
            rewriter.net.is_f32(v) && (sizes.len() == rank || (small && sizes.len() < rank))
        };
        if !numpy || !node.inputs.iter().all(fits) {
            return None;
        }
        let mut inputs = SmallVec::new();
        for &input in &node.inputs {
            inputs.push(match rewriter.net.values[input].constant.clone() {
                Some(constant) => rewriter.add(Value::known(turned_constant(&constant, rank)?)),
                None => self.transposed(rewriter, input, node.layer)?,
            });
        }
        self.rewritten(rewriter, node, inputs, output)
    }

    /// Constant limits are transposed with the input.
    fn fake_quantize(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rank = rewriter.net.sizes(output)?.len();
        let numpy = node.is::<FakeQuantize>()?.broadcast() == AutoBroadcast::Numpy;
        let (&data, limits) = node.inputs.split_first()?;
        let mut inputs = smallvec![*self.last.get(&data).filter(|_| numpy)?];
        for &limit in limits {
            let limit = rewriter.net.values[limit]
                .constant
                .clone()
                .filter(|_| rewriter.net.is_f32(limit))?;
            inputs.push(rewriter.add(Value::known(turned_constant(&limit, rank)?)));
        }
        self.rewritten(rewriter, node, inputs, output)
    }

    /// The slopes of the channels become the last axis.
    fn prelu(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let &[data, slope] = &node.inputs[..] else { return None };
        let sizes = rewriter.net.sizes(data)?;
        let own =
            rewriter.net.values[slope].constant.clone().filter(|_| rewriter.net.is_f32(slope))?;
        let aligned = PRelu::aligned(&sizes, own.sizes());
        let own = Tensor::from_vec(&aligned, own.as_slice::<f32>()?.to_vec()).ok()?;
        let slope = rewriter.add(Value::known(turned_constant(&own, sizes.len())?));
        self.rewritten(rewriter, node, smallvec![self.last[&data], slope], output)
    }

    /// An operation along the axes that constant input `input` names.
    fn along_axes(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
        input: usize,
    ) -> Option<()> {
        let rank = rewriter.net.sizes(node.inputs[0])?.len();
        let axes = rewriter.net.values[*node.inputs.get(input)?].fact.value.as_deref()?.i64s()?;
        let axes = normalize_unique(&axes, rank, input).ok()?;
        let values: Vec<i64> = axes.iter().map(|&axis| moved(axis, rank) as i64).collect();
        let mut inputs = node.inputs.clone();
        inputs[0] = *self.last.get(&node.inputs[0])?;
        inputs[input] = rewriter.list(values)?;
        self.rewritten(rewriter, node, inputs, output)
    }

    /// A Split along channels takes a run of channels from each position.
    fn split(&mut self, rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<()> {
        let rank = rewriter.net.sizes(node.inputs[0])?.len();
        if !node.outputs.iter().all(|v| rewriter.net.is_f32(*v)) {
            return None;
        }
        let axis = rewriter.net.values[*node.inputs.get(1)?].fact.value.as_deref()?.i64s()?;
        let axis = normalize(*axis.first()?, rank).ok()?;
        let axis = Tensor::from_vec(&[], vec![moved(axis, rank) as i64]).ok()?;
        let mut inputs = node.inputs.clone();
        inputs[0] = *self.last.get(&node.inputs[0])?;
        inputs[1] = rewriter.add(Value::known(axis));
        let mut outputs = SmallVec::new();
        for &output in &node.outputs {
            outputs.push(self.result(rewriter, output)?);
        }
        rewriter.keep(Node { inputs, outputs, ..node.clone() });
        Some(())
    }

    fn slice(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        if node.inputs.len() == 5 {
            return self.along_axes(rewriter, node, output, 4);
        }
        let count = rewriter.net.sizes(*node.inputs.get(1)?)?.iter().product::<usize>();
        let axes = rewriter.list((0..count as i64).collect())?;
        let mut node = node.clone();
        node.inputs.push(axes);
        self.along_axes(rewriter, &node, output, 4)
    }

    fn pad(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let order = to_last(rewriter.net.sizes(output)?.len());
        let mut inputs = node.inputs.clone();
        inputs[0] = *self.last.get(&node.inputs[0])?;
        for input in &mut inputs[1..3] {
            let pads = rewriter.net.values[*input].fact.value.as_deref()?.i64s()?;
            let pads = order.iter().map(|&axis| pads.get(axis).copied()).collect::<Option<_>>()?;
            *input = rewriter.list(pads)?;
        }
        self.rewritten(rewriter, node, inputs, output)
    }

    fn concat(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rank = rewriter.net.sizes(output)?.len();
        let axis = node.is::<Concat>()?.axis(rank).ok()?;
        let mut inputs = SmallVec::new();
        for &input in &node.inputs {
            inputs.push(self.transposed(rewriter, input, node.layer)?);
        }
        let operation = Operation::source(Concat::along(moved(axis, rank)))?;
        let outputs = smallvec![self.result(rewriter, output)?];
        rewriter.keep(Node { operation, inputs, outputs, layer: node.layer });
        Some(())
    }

    fn reduce(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let rank = rewriter.net.sizes(node.inputs[0])?.len();
        let axes = rewriter.net.values[*node.inputs.get(1)?].fact.value.as_deref()?.i64s()?;
        let axes = normalize_unique(&axes, rank, 1).ok()?;
        let keeps = node.is::<Reduce>()?.keep_dims();
        let all_spatial = (2..rank).all(|axis| axes.contains(&axis));
        if !keeps && !all_spatial {
            return None;
        }
        let values: Vec<i64> = axes.iter().map(|&axis| moved(axis, rank) as i64).collect();
        let axes = rewriter.list(values)?;
        let inputs = smallvec![self.last[&node.inputs[0]], axes];
        if keeps {
            return self.rewritten(rewriter, node, inputs, output);
        }
        rewriter.keep(Node { inputs, ..node.clone() });
        Some(())
    }

    /// A Reshape that changes spatial axes only.
    fn reshape(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let (from, to) = (rewriter.net.sizes(node.inputs[0])?, rewriter.net.sizes(output)?);
        if to.len() < 3 || from.len() < 3 || from[..2] != to[..2] {
            return None;
        }
        let inputs = [self.last[&node.inputs[0]]];
        let last = self.result(rewriter, output)?;
        rewriter.keep(made(Reinterpret, &inputs, last, node.layer));
        Some(())
    }
}

/// A constant in NHWC, as an operand for tensors of `rank` axes.
fn turned_constant(constant: &Tensor, rank: usize) -> Option<Tensor> {
    let mut sizes: Sizes = smallvec![1; rank - constant.sizes().len()];
    sizes.extend_from_slice(constant.sizes());
    let order = to_last(rank);
    let mut transposed = vec![0f32; constant.count()];
    let plan = CopyPlan::transpose(&sizes, &order);
    plan.run(Threads::single(), constant.as_slice::<f32>()?, &mut transposed);
    Tensor::from_vec(&reordered(&sizes, &order), transposed).ok()
}
