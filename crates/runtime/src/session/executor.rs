//! Runs plans: the loop over steps, and the choice of kernels that had to wait for their inputs.

use crate::graph::net::{Node, ValueId};
use crate::kernel::lower::LowerCx;
use crate::kernel::{Kernel, KernelError, Reuse, RunCx, View};
use crate::memory::pool::Pool;
use crate::memory::prepack::Store;
use crate::memory::profile::Profile;
use crate::memory::variables::Variables;
use crate::plan::memory_planner::Place;
use crate::plan::{Options, Plan, Step, ViewOf, Work, compile_in, lower_text, problem};
use crate::session::plan_cache::{Choice, Served, Shapes};
use crate::tensor::{Access, Sizes, Tensor};
use infer::ops::variable::Variable;
use infer::{Fact, Inputs, PartialShape, PartialValue, infer_shapes};
use ir::{Code, ElementType, Graph, Problem, Problems};
use kernels::ScratchPool;
use kernels::par::Threads;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

/// Integer and floating-point tensors up to this many elements may decide shapes.
const SMALL: usize = 64;

/// What all plans of a session share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) threads: Arc<Threads>,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: Pool,
    pub(crate) scratch: ScratchPool,
    pub(crate) variables: RefCell<Variables>,
    pub(crate) profile: RefCell<Option<Profile>>,
    /// Floating-point operations of all kernels so far.
    pub(crate) flops: Cell<u64>,
}

impl Shared {
    pub(crate) fn new(options: Options, threads: Arc<Threads>, store: Arc<Store>) -> Shared {
        Shared {
            options,
            threads,
            store,
            pool: Pool::default(),
            scratch: ScratchPool::default(),
            variables: RefCell::default(),
            profile: RefCell::default(),
            flops: Cell::default(),
        }
    }
}

/// A graph with the plans made for it so far, and the memory they run in.
pub(crate) struct Engine {
    graph: Graph,
    options: Options,
    plans: Vec<Ready>,
    /// What each of them serves.
    served: Served,
    /// What lies between the steps of any of them, one at a time.
    arena: Option<Tensor>,
    /// Floating-point operations of the last run.
    work: u64,
    /// By layer.
    kept: Vec<Kept>,
}

/// A plan with its memory.
struct Ready {
    plan: Plan,
    values: Vec<Option<Tensor>>,
    /// For each step that has one, the kernel chosen last.
    memos: Vec<Option<Memo>>,
}

/// The kernel chosen last, and what it was chosen for.
struct Memo {
    inputs: Vec<(ElementType, Sizes)>,
    /// The bytes of the inputs whose values decided.
    values: Vec<(usize, Vec<u8>)>,
    outputs: Vec<Fact>,
    kernel: Box<dyn Kernel>,
}

impl Engine {
    pub(crate) fn new(plan: Plan) -> Engine {
        let mut engine = Engine::of_graph(plan.graph.clone(), plan.options.clone());
        // A plan for unknown inputs is kept only until the first run tells the shapes.
        if let Some(shapes) = Shapes::of_plan(&plan) {
            engine.add(0, Some(shapes), plan);
        }
        engine
    }

    /// An engine that makes its first plan when it runs.
    pub(crate) fn of_graph(graph: Graph, options: Options) -> Engine {
        let (plans, served) = (Vec::new(), Served::default());
        let kept = graph.layers().iter().map(|_| Kept::default()).collect();
        Engine { graph, options, plans, served, arena: None, work: 0, kept }
    }

    /// Adds a plan, and makes the arena as large as it needs.
    fn add(&mut self, at: usize, shapes: Option<Shapes>, plan: Plan) {
        self.served.insert(at, shapes);
        let enough = self.arena.as_ref().is_some_and(|own| own.capacity() >= plan.arena);
        let larger = if enough { None } else { Tensor::arena(plan.arena) };
        if let Some(larger) = larger {
            self.plans.iter_mut().for_each(|ready| ready.lie_in(&larger));
            self.arena = Some(larger);
        }
        let mut ready = Ready::new(plan);
        self.arena.iter().for_each(|arena| ready.lie_in(arena));
        self.plans.insert(at, ready);
    }

