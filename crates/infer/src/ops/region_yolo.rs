//! RegionYolo-1: activates the predictions of a YOLO head.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/region-yolo-1.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// RegionYolo-1.
#[derive(Debug)]
pub struct RegionYolo {
    coords: usize,
    classes: usize,
    regions: usize,
    /// First and last axis that are merged.
    axes: (i64, i64),
    softmax: bool,
}

impl Parse for RegionYolo {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        attrs.ignore(&["anchors"]);
        let mut count = |name| attrs.count_in(name, None, 0..1 << 31);
        let (coords, classes, num) = (count("coords")?, count("classes")?, count("num")?);
        let mask: Vec<i64> = attrs.list_opt("mask")?.unwrap_or_default();
        let softmax = attrs.bool_or("do_softmax", true);
        let axes = (attrs.int("axis")?, attrs.int("end_axis")?);
        let regions = if softmax { num } else { mask.len() };
        Ok(RegionYolo { coords, classes, regions, axes, softmax })
    }
}

impl RegionYolo {
    /// Number of coordinates of a region.
    pub fn coords(&self) -> usize {
        self.coords
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of regions.
    pub fn regions(&self) -> usize {
        self.regions
    }

    /// Whether classes use a softmax rather than separate sigmoids.
    pub fn softmax(&self) -> bool {
        self.softmax
    }

    /// Channels of all regions.
    pub fn channels(&self) -> usize {
        self.regions.saturating_mul(self.coords.saturating_add(self.classes).saturating_add(1))
    }

    fn shape(&self, data: &PartialShape) -> Result<PartialShape, RuleError> {
        let dim = |axis| data.dim(axis);
        if !self.softmax {
            return Ok([dim(0), Dim::of(self.channels()), dim(2), dim(3)].into());
        }
        let first = axes::normalize_attribute("axis", self.axes.0, 4)?;
        let last = axes::normalize_attribute("end_axis", self.axes.1, 4)?;
        let last = last.max(first);
        let flat = (first + 1..=last).fold(dim(first), |flat, axis| flat.times(dim(axis)));
        Ok((0..first).map(dim).chain([flat]).chain((last + 1..4).map(dim)).collect())
    }
}

impl Op for RegionYolo {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.expect_real(0)?;
        cx.expect_rank(0, 4..=4)?;
        let (channels, found) = (self.channels(), cx.shape(0).dim(1));
        let enough = found.max() >= Dim::of(channels).min();
        require!(0; enough, "has {found} channels, the regions have {channels}");
        let shape = self.shape(cx.shape(0))?;
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let check = |attrs: &[(&str, &str)], data: &str, expected| {
            let case = Case::of("RegionYolo", "opset1").attr("coords", "4").attr("classes", "3");
            let case = case.attr("num", "3").attr("axis", "1");
            let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
            case.inputs([Input::shape(F32, data)]).expect(&[expected]);
        };
        let (flat, part) = ([("end_axis", "3")], [("end_axis", "-2")]);
        check(&flat, "1,24,3,?", Ok("f32[1,?]"));
        check(&flat, "?,24,3,3", Ok("f32[?,216]"));
        check(&part, "2,24,1..3,3", Ok("f32[2,24..72,3]"));
        check(&flat, "...", Ok("f32[?,?]"));
        check(&[("end_axis", "4")], "1,24,3,3", Err("axis 4 is out of range for rank 4"));
        check(&flat, "1,20,3,3", Err("has 20 channels, the regions have 24"));
        check(&flat, "1,24,3", Err("input 0 (data): must have rank 4, not 3"));
        let mask = [("end_axis", "3"), ("do_softmax", "0"), ("mask", "0,1")];
        check(&mask, "?,?,5,?", Ok("f32[?,16,5,?]"));
        check(&mask, "...", Ok("f32[?,16,?,?]"));
    }
}
