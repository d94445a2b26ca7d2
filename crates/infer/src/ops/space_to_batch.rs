//! SpaceToBatch-2 and BatchToSpace-2: moves blocks of padded spatial axes to the batch, and back
//! with cropping.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/space-to-batch-2.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/batch-to-space-2.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::{Interval, MAX_ELEMENTS};
use crate::rule::prelude::*;

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

/// One axis: block size, and padding or cropping before and after.
type Block = (Dim, Dim, Dim);

/// The largest number in an input, so that sums of sizes cannot overflow.
const MAX_BLOCK: i128 = 1 << 40;

impl SpaceToBatch {
    /// Whether blocks are moved to the batch.
    pub fn to_batch(&self) -> bool {
        self.kind == Kind::SpaceToBatch
    }

    /// Inputs 1 to 3 for each axis, as far as they are known.
    fn blocks(&self, cx: &InferCx<'_>, rank: usize) -> Result<Vec<Block>, RuleError> {
        let list = |input, least| list(cx, input, least, rank);
        let (block, begin, end) = (list(1, 1)?, list(2, 0)?, list(3, 0)?);
        let axes = block.into_iter().zip(begin).zip(end);
        Ok(axes.map(|((block, begin), end)| (block, begin, end)).collect())
    }

    fn shape(&self, dims: &[Dim], blocks: &[Block]) -> Result<PartialShape, RuleError> {
        let volume = blocks.iter().fold(Dim::fixed(1), |n, b| n.times(b.0));
        let indivisible = |what: &str, size: Dim, n: Dim| {
            RuleError::at(0, format!("{what} is {size}, not a multiple of {n}"))
        };
        let mut out = Dims::new();
        for (axis, (size, (block, begin, end))) in dims.iter().zip(blocks).enumerate() {
            let both = begin.plus(*end);
            out.push(match (axis, self.to_batch()) {
                (0, true) => size.times(volume),
                (0, false) => {
                    let batch = size.div_exact_by(volume);
                    batch.ok_or_else(|| indivisible("the batch", *size, volume))?
                }
                (_, true) => {
                    let (padded, what) = (size.plus(both), format!("axis {axis} with padding"));
                    let blocks = padded.div_exact_by(*block);
                    blocks.ok_or_else(|| indivisible(&what, padded, *block))?
                }
                (_, false) => {
                    let (full, least) = (size.times(*block), both.min());
                    require!(0; full.max() >= least, "axis {axis} of {full} is cropped by {least}");
                    full.minus(both)
                }
            });
        }
        Ok(PartialShape::Ranked(out))
    }
}

/// An input with a number per axis, each at least `least`; for the batch axis it must be `least`.
fn list(cx: &InferCx<'_>, input: usize, least: i64, rank: usize) -> Result<Vec<Dim>, RuleError> {
    let mut dims = vec![Dim::range(least, Dim::INF); rank];
    if let Some(list) = cx.intervals(input) {
        let found = list.len();
        require!(input; found == rank, "holds {found} values for rank {rank}");
        if let Some(bad) = list.iter().find(|v| v.hi < least.into() || v.lo > MAX_BLOCK) {
            let message = format!("{} is not in {least}..={MAX_BLOCK}", bad.hi);
            return Err(RuleError::at(input, message));
        }
        let possible = |v: &Interval| Interval { lo: v.lo.max(least.into()), ..*v };
        dims = list.iter().map(|v| Dim::from(possible(v))).collect();
    }
    if let Some(first) = dims.first_mut() {
        let batch = first.meet(Dim::fixed(least));
        let message = || format!("must begin with {least} for the batch, not {first}");
        *first = batch.ok_or_else(|| RuleError::at(input, message()))?;
    }
    Ok(dims)
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
        if !self.to_batch() {
            cx.same_type(1..4)?;
        }
        let shape = match count.size().filter(|rank| *rank <= MAX_ELEMENTS) {
            None => PartialShape::unranked(),
            Some(rank) => {
                let dims: Dims = (0..rank).map(|axis| cx.shape(0).dim(axis)).collect();
                cx.because("the blocks are known only when running");
                self.shape(&dims, &self.blocks(cx, rank)?)?
            }
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
    }

    /// Unknown blocks are at least 1, unknown padding or cropping at least 0.
    #[test]
    fn partly_known() {
        let i = |v: &[i64]| Input::ints(I64, v);
        let late = |shape| Input::shape(I64, shape);
        let bounds = Input::bounds(I64, &[(0, 0), (1, 3)]);
        for (data, block, begin, end, to_batch, to_space) in [
            ("6,4", late("2"), late("2"), late("2"), Ok("f32[6..,1..]"), Ok("f32[1..6,?]")),
            ("6,4", late("?"), i(&[0, 1]), late("..."), Ok("f32[6..,1..]"), Ok("f32[1..6,?]")),
            ("6,4", late("2"), i(&[0, 1]), i(&[0, 1]), Ok("f32[6..,1..6]"), Ok("f32[1..6,2..]")),
            ("6,4", i(&[1, 2]), late("..."), i(&[0, 1]), Ok("f32[12,3..]"), Ok("f32[3,..7]")),
            ("6,?", i(&[1, 2]), bounds, i(&[0, 0]), Ok("f32[12,1..]"), Ok("f32[3,?]")),
            ("...", late("?"), late("?"), late("..."), Ok("f32[...]"), Ok("f32[...]")),
            ("...", late("?"), late("3"), late("..."), Ok("f32[?,?,?]"), Ok("f32[?,?,?]")),
            (
                "6,4",
                late("2"),
                late("2"),
                late("3"),
                Err("input 3 (pads_end): holds 3 values, but there are 2 axes"),
                Err("input 3 (crops_end): holds 3 values, but there are 2 axes"),
            ),
        ] {
            let inputs = [Input::shape(F32, data), block, begin, end];
            Case::of("SpaceToBatch", "opset2").inputs(inputs.clone()).expect(&[to_batch]);
            Case::of("BatchToSpace", "opset2").inputs(inputs).expect(&[to_space]);
        }
    }

    #[test]
    fn to_space() {
        let run = |data, rest, expected| run("BatchToSpace", data, rest, expected);
        let blocks: [&[i64]; 3] = [&[1, 2, 4, 3, 1], &[0, 0, 1, 0, 0], &[0, 0, 1, 0, 0]];
        run("48,3,3,1,3", blocks, Ok("f32[2,6,10,3,3]"));
        run("10..60,?,1..3,1,3", blocks, Ok("f32[1..2,?,2..10,3,3]"));
        run("47,3,3,1,3", blocks, Err("input 0 (data): the batch is 47, not a multiple of 24"));
        let types = [(F32, "6,4"), (I64, "2"), (I32, "2"), (I32, "2")];
        let mixed = types.map(|(element_type, shape)| Input::shape(element_type, shape));
        let mixed = Case::of("BatchToSpace", "opset2").inputs(mixed);
        mixed.expect(&[Err("input 2 (crops_begin): is i32, but an earlier input is i64")]);
        run("2,1", [&[1, 2], &[0, 2], &[0, 1]], Err("axis 1 of 2 is cropped by 3"));
    }
}
