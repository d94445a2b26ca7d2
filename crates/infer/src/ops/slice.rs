//! Slice-8: a part of a tensor, with a start, a stop and a step for some axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/slice-8.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::axes;
use crate::rules::slicing::{Bounds, Range, bound};
use smallvec::SmallVec;

/// Slice-8.
#[derive(Debug)]
pub struct Slice;

no_attributes!(Slice);

/// The axes of a slice, each with its range.
pub type Named = SmallVec<[(usize, Range); 4]>;

/// The ranges of exact starts, stops, steps and axes, for a tensor of this rank.
///
/// # Errors
/// When the lists differ in length, an axis is out of range or occurs twice, or a step is 0.
pub fn ranges(
    starts: &[i64],
    stops: &[i64],
    steps: &[i64],
    axes: Option<&[i64]>,
    rank: usize,
) -> Result<Named, RuleError> {
    let count = starts.len();
    for (input, len) in [(2, stops.len()), (3, steps.len())] {
        require!(input; len == count, "holds {len} values, start holds {count}");
    }
    let default: Vec<i64> = (0..i64::try_from(count).unwrap_or(0)).collect();
    let axes = axes.unwrap_or(&default);
    require!(4; axes.len() == count, "holds {} values, start holds {count}", axes.len());
    let axes = axes::normalize_unique(axes, rank, 4)?;
    let mut out = Named::new();
    for (((axis, start), stop), step) in axes.iter().zip(starts).zip(stops).zip(steps) {
        require!(3; *step != 0, "the step of axis {axis} is 0");
        let (start, stop) = (Some(*start), Some(*stop));
        out.push((*axis, Range { start, stop, step: *step, starts_inside: false }));
    }
    Ok(out)
}

impl Op for Slice {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "start", "stop", "step", "axes"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=5)?;
        for input in 1..cx.input_count() {
            cx.expect_integer(input)?;
            cx.expect_rank(input, 1..=1)?;
        }
        let scalar = cx.rank(0) == Some(0);
        require!(0; !scalar, "is a scalar, which cannot be sliced");
        let shape = match cx.shape(0).dims() {
            None => cx.unranked("the rank of the data is unknown"),
            Some(dims) => sliced(cx, dims, 1)?,
        };
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        let [size] = data.sizes[..] else { return None };
        let (starts, stops, steps) = (cx.ints(1)?, cx.ints(2)?, cx.ints(3)?);
        let ranges = ranges(&starts, &stops, &steps, cx.ints(4).as_deref(), 1).ok()?;
        let range = ranges.first().map(|(_, r)| *r)?;
        data.gathered(&cx.sizes(), range.positions(size)?.into_iter())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

