//! Comparisons and logic on two tensors: Equal-1, NotEqual-1, Less-1, LessEqual-1, Greater-1,
//! GreaterEqual-1, LogicalAnd-1, LogicalOr-1, LogicalXor-1, Xor-1.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/comparison/equal-1.html>

use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::broadcast::{AutoBroadcast, set_broadcast};
use crate::rules::interval::compare;

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the operations
pub enum Kind {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
}

/// A function of two tensors with a boolean result.
#[derive(Debug)]
pub struct Comparison {
    kind: Kind,
    broadcast: AutoBroadcast,
}

impl Parse for Comparison {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Comparison { kind, broadcast: AutoBroadcast::parse(attrs, AutoBroadcast::Numpy)? })
    }
}

impl Comparison {
    /// The function.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The broadcasting of the operands.
    pub fn broadcast(&self) -> AutoBroadcast {
        self.broadcast
    }

    /// The result of the function, as far as the bounds of two values tell.
    fn test(&self, a: Interval, b: Interval) -> Option<bool> {
        let decide = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
        let truth = |v: Interval| decide(v.lo > 0 || v.hi < 0, v.value() == Some(0));
        let equal = decide(
            a.is_exact() && b.is_exact() && a.lo == b.lo && a.lo < Interval::INF,
            a.hi < b.lo || b.hi < a.lo,
        );
        match self.kind {
            Kind::Equal => equal,
            Kind::NotEqual => equal.map(|e| !e),
            Kind::Less => decide(a.hi < b.lo, a.lo >= b.hi),
            Kind::LessEqual => decide(a.hi <= b.lo, a.lo > b.hi),
            Kind::Greater => decide(a.lo > b.hi, a.hi <= b.lo),
            Kind::GreaterEqual => decide(a.lo >= b.hi, a.hi < b.lo),
            Kind::LogicalAnd => match (truth(a), truth(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Kind::LogicalOr => match (truth(a), truth(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Kind::LogicalXor => Some(truth(a)? != truth(b)?),
        }
    }
}

impl Op for Comparison {
    fn input_names(&self) -> &'static [&'static str] {
        &["A", "B"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        if matches!(self.kind, Kind::LogicalAnd | Kind::LogicalOr | Kind::LogicalXor) {
            for input in 0..2 {
                cx.expect_boolean(input)?;
            }
        }
        cx.same_type(0..2)?;
        set_broadcast(cx, self.broadcast, ElementType::Boolean)
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        if !matches!(self.broadcast, AutoBroadcast::Numpy | AutoBroadcast::None) {
            return None;
        }
        compare(|a, b| self.test(a, b), cx.value(0)?, cx.value(1)?, &cx.sizes())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    #[test]
    fn rule() {
        let i = |v: &[(i64, i64)]| Input::bounds(I64, v);
        for (kind, a, b, expected) in [
            ("Less", i(&[(1, 4), (1, 4)]), i(&[(5, 5)]), Ok("boolean[2] = {1, 1}")),
            ("Less", i(&[(1, 5)]), i(&[(5, 5)]), Ok("boolean[1] = {?}")),
            ("Equal", i(&[(1, 4), (3, 3)]), i(&[(5, 5), (3, 3)]), Ok("boolean[2] = {0, 1}")),
            ("Greater", Input::shape(F16, "2,1"), Input::shape(F16, "?"), Ok("boolean[2,?]")),
            ("Equal", i(&[(1, 1)]), Input::shape(I32, "1"), Err("is i32, but an earlier")),
            ("LogicalAnd", i(&[(1, 1)]), i(&[(1, 1)]), Err("must be boolean, not i64")),
        ] {
            Case::of(kind, "opset1").inputs([a, b]).expect(&[expected]);
        }
    }
}
