//! PSROIPooling-1 and DeformablePSROIPooling-1: pools boxes of feature maps, with a channel per
//! bin.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/psroi-pooling-1.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/deformable-psroi-pooling-1.html>

use crate::rule::prelude::*;
use crate::rules::boxes;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PSROIPooling.
    Plain,
    /// DeformablePSROIPooling.
    Deformable,
}

/// The pooling of a bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// The mean of its elements.
    Average,
    /// The mean of samples in parts of the box.
    Bilinear,
    /// The mean of its samples; the number is the factor of the offsets.
    Deformable(f64),
}

/// An operation of this file.
#[derive(Debug)]
pub struct PsroiPooling {
    outputs: usize,
    group: usize,
    scale: f64,
    mode: Mode,
    samples: (usize, usize),
    /// Parts per axis of a box that have offsets.
    parts: usize,
}

impl Parse for PsroiPooling {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let scale = boxes::scale(attrs)?;
        let (mode, parts) = match kind {
            Kind::Plain => {
                let modes = [("average", Mode::Average), ("bilinear", Mode::Bilinear)];
                (attrs.choice_or("mode", &modes, Mode::Average)?, 1)
            }
            Kind::Deformable => {
                attrs.choice_or("mode", &[("bilinear_deformable", ())], ())?;
                let std = attrs.float_or("trans_std", 1.0)?;
                (Mode::Deformable(std), boxes::count(attrs, "part_size", Some(1), 1)?)
            }
        };
        // Modes that do not sample ignore the numbers of samples, and files hold 0 there.
        let least = if mode == Mode::Average { 0 } else { 1 };
        let mut samples = |name: &str| boxes::count(attrs, name, Some(1), least);
        let samples = (samples("spatial_bins_x")?, samples("spatial_bins_y")?);
        let mut count = |name: &str, default| boxes::count(attrs, name, default, 1);
        Ok(PsroiPooling {
            outputs: count("output_dim", None)?,
            group: count("group_size", Some(1))?,
            scale,
            mode,
            samples,
            parts,
        })
    }
}

impl PsroiPooling {
    /// Channels of the output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Bins per axis.
    pub fn group(&self) -> usize {
        self.group
    }

    /// The scale from box coordinates to the feature maps.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The pooling of a bin.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Samples along the width and the height.
    pub fn samples(&self) -> (usize, usize) {
        self.samples
    }

    /// Parts per axis of a box that have offsets.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Checks the offsets: for each box two channels per class.
    fn offsets(&self, cx: &InferCx<'_>, count: Dim) -> Result<(), RuleError> {
        cx.expect_real(2)?;
        cx.mixed(0..3)?;
        cx.expect_rank(2, 4..=4)?;
        let shape = cx.shape(2);
        let parts = Dim::of(self.parts);
        for (axis, expected) in [(0, count), (2, parts), (3, parts)] {
            let fits = shape.dim(axis).meet(expected).is_some();
            require!(2; fits, "is {shape}: axis {axis} must be {expected}");
        }
        let (channels, outputs) = (shape.dim(1), Dim::of(self.outputs));
        let Some(channels) = channels.value() else { return Ok(()) };
        let classes = channels / 2;
        let fits = channels % 2 == 0 && classes > 0 && outputs.div_exact(classes).is_some();
        require!(2; fits, "has {channels} channels for pairs of classes of {outputs} outputs");
        Ok(())
    }
}

impl Op for PsroiPooling {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "rois", "offsets"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let deformable = matches!(self.mode, Mode::Deformable(_));
        cx.expect_inputs(if deformable { 2..=3 } else { 2..=2 })?;
        let (element_type, count) = boxes::boxes(cx, 5)?;
        let (outputs, group) = (Dim::of(self.outputs), Dim::of(self.group));
        let planes = match self.mode {
            Mode::Bilinear => Dim::of(self.samples.0).times(Dim::of(self.samples.1)),
            _ => group.times(group),
        };
        let (channels, needed) = (cx.shape(0).dim(1), planes.times(outputs));
        // The deformable operation ignores further channels, as in OpenVINO.
        let most = if deformable { Dim::INF } else { needed.max() };
        let fits = channels.meet(Dim::range(needed.min(), most)).is_some();
        require!(0; fits, "has {channels} channels, {outputs} outputs need {needed}");
        if cx.input_count() == 3 {
            self.offsets(cx, count)?;
        }
        cx.set(0, element_type, [count, outputs, group, group]);
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

    fn case(kind: &'static str, group: &str, shapes: &[&str]) -> Case {
        let case = Case::of(kind, "opset1").inputs(shapes.iter().map(|s| Input::shape(F32, s)));
        let case = case.attr("output_dim", "8").attr("group_size", group);
        case.attr("spatial_scale", "0.0625").attr("spatial_bins_x", "3")
    }

    #[test]
    fn plain() {
        let run = |mode: &str, shapes: &[&str], expected| {
            case("PSROIPooling", "6", shapes).attr("mode", mode).expect(&[expected]);
        };
        run("average", &["1,288,38,38", "100,5"], Ok("f32[100,8,6,6]"));
        run("bilinear", &["1,24,38,38", "?,5"], Ok("f32[?,8,6,6]"));
        run("average", &["...", "..."], Ok("f32[?,8,6,6]"));
        let unsampled = |mode: &str, expected| {
            let inputs = ["1,32,38,38", "?,5"].map(|shape| Input::shape(F32, shape));
            let case =
                Case::of("PSROIPooling", "opset1").attr("output_dim", "8").attr("mode", mode);
            let case = case.attr("group_size", "2").attr("spatial_scale", "1").inputs(inputs);
            case.attr("spatial_bins_x", "0").attr("spatial_bins_y", "0").expect(&[expected]);
        };
        unsampled("average", Ok("f32[?,8,2,2]"));
        unsampled("bilinear", Err("attribute spatial_bins_x: 0 is not in 1..=32768"));
        run("average", &["1,24,38,38", "1,5"], Err("has 24 channels, 8 outputs need 288"));
        run("bilinear", &["1,288,38,38", "1,5"], Err("has 288 channels, 8 outputs need 24"));
        run("max", &["1,288,38,38", "1,5"], Err("\"max\" is not one of average, bilinear"));
    }

    #[test]
    fn deformable() {
        let run = |shapes: &[&str], expected| {
            let case = case("DeformablePSROIPooling", "7", shapes);
            case.attr("trans_std", "0.1").attr("part_size", "5").expect(&[expected]);
        };
        run(&["1,392,38,63", "300,5", "300,4,5,5"], Ok("f32[300,8,7,7]"));
        run(&["1,400,38,63", "300,5"], Ok("f32[300,8,7,7]"));
        run(&["1,392,38,63", "..."], Ok("f32[?,8,7,7]"));
        run(&["1,?,38,63", "?,5", "?,?,?,?"], Ok("f32[?,8,7,7]"));
        run(&["1,392,38,63", "300,5", "30,4,5,5"], Err("axis 0 must be 300"));
        run(&["1,392,38,63", "300,5", "300,4,7,7"], Err("axis 2 must be 5"));
        run(&["1,392,38,63", "300,5", "300,6,5,5"], Err("has 6 channels for pairs of classes"));
        run(&["1,391,38,63", "300,5"], Err("has 391 channels, 8 outputs need 392"));
    }
}