    /// Forgets what layers keep from run to run.
    pub(crate) fn reset(&mut self) {
        self.kept.fill_with(Kept::default);
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs the graph once. Variables are read, and what is assigned is noted in `shared`.
    pub(crate) fn run(
        &mut self,
        inputs: &[Tensor],
        shared: &Shared,
    ) -> Result<Vec<Tensor>, Problems> {
        let index = self.plan_for(inputs, shared)?;
        let Engine { graph, plans, kept, work, .. } = self;
        let before = shared.flops.get();
        let run = plans[index].run(inputs, shared, kept);
        *work = shared.flops.get() - before;
        run.map_err(|p| Problems::new(Arc::clone(graph.source()), vec![*p]))
    }

    /// A plan that serves a run, made if there is none.
    fn plan_for(&mut self, inputs: &[Tensor], shared: &Shared) -> Result<usize, Problems> {
        let variables = shared.variables.borrow();
        let (at, shapes) = match self.served.choose(inputs, &variables, self.work) {
            Choice::Made(index) => return Ok(index),
            Choice::New(at, shapes) => (at, shapes),
        };
        let given = shapes.as_ref().map_or_else(Inputs::default, Shapes::inputs);
        let facts = infer::propagate(&self.graph, &given)?;
        let plan = compile_in(&self.graph, &facts, &self.options, &shared.store)?;
        drop(variables);
        self.add(at, shapes, plan);
        Ok(at)
    }
}

impl Ready {
    fn new(plan: Plan) -> Ready {
        let constant = |(v, place): (ValueId, &Place)| match place {
            Place::Constant => plan.constants[v].clone(),
            _ => None,
        };
        let values = plan.places.iter().enumerate().map(constant).collect();
        let memos = plan.steps.iter().map(|_| None).collect();
        let mut ready = Ready { plan, values, memos };
        ready.views(|place| *place == Place::Constant);
        ready
    }

    /// Puts the values that lie between steps into an arena. Those that it has no room for are left
    /// out, which a run reports.
    fn lie_in(&mut self, arena: &Tensor) {
        for (v, place) in self.plan.places.iter().enumerate() {
            let Place::Arena { offset, .. } = place else { continue };
            let fact = &self.plan.facts[v];
            let part = |sizes: Sizes| arena.part(*offset, fact.element_type, &sizes).ok();
            self.values[v] = fact.shape.sizes().and_then(part);
        }
        self.views(|place| matches!(place, Place::Arena { .. }));
    }

    /// Derives the views of values that lie at certain places.
    fn views(&mut self, of_these: impl Fn(&Place) -> bool) {
        for (value, place) in self.plan.places.iter().enumerate() {
            if let Place::View { of, offset } = *place
                && of_these(&self.plan.places[of])
            {
                self.values[value] = derive(&self.plan, &self.values, ViewOf { value, of, offset });
            }
        }
    }

    fn run(
        &mut self,
        inputs: &[Tensor],
        shared: &Shared,
        kept: &[Kept],
    ) -> Result<Vec<Tensor>, Box<Problem>> {
        let outputs = self.begin(inputs, shared).and_then(|()| self.steps(shared, kept));
        self.end();
        outputs
    }

    /// Runs one step after the other, and gives the outputs.
    fn steps(&mut self, shared: &Shared, kept: &[Kept]) -> Result<Vec<Tensor>, Box<Problem>> {
        for index in 0..self.plan.steps.len() {
            let before = shared.profile.borrow().as_ref().map(|p| (p.total(), Instant::now()));
            self.step(index, shared, kept)?;
            if let Some((before, start)) = before {
                let (time, step) = (start.elapsed(), (&self.plan, index, self.kernel_name(index)));
                let mut profile = shared.profile.borrow_mut();
                profile.iter_mut().for_each(|profile| profile.record(step, time, before));
            }
        }
        let output = |v: &ValueId| self.values[*v].clone();
        Ok(self.plan.outputs.iter().filter_map(output).collect())
    }

