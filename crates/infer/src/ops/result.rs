//! Result-1: an output of the graph.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/result-1.html>

use crate::rule::prelude::*;

/// Result-1.
#[derive(Debug)]
pub struct ResultOp;

no_attributes!(ResultOp);

impl Op for ResultOp {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.set_fact(0, cx.fact(0));
        Ok(())
    }
}
