//! Deferred kernels, which are chosen at run time, and operations evaluated outside of a plan.

use crate::error::KernelError;
use crate::kernel::adapt::lower_operation;
use crate::kernel::lower::{LowerCx, LowerFn, lower_text};
use crate::kernel::{Host, Kernel, KernelState, Reuse, RunCx, RunSite, View};
use crate::memory::resources::Resources;
use crate::tensor::fact::{fact_of, fact_with_values, in_f32};
use crate::tensor::{Access, Overwrite, Sizes, Tensor};
use infer::ops::convert::Convert;
use infer::ops::variable::Variable;
use infer::{Fact, InputSet, MAX_ELEMENTS, Op, infer_shapes};
use ir::{Body, ElementType, Graph};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

/// An operation whose kernel is chosen once its inputs are known.
#[derive(Clone)]
pub(crate) struct Deferred {
    pub(crate) op: Arc<dyn Op>,
    pub(crate) lower: LowerFn,
    /// The number of outputs.
    pub(crate) outputs: usize,
    /// The layer that messages name.
    pub(crate) layer: usize,
    /// The inputs that are the same in every run.
    pub(crate) invariant: InputSet,
}

/// The kernel chosen last, with the shapes and values it was chosen for.
pub(crate) struct CachedKernel {
    inputs: Vec<(ElementType, Sizes)>,
    /// The bytes of the inputs whose values the choice depends on.
    values: Vec<(usize, Vec<u8>)>,
    outputs: Vec<Fact>,
    kernel: Box<dyn Kernel>,
}

/// The outputs that a kernel allocated, by position; empty if all existed before.
pub(crate) type Made = Vec<Option<Tensor>>;

/// The inputs of a step.
pub(crate) type Operands<'a> = SmallVec<[&'a Tensor; 4]>;

/// The memory of the outputs before a kernel runs.
pub(crate) struct Outputs<'a> {
    /// `None` for outputs that the run allocates.
    pub(crate) existing: SmallVec<[Option<&'a Tensor>; 2]>,
    pub(crate) in_place: Option<Overwrite>,
}

/// Runs a kernel. Returns the outputs that did not exist before.
pub(crate) fn run_kernel(
    kernel: &dyn Kernel,
    inputs: &[&Tensor],
    outputs: &Outputs<'_>,
    facts: &[&Fact],
    site: RunSite<'_>,
) -> Result<Made, KernelError> {
    let mut made = allocate(kernel, outputs, facts, site.resources)?;
    let deferred: Vec<OnceCell<Tensor>> = made.iter().map(|_| OnceCell::new()).collect();
    let output =
        |(i, existing): (usize, &Option<_>)| made.get(i).and_then(Option::as_ref).or(*existing);
    let tensors = outputs.existing.iter().enumerate().map(output).collect();
    let access = Access::new(inputs.iter().copied().collect(), tensors, outputs.in_place);
    kernel.run(&mut RunCx::new(access, (&deferred, facts), site))?;
    site.resources.flops.update(|sum| sum.saturating_add(kernel.flops()));
    for (slot, cell) in made.iter_mut().zip(deferred) {
        if let Some(tensor) = cell.into_inner() {
            *slot = Some(tensor);
        }
    }
    Ok(made)
}

/// Allocates the missing outputs, unless the kernel provides them.
fn allocate(
    kernel: &dyn Kernel,
    outputs: &Outputs<'_>,
    facts: &[&Fact],
    resources: &Resources,
) -> Result<Made, KernelError> {
    let provides = kernel.reuse() == Reuse::Provides;
    if !provides && outputs.existing.iter().all(Option::is_some) {
        return Ok(Made::new());
    }
    let allocated =
        outputs.existing.iter().zip(facts).map(|(existing, fact)| match fact.shape.sizes() {
            Some(sizes) if !provides && existing.is_none() => {
                resources.pool.take(fact.element_type, &sizes).map(Some)
            }
            _ => Ok(None),
        });
    allocated.collect()
}

