//! Runs plans: the loop over steps, and the choice of deferred kernels.

use crate::error::{KernelError, run_error};
use crate::graph::net::ValueId;
use crate::kernel::evaluate::{CachedKernel, Made, Operands, Outputs, run_kernel};
use crate::kernel::{Host, KernelState, RunSite};
use crate::memory::resources::Resources;
use crate::options::Options;
use crate::plan::memory_planner::Storage;
use crate::plan::{Plan, Step, ViewOf, Work, compile_in, diagnostic};
use crate::session::plan_cache::{Lookup, PlanCache, Shapes, is_heavy};
use crate::tensor::convert::with_reals_in;
use crate::tensor::fact::fact_of;
use crate::tensor::memory_limit::reason;
use crate::tensor::{Sizes, Tensor};
use infer::{Fact, Inputs, PartialShape};
use ir::{Code, Diagnostic, Diagnostics, Graph};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

/// A graph with the plans made for it so far, and their memory.
pub(crate) struct Executor {
    graph: Graph,
    options: Options,
    plans: Vec<LoadedPlan>,
    /// The shapes that each plan serves.
    served: PlanCache,
    /// The values between steps. All plans share it, since only one runs at a time.
    arena: Option<Tensor>,
    /// Floating-point operations of the last run.
    work: u64,
    /// By layer.
    states: Vec<LayerState>,
}

/// A plan with its memory.
struct LoadedPlan {
    plan: Plan,
    values: Vec<Option<Tensor>>,
    /// For each deferred step the kernel chosen last.
    cached: Vec<Option<CachedKernel>>,
}

impl Executor {
    pub(crate) fn new(plan: Plan) -> Executor {
        let mut executor = Executor::of_graph(plan.graph.clone(), plan.options.clone());
        // A plan for unknown inputs only holds the graph until the first run gives the shapes.
        if let Some(shapes) = Shapes::of_plan(&plan) {
            executor.add(0, Some(shapes), plan);
        }
        executor
    }

    /// An executor that makes its first plan in its first run.
    pub(crate) fn of_graph(graph: Graph, options: Options) -> Executor {
        let (plans, served) = (Vec::new(), PlanCache::default());
        let states = graph.layers().iter().map(|_| LayerState::default()).collect();
        Executor { graph, options, plans, served, arena: None, work: 0, states }
    }

    /// Adds a plan, and grows the arena if the plan needs a larger one.
    fn add(&mut self, at: usize, shapes: Option<Shapes>, plan: Plan) {
        self.served.insert(at, shapes);
        let enough = self.arena.as_ref().is_some_and(|own| own.capacity() >= plan.arena);
        let larger = if enough { None } else { Tensor::arena(plan.arena) };
        if let Some(larger) = larger {
            self.plans.iter_mut().for_each(|ready| ready.place_in(&larger));
            self.arena = Some(larger);
        }
        let mut ready = LoadedPlan::new(plan);
        self.arena.iter().for_each(|arena| ready.place_in(arena));
        self.plans.insert(at, ready);
    }

