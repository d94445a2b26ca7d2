//! Interpolate-1, Interpolate-4, Interpolate-11: resizes axes of a tensor.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/image/interpolate-11.html>
//!
//! The specification of version 1 leaves the coordinates open; they are those that OpenVINO uses
//! when it converts version 1 to version 4.

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::{axes, sizes};
use std::collections::BTreeSet;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sizes only; the axes are an attribute.
    V1,
    /// Sizes and scales are both inputs.
    V4,
    /// Sizes and scales share an input.
    V11,
}

/// The interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One element.
    Nearest,
    /// A triangle filter, which antialiasing can widen.
    Linear,
    /// The two neighbours on each axis.
    LinearOnnx,
    /// The four neighbours on each axis.
    Cubic,
    /// As `Image.resize` of Pillow does with `BILINEAR`.
    BilinearPillow,
    /// As `Image.resize` of Pillow does with `BICUBIC`.
    BicubicPillow,
}

/// From the position of an output element to the position in the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the words of the attribute
pub enum Coordinates {
    HalfPixel,
    PytorchHalfPixel,
    Asymmetric,
    TfHalfPixelForNn,
    AlignCorners,
}

/// Rounding of a position to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the words of the attribute
pub enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    Simple,
}

/// Mode and coordinates of the interpolation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The interpolation.
    pub mode: Mode,
    /// The coordinates.
    pub coordinates: Coordinates,
    /// For [`Mode::Nearest`].
    pub rounding: Rounding,
    /// For [`Mode::Linear`]: the triangle is wider when an axis shrinks.
    pub antialias: bool,
    /// The parameter `a` of the cubic modes.
    pub cubic: f64,
}

/// Interpolate of all versions.
#[derive(Clone, Debug)]
pub struct Interpolate {
    kind: Kind,
    sampling: Sampling,
    by_scales: bool,
    pads_begin: Vec<usize>,
    pads_end: Vec<usize>,
    /// The axes of version 1.
    axes: Vec<i64>,
}

impl Parse for Interpolate {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut pads = |name| Ok::<_, AttrError>(attrs.list_opt(name)?.unwrap_or_default());
        let (pads_begin, pads_end) = (pads("pads_begin")?, pads("pads_end")?);
        let antialias = attrs.bool_or("antialias", false);
        let mut modes = vec![
            ("nearest", Mode::Nearest),
            ("linear", Mode::Linear),
            ("linear_onnx", Mode::LinearOnnx),
            ("cubic", Mode::Cubic),
        ];
        if kind == Kind::V11 {
            modes.push(("bilinear_pillow", Mode::BilinearPillow));
            modes.push(("bicubic_pillow", Mode::BicubicPillow));
        }
        let mode = attrs.choice("mode", &modes)?;
        let (coordinates, rounding, cubic, by_scales, axes);
        if kind == Kind::V1 {
            let align = attrs.bool_or("align_corners", true);
            coordinates = if align { Coordinates::AlignCorners } else { Coordinates::Asymmetric };
            (rounding, cubic, by_scales) = (Rounding::Simple, -0.75, false);
            // OpenVINO reads them as a set: sizes belong to the axes in ascending order.
            axes = BTreeSet::from_iter(attrs.list::<i64>("axes")?).into_iter().collect();
        } else {
            coordinates = parse_coordinates(attrs)?;
            rounding = parse_rounding(attrs)?;
            cubic = attrs.float_or("cube_coeff", -0.75)?;
            by_scales =
                attrs.choice("shape_calculation_mode", &[("sizes", false), ("scales", true)])?;
            axes = Vec::new();
        }
        let sampling = Sampling { mode, coordinates, rounding, antialias, cubic };
        Ok(Interpolate { kind, sampling, by_scales, pads_begin, pads_end, axes })
    }
}

