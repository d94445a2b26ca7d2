//! Rotary position embedding as one step.

use crate::graph::net::FusedOp;
use crate::prelude::*;
use infer::rules::interval::positions;
use kernels::rope::Rotary;
use std::sync::Arc;

/// Rotary embedding of f32. Inputs: data, cosines, sines; the last axis of each is a row.
#[derive(Clone)]
pub(crate) struct RotaryEmbedding {
    /// Sizes of the data.
    pub(crate) sizes: Sizes,
    /// The row of the input for each row of the data, if these are not in order.
    pub(crate) through: Option<Arc<[u32]>>,
}

impl RotaryEmbedding {
    /// The most rows, since there is a table of them.
    pub(crate) const ROWS: usize = 1 << 20;

    /// For each row of the data, the row of an operand of shape `operand`.
    fn rows(&self, operand: &[usize]) -> Option<Vec<u32>> {
        let (_, outer) = self.sizes.split_last()?;
        let (_, own) = operand.split_last()?;
        let at = positions(outer, own).filter(|at| at.len() <= Self::ROWS)?;
        at.into_iter().map(|row| u32::try_from(row).ok()).collect()
    }

    /// The plan for cosines and sines of these sizes.
    fn plan(&self, cos: &[usize], sin: &[usize]) -> Option<Rotary> {
        let data = match &self.through {
            Some(rows) => rows.to_vec(),
            None => self.rows(&self.sizes)?,
        };
        let rows = data.into_iter().zip(self.rows(cos)?).zip(self.rows(sin)?);
        let rows = rows.map(|((x, cos), sin)| [x, cos, sin]).collect();
        Some(Rotary { columns: *self.sizes.last()?, rows })
    }
}

impl FusedOp for RotaryEmbedding {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let plan = self.plan(cx.sizes(1), cx.sizes(2));
        let plan = plan.ok_or_else(|| LowerError::Unsupported("rows of other sizes".into()))?;
        Ok(Box::new(RotaryKernel { plan }))
    }
}

struct RotaryKernel {
    plan: Rotary,
}

impl Kernel for RotaryKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.plan.run(cx.threads(), [cx.input(0), cx.input(1), cx.input(2)], cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "rotary"
    }
}
