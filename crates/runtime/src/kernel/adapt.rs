//! Moving operations work on any element type. Kernels see types smaller than a byte as bytes, and
//! strings as numbers.

use crate::error::KernelError;
use crate::kernel::empty::EmptyOutput;
use crate::kernel::lower::{LowerCx, LowerError, LowerFn};
use crate::kernel::{Kernel, Reuse, RunCx};
use crate::tensor::Tensor;
use infer::{Fact, Op};
use ir::ElementType;

/// Chooses the kernel of an operation of the graph.
///
/// # Errors
/// As `Lower::lower`, and for outputs that do not fit in memory.
pub(crate) fn lower_operation(
    op: &dyn Op,
    lower: LowerFn,
    cx: &LowerCx<'_>,
) -> Result<Box<dyn Kernel>, LowerError> {
    cx.check_memory()?;
    if cx.has_empty_outputs() && op.traits().pure {
        return Ok(Box::new(EmptyOutput));
    }
    through_adapter(op, lower, cx)
}

/// Lowers an operation, through an adapter if its kernel cannot move these elements.
fn through_adapter(
    op: &dyn Op,
    lower: LowerFn,
    cx: &LowerCx<'_>,
) -> Result<Box<dyn Kernel>, LowerError> {
    let moves = op.traits().moves;
    let data = (0..cx.input_count()).find(|i| moves.contains(*i));
    let Some(data) = data else { return lower(op, cx) };
    let element_type = cx.element_type(data);
    if !element_type.is_packed() && element_type != ElementType::String {
        return lower(op, cx);
    }
    // A view needs no adapter.
    if let Ok(kernel) = lower(op, cx)
        && kernel.reuse() == Reuse::same_bytes()
    {
        return Ok(kernel);
    }
    let stand_in = match element_type {
        ElementType::String => ElementType::U32,
        _ => ElementType::U8,
    };
    let swap = |fact: &Fact| {
        if fact.element_type == element_type {
            Fact { element_type: stand_in, ..fact.clone() }
        } else {
            fact.clone()
        }
    };
    let inputs: Vec<Fact> = cx.input_facts().iter().map(swap).collect();
    let outputs: Vec<Fact> = cx.output_facts().iter().map(swap).collect();
    let inner = lower(op, &cx.with_facts(&inputs, &outputs))?;
    Ok(Box::new(Adapter { inner, element_type, stand_in, outputs }))
}

/// Runs a kernel on stand-ins for the elements.
struct Adapter {
    inner: Box<dyn Kernel>,
    element_type: ElementType,
    stand_in: ElementType,
    /// Facts of the outputs, as the inner kernel sees them.
    outputs: Vec<Fact>,
}

impl Kernel for Adapter {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        // Kernels fill gaps with 0, which stands for the empty string.
        let mut strings: Vec<Box<str>> = vec!["".into()];
        let inputs: Vec<Tensor> = (0..cx.input_count())
            .map(|i| self.unpacked(cx.tensor(i), &mut strings))
            .collect::<Result<_, _>>()?;
        let outputs = self.run_inner(cx, &inputs)?;
        for (i, output) in outputs.into_iter().enumerate() {
            let adapted = output.element_type() == self.stand_in;
            let tensor = if adapted { self.packed(&output, &strings)? } else { output };
            cx.provide(i, tensor);
        }
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn has_data_dependent_shapes(&self) -> bool {
        self.inner.has_data_dependent_shapes()
    }

    fn flops(&self) -> u64 {
        self.inner.flops()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

impl Adapter {
    fn run_inner(&self, cx: &RunCx<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>, KernelError> {
        if let Reuse::Views(views) = self.inner.reuse() {
            let part = |(view, fact): (&crate::View, &Fact)| {
                let sizes = fact.shape.sizes().unwrap_or_default();
                inputs[view.input]
                    .part(view.offset, fact.element_type, &sizes)
                    .map_err(KernelError::from)
            };
            return views.iter().zip(&self.outputs).map(part).collect();
        }
        let made: Vec<Option<Tensor>> = self
            .outputs
            .iter()
            .map(|fact| match fact.shape.sizes() {
                Some(sizes) => {
                    Tensor::zeros(fact.element_type, &sizes).map(Some).map_err(KernelError::from)
                }
                None => Ok(None),
            })
            .collect::<Result<_, _>>()?;
        let deferred = cx.run_nested(&*self.inner, inputs, &made, &self.outputs)?;
        let outputs = deferred.into_iter().zip(made).map(|(deferred, made)| deferred.or(made));
        outputs.collect::<Option<_>>().ok_or_else(|| KernelError::new("an output is missing"))
    }

    /// The stand-ins for the elements of an input.
    fn unpacked(&self, t: &Tensor, strings: &mut Vec<Box<str>>) -> Result<Tensor, KernelError> {
        if t.element_type() != self.element_type {
            return Ok(t.clone());
        }
        if let Some(values) = t.as_strings() {
            let first = strings.len() as u32;
            strings.extend_from_slice(values);
            let numbers: Vec<u32> = (first..first + values.len() as u32).collect();
            return Tensor::from_vec(t.sizes(), numbers).map_err(KernelError::from);
        }
        let mut bytes = vec![0u8; t.count()];
        kernels::sub_byte::unpack(self.element_type.bits().unwrap_or(8), t.bytes(), &mut bytes);
        Tensor::from_vec(t.sizes(), bytes).map_err(KernelError::from)
    }

    /// The elements that the stand-ins stand for.
    fn packed(&self, t: &Tensor, strings: &[Box<str>]) -> Result<Tensor, KernelError> {
        if let Some(numbers) = t.as_slice::<u32>() {
            let string = |n: &u32| strings.get(*n as usize).cloned().unwrap_or_default();
            let values = numbers.iter().map(string).collect();
            return Tensor::strings(t.sizes(), values).map_err(KernelError::from);
        }
        let mut packed = Tensor::zeros(self.element_type, t.sizes())?;
        if let (Some(bytes), Some(place)) = (t.as_slice::<u8>(), packed.bytes_mut()) {
            kernels::sub_byte::pack(self.element_type.bits().unwrap_or(8), bytes, place);
        }
        Ok(packed)
    }
}
