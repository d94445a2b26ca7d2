//! SpaceToDepth-1 and DepthToSpace-1: moves blocks of spatial axes to channels, and back.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/space-to-depth-1.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/depth-to-space-1.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    SpaceToDepth,
    DepthToSpace,
}

/// An operation of this file.
#[derive(Debug)]
pub struct SpaceToDepth {
    kind: Kind,
    block: i64,
    blocks_first: bool,
}

impl Parse for SpaceToDepth {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let block = attrs.int_in("block_size", Some(1), 1..=i64::from(i32::MAX))?;
        let modes = [("blocks_first", true), ("depth_first", false)];
        Ok(SpaceToDepth { kind, block, blocks_first: attrs.choice("mode", &modes)? })
    }
}

impl SpaceToDepth {
    /// The operation as a transpose: the sizes into which the data are split, and the order of
    /// their axes in the output. The sizes must satisfy the rule.
    pub fn transposition(&self, sizes: &[usize], output: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let spatial = sizes.len().saturating_sub(2);
        let block = usize::try_from(self.block).unwrap_or(1);
        let (mut split, mut order) = (vec![0; 2 * spatial + 2], vec![0; 2 * spatial + 2]);
        // Axes of the spatial side: batch, channels, and for each spatial axis blocks and offsets.
        let (coarse, fine) = match self.kind {
            Kind::SpaceToDepth => (output, sizes),
            Kind::DepthToSpace => (sizes, output),
        };
        let head = fine.iter().take(2).copied();
        let blocks = coarse.iter().skip(2).flat_map(|size| [*size, block]);
        let fine: Vec<usize> = head.chain(blocks).collect();
        // The positions of these axes on the other side.
        let offsets = (0..spatial).map(|axis| 2 * axis + 3);
        let positions = (0..spatial).map(|axis| 2 * axis + 2);
        let channels: Vec<usize> = if self.blocks_first {
            offsets.chain([1]).collect()
        } else {
            [1].into_iter().chain(offsets).collect()
        };
        let axes = [0].into_iter().chain(channels).chain(positions);
        for (at, axis) in axes.enumerate() {
            match self.kind {
                Kind::SpaceToDepth => (split[axis], order[at]) = (fine[axis], axis),
                Kind::DepthToSpace => (split[at], order[axis]) = (fine[axis], at),
            }
        }
        (split, order)
    }

    fn shape(&self, dims: &[Dim]) -> Result<PartialShape, RuleError> {
        let [batch, channels, spatial @ ..] = dims else { return Ok(PartialShape::unranked()) };
        let volume = spatial.iter().fold(1i64, |n, _| n.saturating_mul(self.block));
        let mut out: Dims = Dims::new();
        out.push(*batch);
        if self.kind == Kind::DepthToSpace {
            let depth = channels.div_exact(volume).ok_or_else(|| {
                let message = format!("has {channels} channels, not a multiple of {volume}");
                RuleError::at(0, message).about("block_size")
            })?;
            out.push(depth);
            out.extend(spatial.iter().map(|size| size.scaled(self.block)));
            return Ok(PartialShape::Ranked(out));
        }
        out.push(channels.scaled(volume));
        let block = self.block;
        for (axis, size) in spatial.iter().enumerate() {
            let blocks = size.div_exact(block).ok_or_else(|| {
                let message = format!("spatial axis {axis} is {size}, not a multiple of {block}");
                RuleError::at(0, message).about("block_size")
            })?;
            out.push(blocks);
        }
        Ok(PartialShape::Ranked(out))
    }
}

impl Op for SpaceToDepth {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.expect_rank(0, 3..=usize::MAX)?;
        let shape = match cx.shape(0).dims() {
            Some(dims) => self.shape(dims)?,
            None => cx.shape(0).clone(),
        };
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, SpaceToDepth};
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn run(kind: &'static str, block: &str, data: &str, expected: Result<&str, &str>) {
        let case = Case::of(kind, "opset1").attr("block_size", block).attr("mode", "depth_first");
        case.inputs([Input::shape(U4, data)]).expect(&[expected]);
    }

    #[test]
    fn rule() {
        let fine = "SpaceToDepth";
        run(fine, "2", "5,7,4,6", Ok("u4[5,28,2,3]"));
        run(fine, "3", "?,1..2,9,4..11", Ok("u4[?,9..18,3,2..3]"));
        run(fine, "2", "...", Ok("u4[...]"));
        run(fine, "2", "1,3,5", Err("input 0 (data): spatial axis 0 is 5, not a multiple of 2"));
        run(fine, "0", "1,3,5", Err("attribute block_size: 0 is not in 1..="));
        run(fine, "1", "1,3", Err("input 0 (data): must have rank at least 3, not 2"));
        let coarse = "DepthToSpace";
        run(coarse, "2", "5,28,2,3", Ok("u4[5,7,4,6]"));
        run(coarse, "2", "5,?,..3,3,1", Ok("u4[5,?,..6,6,2]"));
        run(coarse, "2", "5,9..17,3,3", Ok("u4[5,3..4,6,6]"));
        run(coarse, "2", "5,6,2,3", Err("has 6 channels, not a multiple of 4"));
        let case = Case::of(coarse, "opset1").inputs([Input::shape(F32, "1,4,1")]);
        case.expect(&[Err("attribute mode: is missing")]);
    }

    #[test]
    fn transpositions_are_those_of_the_specification() {
        let run = |kind, blocks_first, sizes: &[usize], output: &[usize]| {
            SpaceToDepth { kind, block: 2, blocks_first }.transposition(sizes, output)
        };
        let (coarse, fine) = ([5, 28, 3, 4], [5, 7, 6, 8]);
        let found = run(Kind::SpaceToDepth, true, &fine, &coarse);
        assert_eq!(found, (vec![5, 7, 3, 2, 4, 2], vec![0, 3, 5, 1, 2, 4]));
        let found = run(Kind::SpaceToDepth, false, &fine, &coarse);
        assert_eq!(found, (vec![5, 7, 3, 2, 4, 2], vec![0, 1, 3, 5, 2, 4]));
        let found = run(Kind::DepthToSpace, true, &coarse, &fine);
        assert_eq!(found, (vec![5, 2, 2, 7, 3, 4], vec![0, 3, 4, 1, 5, 2]));
        let found = run(Kind::DepthToSpace, false, &coarse, &fine);
        assert_eq!(found, (vec![5, 7, 2, 2, 3, 4], vec![0, 1, 4, 2, 5, 3]));
    }
}