    /// The kernel of a step, if one has been chosen.
    fn kernel_name(&self, step: usize) -> &'static str {
        match (&self.plan.steps[step].work, &self.memos[step]) {
            (Work::Kernel(kernel), _) => kernel.name(),
            (Work::Late(..), Some(memo)) => memo.kernel.name(),
            (Work::Late(..), None) => "none",
        }
    }

    /// Puts inputs in their places and takes memory for outputs.
    fn begin(&mut self, inputs: &[Tensor], shared: &Shared) -> Result<(), Box<Problem>> {
        for (v, tensor) in self.plan.inputs.iter().zip(inputs) {
            self.values[*v] = Some(tensor.aligned());
        }
        for (v, place) in self.plan.places.iter().enumerate() {
            if matches!(place, Place::Arena { .. }) && self.values[v].is_none() {
                let bytes = self.plan.arena;
                let message = format!("there is no memory for {bytes} bytes between the layers");
                return Err(Box::new(Problem::error(Code::Execution, ir::At(0), message)));
            }
            if *place != Place::External {
                continue;
            }
            // The output of the run before, if the caller has let go of it.
            if self.values[v].as_ref().is_some_and(Tensor::is_unique) {
                continue;
            }
            let fact = &self.plan.facts[v];
            let sizes = fact.shape.sizes().unwrap_or_default();
            let tensor = shared.pool.take(fact.element_type, &sizes);
            let failed = |e: KernelError| {
                let message = format!("an output: {}", e.message);
                Box::new(Problem::error(Code::Execution, ir::At(0), message))
            };
            self.values[v] = Some(tensor.map_err(failed)?);
        }
        for view in &self.plan.views {
            self.values[view.value] = derive(&self.plan, &self.values, *view);
        }
        Ok(())
    }

    /// Lets go of what belongs to the caller.
    fn end(&mut self) {
        for (v, place) in self.plan.places.iter().enumerate() {
            if matches!(place, Place::Input(_) | Place::Pool) {
                self.values[v] = None;
            }
        }
        for view in &self.plan.views {
            self.values[view.value] = None;
        }
        for view in self.plan.steps.iter().flat_map(|s| &s.views) {
            self.values[view.value] = None;
        }
    }

    fn step(&mut self, index: usize, shared: &Shared, kept: &[Kept]) -> Result<(), Box<Problem>> {
        let step = &self.plan.steps[index];
        let cx = StepCx { step, values: &self.values, kept: &kept[step.layer], shared };
        let outcome = match &step.work {
            Work::Kernel(kernel) => {
                let facts: SmallVec<[&Fact; 2]> =
                    step.outputs.iter().map(|&v| &self.plan.facts[v]).collect();
                cx.inputs().and_then(|inputs| cx.run_kernel(&**kernel, &inputs, &facts))
            }
            Work::Late(node, invariant) => {
                let made =
                    cx.run_late(&self.plan.graph, (node, *invariant), &mut self.memos[index]);
                made.and_then(|made| as_planned(&self.plan, step, made))
            }
        };
        let made = outcome.map_err(|e| Box::new(self.failure(index, e)))?;
        let step = &self.plan.steps[index];
        for (output, tensor) in step.outputs.iter().zip(made) {
            if let Some(tensor) = tensor {
                self.values[*output] = Some(tensor);
            }
        }
        for view in &step.views {
            self.values[view.value] = derive(&self.plan, &self.values, *view);
        }
        for &value in &step.frees {
            if let Some(tensor) = self.values[value].take() {
                shared.pool.give(tensor);
            }
        }
        for &value in &step.spent {
            self.plan.constants[value].iter().for_each(Tensor::give_back);
        }
        Ok(())
    }

