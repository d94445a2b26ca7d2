//! Slice-8: a part of a tensor, with a start, a stop and a step for some axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/slice-8.html>

use crate::prelude::*;
use crate::rules::axes;
use crate::rules::slicing::{Range, bound};
use crate::shape::Dims;
use crate::value::Interval;
use smallvec::SmallVec;

/// Slice-8.
#[derive(Debug)]
pub struct Slice;

no_attributes!(Slice);

/// What a slice does to each axis it names, with its step.
pub type Named = SmallVec<[(usize, Range); 4]>;

/// The ranges that exact starts, stops, steps and axes mean for a tensor of a rank.
///
/// # Errors
/// When the lists differ in length, an axis is out of range or named twice, or a step is 0.
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
            Some(dims) => PartialShape::Ranked(sliced(cx, dims)?),
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
        OpTraits::moving(0b1)
    }
}

fn sliced(cx: &mut InferCx<'_>, dims: &[Dim]) -> Result<Dims, RuleError> {
    let lists: Vec<Option<&[Interval]>> = (1..=3).map(|i| cx.intervals(i)).collect();
    let mut out: Dims = dims.into();
    let axes = match cx.input_count() {
        5 => cx.ints(4),
        _ => {
            let count = (1..=3).find_map(|i| cx.shape(i).volume().value());
            count.map(|n| (0..n).collect())
        }
    };
    cx.because("where the slice begins and ends is known only when running");
    let Some(axes) = axes else {
        let shorter = |d: &Dim| Dim::range(0, d.max());
        return Ok(dims.iter().map(shorter).collect());
    };
    let axes = axes::normalize_unique(&axes, dims.len(), 4)?;
    for (i, &axis) in axes.iter().enumerate() {
        let exact = |list: usize| {
            let list = lists.get(list).copied().flatten()?;
            list.get(i).copied().and_then(bound)
        };
        let dim = dims.get(axis).copied().unwrap_or(Dim::any());
        let Some(slot) = out.get_mut(axis) else { continue };
        *slot = match (exact(0), exact(1), exact(2)) {
            (_, _, Some(0)) => {
                return Err(RuleError::at(3, format!("the step of axis {axis} is 0")));
            }
            (Some(start), Some(stop), Some(step)) => {
                Range { start: Some(start), stop: Some(stop), step, starts_inside: false }
                    .apply(dim)
            }
            _ => loosely(dim, i, &lists),
        };
    }
    // Checked last, so that what is known of the lists is used first.
    let lens: Vec<usize> = (1..=3).filter_map(|i| cx.shape(i).volume().size()).collect();
    if let Some(first) = lens.first() {
        let equal = lens.iter().all(|n| n == first) && axes.len() == *first;
        require!(equal, "start, stop, step and axes differ in length: {lens:?}, {}", axes.len());
    }
    Ok(out)
}

/// A slice whose ends are known by bounds only.
fn loosely(dim: Dim, i: usize, lists: &[Option<&[Interval]>]) -> Dim {
    let interval = |list: usize| lists.get(list).copied().flatten().and_then(|v| v.get(i)).copied();
    let (start, stop, step) = (interval(0), interval(1), interval(2));
    let why =
        [start, stop, step].into_iter().flatten().map(|v| v.why).fold(dim.why(), |a, b| a.or(b));
    let most = Dim::range(0, dim.max()).with_why(why);
    let (Some(start), Some(stop)) = (start, stop) else { return most };
    let forward = step.and_then(bound).is_some_and(|s| s == 1);
    if !forward || start.lo < 0 || stop.lo < 0 {
        return most;
    }
    let clip = |v: i128, size: i64| i64::try_from(v.min(i128::from(size))).unwrap_or(size);
    let low = clip(stop.lo, dim.min()).saturating_sub(clip(start.hi, dim.min())).max(0);
    let high = clip(stop.hi, dim.max()).saturating_sub(clip(start.lo, dim.max())).max(0);
    // The data's own size enters at both ends, so that bounds only widen.
    let from_zero = start.value() == Some(0);
    let exact_stop = from_zero && stop.lo == stop.hi && stop.hi <= dim.min().into();
    let symbol =
        if from_zero && stop.hi <= dim.min().into() { stop.symbol } else { Default::default() };
    let low = if exact_stop || from_zero { low } else { 0 };
    Dim::range(low, high).with_symbol(symbol).with_why(why)
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
        let late = [Input::shape(I64, "1"), i(&[3]), i(&[1])];
        case("10,4", late, Some(&[1])).expect(&[Ok("f32[10,..4]")]);
    }
}
