//! `irrun check`: types and shapes of every layer, and everything that is wrong with a model.
//! Nothing is executed.

use crate::args::CheckArgs;
use crate::bind::{self, Declared};
use crate::exit::{Exit, Failure, OrExit};
use crate::finding::{self, Finding, counts, is_note, told};
use crate::inspect::layer_count;
use crate::locate;
use crate::memory::{self, Needed};
use crate::ranges::{self, Trial};
use crate::semantics::{self, Deviation, Semantics};
use crate::symbolic::{self, Runs, Symbols};
use crate::table::table;
use crate::text::plural;
use crate::{attribute, hint, json, lint, out, print, sarif, surgery};
use anyhow::anyhow;
use infer::{Analysis, Dim, Fact, Facts, Inputs, PartialShape, Why};
use ir::{
    Code, Diagnostic, Diagnostics, ElementType, Graph, Layer, OutputRef, Port, Severity, SourceFile,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// Checks a model.
///
/// # Errors
/// When there is no such file, or a flag is wrong.
pub(crate) fn check(args: &CheckArgs) -> Result<Exit, Failure> {
    out::leave_room_for_report(args.json, args.sarif.iter().map(PathBuf::as_path))?;
    let model = locate::model_file(&args.model);
    files_are_apart(args, &model).or_exit(Exit::Usage)?;
    // With `--memory` the heap is that of a run, which is told.
    if args.memory {
        memory::prefer_large_heap_for(&model);
    } else {
        memory::prefer_large_heap();
    }
    let graph = match locate::read(&model) {
        Ok(graph) => graph,
        Err(problems) if problems.list().iter().any(|p| p.code == Code::Unreadable) => {
            return Err(problems).or_exit(Exit::Model);
        }
        Err(problems) => return tell_of_no_graph(args, &problems),
    };
    // The process ends with the check: the system takes back the memory as a whole.
    let graph = ManuallyDrop::new(graph);
    some_layer_is_meant(args, &graph)?;
    let declared = declared(args, &graph)?;
    // First of all, as a run begins: what else is done takes memory too.
    let needed = args.memory.then(|| memory::needed(&graph, &declared));
    let (facts, all) = findings(args, &graph, &declared)?;
    let facts = ManuallyDrop::new(facts);
    write_sarif(args, &all, graph.source())?;
    let ok = match &args.output {
        Some(path) => mend(args, (&graph, &facts), &model, path)?,
        None => all.iter().all(is_note),
    };
    let can_run = all.iter().all(|p| p.severity != Severity::Error);
    if args.symbolic && (can_run || args.json) {
        return symbolic(args, &graph, (&all, can_run));
    }
    let needed = needed.filter(|_| can_run).transpose()?;
    let is_asked = args.semantics == Semantics::OpenvinoCpu;
    let deviations = is_asked.then(|| semantics::deviations(&graph, &facts));
    if args.json {
        let report = Report::new(layers(&graph, &facts), &all, graph.source());
        let deviations = deviations.unwrap_or_default();
        json::print(&Report { ok, deviations, memory: needed, ..report })?;
    } else {
        let told = deviations.as_deref().map_or(String::new(), semantics::text);
        let needed = needed.as_ref().map(memory::text).unwrap_or_default();
        print::text(text(args, &graph, &facts, &all) + &told + &needed)?;
        let hint = hint::operations(&all);
        if !hint.is_empty() {
            print::note(hint);
        }
    }
    Ok(if ok { Exit::Good } else { Exit::Failed })
}

/// Tells what is wrong with a file that is no graph.
fn tell_of_no_graph(args: &CheckArgs, problems: &Diagnostics) -> Result<Exit, Failure> {
    let (list, source) = (problems.list(), problems.source_file());
    write_sarif(args, list, source)?;
    if args.json {
        json::print(&Report::new(Vec::new(), list, source))?;
    } else {
        print::text(format!("{}\n{}\n", told(list, source), counts(list)))?;
        let hint = hint::model(problems);
        if !hint.is_empty() {
            print::note(hint.trim_start());
        }
    }
    Ok(Exit::Failed)
}

/// Refuses to write the report over the model or over what `--fix` writes.
fn files_are_apart(args: &CheckArgs, model: &Path) -> anyhow::Result<()> {
    let Some(report) = &args.sarif else { return Ok(()) };
    let bin = args.output.as_ref().map(|path| path.with_extension("bin"));
    let written = [Some(report), args.output.as_ref(), bin.as_ref()];
    let written: Vec<&Path> = written.into_iter().flatten().map(PathBuf::as_path).collect();
    out::keep_apart(&written, &out::of_model(model))
}

/// What the inputs are by `--shape` and `--range`.
fn declared(args: &CheckArgs, graph: &Graph) -> Result<Declared, Failure> {
    if args.symbolic {
        return Declared::new(graph, &symbolic::opened(&args.shape).or_exit(Exit::Usage)?);
    }
    let shapes = [&args.shape[..], &args.range].concat();
    let shapes = symbolic::substituted(&shapes, &args.set).or_exit(Exit::Usage)?;
    let (shapes, ranges) = shapes.split_at(args.shape.len().min(shapes.len()));
    Declared::by_flags(graph, &[("--shape", shapes), ("--range", ranges)])
}

/// What is known of a model, and all that the flags want said of it.
fn findings(
    args: &CheckArgs,
    graph: &Graph,
    declared: &Declared,
) -> Result<(Facts, Vec<Diagnostic>), Failure> {
    let Analysis { facts, findings } =
        infer::analyse(graph, &Inputs { nominal: true, ..declared.given() });
    let mut all: Vec<Diagnostic> = graph.warnings().to_vec();
    all.extend(findings);
    finding::tell_inputs(&mut all, graph, &facts);
    attribute::suggest(&mut all, graph);
    if !declared.overridden.is_empty() {
        // What a file declares is for the shapes it declares.
        all.retain(|p| p.code != Code::Declared);
    }
    if !all.iter().any(|p| p.severity == Severity::Error) {
        let trial = Trial::new(!args.range.is_empty(), args.exhaustive);
        all.extend(ranges::prove(graph, declared, trial)?);
    }
    if args.lint {
        all.extend(lint::findings(graph));
    }
    if args.weights {
        all.extend(lint::weights(graph));
    }
    Diagnostic::sort(&mut all);
    Ok((facts, all))
}

/// Writes the mended model, tells what was mended, and checks what is written: whether nothing is
/// wrong with it.
fn mend(
    args: &CheckArgs,
    (graph, facts): (&Graph, &Facts),
    model: &Path,
    path: &Path,
) -> Result<bool, Failure> {
    let fixed = lint::fixed(graph, facts).or_exit(Exit::Model)?;
    surgery::write(&fixed, model, path)?;
    let written = ir::read(path).or_exit(Exit::Model)?;
    let done = lint::mended(graph, &written);
    let done = if done.is_empty() { "nothing to fix".to_owned() } else { done };
    print::note(format_args!("{}: {done}", path.display()));
    let (_, left) = findings(args, &written, &declared(args, &written)?)?;
    Ok(left.iter().all(is_note))
}

/// Lists layers with their shapes as expressions of the sizes of the inputs, and what is found
/// whatever these are.
fn symbolic(
    args: &CheckArgs,
    graph: &Graph,
    (all, can_run): (&[Diagnostic], bool),
) -> Result<Exit, Failure> {
    let symbols = Symbols::new(graph, &args.shape)?;
    let runs = if can_run { symbols.runs(graph) } else { Runs::default() };
    let Runs { working: runs, mut refused } = runs;
    refused.sort_unstable();
    let refused: Vec<String> = refused.iter().map(|sizes| symbols.text(sizes)).collect();
    if runs.is_empty() && can_run {
        return Err(no_sizes(&symbols));
    }
    let exit = if all.iter().all(is_note) { Exit::Good } else { Exit::Failed };
    let layers = symbolic_layers(args, graph, &symbols, &runs);
    if args.json {
        let findings = Finding::all(all, graph.source());
        json::print(&symbolic::Report { layers, tested: runs.len(), refused, findings })?;
        return Ok(exit);
    }
    let mut rows = vec![["layer", "type", "name", "outputs"].map(str::to_owned).to_vec()];
    rows.extend(layers.into_iter().map(symbolic::LayerReport::row));
    let sizes = plural(runs.len(), "choice");
    let (domain, told) = (domain(&refused), told(all, graph.source()));
    let counts = if all.is_empty() { String::new() } else { format!("{}\n", counts(all)) };
    print::text(format!(
        "{}\nfound and tested with {sizes} of sizes{domain}\n{told}{counts}",
        table(&rows)
    ))?;
    Ok(exit)
}

fn no_sizes(symbols: &Symbols) -> Failure {
    let names = symbols.names.join(", ");
    let error = anyhow!(
        "no sizes were found that work for {}; name those that belong together, as in --shape \
         'a[N,L],b[N,L]', and give those that are fixed",
        if names.is_empty() { "inputs as they are declared" } else { &names }
    );
    Failure { exit: Exit::Failed, error }
}

/// The layers that are listed; none where no sizes work.
fn symbolic_layers(
    args: &CheckArgs,
    graph: &Graph,
    symbols: &Symbols,
    runs: &[(Vec<i64>, Facts)],
) -> Vec<symbolic::LayerReport> {
    if runs.is_empty() {
        return Vec::new();
    }
    let mut layers = Vec::new();
    for position in live(graph) {
        let Some(layer) = graph.layers().get(position).filter(|l| chosen(args, l)) else {
            continue;
        };
        let all = (0..layer.outputs.len()).map(|port| OutputRef { layer: position, port });
        let sources = graph.inputs_of(position);
        let tensors = if layer.is("Result") { sources.to_vec() } else { all.collect() };
        let shape = |t: &OutputRef| symbolic::shape(runs, *t, &symbols.names);
        layers.push(symbolic::LayerReport {
            layer: layer.id,
            op_type: format!("{}-{}", layer.op_type, layer.version),
            name: shown_name(graph, position),
            outputs: tensors.iter().map(shape).collect(),
        });
    }
    layers
}

/// What is said of sizes that do not work: expressions hold for the others.
fn domain(refused: &[String]) -> String {
    const SHOWN: usize = 5;
    if refused.is_empty() {
        return String::new();
    }
    let shown: Vec<&str> = refused.iter().take(SHOWN).map(String::as_str).collect();
    let more = if refused.len() > SHOWN { "; …" } else { "" };
    let others = plural(refused.len(), "other");
    format!("; {others} do not work: {}{more}", shown.join("; "))
}

/// Whether a layer is listed.
fn chosen(args: &CheckArgs, layer: &Layer) -> bool {
    match &args.only {
        Some(pattern) => locate::is_called(pattern, layer, false),
        None => args.all || layer.is("Parameter") || layer.is("Result"),
    }
}

fn write_sarif(
    args: &CheckArgs,
    findings: &[Diagnostic],
    source: &SourceFile,
) -> Result<(), Failure> {
    match &args.sarif {
        Some(path) => sarif::write(path, findings, source).or_exit(Exit::Input),
        None => Ok(()),
    }
}

/// A pattern that no layer matches is mistyped.
fn some_layer_is_meant(args: &CheckArgs, graph: &Graph) -> Result<(), Failure> {
    let Some(pattern) = &args.only else { return Ok(()) };
    let layers = || live(graph).into_iter().filter_map(|p| graph.layers().get(p));
    if layers().any(|layer| locate::is_called(pattern, layer, false)) {
        return Ok(());
    }
    Err(locate::none_called(pattern, layers())).or_exit(Exit::Usage)
}

/// The layers that are needed, in the order of the file.
fn live(graph: &Graph) -> Vec<usize> {
    let mut order = graph.order().to_vec();
    order.sort_unstable();
    order
}

/// What `irrun check --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Whether there are no errors and no warnings; with `--fix`, in what was written.
    ok: bool,
    /// The layers that are needed, in the order of the file.
    layers: Vec<LayerReport>,
    /// What is wrong.
    findings: Vec<Finding>,
    /// With `--semantics openvino-cpu`: what that may compute otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deviations: Vec<Deviation>,
    /// With `--memory`: what a run will need.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Needed>,
}

