//! Result-1: the tensor that feeds it, not a step.

use super::SameBytes;
use crate::prelude::*;
use infer::ops::result::ResultOp;

impl Lower for ResultOp {
    fn lower(&self, _cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(SameBytes))
    }
}
