//! `irrun explain`: why a size is what it is, back to the input or constant that made it so; and
//! the page of a code.

mod causes;
mod quantity;

use crate::bind::Declared;
use crate::exit::{Exit, Failure, OrExit};
use crate::expression::Term;
use crate::json;
use crate::locate;
use crate::print;
use crate::surgery::induced;
use crate::text::nearest;
use anyhow::{bail, ensure};
use causes::{Cause, Rules};
use clap::Args;
use infer::{Fact, Facts};
use ir::{Graph, OutputRef};
use quantity::Quantity;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashSet;
use std::path::Path;

/// The page of all codes.
const PAGE: &str = include_str!("../../../../docs/errors.md");
/// Steps back that are told.
const MAX_STEPS: usize = 200;

/// Explaining a size or a code.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    irrun explain IR0502\n  \
    irrun explain model.xml encoder/Reshape_3:0:1\n  \
    irrun explain model.xml Reshape_3 --shape 'x[1,3,224,224]'")]
pub struct ExplainArgs {
    /// A code such as IR0502, or the model.
    #[arg(value_name = "CODE|MODEL.xml")]
    pub subject: String,
    /// The layer, by name or id; the output port, the first without it; the dim, all without it.
    #[arg(value_name = "LAYER[:PORT[:DIM]]")]
    pub layer: Option<String>,
    /// Shapes to use in place of those the model declares.
    #[arg(long, value_name = "NAME[1,3,224,224]")]
    pub shape: Vec<String>,
    /// A size for a name in --shape.
    #[arg(long, value_name = "N=4")]
    pub set: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What `irrun explain --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// The code, or the tensor with its type and shape.
    subject: String,
    /// What people read of a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    /// Each number of a shape with those that it follows from behind it.
    steps: Vec<Step>,
}

/// Where a number comes from.
#[derive(Serialize, JsonSchema)]
struct Step {
    /// How deep it lies: what a number follows from stands behind it, one deeper.
    depth: usize,
    /// The layers that have passed the number on unchanged, by type.
    unchanged_by: Vec<String>,
    /// The number that they give.
    #[serde(skip)]
    asked: String,
    /// `dim 1`, or `element 1` of a small tensor.
    number: String,
    /// The number, if it is known.
    value: Option<i64>,
    /// The layer, and where it stands in the file.
    layer: String,
    /// The arithmetic, or what it is: an input, a constant.
    how: String,
}

impl Step {
    /// A line for people.
    fn text(&self) -> String {
        let indent = "  ".repeat(self.depth + 1);
        let value = self.value.map_or("?".to_owned(), |n| n.to_string());
        let Step { number, layer, how, asked, .. } = self;
        if self.unchanged_by.is_empty() {
            return format!("{indent}{number} = {value}  {layer}: {how}\n");
        }
        let mut types: Vec<&str> = self.unchanged_by.iter().map(String::as_str).collect();
        types.dedup();
        let shown = types.iter().take(6).copied().collect::<Vec<_>>().join(", ");
        let more = if types.len() > 6 { ", …" } else { "" };
        format!(
            "{indent}{asked} = {value}, from {number} of {layer} through {shown}{more}: {how}\n"
        )
    }
}

/// Explains a size or a code.
///
/// # Errors
/// When there is no such code, model, layer, port or dim.
pub(crate) fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let Some(layer) = &args.layer else {
        let page = page(&args.subject).or_exit(Exit::Usage)?;
        if args.json {
            let subject = args.subject.clone();
            json::print(&Report { subject, page: Some(page), steps: Vec::new() })?;
        } else {
            print::text(page)?;
        }
        return Ok(Exit::Good);
    };
    let model = locate::model_file(Path::new(&args.subject));
    let graph = locate::read(&model).or_exit(Exit::Model)?;
    let shapes = crate::symbolic::substituted(&args.shape, &args.set).or_exit(Exit::Usage)?;
    let declared = Declared::new(&graph, &shapes)?;
    let facts = infer::analyse(&graph, &declared.given()).facts;
    let (tensor, dim) = quantity(&graph, &facts, layer).or_exit(Exit::Usage)?;
    let rank = facts.output(tensor).and_then(|fact| fact.shape.rank());
    let dims = match (dim, rank) {
        (Some(dim), _) => vec![dim],
        (None, Some(rank)) => (0..rank).collect(),
        (None, None) => Vec::new(),
    };
    let constant = induced::constant(&graph);
    let (told, steps) = (HashSet::new(), Vec::new());
    let rules = Rules { graph: &graph, facts: &facts };
    let mut story = Story { rules, constant, told, steps };
    let subject = story.head(tensor);
    for dim in dims {
        story.step(Quantity::Dim(tensor, dim), 0);
    }
    if args.json {
        json::print(&Report { subject, page: None, steps: story.steps })?;
    } else {
        let steps: String = story.steps.iter().map(Step::text).collect();
        print::text(format!("{subject}\n{steps}"))?;
    }
    Ok(Exit::Good)
}

/// What the documents say of a code.
fn page(code: &str) -> anyhow::Result<String> {
    let codes = || PAGE.lines().filter_map(|line| line.strip_prefix("## IR"));
    let known: Vec<String> =
        codes().filter_map(|line| Some(format!("IR{}", line.get(..4)?))).collect();
    let wanted = code.to_uppercase();
    let digits = wanted.strip_prefix("IR").unwrap_or(&wanted);
    let wanted = format!("IR{digits:0>4}");
    if !known.contains(&wanted) {
        ensure!(
            !Path::new(code).exists() && !code.ends_with(".xml"),
            "{code}: which layer? Write LAYER[:PORT[:DIM]] behind the model"
        );
        // The digits alone: all codes begin alike.
        let near = nearest(digits, known.iter().filter_map(|code| code.get(2..)));
        match near {
            Some(near) => bail!("there is no code {code}; did you mean IR{near}?"),
            None => bail!("there is no code {code}; there are {}", known.join(", ")),
        }
    }
    let start = PAGE.find(&format!("## {wanted}")).unwrap_or(0) + 3;
    let end = PAGE[start..].find("\n## ").map_or(PAGE.len(), |end| start + end);
    Ok(format!("{}\n", PAGE[start..end].trim_end()))
}

/// The tensor that `LAYER[:PORT[:DIM]]` means, and the dim. Names of layers may hold colons.
fn quantity(
    graph: &Graph,
    facts: &Facts,
    text: &str,
) -> anyhow::Result<(OutputRef, Option<usize>)> {
    let parts: Vec<&str> = text.rsplitn(3, ':').collect();
    let number = |i: usize| parts.get(i).and_then(|part| part.parse::<usize>().ok());
    let readings = [
        (text.to_owned(), None, None),
        (parts[1..].iter().rev().copied().collect::<Vec<_>>().join(":"), number(0), None),
        (parts.get(2).copied().unwrap_or_default().to_owned(), number(1), number(0)),
    ];
    let found = readings.iter().enumerate().find_map(|(i, (name, port, dim))| {
        let complete = i == 0 || port.is_some() && (i == 1 || dim.is_some());
        let layer = locate::layer(graph, name).ok().filter(|_| complete)?;
        Some((layer, port.unwrap_or(0), *dim))
    });
    let last = readings.iter().rev().find(|(name, port, _)| !name.is_empty() && port.is_some());
    let Some((mut layer, mut port, dim)) = found else {
        let name = last.map_or(text, |(name, ..)| name);
        locate::layer(graph, name)?;
        bail!("{text} is not of the form LAYER[:PORT[:DIM]]");
    };
    let title = graph.layers().get(layer).map(ir::Layer::title).unwrap_or_default();
    if let Some(source) = graph.inputs_of(layer).first().filter(|_| is_sink(graph, layer)) {
        (layer, port) = (source.layer, source.port);
    }
    let tensor = OutputRef { layer, port };
    let outputs = graph.layers().get(layer).map_or(0, |layer| layer.outputs.len());
    ensure!(
        port < outputs,
        "{title} has {}, so there is no output {port}; a dim is LAYER:PORT:DIM",
        crate::text::plural(outputs, "output")
    );
    let Some(fact) = facts.output(tensor) else {
        bail!("{title}: nothing is known of output {port}; `irrun check` says why");
    };
    if let (Some(dim), Some(rank)) = (dim, fact.shape.rank()) {
        ensure!(dim < rank, "{title}: output {port} is {fact}, which has no dim {dim}");
    }
    Ok((tensor, dim))
}

fn is_sink(graph: &Graph, layer: usize) -> bool {
    graph.layers().get(layer).is_some_and(|l| l.is("Result"))
}

struct Story<'a> {
    rules: Rules<'a>,
    /// Which layers depend on constants alone.
    constant: Vec<bool>,
    told: HashSet<Quantity>,
    steps: Vec<Step>,
}

impl Story<'_> {
    fn head(&self, tensor: OutputRef) -> String {
        let fact = self.rules.facts.output(tensor).map(Fact::to_string).unwrap_or_default();
        format!("{} output {}: {fact}", self.title(tensor), tensor.port)
    }

    fn title(&self, tensor: OutputRef) -> String {
        let Some(layer) = self.rules.graph.layers().get(tensor.layer) else { return String::new() };
        match self.rules.graph.source().place(layer.at) {
            place if place.is_empty() => layer.title(),
            place => format!("{} at {place}", layer.title()),
        }
    }

    /// Tells where a number comes from, and where those come from that it comes from.
    fn step(&mut self, quantity: Quantity, depth: usize) {
        let (mut quantity, mut passed) = (quantity, (quantity.name(), Vec::new()));
        loop {
            let tensor = quantity.tensor();
            let Some(fact) = self.rules.facts.output(tensor) else { return };
            let number = quantity.of(fact);
            if self.told.len() > MAX_STEPS || !self.told.insert(quantity) {
                self.line(depth, quantity, number, passed, "as above");
                return;
            }
            let layer = self.rules.graph.layers().get(tensor.layer);
            let is = |op_type: &str| layer.is_some_and(|l| l.is(op_type));
            let origin = match number {
                _ if is("Parameter") => Some("an input"),
                _ if is("Const") => Some("a constant"),
                None => Some("not known"),
                _ => None,
            };
            if let Some(origin) = origin {
                let reason = self.reason(quantity).unwrap_or_default();
                self.line(depth, quantity, number, passed, &format!("{origin}{reason}"));
                return;
            }
            let causes = self.told_causes(quantity, number.unwrap_or_default());
            match causes.as_slice() {
                [] => {
                    let why = "by the layer's own attributes";
                    self.line(depth, quantity, number, passed, why);
                    return;
                }
                [only] if only.term == Some(Term::IDENTITY) => {
                    passed.1.push(layer.map(|l| l.op_type.clone()).unwrap_or_default());
                    quantity = only.quantity;
                }
                several => {
                    let how = self.arithmetic(number.unwrap_or_default(), several);
                    self.line(depth, quantity, number, passed, &how);
                    for cause in several {
                        self.step(cause.quantity, depth + usize::from(several.len() > 1));
                    }
                    return;
                }
            }
        }
    }

    fn line(
        &mut self,
        depth: usize,
        q: Quantity,
        value: Option<i64>,
        (asked, unchanged_by): (String, Vec<String>),
        how: &str,
    ) {
        let (layer, how) = (self.title(q.tensor()), how.to_owned());
        self.steps.push(Step { depth, unchanged_by, asked, number: q.name(), value, layer, how });
    }

    /// Why a number is not known.
    fn reason(&self, quantity: Quantity) -> Option<String> {
        let fact = self.rules.facts.output(quantity.tensor())?;
        let why = match quantity {
            Quantity::Dim(_, axis) => fact.shape.dims()?.get(axis)?.why(),
            Quantity::Element(..) => return None,
        };
        self.rules.facts.reason(why).map(|reason| format!(": {reason}"))
    }

    /// What a number follows from, without axes, patterns and other constants where there is more
    /// to it than those.
    fn told_causes(&self, quantity: Quantity, number: i64) -> Vec<Cause> {
        let mut causes = self.rules.causes(quantity, number);
        let is_constant = |cause: &Cause| self.constant[cause.quantity.tensor().layer];
        if causes.iter().any(|cause| !is_constant(cause)) {
            causes.retain(|cause| !is_constant(cause));
        }
        causes
    }

    /// The arithmetic of a step: `196 = 14 · 14 (input 0 dim 2, input 0 dim 3)`.
    fn arithmetic(&self, number: i64, causes: &[Cause]) -> String {
        let place = |cause: &Cause| {
            let alike = cause.places.iter().filter(|(_, at)| at.name() == cause.quantity.name());
            let mut inputs: Vec<String> = alike.map(|(input, _)| input.to_string()).collect();
            inputs.sort_unstable();
            format!("{} of input {}", cause.quantity.name(), inputs.join(" and "))
        };
        let places: Vec<String> = causes.iter().map(place).collect();
        let numbers: Vec<String> = causes.iter().map(|c| c.number.to_string()).collect();
        let product = causes.iter().try_fold(1i64, |p, c| p.checked_mul(c.number));
        let sum: i64 = causes.iter().map(|c| c.number).sum();
        let how = match (causes, product) {
            ([only], _) => match only.term {
                Some(term) => term.to_string().replace('x', &only.number.to_string()),
                None => format!("from {}", only.number),
            },
            (_, Some(p)) if p == number => numbers.join(" · "),
            _ if sum == number => numbers.join(" + "),
            (_, Some(p)) if number != 0 && p % number == 0 => {
                format!("{} / {}", numbers.join(" · "), p / number)
            }
            (_, Some(p)) if p != 0 && number % p == 0 => {
                format!("{} · {}", number / p, numbers.join(" · "))
            }
            _ => format!("from {}", numbers.join(", ")),
        };
        format!("{how}, {}", places.join(", "))
    }
}