/// A layer and what is known of it.
#[derive(Serialize, JsonSchema)]
struct LayerReport {
    id: u64,
    name: String,
    /// The operation type.
    #[serde(rename = "type")]
    op_type: String,
    /// The opset.
    version: String,
    outputs: Vec<OutputReport>,
    /// The layers of each body of an If, Loop or TensorIterator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bodies: Vec<Vec<LayerReport>>,
}

/// An output port.
#[derive(Serialize, JsonSchema)]
struct OutputReport {
    /// The element type.
    #[serde(rename = "type")]
    element_type: &'static str,
    /// The shape that follows from the inputs, as OpenVINO writes partial shapes.
    shape: String,
    /// The shape that the file declares.
    declared: String,
    /// Why dims of it are open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_because: Vec<String>,
}

impl Report {
    fn new(layers: Vec<LayerReport>, findings: &[Diagnostic], source: &SourceFile) -> Report {
        let ok = findings.iter().all(is_note);
        let findings = Finding::all(findings, source);
        Report { ok, layers, findings, deviations: Vec::new(), memory: None }
    }
}

fn layers(graph: &Graph, facts: &Facts) -> Vec<LayerReport> {
    let layer = |position: usize| {
        let layer = graph.layers().get(position)?;
        let node = facts.node(position);
        let output = |(i, port): (usize, &Port)| {
            let fact = node.and_then(|n| n.outputs.get(i)).cloned().unwrap_or_else(Fact::unknown);
            OutputReport {
                element_type: fact.element_type.name(),
                shape: fact.shape.to_string(),
                declared: declared_shape(port).to_string(),
                unknown_because: reasons(&fact, facts),
            }
        };
        let inside = node.into_iter().flat_map(|node| layer.bodies.iter().zip(&node.bodies));
        Some(LayerReport {
            id: layer.id,
            name: layer.name.clone(),
            op_type: layer.op_type.clone(),
            version: layer.version.clone(),
            outputs: layer.outputs.iter().enumerate().map(output).collect(),
            bodies: inside.map(|(body, facts)| layers(&body.graph, facts)).collect(),
        })
    };
    live(graph).into_iter().filter_map(layer).collect()
}

