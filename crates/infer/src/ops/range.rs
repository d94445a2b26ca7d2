//! Range-1 (type `Range` of opset1), Range-4: evenly spaced numbers.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/generation/range-4.html>
//!
//! For an integer output, start, stop and step are truncated. If the step becomes 0, which the
//! specification leaves undefined, real numbers are rounded instead, as in OpenVINO's CPU plugin.

use crate::lattice::value::{Elements, Interval, f64_to_int};
use crate::rule::prelude::*;
use crate::rules::interval::{Arithmetic, ints};

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The output has the type of the inputs.
    V1,
    /// With `output_type`.
    V4,
}

/// Range of all versions.
#[derive(Debug)]
pub struct Range {
    /// `None` for the type of the inputs.
    output_type: Option<ElementType>,
}

impl Parse for Range {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let output_type = match kind {
            Kind::V1 => None,
            Kind::V4 => Some(attrs.element_type("output_type")?),
        };
        Ok(Range { output_type })
    }
}

impl Range {
    /// A Range with this output type.
    pub fn of(element_type: ElementType) -> Range {
        Range { output_type: Some(element_type) }
    }
}

impl Op for Range {
    fn input_names(&self) -> &'static [&'static str] {
        &["start", "stop", "step"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        for input in 0..3 {
            cx.expect_number(input)?;
            cx.expect_rank(input, 0..=0)?;
        }
        let element_type = match self.output_type {
            Some(element_type) => element_type,
            None => cx.same_type(0..3)?,
        };
        let size = size(cx, element_type)?;
        cx.set(0, element_type, [size]);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let element_type = cx.element_type();
        element_type.integer_range()?;
        let start = *cx.value(0)?.intervals()?.first()?;
        let step = cx.value(2)?.intervals()?.first()?.value()?;
        let [size] = cx.sizes()[..] else { return None };
        let at = |i: usize| {
            let distance = step.checked_mul(i128::try_from(i).ok()?)?;
            Some(ints(Arithmetic::Add, start, Interval::exact(distance), element_type))
        };
        let values = (0..size).map(at).collect::<Option<_>>()?;
        Some(PartialValue::ints(element_type, &cx.sizes(), values))
    }
}

/// The number of elements, as far as start, stop and step are known.
fn size(cx: &mut InferCx<'_>, element_type: ElementType) -> Result<Dim, RuleError> {
    let known: Vec<&PartialValue> = (0..3).filter_map(|i| cx.value(i)).collect();
    cx.because("start, stop or step is known only when running");
    let one = |v: &&PartialValue| v.intervals().and_then(|v| v.first()).copied();
    let whole: Option<Vec<Interval>> = known.iter().map(one).collect();
    if let Some([start, stop, step]) = whole.as_deref() {
        return count_of_ints(*start, *stop, *step);
    }
    let number = |v: &&PartialValue| v.f64s().and_then(|v| v.first().copied());
    // NaN is a known value, but equal to nothing.
    let endless = |v: &PartialValue| match &v.elements {
        Elements::Real(v) => {
            v.iter().any(|(lo, hi)| lo.is_nan() || hi.is_nan() || (lo == hi && lo.is_infinite()))
        }
        Elements::Int(_) => false,
    };
    for input in 0..3 {
        let endless = cx.value(input).is_some_and(endless);
        require!(input; !endless, "is not finite; start, stop and step must be");
    }
    let reals: Option<Vec<f64>> = known.iter().map(number).collect();
    let Some([start, stop, step]) = reals.as_deref() else { return Ok(Dim::any()) };
    count_of_reals([*start, *stop, *step], element_type)
}

fn count_of_ints(start: Interval, stop: Interval, step: Interval) -> Result<Dim, RuleError> {
    if start.value() == Some(0) && step.value() == Some(1) {
        return Ok(stop.into());
    }
    let why = start.why.or(stop.why).or(step.why);
    let Some(step) = step.value() else { return Ok(Dim::any().with_why(why)) };
    if step == 0 {
        let empty = start.is_exact() && start.value() == stop.value();
        require!(2; empty, "is 0, which never leads from start to stop");
        return Ok(Dim::fixed(0));
    }
    // The least and the greatest distance from start to stop.
    let (least, most) = if step > 0 {
        (stop.lo.saturating_sub(start.hi), stop.hi.saturating_sub(start.lo))
    } else {
        (start.lo.saturating_sub(stop.hi), start.hi.saturating_sub(stop.lo))
    };
    let far = if step > 0 { stop.hi } else { start.hi };
    let distance = i128::try_from(step.unsigned_abs()).unwrap_or(i128::MAX);
    let count = |way: i128| {
        let steps = way / distance + i128::from(way % distance > 0);
        i64::try_from(steps.max(0)).unwrap_or(Dim::INF)
    };
    let most = if far >= Interval::INF { Dim::INF } else { count(most) };
    Ok(Dim::range(count(least), most).with_why(why))
}

