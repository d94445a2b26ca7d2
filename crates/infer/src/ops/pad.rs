//! Pad-1, Pad-12: adds elements at the ends of axes, or crops them.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/pad-12.html>
//!
//! Negative pads are new in version 12, but also crop in version 1, as in OpenVINO.

use crate::lattice::shape::Dims;
use crate::lattice::value::{Elements, Interval};
use crate::rule::prelude::*;

/// The source of new elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The pad value.
    Constant,
    /// The element at the end of the axis.
    Edge,
    /// Mirrored without repeating the last element.
    Reflect,
    /// Mirrored with the last element repeated.
    Symmetric,
}

impl Mode {
    /// The element of an axis of `size` at `position`, which may be before or after the axis.
    /// `None` is the pad value.
    pub fn source(self, position: i64, size: i64) -> Option<usize> {
        let last = size.saturating_sub(1);
        let mirrored = |shift: i64| match position {
            p if p < 0 => p.saturating_neg().saturating_sub(shift),
            p if p > last => last.saturating_mul(2).saturating_add(shift).saturating_sub(p),
            p => p,
        };
        let index = match self {
            Mode::Constant => position,
            Mode::Edge => position.min(last).max(0),
            Mode::Reflect => mirrored(0),
            Mode::Symmetric => mirrored(1),
        };
        usize::try_from(index).ok().filter(|_| index < size)
    }
}

/// Pad of all versions.
#[derive(Debug)]
pub struct Pad {
    mode: Mode,
}

impl Parse for Pad {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let modes = [
            ("constant", Mode::Constant),
            ("edge", Mode::Edge),
            ("reflect", Mode::Reflect),
            ("symmetric", Mode::Symmetric),
        ];
        Ok(Pad { mode: attrs.choice("pad_mode", &modes)? })
    }
}

impl Pad {
    /// The source of new elements.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

impl Op for Pad {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "pads_begin", "pads_end", "pad_value"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=4)?;
        for input in 1..=2 {
            cx.expect_integer(input)?;
            cx.expect_rank(input, 1..=1)?;
            if let Some(rank) = cx.rank(0) {
                let fits = cx.shape(input).dim(0).contains(Dim::of(rank).min());
                require!(input; fits, "is {}, but the data have rank {rank}", cx.shape(input));
            }
        }
        let mut element_type = cx.element_type(0);
        if cx.input_count() == 4 && self.mode == Mode::Constant {
            element_type = cx.same_type([0, 3])?;
            cx.expect_rank(3, 0..=0)?;
        }
        let text = element_type == ElementType::String && self.mode != Mode::Constant;
        require!(0; !text, "strings are padded in mode constant only");
        let shape = match cx.shape(0).dims() {
            Some(dims) => PartialShape::Ranked(self.padded(cx, dims)?),
            None => cx.unranked("the rank of the data is unknown"),
        };
        cx.set(0, element_type, shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        let (&[size], &[begin]) = (&data.sizes[..], &cx.ints(1)?[..]) else { return None };
        let size = i64::try_from(size).ok()?;
        let [count] = cx.sizes()[..] else { return None };
        let value = match (cx.input_count(), self.mode) {
            (4, Mode::Constant) => *cx.value(3)?.intervals()?.first()?,
            _ => Interval::exact(0),
        };
        let Elements::Int(elements) = &data.elements else { return None };
        let at = |i: usize| {
            let position = i64::try_from(i).ok()?.saturating_sub(begin);
            match self.mode.source(position, size) {
                Some(index) => elements.get(index).copied(),
                None => Some(value),
            }
        };
        let values = (0..count).map(at).collect::<Option<_>>()?;
        Some(PartialValue::ints(data.element_type, &[count], values))
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::of([0, 3]))
    }
}

impl Pad {
    fn padded(&self, cx: &mut InferCx<'_>, dims: &[Dim]) -> Result<Dims, RuleError> {
        let (begins, ends) = (cx.intervals(1), cx.intervals(2));
        cx.because("the pads are known only when running");
        let mut out = Dims::new();
        for (axis, &dim) in dims.iter().enumerate() {
            let pad = |list: Option<&[Interval]>| list.and_then(|v| v.get(axis)).copied();
            let (Some(begin), Some(end)) = (pad(begins), pad(ends)) else {
                out.push(Dim::any());
                continue;
            };
            for (input, pad) in [(1, begin), (2, end)] {
                self.check(input, axis, dim, pad)?;
            }
            out.push(grown(dim, begin, end));
        }
        Ok(out)
    }

    /// Checks that an axis has enough elements to fill its pads.
    fn check(&self, input: usize, axis: usize, dim: Dim, pad: Interval) -> Result<(), RuleError> {
        let most: i128 = match self.mode {
            Mode::Reflect => i128::from(dim.max()) - 1,
            Mode::Symmetric => dim.max().into(),
            Mode::Edge if dim.max() == 0 => 0,
            _ => return Ok(()),
        };
        let (low, mode) = (pad.lo, self.mode);
        let enough = low <= most.max(0);
        require!(input; enough, "the pad of axis {axis} is {low}, {mode:?} of {dim} has {most}");
        Ok(())
    }
}

