//! Re-parameterization, as of RepVGG and MobileOne: convolutions of the same data whose results are
//! added become one, whose filters are the sums of theirs. A smaller kernel lies within the larger
//! one, and data that a constant scales and shifts, as a batch normalization leaves them, are its
//! centre. The rounding differs.

use super::scale_shift::{Change, bias_of_any, change};
use crate::fused::convolution::ChannelsLast;
use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::graph::pattern::either_way;
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::post_ops::{Operand, PostOp};
use crate::passes::context::PassCx;
use crate::tensor::Tensor;
use crate::tensor::convert::convert_tensor;
use infer::ops::binary::Kind;
use infer::ops::convert::Convert;
use ir::ElementType;
use kernels::conv::Convolution;
use kernels::gemm::Window;
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn merge(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, merged)
}

/// The convolution whose result is the sum that a node computes.
fn merged(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let &[output] = &node.outputs[..] else { return None };
    let (made, conv, sum, branches) = either_way(node, Kind::Add).find_map(|[a, b]| {
        let (large, other) = (branch(rewriter, a)?, branch(rewriter, b)?);
        let is_whole = |value| rewriter.net.sizes(value) == rewriter.net.sizes(output);
        let fits = is_whole(a) && is_whole(b) && large.data == other.data;
        let Term::Convolution(conv, _) = large.term.clone() else { return None };
        // Filters that are stored in fewer bits are converted here, so only where it may pay.
        let filters = fits.then(|| with_term(rewriter, &large.term, &other.term))??;
        let bias: Vec<f32> = large.bias.iter().zip(&other.bias).map(|(a, b)| a + b).collect();
        let is_finite = filters.iter().chain(&bias).all(|x| x.is_finite());
        let made = large.nodes[0];
        is_finite.then_some((made, conv, (filters, bias), [large.nodes, other.nodes]))
    })?;
    let base = rewriter.maker(made)?.clone();
    let sizes = rewriter.net.sizes(base.inputs[1])?;
    let data = base.inputs[0];
    // Before the branches go: constants that nothing reads are freed.
    rewriter.read_again(data);
    for value in branches.into_iter().flatten() {
        let gone = rewriter.take(value)?;
        rewriter.release(&gone.inputs);
    }
    let (filters, bias) = sum;
    let filters = Tensor::from_vec(&sizes, filters).ok()?;
    let bias = Tensor::from_vec(&[bias.len()], bias).ok()?;
    let constants = [filters, bias].map(|tensor| rewriter.add(Value::known(tensor)));
    let inputs = smallvec![data, constants[0], constants[1]];
    let conv = ChannelsLast { post_ops: vec![PostOp::Add(Operand::Columns(2))], ..*conv };
    let operation = Operation::Fused(Arc::new(conv));
    Some(Node { operation, inputs, outputs: node.outputs.clone(), layer: node.layer })
}

/// A term of a sum: what is computed from the data, and a number for each channel.
struct Branch {
    data: ValueId,
    term: Term,
    bias: Vec<f32>,
    /// The results of its nodes, that of the convolution or scale first.
    nodes: Vec<ValueId>,
}

#[derive(Clone)]
enum Term {
    /// A convolution, and its filters.
    Convolution(Box<ChannelsLast>, ValueId),
    /// A factor for each channel.
    Scale(Vec<f32>),
}

/// The branch that ends with a value, if only the visited node reads it.
fn branch(rewriter: &GraphRewriter<'_>, value: ValueId) -> Option<Branch> {
    let net = &*rewriter.net;
    let last = rewriter.only_for(value)?;
    let shifted = match change(net, last, value) {
        Some((made, Change::Shift(shift))) => Some((made, shift)),
        _ => None,
    };
    let (made, shift) = shifted.unwrap_or((value, Vec::new()));
    let node = rewriter.only_for(made)?;
    let nodes = if made == value { vec![made] } else { vec![made, value] };
    let columns = *net.sizes(value)?.last()?;
    let (data, term, mut bias) = match (bias_of_any(net, node), change(net, node, made)) {
        (Some(bias), _) => {
            let conv = Box::new(node.fused::<ChannelsLast>()?.clone());
            let &[data, filters, ..] = &node.inputs[..] else { return None };
            (data, Term::Convolution(conv, filters), bias)
        }
        (None, Some((data, Change::Scale(scale)))) => (data, Term::Scale(scale), Vec::new()),
        _ => return None,
    };
    bias.resize(columns, 0.0);
    bias.iter_mut().zip(shift).for_each(|(bias, shift)| *bias += shift);
    Some(Branch { data, term, bias, nodes })
}

