//! ExtractImagePatches-3: the windows of an image, with one channel per tap.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/extract-image-patches-3.html>

use crate::rule::prelude::*;
use crate::rules::window::{Rounding, Window, Windows, kernel, outputs, parse, spatial};

/// ExtractImagePatches-3.
#[derive(Debug)]
pub struct ExtractImagePatches {
    windows: Windows,
    sizes: Vec<i64>,
}

impl Parse for ExtractImagePatches {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        // The shared window attributes would allow both to be absent, or explicit padding.
        attrs.choice("auto_pad", &[("valid", ()), ("same_upper", ()), ("same_lower", ())])?;
        if attrs.list::<i64>("rates")?.is_empty() {
            return Err(AttrError::new("rates", "holds no values; there are 2 axes"));
        }
        let windows = parse(attrs, Some("rates"))?;
        let axes = windows.len();
        if axes != 2 {
            return Err(AttrError::new(
                "strides",
                format!("holds {axes} values; there are 2 axes"),
            ));
        }
        Ok(ExtractImagePatches { windows, sizes: kernel(attrs, "sizes", axes)? })
    }
}

impl ExtractImagePatches {
    /// The windows along rows and columns.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The number of taps along rows and columns.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }
}

impl Op for ExtractImagePatches {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.expect_rank(0, 4..=4)?;
        let shape = cx.shape(0);
        let sizes: Vec<Dim> = self.sizes.iter().map(|size| Dim::fixed(*size)).collect();
        let spatial = spatial(shape, &self.windows);
        // An axis without pixels has no patches, whatever their size.
        let is_empty = |pixels: &Dim| pixels.value() == Some(0);
        let fit = |((pixels, window), taps): ((&Dim, &Window), &Dim)| {
            if is_empty(pixels) { window.extent(*taps) } else { *pixels }
        };
        let axes = spatial.iter().zip(&self.windows).zip(&sizes);
        let fitting: Vec<Dim> = axes.map(fit).collect();
        let counts = outputs(&self.windows, &fitting, &sizes, Rounding::Floor)?;
        let patches = counts.into_iter().zip(&spatial);
        let patches = patches.map(|(count, pixels)| if is_empty(pixels) { *pixels } else { count });
        let taps = sizes.iter().fold(Dim::fixed(1), |n, size| n.times(*size));
        let head = [shape.dim(0), shape.dim(1).times(taps)];
        let out: PartialShape = head.into_iter().chain(patches).collect();
        cx.set(0, cx.element_type(0), out);
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (sizes, strides, rates, pad, shape, expected) in [
            ("3,3", "5,5", "1,1", "valid", "64,3,10,10", Ok("i8[64,27,2,2]")),
            ("4,4", "9,9", "1,1", "same_upper", "1,1,10,10", Ok("i8[1,16,2,2]")),
            ("3,3", "5,5", "2,2", "valid", "1,1,10,10", Ok("i8[1,9,2,2]")),
            ("2,3", "2,1", "1,1", "valid", "?,1..2,5..9,?", Ok("i8[?,6..12,2..4,1..]")),
            ("3,3", "5,5", "1,1", "valid", "64,0,0,0", Ok("i8[64,0,0,0]")),
            ("3,3", "5,5", "1,1", "valid", "1,1,10,0", Ok("i8[1,9,2,0]")),
            ("3,3", "1,1", "1,1", "valid", "1,1,2,5", Err("spatial axis 0: a window over 3")),
            ("3", "1,1", "1,1", "valid", "1,1,2,5", Err("attribute sizes: holds 1 values")),
            ("3", "1", "1", "valid", "1,1,2,5", Err("strides: holds 1 values; there are 2 axes")),
            ("3,3", "1,1", "1,1", "valid", "1,2,5", Err("must have rank 4, not 3")),
            ("3,3", "1,1", "", "valid", "1,1,5,5", Err("attribute rates: holds no values")),
            (
                "3,3",
                "1,1",
                "1,1",
                "explicit",
                "1,1,5,5",
                Err("auto_pad: \"explicit\" is not one of valid, same_upper, same_lower"),
            ),
        ] {
            let case = Case::of("ExtractImagePatches", "opset3").attr("sizes", sizes);
            let case = case.attr("strides", strides).attr("rates", rates).attr("auto_pad", pad);
            case.inputs([Input::shape(I8, shape)]).expect(&[expected]);
        }
        let case = Case::of("ExtractImagePatches", "opset3").attr("sizes", "3,3");
        let case = case.attr("strides", "1,1").inputs([Input::shape(I8, "1,1,5,5")]);
        case.clone().expect(&[Err("attribute auto_pad: is missing")]);
        case.attr("auto_pad", "valid").expect(&[Err("attribute rates: is missing")]);
    }
}
