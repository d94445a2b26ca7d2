//! StridedSlice-1: a slice of a tensor, with masks that ignore bounds and add, drop or skip axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/strided-slice-1.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::{Interval, MAX_ELEMENTS};
use crate::rule::prelude::*;
use crate::rules::slicing::{Bounds, Range, bound};

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
        op.check_lengths()?;
        if op.ellipsis_mask.iter().filter(|v| **v == 1).count() > 1 {
            return Err(AttrError::new("ellipsis_mask", "only one position may be an ellipsis"));
        }
        Ok(op)
    }
}

/// What happens to the next axis of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new axis of size 1 is inserted.
    New,
    /// The axis is kept.
    Keep,
    /// The axis is dropped; one index is taken.
    Shrink(Option<i64>),
    /// A slice of the axis; `None` if a bound is not known yet.
    Slice(Option<Range>),
}

impl StridedSlice {
    /// Checks that masks that are not empty have one length.
    fn check_lengths(&self) -> Result<(), AttrError> {
        let masks = [
            ("begin_mask", &self.begin_mask),
            ("end_mask", &self.end_mask),
            ("new_axis_mask", &self.new_axis_mask),
            ("shrink_axis_mask", &self.shrink_axis_mask),
            ("ellipsis_mask", &self.ellipsis_mask),
        ];
        let lengths = masks.iter().map(|(name, mask)| (*name, mask.len()));
        let mut lengths = lengths.filter(|(_, length)| *length > 0);
        let Some((first, expected)) = lengths.next() else { return Ok(()) };
        match lengths.find(|(_, length)| *length != expected) {
            Some((name, length)) => {
                let message = format!("holds {length} values, {first} holds {expected}");
                Err(AttrError::new(name, message))
            }
            None => Ok(()),
        }
    }

