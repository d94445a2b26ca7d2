//! `irrun inspect`: what a model consists of. Nothing is executed.

use crate::args::InspectArgs;
use crate::bind::{self, Declared, Port};
use crate::cost;
use crate::exit::{Exit, Failure, OrExit};
use crate::locate;
use crate::look::dump;
use crate::statistics::Constant;
use crate::table::table;
use crate::text::plural;
use crate::{json, print};
use infer::{Fact, Facts};
use ir::{Element, ElementType, Graph};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Describes a model.
///
/// # Errors
/// When the file is no graph, or a flag is wrong. A model that `irrun check` finds fault with is
/// described as far as it is understood.
pub(crate) fn inspect(args: &InspectArgs) -> Result<Exit, Failure> {
    let graph = locate::read(&locate::model_file(&args.model)).or_exit(Exit::Model)?;
    let declared = Declared::new(&graph, &args.shape)?;
    let facts = infer::analyse(&graph, &declared.given()).facts;
    let report = Inspection::new(&graph, &facts);
    if args.json {
        json::print(&report.report())?
    } else {
        print::text(report.text())?
    }
    Ok(Exit::Good)
}

/// What `irrun inspect --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report<'a> {
    /// The name of the model.
    name: &'a str,
    /// The version of the IR.
    version: u32,
    /// The number of layers, those of bodies as well.
    layers: usize,
    inputs: Vec<InterfaceReport<'a>>,
    outputs: Vec<InterfaceReport<'a>>,
    variables: Vec<VariableReport<'a>>,
    /// The most frequent first.
    operations: Vec<OperationReport<'a>>,
    weights: Vec<WeightsReport<'a>>,
    cost: CostReport<'a>,
    /// What the file says of its making, by path.
    notes: BTreeMap<&'a str, &'a str>,
}

/// An input or output.
#[derive(Serialize, JsonSchema)]
struct InterfaceReport<'a> {
    /// The first name of its tensor, or that of its layer.
    name: &'a str,
    /// The names of its tensor.
    names: &'a [String],
    /// The name of its layer.
    layer: &'a str,
    /// The element type that callers give or get.
    #[serde(rename = "type")]
    element_type: &'static str,
    shape: String,
    /// The element type in the graph, if it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    type_in_graph: Option<&'static str>,
}

/// A variable.
#[derive(Serialize, JsonSchema)]
struct VariableReport<'a> {
    id: &'a str,
    /// The element type.
    #[serde(rename = "type")]
    element_type: &'static str,
    shape: String,
}

impl VariableReport<'_> {
    fn new((id, fact): &(String, Fact)) -> VariableReport<'_> {
        let shape = fact.shape.to_string();
        VariableReport { id, element_type: fact.element_type.name(), shape }
    }
}

/// How many layers there are of an operation.
#[derive(Serialize, JsonSchema)]
struct OperationReport<'a> {
    /// The operation type.
    #[serde(rename = "type")]
    op_type: &'a str,
    /// The opset.
    version: &'a str,
    count: usize,
}

impl<'a> OperationReport<'a> {
    fn new((&(op_type, version), count): (&(&'a str, &'a str), &usize)) -> OperationReport<'a> {
        OperationReport { op_type, version, count: *count }
    }
}

/// Constants of an element type.
#[derive(Serialize, JsonSchema)]
struct WeightsReport<'a> {
    /// The element type.
    #[serde(rename = "type")]
    element_type: &'a str,
    constants: usize,
    /// Bytes in the `.bin`; those that several constants share are counted once.
    bytes: u64,
}

/// What a run costs, as far as shapes are known.
#[derive(Serialize, JsonSchema)]
struct CostReport<'a> {
    /// Elements of weights.
    parameters: u64,
    /// Floating-point operations of a run.
    operations: u64,
    /// How many layers' operations are not known, because their shapes are open.
    layers_of_unknown_cost: usize,
    /// The most bytes of tensors at a time, without weights, if all shapes are known.
    peak_bytes: Option<u64>,
    blocks: Vec<BlockReport<'a>>,
}

/// Layers whose names begin alike.
#[derive(Serialize, JsonSchema)]
struct BlockReport<'a> {
    name: &'a str,
    layers: usize,
    parameters: u64,
    operations: u64,
}

/// Constants of one element type.
#[derive(Default)]
struct Weights {
    constants: usize,
    bytes: u64,
}

