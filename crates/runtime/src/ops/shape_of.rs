//! ShapeOf-1, ShapeOf-3: the sizes are known when the kernel is chosen.

use crate::prelude::*;
use infer::ops::shape_of::ShapeOf;

impl Lower for ShapeOf {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let wide = cx.output_type(0) == ElementType::I64;
        Ok(Box::new(Write { sizes: cx.sizes(0).into(), wide }))
    }
}

struct Write {
    sizes: Sizes,
    wide: bool,
}

/// Writes sizes to output 0, as i64 if `wide`, else as i32.
pub(crate) fn write(cx: &mut RunCx<'_>, sizes: &[usize], wide: bool) {
    if wide {
        for (to, size) in cx.output::<i64>(0).iter_mut().zip(sizes) {
            *to = *size as i64;
        }
    } else {
        for (to, size) in cx.output::<i32>(0).iter_mut().zip(sizes) {
            *to = *size as i32;
        }
    }
}

impl Kernel for Write {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        write(cx, &self.sizes, self.wide);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "shape"
    }
}