/// The dim with pads at both ends.
fn grown(dim: Dim, begin: Interval, end: Interval) -> Dim {
    let sum = |a: i128, b: i128| i64::try_from(a.saturating_add(b)).ok();
    if begin.is_exact() && end.is_exact() {
        return sum(begin.lo, end.lo).map_or(Dim::any(), |n| dim.offset(n));
    }
    let low = sum(begin.lo, end.lo).map_or(0, |n| dim.min().saturating_add(n));
    let endless = begin.hi.max(end.hi) >= Interval::INF || !dim.is_bounded();
    let high = sum(begin.hi, end.hi).filter(|_| !endless);
    let high = high.map_or(Dim::INF, |n| dim.max().saturating_add(n));
    Dim::range(low, high).with_why(dim.why().or(begin.why).or(end.why))
}

#[cfg(test)]
mod tests {
    use super::Mode;
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let i = |v: &[i64]| Input::ints(I64, v);
        for (mode, shape, begin, end, expected) in [
            ("constant", "1,3,?", i(&[0, 5, 2]), i(&[1, 0, -1]), Ok("f32[2,8,1..]")),
            ("constant", "3..5,2", i(&[-4, 0]), i(&[0, 0]), Ok("f32[..1,2]")),
            ("reflect", "3", i(&[2]), i(&[2]), Ok("f32[7]")),
            ("reflect", "3", i(&[3]), i(&[0]), Err("input 1 (pads_begin): the pad of axis 0 is 3")),
            ("symmetric", "3", i(&[3]), i(&[3]), Ok("f32[9]")),
            ("symmetric", "3", i(&[3]), i(&[4]), Err("input 2 (pads_end): the pad of axis 0 is 4")),
            ("edge", "0", i(&[1]), i(&[0]), Err("the pad of axis 0 is 1, Edge of 0 has 0")),
            ("edge", "0", i(&[0]), i(&[0]), Ok("f32[0]")),
            ("edge", "4", Input::bounds(I64, &[(1, 3)]), i(&[2]), Ok("f32[7..9]")),
            ("edge", "4,2", Input::shape(I64, "2"), i(&[2, 2]), Ok("f32[?,?]")),
            (
                "edge",
                "4,2",
                Input::shape(I64, "3"),
                i(&[2, 2]),
                Err("is [3], but the data have rank 2"),
            ),
            ("edge", "...", i(&[1]), i(&[1]), Ok("f32[...]")),
            ("wrap", "4", i(&[1]), i(&[1]), Err("\"wrap\" is not one of constant, edge")),
        ] {
            let inputs = [Input::shape(F32, shape), begin, end];
            Case::of("Pad", "opset12").attr("pad_mode", mode).inputs(inputs).expect(&[expected]);
        }
        let fill = |value| [Input::shape(F32, "2"), i(&[1]), i(&[1]), value];
        let case =
            |value| Case::of("Pad", "opset1").attr("pad_mode", "constant").inputs(fill(value));
        case(Input::shape(F32, "[]")).expect(&[Ok("f32[4]")]);
        case(Input::shape(F32, "1")).expect(&[Err("input 3 (pad_value): must have rank 0")]);
        case(Input::shape(I32, "[]")).expect(&[Err("is i32, but an earlier input is f32")]);
    }

    #[test]
    fn values() {
        let inputs = [Input::ints(I64, &[4, 5]), Input::ints(I64, &[-1]), Input::ints(I64, &[2])];
        let case = |mode| Case::of("Pad", "opset12").attr("pad_mode", mode).inputs(inputs.clone());
        case("constant").expect(&[Ok("i64[3] = {5, 0, 0}")]);
        case("symmetric").expect(&[Ok("i64[3] = {5, 5, 4}")]);
    }

    #[test]
    fn sources() {
        let at = |mode: Mode| (-3..7).map(|p| mode.source(p, 4)).collect::<Vec<_>>();
        let all = |v: [usize; 10]| v.map(Some).to_vec();
        assert_eq!(at(Mode::Edge), all([0, 0, 0, 0, 1, 2, 3, 3, 3, 3]));
        assert_eq!(at(Mode::Reflect), all([3, 2, 1, 0, 1, 2, 3, 2, 1, 0]));
        assert_eq!(at(Mode::Symmetric), all([2, 1, 0, 0, 1, 2, 3, 3, 2, 1]));
        assert_eq!(at(Mode::Constant)[2..5], [None, Some(0), Some(1)]);
        assert_eq!(Mode::Edge.source(0, 0), None);
        assert_eq!(Mode::Reflect.source(i64::MIN, 4), None);
    }
}