fn declared_shape(port: &Port) -> PartialShape {
    let dim = |&d: &i64| if d < 0 { Dim::any() } else { Dim::fixed(d) };
    port.dims.iter().map(dim).collect()
}

fn text(args: &CheckArgs, graph: &Graph, facts: &Facts, findings: &[Diagnostic]) -> String {
    let mut rows = vec![["layer", "type", "name", "outputs"].map(str::to_owned).to_vec()];
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    for position in live(graph) {
        let Some(layer) = graph.layers().get(position).filter(|l| chosen(args, l)) else {
            continue;
        };
        let outputs = outputs(graph, facts, position);
        for reason in outputs.iter().flat_map(|(fact, _)| reasons(fact, facts)) {
            *unknown.entry(reason).or_default() += 1;
        }
        let stands_in = args.shape.is_empty() && args.range.is_empty();
        let outputs = outputs.iter();
        let shown = outputs.map(|(f, p)| shown(&of_interface(graph, layer, f), p, stands_in));
        let shown = shown.collect::<Vec<_>>().join("  ");
        let kind = format!("{}-{}", layer.op_type, layer.version);
        rows.push(vec![layer.id.to_string(), kind, shown_name(graph, position), shown]);
    }
    let mut out = table(&rows);
    if !unknown.is_empty() {
        out.push_str("\nunknown because\n");
        for (reason, count) in &unknown {
            out.push_str(&format!("  {reason} ({})\n", plural(*count, "tensor")));
        }
    }
    if !findings.is_empty() {
        out.push('\n');
    }
    out.push_str(&told(findings, graph.source()));
    out.push_str(&format!("\n{}, {}\n", layer_count(graph), counts(findings)));
    out
}

