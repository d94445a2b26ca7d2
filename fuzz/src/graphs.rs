//! Graphs from bytes: operations of the table, each on existing values.
//!
//! A tame graph runs: operations that inference rejects, or whose outputs would be large, are left
//! out. A wild graph may contain anything.

use super::choices::Choices;
use super::noise;
use super::table::{ROWS, Row};
use infer::{Attrs, Extensions, Fact, PartialShape, PartialValue};
use ir::ElementType::{
    self, BF16, Boolean, F16, F32, F64, I8, I16, I32, I64, U1, U8, U16, U32, U64,
};
use ir::{Body, Graph, GraphBuilder, Layer, OutputRef, Port, Weights};
use runtime::Tensor;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The most elements of a value in a tame graph.
const MOST: usize = 8192;
/// Operations with bodies, and variables, are together as likely as this many rows of the table.
const STRUCTURES: usize = 8;
/// Types of inputs.
const TYPES: [ElementType; 16] =
    [F32, F32, F32, F32, F32, F32, F32, F32, F16, BF16, F64, I32, I64, I8, U8, Boolean];
/// The same for broad graphs, with more types.
const BROAD_TYPES: [ElementType; 20] = [
    F32, F32, F32, F32, F32, F32, F16, F16, BF16, F64, I8, U8, I16, U16, I32, I32, U32, I64, U64,
    Boolean,
];
/// Operations that OpenVINO lacks, or that its CPU plugin does not run as the table writes them.
const OURS: [&str; 8] = [
    "StaticReshape",
    "GRN",
    "LSTMSequence",
    "GRUSequence",
    "RNNSequence",
    "NMSRotated",
    "PSROIPooling",
    "ErfInv",
];
/// Sizes of inputs.
const SIZES: [usize; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 16, 17, 24, 32];
/// Texts that replace attributes.
const TEXTS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "2",
    "7",
    "65536",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e308",
    "nan",
    "",
    "a",
    "1,2,3,4,5,6,7",
    "f32",
    "true",
    "-1,-1",
];
/// Integers that replace constants.
const NUMBERS: [i64; 10] = [-1, 0, 1, 2, 9, 1 << 20, 1 << 32, i64::MAX - 1, i64::MAX, i64::MIN];
/// Dims of inputs of wild graphs.
const DIMS: [&str; 12] = [
    "?",
    "1",
    "3",
    "0",
    "2..5",
    "..4",
    "2..",
    "4294967296",
    "9223372036854775806",
    "1..1",
    "7",
    "16",
];

/// A value of the graph: its source, and what is known of it for the given inputs.
#[derive(Clone)]
pub struct Value {
    /// The output of a layer.
    pub port: OutputRef,
    /// Its type, and its shape as far as it is known.
    pub fact: Fact,
}

/// A graph with inputs for it.
pub struct Grown {
    /// The graph.
    pub graph: Graph,
    /// A tensor per input; empty for a wild graph.
    pub inputs: Vec<Tensor>,
    /// The types of its operations.
    pub kinds: Vec<&'static str>,
    /// The types of its values.
    pub types: Vec<ElementType>,
    /// Whether some operations depend on values of inputs: inference may refuse those.
    pub late: bool,
}

impl Grown {
    /// The operations, each with its inputs.
    pub fn text(&self) -> String {
        let layer = |(i, layer): (usize, &Layer)| {
            let inputs = self.graph.inputs_of(i);
            let from: Vec<String> =
                inputs.iter().map(|from| format!("{}.{}", from.layer, from.port)).collect();
            let data: Vec<String> = layer.data.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
            let (kind, version) = (&layer.op_type, &layer.version);
            format!("{i} = {kind} {version} ({}) {}\n", from.join(", "), data.join(" "))
        };
        self.graph.layers().iter().enumerate().map(layer).collect()
    }
}

