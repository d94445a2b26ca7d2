//! Pixel shuffles within regions of NHWC: DepthToSpace, SpaceToDepth, and what tools write for
//! them: a Reshape that splits axes, a Transpose of the parts, and a Reshape that merges them. Only
//! behind quantized convolutions: in f32, convolutions of few channels are faster in NCHW.

use super::{ChannelsLastPass, f32_of, made};
use crate::fused::convolution::ChannelsLast;
use crate::fused::transpose::{Permute, Reinterpret};
use crate::graph::net::{Node, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::layout::nhwc::{reordered, to_last};
use crate::tensor::Sizes;
use infer::ops::binary::Binary;
use infer::ops::fake_quantize::FakeQuantize;
use infer::ops::reshape::Reshape;
use infer::ops::space_to_depth::SpaceToDepth;
use infer::ops::transpose::{self, Transpose};
use infer::ops::unary::Unary;

impl ChannelsLastPass {
    /// DepthToSpace or SpaceToDepth.
    pub(super) fn space_to_depth(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let source = *node.inputs.first()?;
        let (from, to) = (rewriter.net.sizes(source)?, rewriter.net.sizes(output)?);
        let (parts, order) = node.is::<SpaceToDepth>()?.transposition(&from, &to);
        self.shuffled(rewriter, source, (&parts, &order), (output, node.layer))
    }

    /// The last Reshape of a Reshape, a Transpose and a Reshape.
    pub(super) fn pixel_shuffle(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: &Node,
        output: ValueId,
    ) -> Option<()> {
        let net = &*rewriter.net;
        node.is::<Reshape>()?;
        let permute = rewriter.only_for(*node.inputs.first()?)?;
        permute.is::<Transpose>()?;
        let &[split, order] = &permute.inputs[..] else { return None };
        let reshape = rewriter.maker(split)?;
        let source = *reshape.is::<Reshape>().and(reshape.inputs.first())?;
        let parts = net.sizes(split)?;
        let order = net.values[order].fact.value.as_deref()?.i64s()?;
        let order: Sizes = transpose::order(&order, parts.len()).ok()?.into_iter().collect();
        self.shuffled(rewriter, source, (&parts, &order), (output, node.layer))
    }

    /// Splits the axes of a value into parts, puts those in another order, and merges them.
    fn shuffled(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        source: ValueId,
        (parts, order): (&[usize], &[usize]),
        (output, layer): (ValueId, usize),
    ) -> Option<()> {
        let last = *self.last.get(&source)?;
        let (from, to) = (rewriter.net.sizes(source)?, rewriter.net.sizes(output)?);
        if from.len() < 3 || to.len() < 3 || !is_quantized(rewriter, last) {
            return None;
        }
        // The parts in the order in which they are stored, and in which the result has them.
        let stored = in_nhwc(groups(&from, parts)?);
        let turned = in_nhwc(groups(&to, &reordered(parts, order))?);
        let place = |i: &usize| stored.iter().position(|part| *part == order[*i]);
        let order: Sizes = turned.iter().map(place).collect::<Option<_>>()?;
        let sizes = reordered(parts, &stored);
        let split = rewriter.add_for_one(f32_of(&sizes));
        rewriter.keep(made(Reinterpret, &[last], split, layer));
        let permuted = rewriter.add_for_one(f32_of(&reordered(&sizes, &order)));
        rewriter.keep(made(Permute { order }, &[split], permuted, layer));
        let result = self.result(rewriter, output)?;
        rewriter.keep(made(Reinterpret, &[permuted], result, layer));
        Some(())
    }
}

/// Whether a quantized convolution makes a value, perhaps with element-wise operations behind it.
fn is_quantized(rewriter: &GraphRewriter<'_>, mut value: ValueId) -> bool {
    while let Some(maker) = rewriter.maker(value) {
        let is_elementwise = maker.is::<Unary>().is_some()
            || maker.is::<Binary>().is_some()
            || maker.is::<FakeQuantize>().is_some();
        if maker.fused::<ChannelsLast>().is_some() {
            let filters = maker.inputs.get(1).map(|filters| &rewriter.net.values[*filters]);
            return filters.is_some_and(|filters| filters.integers.is_some());
        }
        match maker.inputs.first().filter(|_| is_elementwise) {
            Some(first) => value = *first,
            None => return false,
        }
    }
    false
}

/// For each axis, the parts that it consists of.
fn groups(sizes: &[usize], parts: &[usize]) -> Option<Vec<Sizes>> {
    let mut left = parts.iter().copied().enumerate();
    let group = |size: &usize| {
        let (mut count, mut group) = (1, Sizes::new());
        while count < *size {
            let (part, own) = left.next()?;
            count *= own;
            group.push(part);
        }
        (count == *size).then_some(group)
    };
    let mut groups: Vec<Sizes> = sizes.iter().map(group).collect::<Option<_>>()?;
    // Only parts of size 1 are left.
    groups.last_mut()?.extend(left.map(|(part, _)| part));
    Some(groups)
}

/// The parts with the axes in NHWC.
fn in_nhwc(groups: Vec<Sizes>) -> Sizes {
    to_last(groups.len()).iter().flat_map(|axis| groups[*axis].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_consist_of_parts() {
        let of = |sizes: &[usize], parts: &[usize]| {
            groups(sizes, parts).map(|all| all.into_iter().map(|g| g.to_vec()).collect::<Vec<_>>())
        };
        let split = of(&[2, 12, 5], &[2, 3, 4, 5]).unwrap();
        assert_eq!(split, [vec![0], vec![1, 2], vec![3]]);
        let ones = of(&[1, 4, 1], &[1, 2, 2, 1]).unwrap();
        assert_eq!(ones, [vec![], vec![0, 1, 2], vec![3]]);
        assert_eq!(of(&[2, 6], &[4, 3]), None);
        assert_eq!(in_nhwc(groups(&[2, 12, 5], &[2, 3, 4, 5]).unwrap())[..], [0, 3, 1, 2]);
    }
}
