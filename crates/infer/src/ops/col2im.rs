//! Col2Im-15: sums patches into an image; the inverse of im2col.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/col2im-15.html>
//!
//! In the specification `output_size` and `kernel_size` are attributes; in models they are inputs,
//! and `strides` is the attribute.

use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::window::{Rounding, Windows, outputs, parse_or};

/// Col2Im-15.
#[derive(Debug)]
pub struct Col2Im {
    windows: Windows,
}

impl Parse for Col2Im {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let windows = parse_or(attrs, Some("dilations"), 2)?;
        let axes = windows.len();
        if axes != 2 {
            return Err(AttrError::new(
                "strides",
                format!("holds {axes} values; there are 2 axes"),
            ));
        }
        Ok(Col2Im { windows })
    }
}

impl Col2Im {
    /// The windows along rows and columns.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The rows and columns that an input gives, as far as they are known; each at least `least`.
    fn pair(&self, cx: &InferCx<'_>, input: usize, least: i64) -> Result<[Dim; 2], RuleError> {
        cx.expect_index(input)?;
        cx.expect_rank(input, 1..=1)?;
        let count = cx.shape(input).dim(0);
        require!(input; count.contains(2), "must hold 2 values, not {count}");
        let sizes = Dim::range(least, i64::from(i32::MAX));
        let Some([rows, columns]) = cx.intervals(input) else {
            return Ok([Dim::range(least, Dim::INF); 2]);
        };
        let size = |v: &Interval| {
            let found = if v.hi < 0 { None } else { Dim::from(*v).meet(sizes) };
            found.ok_or_else(|| RuleError::at(input, format!("{} is not in {sizes}", v.lo)))
        };
        Ok([size(rows)?, size(columns)?])
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let (image, kernel) = (self.pair(cx, 1, 0)?, self.pair(cx, 2, 1)?);
        cx.because("the sizes of image or kernel are known only when running");
        let Some(dims) = cx.shape(0).dims() else { return Ok(PartialShape::unranked()) };
        let [batch @ .., columns, blocks] = dims else { return Ok(PartialShape::unranked()) };
        let taps = kernel[0].times(kernel[1]);
        let channels = match taps.value() {
            Some(taps) => columns.div_exact(taps).ok_or_else(|| {
                RuleError::at(0, format!("holds {columns} values, not a multiple of {taps} taps"))
            })?,
            None => Dim::range(0, columns.div_floor(taps.min()).max()),
        };
        let windows = outputs(&self.windows, &image, &kernel, Rounding::Floor)?;
        let expected = windows.iter().fold(Dim::fixed(1), |n, w| n.times(*w));
        require!(
            0;
            expected.meet(*blocks).is_some(),
            "holds {blocks} blocks, the image has {expected}"
        );
        Ok(batch.iter().copied().chain([channels]).chain(image).collect())
    }
}

impl Op for Col2Im {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "output_size", "kernel_size"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        cx.expect_rank(0, 2..=3)?;
        let shape = self.shape(cx)?;
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(attrs: &[(&str, &str)], data: &str, image: Input, kernel: Input) -> Case {
        let inputs = [Input::shape(I32, data), image, kernel];
        let case = Case::of("Col2Im", "opset15").inputs(inputs);
        attrs.iter().fold(case, |case, (name, value)| case.attr(name, value))
    }

    #[test]
    fn rule() {
        let run = |attrs: &[(&str, &str)], data, image: &[i64], kernel: &[i64], expected| {
            let (image, kernel) = (Input::ints(I64, image), Input::ints(I64, kernel));
            case(attrs, data, image, kernel).expect(&[expected]);
        };
        run(&[], "3,12,225", &[16, 16], &[2, 2], Ok("i32[3,3,16,16]"));
        let wide = [("dilations", "2,2"), ("pads_begin", "3,3"), ("pads_end", "3,3")];
        run(&wide, "12,12,1296", &[32, 32], &[2, 2], Ok("i32[12,3,32,32]"));
        run(&[("strides", "2,2")], "8..13,?", &[6, 6], &[2, 2], Ok("i32[2..3,6,6]"));
        run(&[], "...", &[6, 6], &[2, 2], Ok("i32[...]"));
        run(&[], "13,225", &[16, 16], &[2, 2], Err("holds 13 values, not a multiple of 4 taps"));
        run(&[], "12,224", &[16, 16], &[2, 2], Err("holds 224 blocks, the image has 225"));
        run(&[], "12,224", &[16, 16], &[0, 2], Err("input 2 (kernel_size): 0 is not in 1..2147"));
        run(&[], "12,224", &[16], &[2, 2], Err("input 1 (output_size): must hold 2 values, not 1"));
        run(&[("strides", "1")], "12,224", &[16, 16], &[2, 2], Err("strides: holds 1 values"));
        run(&[], "12", &[16, 16], &[2, 2], Err("input 0 (data): must have rank 2 to 3, not 1"));
    }

    #[test]
    fn unknown_sizes() {
        let open = || Input::shape(I64, "2");
        case(&[], "3,12,?", open(), open()).expect(&[Ok("i32[3,..12,?,?]")]);
        let image = Input::bounds(I64, &[(4, 8), (5, 5)]);
        case(&[], "3,12,?", image, open()).expect(&[Ok("i32[3,..12,4..8,5]")]);
    }
}
