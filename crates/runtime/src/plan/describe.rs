//! A plan as people and tools look at it: its steps, the layers that each stands for, and what
//! flows between them.

use super::{Plan, Step, Work};
use crate::graph::net::ValueId;
use crate::kernel::KernelMemory;
use crate::plan::memory_planner::Storage;
use infer::Fact;
use ir::Graph;
use std::collections::{BTreeSet, HashMap};

/// A step of a plan: a kernel that runs in place of some layers.
#[derive(Clone, Debug)]
pub struct PlanStep {
    /// The layer whose outputs it gives, by position in the graph.
    pub layer: usize,
    /// The layers that it stands for, by position in the graph, producers before consumers.
    pub layers: Vec<usize>,
    /// The types of those that compute something: `MatMul+Add`; `Reorder` of a step that only
    /// brings a value into the layout that others read.
    pub op_types: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Whether an output lies where an input did.
    pub in_place: bool,
    /// What it reads.
    pub inputs: Vec<PlanValue>,
    /// What it makes, and where that lives.
    pub outputs: Vec<(Fact, String)>,
}

/// A value that a step reads or that leaves the plan.
#[derive(Clone, Debug)]
pub struct PlanValue {
    /// Where it is made.
    pub from: PlanSource,
    /// Its type and shape.
    pub fact: Fact,
}

/// Where a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// An input of the model, by position.
    Input(usize),
    /// An output of a step, both by position.
    Step(usize, usize),
    /// It is known before the plan runs.
    Constant,
}

/// The memory that a first run of a plan takes, weights aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanMemory {
    /// Bytes of the arena, in which values follow one another.
    pub arena: u64,
    /// Bytes of the outputs that are handed to the caller.
    pub outputs: u64,
    /// Bytes of the constants that do not lie in the file of the weights.
    pub constants: u64,
    /// Bytes of what kernels pack in the first run, and of their scratchpads.
    pub kernels: u64,
    /// Whether there are values besides whose size is known only while running.
    pub is_open: bool,
}

/// Layers that mostly move no byte where they are fused: they are not named where others are.
const MOVEMENT: [&str; 11] = [
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Convert",
    "ConvertLike",
    "Gather",
    "Slice",
    "StridedSlice",
    "Split",
    "VariadicSplit",
];

/// Types that are named of a step before some are left out.
const MOST_TYPES: usize = 8;

impl Plan {
    /// The steps in the order in which they run.
    pub fn steps(&self) -> Vec<PlanStep> {
        let made = self.makers();
        let layers = self.layers_of_steps();
        let describe = |(step, layers): (&Step, Vec<usize>)| PlanStep {
            layer: step.layer,
            op_types: op_types(&self.graph, step, &layers),
            layers,
            kernel: match &step.work {
                Work::Kernel(kernel) => kernel.name(),
                Work::Deferred(_) => "chosen while running",
            },
            in_place: step.in_place.is_some(),
            inputs: step.inputs.iter().map(|&value| self.value(value, &made)).collect(),
            outputs: step
                .outputs
                .iter()
                .map(|&v| (self.facts[v].clone(), storage_text(&self.storage[v])))
                .collect(),
        };
        self.steps.iter().zip(layers).map(describe).collect()
    }

    /// One line for each pass, with what it has done; one for each step: the layer, the kernel,
    /// and where its outputs live.
    pub fn explain(&self) -> Vec<String> {
        let line = |step: PlanStep| {
            let title = self.graph.layers().get(step.layer).map(|l| l.title_as(&step.op_types));
            let outputs: Vec<String> =
                step.outputs.iter().map(|(fact, storage)| format!("{fact} in {storage}")).collect();
            let in_place = if step.in_place { ", in place" } else { "" };
            let (title, kernel) = (title.unwrap_or_default(), step.kernel);
            format!("{title}: {kernel}{in_place} -> {}", outputs.join(", "))
        };
        let passes = self.passes.iter().map(|(name, count)| format!("pass {name}: {count}"));
        passes.chain(self.steps().into_iter().map(line)).collect()
    }

    /// What a first run takes on so many threads.
    pub fn memory(&self, threads: usize) -> PlanMemory {
        let values = || self.facts.iter().zip(&self.storage);
        let bytes = |fact: &Fact| {
            let count = fact.shape.volume().value().and_then(|count| u64::try_from(count).ok())?;
            fact.element_type.packed_len(count)
        };
        let outputs = values().filter(|(_, storage)| **storage == Storage::External);
        let outputs: Vec<Option<u64>> = outputs.map(|(fact, _)| bytes(fact)).collect();
        let owned = self.constants.iter().flatten().filter(|constant| constant.is_heap());
        let is_pooled = values().any(|(_, storage)| *storage == Storage::Pool);
        PlanMemory {
            arena: self.arena as u64,
            outputs: outputs.iter().flatten().sum(),
            constants: owned.map(|constant| constant.bytes().len() as u64).sum(),
            kernels: self.memory_of_kernels(threads.max(1)),
            is_open: is_pooled || outputs.contains(&None),
        }
    }

