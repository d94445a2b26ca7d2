//! OneHot-1, OneHot-16: a new axis on which each index marks one position.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/one-hot-16.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::axes;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Negative indices mark nothing.
    V1,
    /// With `negative_indices_mode`.
    V16,
}

/// OneHot of all versions.
#[derive(Clone, Copy, Debug)]
pub struct OneHot {
    axis: i64,
    normalize: bool,
}

impl Parse for OneHot {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        // The word in the specification, and the one that OpenVINO's writer uses.
        let modes = [("ignore-negative", false), ("ignore_negative", false), ("normalize", true)];
        let normalize = match kind {
            Kind::V1 => false,
            Kind::V16 => attrs.choice_or("negative_indices_mode", &modes, false)?,
        };
        Ok(OneHot { axis: attrs.int("axis")?, normalize })
    }
}

impl OneHot {
    /// The new axis in the output, for indices of this rank.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn axis(&self, rank: usize) -> Result<usize, RuleError> {
        axes::normalize_attribute("axis", self.axis, rank + 1)
    }

    /// The position that an index marks on an axis of `depth`.
    pub fn place(&self, index: i64, depth: usize) -> Option<usize> {
        let negative = index < 0 && self.normalize;
        let index = if negative {
            index.saturating_add(i64::try_from(depth).unwrap_or(i64::MAX))
        } else {
            index
        };
        usize::try_from(index).ok().filter(|i| *i < depth)
    }
}

impl Op for OneHot {
    fn input_names(&self) -> &'static [&'static str] {
        &["indices", "depth", "on_value", "off_value"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=4)?;
        cx.expect_integer(0)?;
        cx.expect_whole(1)?;
        for input in 1..4 {
            cx.expect_rank(input, 0..=0)?;
        }
        let element_type = cx.same_type([2, 3])?;
        let depth = cx.interval(1);
        if let Some(depth) = depth {
            require!(1; depth.hi >= 0, "is {}, which is no number of classes", depth.hi);
        }
        let shape = match cx.shape(0).dims() {
            Some(dims) => {
                cx.because("the depth is known only when running");
                let mut out = Dims::from(dims);
                out.insert(self.axis(dims.len())?, depth.map_or(Dim::any(), Dim::from));
                PartialShape::Ranked(out)
            }
            None => cx.unranked("the rank of the indices is unknown"),
        };
        cx.set(0, element_type, shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let (indices, sizes) = (cx.ints(0)?, cx.sizes());
        let one = |input: usize| cx.value(input)?.intervals()?.first().copied();
        let (on, off) = (one(2)?, one(3)?);
        let axis = self.axis(sizes.len().checked_sub(1)?).ok()?;
        let depth = *sizes.get(axis)?;
        let inner: usize = sizes.iter().skip(axis + 1).product();
        let element = |i: usize| {
            let (slice, class) = (i / inner / depth, i / inner % depth);
            let index = *indices.get(slice * inner + i % inner)?;
            Some(if self.place(index, depth) == Some(class) { on } else { off })
        };
        let values = (0..sizes.iter().product()).map(element).collect::<Option<_>>()?;
        Some(PartialValue::ints(cx.element_type(), &sizes, values))
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::of([2, 3]))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(version: &'static str, indices: Input, depth: Input) -> Case {
        let inputs = [indices, depth, Input::scalar(I64, 1), Input::scalar(I64, 0)];
        Case::of("OneHot", version).inputs(inputs)
    }

    #[test]
    fn rule() {
        let depth = |v| Input::scalar(I64, v);
        let range = Input::bounds(I64, &[(2, 5)]).shaped(&[]);
        for (shape, depth, axis, expected) in [
            ("2,3", depth(4), "1", Ok("i64[2,4,3]")),
            ("2,?", depth(4), "-1", Ok("i64[2,?,4]")),
            ("2", Input::shape(I64, "[]"), "0", Ok("i64[?,2]")),
            ("2", range, "0", Ok("i64[2..5,2]")),
            ("[]", depth(0), "0", Ok("i64[0]")),
            ("...", depth(4), "7", Ok("i64[...]")),
            ("2,3", depth(4), "3", Err("axis 3 is out of range for rank 3")),
            ("2,3", depth(-4), "0", Err("input 1 (depth): is -4, which is no number of classes")),
            ("2,3", Input::shape(I64, "1"), "0", Err("input 1 (depth): must have rank 0")),
        ] {
            case("opset1", Input::shape(I64, shape), depth).attr("axis", axis).expect(&[expected]);
        }
    }

    #[test]
    fn values() {
        let case = |version| {
            let case = case(version, Input::ints(I32, &[0, -5, -2, 2]), Input::scalar(I32, 3));
            case.attr("axis", "-1")
        };
        let mode = |mode| case("opset16").attr("negative_indices_mode", mode);
        let ignored = Ok("i64[4,3] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}");
        case("opset1").expect(&[ignored]);
        case("opset16").expect(&[ignored]);
        mode("ignore-negative").expect(&[ignored]);
        mode("ignore_negative").expect(&[ignored]);
        mode("normalize").expect(&[Ok("i64[4,3] = {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1}")]);
    }
}
