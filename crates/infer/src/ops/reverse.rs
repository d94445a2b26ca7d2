//! Reverse-1: reverses axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/reverse-1.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// The form of the second input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Axis indices.
    Index,
    /// A boolean per axis.
    Mask,
}

/// Reverse-1.
#[derive(Debug)]
pub struct Reverse {
    mode: Mode,
}

impl Parse for Reverse {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let modes = [("index", Mode::Index), ("mask", Mode::Mask)];
        Ok(Reverse { mode: attrs.choice("mode", &modes)? })
    }
}

impl Reverse {
    /// Whether each axis is reversed, for data of this rank and these values of the second input.
    ///
    /// # Errors
    /// When an axis is out of range.
    pub fn reversed(&self, values: &[i64], rank: usize) -> Result<Vec<bool>, RuleError> {
        if self.mode == Mode::Mask {
            return Ok(values.iter().map(|v| *v != 0).collect());
        }
        let axes = axes::normalize_all(values, rank, 1)?;
        Ok((0..rank).map(|axis| axes.contains(&axis)).collect())
    }
}

impl Op for Reverse {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "axis"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_rank(1, 1..=1)?;
        let named = cx.shape(1);
        match self.mode {
            Mode::Index => cx.expect_integer(1)?,
            Mode::Mask => cx.expect_boolean(1)?,
        };
        if let Some(rank) = cx.rank(0) {
            let (count, size) = (named.dim(0), Dim::of(rank).min());
            let fits = match self.mode {
                Mode::Index => count.min() <= size,
                Mode::Mask => count.contains(size),
            };
            require!(1; fits, "is {named}, but the data have rank {rank}");
            if let Some(values) = cx.ints(1) {
                self.reversed(&values, rank)?;
            }
        }
        cx.set(0, cx.element_type(0), cx.shape(0).clone());
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        let data = cx.value(0)?;
        let (&[size], values) = (&data.sizes[..], cx.ints(1)?) else { return None };
        match self.reversed(&values, 1).ok()?[..] {
            [true] => data.gathered(&data.sizes, (0..size).rev()),
            _ => Some(data.clone()),
        }
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
        let i = |v: &[i64]| Input::ints(I64, v);
        for (mode, data, axis, expected) in [
            ("index", "3,?", i(&[1]), Ok("f32[3,?]")),
            ("index", "...", i(&[1]), Ok("f32[...]")),
            ("index", "3", i(&[]), Ok("f32[3]")),
            ("index", "3", i(&[1]), Err("input 1 (axis): axis 1 is out of range for rank 1")),
            ("index", "3", i(&[0, 0]), Err("input 1 (axis): is [2], but the data have rank 1")),
            ("index", "3", Input::scalar(I64, 0), Err("must have rank 1, not 0")),
            ("mask", "3,4", Input::ints(Boolean, &[1, 0]), Ok("f32[3,4]")),
            ("mask", "3", Input::ints(Boolean, &[1, 0]), Err("is [2], but the data have rank 1")),
            ("mask", "3,4", i(&[0, 1]), Err("input 1 (axis): must be boolean, not i64")),
            ("both", "3,4", i(&[0, 1]), Err("\"both\" is not one of index, mask")),
        ] {
            let inputs = [Input::shape(F32, data), axis];
            Case::of("Reverse", "opset1").attr("mode", mode).inputs(inputs).expect(&[expected]);
        }
        let inputs = [Input::bounds(I64, &[(1, 1), (2, 5)]), i(&[0])];
        let case = Case::of("Reverse", "opset1").attr("mode", "index").inputs(inputs);
        case.expect(&[Ok("i64[2] = {2..5, 1}")]);
    }
}