impl Deferred {
    /// Runs the kernel of the last run, or chooses one if shapes or values have changed.
    pub(crate) fn run(
        &self,
        graph: &Graph,
        inputs: &[&Tensor],
        outputs: &Outputs<'_>,
        cached: &mut Option<CachedKernel>,
        site: RunSite<'_>,
    ) -> Result<Made, KernelError> {
        if !cached.as_ref().is_some_and(|cached| cached.serves(inputs)) {
            *cached = Some(self.choose(graph, inputs, site.resources)?);
        }
        let Some(cached) = cached else { return Ok(Made::new()) };
        if let Reuse::Views(views) = cached.kernel.reuse() {
            let part = |(view, fact): (&View, &Fact)| {
                let sizes = fact.shape.sizes().unwrap_or_default();
                let part = inputs[view.input].part(view.offset, fact.element_type, &sizes);
                let part = part.and_then(|part| part.aligned());
                part.map(Some).map_err(KernelError::from)
            };
            return views.iter().zip(&cached.outputs).map(part).collect();
        }
        let copies = self.aligned(&*cached.kernel, inputs, site.resources)?;
        let mut inputs: Operands<'_> = inputs.iter().copied().collect();
        copies.iter().for_each(|(input, copy)| inputs[*input] = copy);
        let facts: SmallVec<[&Fact; 2]> = cached.outputs.iter().collect();
        run_kernel(&*cached.kernel, &inputs, outputs, &facts, site)
    }

    /// Aligned copies of the inputs that the kernel needs aligned; constants of a file may lie
    /// anywhere. An input that is the same in every run is copied once.
    fn aligned(
        &self,
        kernel: &dyn Kernel,
        inputs: &[&Tensor],
        resources: &Resources,
    ) -> Result<SmallVec<[(usize, Tensor); 1]>, KernelError> {
        let is_unaligned = |(i, tensor): &(usize, &&Tensor)| {
            !tensor.is_aligned() && !kernel.accepts_unaligned().contains(*i)
        };
        let copy = |(i, tensor): (usize, &&Tensor)| {
            let is_invariant = self.invariant.contains(i);
            let copy =
                if is_invariant { resources.store.aligned(tensor) } else { tensor.aligned() };
            copy.map(|copy| (i, copy))
        };
        let copy = |pair| copy(pair).map_err(KernelError::from);
        inputs.iter().enumerate().filter(is_unaligned).map(copy).collect()
    }

    /// Infers the outputs from the actual inputs, and chooses the kernel.
    fn choose(
        &self,
        graph: &Graph,
        inputs: &[&Tensor],
        resources: &Resources,
    ) -> Result<CachedKernel, KernelError> {
        let facts: Vec<Fact> = inputs.iter().map(|t| fact_of(t)).collect();
        // A Convert that a pass has put behind a layer with bodies has the number of that layer.
        let op: &dyn Any = &*self.op;
        let layer = graph.layers().get(self.layer).filter(|_| !op.is::<Convert>());
        let bodies = layer.map_or(&[][..], |l| &l.bodies);
        let (outputs, looked_at) = self.outputs_of(inputs, &facts, bodies, resources)?;
        let constants = vec![None; inputs.len()];
        let known: Vec<Option<Tensor>> = inputs.iter().map(|t| Some((*t).clone())).collect();
        let cx = LowerCx::new((&facts, &outputs), &constants, &known, bodies)
            .with_invariant(self.invariant)
            .with_precision(resources.options.precision);
        let kernel = lower_operation(&*self.op, self.lower, &cx).map_err(|e| {
            let (input, message) = lower_text(e);
            KernelError { input, message }
        })?;
        if let Some(open) = outputs.iter().find(|fact| is_open(fact))
            && !kernel.has_data_dependent_shapes()
        {
            let why = format!("more than {MAX_ELEMENTS} elements, or of numbers beyond i64");
            let message = format!("an output is {open}: its sizes depend on an input of {why}");
            return Err(KernelError::new(message));
        }
        let looked_at = looked_at.with(cx.consulted());
        let decided = inputs.iter().enumerate().filter(|(i, _)| looked_at.contains(*i));
        Ok(CachedKernel {
            inputs: inputs.iter().map(|t| (t.element_type(), t.sizes().into())).collect(),
            values: decided.map(|(i, t)| (i, t.bytes().to_vec())).collect(),
            outputs,
            kernel,
        })
    }