    /// What happens to each axis of a tensor of this rank. Without strides every step is 1.
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
        let placed = self.placed(begin, end, strides, rank)?;
        Ok(placed.into_iter().map(|(_, step)| step).collect())
    }

    /// As [`StridedSlice::steps`], each with its position in the lists.
    fn placed(
        &self,
        begin: &[Option<i64>],
        end: &[Option<i64>],
        strides: Option<&[Option<i64>]>,
        rank: usize,
    ) -> Result<Vec<(usize, Step)>, RuleError> {
        let count = begin.len();
        let set = |mask: &[i64], i: usize| mask.get(i) == Some(&1);
        let named = (0..count)
            .filter(|&i| !set(&self.new_axis_mask, i) && !set(&self.ellipsis_mask, i))
            .count();
        require!(named <= rank, "{named} axes are sliced, but the data has rank {rank}");
        let mut steps = Vec::new();
        for i in 0..count {
            if set(&self.ellipsis_mask, i) {
                steps.extend(std::iter::repeat_n((i, Step::Keep), rank - named));
            } else if set(&self.new_axis_mask, i) {
                steps.push((i, Step::New));
            } else {
                steps.push((i, self.step(i, begin, end, strides)?));
            }
        }
        let used = steps.iter().filter(|(_, s)| *s != Step::New).count();
        steps.extend(std::iter::repeat_n((count, Step::Keep), rank.saturating_sub(used)));
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
        let mut count = Dim::any();
        for input in 1..cx.input_count() {
            let found = cx.shape(input).volume();
            let message = || format!("holds {found} values, the lists before it {count}");
            count = count.meet(found).ok_or_else(|| RuleError::at(input, message()))?;
        }
        let count = count.size().filter(|count| *count <= MAX_ELEMENTS);
        let (Some(dims), Some(count)) = (cx.shape(0).dims(), count) else {
            return Ok(cx.unranked("the rank of the result is known only when running"));
        };
        let list = |input: usize| match cx.intervals(input) {
            Some(list) => list.to_vec(),
            None if input < cx.input_count() => vec![Interval::any(ElementType::I64); count],
            None => vec![Interval::exact(1); count],
        };
        let lists = [list(1), list(2), list(3)];
        let [begin, end, strides] =
            lists.each_ref().map(|list| list.iter().map(|v| bound(*v)).collect::<Vec<_>>());
        let steps = self.placed(&begin, &end, Some(&strides), dims.len())?;
        cx.because("where the slice begins and ends is known only when running");
        let mut axes = dims.iter();
        let mut out = Dims::new();
        for (i, step) in steps {
            if step == Step::New {
                out.push(Dim::fixed(1));
                continue;
            }
            let Some(dim) = axes.next().copied() else { continue };
            match step {
                Step::Keep | Step::New => out.push(dim),
                Step::Shrink(index) => check_index(index, dim, cx)?,
                Step::Slice(Some(range)) => out.push(range.apply(dim)),
                Step::Slice(None) => out.push(self.loosely(dim, i, &lists)),
            }
        }
        Ok(PartialShape::Ranked(out))
    }

    /// The size of a slice if begin, end or stride is not known exactly.
    fn loosely(&self, dim: Dim, i: usize, lists: &[Vec<Interval>; 3]) -> Dim {
        let [begin, end, stride] = lists.each_ref().map(|list| list.get(i).copied());
        let unless = |mask: &[i64], v: Option<Interval>| v.filter(|_| mask.get(i) != Some(&1));
        let (start, stop) = (unless(&self.begin_mask, begin), unless(&self.end_mask, end));
        match stride.and_then(bound) {
            Some(step) => Bounds { start, stop, step, starts_inside: true }.apply(dim),
            None => Dim::range(0, dim.max()),
        }
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
        OpTraits::moving(InputSet::one(0))
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
            (
                "4",
                vec![0],
                vec![1],
                ["1", "1", "1,0", "", ""],
                Err("attribute new_axis_mask: holds 2 values, begin_mask holds 1"),
            ),
            ("4,4", vec![0], vec![1], ["", "", "", "", "1,1"], Err("only one position may be")),
        ] {
            case(shape, (&begin, &end), masks).expect(&[expected]);
        }
    }

    /// Known bounds count; lists of unknown length may have any length.
    #[test]
    fn partly_known() {
        let i = |v: &[i64]| Input::ints(I64, v);
        let late = |shape| Input::shape(I64, shape);
        let case = || Case::of("StridedSlice", "opset1").attr("end_mask", "0,0");
        let case = || case().attr("begin_mask", "0,0");
        for (begin, end, strides, expected) in [
            (i(&[1, 0]), late("?"), i(&[1, 1]), Ok("f32[..3,?,2..5]")),
            (i(&[1, 0]), late("..."), late("?"), Ok("f32[..4,?,2..5]")),
            (late("?"), i(&[3, 2]), late("?"), Ok("f32[..4,?,2..5]")),
            (late("?"), i(&[3, 2]), i(&[1, 1]), Ok("f32[..3,..2,2..5]")),
            (late("..."), late("?"), i(&[2, 1]), Ok("f32[..2,?,2..5]")),
            (late("2"), late("?"), late("?"), Ok("f32[..4,?,2..5]")),
            (late("?"), late("?"), late("?"), Ok("f32[...]")),
            (i(&[0]), Input::bounds(I64, &[(2, 3)]), i(&[1]), Ok("f32[2..3,?,2..5]")),
            (i(&[0]), Input::bounds(I64, &[(2, 3)]), i(&[2]), Ok("f32[1..2,?,2..5]")),
            (i(&[0]), i(&[1, 1]), late("?"), Err("input 2 (end): holds 2 values, the lists")),
            (late("?"), i(&[1, 1]), i(&[1]), Err("input 3 (stride): holds 1 values, the lists")),
        ] {
            let inputs = [Input::shape(F32, "4,?,2..5"), begin, end, strides];
            case().inputs(inputs).expect(&[expected]);
        }
        let inputs = [Input::shape(F32, "4,6"), late("2"), late("?"), late("?")];
        let shrunk = case().attr("shrink_axis_mask", "1,0").inputs(inputs.clone());
        shrunk.expect(&[Ok("f32[..6]")]);
        case().attr("new_axis_mask", "1,0").inputs(inputs.clone()).expect(&[Ok("f32[1,..4,6]")]);
        case().attr("ellipsis_mask", "1,0").inputs(inputs).expect(&[Ok("f32[4,..6]")]);
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
