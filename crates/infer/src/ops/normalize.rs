//! MVN-1, MVN-6, NormalizeL2-1 and GRN-1: slices of a tensor, centred and divided by a norm.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/mvn-6.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MVN-1: attributes name the axes.
    Mvn1,
    /// MVN-6: an input names the axes.
    Mvn6,
    /// NormalizeL2-1.
    L2,
    /// GRN-1: along the channels.
    Grn,
}

/// The divisor of a slice, from the sum of its squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// None.
    None,
    /// `sqrt(sum / count + eps)`.
    DeviationInside(f64),
    /// `sqrt(sum / count) + eps`.
    DeviationOutside(f64),
    /// `sqrt(sum + eps)`.
    NormPlus(f64),
    /// `sqrt(max(sum, eps))`.
    NormAtLeast(f64),
}

/// The axes of a slice.
#[derive(Debug)]
enum Axes {
    /// The values of input 1.
    Input,
    /// Those listed.
    Listed(Vec<i64>),
    /// All from this axis on.
    From(usize),
}

/// An operation of this file.
#[derive(Debug)]
pub struct Normalize {
    kind: Kind,
    axes: Axes,
    measure: Measure,
}

impl Parse for Normalize {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut axes = Axes::Input;
        let measure = match kind {
            Kind::Grn => {
                axes = Axes::Listed(vec![1]);
                Measure::NormPlus(attrs.float("bias")?)
            }
            Kind::L2 => {
                let eps = attrs.float("eps")?;
                let modes = [("add", Measure::NormPlus(eps)), ("max", Measure::NormAtLeast(eps))];
                attrs.choice("eps_mode", &modes)?
            }
            Kind::Mvn1 => {
                // OpenVINO writes both attributes; the list is empty if it does not count.
                let listed = attrs.list_opt("reduction_axes")?.unwrap_or_default();
                let across = attrs.bool_or("across_channels", true);
                axes = if listed.is_empty() {
                    Axes::From(if across { 1 } else { 2 })
                } else {
                    Axes::Listed(listed)
                };
                let eps = attrs.float("eps")?;
                with_variance(attrs, Measure::DeviationInside(eps))
            }
            Kind::Mvn6 => {
                let eps = attrs.float("eps")?;
                let (inside, outside) =
                    (Measure::DeviationInside(eps), Measure::DeviationOutside(eps));
                let modes = [("inside_sqrt", inside), ("outside_sqrt", outside)];
                let measure = attrs.choice("eps_mode", &modes)?;
                with_variance(attrs, measure)
            }
        };
        Ok(Normalize { kind, axes, measure })
    }
}

/// The measure, or none if the variance is not normalized.
fn with_variance(attrs: &mut Attrs<'_>, measure: Measure) -> Measure {
    if attrs.bool_or("normalize_variance", true) { measure } else { Measure::None }
}

impl Normalize {
    /// Whether the mean is subtracted.
    pub fn is_centered(&self) -> bool {
        matches!(self.kind, Kind::Mvn1 | Kind::Mvn6)
    }

    /// The divisor of a slice.
    pub fn measure(&self) -> Measure {
        self.measure
    }

    /// The axes of a slice if attributes give them; `None` if input 1 does.
    ///
    /// # Errors
    /// When an axis is out of range.
    pub fn axes(&self, rank: usize) -> Result<Option<Vec<usize>>, RuleError> {
        match &self.axes {
            Axes::Input => Ok(None),
            Axes::Listed(axes) => axes
                .iter()
                .map(|axis| axes::normalize_attribute("reduction_axes", *axis, rank))
                .collect::<Result<_, _>>()
                .map(Some),
            Axes::From(first) => Ok(Some((*first..rank).collect())),
        }
    }
}

impl Op for Normalize {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axes"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let element_type = cx.expect_real(0)?;
        if let Axes::Input = self.axes {
            cx.expect_inputs(2..=2)?;
            axes::of_input(cx, cx.rank(0), 1)?;
        } else {
            cx.expect_inputs(1..=1)?;
        }
        if self.kind == Kind::Grn {
            cx.expect_rank(0, 2..=4)?;
        }
        if let Some(rank) = cx.rank(0) {
            self.axes(rank)?;
        }
        cx.set(0, element_type, cx.shape(0).clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn f(shape: &str) -> Input {
        Input::shape(F32, shape)
    }

    #[test]
    fn axes_from_an_input() {
        let mvn = Case::of("MVN", "opset6").attr("eps", "1e-9").attr("eps_mode", "INSIDE_SQRT");
        let mvn = mvn.attr("normalize_variance", "true");
        let l2 = Case::of("NormalizeL2", "opset1").attr("eps", "1e-8").attr("eps_mode", "max");
        for op in [mvn, l2] {
            for (data, axes, expected) in [
                ("2,?,3..5", Input::ints(I64, &[-1, 1]), Ok("f32[2,?,3..5]")),
                ("...", Input::ints(I32, &[7]), Ok("f32[...]")),
                ("2,3", Input::shape(I64, "?"), Ok("f32[2,3]")),
                ("2,3", Input::ints(I64, &[2]), Err("input 1 (axes): axis 2 is out of range")),
                ("2,3", Input::shape(I64, "1,1"), Err("(axes): must have rank 0 to 1, not 2")),
                ("2,3", Input::shape(F32, "1"), Err("(axes): must be an integer type, not f32")),
            ] {
                op.clone().inputs([f(data), axes]).expect(&[expected]);
            }
        }
        let word = Case::of("NormalizeL2", "opset1").attr("eps", "1").attr("eps_mode", "min");
        let axes = Input::ints(I64, &[0]);
        word.inputs([f("2"), axes]).expect(&[Err("\"min\" is not one of add, max")]);
    }

    #[test]
    fn axes_from_attributes() {
        let mvn = Case::of("MVN", "opset2").attr("eps", "1e-9").attr("normalize_variance", "true");
        let across = mvn.clone().attr("across_channels", "false");
        across.inputs([f("2,?,4")]).expect(&[Ok("f32[2,?,4]")]);
        let listed = mvn.attr("reduction_axes", "2,-3");
        listed.clone().inputs([f("2,3,4")]).expect(&[Ok("f32[2,3,4]")]);
        listed.inputs([f("2,3")]).expect(&[Err("axis 2 is out of range for rank 2")]);
        let grn = Case::of("GRN", "opset1").attr("bias", "0.1");
        grn.clone().inputs([f("?,3,4")]).expect(&[Ok("f32[?,3,4]")]);
        grn.clone().inputs([f("3")]).expect(&[Err("must have rank 2 to 4, not 1")]);
        grn.inputs([Input::shape(I32, "1,3")]).expect(&[Err("must be a floating-point type")]);
    }
}
