//! Select-1: elements of one tensor or the other, by a condition.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/condition/select-1.html>

use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::broadcast::AutoBroadcast;
use crate::rules::interval::positions;

/// Select-1.
#[derive(Debug)]
pub struct Select {
    broadcast: AutoBroadcast,
}

impl Parse for Select {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Select { broadcast: AutoBroadcast::parse(attrs, AutoBroadcast::Numpy)? })
    }
}

impl Select {
    /// The broadcasting of the operands.
    pub fn broadcast(&self) -> AutoBroadcast {
        self.broadcast
    }
}

impl Op for Select {
    fn input_names(&self) -> &'static [&'static str] {
        &["cond", "then", "else"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        cx.expect_boolean(0)?;
        let element_type = cx.same_type(1..3)?;
        let (cond, then, other) = (cx.shape(0), cx.shape(1), cx.shape(2));
        let shape = match self.broadcast {
            // The result has the shape of `then`, to which the others are broadcast.
            AutoBroadcast::Pdpd(_) => {
                let both = self.broadcast.apply(then, other, cx.symbols())?;
                self.broadcast.apply(&both, cond, cx.symbols())?
            }
            rule => {
                let both = rule.apply(then, other, cx.symbols())?;
                rule.apply(&both, cond, cx.symbols())?
            }
        };
        cx.set(0, element_type, shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        if !matches!(self.broadcast, AutoBroadcast::Numpy | AutoBroadcast::None) {
            return None;
        }
        let sizes = cx.sizes();
        let [cond, then, other] = [cx.value(0)?, cx.value(1)?, cx.value(2)?];
        let at = |v: &PartialValue| positions(&sizes, &v.sizes);
        let (c, t, e) = (at(cond)?, at(then)?, at(other)?);
        let (cond, then, other) = (cond.intervals()?, then.intervals()?, other.intervals()?);
        let pick = |((c, t), e): ((usize, usize), usize)| {
            let (t, e) = (*then.get(t)?, *other.get(e)?);
            Some(match cond.get(c)?.value() {
                Some(0) => e,
                Some(_) => t,
                None => {
                    let both = Interval::between(t.lo.min(e.lo), t.hi.max(e.hi));
                    Interval { why: t.why.or(e.why), ..both }
                }
            })
        };
        let values = c.into_iter().zip(t).zip(e).map(pick).collect::<Option<Vec<_>>>()?;
        Some(PartialValue::ints(cx.element_type(), &sizes, values))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    #[test]
    fn rule() {
        let select = Case::of("Select", "opset1");
        let f = |t, s| Input::shape(t, s);
        for (inputs, expected) in [
            ([f(Boolean, "2,1"), f(F32, "3"), f(F32, "1")], Ok("f32[2,3]")),
            ([f(I32, "2"), f(F32, "2"), f(F32, "2")], Err("input 0 (cond): must be boolean")),
            ([f(Boolean, "2"), f(F32, "2"), f(F16, "2")], Err("input 2 (else): is f16")),
        ] {
            select.clone().inputs(inputs).expect(&[expected]);
        }
        let cond = Input::bounds(Boolean, &[(1, 1), (0, 0), (0, 1)]);
        let then = Input::ints(I64, &[1, 2, 3]);
        let other = Input::ints(I64, &[7, 8, 9]);
        select.inputs([cond, then, other]).expect(&[Ok("i64[3] = {1, 8, 3..9}")]);
    }
}