/// Constant filters in f32, also those that are stored in fewer bits.
fn filters(rewriter: &GraphRewriter<'_>, value: ValueId) -> Option<Tensor> {
    if let Some(constant) = &rewriter.net.values[value].constant {
        return Some(constant.clone());
    }
    let convert = rewriter.maker(value).filter(|node| node.is::<Convert>().is_some())?;
    let stored = rewriter.net.values[*convert.inputs.first()?].constant.as_ref()?;
    convert_tensor(stored, ElementType::F32).ok()
}

/// The filters of a convolution with those of another term added.
fn with_term(rewriter: &GraphRewriter<'_>, large: &Term, other: &Term) -> Option<Vec<f32>> {
    let &Term::Convolution(ref conv, own) = large else { return None };
    let (inputs, outputs) = (conv.conv.inputs.checked_div(conv.conv.groups)?, conv.conv.outputs);
    let taps: usize = conv.conv.axes.iter().map(|axis| axis.taps).product();
    if taps * inputs * outputs == 0 {
        return None;
    }
    let own = || Some(filters(rewriter, own)?.as_slice::<f32>()?.to_vec());
    match other {
        &Term::Convolution(ref small, values) => {
            let is_same = (small.channels_first, small.conv.groups, small.conv.inputs)
                == (conv.channels_first, conv.conv.groups, conv.conv.inputs);
            let places = places(&conv.conv, &small.conv).filter(|p| is_same && !p.is_empty())?;
            let (mut sum, values) = (own()?, filters(rewriter, values)?);
            let values = values.as_slice::<f32>()?.chunks_exact(places.len());
            for (to, from) in sum.chunks_exact_mut(taps).zip(values) {
                places.iter().zip(from).for_each(|(place, x)| to[*place] += x);
            }
            Some(sum)
        }
        Term::Scale(scale) => {
            let is_dense = conv.conv.axes.iter().all(|a| a.stride == 1 || a.output == 1);
            let is_square = conv.conv.inputs == outputs && is_dense && !conv.channels_first;
            let [centre] = places(&conv.conv, &identity(&conv.conv))?[..] else { return None };
            let mut sum = is_square.then(own)??;
            let filters = sum.chunks_exact_mut(taps * inputs);
            for (channel, (to, scale)) in filters.zip(scale).enumerate() {
                to[channel % inputs * taps + centre] += scale;
            }
            Some(sum)
        }
    }
}

/// The convolution with one tap that reads each element at its own place.
fn identity(conv: &Convolution) -> Convolution {
    Convolution { axes: conv.axes.map(|a| Window { taps: 1, start: 0, ..a }), ..conv.clone() }
}

/// The taps of a convolution that read what those of a smaller one read, which has the same output.
fn places(large: &Convolution, small: &Convolution) -> Option<Vec<usize>> {
    let mut all = vec![0];
    for (l, s) in large.axes.iter().zip(&small.axes) {
        let is_same = (l.input, l.output, l.stride) == (s.input, s.output, s.stride);
        let is_spread = s.taps == 1 || l.taps == 1 || s.dilation == l.dilation;
        let before = s.start.checked_sub(l.start).filter(|_| is_same && is_spread)?;
        let before = usize::try_from(before).ok()?;
        let first = before.checked_div(l.dilation)?;
        let fits = before % l.dilation == 0 && first + s.taps <= l.taps;
        let taps = if fits { first..first + s.taps } else { return None };
        all = all.iter().flat_map(|at| taps.clone().map(move |tap| at * l.taps + tap)).collect();
    }
    Some(all)
}