/// Whether a step is truncated to 0.
pub fn vanishes(step: f64) -> bool {
    step.trunc() == 0.0
}

fn count_of_reals(bounds: [f64; 3], element_type: ElementType) -> Result<Dim, RuleError> {
    require!(bounds.iter().all(|v| v.is_finite()), "start, stop and step must be finite");
    let whole = element_type.integer_range().is_some() && !vanishes(bounds[2]);
    let [start, stop, step] = bounds.map(|v| if whole { v.trunc() } else { v });
    if step == 0.0 {
        require!(2; start == stop, "is 0, which never leads from {start} to {stop}");
        return Ok(Dim::fixed(0));
    }
    let steps = f64_to_int(((stop - start) / step).ceil()).max(0);
    Ok(Dim::fixed(i64::try_from(steps).unwrap_or(Dim::INF)))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn bound(low: i64, high: i64) -> Input {
        Input::bounds(I64, &[(low, high)]).shaped(&[])
    }

    #[test]
    fn rule() {
        let i = |v| Input::scalar(I64, v);
        let late = || Input::shape(I64, "[]");
        for (start, stop, step, expected) in [
            (i(2), i(23), i(3), Ok("i32[7] = {2, 5, 8, 11, 14, 17, 20}")),
            (i(23), i(2), i(-3), Ok("i32[7] = {23, 20, 17, 14, 11, 8, 5}")),
            (i(5), i(2), i(1), Ok("i32[0] = {}")),
            (i(2), i(2), i(0), Ok("i32[0] = {}")),
            (i(2), i(3), i(0), Err("input 2 (step): is 0, which never leads")),
            (i(0), late(), i(1), Ok("i32[?]")),
            (i(0), bound(2, 9), i(1), Ok("i32[2..9]")),
            (i(1), bound(2, 10), i(2), Ok("i32[1..5]")),
            (bound(2, 10), i(1), i(-2), Ok("i32[1..5]")),
            (Input::shape(I64, "1"), i(1), i(1), Err("input 0 (start): must have rank 0")),
            (Input::shape(Boolean, "[]"), i(1), i(1), Err("must be a numeric type")),
        ] {
            let case = Case::of("Range", "opset4").attr("output_type", "i32");
            case.inputs([start, stop, step]).expect(&[expected]);
        }
        let case = |inputs| Case::of("Range", "opset1").inputs(inputs);
        case([i(0), i(3), i(1)]).expect(&[Ok("i64[3] = {0, 1, 2}")]);
        case([Input::shape(I32, "[]"), i(3), i(1)]).expect(&[Err("is i64, but an earlier")]);
    }

    #[test]
    fn reals() {
        let real = |v: f64| Input::reals(F32, &[v]).shaped(&[]);
        let case = |inputs: [f64; 3], output_type| {
            let case = Case::of("Range", "opset4").attr("output_type", output_type);
            case.inputs(inputs.map(real))
        };
        case([1.0, 2.5, 0.5], "f32").expect(&[Ok("f32[3]")]);
        case([1.0, 2.5, 0.25], "f16").expect(&[Ok("f16[6]")]);
        case([-1.9, 2.9, 1.5], "i32").expect(&[Ok("i32[3]")]);
        case([0.0, f64::NAN, 1.0], "f32").expect(&[Err("input 1 (stop): is not finite")]);
        case([0.0, f64::INFINITY, 1.0], "f32").expect(&[Err("input 1 (stop): is not finite")]);
        let late = || Input::shape(F32, "[]");
        let partly = Case::of("Range", "opset1").inputs([late(), late(), real(-f64::INFINITY)]);
        partly.expect(&[Err("input 2 (step): is not finite")]);
        case([1.0, 4.0, 0.5], "i32").expect(&[Ok("i32[6]")]);
        case([0.0, 2.0, 0.0], "f32").expect(&[Err("input 2 (step): is 0")]);
    }
}
