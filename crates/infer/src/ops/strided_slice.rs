//! StridedSlice-1: a part of a tensor, with masks that open ends, add, drop and skip axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/strided-slice-1.html>

use crate::prelude::*;
use crate::rules::slicing::{Range, bound};
use crate::shape::Dims;
use crate::value::{Interval, MAX_ELEMENTS};

/// StridedSlice-1.
#[derive(Debug)]
pub struct StridedSlice {
    begin_mask: Vec<i64>,
    end_mask: Vec<i64>,
    new_axis_mask: Vec<i64>,
    shrink_axis_mask: Vec<i64>,
    ellipsis_mask: Vec<i64>,
}

impl Parse for StridedSlice {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut mask = |name: &str, required: bool| -> Result<Vec<i64>, AttrError> {
            let list = attrs.list_opt::<i64>(name)?;
            if required && list.is_none() {
                return Err(AttrError::new(name, "is missing"));
            }
            let list = list.unwrap_or_default();
            match list.iter().find(|v| !matches!(v, 0 | 1)) {
                Some(v) => Err(AttrError::new(name, format!("{v} is neither 0 nor 1"))),
                None => Ok(list),
            }
        };
        let op = StridedSlice {
            begin_mask: mask("begin_mask", true)?,
            end_mask: mask("end_mask", true)?,
            new_axis_mask: mask("new_axis_mask", false)?,
            shrink_axis_mask: mask("shrink_axis_mask", false)?,
            ellipsis_mask: mask("ellipsis_mask", false)?,
        };
        if op.ellipsis_mask.iter().filter(|v| **v == 1).count() > 1 {
            return Err(AttrError::new("ellipsis_mask", "only one position may be an ellipsis"));
        }
        Ok(op)
    }
}

/// What the slice does to the next axis of the data, or puts in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new axis of size 1.
    New,
    /// The axis stays as it is.
    Keep,
    /// The axis is dropped; one index of it is taken.
    Shrink(Option<i64>),
    /// A part of the axis; `None` where an end is not known yet.
    Slice(Option<Range>),
}

impl StridedSlice {
    /// What happens to each axis of a tensor of a rank. Without strides every step is 1.
    ///
    /// # Errors
    /// When there are more positions than axes, or a stride is 0.
    pub fn steps(
        &self,
        begin: &[Option<i64>],
        end: &[Option<i64>],
        strides: Option<&[Option<i64>]>,
        rank: usize,
    ) -> Result<Vec<Step>, RuleError> {
        let count = begin.len();
        let set = |mask: &[i64], i: usize| mask.get(i) == Some(&1);
        let named = (0..count)
            .filter(|&i| !set(&self.new_axis_mask, i) && !set(&self.ellipsis_mask, i))
            .count();
        require!(named <= rank, "{named} axes are sliced, but the data has rank {rank}");
        let mut steps = Vec::new();
        for i in 0..count {
            if set(&self.ellipsis_mask, i) {
                steps.extend(std::iter::repeat_n(Step::Keep, rank - named));
            } else if set(&self.new_axis_mask, i) {
                steps.push(Step::New);
            } else {
                steps.push(self.step(i, begin, end, strides)?);
            }
        }
        let used = steps.iter().filter(|s| **s != Step::New).count();
        steps.extend(std::iter::repeat_n(Step::Keep, rank.saturating_sub(used)));
        Ok(steps)
    }

    fn step(
        &self,
        i: usize,
        begin: &[Option<i64>],
        end: &[Option<i64>],
        strides: Option<&[Option<i64>]>,
    ) -> Result<Step, RuleError> {
        let set = |mask: &[i64]| mask.get(i) == Some(&1);
        let at = |list: &[Option<i64>]| list.get(i).copied().flatten();
        let stride = strides.map_or(Some(1), at);
        require!(3; stride != Some(0), "the stride of position {i} is 0");
        if set(&self.shrink_axis_mask) {
            return Ok(Step::Shrink(if set(&self.begin_mask) { Some(0) } else { at(begin) }));
        }
        let open_start = set(&self.begin_mask);
        let open_stop = set(&self.end_mask);
        let known = stride.is_some()
            && (open_start || at(begin).is_some())
            && (open_stop || at(end).is_some());
        let range = Range {
            start: if open_start { None } else { at(begin) },
            stop: if open_stop { None } else { at(end) },
            step: stride.unwrap_or(1),
            starts_inside: true,
        };
        Ok(Step::Slice(known.then_some(range)))
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let values = |input: usize| {
            let list = cx.intervals(input);
            let exact = |v: &[Interval]| v.iter().map(|v| bound(*v)).collect::<Vec<_>>();
            let count = cx.shape(input).volume().size().filter(|n| *n <= MAX_ELEMENTS);
            list.map(exact).or_else(|| count.map(|n| vec![None; n]))
        };
        let (begin, end) = (values(1), values(2));
        let strides = if cx.input_count() == 4 { Some(values(3)) } else { None };
        let dims = cx.shape(0).dims();
        let (Some(dims), Some(begin), Some(end)) = (dims, begin, end) else {
            return Ok(cx.unranked("the rank of the result is known only when running"));
        };
        let (a, b) = (begin.len(), end.len());
        require!(2; a == b, "holds {b} values, begin holds {a}");
        let strides = strides.map(|s| s.unwrap_or_else(|| vec![None; a]));
        if let Some(strides) = &strides {
            require!(3; strides.len() == a, "holds {} values, begin holds {a}", strides.len());
        }
        let steps = self.steps(&begin, &end, strides.as_deref(), dims.len())?;
        cx.because("where the slice begins and ends is known only when running");
        let mut axes = dims.iter();
        let mut out = Dims::new();
        for step in steps {
            if step == Step::New {
                out.push(Dim::fixed(1));
                continue;
            }
            let Some(dim) = axes.next().copied() else { continue };
            match step {
                Step::Keep | Step::New => out.push(dim),
                Step::Shrink(index) => check_index(index, dim, cx)?,
                Step::Slice(Some(range)) => out.push(range.apply(dim)),
                Step::Slice(None) => out.push(Dim::range(0, dim.max())),
            }
        }
        Ok(PartialShape::Ranked(out))
    }
}

