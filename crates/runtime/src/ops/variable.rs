//! ReadValue, Assign: tensors are handed over, not copied.

use crate::prelude::*;
use infer::ops::variable::Variable;

impl Lower for Variable {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let id = self.id().to_owned();
        if !self.reads() {
            return Ok(Box::new(Assign { id }));
        }
        // From the declaration, not from the current value: the kernel may also run when there is
        // none.
        let dims = self.shape().and_then(|shape| shape.dims()).unwrap_or_default();
        let empty = || dims.iter().map(|dim| dim.size().unwrap_or(0)).collect();
        let initial = (cx.input_count() == 0).then(empty);
        Ok(Box::new(Read { id, element_type: cx.output_type(0), initial }))
    }
}

struct Read {
    id: String,
    element_type: ElementType,
    /// The initial sizes, if there is no initial value.
    initial: Option<Sizes>,
}

impl Kernel for Read {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let value = match (cx.variable(&self.id)?, &self.initial) {
            (Some(value), _) => value,
            (None, Some(sizes)) => Tensor::zeros(self.element_type, sizes)?,
            (None, None) => cx.tensor(0).clone(),
        };
        cx.provide(0, value);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        "read variable"
    }
}

struct Assign {
    id: String,
}

impl Kernel for Assign {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let value = cx.tensor(0).clone();
        cx.assign(&self.id, value.clone())?;
        cx.provide(0, value);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        "assign variable"
    }
}
