//! Eye: zeros with ones on a diagonal.

use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::eye::Eye as Rule;
use kernels::num::Stored;
use kernels::one_hot::Eye;
use std::marker::PhantomData;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let &[.., rows, columns] = cx.output_sizes(0)? else {
            return Err(LowerError::Unsupported("an output that is no matrix".into()));
        };
        let element_type = cx.output_type(0);
        with_type!(element_type, number T => {
            Box::new(EyeKernel::<T> { rows, columns, of: PhantomData }) as Box<dyn Kernel>
        })
        .ok_or_else(|| LowerError::Unsupported(format!("matrices of {element_type}")))
    }
}

struct EyeKernel<T> {
    rows: usize,
    columns: usize,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for EyeKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let diagonal = cx.ints(2);
        let [diagonal] = diagonal[..] else {
            return Err(KernelError::at(2, "must hold one number"));
        };
        let eye = Eye { rows: self.rows, columns: self.columns, diagonal };
        eye.run(cx.threads(), T::from_i64(1), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "eye"
    }
}
