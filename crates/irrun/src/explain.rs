//! `irrun explain`: why a size is what it is, back to the input or constant that made it so; and
//! the page of a code.

use crate::bind::Declared;
use crate::exit::{Exit, Failure, OrExit};
use crate::expression::Term;
use crate::json;
use crate::locate;
use crate::print;
use crate::surgery::induced;
use crate::text::nearest;
use anyhow::{bail, ensure};
use clap::Args;
use infer::{Dim, Elements, Extensions, Fact, Facts, Interval};
use ir::{Graph, OutputRef};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The page of all codes.
const PAGE: &str = include_str!("../../../docs/errors.md");
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
    /// A line for people, and one before it where layers have passed the number on.
    fn text(&self) -> String {
        let indent = "  ".repeat(self.depth + 1);
        let value = self.value.map_or("?".to_owned(), |n| n.to_string());
        let mut text = String::new();
        if !self.unchanged_by.is_empty() {
            let mut types: Vec<&str> = self.unchanged_by.iter().map(String::as_str).collect();
            types.dedup();
            let shown = types.iter().take(6).copied().collect::<Vec<_>>().join(", ");
            let more = if types.len() > 6 { ", …" } else { "" };
            let layers = crate::text::plural(self.unchanged_by.len(), "layer");
            let _ = writeln!(text, "{indent}unchanged by {layers} ({shown}{more}) from");
        }
        let Step { number, layer, how, .. } = self;
        let _ = writeln!(text, "{indent}{number} = {value}  {layer}: {how}");
        text
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
    let mut story = Story { graph: &graph, facts: &facts, constant, told, steps };
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

/// A number that rules of operations compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Quantity {
    /// A dim of a tensor.
    Dim(OutputRef, usize),
    /// An element of a small tensor.
    Element(OutputRef, usize),
}

impl Quantity {
    fn tensor(self) -> OutputRef {
        match self {
            Quantity::Dim(tensor, _) | Quantity::Element(tensor, _) => tensor,
        }
    }

    fn of(self, fact: &Fact) -> Option<i64> {
        match self {
            Quantity::Dim(_, axis) => fact.shape.dims()?.get(axis)?.value(),
            Quantity::Element(_, index) => {
                let value = fact.value.as_ref()?.intervals()?.get(index)?.value()?;
                i64::try_from(value).ok()
            }
        }
    }

    /// The fact with another number here.
    fn put(self, fact: &Fact, number: i64) -> Fact {
        match self {
            Quantity::Dim(_, axis) => {
                let shape = fact.shape.clone().with_dim(axis, Dim::fixed(number));
                Fact { shape, value: None, ..fact.clone() }
            }
            Quantity::Element(..) => self.with(fact, Interval::exact(number)),
        }
    }

    /// The fact with this number not known.
    fn opened(self, fact: &Fact) -> Fact {
        match self {
            Quantity::Dim(_, axis) => {
                let shape = fact.shape.clone().with_dim(axis, Dim::any());
                Fact { shape, value: None, ..fact.clone() }
            }
            Quantity::Element(..) => self.with(fact, Interval::between(1, Interval::INF)),
        }
    }

    fn with(self, fact: &Fact, number: Interval) -> Fact {
        let mut fact = fact.clone();
        if let Quantity::Element(_, index) = self
            && let Some(value) = &mut fact.value
            && let Elements::Int(elements) = &mut Arc::make_mut(value).elements
            && let Some(slot) = elements.get_mut(index)
        {
            *slot = number;
        }
        fact
    }

    fn name(self) -> String {
        match self {
            Quantity::Dim(_, axis) => format!("dim {axis}"),
            Quantity::Element(_, index) => format!("element {index}"),
        }
    }
}

/// What an output number of a layer depends on.
struct Cause {
    /// Where inputs have the number: at several places where a rule wants them equal.
    places: Vec<(usize, Quantity)>,
    /// The first of them.
    quantity: Quantity,
    number: i64,
    /// How the output follows from it, if others stay as they are.
    term: Option<Term>,
}

struct Story<'a> {
    graph: &'a Graph,
    facts: &'a Facts,
    /// Which layers depend on constants alone.
    constant: Vec<bool>,
    told: HashSet<Quantity>,
    steps: Vec<Step>,
}

