//! PriorBox-1, -8: boxes of given sizes and aspect ratios around every cell of a grid.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/prior-box-8.html>
//!
//! The number of boxes per cell is the one that OpenVINO computes, which can differ from the number
//! that the attributes describe (`scale_all_sizes` without `max_size`, `fixed_ratio` with
//! `density`). Boxes are contiguous, and the output ends when it is full.

use crate::rule::prelude::*;
use crate::rules::detection::{infer_prior_boxes, variances};

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The box of the maximum size comes before those of other aspect ratios.
    V1,
    /// `min_max_aspect_ratios_order` determines the order.
    V8,
}

/// PriorBox of all versions.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the attributes of the specification
pub struct PriorBox {
    pub min_size: Vec<f32>,
    pub max_size: Vec<f32>,
    pub aspect_ratio: Vec<f32>,
    pub fixed_size: Vec<f32>,
    pub fixed_ratio: Vec<f32>,
    /// One for each fixed size, at least 1.
    pub density: Vec<i64>,
    pub variance: Vec<f32>,
    pub flip: bool,
    pub clip: bool,
    pub scale_all_sizes: bool,
    pub max_before_ratios: bool,
    pub step: f32,
    pub offset: f32,
}

impl Parse for PriorBox {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let fixed_size = positive(attrs, "fixed_size")?;
        Ok(PriorBox {
            min_size: positive(attrs, "min_size")?,
            max_size: positive(attrs, "max_size")?,
            aspect_ratio: positive(attrs, "aspect_ratio")?,
            fixed_ratio: positive(attrs, "fixed_ratio")?,
            density: densities(attrs, fixed_size.len())?,
            fixed_size,
            variance: variances(attrs)?,
            flip: attrs.bool_or("flip", false),
            clip: attrs.bool_or("clip", false),
            scale_all_sizes: attrs.bool_or("scale_all_sizes", true),
            max_before_ratios: kind == Kind::V1
                || attrs.bool_or("min_max_aspect_ratios_order", true),
            step: attrs.single("step", Some(0.0))?,
            offset: attrs.single("offset", None)?,
        })
    }
}

fn positive(attrs: &mut Attrs<'_>, name: &str) -> Result<Vec<f32>, AttrError> {
    let values: Vec<f32> = attrs.list_opt(name)?.unwrap_or_default();
    match values.iter().find(|v| **v <= 0.0 || v.is_nan()) {
        Some(bad) => Err(AttrError::new(name, format!("{bad} is not above 0"))),
        None => Ok(values),
    }
}

/// The integer part of each density; 1 for a fixed size without one.
fn densities(attrs: &mut Attrs<'_>, sizes: usize) -> Result<Vec<i64>, AttrError> {
    let values: Vec<f64> = attrs.list_opt("density")?.unwrap_or_default();
    let whole = |v: &f64| {
        let text = format!("{:.0}", v.trunc());
        let found = text.parse::<i64>().ok().filter(|n| (1..1 << 20).contains(n));
        found.ok_or_else(|| AttrError::new("density", format!("{v} is not at least 1")))
    };
    let mut densities = values.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
    if densities.len() < sizes {
        densities.resize(sizes, 1);
    }
    Ok(densities)
}

impl PriorBox {
    /// The aspect ratios, 1 first. Ratios within a millionth of each other count once.
    pub fn ratios(&self) -> Vec<f32> {
        let mut ratios: Vec<f32> = vec![1.0];
        for ratio in &self.aspect_ratio {
            if ratios.iter().any(|r| (r - ratio).abs() < 1e-6) {
                continue;
            }
            ratios.push(*ratio);
            if self.flip {
                ratios.push(1.0 / ratio);
            }
        }
        ratios
    }

    /// The number of boxes per cell, as OpenVINO computes it.
    fn per_cell(&self) -> Dim {
        let ratios = Dim::of(self.ratios().len());
        let (min, max) = (Dim::of(self.min_size.len()), Dim::of(self.max_size.len()));
        let mut count = match (self.fixed_size.len(), self.scale_all_sizes) {
            (0, true) => ratios.times(min).plus(max),
            (0, false) => ratios.plus(min).offset(-1),
            (fixed, _) => ratios.times(Dim::of(fixed)),
        };
        let each =
            if self.fixed_ratio.is_empty() { ratios } else { Dim::of(self.fixed_ratio.len()) };
        for density in &self.density {
            count = count.plus(each.scaled(density.saturating_mul(*density).saturating_sub(1)));
        }
        count
    }
}

impl Op for PriorBox {
    fn input_names(&self) -> &'static [&'static str] {
        &["output_size", "image_size"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        infer_prior_boxes(cx, self.per_cell())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let grid = || [Input::ints(I64, &[3, 4]), Input::shape(I32, "2")];
        let check = |attrs: &[(&str, &str)], inputs: [Input; 2], expected| {
            let case = Case::of("PriorBox", "opset8").attr("offset", "0.5");
            let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
            case.inputs(inputs).expect(&[expected]);
        };
        let plain = [("min_size", "16"), ("max_size", "38"), ("aspect_ratio", "2")];
        let flip = [&plain[..], &[("flip", "true")]].concat();
        check(&flip, grid(), Ok("f32[2,192]"));
        check(&plain, grid(), Ok("f32[2,144]"));
        check(&[&flip[..], &[("scale_all_sizes", "0")]].concat(), grid(), Ok("f32[2,144]"));
        let dense = [("density", "1,2"), ("fixed_size", "8,16"), ("fixed_ratio", "1,2")];
        check(&dense, grid(), Ok("f32[2,384]"));
        let sized = |shape: Input| [shape, Input::shape(I32, "2")];
        check(&flip, sized(Input::shape(I64, "2")), Ok("f32[2,?]"));
        check(&flip, sized(Input::shape(I64, "...")), Ok("f32[2,?]"));
        check(&flip, sized(Input::bounds(I64, &[(1, 3), (2, 2)])), Ok("f32[2,32..96]"));
        check(
            &flip,
            sized(Input::ints(I64, &[1, 2, 3])),
            Err("input 0 (output_size): is [3], the last axis must have 2 elements"),
        );
        check(&flip, sized(Input::ints(I64, &[-1, 2])), Err("holds the negative size -1"));
        check(&flip, sized(Input::shape(F32, "2")), Err("must be an integer type, not f32"));
        check(&[("variance", "1,2")], grid(), Err("variance: holds 2 values, not 0, 1 or 4"));
        check(&[("density", "0")], grid(), Err("density: 0 is not at least 1"));
    }
}