    fn failure(&self, index: usize, error: KernelError) -> Problem {
        let step = &self.plan.steps[index];
        let facts: Vec<Fact> = step
            .inputs
            .iter()
            .map(|&v| self.values[v].as_ref().map_or_else(|| self.plan.facts[v].clone(), fact_of))
            .collect();
        let Work::Late(node, _) = &step.work else {
            let layer = self.plan.graph.layers().get(step.layer);
            let at = layer.map(|l| l.at).unwrap_or_default();
            let problem = Problem::error(Code::Execution, at, error.message);
            let problem = layer.map_or(problem.clone(), |l| problem.of(l));
            let facts: Vec<String> = facts.iter().map(Fact::to_string).collect();
            return Problem {
                port: error.input.map(|i| format!("input {i}")),
                context: Some(format!("inputs: {}", facts.join("  "))),
                ..problem
            };
        };
        problem(&self.plan.graph, node, &facts, Code::Execution, (error.input, error.message))
    }
}

fn derive(plan: &Plan, values: &[Option<Tensor>], view: ViewOf) -> Option<Tensor> {
    let fact = &plan.facts[view.value];
    let sizes = fact.shape.sizes()?;
    values[view.of].as_ref()?.part(view.offset, fact.element_type, &sizes).ok()
}

/// For each output the tensor, if it did not exist before; nothing at all if every one did.
type Made = Vec<Option<Tensor>>;

/// The inputs of a step.
type Operands<'a> = SmallVec<[&'a Tensor; 4]>;

/// A step with what it works on.
struct StepCx<'a> {
    step: &'a Step,
    values: &'a [Option<Tensor>],
    kept: &'a Kept,
    shared: &'a Shared,
}