    /// Drops the state of all layers, and of those in bodies. The plans of bodies stay.
    pub(crate) fn reset(&mut self) {
        for state in &mut self.states {
            state.kernel = KernelState::default();
            state.bodies.get_mut().iter_mut().for_each(|(_, body)| body.reset());
        }
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs the graph once. Reads variables, and notes assignments in `resources`.
    pub(crate) fn run(
        &mut self,
        inputs: &[Tensor],
        resources: &Resources,
    ) -> Result<Vec<Tensor>, Diagnostics> {
        self.may_go_on(resources)?;
        let index = self.plan_for(inputs, resources)?;
        let Executor { graph, plans, states, work, .. } = self;
        let before = resources.flops.get();
        let run = plans[index].run(inputs, resources, states);
        *work = resources.flops.get() - before;
        run.map_err(|p| Diagnostics::new(Arc::clone(graph.source()), vec![*p]))
    }

    /// Checks the limits before a run. A body without layers is checked only here.
    fn may_go_on(&self, resources: &Resources) -> Result<(), Diagnostics> {
        resources.limits.check().map_err(|e| {
            let problem = run_error(e.message);
            Diagnostics::new(Arc::clone(self.graph.source()), vec![problem])
        })
    }

    /// The plan for a run, compiled if there is none.
    fn plan_for(&mut self, inputs: &[Tensor], resources: &Resources) -> Result<usize, Diagnostics> {
        let variables = resources.variables.borrow();
        let is_heavy = is_heavy(self.work, self.graph.layers().len());
        let (at, shapes) = match self.served.choose(inputs, &variables, is_heavy) {
            Lookup::Found(index) => return Ok(index),
            Lookup::New(at, shapes) => (at, shapes),
        };
        let given = shapes.as_ref().map_or_else(Inputs::default, Shapes::inputs);
        let given = Inputs { extensions: resources.extensions.clone(), ..given };
        let facts = infer::propagate(&self.graph, &given)?;
        let plan = compile_in(&self.graph, &facts, &self.options, &resources.store)?;
        drop(variables);
        self.add(at, shapes, plan);
        Ok(at)
    }
}

impl LoadedPlan {
    fn new(plan: Plan) -> LoadedPlan {
        let constant = |(v, place): (ValueId, &Storage)| match place {
            Storage::Constant => plan.constants[v].clone(),
            _ => None,
        };
        let values = plan.storage.iter().enumerate().map(constant).collect();
        let cached = plan.steps.iter().map(|_| None).collect();
        let mut ready = LoadedPlan { plan, values, cached };
        ready.views(|place| *place == Storage::Constant);
        ready
    }

    /// Places the values between steps in an arena. Values that do not fit are left out, which
    /// `begin` reports.
    fn place_in(&mut self, arena: &Tensor) {
        for (v, place) in self.plan.storage.iter().enumerate() {
            let Storage::Arena { offset, .. } = place else { continue };
            let fact = &self.plan.facts[v];
            let part = |sizes: Sizes| arena.part(*offset, fact.element_type, &sizes).ok();
            self.values[v] = fact.shape.sizes().and_then(part);
        }
        self.views(|place| matches!(place, Storage::Arena { .. }));
    }

    /// Derives the views of values with this storage.
    fn views(&mut self, of_these: impl Fn(&Storage) -> bool) {
        for (value, place) in self.plan.storage.iter().enumerate() {
            if let Storage::View { of, offset } = *place
                && of_these(&self.plan.storage[of])
            {
                self.values[value] = derive(&self.plan, &self.values, ViewOf { value, of, offset });
            }
        }
    }

    fn run(
        &mut self,
        inputs: &[Tensor],
        resources: &Resources,
        states: &[LayerState],
    ) -> Result<Vec<Tensor>, Box<Diagnostic>> {
        let begun = self.begin(inputs, resources).and_then(|()| self.show_given(resources));
        let outputs = begun.and_then(|()| self.steps(resources, states));
        self.end();
        outputs
    }

    /// Runs the steps in order and returns the outputs.
    fn steps(
        &mut self,
        resources: &Resources,
        states: &[LayerState],
    ) -> Result<Vec<Tensor>, Box<Diagnostic>> {
        let _running = resources.limits.begin_graph();
        let count = self.plan.steps.len();
        for index in 0..count {
            let before = resources.profile.borrow().as_ref().map(|p| (p.total(), Instant::now()));
            let layer = self.plan.graph.layers().get(self.plan.steps[index].layer);
            let entered = resources.limits.enter(layer, (index, count));
            entered.map_err(|e| Box::new(self.failure(index, e)))?;
            self.step(index, resources, states)?;
            if let Some((before, start)) = before {
                let time = start.elapsed();
                let layer = (self.plan.graph.layers(), self.plan.steps[index].layer);
                let done = (self.plan.labels()[index].as_str(), self.kernel_name(index));
                let mut profile = resources.profile.borrow_mut();
                if let Some(profile) = profile.as_mut() {
                    profile.record(layer, done, (start, time), before);
                }
            }
        }
        let output = |v: &ValueId| self.values[*v].clone();
        Ok(self.plan.outputs.iter().filter_map(output).collect())
    }

    /// The name of the kernel of a step, or "none" if it has not been chosen.
    fn kernel_name(&self, step: usize) -> &'static str {
        match (&self.plan.steps[step].work, &self.cached[step]) {
            (Work::Kernel(kernel), _) => kernel.name(),
            (Work::Deferred(_), Some(cached)) => cached.name(),
            (Work::Deferred(_), None) => "none",
        }
    }

