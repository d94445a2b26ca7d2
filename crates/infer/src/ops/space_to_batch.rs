//! SpaceToBatch-2 and BatchToSpace-2: padded blocks of neighbours become batches, and batches
//! blocks that are cropped.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/space-to-batch-2.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/batch-to-space-2.html>

use crate::prelude::*;
use crate::shape::Dims;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    SpaceToBatch,
    BatchToSpace,
}

/// An operation of this file.
#[derive(Debug)]
pub struct SpaceToBatch {
    kind: Kind,
}

impl Parse for SpaceToBatch {
    type Kind = Kind;

    fn parse(kind: Kind, _attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(SpaceToBatch { kind })
    }
}

/// What happens to one axis: the size of a block, and what is added or cropped at the ends.
type Block = (i64, i64, i64);

/// The most that an input can say, so that sums of sizes cannot overflow.
const MOST: i64 = 1 << 40;

impl SpaceToBatch {
    /// Whether neighbours become batches.
    pub fn to_batch(&self) -> bool {
        self.kind == Kind::SpaceToBatch
    }

    /// The values of inputs 1 to 3 for each axis.
    fn blocks(&self, cx: &InferCx<'_>, rank: usize) -> Result<Option<Vec<Block>>, RuleError> {
        let mut lists = Vec::new();
        for (input, least) in [(1, 1), (2, 0), (3, 0)] {
            let Some(list) = cx.ints(input) else { continue };
            let bad = list.iter().find(|v| !(least..=MOST).contains(v));
            require!(input; bad.is_none(), "{} is not in {least}..={MOST}", bad.unwrap_or(&0));
            let (first, found) = (list.first().unwrap_or(&least), list.len());
            require!(input; *first == least, "must begin with {least} for the batch, not {first}");
            require!(input; found == rank, "holds {found} values for rank {rank}");
            lists.push(list);
        }
        let [block, begin, end] = lists.as_slice() else { return Ok(None) };
        let axes = block.iter().zip(begin).zip(end);
        Ok(Some(axes.map(|((block, begin), end)| (*block, *begin, *end)).collect()))
    }

    fn shape(&self, dims: &[Dim], blocks: &[Block]) -> Result<PartialShape, RuleError> {
        let volume = blocks.iter().fold(1i64, |n, b| n.saturating_mul(b.0));
        let indivisible = |what: &str, size: Dim, n: i64| {
            RuleError::at(0, format!("{what} is {size}, not a multiple of {n}"))
        };
        let mut out = Dims::new();
        for (axis, (size, (block, begin, end))) in dims.iter().zip(blocks).enumerate() {
            let both = begin + end;
            out.push(match (axis, self.to_batch()) {
                (0, true) => size.scaled(volume),
                (0, false) => {
                    let batch = size.div_exact(volume);
                    batch.ok_or_else(|| indivisible("the batch", *size, volume))?
                }
                (_, true) => {
                    let (padded, what) = (size.offset(both), format!("axis {axis} with padding"));
                    let blocks = padded.div_exact(*block);
                    blocks.ok_or_else(|| indivisible(&what, padded, *block))?
                }
                (_, false) => {
                    let full = size.scaled(*block);
                    require!(0; full.max() >= both, "axis {axis} of {full} is cropped by {both}");
                    full.offset(-both)
                }
            });
        }
        Ok(PartialShape::Ranked(out))
    }
}

impl Op for SpaceToBatch {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::SpaceToBatch => &["data", "block_shape", "pads_begin", "pads_end"],
            Kind::BatchToSpace => &["data", "block_shape", "crops_begin", "crops_end"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        cx.expect_rank(0, 2..=usize::MAX)?;
        let mut count = cx.rank(0).map_or(Dim::any(), Dim::of);
        for input in 1..4 {
            cx.expect_integer(input)?;
            cx.expect_rank(input, 1..=1)?;
            let found = cx.shape(input).dim(0);
            let message = || format!("holds {found} values, but there are {count} axes");
            count = count.meet(found).ok_or_else(|| RuleError::at(input, message()))?;
        }
        let rank = count.value().and_then(|rank| usize::try_from(rank).ok());
        let shape = match (rank, cx.shape(0)) {
            (None, _) => PartialShape::unranked(),
            (Some(rank), data) => {
                let dims: Dims = (0..rank).map(|axis| data.dim(axis)).collect();
                match self.blocks(cx, rank)? {
                    Some(blocks) => self.shape(&dims, &blocks)?,
                    None => {
                        cx.because("the blocks are known only when running");
                        PartialShape::of_rank(rank)
                    }
                }
            }
        };
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(0b1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn run(kind: &'static str, data: &str, rest: [&[i64]; 3], expected: Result<&str, &str>) {
        let rest = rest.map(|v| Input::ints(I64, v));
        let inputs = [Input::shape(F32, data)].into_iter().chain(rest);
        Case::of(kind, "opset2").inputs(inputs).expect(&[expected]);
    }

    #[test]
    fn to_batch() {
        let run = |data, rest, expected| run("SpaceToBatch", data, rest, expected);
        let blocks: [&[i64]; 3] = [&[1, 2, 4, 3, 1], &[0, 0, 1, 0, 0], &[0, 0, 1, 0, 0]];
        run("2,6,10,3,3", blocks, Ok("f32[48,3,3,1,3]"));
        run("?,6,3..15,?,3", blocks, Ok("f32[?,3,2..4,?,3]"));
        run("...", blocks, Ok("f32[?,?,1..,?,?]"));
        run("2,6,9,3,3", blocks, Err("axis 2 with padding is 11, not a multiple of 4"));
        run("2,6", [&[1, 0], &[0, 0], &[0, 0]], Err("input 1 (block_shape): 0 is not in 1..="));
        run("2,6", [&[2, 1], &[0, 0], &[0, 0]], Err("must begin with 1 for the batch, not 2"));
        run("2,6", [&[1, 1], &[0, -1], &[0, 0]], Err("input 2 (pads_begin): -1 is not in 0..="));
        run("2", [&[1], &[0], &[0]], Err("must have rank at least 2, not 1"));
        run("2,6", [&[1, 1], &[0, 0], &[0]], Err("holds 1 values, but there are 2 axes"));
        let list = || Input::shape(I32, "2");
        let inputs = [Input::shape(F32, "2,6"), list(), list(), list()];
        Case::of("SpaceToBatch", "opset2").inputs(inputs).expect(&[Ok("f32[?,?]")]);
    }

    #[test]
    fn to_space() {
        let run = |data, rest, expected| run("BatchToSpace", data, rest, expected);
        let blocks: [&[i64]; 3] = [&[1, 2, 4, 3, 1], &[0, 0, 1, 0, 0], &[0, 0, 1, 0, 0]];
        run("48,3,3,1,3", blocks, Ok("f32[2,6,10,3,3]"));
        run("10..60,?,1..3,1,3", blocks, Ok("f32[1..2,?,2..10,3,3]"));
        run("47,3,3,1,3", blocks, Err("input 0 (data): the batch is 47, not a multiple of 24"));
        run("2,1", [&[1, 2], &[0, 2], &[0, 1]], Err("axis 1 of 2 is cropped by 3"));
    }
}