impl Story<'_> {
    fn head(&self, tensor: OutputRef) -> String {
        let fact = self.facts.output(tensor).map(Fact::to_string).unwrap_or_default();
        format!("{} output {}: {fact}", self.title(tensor), tensor.port)
    }

    fn title(&self, tensor: OutputRef) -> String {
        let Some(layer) = self.graph.layers().get(tensor.layer) else { return String::new() };
        match self.graph.source().place(layer.at) {
            place if place.is_empty() => layer.title(),
            place => format!("{} at {place}", layer.title()),
        }
    }

    /// Tells where a number comes from, and where those come from that it comes from.
    fn step(&mut self, quantity: Quantity, depth: usize) {
        let (mut quantity, mut passed) = (quantity, Vec::new());
        loop {
            let tensor = quantity.tensor();
            let Some(fact) = self.facts.output(tensor) else { return };
            let number = quantity.of(fact);
            if self.told.len() > MAX_STEPS || !self.told.insert(quantity) {
                self.line(depth, quantity, number, passed, "as above");
                return;
            }
            let layer = self.graph.layers().get(tensor.layer);
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
                    passed.push(layer.map(|l| l.op_type.clone()).unwrap_or_default());
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
        unchanged_by: Vec<String>,
        how: &str,
    ) {
        let (layer, how) = (self.title(q.tensor()), how.to_owned());
        self.steps.push(Step { depth, unchanged_by, number: q.name(), value, layer, how });
    }

    /// Why a number is not known.
    fn reason(&self, quantity: Quantity) -> Option<String> {
        let fact = self.facts.output(quantity.tensor())?;
        let why = match quantity {
            Quantity::Dim(_, axis) => fact.shape.dims()?.get(axis)?.why(),
            Quantity::Element(..) => return None,
        };
        self.facts.reason(why).map(|reason| format!(": {reason}"))
    }

    /// What a number follows from, without axes, patterns and other constants where there is more
    /// to it than those.
    fn told_causes(&self, quantity: Quantity, number: i64) -> Vec<Cause> {
        let mut causes = self.causes(quantity, number);
        let is_constant = |cause: &Cause| self.constant[cause.quantity.tensor().layer];
        if causes.iter().any(|cause| !is_constant(cause)) {
            causes.retain(|cause| !is_constant(cause));
        }
        causes
    }

    /// What a number follows from, found by asking the layer's rule with other numbers.
    fn causes(&self, quantity: Quantity, number: i64) -> Vec<Cause> {
        let position = quantity.tensor().layer;
        let sources = self.graph.inputs_of(position);
        let known = |source: &OutputRef| self.facts.output(*source).cloned();
        let Some(inputs) = sources.iter().map(known).collect::<Option<Vec<Fact>>>() else {
            return Vec::new();
        };
        let mut causes: Vec<Cause> = Vec::new();
        for (input, fact) in inputs.iter().enumerate() {
            for at in numbers(sources[input], fact) {
                let is_told = causes.iter().any(|cause| cause.places.contains(&(input, at)));
                let (Some(old), false) = (at.of(fact), is_told) else { continue };
                let Some(cause) = self.cause(quantity, number, &inputs, (input, at, old)) else {
                    continue;
                };
                let is_equal = |other: &&mut Cause| {
                    let equal = [&cause, other].iter().all(|c| c.term == Some(Term::IDENTITY));
                    equal && aligned(&inputs, sources, at).contains(&other.places[0])
                };
                match causes.iter_mut().find(is_equal) {
                    Some(other) => other.places.extend(cause.places),
                    None => causes.push(cause),
                }
            }
        }
        if causes.is_empty() {
            causes.extend(wanted(quantity, number, &inputs, sources));
        }
        causes
    }

    /// How an output number follows from one of an input; `None` where it does not.
    fn cause(
        &self,
        out: Quantity,
        number: i64,
        inputs: &[Fact],
        (input, at, old): (usize, Quantity, i64),
    ) -> Option<Cause> {
        let sources = self.graph.inputs_of(out.tensor().layer);
        let tried = |group: Vec<(usize, Quantity)>| {
            let ask = |new: i64| self.ask(out, inputs, &group, new);
            (points(old, number, &ask), group)
        };
        let follows = |points: &[(i64, i64)]| points.iter().any(|(_, y)| *y != number);
        // What must stay equal is changed together: the dims that broadcasting aligns, else all of
        // this size.
        let mut found = tried(vec![(input, at)]);
        if !follows(&found.0) {
            let other = tried(aligned(inputs, sources, at));
            found = if other.0.len() > 1 { other } else { found };
        }
        if found.0.len() < 2 {
            found = tried(alike(inputs, sources, old));
        }
        let (points, mut places) = found;
        let term = match points.len() {
            // No other number is allowed: does the output become open where this one is?
            0 | 1 if !self.opens(out, inputs, (input, at)) => return None,
            0 | 1 => (old == number).then_some(Term::IDENTITY),
            _ if !follows(&points) => return None,
            _ => Term::through(&points),
        };
        // The number that was asked about stands for the others.
        places.retain(|place| *place != (input, at));
        places.insert(0, (input, at));
        Some(Cause { places, quantity: at, number: old, term })
    }

    /// The number that comes out when some numbers of the inputs are another; `None` where the rule
    /// does not allow that.
    fn ask(
        &self,
        out: Quantity,
        inputs: &[Fact],
        at: &[(usize, Quantity)],
        new: i64,
    ) -> Option<i64> {
        let mut inputs = inputs.to_vec();
        for (input, quantity) in at {
            inputs[*input] = quantity.put(&inputs[*input], new);
        }
        out.of(self.outputs(out, &inputs)?.get(out.tensor().port)?)
    }

    /// Whether an output number is not known where a number of an input is not.
    fn opens(&self, out: Quantity, inputs: &[Fact], (input, at): (usize, Quantity)) -> bool {
        let mut inputs = inputs.to_vec();
        inputs[input] = at.opened(&inputs[input]);
        self.outputs(out, &inputs).is_some_and(|outputs| {
            outputs.get(out.tensor().port).is_some_and(|fact| out.of(fact).is_none())
        })
    }

    /// What is known of the outputs of a layer with these inputs, if its rule allows them.
    fn outputs(&self, out: Quantity, inputs: &[Fact]) -> Option<Vec<Fact>> {
        let position = out.tensor().layer;
        let layer = self.graph.layers().get(position)?;
        let op = &self.facts.node(position)?.op;
        let count = layer.outputs.len();
        Some(
            infer::infer_op(&**op, inputs, count, &layer.bodies, &Extensions::default(), None)
                .ok()?
                .0,
        )
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

/// The element of a wanted shape that a dim is, as Reshape and Broadcast take one. It cannot be
/// another alone, so that asking the rule tells nothing of it.
fn wanted(out: Quantity, number: i64, inputs: &[Fact], sources: &[OutputRef]) -> Option<Cause> {
    let Quantity::Dim(_, axis) = out else { return None };
    let element = |(input, fact): (usize, &Fact)| {
        let at = Quantity::Element(sources[input], axis);
        let has_it = fact.value.is_some() && at.of(fact) == Some(number);
        has_it.then_some((input, at))
    };
    let (input, quantity) = inputs.iter().enumerate().skip(1).find_map(element)?;
    Some(Cause { places: vec![(input, quantity)], quantity, number, term: Some(Term::IDENTITY) })
}

/// The dims of all inputs that broadcasting aligns with a dim of one, if they have its size.
fn aligned(inputs: &[Fact], sources: &[OutputRef], at: Quantity) -> Vec<(usize, Quantity)> {
    let Quantity::Dim(tensor, axis) = at else { return Vec::new() };
    let rank = |fact: &Fact| fact.shape.rank().unwrap_or(0);
    let own = sources.iter().position(|source| *source == tensor);
    let Some(fact) = own.and_then(|own| inputs.get(own)) else { return Vec::new() };
    let (behind, size) = (rank(fact).saturating_sub(axis), at.of(fact));
    let other = |(input, fact): (usize, &Fact)| {
        let place = Quantity::Dim(sources[input], rank(fact).checked_sub(behind)?);
        (!has_elements(fact) && place.of(fact) == size).then_some((input, place))
    };
    inputs.iter().enumerate().filter_map(other).collect()
}

/// The numbers of an input: its elements where they are known, else its dims.
fn numbers(tensor: OutputRef, fact: &Fact) -> Vec<Quantity> {
    const ELEMENTS: usize = 64;
    let elements = fact.value.as_ref().and_then(|v| v.intervals()).map(<[Interval]>::len);
    match elements {
        Some(count) if count <= ELEMENTS => {
            (0..count).map(|i| Quantity::Element(tensor, i)).collect()
        }
        _ => (0..fact.shape.rank().unwrap_or(0)).map(|axis| Quantity::Dim(tensor, axis)).collect(),
    }
}

/// Whether rules compute with the elements of a tensor: integers that are known.
fn has_elements(fact: &Fact) -> bool {
    fact.value.as_ref().is_some_and(|value| value.intervals().is_some())
}

/// All dims of all inputs that have the same size, which a rule may want to stay equal.
fn alike(inputs: &[Fact], sources: &[OutputRef], size: i64) -> Vec<(usize, Quantity)> {
    let mut found = Vec::new();
    for (input, fact) in inputs.iter().enumerate().filter(|(_, fact)| !has_elements(fact)) {
        for (axis, dim) in fact.shape.dims().unwrap_or_default().iter().enumerate() {
            if dim.value() == Some(size) {
                found.push((input, Quantity::Dim(sources[input], axis)));
            }
        }
    }
    found
}

/// What comes out for some numbers near one, and for multiples of it.
fn points(old: i64, number: i64, ask: &dyn Fn(i64) -> Option<i64>) -> Vec<(i64, i64)> {
    let near = (1..=9).flat_map(|step| [old + step, old - step]);
    let far = [2, 3, 4, 8].into_iter().map(|times| old.saturating_mul(times));
    let mut points: Vec<(i64, i64)> = near
        .chain(far)
        .filter(|new| *new > 0 && *new != old)
        .filter_map(|new| Some((new, ask(new)?)))
        .collect();
    points.push((old, number));
    points.sort_unstable();
    points.dedup();
    points
}