    /// Binds the inputs and allocates the outputs.
    fn begin(&mut self, inputs: &[Tensor], resources: &Resources) -> Result<(), Box<Diagnostic>> {
        for (v, tensor) in self.plan.inputs.iter().zip(inputs) {
            // The graph around a body may pass another real type.
            let tensor = with_reals_in(tensor, self.plan.facts[*v].element_type);
            let tensor = tensor.and_then(|tensor| tensor.aligned());
            self.values[*v] = Some(tensor.map_err(|e| Box::new(run_error(e.to_string())))?);
        }
        for (v, place) in self.plan.storage.iter().enumerate() {
            if matches!(place, Storage::Arena { .. }) && self.values[v].is_none() {
                let bytes = self.plan.arena;
                let reason = reason(bytes);
                let message =
                    format!("there is no memory for {bytes} bytes between the layers{reason}");
                return Err(Box::new(run_error(message)));
            }
            if *place != Storage::External {
                continue;
            }
            // Reuses the output of the previous run if the caller has dropped it.
            if self.values[v].as_ref().is_some_and(Tensor::is_unique) {
                continue;
            }
            let fact = &self.plan.facts[v];
            let sizes = fact.shape.sizes().unwrap_or_default();
            let tensor = resources.pool.take(fact.element_type, &sizes);
            self.values[v] = Some(tensor.map_err(|error| self.no_memory(v, error))?);
        }
        for view in &self.plan.views {
            self.values[view.value] = derive(&self.plan, &self.values, *view);
        }
        Ok(())
    }

    /// Shows the inputs, the constants and their views to an observer.
    fn show_given(&self, resources: &Resources) -> Result<(), Box<Diagnostic>> {
        let is_given = |place: &Storage| matches!(place, Storage::Input(_) | Storage::Constant);
        let all = self.plan.storage.iter().enumerate();
        let given: Vec<ValueId> =
            all.filter(|(_, place)| is_given(place)).map(|(v, _)| v).collect();
        self.show(&given, resources)
    }

    /// Shows values and their views to an observer, if there is one.
    fn show(&self, values: &[ValueId], resources: &Resources) -> Result<(), Box<Diagnostic>> {
        if !resources.observation.is_observed() {
            return Ok(());
        }
        let graph = &self.plan.graph;
        for value in values.iter().flat_map(|&v| self.plan.with_views(v)) {
            let (Some(source), Some(tensor)) = (self.plan.sources[value], &self.values[value])
            else {
                continue;
            };
            resources.observation.show((graph, source.at), source.element_type, tensor).map_err(
                |message| {
                    let (at, text) = ((None, source.at.layer), (None, message));
                    Box::new(diagnostic(graph, at, &[], Code::Execution, text))
                },
            )?;
        }
        Ok(())
    }