fn parse_coordinates(attrs: &mut Attrs<'_>) -> Result<Coordinates, AttrError> {
    let words = [
        ("half_pixel", Coordinates::HalfPixel),
        ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
        ("asymmetric", Coordinates::Asymmetric),
        ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn),
        ("align_corners", Coordinates::AlignCorners),
    ];
    attrs.choice_or("coordinate_transformation_mode", &words, Coordinates::HalfPixel)
}

fn parse_rounding(attrs: &mut Attrs<'_>) -> Result<Rounding, AttrError> {
    let words = [
        ("round_prefer_floor", Rounding::PreferFloor),
        ("round_prefer_ceil", Rounding::PreferCeil),
        ("floor", Rounding::Floor),
        ("ceil", Rounding::Ceil),
        ("simple", Rounding::Simple),
    ];
    attrs.choice_or("nearest_mode", &words, Rounding::PreferFloor)
}

impl Interpolate {
    /// The interpolation.
    pub fn mode(&self) -> Mode {
        self.sampling.mode
    }

    /// Zeros added before and after an axis.
    pub fn pads(&self, axis: usize) -> (usize, usize) {
        let of = |pads: &[usize]| pads.get(axis).copied().unwrap_or(0);
        (of(&self.pads_begin), of(&self.pads_end))
    }

    /// The input with the scales, if scales are used.
    pub fn scales_input(&self) -> Option<usize> {
        self.by_scales.then_some(if self.kind == Kind::V4 { 2 } else { 1 })
    }

    /// The input with the axes, if there is one.
    pub fn axes_input(&self, input_count: usize) -> Option<usize> {
        let last = match self.kind {
            Kind::V1 => return None,
            Kind::V4 => 3,
            Kind::V11 => 2,
        };
        (input_count > last).then_some(last)
    }

    /// The axes: `values` of their input, or the default.
    ///
    /// # Errors
    /// When one is out of range or occurs twice.
    pub fn axes(&self, values: Option<&[i64]>, rank: usize) -> Result<Vec<usize>, RuleError> {
        let input = if self.kind == Kind::V4 { 3 } else { 2 };
        let (values, input) = match (self.kind, values) {
            (Kind::V1, _) => (&self.axes[..], None),
            (_, Some(values)) => (values, Some(input)),
            (_, None) => return Ok((0..rank).collect()),
        };
        let checked = match values.iter().find(|axis| **axis < 0) {
            Some(axis) => Err(RuleError::new(format!("axis {axis} is negative"))),
            None => axes::normalize_unique(values, rank, 0),
        };
        checked.map(|axes| axes.to_vec()).map_err(|e| RuleError { input, ..e })
    }

    /// The same interpolation of data whose axis `i` is now axis `moved(i)`. Other versions than 1
    /// have their axes in an input, which the caller replaces.
    ///
    /// # Errors
    /// When the axes of version 1 are out of range.
    pub fn moved(
        &self,
        rank: usize,
        moved: impl Fn(usize) -> usize,
    ) -> Result<Interpolate, RuleError> {
        if self.kind != Kind::V1 {
            return Ok(self.clone());
        }
        let axes = self.axes(None, rank)?;
        // The mode of version 1 depends on the axes, so it is settled before they move.
        let sampling = self.sampling(rank, &axes);
        let axis = |axis| i64::try_from(moved(axis)).unwrap_or(i64::MAX);
        let axes = axes.into_iter().map(axis).collect();
        Ok(Interpolate { sampling, axes, ..self.clone() })
    }

