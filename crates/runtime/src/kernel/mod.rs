//! Kernels, and what a kernel sees while it runs.

pub(crate) mod adapt;
pub(crate) mod batch;
pub(crate) mod compressed_weights;
pub(crate) mod dispatch;
pub(crate) mod empty;
pub(crate) mod evaluate;
pub(crate) mod lanes;
pub(crate) mod lower;
pub(crate) mod movement;
pub(crate) mod post_ops;
pub(crate) mod prepack;
pub(crate) mod produce;
pub(crate) mod text;

use crate::error::KernelError;
use crate::memory::pool::Pool;
use crate::memory::prepack::Store;
use crate::memory::resources::Resources;
use crate::memory::variables::Variables;
use crate::tensor::{Access, Overwrite, Sizes, Tensor};
use infer::{Fact, InputSet};
use ir::{ElementType, Graph};
use kernels::copy::CopyPlan;
use kernels::indices::Indices;
use kernels::num::Pod;
use kernels::par::Threads;
use kernels::roll::RollPlan;
use kernels::{InOut, Packer, Scratch, ScratchPool, Workers};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell, RefMut};

/// An operation with everything chosen that does not depend on the data.
pub trait Kernel: Send + Sync {
    /// Computes the outputs.
    ///
    /// # Errors
    /// When the data do not allow the operation.
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError>;

    /// How outputs may share memory with inputs.
    fn reuse(&self) -> Reuse {
        Reuse::None
    }

    /// Whether the shapes of outputs depend on data that only the run reads. The kernel then
    /// allocates these outputs with [`RunCx::allocate`] or provides them; for any other kernel, all
    /// shapes are known before it runs.
    fn has_data_dependent_shapes(&self) -> bool {
        self.reuse() == Reuse::Provides
    }

    /// Inputs that may be unaligned. Constants among them are read directly from the mapped file.
    fn accepts_unaligned(&self) -> InputSet {
        InputSet::NONE
    }

    /// How the outputs are made from input 0, for kernels that only move elements.
    fn movement(&self) -> Option<Movement<'_>> {
        None
    }

    /// Floating-point operations per run of GEMMs, convolutions, attention and recurrent cells,
    /// with two for each multiply-add. Element-wise work and activation functions do not count.
    fn flops(&self) -> u64 {
        0
    }

    /// Large allocations of the first run besides inputs and outputs, on this many threads.
    fn memory(&self, _threads: usize) -> KernelMemory {
        KernelMemory::default()
    }

    /// The name shown by `--explain` and `--profile`.
    fn name(&self) -> &'static str;
}

/// Bytes that a kernel takes besides its inputs and outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelMemory {
    /// What it keeps for later runs, such as packed weights.
    pub kept: usize,
    /// What it frees after the run, such as scratch.
    pub passing: usize,
}

/// How a kernel moves elements.
#[derive(Clone, Debug)]
pub enum Movement<'k> {
    /// Strided copies.
    Copies(&'k [Copy]),
    /// A roll of bytes.
    Roll(&'k RollPlan),
}

/// A strided copy from an input to an output.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The input.
    pub input: usize,
    /// The output.
    pub output: usize,
    /// The elements it copies, and where.
    pub plan: CopyPlan,
}

/// How outputs share memory with inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Outputs have memory of their own.
    None,
    /// Output 0 may overwrite one of these inputs, which must have the same number of bytes. The
    /// kernel then reads that input through [`RunCx::in_out`].
    InPlace(InputSet),
    /// The kernel provides tensors of its own with [`RunCx::provide`], and may keep its inputs.
    Provides,
    /// Each output is a part of an input, and [`Kernel::run`] is never called.
    Views(SmallVec<[View; 1]>),
}

impl Reuse {
    /// The only output is input 0 in another shape.
    pub fn same_bytes() -> Reuse {
        Reuse::Views(smallvec::smallvec![View { input: 0, offset: 0 }])
    }
}

/// An output that is part of the memory of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The input.
    pub input: usize,
    /// The offset of the output, in bytes.
    pub offset: usize,
}

/// What kernels need from the session that runs them.
pub(crate) trait Host {
    /// Runs body `index` of a layer: takes a tensor per Parameter, returns one per Result.
    fn run_body(
        &self,
        index: usize,
        body: &Graph,
        inputs: &[Tensor],
        resources: &Resources,
    ) -> Result<Vec<Tensor>, KernelError>;
}

/// What the kernels of a layer keep from run to run, shared by all plans.
#[derive(Default)]
pub(crate) struct KernelState(RefCell<Option<Box<dyn Any + Send>>>);

/// Where a kernel runs: for which layer of which session.
#[derive(Clone, Copy)]
pub(crate) struct RunSite<'a> {
    pub(crate) resources: &'a Resources,
    pub(crate) state: &'a KernelState,
    pub(crate) host: &'a dyn Host,
}

