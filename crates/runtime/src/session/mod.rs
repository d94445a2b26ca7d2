//! A session: a plan with everything that changes, such as memory, variables and threads.

pub(crate) mod executor;
pub(crate) mod plan_cache;

use crate::error::run_error;
use crate::memory::observe::{Observer, Origin};
use crate::memory::profile::{Profile, StepSpan, StepTime};
use crate::memory::resources::Resources;
use crate::options::Options;
use crate::plan::Plan;
use crate::session::executor::Executor;
use crate::tensor::{Tensor, TensorError};
use infer::ops::parameter::Parameter;
use infer::{Fact, PartialShape, find, input_type};
use ir::{Diagnostics, ElementType, Graph};
use kernels::par::Threads;
use std::any::Any;
use std::cell::OnceCell;
use std::sync::Arc;

/// Runs a graph any number of times. The input shapes may change between runs; a plan is then
/// compiled for the new shapes, and kept. Variables keep their values between runs.
pub struct Session {
    executor: Executor,
    resources: Resources,
    /// The graph without optimisation, created by the first observed run.
    written: Option<(Executor, Resources)>,
    /// Type and shape of each input.
    declared: Vec<(ElementType, PartialShape)>,
    /// The declared variables, computed on first use.
    variables: OnceCell<Vec<(String, Fact)>>,
}

impl Plan {
    /// A session on the pool of its options, or else with one thread per processor.
    pub fn session(self) -> Session {
        let threads = self.options.pool.clone().map_or_else(Threads::default, Threads::on);
        Session::new(self, Arc::new(threads))
    }

    /// A session on these threads.
    pub fn session_on(self, threads: Arc<Threads>) -> Session {
        Session::new(self, threads)
    }
}

impl Session {
    pub(crate) fn new(plan: Plan, threads: Arc<Threads>) -> Session {
        let resources = Resources::new(plan.options.clone(), threads, Arc::clone(&plan.store));
        let resources = Resources { extensions: plan.extensions.clone(), ..resources };
        let graph = &plan.graph;
        resources.variables.borrow_mut().declare(infer::declared_variables(graph));
        let open = || (ElementType::Dynamic, PartialShape::unranked());
        let declared = |&position: &usize| {
            let layer = graph.layers().get(position)?;
            let row = find(&layer.op_type, &layer.version).ok()?;
            let op = (row.parse)(&mut infer::Attrs::new(layer, &graph.weights_of(layer))).ok()?;
            let any: &dyn Any = &*op;
            let parameter = any.downcast_ref::<Parameter>()?;
            let element_type = input_type(graph, parameter.element_type());
            Some((element_type, parameter.shape().clone()))
        };
        let declared = graph.parameters().iter().map(|p| declared(p).unwrap_or_else(open));
        let declared = declared.collect();
        let (executor, variables) = (Executor::new(plan), OnceCell::new());
        Session { executor, resources, written: None, declared, variables }
    }

    /// Runs the graph once: takes a tensor per Parameter, returns a tensor per Result.
    ///
    /// # Errors
    /// When an input does not have the declared type and shape, or a layer fails. Variables then
    /// keep their values.
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostics> {
        self.check(inputs)?;
        self.resources.limits.start();
        let outputs = self.executor.run(inputs, &self.resources);
        self.resources.threads.release();
        self.complete(outputs)
    }

    /// Commits the assignments of a complete run; discards those of a failed one.
    fn complete(
        &self,
        outputs: Result<Vec<Tensor>, Diagnostics>,
    ) -> Result<Vec<Tensor>, Diagnostics> {
        let mut variables = self.resources.variables.borrow_mut();
        match &outputs {
            Ok(_) => variables.commit(&self.resources.pool),
            Err(_) => variables.discard(),
        }
        outputs
    }