/// What is known of the outputs of a layer, and of what a Result takes, with their ports.
fn outputs(graph: &Graph, facts: &Facts, position: usize) -> Vec<(Fact, Port)> {
    let Some(layer) = graph.layers().get(position) else { return Vec::new() };
    let of = |source: OutputRef| {
        let port = graph.layers().get(source.layer)?.outputs.get(source.port)?.clone();
        Some((facts.output(source).cloned().unwrap_or_else(Fact::unknown), port))
    };
    if layer.is("Result") {
        return graph.inputs_of(position).iter().filter_map(|source| of(*source)).collect();
    }
    (0..layer.outputs.len()).filter_map(|port| of(OutputRef { layer: position, port })).collect()
}

/// The name of a layer; of an input or output first that of its tensor, which other commands take.
fn shown_name(graph: &Graph, position: usize) -> String {
    let place = |of: &[usize]| of.iter().position(|&p| p == position);
    let port = place(graph.parameters()).and_then(|i| bind::inputs(graph).into_iter().nth(i));
    let result = || place(graph.results()).and_then(|i| bind::outputs(graph).into_iter().nth(i));
    match port.or_else(result) {
        Some(port) if port.shown() != port.friendly => {
            format!("{} ({})", port.shown(), port.friendly)
        }
        Some(port) => port.friendly,
        None => graph.layers().get(position).map(|l| l.name.clone()).unwrap_or_default(),
    }
}

/// What callers give or get at an input or output, and the element type in the graph.
fn of_interface(graph: &Graph, layer: &Layer, fact: &Fact) -> (Fact, ElementType) {
    let own = fact.element_type;
    let element_type = match &*layer.op_type {
        "Parameter" => infer::input_type(graph, own),
        "Result" => infer::output_type(graph, own),
        _ => own,
    };
    (Fact { element_type, ..fact.clone() }, own)
}

/// A fact, or what the file declares where nothing is known, marked as such.
fn shown((fact, own): &(Fact, ElementType), port: &Port, stands_in: bool) -> String {
    let unknown = fact.element_type == ElementType::Dynamic || fact.shape.rank().is_none();
    match port.precision {
        Some(precision) if unknown && stands_in && precision.is_static() => {
            format!("{precision}{} (declared)", declared_shape(port))
        }
        _ if *own != fact.element_type => format!("{fact} ({own} in the graph)"),
        _ => fact.to_string(),
    }
}

/// Why the open dims of a tensor are unknown, each reason once.
fn reasons(fact: &Fact, facts: &Facts) -> Vec<String> {
    let whys: Vec<Why> = match &fact.shape {
        PartialShape::Unranked(why) => vec![*why],
        PartialShape::Ranked(dims) => {
            dims.iter().filter(|d| !d.is_static()).map(|d| d.why()).collect()
        }
    };
    let mut reasons: Vec<String> =
        whys.into_iter().filter_map(|w| facts.reason(w)).map(str::to_owned).collect();
    reasons.dedup();
    reasons
}
