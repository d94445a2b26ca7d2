//! Compiles a graph with known facts to a plan: kernels chosen, memory placed.

pub(crate) mod describe;
pub(crate) mod memory_planner;

use crate::error::run_error;
use crate::fused::transpose::Permute;
use crate::graph::net::{Net, Node, Source, Value, ValueId};
use crate::kernel::evaluate::Deferred;
use crate::kernel::lower::{LowerCx, LowerError, lower_text};
use crate::kernel::{Kernel, Reuse};
use crate::memory::prepack::{Store, is_worth_releasing};
use crate::options::Options;
use crate::passes::rewrite;
use crate::plan::memory_planner::{Placement, Storage, Use, place};
use crate::tensor::{Overwrite, Tensor, TensorError};
use infer::{Extensions, Fact, Facts, Op, port_name};
use ir::{Code, Diagnostic, Diagnostics, Graph};
use kernels::gemm::Precision;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A compiled graph. It is immutable and can be shared; what changes lives in a
/// [`Session`](crate::Session).
pub struct Plan {
    pub(crate) graph: Graph,
    pub(crate) options: Options,
    /// What is packed or computed once, at compile time or while running.
    pub(crate) store: Arc<Store>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) constants: Vec<Option<Tensor>>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) steps: Vec<Step>,
    pub(crate) storage: Vec<Storage>,
    pub(crate) arena: usize,
    /// Views into inputs and outputs, derived at the beginning of a run.
    pub(crate) views: Vec<ViewOf>,
    /// For each value the output of a layer in the file that it is.
    pub(crate) sources: Vec<Option<Source>>,
    /// For each value the input or step output that it is a view of; itself if it is no view.
    pub(crate) origins: Vec<ValueId>,
    /// The variables that have a value in each run; `None` if unknown.
    pub(crate) variables: Option<HashMap<String, Fact>>,
    /// The extensions of the program.
    pub(crate) extensions: Extensions,
    /// The number of changes by each pass.
    passes: Vec<(&'static str, usize)>,
    /// The label of each step, computed on first use.
    labels: OnceLock<Vec<String>>,
}

/// One step of a plan.
pub(crate) struct Step {
    pub(crate) work: Work,
    pub(crate) inputs: SmallVec<[ValueId; 4]>,
    pub(crate) outputs: SmallVec<[ValueId; 2]>,
    pub(crate) in_place: Option<Overwrite>,
    /// Views into outputs that exist only once the step has run.
    pub(crate) views: SmallVec<[ViewOf; 1]>,
    /// Pool values whose last use it is.
    pub(crate) last_use: SmallVec<[ValueId; 2]>,
    /// In a plan for a single run: large constants that no later step reads.
    pub(crate) last_constant_use: SmallVec<[ValueId; 2]>,
    pub(crate) layer: usize,
    /// Whether it only copies a value into another layout.
    pub(crate) reorders: bool,
}

/// What a step runs.
pub(crate) enum Work {
    /// A kernel chosen at compile time.
    Kernel(Box<dyn Kernel>),
    /// An operation whose kernel is chosen once its inputs are known.
    Deferred(Deferred),
}

/// A view of another value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewOf {
    pub(crate) value: ValueId,
    pub(crate) of: ValueId,
    pub(crate) offset: usize,
}

/// Compiles a graph for the inputs that `facts` describes.
///
/// # Errors
/// All layers that cannot be executed.
pub fn compile(graph: &Graph, facts: &Facts) -> Result<Plan, Diagnostics> {
    compile_with(graph, facts, &Options::default())
}

/// As [`compile`], with options.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(graph: &Graph, facts: &Facts, options: &Options) -> Result<Plan, Diagnostics> {
    compile_in(graph, facts, options, &Arc::default())
}

/// As [`compile_with`], for a session that shares packed weights with those of `other`, for example
/// on another thread. Weights of the same graph are packed once for both.
///
/// # Errors
/// As [`compile`].
pub fn compile_sharing(
    other: &Plan,
    graph: &Graph,
    facts: &Facts,
    options: &Options,
) -> Result<Plan, Diagnostics> {
    compile_in(graph, facts, options, &other.store)
}

/// As [`compile_with`], with the store of an existing session.
pub(crate) fn compile_in(
    graph: &Graph,
    facts: &Facts,
    options: &Options,
    store: &Arc<Store>,
) -> Result<Plan, Diagnostics> {
    let failed = |list| Diagnostics::new(Arc::clone(graph.source()), list);
    let mut net = Net::new(graph, facts).map_err(|diagnostic| failed(vec![*diagnostic]))?;
    let passes = rewrite(&mut net, (graph, facts), options);
    let plan = Plan::new(graph, net, options, store).map_err(failed)?;
    let (variables, extensions) = (facts.variables().cloned(), facts.extensions().clone());
    Ok(Plan { passes, variables, extensions, ..plan })
}

