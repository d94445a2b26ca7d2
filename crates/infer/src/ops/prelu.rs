//! PReLU-1: multiplies elements below 0 by a slope.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/activation/prelu-1.html>

use crate::rule::prelude::*;
use crate::rules::broadcast::numpy;
use smallvec::SmallVec;

/// PReLU-1.
#[derive(Debug)]
pub struct PRelu;

no_attributes!(PRelu);

impl PRelu {
    /// The sizes of the slope for NumPy broadcasting: a list with a slope per channel belongs to
    /// axis 1, and one slope serves all elements, whatever its rank is.
    pub fn aligned(data: &[usize], slope: &[usize]) -> SmallVec<[usize; 6]> {
        if slope.iter().all(|size| *size == 1) {
            return SmallVec::new();
        }
        let mut sizes = SmallVec::from(slope);
        if let ([count], Some(channels)) = (slope, data.get(1))
            && count == channels
        {
            sizes.extend(data.iter().skip(2).map(|_| 1));
        }
        sizes
    }
}

impl Op for PRelu {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "slope"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        (0..2).try_for_each(|input| cx.expect_number(input).map(drop))?;
        let element_type = cx.mixed(0..2)?;
        let (data, slope) = (cx.shape(0), cx.shape(1));
        let along_channels = slope.rank().is_none_or(|rank| rank == 1)
            && data.rank().is_none_or(|rank| rank > 1)
            && slope.dim(0).meet(data.dim(1)).is_some();
        let is_one = slope.volume() == Dim::fixed(1);
        if !along_channels && !is_one {
            let fits = numpy(data, slope, cx.symbols()).is_ok_and(|all| all.is_compatible(data));
            require!(1; fits, "is {slope}, which cannot be repeated to {data}");
        }
        cx.set(0, element_type, data.clone());
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::PURE.mixing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (data, slope, expected) in [
            ("2,3,?", "3", Ok("f32[2,3,?]")),
            ("2,3,4", "4", Ok("f32[2,3,4]")),
            ("2,?,4", "3", Ok("f32[2,?,4]")),
            ("2,3,4", "1", Ok("f32[2,3,4]")),
            ("2,3,4", "2,1,1", Ok("f32[2,3,4]")),
            ("5", "5", Ok("f32[5]")),
            ("[]", "1,1", Ok("f32[]")),
            ("...", "3,3", Ok("f32[...]")),
            ("2,3,4", "5", Err("input 1 (slope): is [5], which cannot be repeated to [2,3,4]")),
            ("3", "2,3", Err("input 1 (slope): is [2,3]")),
        ] {
            let inputs = [Input::shape(F32, data), Input::shape(F32, slope)];
            Case::of("PReLU", "opset1").inputs(inputs).expect(&[expected]);
        }
        assert_eq!(PRelu::aligned(&[2, 3, 4, 3], &[3])[..], [3, 1, 1]);
        assert_eq!(PRelu::aligned(&[2, 3, 4], &[4])[..], [4]);
    }

    #[test]
    fn f32_beside_f16_gives_the_type_of_the_data() {
        Case::of("PReLU", "opset1")
            .inputs([Input::shape(F16, "2,3"), Input::shape(F32, "3")])
            .expect(&[Ok("f16[2,3]")]);
    }
}
