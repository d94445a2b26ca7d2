//! DeformableConvolution-1 and DeformableConvolution-8: a convolution in which an input offsets
//! every tap of every window; in version 8 another input weights it.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/convolution/deformable-convolution-8.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::window::{Rounding, Windows, outputs, parse, spatial};

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// DeformableConvolution-1: without a mask.
    V1,
    /// DeformableConvolution-8.
    V8,
}

/// DeformableConvolution.
#[derive(Debug)]
pub struct DeformableConvolution {
    kind: Kind,
    windows: Windows,
    groups: usize,
    offset_groups: usize,
    padded: bool,
}

impl Parse for DeformableConvolution {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let windows = parse(attrs, Some("dilations"))?;
        if windows.len() != 2 {
            let message = format!("{} values; there are 2 axes", windows.len());
            return Err(AttrError::new("strides", message));
        }
        let mut count = |name| attrs.count_in(name, Some(1), 1..);
        let (groups, offset_groups) = (count("group")?, count("deformable_group")?);
        let padded = kind == Kind::V8 && attrs.bool_or("bilinear_interpolation_pad", false);
        Ok(DeformableConvolution { kind, windows, groups, offset_groups, padded })
    }
}

impl DeformableConvolution {
    /// The windows along rows and columns.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Groups of channels that are convolved separately.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Groups of channels with offsets of their own.
    pub fn offset_groups(&self) -> usize {
        self.offset_groups
    }

    /// Whether samples just outside of the data are interpolated with zeros.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    fn check_channels(&self, cx: &InferCx<'_>) -> Result<(), RuleError> {
        let (channels, groups) = (cx.shape(0).dim(1), Dim::of(self.groups));
        let expected = groups.times(cx.shape(2).dim(1));
        let message = "channels, the filters are for";
        require!(0; expected.meet(channels).is_some(), "has {channels} {message} {expected}");
        for (input, dim, groups) in [
            (0, channels, self.groups),
            (0, channels, self.offset_groups),
            (2, cx.shape(2).dim(0), self.groups),
        ] {
            let whole = dim.size().is_none_or(|count| count % groups == 0);
            require!(input; whole, "has {dim} channels for {groups} groups");
        }
        Ok(())
    }
}

impl Op for DeformableConvolution {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "offsets", "filters", "mask"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(if self.kind == Kind::V8 { 3..=4 } else { 3..=3 })?;
        let inputs = cx.input_count();
        for input in 0..inputs {
            cx.expect_number(input)?;
            cx.expect_rank(input, 4..=4)?;
        }
        let element_type = cx.same_type(0..inputs.min(3))?;
        cx.mixed((0..inputs).filter(|i| [0, 3].contains(i)))?;
        self.check_channels(cx)?;
        let (data, filters) = (cx.shape(0), cx.shape(2));
        let (image, kernel) = (spatial(data, &self.windows), spatial(filters, &self.windows));
        let places = outputs(&self.windows, &image, &kernel, Rounding::Floor)?;
        let taps = filters.dim(2).times(filters.dim(3)).times(Dim::of(self.offset_groups));
        let mut result: Dims = [data.dim(0)].into_iter().chain(places).collect();
        for (input, planes) in [(1, taps.scaled(2)), (3, taps)].into_iter().take(inputs - 2) {
            let own = cx.shape(input);
            let found = own.dim(1);
            require!(input; found.meet(planes).is_some(), "has {found} channels, not {planes}");
            for (dim, axis) in result.iter_mut().zip([0, 2, 3]) {
                let (expected, found) = (*dim, own.dim(axis));
                *dim = expected.meet(found).ok_or_else(|| {
                    RuleError::at(input, format!("has {found} on axis {axis}, not {expected}"))
                })?;
            }
        }
        result.insert(1, filters.dim(0));
        cx.set(0, element_type, PartialShape::Ranked(result));
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::PURE.mixing()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let op = |version, attrs: &[(&str, &str)], shapes: &[&str], expected| {
            let case = Case::of("DeformableConvolution", version).attr("strides", "1,1");
            let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
            case.inputs(shapes.iter().map(|s| Input::shape(F32, s))).expect(&[expected]);
        };
        let (data, filters) = ("1,4,224,224", "64,4,5,5");
        for version in ["opset1", "opset8"] {
            let ok = Ok("f32[1,64,220,220]");
            op(version, &[], &[data, "1,50,220,220", filters], ok);
            op(version, &[], &["?,4,?,224", "1,?,220,?", filters], ok);
            op(version, &[], &["...", "...", filters], Ok("f32[?,64,1..,1..]"));
            let groups = [("group", "2"), ("deformable_group", "4")];
            op(version, &groups, &[data, "1,200,220,220", "64,2,5,5"], ok);
            let one = [("deformable_group", "3")];
            op(
                version,
                &one,
                &[data, "1,150,220,220", filters],
                Err("has 4 channels for 3 groups"),
            );
            op(version, &[], &[data, "1,25,220,220", filters], Err("has 25 channels, not 50"));
            op(version, &[], &[data, "2,50,220,220", filters], Err("has 2 on axis 0, not 1"));
            op(version, &[], &[data, "1,50,220,9", filters], Err("has 9 on axis 3, not 220"));
            op(version, &[], &[data, "...", "64,3,5,5"], Err("the filters are for 3"));
            op(version, &[("group", "0")], &[data], Err("attribute group: 0 is not in 1.."));
        }
        let masked = [data, "1,50,220,220", filters, "?,25,220,220"];
        op("opset8", &[("bilinear_interpolation_pad", "true")], &masked, Ok("f32[1,64,220,220]"));
        op("opset1", &[], &masked, Err("it takes 3 inputs, not 4"));
        let wrong = [data, "1,50,220,220", filters, "1,50,220,220"];
        op("opset8", &[], &wrong, Err("input 3 (mask): has 50 channels, not 25"));
    }
}
