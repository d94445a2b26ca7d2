//! Concat-1: concatenates tensors along an axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/concat-1.html>

use crate::lattice::shape::Dims;
use crate::lattice::value::{Elements, Interval};
use crate::rule::prelude::*;
use crate::rules::axes;

/// Concat-1.
#[derive(Debug)]
pub struct Concat {
    axis: i64,
}

impl Parse for Concat {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Concat { axis: attrs.int("axis")? })
    }
}

impl Concat {
    /// A concatenation along an axis.
    pub fn along(axis: usize) -> Concat {
        Concat { axis: i64::try_from(axis).unwrap_or(i64::MAX) }
    }

    /// The axis, for tensors of this rank.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn axis(&self, rank: usize) -> Result<usize, RuleError> {
        axes::normalize_attribute("axis", self.axis, rank)
    }
}

impl Op for Concat {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=usize::MAX)?;
        let count = cx.input_count();
        let element_type = cx.same_type(0..count)?;
        let Some(rank) = (0..count).find_map(|i| cx.rank(i)) else {
            cx.because("the rank of every input is unknown");
            cx.set(0, element_type, PartialShape::unranked());
            return Ok(());
        };
        let axis = self.axis(rank)?;
        let mut out: Option<Dims> = None;
        let mut total = Dim::fixed(0);
        for input in 0..count {
            let shape = cx.shape(input);
            let Some(dims) = shape.dims() else {
                total = total.plus(Dim::any());
                continue;
            };
            let found = dims.len();
            require!(input; found == rank, "has rank {found}, an earlier input has rank {rank}");
            total = total.plus(shape.dim(axis));
            let Some(so_far) = &mut out else {
                out = Some(dims.into());
                continue;
            };
            for (i, (a, b)) in so_far.iter_mut().zip(dims).enumerate().filter(|(i, _)| *i != axis) {
                let met = a.meet(*b);
                require!(
                    input; met.is_some(),
                    "is {shape}: axis {i} must be {a} as in earlier inputs, and only axis {axis} \
                     may differ"
                );
                *a = met.unwrap_or(*a);
            }
        }
        let mut out = out.unwrap_or_else(|| Dims::from_elem(Dim::any(), rank));
        if let Some(slot) = out.get_mut(axis) {
            *slot = total;
        }
        cx.set(0, element_type, PartialShape::Ranked(out));
        Ok(())
    }

    /// Shape sub-graphs concatenate scalars and lists. Unknown inputs leave the other elements
    /// known.
    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let sizes = cx.sizes();
        if sizes.len() != 1 {
            return None;
        }
        let element_type = cx.element_type();
        let mut ints: Vec<Interval> = Vec::new();
        let mut reals: Vec<(f64, f64)> = Vec::new();
        for input in 0..cx.input_count() {
            let fact = cx.input(input)?;
            match fact.value.as_deref().map(|v| &v.elements) {
                Some(Elements::Int(v)) => ints.extend(v),
                Some(Elements::Real(v)) => reals.extend(v),
                None => {
                    let count = fact.shape.volume().size()?;
                    let unknown = PartialValue::unknown(element_type, &[count])?;
                    ints.extend(unknown.intervals()?);
                }
            }
        }
        if reals.is_empty() {
            return Some(PartialValue::ints(element_type, &sizes, ints));
        }
        ints.is_empty().then(|| PartialValue::reals(element_type, &sizes, reals))
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::ALL)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let f = |s| Input::shape(F32, s);
        let case = |axis: &str| Case::of("Concat", "opset1").attr("axis", axis);
        for (axis, inputs, expected) in [
            ("1", vec![f("2,3"), f("?,4")], Ok("f32[2,7]")),
            ("-1", vec![f("2,1..3"), f("2,?")], Ok("f32[2,1..]")),
            ("0", vec![f("..."), f("2,3")], Ok("f32[2..,3]")),
            ("0", vec![f("...")], Ok("f32[...]")),
            ("0", vec![f("2,3"), f("2,4")], Err("input 1: is [2,4]: axis 1 must be 3")),
            ("0", vec![f("2,3"), f("2")], Err("input 1: has rank 1, an earlier input has rank 2")),
            ("2", vec![f("2,3")], Err("axis 2 is out of range for rank 2")),
            ("0", vec![f("2"), Input::shape(F16, "2")], Err("is f16, but an earlier input is f32")),
        ] {
            case(axis).inputs(inputs).expect(&[expected]);
        }
        let mixed = [Input::ints(I64, &[3]), Input::shape(I64, "1"), Input::bounds(I64, &[(1, 8)])];
        case("0").inputs(mixed).expect(&[Ok("i64[3] = {3, ?, 1..8}")]);
    }
}
