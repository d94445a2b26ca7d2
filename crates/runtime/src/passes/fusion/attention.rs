//! Attention fusion: `softmax(q kᵀ · scale + masks) v` becomes one node, and the score matrix is
//! never stored as a whole. The scale is one number, or one for each head, as in the cosine
//! attention of Swin v2. That of the query is applied to the scores, which rounds differently
//! unless it is a power of two.
//!
//! In attention over variables (a KV cache), rows that a boolean mask hides completely are the mean
//! of all values; by the specification they are NaN. OpenVINO does the same, and padded tokens need
//! it.

use crate::fused::attention::Attention;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::pattern::{kind, number, seen};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::batch::{broadcast_shape, offsets};
use crate::ops::scaled_dot_product_attention::{Heads, MaskAt, lower_over_variable};
use crate::passes::context::PassCx;
use crate::tensor::Sizes;
use infer::ops::binary::Kind;
use infer::ops::matmul::MatMul;
use infer::ops::reshape::Reshape;
use infer::ops::scaled_dot_product_attention::ScaledDotProductAttention;
use infer::ops::softmax::Softmax;
use infer::ops::squeeze::Squeeze;
use infer::ops::transpose::Transpose;
use infer::ops::variable::Variable;
use ir::ElementType;
use kernels::attention::MAX_MASKS;
use smallvec::SmallVec;
use std::sync::Arc;

/// Fuses attention that is written as MatMuls.
pub(crate) fn attention(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| whole(rewriter, node))
}

/// Finds attention whose keys come from a variable.
pub(crate) fn cached(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| over_variable(rewriter, node))
}