impl StepCx<'_> {
    fn inputs(&self) -> Result<Operands<'_>, KernelError> {
        let mut inputs = SmallVec::new();
        for &value in &self.step.inputs {
            let missing = || KernelError::new("an input has not been computed");
            inputs.push(self.values[value].as_ref().ok_or_else(missing)?);
        }
        Ok(inputs)
    }

    /// Runs a kernel; returns the outputs that did not exist before.
    fn run_kernel(
        &self,
        kernel: &dyn Kernel,
        inputs: &[&Tensor],
        facts: &[&Fact],
    ) -> Result<Made, KernelError> {
        let step = self.step;
        let mut made = self.allocated(kernel, facts)?;
        let late: Vec<OnceCell<Tensor>> = made.iter().map(|_| OnceCell::new()).collect();
        let output = |(i, v): (usize, &usize)| {
            made.get(i).and_then(Option::as_ref).or(self.values[*v].as_ref())
        };
        let outputs = step.outputs.iter().enumerate().map(output).collect();
        let access = Access::new(inputs.iter().copied().collect(), outputs, step.in_place);
        kernel.run(&mut RunCx::new(access, (&late, facts), self.shared, self.kept))?;
        self.shared.flops.update(|sum| sum.saturating_add(kernel.flops()));
        for (slot, cell) in made.iter_mut().zip(late) {
            if let Some(tensor) = cell.into_inner() {
                *slot = Some(tensor);
            }
        }
        Ok(made)
    }

    /// Memory for the outputs that have none, unless the kernel provides them.
    fn allocated(&self, kernel: &dyn Kernel, facts: &[&Fact]) -> Result<Made, KernelError> {
        let provides = kernel.reuse() == Reuse::Provides;
        if !provides && self.step.outputs.iter().all(|v| self.values[*v].is_some()) {
            return Ok(Made::new());
        }
        let outputs = self.step.outputs.iter().zip(facts);
        let allocated = outputs.map(|(&v, fact)| match fact.shape.sizes() {
            Some(sizes) if !provides && self.values[v].is_none() => {
                self.shared.pool.take(fact.element_type, &sizes).map(Some)
            }
            _ => Ok(None),
        });
        allocated.collect()
    }

    /// Chooses the kernel for the inputs that are there, unless it is the one of the last run,
    /// and runs it.
    fn run_late(
        &self,
        graph: &Graph,
        (node, invariant): (&Node, u64),
        memo: &mut Option<Memo>,
    ) -> Result<Made, KernelError> {
        let inputs = self.inputs()?;
        if !memo.as_ref().is_some_and(|memo| memo.serves(&inputs)) {
            *memo = Some(choose(graph, (node, invariant), &inputs, self.shared)?);
        }
        let Some(memo) = memo else { return Ok(Made::new()) };
        if let Reuse::Views(views) = memo.kernel.reuse() {
            let part = |(view, fact): (&View, &Fact)| {
                let sizes = fact.shape.sizes().unwrap_or_default();
                let part = inputs[view.input].part(view.offset, fact.element_type, &sizes);
                part.map(|part| Some(part.aligned())).map_err(|e| KernelError::new(e.to_string()))
            };
            return views.iter().zip(&memo.outputs).map(part).collect();
        }
        let copies = self.aligned(&*memo.kernel, &inputs, invariant);
        let mut inputs: Operands<'_> = inputs.iter().copied().collect();
        copies.iter().for_each(|(input, copy)| inputs[*input] = copy);
        let facts: SmallVec<[&Fact; 2]> = memo.outputs.iter().collect();
        self.run_kernel(&*memo.kernel, &inputs, &facts)
    }

    /// Copies of the inputs that do not lie as a kernel needs them, once for each that is the same in
    /// every run: constants of a file may lie anywhere.
    fn aligned(
        &self,
        kernel: &dyn Kernel,
        inputs: &[&Tensor],
        invariant: u64,
    ) -> SmallVec<[(usize, Tensor); 1]> {
        let bit = |bits: u64, i: usize| bits >> i.min(63) & 1 == 1;
        let stray =
            |(i, tensor): &(usize, &&Tensor)| !tensor.is_aligned() && !bit(kernel.loose(), *i);
        let copy = |(i, tensor): (usize, &&Tensor)| {
            if !bit(invariant, i) {
                return (i, Tensor::to_owned(tensor));
            }
            let slot = self.shared.store.slot::<Tensor>(&[tensor], "aligned".to_owned());
            let made = slot.made_or(|| Ok::<_, Infallible>(Tensor::to_owned(tensor)));
            (i, made.map_or_else(|never| match never {}, Tensor::clone))
        };
        inputs.iter().enumerate().filter(stray).map(copy).collect()
    }
}

/// What a step has made, if it is of the shapes that later steps have been planned for: a rule may take
/// what is unknown for what it mostly is.
fn as_planned(plan: &Plan, step: &Step, made: Made) -> Result<Made, KernelError> {
    for (output, tensor) in step.outputs.iter().zip(&made) {
        let (planned, Some(tensor)) = (&plan.facts[*output].shape, tensor) else { continue };
        let shape = PartialShape::fixed(tensor.sizes());
        if !planned.covers(&shape) {
            let message = format!("output {shape} does not fit what was planned, {planned}");
            return Err(KernelError::new(message));
        }
    }
    Ok(made)
}

pub(crate) fn fact_of(tensor: &Tensor) -> Fact {
    let fact = Fact::new(tensor.element_type(), PartialShape::fixed(tensor.sizes()));
    if tensor.count() > SMALL {
        return fact;
    }
    match PartialValue::from_bytes(tensor.element_type(), tensor.sizes(), tensor.bytes()) {
        Some(value) => fact.with_value(value),
        None => fact,
    }
}

