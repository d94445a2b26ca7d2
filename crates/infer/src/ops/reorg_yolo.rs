//! ReorgYolo-1: moves blocks of neighbours to channels, as in YOLO v2.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/reorg-yolo-1.html>
//!
//! The specification gives only the shapes. The order is that of Darknet, whose layer reads its
//! input as if it were the output of the inverse operation: planes with `C / stride²` channels,
//! `stride` times as high and wide.

use crate::rule::prelude::*;

/// ReorgYolo-1.
#[derive(Debug)]
pub struct ReorgYolo {
    stride: i64,
}

/// The square of a stride up to this fits in 62 bits.
const MAX_STRIDE: i64 = (1 << 31) - 1;

impl Parse for ReorgYolo {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        // Its type in OpenVINO is a list: it reads and writes a number for each axis too.
        let strides: Vec<i64> = attrs.list("stride")?;
        let stride = match strides[..] {
            [stride] => stride,
            [rows, columns] if rows == columns => rows,
            _ => {
                let message = format!("{strides:?} is not one number for rows and columns alike");
                return Err(AttrError::new("stride", message));
            }
        };
        if !(1..=MAX_STRIDE).contains(&stride) {
            return Err(AttrError::new("stride", format!("{stride} is not in 1..={MAX_STRIDE}")));
        }
        Ok(ReorgYolo { stride })
    }
}

impl ReorgYolo {
    /// The distance of neighbours in a channel of the output.
    pub fn stride(&self) -> i64 {
        self.stride
    }
}

impl Op for ReorgYolo {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.expect_rank(0, 4..=4)?;
        let (shape, stride) = (cx.shape(0), self.stride);
        let (channels, area) = (shape.dim(1), stride * stride);
        require!(0; channels.max() >= area, "has {channels} channels, fewer than {area}");
        let divided = |axis: usize| {
            let size = shape.dim(axis);
            size.div_exact(stride).ok_or_else(|| {
                RuleError::at(0, format!("axis {axis} is {size}, not a multiple of {stride}"))
            })
        };
        let out = [shape.dim(0), channels.scaled(area), divided(2)?, divided(3)?];
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
        for (stride, shape, expected) in [
            ("2", "1,64,26,26", Ok("f32[1,256,13,13]")),
            ("3", "?,9..12,4..9,?", Ok("f32[?,81..108,2..3,?]")),
            ("2", "...", Ok("f32[?,?,?,?]")),
            ("2", "1,3,4,4", Err("input 0 (data): has 3 channels, fewer than 4")),
            ("2", "1,4,4,5", Err("input 0 (data): axis 3 is 5, not a multiple of 2")),
            ("2, 2", "1,64,26,26", Ok("f32[1,256,13,13]")),
            ("2,3", "1,64,26,26", Err("attribute stride: [2, 3] is not one number for rows and")),
            ("", "1,64,26,26", Err("attribute stride: [] is not one number")),
            ("0", "1,4,4,4", Err("attribute stride: 0 is not in 1..=")),
            ("1", "1,4,4", Err("must have rank 4, not 3")),
        ] {
            let case = Case::of("ReorgYolo", "opset2").attr("stride", stride);
            case.inputs([Input::shape(F32, shape)]).expect(&[expected]);
        }
    }
}