fn over_variable(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Node> {
    node.is::<ScaledDotProductAttention>()?;
    let is_f32 = rewriter.net.values[node.outputs[0]].fact.element_type == ElementType::F32;
    if !is_f32 || !reads_variable(rewriter, node.inputs[1], CACHE_DEPTH) {
        return None;
    }
    let operation = match (heads(rewriter.net, node), &node.operation) {
        (Some(heads), _) => Operation::Fused(Arc::new(Attention { heads: heads.over_variable() })),
        // The shapes are not known yet; the kernel is chosen when it runs.
        (None, Operation::Source { op, .. }) => {
            Operation::Source { op: Arc::clone(op), lower: lower_over_variable }
        }
        (None, Operation::Fused(_)) => return None,
    };
    Some(Node { operation, ..node.clone() })
}

/// How many nodes are followed from attention back to its variable.
const CACHE_DEPTH: usize = 12;

fn reads_variable(rewriter: &GraphRewriter<'_>, value: ValueId, depth: usize) -> bool {
    let Some(node) = rewriter.maker(value).filter(|_| depth > 0) else { return false };
    let variable = node.is::<Variable>().is_some_and(Variable::reads);
    variable || node.inputs.iter().take(2).any(|v| reads_variable(rewriter, *v, depth - 1))
}

/// The heads of an attention node in f32.
pub(crate) fn heads(net: &Net, node: &Node) -> Option<Heads> {
    if let Some(attention) = node.fused::<Attention>() {
        return Some(attention.heads.clone());
    }
    let rule = node.is::<ScaledDotProductAttention>()?;
    let known = node.inputs.iter().all(|v| net.values[*v].fact.is_static());
    if !known || !net.is_f32(node.outputs[0]) {
        return None;
    }
    seen(net, node, |cx| Heads::of_rule(rule, cx)).ok()
}

/// What lies between `q kᵀ` and the softmax.
struct Scores {
    query: ValueId,
    key: ValueId,
    scale: f32,
    /// A constant with a factor for each head.
    scales: Option<ScoreOperand>,
    /// Masks in the order in which they are added.
    masks: SmallVec<[ScoreOperand; MAX_MASKS]>,
}

/// A value that broadcasts to the scores, and the shape that these have at that point.
type ScoreOperand = (ValueId, Sizes);

/// The attention that ends in this MatMul of weights and values.
fn whole(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let net = &*rewriter.net;
    let (weights, value) = plain_product(net, node)?;
    let output = node.outputs[0];
    let softmax = rewriter.only_for(weights)?;
    let sizes = net.sizes(weights)?;
    let rule = softmax.is::<Softmax>().filter(|s| !s.is_log())?;
    if rule.axis(sizes.len()).ok()? + 1 != sizes.len() {
        return None;
    }
    let scores = scores(rewriter, softmax.inputs[0])?;
    let all = [scores.query, scores.key, value];
    let [query, key, values] = all.map(|v| net.sizes(v));
    let (query, key, values, result) = (query?, key?, values?, net.sizes(output)?);
    let batch = |s: &Sizes| s[..s.len() - 2].to_vec();
    // The result has the axes of the scores, and no head was merged with another.
    if broadcast_shape(&[&batch(&query), &batch(&key)]) != batch(&result)
        || sizes.len() != result.len()
    {
        return None;
    }
    let mut heads = Heads::new([&query, &key, &values], &result);
    heads.attention.scale = scores.scale;
    if let Some((constant, at)) = &scores.scales {
        let (own, factors) = (net.sizes(*constant)?, net.values[*constant].constant.as_ref()?);
        let factors = factors.as_slice::<f32>()?;
        let place = offsets(&at[..at.len() - 2], own.get(..own.len() - 2)?, 1);
        heads.scales = place.iter().map(|i| scores.scale * factors[*i]).collect();
    }
    let mut inputs: SmallVec<[ValueId; 4]> = all.into_iter().collect();
    for (mask, at) in scores.masks {
        let (own, keys) = (net.sizes(mask)?, heads.attention.keys);
        let place = MaskAt::new(inputs.len(), &own, &at[..at.len() - 2], keys);
        heads.masks.push(place);
        inputs.push(mask);
    }
    let operation = Operation::Fused(Arc::new(Attention { heads }));
    Some(Node { operation, inputs, ..node.clone() })
}

/// The operands of an f32 MatMul without transposes.
fn plain_product(net: &Net, node: &Node) -> Option<(ValueId, ValueId)> {
    let &[a, b] = &node.inputs[..] else { return None };
    let rank = |v| net.sizes(v).filter(|_| net.is_f32(v)).map(|s| s.len()).filter(|r| *r > 1);
    let transposed = node.is::<MatMul>()?.transposed(rank(a)?, rank(b)?);
    (transposed == (false, false)).then_some((a, b))
}

/// Follows the scores from the softmax back to `q kᵀ`.
fn scores(rewriter: &GraphRewriter<'_>, mut value: ValueId) -> Option<Scores> {
    let net = &*rewriter.net;
    let (mut masks, mut scale, mut scales) = (SmallVec::new(), 1.0, None);
    loop {
        let node = rewriter.only_for(value)?;
        let sizes = net.sizes(value)?;
        if node.is::<Reshape>().is_some() || node.is::<Squeeze>().is_some() {
            let from = net.sizes(node.inputs[0])?;
            // A Reshape in between may merge or split batch axes only.
            let same = from.len() > 1
                && sizes.len() > 1
                && from[from.len() - 2..] == sizes[sizes.len() - 2..];
            value = node.inputs[0];
            if !same {
                return None;
            }
            continue;
        }
        match kind(node) {
            Some(Kind::Add) if masks.len() < MAX_MASKS && scale == 1.0 && scales.is_none() => {
                let [a, b] = node.inputs[..] else { return None };
                let goes_on = |v: ValueId| net.sizes(v).as_ref() == Some(&sizes);
                let made = |v: ValueId| goes_on(v) && rewriter.only_for(v).is_some();
                let (next, mask) = if made(a) { (a, b) } else { (b, a) };
                let own = net.sizes(mask).filter(|_| net.is_f32(mask))?;
                if !goes_on(next) || !fits(&own, &sizes) {
                    return None;
                }
                masks.insert(0, (mask, sizes));
                value = next;
            }
            Some(Kind::Multiply) => match scaled(net, node) {
                Some((next, factor)) => (value, scale) = (next, scale * factor),
                None if scales.is_none() => {
                    let (next, constant) = scaled_by_head(net, node, &sizes)?;
                    (value, scales) = (next, Some((constant, sizes)));
                }
                None => return None,
            },
            _ => {
                let (query, key, by) = product(rewriter, node)?;
                return Some(Scores { query, key, scale: scale * by, scales, masks });
            }
        }
    }
}

/// Whether a mask has all rows and columns of the scores, or size 1 there.
fn fits(mask: &[usize], scores: &[usize]) -> bool {
    let tail = |i: usize| mask.len().checked_sub(i).map_or(1, |at| mask[at]);
    let whole = |i: usize| tail(i) == scores[scores.len() - i] || tail(i) == 1;
    mask.len() <= scores.len() && scores.len() > 1 && whole(1) && whole(2)
}

/// A value times a constant number.
fn scaled(net: &Net, node: &Node) -> Option<(ValueId, f32)> {
    let &[a, b] = &node.inputs[..] else { return None };
    number(net, b).map(|n| (a, n)).or_else(|| number(net, a).map(|n| (b, n)))
}

/// Scores of `sizes` times a constant with one number for each head: its last two axes have size 1.
fn scaled_by_head(net: &Net, node: &Node, sizes: &Sizes) -> Option<(ValueId, ValueId)> {
    let &[a, b] = &node.inputs[..] else { return None };
    let is_by_head = |v: ValueId| {
        let own = net.sizes(v).filter(|_| net.is_f32(v) && net.values[v].constant.is_some());
        own.is_some_and(|own| own.len() <= sizes.len() && own.ends_with(&[1, 1]))
    };
    let (next, constant) = if is_by_head(b) { (a, b) } else { (b, a) };
    let same = net.sizes(next).as_ref() == Some(sizes);
    (same && is_by_head(constant)).then_some((next, constant))
}

/// `q kᵀ` and its scale: a MatMul that transposes the key, or a MatMul of a transposed key.
fn product(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<(ValueId, ValueId, f32)> {
    let mut scale = 1.0;
    let net = &*rewriter.net;
    let &[mut query, mut key] = &node.inputs[..] else { return None };
    let (a, b) = (net.sizes(query)?, net.sizes(key)?);
    let (transpose_a, transpose_b) = node.is::<MatMul>()?.transposed(a.len(), b.len());
    if transpose_a || a.len() < 2 || b.len() < 2 || !net.is_f32(query) || !net.is_f32(key) {
        return None;
    }
    let factor = |rewriter: &GraphRewriter<'_>, v: ValueId| {
        let node = rewriter.only_for(v).filter(|n| kind(n) == Some(Kind::Multiply))?;
        scaled(net, node)
    };
    if let Some((own, by)) = factor(rewriter, query) {
        (query, scale) = (own, by);
    }
    if !transpose_b {
        let transpose = rewriter.only_for(key).filter(|n| n.is::<Transpose>().is_some())?;
        let source = transpose.inputs[0];
        let order = net.values[*transpose.inputs.get(1)?].fact.value.as_deref()?.i64s()?;
        let order = infer::ops::transpose::order(&order, net.sizes(source)?.len()).ok()?;
        let mut wanted: Vec<usize> = (0..order.len()).collect();
        let [.., rows, columns] = &mut wanted[..] else { return None };
        std::mem::swap(rows, columns);
        if order[..] != wanted[..] {
            return None;
        }
        key = source;
    }
    Some((query, key, scale))
}
