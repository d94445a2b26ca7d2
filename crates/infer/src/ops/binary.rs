//! Arithmetic on two tensors: Add-1, Subtract-1, Multiply-1, Divide-1, FloorMod-1, Mod-1,
//! Power-1, Maximum-1, Minimum-1, SquaredDifference-1, and the bitwise operations of opset13
//! and opset15.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/arithmetic/add-1.html>

use crate::rule::prelude::*;
use crate::rules::broadcast::{AutoBroadcast, set_broadcast};
use crate::rules::interval::{Arithmetic, binary};

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorMod,
    Mod,
    Power,
    Maximum,
    Minimum,
    SquaredDifference,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    BitwiseLeftShift,
    BitwiseRightShift,
}

/// A function of two tensors of one element type.
#[derive(Debug)]
pub struct Binary {
    kind: Kind,
    broadcast: AutoBroadcast,
    /// Divide: integers round down (`m_pythondiv`), else towards zero.
    floor: bool,
}

impl Parse for Binary {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let broadcast = AutoBroadcast::parse(attrs, AutoBroadcast::Numpy)?;
        let floor = kind != Kind::Divide || attrs.bool_or("m_pythondiv", true);
        Ok(Binary { kind, broadcast, floor })
    }
}

impl Binary {
    /// The function.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The broadcasting of the operands.
    pub fn broadcast(&self) -> AutoBroadcast {
        self.broadcast
    }

    /// Whether integer quotients are rounded down.
    pub fn floor(&self) -> bool {
        self.floor
    }

    fn arithmetic(&self) -> Option<Arithmetic> {
        Some(match self.kind {
            Kind::Add => Arithmetic::Add,
            Kind::Subtract => Arithmetic::Subtract,
            Kind::Multiply => Arithmetic::Multiply,
            Kind::Divide if self.floor => Arithmetic::Divide,
            Kind::Divide => Arithmetic::DivideTruncated,
            Kind::FloorMod => Arithmetic::FloorMod,
            Kind::Mod => Arithmetic::Mod,
            Kind::Power => Arithmetic::Power,
            Kind::Maximum => Arithmetic::Maximum,
            Kind::Minimum => Arithmetic::Minimum,
            _ => return None,
        })
    }
}

impl Op for Binary {
    fn input_names(&self) -> &'static [&'static str] {
        &["A", "B"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let integral = |t: ElementType| t.is_integral() || t == ElementType::Boolean;
        for input in 0..2 {
            match self.kind {
                Kind::BitwiseAnd | Kind::BitwiseOr | Kind::BitwiseXor => {
                    cx.expect_type(input, "an integer or boolean type", integral)?
                }
                Kind::BitwiseLeftShift | Kind::BitwiseRightShift => cx.expect_integer(input)?,
                _ => cx.expect_number(input)?,
            };
        }
        let element_type = cx.same_type(0..2)?;
        set_broadcast(cx, self.broadcast, element_type)
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        if !matches!(self.broadcast, AutoBroadcast::Numpy | AutoBroadcast::None) {
            return None;
        }
        let (a, b) = (cx.value(0)?, cx.value(1)?);
        binary(self.arithmetic()?, a, b, &cx.sizes(), cx.element_type())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    #[test]
    fn types_and_shapes() {
        let add = Case::of("Add", "opset1");
        let f = |t, s| Input::shape(t, s);
        for (a, b, expected) in [
            (f(F32, "2,1"), f(F32, "3"), Ok("f32[2,3]")),
            (f(Dynamic, "2"), f(I8, "2"), Ok("i8[2]")),
            (f(F32, "2"), f(F16, "2"), Err("input 1 (B): is f16, but an earlier input is f32")),
            (f(Boolean, "2"), f(Boolean, "2"), Err("must be a numeric type, not boolean")),
            (f(F32, "2"), f(F32, "3"), Err("2 and 3 differ and neither is 1")),
        ] {
            add.clone().inputs([a, b]).expect(&[expected]);
        }
        Case::of("BitwiseAnd", "opset13")
            .inputs([f(F32, "2"), f(F32, "2")])
            .expect(&[Err("must be an integer or boolean type, not f32")]);
        let bad = Case::of("Add", "opset1").attr("auto_broadcast", "sometimes");
        bad.inputs([f(F32, "2"), f(F32, "2")]).expect(&[Err("attribute auto_broadcast")]);
    }

    #[test]
    fn values() {
        let i = |v: &[(i64, i64)]| Input::bounds(I64, v);
        for (kind, a, b, expected) in [
            ("Multiply", i(&[(2, 8), (3, 3)]), i(&[(2, 2)]), "i64[2] = {4..16, 6}"),
            ("Divide", i(&[(-7, -7)]), i(&[(2, 2)]), "i64[1] = {-4}"),
            ("FloorMod", i(&[(5, 9)]), i(&[(7, 7)]), "i64[1] = {0..6}"),
            ("Maximum", i(&[(1, 4)]), i(&[(3, 3)]), "i64[1] = {3..4}"),
            ("Power", i(&[(3, 3)]), i(&[(4, 4)]), "i64[1] = {81}"),
        ] {
            Case::of(kind, "opset1").inputs([a, b]).expect(&[Ok(expected)]);
        }
        Case::of("Divide", "opset1")
            .inputs([Input::reals(F32, &[1.0]), Input::reals(F32, &[3.0])])
            .expect(&[Ok("f32[1] = {0.33333334}")]);
        Case::of("Divide", "opset1")
            .attr("m_pythondiv", "false")
            .inputs([i(&[(-7, -7)]), i(&[(2, 2)])])
            .expect(&[Ok("i64[1] = {-3}")]);
    }
}