    /// As [`Session::run`], and shows the values of layers to an observer.
    ///
    /// There are two runs. The first computes every layer as written in the file, without
    /// optimisation, so it also shows values that an optimised plan fuses or removes; it leaves no
    /// trace. The second gives the outputs, with the same bits as an unobserved run, and shows the
    /// values that it still has. The observer is always returned.
    ///
    /// ```no_run
    /// # use irrun_runtime as runtime;
    /// use runtime::{Observed, Observer};
    ///
    /// /// The layers whose values are large.
    /// struct Large(Vec<String>);
    ///
    /// impl Observer for Large {
    ///     fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
    ///         let tensor = value.tensor().map_err(|e| e.to_string())?;
    ///         let is_large = |v: &f32| v.abs() > 1e4;
    ///         if tensor.as_slice::<f32>().is_some_and(|values| values.iter().any(is_large)) {
    ///             self.0.push(value.path());
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn f(mut session: runtime::Session, inputs: Vec<runtime::Tensor>)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let (outputs, large) = session.run_observed(&inputs, Large(Vec::new()));
    /// println!("{} outputs, large values in {:?}", outputs?.len(), large.0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Session::run`], and the errors of the observer.
    pub fn run_observed<O: Observer>(
        &mut self,
        inputs: &[Tensor],
        observer: O,
    ) -> (Result<Vec<Tensor>, Diagnostics>, O) {
        let (outputs, observer) = self.run_shown(inputs, Box::new(observer));
        let any: Box<dyn Any> = observer;
        let own = any.downcast::<O>().unwrap_or_else(|_| unreachable!("it is of this type"));
        (outputs, *own)
    }

    fn run_shown(
        &mut self,
        inputs: &[Tensor],
        observer: Box<dyn Observer>,
    ) -> (Result<Vec<Tensor>, Diagnostics>, Box<dyn Observer>) {
        if let Err(diagnostics) = self.check(inputs) {
            return (Err(diagnostics), observer);
        }
        let (written, observer) = if self.resources.options.optimize {
            self.run_written(inputs, observer)
        } else {
            (Ok(()), observer)
        };
        if let Err(diagnostics) = written {
            return (Err(diagnostics), observer);
        }
        let (resources, executor) = (&self.resources, &mut self.executor);
        resources.limits.start();
        let run = || executor.run(inputs, resources);
        let (outputs, observer) = resources.observation.observed(observer, Origin::AsRun, run);
        resources.threads.release();
        (self.complete(outputs), observer)
    }

    /// Runs the graph without optimisation, on copies of the variables.
    fn run_written(
        &mut self,
        inputs: &[Tensor],
        observer: Box<dyn Observer>,
    ) -> (Result<(), Diagnostics>, Box<dyn Observer>) {
        let variables = match self.variables() {
            Ok(variables) => variables,
            Err(error) => return (Err(failed(self.executor.graph(), error.to_string())), observer),
        };
        let (own, graph) = (&self.resources, self.executor.graph());
        let (executor, resources) = self.written.get_or_insert_with(|| {
            let plain = Options { optimize: false, runs_once: false, ..own.options.clone() };
            let (threads, store) = (Arc::clone(&own.threads), Arc::clone(&own.store));
            let executor = Executor::of_graph(graph.clone(), plain.clone());
            let extensions = own.extensions.clone();
            (executor, Resources { extensions, ..Resources::new(plain, threads, store) })
        });
        let begun = resources.variables.borrow_mut().begin_with(variables, graph, &resources.pool);
        if let Err(error) = begun {
            return (Err(failed(graph, error.to_string())), observer);
        }
        resources.limits.start();
        let run = || executor.run(inputs, resources).map(drop);
        resources.observation.observed(observer, Origin::AsWritten, run)
    }

    fn check(&self, inputs: &[Tensor]) -> Result<(), Diagnostics> {
        let graph = self.executor.graph();
        let fail = |diagnostic| Diagnostics::new(Arc::clone(graph.source()), vec![diagnostic]);
        if inputs.len() != self.declared.len() {
            let (want, have) = (self.declared.len(), inputs.len());
            let message = format!("the model has {want} inputs, but {have} tensors are given");
            return Err(fail(run_error(message)));
        }
        for (i, (tensor, (element_type, _))) in inputs.iter().zip(&self.declared).enumerate() {
            if element_type.is_static() && tensor.element_type() != *element_type {
                let layer = graph.parameters().get(i).and_then(|&p| graph.layers().get(p));
                let message = format!("it takes {element_type}, but {tensor:?} is given");
                let diagnostic = run_error(message);
                return Err(fail(layer.map_or(diagnostic.clone(), |l| diagnostic.of(l))));
            }
        }
        Ok(())
    }

