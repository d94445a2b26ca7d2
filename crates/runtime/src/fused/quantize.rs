//! FakeQuantize whose result is stored as u8.

use crate::graph::net::FusedOp;
use crate::kernel::post_ops::Quantize;
use crate::prelude::*;
use kernels::quantize_lines::quantize_rows;

/// Quantizes f32 to u8. Inputs: the values, and the parameters per column if there are any.
#[derive(Clone, Copy)]
pub(crate) struct QuantizeValues {
    pub(crate) writes: Quantize,
    /// Elements of a row.
    pub(crate) columns: usize,
}

impl FusedOp for QuantizeValues {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(*self))
    }
}

impl Kernel for QuantizeValues {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let quantizers = self.writes.quantizers(cx);
        quantize_rows(cx.threads(), quantizers, self.columns, cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "quantize"
    }
}
