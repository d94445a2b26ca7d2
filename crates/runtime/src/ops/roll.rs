//! Roll-7: moves runs of bytes, whatever the element type.

use crate::prelude::*;
use infer::ops::roll::Roll;
use infer::rules::axes;
use kernels::roll::RollPlan;

impl Lower for Roll {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let element = cx.element_type(0).byte_size();
        let element = element.ok_or_else(|| LowerError::element_type(0, cx.element_type(0)))?;
        let (shift, axes) = (cx.ints(1)?, cx.ints(2)?);
        let scalar_shift = cx.sizes(1).is_empty();
        let mut shifts = vec![0; sizes.len()];
        for (i, axis) in axes::normalize_all(&axes, sizes.len().max(1), 2)?.iter().enumerate() {
            let Some(total) = shifts.get_mut(*axis) else { continue };
            let size = (sizes[*axis].max(1)) as i64;
            let shift = if scalar_shift { shift[0] } else { shift[i] };
            // Reduced before adding, so that the sum cannot overflow.
            *total = (*total + shift % size) % size;
        }
        Ok(Box::new(RollKernel { plan: RollPlan::new(sizes, &shifts, element) }))
    }
}

struct RollKernel {
    plan: RollPlan,
}

impl Kernel for RollKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        self.plan.run(cx.threads(), cx.input_bytes(0), cx.output_bytes(0));
        Ok(())
    }

    fn movement(&self) -> Option<Movement<'_>> {
        Some(Movement::Roll(&self.plan))
    }

    fn name(&self) -> &'static str {
        "roll"
    }
}
