//! Result-1: an output of the graph.

use crate::prelude::*;

/// Result-1.
#[derive(Debug)]
pub struct ResultOp;

impl Parse for ResultOp {
    type Kind = ();

    fn parse((): (), _attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(ResultOp)
    }
}

impl Op for ResultOp {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.set_fact(0, cx.fact(0));
        Ok(())
    }
}