impl Plan {
    fn new(
        graph: &Graph,
        net: Net,
        options: &Options,
        store: &Arc<Store>,
    ) -> Result<Plan, Vec<Diagnostic>> {
        let works = lower_all(graph, &net, options.precision)?;
        let mut net = aligned(net, &works, store).map_err(|e| vec![run_error(e.to_string())])?;
        let uses: Vec<Use> = net.nodes.iter().zip(&works).map(memory_use).collect();
        let origins = origins(&net, &uses);
        let mut placement = place(&net, &uses, options.runs_once);
        let mut steps = steps(&net, works, &mut placement);
        let Placement { storage, inside, arena, .. } = placement;
        let per_run = |v: &usize| matches!(storage[*v], Storage::Input(_) | Storage::External);
        let bases = (0..storage.len()).filter(per_run);
        let views = bases.flat_map(|v| views(&storage, &inside[v])).collect();
        let constants = constants(&mut net, store);
        let sources = net.sources();
        if options.runs_once {
            note_last_reads(&mut steps, &storage, &constants);
        }
        let facts = net.values.into_iter().map(|v| v.fact).collect();
        Ok(Plan {
            graph: graph.clone(),
            options: options.clone(),
            store: Arc::clone(store),
            facts,
            constants,
            inputs: net.inputs,
            outputs: net.outputs,
            steps,
            storage,
            arena,
            views,
            sources,
            origins,
            variables: None,
            extensions: Extensions::default(),
            passes: Vec::new(),
            labels: OnceLock::new(),
        })
    }

    /// A value and its views. Values that overwrite it in place do not count: they are made later.
    pub(crate) fn with_views(&self, base: ValueId) -> impl Iterator<Item = ValueId> {
        let parts = self.origins.iter().enumerate();
        let parts = parts.filter(move |(value, origin)| **origin == base && *value != base);
        std::iter::once(base).chain(parts.map(|(value, _)| value))
    }

    /// The facts of the inputs, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &Fact> {
        self.inputs.iter().map(|&v| &self.facts[v])
    }

    /// The facts of the outputs, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &Fact> {
        self.outputs.iter().map(|&v| &self.facts[v])
    }
}

/// Copies unaligned constants for kernels that need them aligned. Deferred kernels align their
/// inputs themselves, so that they share packed weights with other plans.
fn aligned(mut net: Net, works: &[Work], store: &Store) -> Result<Net, TensorError> {
    let mut needed: Vec<ValueId> = net.outputs.clone();
    for (node, work) in net.nodes.iter().zip(works) {
        let Work::Kernel(kernel) = work else { continue };
        let unaligned = kernel.accepts_unaligned();
        let strict = node.inputs.iter().enumerate().filter(|(i, _)| !unaligned.contains(*i));
        needed.extend(strict.map(|(_, v)| *v));
    }
    for value in needed {
        if let Some(constant) = &mut net.values[value].constant {
            *constant = store.aligned(constant)?;
        }
    }
    Ok(net)
}

/// The constants that are still read. A constant that another plan of the session also has is
/// stored once.
fn constants(net: &mut Net, store: &Store) -> Vec<Option<Tensor>> {
    let mut read = vec![false; net.values.len()];
    let values = net.nodes.iter().flat_map(|n| &n.inputs).chain(&net.outputs);
    values.for_each(|v| read[*v] = true);
    let constant = |(value, read): (&mut Value, bool)| {
        let constant = value.constant.take().filter(|_| read)?;
        Some(store.constant(constant))
    };
    net.values.iter_mut().zip(read).map(constant).collect()
}

/// Notes with each step the large constants that no later step reads.
fn note_last_reads(steps: &mut [Step], storage: &[Storage], constants: &[Option<Tensor>]) {
    let is_large = |t: &Option<Tensor>| t.as_ref().is_some_and(is_worth_releasing);
    let mut awaited: Vec<bool> = constants.iter().map(is_large).collect();
    for step in steps.iter_mut().rev() {
        for &input in &step.inputs {
            let base = match storage[input] {
                Storage::View { of, .. } => of,
                _ => input,
            };
            if std::mem::take(&mut awaited[base]) {
                step.last_constant_use.push(base);
            }
        }
    }
}

/// For each value the value that it is a view of, directly or through other views.
fn origins(net: &Net, uses: &[Use]) -> Vec<ValueId> {
    let mut origins: Vec<ValueId> = (0..net.values.len()).collect();
    for used in uses {
        let Some(Reuse::Views(views)) = &used.reuse else { continue };
        for (output, view) in used.outputs.iter().zip(views) {
            origins[*output] = origins[used.inputs[view.input]];
        }
    }
    origins
}