/// A graph under construction.
pub(super) struct Growth<'a> {
    g: GraphBuilder,
    pub(super) c: Choices<'a>,
    wild: bool,
    broad: bool,
    /// Whether some constants are inputs instead, so that only a run knows their values.
    late: bool,
    values: Vec<Value>,
    read: Vec<OutputRef>,
    inputs: Vec<Tensor>,
    kinds: Vec<&'static str>,
    types: Vec<ElementType>,
}

/// A tame graph with 2 to 12 operations. In some of them values that others have as constants, and
/// sizes that depend on them, are known in a run alone.
pub fn tame(data: &[u8]) -> Option<Grown> {
    let mut growth = growth(data);
    growth.late = growth.c.once_in(3);
    growth.grow(12)
}

/// A tame graph with 2 to 30 operations, which also has scalars, rank 6, empty tensors and all
/// numeric types.
pub fn broad(data: &[u8]) -> Option<Grown> {
    Growth { broad: true, ..growth(data) }.grow(30)
}

/// A wild graph with 2 to 12 operations.
pub fn wild(data: &[u8]) -> Option<Grown> {
    Growth { wild: true, ..growth(data) }.grow(12)
}

/// An empty graph.
fn growth(data: &[u8]) -> Growth<'_> {
    Growth {
        g: GraphBuilder::new("fuzz"),
        c: Choices::new(data),
        wild: false,
        broad: false,
        late: false,
        values: Vec::new(),
        read: Vec::new(),
        inputs: Vec::new(),
        kinds: Vec::new(),
        types: Vec::new(),
    }
}