    /// Element type and shape of each input.
    pub fn declared_inputs(&self) -> &[(ElementType, PartialShape)] {
        &self.declared
    }

    /// Clears all variables and the state of random generators.
    pub fn reset(&mut self) {
        self.resources.variables.borrow_mut().clear(&self.resources.pool);
        self.executor.reset();
        self.written = None;
    }

    /// The variables that have a value, sorted by id.
    ///
    /// # Errors
    /// When the copies do not fit in memory. Variables that grow in place have to be copied.
    pub fn variables(&self) -> Result<Vec<(String, Tensor)>, TensorError> {
        let variables = self.resources.variables.borrow();
        let mut ids: Vec<&str> = variables.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        let value = |id: &str| match variables.read(id) {
            Ok(value) => value.map(|value| Ok((id.to_owned(), value))),
            Err(error) => Some(Err(TensorError::new(error.message))),
        };
        ids.into_iter().filter_map(value).collect()
    }

    /// The variables of the model, with their declared type and shape, sorted by id.
    pub fn declared_variables(&self) -> &[(String, Fact)] {
        self.variables.get_or_init(|| infer::variables(self.executor.graph()))
    }

    /// Sets a variable, which the next run reads.
    ///
    /// # Errors
    /// When the model has no such variable, or its type or shape differs.
    pub fn set_variable(&mut self, id: &str, value: Tensor) -> Result<(), TensorError> {
        let declared = self.declared_variables().iter().find(|(known, _)| known == id);
        let Some((_, fact)) = declared else {
            return Err(TensorError::new(format!("the model has no variable \"{id}\"")));
        };
        let shape = PartialShape::fixed(value.sizes());
        let typed = !fact.element_type.is_static() || fact.element_type == value.element_type();
        if !typed || !fact.shape.covers(&shape) {
            let given = Fact::new(value.element_type(), shape);
            let message = format!("variable \"{id}\" is {fact}, but is given {given}");
            return Err(TensorError::new(message));
        }
        self.resources.variables.borrow_mut().set(id, value.aligned()?);
        Ok(())
    }

    /// Floating-point operations of all runs so far, of GEMMs, convolutions, attention and
    /// recurrent cells, with two for each multiply-add. Element-wise work does not count.
    pub fn flops(&self) -> u64 {
        self.resources.flops.get()
    }

    /// The number of packed or computed-once entries of all plans so far; for tests.
    #[doc(hidden)]
    pub fn prepared(&self) -> usize {
        self.resources.store.made()
    }

    /// The threads of the session.
    pub fn threads(&self) -> &Threads {
        &self.resources.threads
    }

    /// Measures the time of each step from now on.
    pub fn start_profile(&mut self) {
        *self.resources.profile.borrow_mut() = Some(Profile::default());
    }

    /// Measures each step from now on, and also records when it ran.
    pub fn start_trace(&mut self) {
        *self.resources.profile.borrow_mut() = Some(Profile::tracing());
    }

    /// When each step ran since [`Session::start_trace`], in the order in which steps ended: those
    /// of a body before the layer around them. At most a million are kept.
    pub fn trace(&self) -> Vec<StepSpan> {
        self.resources.profile.borrow().as_ref().map(Profile::spans).unwrap_or_default()
    }

    /// The times measured so far, including layers of bodies, in the order in which they first
    /// ended.
    pub fn profile(&self) -> Vec<StepTime> {
        self.resources.profile.borrow().as_ref().map(Profile::steps).unwrap_or_default()
    }
}

fn failed(graph: &Graph, message: String) -> Diagnostics {
    let diagnostic = run_error(message);
    Diagnostics::new(Arc::clone(graph.source()), vec![diagnostic])
}
