//! `irrun inspect`: what a model consists of. Nothing is executed.

use crate::args::InspectArgs;
use crate::bind::{self, Declared, Port};
use crate::exit::{Exit, Failure, OrExit};
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
pub fn inspect(args: &InspectArgs) -> Result<Exit, Failure> {
    let graph = ir::read(bind::model_file(&args.model)).or_exit(Exit::Model)?;
    let declared = Declared::new(&graph, &args.shape)?;
    let facts = infer::analyse(&graph, &declared.given()).facts;
    let report = Inspection::new(&graph, &facts);
    match args.json {
        true => json::print(&report.report())?,
        false => print::text(report.text())?,
    }
    Ok(Exit::Good)
}

/// What `irrun inspect --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report<'a> {
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

struct Inspection<'a> {
    graph: &'a Graph,
    inputs: Vec<Interface>,
    outputs: Vec<Interface>,
    variables: Vec<(String, Fact)>,
    /// Number of layers by type and version, bodies included.
    operations: BTreeMap<(&'a str, &'a str), usize>,
    /// By element type.
    weights: BTreeMap<&'a str, Weights>,
    /// `rt_info` and its like, one line for each value.
    notes: Vec<(String, &'a str)>,
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
            "{}: IR version {}, {}\n",
            self.graph.name(),
            self.version(),
            plural(self.layers(), "layer")
        );
        let ports = |title: &str, ports: &[Interface]| {
            let row = |(i, each): (usize, &Interface)| {
                let port = &each.port;
                let names: Vec<&str> = match port.names.is_empty() {
                    true => vec![&port.friendly],
                    false => port.names.iter().map(String::as_str).collect(),
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
            row(["weights", element_type, &constants, &format!("{} bytes", w.bytes)])
        };
        section(&mut text, &self.weights.iter().map(weights).collect::<Vec<_>>());
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
            notes: self.notes.iter().map(|(path, value)| (path.as_str(), *value)).collect(),
        }
    }
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