    /// The outputs for the actual inputs, whose types and shapes are `facts`, and the inputs whose
    /// values decide about them.
    fn outputs_of(
        &self,
        inputs: &[&Tensor],
        facts: &[Fact],
        bodies: &[Body],
        resources: &Resources,
    ) -> Result<(Vec<Fact>, InputSet), KernelError> {
        let op = &*self.op;
        let any: &dyn Any = op;
        let infer = |facts: &[Fact]| {
            // Other operations do not look at variables, and copying their names would dominate the
            // cost.
            let variables = if any.is::<Variable>() || !bodies.is_empty() {
                resources.variables.borrow().facts()
            } else {
                HashMap::new()
            };
            let extensions = &resources.extensions;
            infer_shapes(op, facts, self.outputs, bodies, extensions, Some(variables))
                .map_err(|e| KernelError { input: e.input, message: e.message })
        };
        let (mut outputs, mut looked_at) = infer(facts)?;
        if outputs.iter().any(is_open) && bodies.is_empty() {
            let facts: Vec<Fact> = inputs.iter().map(|t| fact_with_values(t)).collect();
            (outputs, looked_at) = infer(&facts)?;
        }
        // A rule gives all outputs of an operation, also those that a pass has dropped.
        outputs.truncate(self.outputs);
        // f16 promotion makes bodies compute in f32; their rules still say f16.
        if resources.options.optimize && !bodies.is_empty() {
            outputs = outputs.into_iter().map(in_f32).collect();
        }
        Ok((outputs, looked_at))
    }
}

/// Whether a size of an output is not known.
fn is_open(fact: &Fact) -> bool {
    fact.shape.sizes().is_none()
}

impl CachedKernel {
    /// The name of the kernel.
    pub(crate) fn name(&self) -> &'static str {
        self.kernel.name()
    }

    fn serves(&self, inputs: &[&Tensor]) -> bool {
        let same = |(k, t): (&(ElementType, Sizes), &&Tensor)| {
            k.0 == t.element_type() && k.1[..] == *t.sizes()
        };
        self.inputs.iter().zip(inputs).all(same)
            && self.values.iter().all(|(i, bytes)| inputs[*i].bytes() == &bytes[..])
    }
}

/// Evaluates an operation on tensors, outside of any plan.
///
/// # Errors
/// When it has bodies that the site cannot run, and when the kernel fails.
pub(crate) fn evaluate(
    graph: &Graph,
    operation: &Deferred,
    inputs: &[Tensor],
    site: RunSite<'_>,
) -> Result<Vec<Tensor>, KernelError> {
    let inputs: Operands<'_> = inputs.iter().collect();
    let existing = smallvec::smallvec![None; operation.outputs];
    let outputs = Outputs { existing, in_place: None };
    let made = operation.run(graph, &inputs, &outputs, &mut None, site)?;
    let missing = || KernelError::new("an output has not been computed");
    made.into_iter().map(|tensor| tensor.ok_or_else(missing)).collect()
}

/// A host for operations that are evaluated without a session.
pub(crate) struct NoBodies;

impl Host for NoBodies {
    fn run_body(
        &self,
        _: usize,
        _: &Graph,
        _: &[Tensor],
        _: &Resources,
    ) -> Result<Vec<Tensor>, KernelError> {
        Err(KernelError::new("its body runs in a session only"))
    }
}

impl RunSite<'_> {
    /// Calls `f` with a site for operations without bodies and state.
    pub(crate) fn outside<R>(resources: &Resources, f: impl FnOnce(RunSite<'_>) -> R) -> R {
        f(RunSite { resources, state: &KernelState::default(), host: &NoBodies })
    }
}