/// An input or output.
struct Interface {
    port: Port,
    /// What callers give or get.
    fact: Fact,
    /// The element type in the graph, if it is another.
    in_graph: Option<ElementType>,
}

impl Interface {
    fn new((port, (shown, fact)): (Port, (ElementType, Fact))) -> Interface {
        let in_graph = Some(fact.element_type).filter(|own| *own != shown);
        Interface { port, fact: Fact { element_type: shown, ..fact }, in_graph }
    }

    /// Type and shape, and the type in the graph.
    fn text(&self) -> String {
        match self.in_graph {
            Some(own) => format!("{} ({own} in the graph)", self.fact),
            None => self.fact.to_string(),
        }
    }

    fn report(&self) -> InterfaceReport<'_> {
        InterfaceReport {
            name: self.port.shown(),
            names: &self.port.names,
            layer: &self.port.friendly,
            element_type: self.fact.element_type.name(),
            shape: self.fact.shape.to_string(),
            type_in_graph: self.in_graph.map(ElementType::name),
        }
    }
}

/// How many layers a model has, and how many of them are in bodies or not needed.
pub(crate) fn layer_count(graph: &Graph) -> String {
    let mut all = Vec::new();
    dump::collect(graph, &mut all);
    let own = graph.layers().len();
    let parts = [(all.len() - own, "in bodies"), (own - graph.order().len(), "not needed")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    let of = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    plural(all.len(), "layer") + &of
}

struct Inspection<'a> {
    graph: &'a Graph,
    inputs: Vec<Interface>,
    outputs: Vec<Interface>,
    variables: Vec<(String, Fact)>,
    /// Number of layers by type and version, bodies included.
    operations: BTreeMap<(&'a str, &'a str), usize>,
    /// By element type.
    weights: BTreeMap<&'a str, Weights>,
    cost: Cost,
    /// `rt_info` and its like, one line for each value.
    notes: Vec<(String, &'a str)>,
}

/// What a run costs, as far as shapes are known.
#[derive(Default)]
struct Cost {
    /// Elements of constants that are numbers with a fraction, quantised weights among them.
    parameters: u64,
    /// Floating-point operations; of how many layers they are not known.
    operations: u64,
    unknown: usize,
    /// The most bytes of tensors at a time.
    peak: Option<u64>,
    /// By the outermost parts of names: layers, parameters, operations.
    blocks: BTreeMap<String, (usize, u64, u64)>,
}

impl Cost {
    fn new(graph: &Graph, facts: &Facts) -> Cost {
        let mut cost = Cost { peak: cost::peak(graph, facts), ..Cost::default() };
        let mut seen = BTreeSet::new();
        for &position in graph.order() {
            let Some(layer) = graph.layers().get(position).filter(|l| !l.is("Const")) else {
                continue;
            };
            // A constant belongs to the layer that reads it first.
            let sources = graph.inputs_of(position).iter().map(|source| source.layer);
            let own = sources.filter(|source| seen.insert(*source));
            let parameters: u64 = own.map(|source| parameters(graph, source)).sum();
            let operations = cost::operations(graph, facts, position);
            cost.unknown += usize::from(operations.is_none());
            cost.parameters = cost.parameters.saturating_add(parameters);
            cost.operations = cost.operations.saturating_add(operations.unwrap_or(0));
            if let Some(block) = outermost(&layer.name) {
                let entry = cost.blocks.entry(block).or_default();
                entry.0 += 1;
                entry.1 = entry.1.saturating_add(parameters);
                entry.2 = entry.2.saturating_add(operations.unwrap_or(0));
            }
        }
        cost
    }

    fn text(&self) -> Vec<Vec<String>> {
        let parameters = row(["parameters", &scaled(self.parameters, "")]);
        match self.peak.filter(|_| self.unknown == 0) {
            Some(peak) => vec![
                parameters,
                row(["operations", &format!("{} a run", scaled(self.operations, "FLOP"))]),
                row([
                    "memory",
                    &format!("{} of tensors at most, without weights", scaled(peak, "B")),
                ]),
            ],
            None => {
                let open = plural(self.unknown, "layer");
                let tip = format!("not known: shapes of {open} are open; give --shape");
                vec![parameters, row(["operations", &tip])]
            }
        }
    }

    fn blocks(&self) -> Vec<Vec<String>> {
        let block = |(name, (layers, parameters, operations)): (&String, &(usize, u64, u64))| {
            let mut cells = row(["block", name, &plural(*layers, "layer")]);
            cells.push(format!("{} parameters", scaled(*parameters, "")));
            if self.unknown == 0 {
                cells.push(scaled(*operations, "FLOP"));
            }
            cells
        };
        self.blocks.iter().map(block).collect()
    }

    fn report(&self) -> CostReport<'_> {
        CostReport {
            parameters: self.parameters,
            operations: self.operations,
            layers_of_unknown_cost: self.unknown,
            peak_bytes: self.peak,
            blocks: self.blocks.iter().map(BlockReport::new).collect(),
        }
    }
}

