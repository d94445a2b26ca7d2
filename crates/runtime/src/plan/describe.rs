//! A plan for people and tools: its steps, the layers that each replaces, and the values between
//! them.

use super::{Plan, Step, Work};
use crate::graph::net::ValueId;
use crate::kernel::KernelMemory;
use crate::plan::memory_planner::Storage;
use infer::Fact;
use ir::Graph;
use kernels::Allocation;
use std::collections::{BTreeSet, HashMap};

/// A step of a plan: a kernel that runs in place of one or more layers.
#[derive(Clone, Debug)]
pub struct PlanStep {
    /// The layer whose outputs it gives, as index in the graph.
    pub layer: usize,
    /// The layers that it replaces, as indices in the graph, producers before consumers.
    pub layers: Vec<usize>,
    /// The types of those that compute something, such as `MatMul+Add`. `Reorder` for a step that
    /// only copies a value into another layout.
    pub op_types: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Whether an output overwrites an input.
    pub in_place: bool,
    /// The values that it reads.
    pub inputs: Vec<PlanValue>,
    /// Type and shape of its outputs, and where they are stored.
    pub outputs: Vec<(Fact, String)>,
}

/// A value that a step reads, or an output of the plan.
#[derive(Clone, Debug)]
pub struct PlanValue {
    /// What makes it.
    pub from: PlanSource,
    /// Its type and shape.
    pub fact: Fact,
}

/// What makes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// An input of the model, by index.
    Input(usize),
    /// An output of a step: the index of the step, and that of the output.
    Step(usize, usize),
    /// A constant of the plan.
    Constant,
}

/// The memory of a first run of a plan, without weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanMemory {
    /// Bytes of the arena, which values between steps share.
    pub arena: u64,
    /// Bytes of the outputs, which the caller receives.
    pub outputs: u64,
    /// Bytes of the constants that are not in the weights file.
    pub constants: u64,
    /// Bytes that kernels pack in the first run, and of their scratch.
    pub kernels: u64,
    /// Whether there are further values whose size is known only at run time.
    pub is_open: bool,
}

/// Layers that usually become views when fused. They are named only if a step copies or has no
/// others.
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

/// Further layer types that are copies.
const COPIES: [&str; 10] = [
    "BatchToSpace",
    "Broadcast",
    "Concat",
    "DepthToSpace",
    "Pad",
    "Roll",
    "ShuffleChannels",
    "SpaceToBatch",
    "SpaceToDepth",
    "Tile",
];

/// The most types in the label of a step.
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

    /// One line per pass, with the number of its changes, and one per step: the layer, the kernel,
    /// and where its outputs are stored.
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

    /// The memory of a first run on this many threads.
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
            arena: Allocation::resident(self.arena) as u64,
            outputs: outputs.iter().flatten().sum(),
            constants: owned.map(|constant| constant.bytes().len() as u64).sum(),
            kernels: self.memory_of_kernels(threads.max(1)),
            is_open: is_pooled || outputs.contains(&None),
        }
    }

    /// What all kernels keep, plus the largest temporary memory of one kernel.
    fn memory_of_kernels(&self, threads: usize) -> u64 {
        let memory = self.steps.iter().map(|step| match &step.work {
            Work::Kernel(kernel) => kernel.memory(threads),
            Work::Deferred(_) => KernelMemory::default(),
        });
        let (kept, passing) = memory.fold((0usize, 0), |(kept, passing), kernel| {
            (kept.saturating_add(kernel.kept), kernel.passing.max(passing))
        });
        (Allocation::resident(kept) as u64).saturating_add(passing as u64)
    }

    /// What makes each output of the model.
    pub fn output_sources(&self) -> Vec<PlanValue> {
        let made = self.makers();
        self.outputs.iter().map(|&value| self.value(value, &made)).collect()
    }

    /// For each step the types of the layers that it replaces, as in [`PlanStep::op_types`].
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
        // A view without a step of its own is shown as its base.
        while let (false, Storage::View { of, .. }) =
            (made.contains_key(&base), &self.storage[base])
        {
            base = *of;
        }
        let from = made.get(&base).copied().unwrap_or(PlanSource::Constant);
        PlanValue { from, fact: self.facts[value].clone() }
    }

    /// For each step the layers between its inputs and its outputs.
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

/// The layers that no step replaces: inputs, constants, and what depends on constants and shapes
/// only.
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

/// The types of the layers of a step. Of a copy only those that move elements are named; of another
/// step only those that do not. If there are none, all are.
fn op_types(graph: &Graph, step: &Step, layers: &[usize]) -> String {
    if step.reorders {
        return "Reorder".to_owned();
    }
    let all: Vec<&str> = layers
        .iter()
        .filter_map(|&layer| graph.layers().get(layer))
        .map(|layer| layer.op_type.as_str())
        .collect();
    let copies = matches!(&step.work, Work::Kernel(kernel) if kernel.movement().is_some());
    let is_own = |op_type: &&str| {
        let moves = MOVEMENT.contains(op_type);
        if copies { moves || COPIES.contains(op_type) } else { !moves }
    };
    let own: Vec<&str> = all.iter().copied().filter(is_own).collect();
    let types = if own.is_empty() { all } else { own };
    if types.len() <= MOST_TYPES {
        return types.join("+");
    }
    let (first, last) = (&types[..MOST_TYPES / 2], &types[types.len() - MOST_TYPES / 2 + 1..]);
    format!("{}+…+{}", first.join("+"), last.join("+"))
}