/// Integers of an input.
pub(crate) enum IndexList<'r> {
    I32(&'r [i32]),
    I64(Cow<'r, [i64]>),
}

impl IndexList<'_> {
    pub(crate) fn indices(&self) -> Indices<'_> {
        match self {
            IndexList::I32(indices) => Indices::I32(indices),
            IndexList::I64(indices) => Indices::I64(indices),
        }
    }
}

/// What a kernel sees: its inputs, memory for its outputs, and the threads.
pub struct RunCx<'r> {
    access: Access<'r>,
    /// Outputs whose shape the kernel determines.
    deferred: &'r [OnceCell<Tensor>],
    deferred_facts: &'r [&'r Fact],
    site: RunSite<'r>,
}

impl<'r> RunCx<'r> {
    pub(crate) fn new(
        access: Access<'r>,
        deferred: (&'r [OnceCell<Tensor>], &'r [&'r Fact]),
        site: RunSite<'r>,
    ) -> RunCx<'r> {
        let (deferred, deferred_facts) = deferred;
        RunCx { access, deferred, deferred_facts, site }
    }

    /// The elements of an input, as any type of the same size.
    pub fn input<T: Pod>(&self, input: usize) -> &'r [T] {
        self.access.input(input)
    }

    /// The values of an integer input; u64 values beyond i64 wrap.
    pub fn ints(&self, input: usize) -> Vec<i64> {
        self.wide_ints(input).into_owned()
    }

