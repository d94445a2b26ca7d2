//! NV12toRGB-8, NV12toBGR-8, I420toRGB-8, I420toBGR-8, RGBtoNV12-17, BGRtoNV12-17: between RGB or
//! BGR per pixel and planes of luma and (at half the size) chroma.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/image/nv12-to-rgb-8.html>

use crate::rule::prelude::*;

/// The conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    Nv12ToRgb,
    Nv12ToBgr,
    I420ToRgb,
    I420ToBgr,
    RgbToNv12,
    BgrToNv12,
}

/// A conversion.
#[derive(Debug)]
pub struct Color {
    kind: Kind,
    /// Whether the output planes share a tensor.
    single_plane: bool,
}

impl Parse for Color {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let single_plane = kind.makes_planes() && attrs.bool_or("single_plane", true);
        Ok(Color { kind, single_plane })
    }
}

impl Kind {
    /// Whether it converts to planes.
    pub fn makes_planes(self) -> bool {
        matches!(self, Kind::RgbToNv12 | Kind::BgrToNv12)
    }

    /// Whether the chroma planes are interleaved, element by element.
    pub fn is_interleaved(self) -> bool {
        !matches!(self, Kind::I420ToRgb | Kind::I420ToBgr)
    }

    /// Whether blue comes first.
    pub fn is_bgr(self) -> bool {
        matches!(self, Kind::Nv12ToBgr | Kind::I420ToBgr | Kind::BgrToNv12)
    }
}

impl Color {
    /// The conversion.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The image `[batch, height, width]` in an input with `channels` channels.
    fn image(cx: &InferCx<'_>, input: usize, channels: i64) -> Result<[Dim; 3], RuleError> {
        cx.expect_rank(input, 4..=4)?;
        let shape = cx.shape(input);
        let found = shape.dim(3);
        require!(input; found.contains(channels), "has {found} channels, not {channels}");
        Ok([shape.dim(0), shape.dim(1), shape.dim(2)])
    }

    fn infer_colours(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let planes = if self.kind.is_interleaved() { 2 } else { 3 };
        let count = cx.input_count();
        require!(count == 1 || count == planes, "it takes 1 or {planes} inputs, not {count}");
        let mut image = Color::image(cx, 0, 1)?;
        if count == 1 {
            let height = image[1];
            let Some(chroma) = height.div_exact(3) else {
                let message = format!("has {height} rows, which cannot be divided 2 to 1");
                return Err(RuleError::at(0, message));
            };
            image[1] = chroma.scaled(2);
        }
        for input in 1..count {
            let half = Color::image(cx, input, if self.kind.is_interleaved() { 2 } else { 1 })?;
            let whole = [half[0], half[1].scaled(2), half[2].scaled(2)];
            for (dim, other) in image.iter_mut().zip(whole) {
                let Some(both) = dim.meet(other) else {
                    let (y, shape) = (cx.shape(0), cx.shape(input));
                    return Err(RuleError::at(input, format!("is {shape}, not half of {y}")));
                };
                *dim = both;
            }
        }
        let [batch, height, width] = image;
        require_even(0, &[height, width])?;
        let element_type = cx.same_type(0..count)?;
        cx.set(0, element_type, [batch, height, width, Dim::fixed(3)]);
        Ok(())
    }

    fn infer_planes(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let [batch, height, width] = Color::image(cx, 0, 3)?;
        require_even(0, &[height, width])?;
        let element_type = cx.element_type(0);
        if self.single_plane {
            let rows = height.scaled(3).div_floor(2);
            cx.set(0, element_type, [batch, rows, width, Dim::fixed(1)]);
        } else {
            let [rows, columns] = [height, width].map(|side| side.div_floor(2));
            cx.set(0, element_type, [batch, height, width, Dim::fixed(1)]);
            cx.set(1, element_type, [batch, rows, columns, Dim::fixed(2)]);
        }
        Ok(())
    }
}

fn require_even(input: usize, dims: &[Dim]) -> Result<(), RuleError> {
    let odd = dims.iter().find(|d| d.value().is_some_and(|n| n % 2 != 0));
    match odd {
        Some(odd) => Err(RuleError::at(input, format!("holds an image with an odd side, {odd}"))),
        None => Ok(()),
    }
}

impl Op for Color {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::RgbToNv12 | Kind::BgrToNv12 => &["image"],
            _ if self.kind.is_interleaved() => &["y", "uv"],
            _ => &["y", "u", "v"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        for input in 0..cx.input_count() {
            cx.expect_type(input, "u8 or a real type", |t| t == ElementType::U8 || t.is_real())?;
        }
        if self.kind.makes_planes() { self.infer_planes(cx) } else { self.infer_colours(cx) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn run(kind: &'static str, planes: &[&str], expected: Result<&str, &str>) {
        let inputs = planes.iter().map(|shape| Input::shape(U8, shape));
        Case::of(kind, "opset8").inputs(inputs).expect(&[expected]);
    }

    #[test]
    fn from_planes() {
        run("NV12toRGB", &["1,720,640,1"], Ok("u8[1,480,640,3]"));
        run("NV12toRGB", &["1,5..10,640,1"], Ok("u8[1,4..6,640,3]"));
        run("I420toRGB", &["1,7..8,640,1"], Err("has 7..8 rows, which cannot be divided"));
        run("NV12toBGR", &["?,480,?,1", "2,?,320,2"], Ok("u8[2,480,640,3]"));
        run("I420toRGB", &["?,?,?,1"], Ok("u8[?,?,?,3]"));
        run("I420toBGR", &["1,4,6,1", "1,2,3,1", "1,2,3,?"], Ok("u8[1,4,6,3]"));
        run("I420toRGB", &["...", "1,2,3,1", "..."], Ok("u8[1,4,6,3]"));
        run("NV12toRGB", &["1,719,640,1"], Err("has 719 rows, which cannot be divided"));
        run("NV12toRGB", &["1,720,641,1"], Err("holds an image with an odd side, 641"));
        run("NV12toRGB", &["1,4,6,1", "1,2,2,2"], Err("input 1 (uv): is [1,2,2,2], not half of"));
        run("NV12toRGB", &["1,4,6,3"], Err("input 0 (y): has 3 channels, not 1"));
        run("I420toRGB", &["1,4,6,1", "1,2,3,1"], Err("it takes 1 or 3 inputs, not 2"));
    }

    #[test]
    fn to_planes() {
        let case = |plane, shape| {
            Case::of("BGRtoNV12", "opset17")
                .attr("single_plane", plane)
                .inputs([Input::shape(F32, shape)])
        };
        case("true", "1,480,?,3").expect(&[Ok("f32[1,720,?,1]")]);
        case("false", "?,480,640,3").expect(&[Ok("f32[?,480,640,1]"), Ok("f32[?,240,320,2]")]);
        case("true", "1,481,640,3").expect(&[Err("holds an image with an odd side, 481")]);
        let wrong = Case::of("RGBtoNV12", "opset17").inputs([Input::shape(I32, "1,2,2,3")]);
        wrong.expect(&[Err("input 0 (image): must be u8 or a real type, not i32")]);
    }
}