    /// Mode and coordinates along `axes` of data of this rank.
    pub fn sampling(&self, rank: usize, axes: &[usize]) -> Sampling {
        let mut sampling = self.sampling;
        if self.kind != Kind::V1 || sampling.mode != Mode::Linear {
            return sampling;
        }
        if rank < 5 {
            sampling.mode = Mode::LinearOnnx;
        }
        let padded = self.pads_begin.iter().chain(&self.pads_end).any(|pad| *pad != 0);
        let image = rank == 4 && axes.len() == 2 && axes.contains(&2) && axes.contains(&3);
        if sampling.coordinates == Coordinates::Asymmetric && !padded && !image {
            sampling.coordinates = Coordinates::HalfPixel;
        }
        sampling
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let Some(dims) = cx.shape(0).dims() else {
            return Ok(cx.unranked("the rank of the data is unknown"));
        };
        let values = match self.axes_input(cx.input_count()) {
            None => None,
            Some(input) => {
                let Some(values) = cx.ints(input) else {
                    cx.because("the axes are known only when running");
                    return Ok(PartialShape::of_rank(dims.len()));
                };
                Some(values)
            }
        };
        let axes = self.axes(values.as_deref(), dims.len())?;
        let mut out: Dims = dims.into();
        if self.kind != Kind::V1 {
            for (axis, dim) in out.iter_mut().enumerate() {
                let (begin, end) = self.pads(axis);
                *dim = dim.plus(Dim::of(begin.saturating_add(end)));
            }
        }
        match self.scales_input() {
            Some(input) => self.scale(cx, input, &axes, &mut out)?,
            None => resize(cx, &axes, &mut out)?,
        }
        Ok(PartialShape::Ranked(out))
    }

    fn scale(
        &self,
        cx: &mut InferCx<'_>,
        input: usize,
        axes: &[usize],
        out: &mut [Dim],
    ) -> Result<(), RuleError> {
        let Some(scales) = cx.value(input).and_then(PartialValue::f64s) else {
            cx.because("the scales are known only when running");
            axes.iter().for_each(|axis| out[*axis] = Dim::any());
            return Ok(());
        };
        require!(input; scales.len() >= axes.len(), "holds {} scales for {} axes", scales.len(), axes.len());
        for (axis, scale) in axes.iter().zip(scales) {
            require!(input; scale > 0.0 && scale.is_finite(), "holds the scale {scale}");
            out[*axis] = scaled(out[*axis], scale);
        }
        Ok(())
    }
}

/// Sets the sizes that an input gives.
fn resize(cx: &mut InferCx<'_>, axes: &[usize], out: &mut [Dim]) -> Result<(), RuleError> {
    let Some(wanted) = cx.intervals(1) else {
        cx.because("the sizes are known only when running");
        axes.iter().for_each(|axis| out[*axis] = Dim::any());
        return Ok(());
    };
    require!(1; wanted.len() >= axes.len(), "holds {} sizes for {} axes", wanted.len(), axes.len());
    for (axis, size) in axes.iter().zip(wanted) {
        out[*axis] = sizes::size(1, *size)?;
    }
    Ok(())
}

/// The size of an axis times a scale, rounded down; computed in f32 as in OpenVINO.
#[allow(clippy::as_conversions)] // from floats to integers it saturates, to floats it rounds
fn scaled(dim: Dim, scale: f64) -> Dim {
    if scale == 1.0 {
        return dim;
    }
    let by = |size: i64| (size as f32 * scale as f32).floor() as i64;
    let high = if dim.is_bounded() { by(dim.max()) } else { Dim::INF };
    Dim::range(by(dim.min()), high).with_why(dim.why())
}

