//! Kernels that compute in f32 and give outputs whose shapes depend on the data, such as object
//! detection.

use crate::error::KernelError;
use crate::kernel::lower::LowerCx;
use crate::kernel::{Kernel, Reuse, RunCx};
use crate::tensor::Tensor;
use crate::tensor::convert::convert_tensor;
use ir::ElementType;
use kernels::par::Threads;
use std::borrow::Cow;

/// The values of an output, before the conversion to its element type.
pub(crate) enum Values {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

/// An output: sizes and values.
pub(crate) type Produced = (Vec<usize>, Values);

/// Pads values with zeros to as many elements as `sizes` has.
pub(crate) fn fill_up<T: Clone + Default>(
    values: &mut Vec<T>,
    sizes: &[usize],
) -> Result<(), KernelError> {
    let len = sizes.iter().try_fold(1usize, |len, size| len.checked_mul(*size));
    let more = len.map(|len| len.saturating_sub(values.len()));
    let reserved = more.is_some_and(|more| values.try_reserve_exact(more).is_ok());
    if !reserved {
        return Err(KernelError::new(format!("an output of {sizes:?} does not fit into memory")));
    }
    values.resize(len.unwrap_or_default(), T::default());
    Ok(())
}

/// Inputs converted to f32 or i64.
pub(crate) struct Inputs<'c, 'r> {
    cx: &'c RunCx<'r>,
}

impl<'r> Inputs<'_, 'r> {
    /// Whether the input exists.
    pub(crate) fn has(&self, input: usize) -> bool {
        input < self.cx.input_count()
    }

    /// The values of an input in f32.
    pub(crate) fn floats(&self, input: usize) -> Result<Cow<'r, [f32]>, KernelError> {
        let tensor = self.cx.tensor(input);
        if tensor.element_type() == ElementType::F32 {
            return Ok(Cow::Borrowed(self.cx.input(input)));
        }
        let wide = convert_tensor(tensor, ElementType::F32);
        let wide = wide.map_err(|e| KernelError::at(input, e.to_string()))?;
        Ok(Cow::Owned(wide.as_slice().unwrap_or_default().to_vec()))
    }

    /// The first value of an input in f32, or `default` if the input does not exist.
    pub(crate) fn float_or(&self, input: usize, default: f32) -> Result<f32, KernelError> {
        if self.has(input) {
            Ok(self.floats(input)?.first().copied().unwrap_or(default))
        } else {
            Ok(default)
        }
    }

    /// The values of an integer input.
    pub(crate) fn ints(&self, input: usize) -> Vec<i64> {
        self.cx.ints(input)
    }

    /// The sizes of an input.
    pub(crate) fn sizes(&self, input: usize) -> &'r [usize] {
        self.cx.sizes(input)
    }

    /// The threads of the session.
    pub(crate) fn threads(&self) -> &'r Threads {
        self.cx.threads()
    }
}

/// A kernel that computes its outputs as a function of its inputs. Outputs that the layer lacks are
/// ignored.
pub(crate) fn produce<F>(cx: &LowerCx<'_>, name: &'static str, f: F) -> Box<dyn Kernel>
where
    F: Fn(&Inputs<'_, '_>) -> Result<Vec<Produced>, KernelError> + Send + Sync + 'static,
{
    let types = (0..cx.output_count()).map(|output| cx.output_type(output)).collect();
    Box::new(Producer { name, types, f })
}

struct Producer<F> {
    name: &'static str,
    types: Vec<ElementType>,
    f: F,
}

impl<F> Kernel for Producer<F>
where
    F: Fn(&Inputs<'_, '_>) -> Result<Vec<Produced>, KernelError> + Send + Sync,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let outputs = (self.f)(&Inputs { cx })?;
        for (output, ((sizes, values), element_type)) in
            outputs.into_iter().zip(&self.types).enumerate()
        {
            let made = match values {
                Values::Floats(v) => Tensor::from_vec(&sizes, v),
                Values::Ints(v) => Tensor::from_vec(&sizes, v),
            };
            let made = made.and_then(|t| convert_tensor(&t, *element_type));
            cx.provide(output, made?);
        }
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        self.name
    }
}