fn check_index(index: Option<i64>, dim: Dim, cx: &InferCx<'_>) -> Result<(), RuleError> {
    let (Some(index), Some(size)) = (index, dim.value()) else { return Ok(()) };
    let inside = (-size..size).contains(&index);
    require!(1; inside, "index {index} is out of range for an axis of {size} of {}", cx.shape(0));
    Ok(())
}

impl Op for StridedSlice {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "begin", "end", "stride"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=4)?;
        for input in 1..cx.input_count() {
            cx.expect_integer(input)?;
            cx.expect_rank(input, 0..=1)?;
        }
        let shape = self.shape(cx)?;
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        let [size] = data.sizes[..] else { return None };
        let size = i64::try_from(size).ok()?;
        let some = |list: Vec<i64>| list.into_iter().map(Some).collect::<Vec<_>>();
        let strides = if cx.input_count() == 4 { Some(some(cx.ints(3)?)) } else { None };
        let (begin, end) = (some(cx.ints(1)?), some(cx.ints(2)?));
        let steps = self.steps(&begin, &end, strides.as_deref(), 1).ok()?;
        let step = steps.into_iter().find(|s| *s != Step::New)?;
        let (first, count, stride) = match step {
            Step::Shrink(Some(index)) => (if index < 0 { index + size } else { index }, 1, 1),
            Step::Slice(Some(range)) => {
                let (first, count) = range.resolve(size);
                (first, count, range.step)
            }
            _ => (0, size, 1),
        };
        let position = |i: i64| usize::try_from(first + i * stride).ok();
        let positions: Option<Vec<usize>> = (0..count).map(position).collect();
        data.gathered(&cx.sizes(), positions?.into_iter())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(0b1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(shape: &str, ends: (&[i64], &[i64]), masks: [&str; 5]) -> Case {
        let inputs = [Input::shape(F32, shape), Input::ints(I64, ends.0), Input::ints(I64, ends.1)];
        let names =
            ["begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask"];
        let start = Case::of("StridedSlice", "opset1").inputs(inputs);
        names.iter().zip(masks).fold(start, |case, (name, mask)| case.attr(name, mask))
    }

    #[test]
    fn rule() {
        for (shape, begin, end, masks, expected) in [
            ("4,5,6", vec![1, 0], vec![3, 2], ["", "", "", "", ""], Ok("f32[2,2,6]")),
            ("4,5,6", vec![1, 0], vec![3, 2], ["0,1", "1,1", "", "", ""], Ok("f32[3,5,6]")),
            ("4,5,6", vec![0, 1], vec![0, 2], ["", "", "", "", "1,0"], Ok("f32[4,5,1]")),
            ("4,?", vec![0, 0], vec![0, 0], ["1,1", "1,1", "1,0", "", ""], Ok("f32[1,4,?]")),
            ("4,?", vec![2, -1], vec![0, 0], ["", "", "", "1,1", ""], Ok("f32[]")),
            (
                "4",
                vec![4],
                vec![5],
                ["", "", "", "1", ""],
                Err("index 4 is out of range for an axis"),
            ),
            (
                "4",
                vec![0, 0],
                vec![1, 1],
                ["", "", "", "", ""],
                Err("2 axes are sliced, but the data"),
            ),
            (
                "4",
                vec![0],
                vec![1],
                ["2", "", "", "", ""],
                Err("attribute begin_mask: 2 is neither"),
            ),
            ("4,4", vec![0], vec![1], ["", "", "", "", "1,1"], Err("only one position may be")),
        ] {
            case(shape, (&begin, &end), masks).expect(&[expected]);
        }
    }

    #[test]
    fn values() {
        let data = Input::bounds(I64, &[(2, 2), (1, 8), (7, 7)]);
        let inputs = [data, Input::ints(I64, &[1]), Input::ints(I64, &[2])];
        let case = Case::of("StridedSlice", "opset1").attr("begin_mask", "").attr("end_mask", "0");
        case.clone().inputs(inputs.clone()).expect(&[Ok("i64[1] = {1..8}")]);
        case.attr("shrink_axis_mask", "1").inputs(inputs).expect(&[Ok("i64[] = {1..8}")]);
    }
}