/// The shape of a slice of data with these dims. Starts, stops, steps and axes are the inputs from
/// `first` on, as far as they are known.
///
/// # Errors
/// As [`ranges`].
pub(super) fn sliced(
    cx: &mut InferCx<'_>,
    dims: &[Dim],
    first: usize,
) -> Result<PartialShape, RuleError> {
    let (inputs, named) = (first..first + 3, first + 3);
    let lists: Vec<Option<&[Interval]>> = inputs.clone().map(|i| cx.intervals(i)).collect();
    let mut out: Dims = dims.into();
    let axes = if cx.input_count() > named {
        cx.ints(named)
    } else {
        let (count, rank) = (inputs.clone().find_map(|i| cx.shape(i).volume().value()), dims.len());
        let fits = count.is_none_or(|count| count <= Dim::of(rank).min());
        require!(first; fits, "holds {} values for rank {rank}", count.unwrap_or(0));
        count.map(|count| (0..count).collect())
    };
    cx.because("where the slice begins and ends is known only when running");
    let Some(axes) = axes else {
        let shorter = |d: &Dim| Dim::range(0, d.max());
        return Ok(dims.iter().map(shorter).collect());
    };
    let axes = axes::normalize_unique(&axes, dims.len(), named)?;
    for (i, &axis) in axes.iter().enumerate() {
        let known = |list: usize| lists.get(list).copied().flatten()?.get(i).copied();
        let Some(dim) = out.get_mut(axis) else { continue };
        let end = |list: usize| Some(known(list).unwrap_or(Interval::any(ElementType::I64)));
        *dim = match known(2).and_then(bound) {
            Some(0) => {
                return Err(RuleError::at(first + 2, format!("the step of axis {axis} is 0")));
            }
            Some(step) => {
                Bounds { start: end(0), stop: end(1), step, starts_inside: false }.apply(*dim)
            }
            None => Dim::range(0, dim.max()).with_why(dim.why()),
        };
    }
    // Checked last, so that errors about known values come first.
    let lens: Vec<usize> = inputs.filter_map(|i| cx.shape(i).volume().size()).collect();
    if let Some(count) = lens.first() {
        let equal = lens.iter().all(|n| n == count) && axes.len() == *count;
        require!(equal, "start, stop, step and axes differ in length: {lens:?}, {}", axes.len());
    }
    Ok(PartialShape::Ranked(out))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(shape: &str, lists: [Input; 3], axes: Option<&[i64]>) -> Case {
        let inputs = [Input::shape(F32, shape)].into_iter().chain(lists);
        Case::of("Slice", "opset8").inputs(inputs.chain(axes.map(|a| Input::ints(I64, a))))
    }

    #[test]
    fn rule() {
        let i = |v: &[i64]| Input::ints(I64, v);
        let far = i64::MAX;
        for (shape, start, stop, step, axes, expected) in [
            ("10,?", vec![2], vec![8], vec![3], Some(vec![0]), Ok("f32[2,?]")),
            ("10,?", vec![0, 1], vec![far, far], vec![1, 1], None, Ok("f32[10,?]")),
            ("4..9", vec![1], vec![far], vec![1], None, Ok("f32[3..8]")),
            ("5", vec![-1], vec![-10], vec![-2], None, Ok("f32[3]")),
            ("5", vec![1], vec![2], vec![0], None, Err("input 3 (step): the step of axis 0 is 0")),
            ("5,5", vec![0, 0], vec![1, 1], vec![1, 1], Some(vec![0, -2]), Err("named twice")),
            ("5", vec![0], vec![1], vec![1], Some(vec![1]), Err("axis 1 is out of range")),
            ("5,5", vec![0, 0], vec![1], vec![1], None, Err("differ in length: [2, 1, 1]")),
            ("[]", vec![], vec![], vec![], None, Err("input 0 (data): is a scalar")),
            ("...", vec![0], vec![1], vec![1], None, Ok("f32[...]")),
        ] {
            case(shape, [i(&start), i(&stop), i(&step)], axes.as_deref()).expect(&[expected]);
        }
        let bounded = [i(&[0]), Input::bounds(I64, &[(2, 4)]), i(&[1])];
        case("10", bounded, None).expect(&[Ok("f32[2..4]")]);
        let late = || Input::shape(I64, "?");
        case("10,4", [late(), i(&[3]), i(&[1])], Some(&[1])).expect(&[Ok("f32[10,..3]")]);
        case("10,4", [i(&[1]), i(&[3]), late()], Some(&[1])).expect(&[Ok("f32[10,..4]")]);
        case("10,?", [late(), late(), late()], Some(&[1])).expect(&[Ok("f32[10,?]")]);
        case("10,2..5", [late(), late(), late()], None).expect(&[Ok("f32[..10,..5]")]);
        let huge = || Input::shape(I64, "1000000000000");
        let expected = Err("input 1 (start): holds 1000000000000 values for rank 2");
        case("10,4", [huge(), huge(), huge()], None).expect(&[expected]);
        let unranked = || Input::shape(I64, "...");
        case("10,3", [unranked(), unranked(), i(&[2])], None).expect(&[Ok("f32[..5,3]")]);
    }
}