/// The views among these values.
fn views(storage: &[Storage], values: &[ValueId]) -> impl Iterator<Item = ViewOf> {
    values.iter().filter_map(|&value| match storage[value] {
        Storage::View { of, offset } => Some(ViewOf { value, of, offset }),
        _ => None,
    })
}

/// The steps of all nodes whose kernels are more than views.
fn steps(net: &Net, works: Vec<Work>, placement: &mut Placement) -> Vec<Step> {
    let Placement { storage, inside, in_place, last_use, .. } = placement;
    let mut steps = Vec::with_capacity(works.len());
    let parts = in_place.drain(..).zip(last_use.drain(..));
    for ((node, work), (in_place, last_use)) in net.nodes.iter().zip(works).zip(parts) {
        let is_view = matches!(&work, Work::Kernel(k) if matches!(k.reuse(), Reuse::Views(_)));
        if is_view {
            continue;
        }
        let made = node.outputs.iter().filter(|v| storage[**v] == Storage::Pool);
        let views = made.flat_map(|v| views(storage, &inside[*v])).collect();
        steps.push(Step {
            work,
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            in_place,
            views,
            last_use,
            last_constant_use: SmallVec::new(),
            layer: node.layer,
            reorders: node.fused::<Permute>().is_some(),
        });
    }
    steps
}

fn memory_use((node, work): (&Node, &Work)) -> Use {
    let reuse = match work {
        Work::Kernel(kernel) => Some(kernel.reuse()),
        Work::Deferred(_) => None,
    };
    Use { inputs: node.inputs.clone(), outputs: node.outputs.clone(), reuse }
}

/// The kernels of all nodes.
///
/// # Errors
/// With what is wrong with each node that has none.
fn lower_all(graph: &Graph, net: &Net, precision: Precision) -> Result<Vec<Work>, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let mut works = Vec::with_capacity(net.nodes.len());
    for node in &net.nodes {
        match lower_now(graph, net, node, precision) {
            Ok(work) => works.push(work),
            Err(diagnostic) => diagnostics.push(*diagnostic),
        }
    }
    if diagnostics.is_empty() { Ok(works) } else { Err(diagnostics) }
}

/// Chooses the kernel of a node if everything it depends on is known; else defers it.
fn lower_now(
    graph: &Graph,
    net: &Net,
    node: &Node,
    precision: Precision,
) -> Result<Work, Box<Diagnostic>> {
    let inputs = net.input_facts(node);
    let invariant = net.invariant(node);
    // Operations made by a pass are never deferred.
    let mut deferred = node.deferred(invariant).map(Work::Deferred);
    if !inputs.iter().all(Fact::is_static)
        && let Some(deferred) = deferred.take()
    {
        return Ok(deferred);
    }
    let constants = net.constants(node);
    let bodies = graph.layers().get(node.layer).map_or(&[][..], |l| &l.bodies);
    let outputs = net.output_facts(node);
    let cx = LowerCx::new((&inputs, &outputs), &constants, &constants, bodies)
        .with_invariant(invariant)
        .with_precision(precision);
    let failed = |error| {
        Box::new(diagnostic(
            graph,
            (node.op(), node.layer),
            &inputs,
            Code::Lowering,
            lower_text(error),
        ))
    };
    match node.lower(&cx) {
        Ok(kernel) => {
            let is_deferred =
                !kernel.has_data_dependent_shapes() && !outputs.iter().all(|fact| fact.is_static());
            Ok(deferred.filter(|_| is_deferred).unwrap_or(Work::Kernel(kernel)))
        }
        Err(error @ (LowerError::NeedsValue(_) | LowerError::NeedsShape(_))) => {
            deferred.ok_or_else(|| failed(error))
        }
        Err(error) => Err(failed(error)),
    }
}

/// A diagnostic about a layer, with the inputs it was given. Operations made by a pass have no
/// names for their inputs.
pub(crate) fn diagnostic(
    graph: &Graph,
    (op, layer): (Option<&dyn Op>, usize),
    inputs: &[Fact],
    code: Code,
    (input, message): (Option<usize>, String),
) -> Diagnostic {
    let facts: Vec<String> = inputs.iter().map(Fact::to_string).collect();
    let layer = graph.layers().get(layer);
    let diagnostic = Diagnostic::error(code, layer.map(|l| l.at).unwrap_or_default(), message);
    let diagnostic = match layer {
        Some(layer) => diagnostic.of(layer),
        None => diagnostic,
    };
    let name = |i| op.map_or_else(|| format!("input {i}"), |op| port_name(op, i));
    let port = input.map(name);
    let context = (!facts.is_empty()).then(|| format!("inputs: {}", facts.join("  ")));
    Diagnostic { port, context, ..diagnostic }
}
