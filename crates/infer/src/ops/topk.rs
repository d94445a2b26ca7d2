//! TopK-1, TopK-3, TopK-11: the largest or smallest elements along an axis, with their indices.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/top-k-11.html>
//!
//! Equal elements keep their order, whatever `stable` says.

use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::axes;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Versions 1 and 3.
    V1,
    /// With `stable`.
    V11,
}

/// The order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// By value; also if no order is requested.
    Value,
    /// By index.
    Index,
}

/// TopK of all versions.
#[derive(Debug)]
pub struct TopK {
    axis: i64,
    largest: bool,
    sort: Sort,
    index_type: ElementType,
}

impl Parse for TopK {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let orders = [("value", Sort::Value), ("index", Sort::Index), ("none", Sort::Value)];
        // The sort is always stable, but the attribute must be valid.
        if kind == Kind::V11 && attrs.bool_or("stable", false) {
            let sort = attrs.text("sort").unwrap_or_default();
            if sort.eq_ignore_ascii_case("none") {
                let message = "a stable order needs sort=\"value\" or sort=\"index\", not none";
                return Err(AttrError::new("stable", message));
            }
        }
        Ok(TopK {
            axis: attrs.int("axis")?,
            largest: attrs.choice("mode", &[("max", true), ("min", false)])?,
            sort: attrs.choice("sort", &orders)?,
            index_type: attrs.index_type_or("index_element_type", ElementType::I32)?,
        })
    }
}

impl TopK {
    /// The axis, for data of this rank.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn axis(&self, rank: usize) -> Result<usize, RuleError> {
        axes::normalize_attribute("axis", self.axis, rank)
    }

    /// Whether it finds the largest elements, not the smallest.
    pub fn largest(&self) -> bool {
        self.largest
    }

    /// The order of the results.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let k = cx.interval(1);
        if let Some(k) = k {
            require!(1; k.hi >= 0, "{} is not a number of elements", k.lo);
        }
        let Some(rank) = cx.rank(0) else {
            return Ok(cx.unranked("the rank of the data is unknown"));
        };
        let axis = self.axis(rank)?;
        cx.because("K is known only when running");
        let (k, size) = (k.map_or(Dim::any(), Dim::from), cx.shape(0).dim(axis));
        require!(1; k.min() <= size.max(), "{k} is more than the axis has, {size}");
        let found = k.meet(Dim::range(0, size.max())).unwrap_or(k);
        Ok(cx.shape(0).clone().with_dim(axis, found))
    }
}

impl Op for TopK {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "K"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let element_type = cx.expect_number(0)?;
        cx.expect_integer(1)?;
        cx.expect_rank(1, 0..=0)?;
        let shape = self.shape(cx)?;
        cx.set(0, element_type, shape.clone());
        cx.set(1, self.index_type, shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0).filter(|data| data.sizes.len() == 1)?;
        let [count] = cx.sizes()[..] else { return None };
        let keys = data.intervals()?.iter().map(|v| v.value()).collect::<Option<Vec<_>>>()?;
        let mut order: Vec<(i128, usize)> =
            keys.into_iter().map(|key| if self.largest { -key } else { key }).zip(0..).collect();
        order.sort_unstable();
        order.truncate(count);
        let mut positions: Vec<usize> = order.into_iter().map(|(_, position)| position).collect();
        if self.sort == Sort::Index {
            positions.sort_unstable();
        }
        if cx.output() == 0 {
            return data.gathered(&[count], positions.into_iter());
        }
        let exact = |position| i64::try_from(position).ok().map(Interval::exact);
        let values = positions.into_iter().map(exact).collect::<Option<_>>()?;
        Some(PartialValue::ints(self.index_type, &[count], values))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn values() {
        let case = |mode, sort, values: &[i64], expected: [&str; 2]| {
            let op = Case::of("TopK", "opset3").attr("axis", "0").attr("mode", mode);
            let op =
                op.attr("sort", sort).inputs([Input::ints(I64, values), Input::scalar(I64, 3)]);
            op.expect(&expected.map(Ok));
        };
        case("max", "index", &[5, 6, 4, 3, 8], ["i64[3] = {5, 6, 8}", "i32[3] = {0, 1, 4}"]);
        case("min", "value", &[5, 6, 4, 3, 8], ["i64[3] = {3, 4, 5}", "i32[3] = {3, 2, 0}"]);
        case("max", "value", &[7, 9, 7, 7], ["i64[3] = {9, 7, 7}", "i32[3] = {1, 0, 2}"]);
        let bounded = [Input::bounds(I64, &[(1, 2), (4, 4)]), Input::scalar(I64, 1)];
        let op = Case::of("TopK", "opset3").attr("axis", "0").attr("mode", "max");
        op.attr("sort", "value").inputs(bounded).expect(&[Ok("i64[1]"), Ok("i32[1]")]);
    }

    #[test]
    fn rule() {
        let case = |shape, k| {
            let op = Case::of("TopK", "opset11").attr("axis", "-1").attr("mode", "min");
            op.attr("sort", "index").attr("stable", "true").inputs([Input::shape(F16, shape), k])
        };
        let k = |k| Input::scalar(I32, k);
        case("2,?,5", k(3)).expect(&[Ok("f16[2,?,3]"), Ok("i32[2,?,3]")]);
        case("2,?", k(3)).expect(&[Ok("f16[2,3]"), Ok("i32[2,3]")]);
        case("...", k(3)).expect(&[Ok("f16[...]")]);
        case("2,5", Input::shape(I64, "[]")).expect(&[Ok("f16[2,..5]")]);
        case("2,?", Input::shape(I64, "[]")).expect(&[Ok("f16[2,?]")]);
        case("2,5", k(6)).expect(&[Err("input 1 (K): 6 is more than the axis has, 5")]);
        case("2,5", k(-1)).expect(&[Err("input 1 (K): -1 is not a number of elements")]);
        case("[]", k(1)).expect(&[Err("axis -1 is out of range for a scalar")]);
        case("2", Input::shape(I64, "1")).expect(&[Err("input 1 (K): must have rank 0, not 1")]);
        case("2", Input::shape(F32, "[]")).expect(&[Err("must be an integer type, not f32")]);
        let unsorted = Case::of("TopK", "opset11").attr("axis", "0").attr("mode", "max");
        let unsorted = unsorted.attr("sort", "none").attr("stable", "true");
        unsorted.expect(&[Err("attribute stable: a stable order needs sort=")]);
        let wide = case("4", k(2)).attr("index_element_type", "i64");
        wide.expect(&[Ok("f16[2]"), Ok("i64[2]")]);
    }
}