impl Growth<'_> {
    /// A graph with 2 to `most` operations.
    fn grow(mut self, most: usize) -> Option<Grown> {
        let count = 2 + self.c.below(most - 1);
        while self.kinds.len() < count && !self.c.is_done() {
            // The values that a failed operation has added are not read.
            let _ = match self.c.below(ROWS.len() + STRUCTURES) {
                at if at < ROWS.len() && self.broad && OURS.contains(&ROWS[at].0) => None,
                at if at < ROWS.len() => self.step(ROWS[at]),
                _ => self.structure(),
            };
        }
        self.finish()
    }

    /// Makes results of the values that nothing reads, and of some others. A further output of an
    /// operation may stay unread.
    fn finish(mut self) -> Option<Grown> {
        let mut results = 0;
        for value in &self.values {
            let is_read = self.read.contains(&value.port) || value.port.port > 0 && self.c.flag();
            if !is_read || self.c.once_in(8) {
                self.g.result(&format!("y{results}"), value.port);
                results += 1;
            }
        }
        let graph = self.g.finish().ok()?;
        let Growth { inputs, kinds, types, late, .. } = self;
        Some(Grown { graph, inputs, kinds, types, late })
    }

    /// Adds an operation.
    fn step(&mut self, (kind, version, inputs, attributes, outputs): Row) -> Option<()> {
        let mut taken: Vec<Value> = Vec::new();
        for input in inputs.split_whitespace() {
            let value = self.input(input, taken.first().map(|v| v.fact.clone()))?;
            taken.push(value);
        }
        if self.wild {
            self.disturb(&mut taken);
        }
        let first = taken.first().map_or_else(Fact::unknown, |v| v.fact.clone());
        let attributes: Vec<(&str, String)> =
            attributes.split_whitespace().filter_map(|a| self.attribute(a, &first)).collect();
        self.add((kind, version), &attributes, &taken, Vec::new(), outputs)
    }

    /// Adds an operation, unless the graph is tame and the operation would not run.
    pub(super) fn add(
        &mut self,
        (kind, version): (&'static str, &str),
        attributes: &[(&str, String)],
        taken: &[Value],
        bodies: Vec<Body>,
        outputs: usize,
    ) -> Option<()> {
        let facts: Vec<Fact> = taken.iter().map(|v| v.fact.clone()).collect();
        let found = facts_of((kind, version), attributes, &facts, &bodies, outputs);
        let found = match found {
            Some(found) if self.wild || found.iter().all(is_small) => found,
            None if self.wild => vec![Fact::unknown(); outputs],
            _ => return None,
        };
        let ports: Vec<OutputRef> = taken.iter().map(|v| v.port).collect();
        let attributes: Vec<(&str, &str)> =
            attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let layer = self.g.layer(kind, version).attributes(&attributes).inputs(&ports);
        let layer = bodies.into_iter().fold(layer, |layer, body| layer.body(body));
        let made = layer.outputs(found.len());
        self.read.extend(ports);
        self.kinds.push(kind);
        self.types.extend(found.iter().map(|fact| fact.element_type));
        let made = made.into_iter().zip(found).map(|(port, fact)| Value { port, fact });
        self.values.extend(made);
        Some(())
    }

    /// Whether the graph should run in OpenVINO.
    pub(super) fn is_broad(&self) -> bool {
        self.broad
    }

    /// Whether a run alone may know some values.
    pub(super) fn is_late(&self) -> bool {
        self.late
    }

    /// The number of operations.
    pub(super) fn count(&self) -> usize {
        self.kinds.len()
    }

    /// The last value.
    pub(super) fn last(&self) -> Option<Value> {
        self.values.last().cloned()
    }

    /// Adds, removes or exchanges inputs.
    fn disturb(&mut self, taken: &mut Vec<Value>) {
        match self.c.below(12) {
            9 => drop(taken.pop()),
            10 => taken.extend(taken.last().cloned()),
            11 if !taken.is_empty() && !self.values.is_empty() => {
                let (at, from) = (self.c.below(taken.len()), self.c.below(self.values.len()));
                taken[at] = self.values[from].clone();
            }
            _ => {}
        }
    }

    /// An attribute of a row. Sometimes, and more often in a wild graph, it is missing or
    /// arbitrary.
    fn attribute(&mut self, text: &'static str, first: &Fact) -> Option<(&'static str, String)> {
        let (name, options) = text.split_once('=')?;
        let rank = first.shape.rank().unwrap_or(3);
        if self.c.once_in(if self.wild { 10 } else { 40 }) {
            return self.c.flag().then(|| (name, self.c.of(&TEXTS).to_owned()));
        }
        let Some(special) = options.strip_prefix('@') else {
            let options: Vec<&str> = options.split('|').collect();
            return Some((name, self.c.of(&options).to_owned()));
        };
        let Some((count, options)) = special.split_once(':') else {
            let axis = self.c.below(2 * rank.max(1)) as i64 - rank as i64;
            return Some((name, axis.to_string()));
        };
        let options: Vec<&str> = options.split('|').collect();
        let count = count.parse().unwrap_or(rank);
        let list: Vec<&str> = (0..count).map(|_| self.c.of(&options)).collect();
        Some((name, list.join(",")))
    }

    /// An input of a row.
    fn input(&mut self, text: &str, first: Option<Fact>) -> Option<Value> {
        let (what, sizes) = text.split_once(':').unwrap_or((text, ""));
        let fact = first.unwrap_or_else(|| Fact::new(F32, PartialShape::scalar()));
        match what {
            "x" => self.value(sizes, |t| matches!(t, F32 | F16 | BF16 | F64)),
            "v" => self.value(sizes, |_| true),
            "j" => self.value(sizes, |t| matches!(t, I32 | I64)),
            "t" => self.value(sizes, |t| t == Boolean),
            "q" => {
                let sizes = self.sizes(sizes, &fact);
                self.parameter(F32, &sizes)
            }
            "s" | "o" | "b" => self.mate(what, &fact),
            "w" => {
                let sizes = self.sizes(sizes, &fact);
                self.constant(fact.element_type, &sizes)
            }
            "u" => {
                let sizes = self.sizes(sizes, &fact);
                self.constant(U1, &sizes)
            }
            "i" => {
                let (sizes, below) = sizes.split_once(':').unwrap_or((sizes, "1"));
                let below = self.sizes(below, &fact).first().copied().unwrap_or(1).max(1);
                let sizes = self.sizes(sizes, &fact);
                let count = sizes.iter().product();
                let list: Vec<i64> = (0..count).map(|_| self.c.below(below) as i64).collect();
                self.integers(&sizes, list)
            }
            _ => match (text.strip_prefix('~'), text.strip_prefix('$')) {
                (Some(number), _) => self.number(number.parse().ok()?, fact.element_type),
                (_, Some(number)) => self.number(number.parse().ok()?, F32),
                _ => self.list(text, &fact),
            },
        }
    }

    /// An existing value, or a new input, of these ranks and types.
    pub(super) fn value(&mut self, ranks: &str, is: impl Fn(ElementType) -> bool) -> Option<Value> {
        let ranks = match ranks.split_once('-') {
            Some((low, high)) => low.parse().ok()?..=high.parse().ok()?,
            None => ranks.parse().map_or(self.any_rank(), |rank: usize| rank..=rank),
        };
        let fits = |v: &&Value| {
            let rank = v.fact.shape.rank();
            is(v.fact.element_type) && rank.is_none_or(|rank| ranks.contains(&rank))
        };
        let known: Vec<Value> = self.values.iter().filter(fits).cloned().collect();
        if !known.is_empty() && !self.c.once_in(6) {
            // Half of the time the last one.
            let back = if self.c.flag() { self.c.below(known.len()) } else { 0 };
            return known.into_iter().rev().nth(back);
        }
        let all: &[ElementType] = if self.broad { &BROAD_TYPES } else { &TYPES };
        let types: Vec<ElementType> = all.iter().copied().filter(|t| is(*t)).collect();
        let element_type = self.c.of(&types);
        let rank = ranks.start() + self.c.below(ranks.end() - ranks.start() + 1);
        let mut sizes: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        while sizes.iter().product::<usize>() > MOST / 2 {
            let largest = sizes.iter_mut().max()?;
            *largest /= 2;
        }
        self.parameter(element_type, &sizes)
    }

    /// The ranks of an unrestricted input.
    fn any_rank(&self) -> RangeInclusive<usize> {
        if self.broad { 0..=6 } else { 1..=4 }
    }

    /// A size of an input.
    fn size(&mut self) -> usize {
        if self.broad && self.c.once_in(40) { 0 } else { self.c.of(&SIZES) }
    }

    /// A new input. Some of its sizes are dynamic.
    pub(super) fn parameter(
        &mut self,
        element_type: ElementType,
        sizes: &[usize],
    ) -> Option<Value> {
        let name = format!("x{}", self.inputs.len());
        if self.wild {
            let dims: Vec<&str> = sizes.iter().map(|_| self.c.of(&DIMS)).collect();
            let text = if self.c.once_in(8) { "...".to_owned() } else { dims.join(",") };
            let port = self.g.parameter(&name, element_type, &text);
            let value = Value { port, fact: Fact::new(element_type, text.parse().ok()?) };
            self.values.push(value.clone());
            return Some(value);
        }
        let open = self.c.once_in(4);
        let dim = |size: &usize| {
            if open {
                match self.c.below(4) {
                    0 => "?".to_owned(),
                    1 => format!("1..{}", size + 3),
                    2 => format!("{size}.."),
                    _ => size.to_string(),
                }
            } else {
                size.to_string()
            }
        };
        let text: Vec<String> = sizes.iter().map(dim).collect();
        let seed = self.c.seed();
        let tensor = noise::with_special(element_type, sizes, seed)?;
        let port = self.g.parameter(&name, element_type, &text.join(","));
        self.inputs.push(tensor);
        self.types.push(element_type);
        let value = Value { port, fact: Fact::new(element_type, PartialShape::fixed(sizes)) };
        self.values.push(value.clone());
        Some(value)
    }

    /// A value of the type of `first`: of its sizes (`s`), of its rank (`o`), or broadcastable to
    /// it (`b`).
    fn mate(&mut self, what: &str, first: &Fact) -> Option<Value> {
        let fits = |v: &&Value| {
            let same = match what {
                "s" => v.fact.shape == first.shape,
                "o" => v.fact.shape.rank() == first.shape.rank(),
                _ => true,
            };
            same && v.fact.element_type == first.element_type
        };
        let known: Vec<Value> = self.values.iter().filter(fits).cloned().collect();
        if !known.is_empty() && self.c.flag() {
            return Some(self.c.of(&known.iter().collect::<Vec<_>>()).clone());
        }
        let mut sizes = known_sizes(first);
        if what == "b" {
            let from = self.c.below(sizes.len() + 1);
            sizes.drain(..from);
            sizes.iter_mut().for_each(|size| *size = if self.c.flag() { *size } else { 1 });
        }
        self.constant(first.element_type, &sizes)
    }

    /// A constant of noise, sometimes with infinities and other special values.
    pub(super) fn constant(&mut self, element_type: ElementType, sizes: &[usize]) -> Option<Value> {
        if sizes.iter().product::<usize>() > 4 * MOST {
            return None;
        }
        let seed = self.c.seed();
        let tensor = noise::with_special(element_type, sizes, seed)?;
        self.held(&tensor)
    }

    /// A constant scalar.
    pub(super) fn number(&mut self, number: f32, element_type: ElementType) -> Option<Value> {
        let tensor = Tensor::from_vec(&[], vec![number]).ok()?;
        self.held(&runtime::convert(&tensor, element_type).ok()?)
    }

    /// A constant of integers. Sometimes, and more often in a wild graph, one of them is arbitrary.
    pub(super) fn integers(&mut self, sizes: &[usize], mut list: Vec<i64>) -> Option<Value> {
        if self.c.once_in(if self.wild { 6 } else { 20 }) && !list.is_empty() {
            let at = self.c.below(list.len());
            list[at] = self.c.of(&NUMBERS);
        }
        self.held(&Tensor::from_vec(sizes, list).ok()?)
    }

    /// A constant, or an input whose value is known while the graph grows.
    fn held(&mut self, tensor: &Tensor) -> Option<Value> {
        let (element_type, sizes) = (tensor.element_type(), tensor.sizes());
        let port = if self.late && self.c.once_in(4) {
            let dim = |size: &usize| if self.c.flag() { "?".to_owned() } else { size.to_string() };
            let dims: Vec<String> = sizes.iter().map(dim).collect();
            let name = format!("x{}", self.inputs.len());
            self.inputs.push(tensor.clone());
            self.g.parameter(&name, element_type, &dims.join(","))
        } else {
            let dims: Vec<u64> = sizes.iter().map(|size| *size as u64).collect();
            self.g.constant(element_type, &dims, tensor.bytes())
        };
        let fact = Fact::new(element_type, PartialShape::fixed(sizes));
        let value = PartialValue::from_bytes(element_type, sizes, tensor.bytes());
        let fact = Fact { value: value.map(Arc::new), ..fact };
        self.types.push(element_type);
        Some(Value { port, fact })
    }

    /// The sizes in a row.
    fn sizes(&mut self, text: &str, first: &Fact) -> Vec<usize> {
        let own = known_sizes(first);
        let at = |axis: usize| own.get(axis).copied().unwrap_or(3);
        let mut size = |text: &str| match text {
            "N" => at(0),
            "C" => at(1),
            "D" => at(1) / 2,
            "H" => at(2),
            "W" => at(3),
            "L" => own.last().copied().unwrap_or(3),
            "*" => self.c.of(&[3, 1, 2, 4, 8, 16, 24, 5]),
            "k" => self.c.of(&[1, 2, 3, 5]),
            number => number.parse().unwrap_or(1),
        };
        text.split(',').filter(|t| !t.is_empty()).map(&mut size).collect()
    }

    /// A list that is valid for a value.
    fn list(&mut self, text: &str, first: &Fact) -> Option<Value> {
        let own = known_sizes(first);
        let rank = own.len();
        let each =
            |below: usize, c: &mut Choices| own.iter().map(|_| c.below(below) as i64).collect();
        let list: Vec<i64> = match text {
            "axis" => {
                let axis = self.c.below(2 * rank.max(1)) as i64 - rank as i64;
                return self.integers(&[], vec![axis]);
            }
            "axes" => (0..rank as i64).filter(|_| self.c.flag()).collect(),
            "perm" => {
                let mut order: Vec<i64> = (0..rank as i64).collect();
                (0..rank).for_each(|i| order.swap(i, self.c.below(rank)));
                // Without an order all axes are reversed.
                if self.c.once_in(6) { Vec::new() } else { order }
            }
            "pads" => each(3, &mut self.c),
            "sizes" => own.iter().map(|size| self.c.of(&[*size as i64, 2, 1, 3])).collect(),
            "shape" => self.pattern(own),
            "split" => {
                let size = own.get(1).copied().unwrap_or(2);
                let part = self.c.below(size + 1);
                let rest = if self.c.once_in(3) { -1 } else { (size - part) as i64 };
                vec![part as i64, rest]
            }
            numbers => {
                let numbers = numbers.strip_prefix('#')?;
                let each = numbers.split(',').filter(|n| !n.is_empty());
                let list = each.map(|n| n.parse().ok()).collect::<Option<Vec<i64>>>()?;
                let sizes: &[usize] = if numbers.contains(',') { &[list.len()] } else { &[] };
                return self.integers(sizes, list);
            }
        };
        self.integers(&[list.len()], list)
    }

    /// The sizes of another shape with as many elements.
    fn pattern(&mut self, mut sizes: Vec<usize>) -> Vec<i64> {
        for _ in 0..1 + self.c.below(3) {
            let axis = self.c.below(sizes.len());
            match self.c.below(4) {
                0 if axis + 1 < sizes.len() => sizes[axis] *= sizes.remove(axis + 1),
                1 if sizes.len() < 6 => sizes.insert(axis, 1),
                2 if axis < sizes.len() && sizes[axis].is_multiple_of(2) && sizes.len() < 6 => {
                    sizes[axis] /= 2;
                    sizes.insert(axis, 2);
                }
                3 if axis < sizes.len() => sizes.rotate_left(axis),
                _ => {}
            }
        }
        let mut pattern: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
        if self.c.flag() && !pattern.is_empty() {
            let at = self.c.below(pattern.len());
            pattern[at] = -1;
        }
        pattern
    }
}