    /// Drops the inputs, which belong to the caller, and pool values.
    fn end(&mut self) {
        for (v, place) in self.plan.storage.iter().enumerate() {
            if matches!(place, Storage::Input(_) | Storage::Pool) {
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

    fn step(
        &mut self,
        index: usize,
        resources: &Resources,
        states: &[LayerState],
    ) -> Result<(), Box<Diagnostic>> {
        let step = &self.plan.steps[index];
        let state = &states[step.layer];
        let site = RunSite { resources, state: &state.kernel, host: state };
        let cx = StepCx { step, values: &self.values };
        let layer = self.plan.graph.layers().get(step.layer);
        layer.iter().for_each(|layer| resources.observation.enter(layer));
        let outcome = match &step.work {
            Work::Kernel(kernel) => {
                let facts: SmallVec<[&Fact; 2]> =
                    step.outputs.iter().map(|&v| &self.plan.facts[v]).collect();
                cx.inputs()
                    .and_then(|inputs| run_kernel(&**kernel, &inputs, &cx.outputs(), &facts, site))
            }
            Work::Deferred(operation) => {
                let (graph, cached) = (&self.plan.graph, &mut self.cached[index]);
                cx.inputs()
                    .and_then(|inputs| operation.run(graph, &inputs, &cx.outputs(), cached, site))
            }
        };
        layer.iter().for_each(|layer| resources.observation.leave(layer));
        let made = outcome.and_then(|made| as_planned(&self.plan, step, made));
        let made = made.map_err(|e| Box::new(self.failure(index, e)))?;
        let step = &self.plan.steps[index];
        for (output, tensor) in step.outputs.iter().zip(made) {
            if let Some(tensor) = tensor {
                self.values[*output] = Some(tensor);
            }
        }
        for view in &step.views {
            self.values[view.value] = derive(&self.plan, &self.values, *view);
        }
        self.show(&step.outputs, resources)?;
        for &value in &step.last_use {
            if let Some(tensor) = self.values[value].take() {
                resources.pool.give(tensor);
            }
        }
        for &value in &step.last_constant_use {
            self.plan.constants[value].iter().for_each(Tensor::give_back);
        }
        Ok(())
    }

    /// The diagnostic for an output that does not fit in memory, with its layer.
    fn no_memory(&self, output: ValueId, error: KernelError) -> Box<Diagnostic> {
        let layer = self.plan.steps.iter().position(|step| step.outputs.contains(&output));
        Box::new(match layer {
            Some(step) => self.failure(step, error),
            None => {
                let message = format!("an output: {}", error.message);
                run_error(message)
            }
        })
    }

    fn failure(&self, index: usize, error: KernelError) -> Diagnostic {
        let step = &self.plan.steps[index];
        let facts: Vec<Fact> = step
            .inputs
            .iter()
            .map(|&v| self.values[v].as_ref().map_or_else(|| self.plan.facts[v].clone(), fact_of))
            .collect();
        let op = match &step.work {
            Work::Deferred(operation) => Some(&*operation.op),
            Work::Kernel(_) => None,
        };
        let text = (error.input, error.message);
        diagnostic(&self.plan.graph, (op, step.layer), &facts, Code::Execution, text)
    }
}

fn derive(plan: &Plan, values: &[Option<Tensor>], view: ViewOf) -> Option<Tensor> {
    let fact = &plan.facts[view.value];
    let sizes = fact.shape.sizes()?;
    values[view.of].as_ref()?.part(view.offset, fact.element_type, &sizes).ok()
}

/// A step and the values it works on.
struct StepCx<'a> {
    step: &'a Step,
    values: &'a [Option<Tensor>],
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

    fn outputs(&self) -> Outputs<'_> {
        let existing = self.step.outputs.iter().map(|v| self.values[*v].as_ref()).collect();
        Outputs { existing, in_place: self.step.in_place }
    }
}

/// The outputs of a step, checked against the planned shapes. They can differ: a rule may have
/// assumed the usual rank of an unknown value.
///
/// A scalar becomes a list of one element if a list is planned: one branch of If may give a scalar
/// and the other a list.
fn as_planned(plan: &Plan, step: &Step, mut made: Made) -> Result<Made, KernelError> {
    for (output, tensor) in step.outputs.iter().zip(&mut made) {
        let (planned, Some(tensor)) = (&plan.facts[*output].shape, tensor) else { continue };
        if planned.rank() == Some(1) && tensor.sizes().is_empty() {
            *tensor = tensor.as_list()?;
        }
        let shape = PartialShape::fixed(tensor.sizes());
        if !planned.covers(&shape) {
            let message = format!("output {shape} does not fit what was planned, {planned}");
            return Err(KernelError::new(message));
        }
    }
    Ok(made)
}

/// What a layer keeps from run to run, shared by all plans.
#[derive(Default)]
struct LayerState {
    kernel: KernelState,
    bodies: RefCell<Vec<(usize, Executor)>>,
}

impl Host for LayerState {
    fn run_body(
        &self,
        index: usize,
        graph: &Graph,
        inputs: &[Tensor],
        resources: &Resources,
    ) -> Result<Vec<Tensor>, KernelError> {
        let mut bodies = self.bodies.borrow_mut();
        let position = bodies.iter().position(|(i, _)| *i == index).unwrap_or_else(|| {
            // A loop runs its body many times.
            let options = Options { runs_once: false, ..resources.options.clone() };
            bodies.push((index, Executor::of_graph(graph.clone(), options)));
            bodies.len() - 1
        });
        resources.observation.enter_body(index);
        let outputs = bodies[position].1.run(inputs, resources);
        resources.observation.leave_body();
        outputs.map_err(|diagnostics| KernelError::new(format!("in the body: {diagnostics}")))
    }
}