    /// What all kernels keep, and the most that one of them takes beside it.
    fn memory_of_kernels(&self, threads: usize) -> u64 {
        let memory = self.steps.iter().map(|step| match &step.work {
            Work::Kernel(kernel) => kernel.memory(threads),
            Work::Deferred(_) => KernelMemory::default(),
        });
        let (kept, passing) = memory.fold((0, 0), |(kept, passing), kernel| {
            (kept + kernel.kept as u64, passing.max(kernel.passing as u64))
        });
        kept + passing
    }

    /// Where each output of the model is made.
    pub fn output_sources(&self) -> Vec<PlanValue> {
        let made = self.makers();
        self.outputs.iter().map(|&value| self.value(value, &made)).collect()
    }

    /// For each step the types of the layers that it stands for, as [`PlanStep::op_types`].
    pub(crate) fn labels(&self) -> &[String] {
        self.labels.get_or_init(|| {
            let layers = self.layers_of_steps();
            let all = self.steps.iter().zip(&layers);
            all.map(|(step, layers)| op_types(&self.graph, step, layers)).collect()
        })
    }

    fn makers(&self) -> HashMap<ValueId, PlanSource> {
        let inputs = self.inputs.iter().enumerate().map(|(i, &v)| (v, PlanSource::Input(i)));
        let outputs = self.steps.iter().enumerate().flat_map(|(s, step)| {
            step.outputs.iter().enumerate().map(move |(o, &v)| (v, PlanSource::Step(s, o)))
        });
        inputs.chain(outputs).collect()
    }

    fn value(&self, value: ValueId, made: &HashMap<ValueId, PlanSource>) -> PlanValue {
        let mut base = value;
        // What has no step of its own is seen where it lies.
        while let (false, Storage::View { of, .. }) =
            (made.contains_key(&base), &self.storage[base])
        {
            base = *of;
        }
        let from = made.get(&base).copied().unwrap_or(PlanSource::Constant);
        PlanValue { from, fact: self.facts[value].clone() }
    }

    /// For each step the layers between what it reads and what it makes.
    fn layers_of_steps(&self) -> Vec<Vec<usize>> {
        let graph = &self.graph;
        let fixed = fixed_layers(graph);
        let mut place = vec![0; graph.layers().len()];
        graph.order().iter().enumerate().for_each(|(i, &layer)| place[layer] = i);
        let own = |step: &Step| {
            let sources = step.outputs.iter().filter_map(|&v| Some(self.sources[v]?.at.layer));
            sources.chain([step.layer]).collect::<BTreeSet<usize>>()
        };
        let mut ends = vec![false; graph.layers().len()];
        self.steps.iter().flat_map(own).for_each(|layer| ends[layer] = true);
        let between = |step: &Step| {
            let mut found = own(step);
            let mut open: Vec<usize> = found.iter().copied().collect();
            while let Some(layer) = open.pop() {
                for source in graph.inputs_of(layer) {
                    let is_inside = !ends[source.layer] && !fixed[source.layer];
                    if is_inside && found.insert(source.layer) {
                        open.push(source.layer);
                    }
                }
            }
            let mut found: Vec<usize> = found.into_iter().collect();
            found.sort_unstable_by_key(|&layer| place[layer]);
            found
        };
        self.steps.iter().map(between).collect()
    }
}

fn storage_text(place: &Storage) -> String {
    match place {
        Storage::Input(i) => format!("input {i}"),
        Storage::Constant => "weights".to_owned(),
        Storage::View { of, offset } => format!("value {of} at byte {offset}"),
        Storage::Arena { offset, len } => format!("arena {offset}..{}", offset + len),
        Storage::External => "an output".to_owned(),
        Storage::Pool => "the pool".to_owned(),
    }
}

/// The layers that no step stands for: inputs, constants, and what follows from constants and
/// shapes alone.
fn fixed_layers(graph: &Graph) -> Vec<bool> {
    let mut fixed = vec![false; graph.layers().len()];
    let mut known = fixed.clone();
    for &position in graph.order() {
        let Some(layer) = graph.layers().get(position) else { continue };
        let inputs = graph.inputs_of(position);
        let follows = !inputs.is_empty() && inputs.iter().all(|source| known[source.layer]);
        known[position] = layer.is("Const") || layer.is("ShapeOf") || follows;
        fixed[position] = known[position] || layer.is("Parameter");
    }
    fixed
}

/// The types of the layers of a step, without those that only move data if there are others.
fn op_types(graph: &Graph, step: &Step, layers: &[usize]) -> String {
    if step.reorders {
        return "Reorder".to_owned();
    }
    let all: Vec<&str> = layers
        .iter()
        .filter_map(|&layer| graph.layers().get(layer))
        .map(|layer| layer.op_type.as_str())
        .collect();
    let computing: Vec<&str> =
        all.iter().copied().filter(|op_type| !MOVEMENT.contains(op_type)).collect();
    let types = if computing.is_empty() { all } else { computing };
    if types.len() <= MOST_TYPES {
        return types.join("+");
    }
    let (first, last) = (&types[..MOST_TYPES / 2], &types[types.len() - MOST_TYPES / 2 + 1..]);
    format!("{}+…+{}", first.join("+"), last.join("+"))
}