impl Op for Interpolate {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::V1 => &["data", "target_spatial_shape"],
            Kind::V4 => &["data", "sizes", "scales", "axes"],
            Kind::V11 => &["image", "scales_or_sizes", "axes"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(match self.kind {
            Kind::V1 => 2..=2,
            Kind::V4 => 3..=4,
            Kind::V11 => 2..=3,
        })?;
        let element_type = cx.expect_number(0)?;
        match self.scales_input() {
            Some(input) => cx.expect_type(input, "a real type", ElementType::is_real)?,
            None => cx.expect_integer(1)?,
        };
        cx.expect_rank(self.scales_input().unwrap_or(1), 1..=1)?;
        if let Some(input) = self.axes_input(cx.input_count()) {
            cx.expect_integer(input)?;
            cx.expect_rank(input, 1..=1)?;
        }
        let shape = self.shape(cx)?;
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn image(shape: &str) -> Input {
        Input::shape(F32, shape)
    }

    fn eleven(by: &str, pads: &str) -> Case {
        Case::of("Interpolate", "opset11")
            .attr("mode", "linear")
            .attr("shape_calculation_mode", by)
            .attr("pads_begin", pads)
    }

    #[test]
    fn sizes() {
        let axes = || Input::ints(I64, &[3, 2]);
        let run = |pads, data, sizes, expected| {
            eleven("sizes", pads).inputs([image(data), sizes, axes()]).expect(&[expected]);
        };
        let sizes = || Input::ints(I32, &[7, 8]);
        run("0", "1,?,4,5", sizes(), Ok("f32[1,?,8,7]"));
        run("0,2", "1,1..3,4,5", sizes(), Ok("f32[1,3..5,8,7]"));
        run("0", "...", sizes(), Ok("f32[...]"));
        run("0", "1,2,4,5", Input::bounds(I64, &[(1, 4), (2, 2)]), Ok("f32[1,2,2,1..4]"));
        run("0", "1,2,4,5", Input::shape(I64, "2"), Ok("f32[1,2,?,?]"));
        run("0", "1,2,4,5", Input::ints(I64, &[3]), Err("holds 1 sizes for 2 axes"));
        run("0", "1,2,4,5", Input::ints(I64, &[3, -1]), Err("holds the negative size -1"));
        run("0", "1,2,4", sizes(), Err("input 2 (axes): axis 3 is out of range for rank 3"));
        run("0", "1,2,4,5", Input::shape(F32, "2"), Err("must be an integer type, not f32"));
        eleven("sizes", "0").inputs([image("4,5"), sizes()]).expect(&[Ok("f32[7,8]")]);
        let late = [image("4,5"), sizes(), Input::shape(I64, "2")];
        eleven("sizes", "0").inputs(late).expect(&[Ok("f32[?,?]")]);
        let twice = [image("4,5"), sizes(), Input::ints(I64, &[1, 1])];
        eleven("sizes", "0").inputs(twice).expect(&[Err("axis 1 is named twice")]);
        let negative = [image("4,5"), sizes(), Input::ints(I64, &[-1, 0])];
        eleven("sizes", "0").inputs(negative).expect(&[Err("axis -1 is negative")]);
    }

    #[test]
    fn scales() {
        let run = |data, scales: &[f64], expected| {
            let inputs = [
                image(data),
                Input::shape(I64, "2"),
                Input::reals(F32, scales),
                Input::ints(I64, &[2, 3]),
            ];
            Case::of("Interpolate", "opset4")
                .attr("mode", "cubic")
                .attr("shape_calculation_mode", "scales")
                .attr("pads_end", "0,0,1,0")
                .inputs(inputs)
                .expect(&[expected]);
        };
        run("1,2,3,4", &[1.5, 0.3], Ok("f32[1,2,6,1]"));
        run("1,2,?,3..5", &[2.0, 2.0], Ok("f32[1,2,2..,6..10]"));
        run("1,2,3,4", &[1.5], Err("input 2 (scales): holds 1 scales for 2 axes"));
        run("1,2,3,4", &[1.5, -1.0], Err("input 2 (scales): holds the scale -1"));
    }

    #[test]
    fn version_1() {
        let case = Case::of("Interpolate", "opset1").attr("axes", "2,3").attr("pads_begin", "0,9");
        let linear = case.clone().attr("mode", "linear");
        let sizes = || Input::ints(I64, &[6, 8]);
        linear.inputs([image("?,2,?,3"), sizes()]).expect(&[Ok("f32[?,2,6,8]")]);
        let area = case.attr("mode", "area").inputs([image("1,2,3,3"), sizes()]);
        area.expect(&[Err("attribute mode: \"area\" is not one of nearest, linear")]);
    }
}