    /// As [`Self::ints`]; borrowed if they are i64.
    pub(crate) fn wide_ints(&self, input: usize) -> Cow<'r, [i64]> {
        let tensor = self.tensor(input);
        if let Some(values) = tensor.as_slice() {
            return Cow::Borrowed(values);
        }
        match crate::tensor::convert::convert_tensor(tensor, ElementType::I64) {
            Ok(wide) => Cow::Owned(wide.as_slice().unwrap_or_default().to_vec()),
            Err(_) => Cow::default(),
        }
    }

    /// The values of an integer input, as they are if they are i32 or i64.
    pub(crate) fn index_list(&self, input: usize) -> IndexList<'r> {
        match self.tensor(input).as_slice() {
            Some(indices) => IndexList::I32(indices),
            None => IndexList::I64(self.wide_ints(input)),
        }
    }

    /// The values of an input as indices of an axis of `size`. Negative ones count from the end.
    ///
    /// # Errors
    /// When an index is out of range; the message names the first.
    pub fn indices(&self, input: usize, size: usize) -> Result<Vec<usize>, KernelError> {
        let limit = size as i64;
        let normal = |i: i64| {
            let index = if i < 0 { i + limit } else { i };
            usize::try_from(index).ok().filter(|i| *i < size).ok_or_else(|| {
                KernelError::at(input, format!("index {i} is out of range for an axis of {size}"))
            })
        };
        self.wide_ints(input).iter().copied().map(normal).collect()
    }

    /// The packed bytes of an input.
    pub fn input_bytes(&self, input: usize) -> &'r [u8] {
        self.access.input_bytes(input)
    }

    /// An input as a tensor. Only a kernel that [`Reuse::Provides`] may keep it after the run:
    /// other memory is reused by later steps. A kernel that computes in place reads the input with
    /// [`RunCx::in_out`] only.
    pub fn tensor(&self, input: usize) -> &'r Tensor {
        self.access.input_tensor(input)
    }

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.access.input_count()
    }

    /// The sizes of an input.
    pub fn sizes(&self, input: usize) -> &'r [usize] {
        self.access.input_tensor(input).sizes()
    }

    /// The elements of an output. May be called once per output.
    pub fn output<T: Pod>(&mut self, output: usize) -> &'r mut [T] {
        self.access.output(output)
    }

    /// The packed bytes of an output. May be called once per output.
    pub fn output_bytes(&mut self, output: usize) -> &'r mut [u8] {
        self.access.output_bytes(output)
    }

    /// The sizes of an output.
    pub fn output_sizes(&self, output: usize) -> Sizes {
        self.access.output_tensor(output).map_or_else(Sizes::new, |t| t.sizes().into())
    }

    /// An input and an output of the same element type, which may share memory.
    pub fn in_out<T: Pod>(&mut self, input: usize, output: usize) -> InOut<'r, T> {
        if self.access.in_place() == Some(Overwrite { input, output }) {
            return InOut::in_place(self.access.output(output));
        }
        let from = self.access.input(input);
        InOut::separate(from, self.access.output(output))
    }

    /// Whether an input shares memory with output 0.
    pub fn is_in_place(&self, input: usize) -> bool {
        self.access.in_place().is_some_and(|shared| shared.input == input)
    }

    /// Allocates an output whose shape depends on the data. If the plan knew the shape, the memory
    /// already exists.
    ///
    /// # Errors
    /// When it does not fit in memory.
    ///
    /// # Panics
    /// When the output has been allocated already.
    pub fn allocate(&mut self, output: usize, sizes: &[usize]) -> Result<(), KernelError> {
        if self.access.output_tensor(output).is_some_and(|known| known.sizes() == sizes) {
            return Ok(());
        }
        let tensor =
            self.site.resources.pool.take(self.deferred_facts[output].element_type, sizes)?;
        let slot = &self.deferred[output];
        assert!(slot.set(tensor).is_ok(), "output {output} is allocated twice");
        self.access.set_output(output, slot.get().expect("just set"));
        Ok(())
    }

    /// Makes an existing tensor an output, which can no longer be written.
    ///
    /// # Panics
    /// When the output has been provided already.
    pub fn provide(&mut self, output: usize, tensor: Tensor) {
        assert!(self.deferred[output].set(tensor).is_ok(), "output {output} is provided twice");
    }

    /// Runs another kernel as part of this step. Returns the outputs that it allocated.
    pub(crate) fn run_nested(
        &self,
        kernel: &dyn Kernel,
        inputs: &[Tensor],
        made: &[Option<Tensor>],
        outputs: &[Fact],
    ) -> Result<Vec<Option<Tensor>>, KernelError> {
        let outputs_made = made.iter().map(Option::as_ref).collect();
        let access = Access::new(inputs.iter().collect(), outputs_made, None);
        let deferred: Vec<OnceCell<Tensor>> = outputs.iter().map(|_| OnceCell::new()).collect();
        let facts: Vec<&Fact> = outputs.iter().collect();
        kernel.run(&mut RunCx::new(access, (&deferred, &facts), self.site))?;
        Ok(deferred.into_iter().map(OnceCell::into_inner).collect())
    }

    /// The site of this kernel, for operations that are evaluated as part of this step.
    pub(crate) fn site(&self) -> RunSite<'r> {
        self.site
    }

    /// What the plans of the session have packed or computed once.
    pub(crate) fn store(&self) -> &'r Store {
        &self.site.resources.store
    }

    /// The threads of the session.
    pub fn threads(&self) -> &'r Threads {
        &self.site.resources.threads
    }

    /// The threads, and the arena for packed weights.
    pub(crate) fn to_arena(&self) -> Packer<'r> {
        Packer { threads: self.threads(), arena: &self.store().arena }
    }

    /// Scratch memory, reused from step to step. Its contents are arbitrary.
    pub fn scratch<T: Pod>(&self, len: usize) -> Scratch<'r, T> {
        self.site.resources.scratch.take(len)
    }

    /// The pool behind [`RunCx::scratch`], for kernels that take scratch themselves.
    pub fn scratch_pool(&self) -> &'r ScratchPool {
        &self.site.resources.scratch
    }

    /// The threads of the session, and the pool behind [`RunCx::scratch`].
    pub fn workers(&self) -> Workers<'r> {
        Workers { threads: self.threads(), scratch: self.scratch_pool() }
    }

    /// Runs body `index` of the layer: takes a tensor per Parameter, returns one per Result.
    ///
    /// # Errors
    /// When a layer of the body fails; the message names the layer.
    pub fn run_body(
        &self,
        index: usize,
        body: &Graph,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, KernelError> {
        self.site.host.run_body(index, body, inputs, self.site.resources)
    }

    /// Calls `f` on the state that the layer keeps from run to run, such as a random generator.
    pub fn state<S: Any + Send, R>(
        &self,
        initial: impl FnOnce() -> S,
        f: impl FnOnce(&mut S) -> R,
    ) -> R {
        let mut slot = self.site.state.0.borrow_mut();
        if !slot.as_ref().is_some_and(|s| s.is::<S>()) {
            *slot = Some(Box::new(initial()));
        }
        let state = slot.as_mut().and_then(|s| s.downcast_mut());
        f(state.expect("just made of this type"))
    }

    /// The value of a variable, if it has one.
    ///
    /// # Errors
    /// When it has to be copied and does not fit in memory.
    pub fn variable(&self, id: &str) -> Result<Option<Tensor>, KernelError> {
        self.site.resources.variables.borrow().read(id)
    }

    /// The variables of the session, for kernels that append to them.
    pub(crate) fn variables(&self) -> RefMut<'r, Variables> {
        self.site.resources.variables.borrow_mut()
    }

    /// Free buffers for tensors.
    pub(crate) fn pool(&self) -> &'r Pool {
        &self.site.resources.pool
    }

    /// Sets the value that a variable has after the run, if the run completes.
    ///
    /// # Errors
    /// When the variable is declared to be of another type or shape.
    pub fn assign(&self, id: &str, value: Tensor) -> Result<(), KernelError> {
        self.site.resources.variables.borrow_mut().assign(id, value)
    }
}