/// The sizes of a value; 3 for unknown ones.
pub(super) fn known_sizes(fact: &Fact) -> Vec<usize> {
    let dims = fact.shape.dims().unwrap_or_default();
    dims.iter().map(|dim| dim.size().filter(|size| *size <= MOST).unwrap_or(3)).collect()
}

/// Whether a value is allowed in a tame graph.
fn is_small(fact: &Fact) -> bool {
    let volume = fact.shape.volume().max();
    fact.element_type.is_static()
        && usize::try_from(volume).is_ok_and(|n| n <= MOST)
        && fact.shape.rank().is_some_and(|rank| rank <= 6)
}

/// The facts of the outputs of an operation, unless it rejects its attributes or inputs.
fn facts_of(
    (kind, version): (&str, &str),
    attributes: &[(&str, String)],
    inputs: &[Fact],
    bodies: &[Body],
    outputs: usize,
) -> Option<Vec<Fact>> {
    let data = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let layer = Layer {
        op_type: kind.to_owned(),
        version: version.to_owned(),
        data: data.collect(),
        bodies: bodies.to_vec(),
        inputs: vec![Port::default(); inputs.len()],
        outputs: vec![Port::default(); outputs],
        ..Layer::default()
    };
    let weights = Arc::new(Weights::default());
    let row = infer::find(kind, version).ok()?;
    let op = (row.parse)(&mut Attrs::new(&layer, &weights)).ok()?;
    let found = infer::infer_op(&*op, inputs, outputs, bodies, &Extensions::default(), None);
    found.ok().map(|(facts, _)| facts)
}