/// Computes a node whose inputs are there, outside of any plan.
pub(crate) fn evaluate(
    graph: &Graph,
    node: &Node,
    inputs: &[Tensor],
    shared: &Shared,
) -> Result<Vec<Tensor>, KernelError> {
    let outputs = inputs.len()..inputs.len() + node.outputs.len();
    let step = Step {
        work: Work::Late(node.clone(), 0),
        inputs: (0..inputs.len()).collect(),
        outputs: outputs.clone().collect(),
        in_place: None,
        views: SmallVec::new(),
        frees: SmallVec::new(),
        spent: SmallVec::new(),
        layer: node.layer,
    };
    let values: Vec<Option<Tensor>> =
        inputs.iter().cloned().map(Some).chain(outputs.map(|_| None)).collect();
    let cx = StepCx { step: &step, values: &values, kept: &Kept::default(), shared };
    let made = cx.run_late(graph, (node, 0), &mut None)?;
    let missing = || KernelError::new("an output has not been computed");
    made.into_iter().map(|tensor| tensor.ok_or_else(missing)).collect()
}

/// Infers the outputs for inputs that are there, and chooses the kernel.
fn choose(
    graph: &Graph,
    (node, invariant): (&Node, u64),
    inputs: &[&Tensor],
    shared: &Shared,
) -> Result<Memo, KernelError> {
    let facts: Vec<Fact> = inputs.iter().map(|t| fact_of(t)).collect();
    let bodies = graph.layers().get(node.layer).map_or(&[][..], |l| &l.bodies);
    let op = node.op().ok_or_else(|| KernelError::new("its kernel has to be chosen before"))?;
    // Nothing else looks at variables, and copying their names takes longer than the rest.
    let variables = match node.is::<Variable>().is_some() || !bodies.is_empty() {
        true => shared.variables.borrow().facts(),
        false => HashMap::new(),
    };
    let (outputs, looked_at) = infer_shapes(op, &facts, node.outputs.len(), bodies, variables)
        .map_err(|e| KernelError { input: e.input, message: e.message })?;
    let constants = vec![None; inputs.len()];
    let known: Vec<Option<Tensor>> = inputs.iter().map(|t| Some((*t).clone())).collect();
    let cx = LowerCx::new((&facts, &outputs), &constants, &known, bodies)
        .with_invariant(invariant)
        .with_precision(shared.options.precision);
    let kernel = node.lower(&cx).map_err(|e| {
        let (input, message) = lower_text(e);
        KernelError { input, message }
    })?;
    let looked_at = looked_at | cx.consulted();
    let decided = inputs.iter().enumerate().filter(|(i, _)| looked_at >> (i & 63) & 1 == 1);
    Ok(Memo {
        inputs: inputs.iter().map(|t| (t.element_type(), t.sizes().into())).collect(),
        values: decided.map(|(i, t)| (i, t.bytes().to_vec())).collect(),
        outputs,
        kernel,
    })
}

impl Memo {
    fn serves(&self, inputs: &[&Tensor]) -> bool {
        let same = |(k, t): (&(ElementType, Sizes), &&Tensor)| {
            k.0 == t.element_type() && k.1[..] == *t.sizes()
        };
        self.inputs.iter().zip(inputs).all(same)
            && self.values.iter().all(|(i, bytes)| inputs[*i].bytes() == &bytes[..])
    }
}

/// What a layer keeps from run to run, whatever plan is used.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) state: RefCell<Option<Box<dyn Any + Send>>>,
    bodies: RefCell<Vec<(usize, Engine)>>,
}

impl Kept {
    /// Runs a body of the layer.
    pub(crate) fn run_body(
        &self,
        index: usize,
        graph: &Graph,
        inputs: &[Tensor],
        shared: &Shared,
    ) -> Result<Vec<Tensor>, KernelError> {
        let mut bodies = self.bodies.borrow_mut();
        let position = bodies.iter().position(|(i, _)| *i == index).unwrap_or_else(|| {
            // A loop runs its body again and again.
            let options = Options { runs_once: false, ..shared.options.clone() };
            bodies.push((index, Engine::of_graph(graph.clone(), options)));
            bodies.len() - 1
        });
        bodies[position]
            .1
            .run(inputs, shared)
            .map_err(|problems| KernelError::new(format!("in the body: {problems}")))
    }
}
