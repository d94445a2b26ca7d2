//! GridSample-9: samples an image at given positions.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/image/grid-sample-9.html>

use crate::rule::prelude::*;

/// The interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The nearest element.
    Nearest,
    /// The four neighbours.
    Bilinear,
    /// The sixteen neighbours.
    Bicubic,
}

/// The values outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Zeros.
    Zeros,
    /// The nearest element of the image.
    Border,
    /// Mirror images.
    Reflection,
}

/// GridSample-9.
#[derive(Debug)]
pub struct GridSample {
    align_corners: bool,
    mode: Mode,
    padding: Padding,
}

impl Parse for GridSample {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let modes =
            [("nearest", Mode::Nearest), ("bilinear", Mode::Bilinear), ("bicubic", Mode::Bicubic)];
        let paddings = [
            ("zeros", Padding::Zeros),
            ("border", Padding::Border),
            ("reflection", Padding::Reflection),
        ];
        Ok(GridSample {
            align_corners: attrs.bool_or("align_corners", false),
            mode: attrs.choice_or("mode", &modes, Mode::Bilinear)?,
            padding: attrs.choice_or("padding_mode", &paddings, Padding::Zeros)?,
        })
    }
}

impl GridSample {
    /// Whether -1 and 1 are the centres of the outermost elements rather than their edges.
    pub fn align_corners(&self) -> bool {
        self.align_corners
    }

    /// The interpolation.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The values outside of the image.
    pub fn padding(&self) -> Padding {
        self.padding
    }
}

impl Op for GridSample {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "grid"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let element_type = cx.element_type(0);
        cx.expect_type(1, "a real type", ElementType::is_real)?;
        cx.expect_rank(0, 4..=4)?;
        cx.expect_rank(1, 4..=4)?;
        let (data, grid) = (cx.shape(0), cx.shape(1));
        require!(1; grid.dim(3).contains(2), "is {grid}; the last axis must hold pairs");
        let batch = data.dim(0).meet(grid.dim(0));
        let Some(batch) = batch else {
            return Err(RuleError::at(1, format!("is {grid}, the data {data}: the batch differs")));
        };
        let shape = [batch, data.dim(1), grid.dim(1), grid.dim(2)];
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (data, grid, expected) in [
            ("2,3,8,9", "2,4,5,2", Ok("u8[2,3,4,5]")),
            ("?,3,8,9", "1..4,4,?,?", Ok("u8[1..4,3,4,?]")),
            ("...", "2,4,5,2", Ok("u8[2,?,4,5]")),
            ("2,3,8,9", "...", Ok("u8[2,3,?,?]")),
            ("2,3,8,9", "1,4,5,2", Err("input 1 (grid): is [1,4,5,2], the data [2,3,8,9]")),
            ("2,3,8,9", "2,4,5,3", Err("the last axis must hold pairs")),
            ("2,3,8", "2,4,5,2", Err("input 0 (data): must have rank 4, not 3")),
        ] {
            let inputs = [Input::shape(U8, data), Input::shape(F32, grid)];
            Case::of("GridSample", "opset9").inputs(inputs).expect(&[expected]);
        }
        let wrong = [Input::shape(F32, "2,3,8,9"), Input::shape(I32, "2,4,5,2")];
        let case = Case::of("GridSample", "opset9").attr("mode", "bicubic").inputs(wrong);
        case.expect(&[Err("input 1 (grid): must be a real type, not i32")]);
    }
}