impl<'a> BlockReport<'a> {
    fn new((name, cost): (&'a String, &'a (usize, u64, u64))) -> BlockReport<'a> {
        let &(layers, parameters, operations) = cost;
        BlockReport { name, layers, parameters, operations }
    }
}

/// The elements of a constant, if it is one of weights.
fn parameters(graph: &Graph, position: usize) -> u64 {
    let layer = graph.layers().get(position);
    let constant = layer.and_then(|layer| Constant::of(graph, layer));
    let weights = constant.filter(|c| !is_index(c.element_type));
    weights.map_or(0, |c| u64::try_from(c.elements).unwrap_or(u64::MAX))
}

/// Types of patterns, axes and indices, which nobody trains.
fn is_index(element_type: ElementType) -> bool {
    use ElementType::*;
    matches!(element_type, I32 | I64 | U32 | U64 | Boolean | String)
}

/// The block that `irrun graph` would put a layer in first.
fn outermost(name: &str) -> Option<String> {
    let scope = crate::draw::scope_of(name)?;
    (!scope.is_empty()).then(|| scope.iter().take(2).cloned().collect::<Vec<_>>().join("/"))
}

impl<'a> Inspection<'a> {
    fn new(graph: &'a Graph, facts: &Facts) -> Inspection<'a> {
        let known = |fact: Option<&Fact>| match fact {
            Some(fact) => Fact { value: None, ..fact.clone() },
            None => Fact::unknown(),
        };
        let input = |&p: &usize| {
            let fact = known(facts.node(p).and_then(|n| n.outputs.first()));
            (infer::input_type(graph, fact.element_type), fact)
        };
        let output = |&p: &usize| {
            let source = graph.inputs_of(p).first();
            let fact = known(source.and_then(|&source| facts.output(source)));
            (infer::output_type(graph, fact.element_type), fact)
        };
        let mut report = Inspection {
            graph,
            inputs: bind::inputs(graph)
                .into_iter()
                .zip(graph.parameters().iter().map(input))
                .map(Interface::new)
                .collect(),
            outputs: bind::outputs(graph)
                .into_iter()
                .zip(graph.results().iter().map(output))
                .map(Interface::new)
                .collect(),
            variables: infer::variables(graph),
            operations: BTreeMap::new(),
            weights: BTreeMap::new(),
            cost: Cost::new(graph, facts),
            notes: Vec::new(),
        };
        report.count(graph, &mut BTreeSet::new());
        graph.notes().iter().for_each(|note| report.note("", note));
        report
    }

    /// Counts layers and weights; bytes that several constants share are counted once.
    fn count(&mut self, graph: &'a Graph, seen: &mut BTreeSet<(u64, u64)>) {
        for layer in graph.layers() {
            *self.operations.entry((&layer.op_type, &layer.version)).or_default() += 1;
            for body in &layer.bodies {
                self.count(&body.graph, seen);
            }
            let number = |key: &str| layer.attribute(key).and_then(|text| text.parse().ok());
            if let (Some(offset), Some(size)) = (number("offset"), number("size")) {
                let element_type = layer.attribute("element_type").unwrap_or("?");
                let weights = self.weights.entry(element_type).or_default();
                weights.constants += 1;
                weights.bytes += if seen.insert((offset, size)) { size } else { 0 };
            }
        }
    }

    fn note(&mut self, path: &str, element: &'a Element) {
        let attribute =
            |key: &str| element.attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let name = attribute("name").unwrap_or(&element.name);
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        if let Some(value) = attribute("value").or(Some(&*element.text).filter(|t| !t.is_empty())) {
            self.notes.push((path.clone(), value));
        }
        element.children.iter().for_each(|child| self.note(&path, child));
    }

    /// The version of OpenVINO that has made the file, where it says so.
    fn made_by(&self) -> Option<&'a str> {
        let value_of = |key: &&str| {
            let is_it = |path: &str| path.rsplit('/').next().is_some_and(|own| own == *key);
            self.notes.iter().find(|(path, value)| is_it(path) && !value.is_empty())
        };
        MADE_BY.iter().find_map(value_of).map(|(_, value)| *value)
    }

    fn layers(&self) -> usize {
        self.operations.values().sum()
    }

    /// The operations, the most frequent first.
    fn by_count(&self) -> Vec<(&(&str, &str), &usize)> {
        let mut operations: Vec<_> = self.operations.iter().collect();
        operations.sort_unstable_by_key(|(kind, count)| (std::cmp::Reverse(**count), **kind));
        operations
    }

    /// The version of the file, which may be older than that of the graph.
    fn version(&self) -> u32 {
        self.graph.legacy_version().unwrap_or(self.graph.version().number())
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}: IR version {}, {}{}\n",
            self.graph.name(),
            self.version(),
            layer_count(self.graph),
            self.made_by().map(|by| format!(", by OpenVINO {by}")).unwrap_or_default()
        );
        let ports = |title: &str, ports: &[Interface]| {
            let row = |(i, each): (usize, &Interface)| {
                let port = &each.port;
                let names: Vec<&str> = if port.names.is_empty() {
                    vec![&port.friendly]
                } else {
                    port.names.iter().map(String::as_str).collect()
                };
                row([title, &i.to_string(), &names.join(", "), &each.text()])
            };
            ports.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        section(
            &mut text,
            &[ports("input", &self.inputs), ports("output", &self.outputs)].concat(),
        );
        let variable = |(id, fact): &(String, Fact)| row(["variable", id, &fact.to_string()]);
        section(&mut text, &self.variables.iter().map(variable).collect::<Vec<_>>());
        let operation = |((kind, version), count): (&(&str, &str), &usize)| {
            row([kind, version, &count.to_string()])
        };
        section(&mut text, &self.by_count().into_iter().map(operation).collect::<Vec<_>>());
        let weights = |(element_type, w): (&&str, &Weights)| {
            let constants = plural(w.constants, "constant");
            row(["weights", element_type, &constants, &scaled(w.bytes, "B")])
        };
        section(&mut text, &self.weights.iter().map(weights).collect::<Vec<_>>());
        section(&mut text, &self.cost.text());
        section(&mut text, &self.cost.blocks());
        let note = |(path, value): &(String, &str)| row([path, value]);
        section(&mut text, &self.notes.iter().map(note).collect::<Vec<_>>());
        text
    }

    fn report(&self) -> Report<'_> {
        let weights = |(element_type, w): (&&'a str, &Weights)| WeightsReport {
            element_type,
            constants: w.constants,
            bytes: w.bytes,
        };
        Report {
            name: self.graph.name(),
            version: self.version(),
            layers: self.layers(),
            inputs: self.inputs.iter().map(Interface::report).collect(),
            outputs: self.outputs.iter().map(Interface::report).collect(),
            variables: self.variables.iter().map(VariableReport::new).collect(),
            operations: self.by_count().into_iter().map(OperationReport::new).collect(),
            weights: self.weights.iter().map(weights).collect(),
            cost: self.cost.report(),
            notes: self.notes.iter().map(|(path, value)| (path.as_str(), *value)).collect(),
        }
    }
}

/// Where files say which OpenVINO has made them: as they run, and as they were converted.
const MADE_BY: [&str; 3] = ["Runtime_version", "openvino_version", "MO_version"];

/// A number with three digits and a prefix for the power of a thousand: `9.03 GFLOP`, `812 B`.
fn scaled(number: u64, unit: &str) -> String {
    const PREFIXES: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    let plain = number as f64;
    let mut scaled = (plain, "");
    for prefix in PREFIXES {
        // What would be rounded to a thousand is one of the next.
        if scaled.0 < 999.5 {
            break;
        }
        scaled = (scaled.0 / 1000.0, prefix);
    }
    let (value, prefix) = scaled;
    let digits = match value {
        _ if prefix.is_empty() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {prefix}{unit}").trim_end().to_owned()
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn section(text: &mut String, rows: &[Vec<String>]) {
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(rows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (99_960, "100 kB"),
            (999_600, "1.00 MB"),
            (115_192_224, "115 MB"),
            (9_034_184_974, "9.03 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(scaled(number, "B"), text);
        }
        assert_eq!(scaled(28_288_354, ""), "28.3 M");
    }
}
