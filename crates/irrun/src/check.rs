//! `irrun check`: types and shapes of every layer, and everything that is wrong with a model.
//! Nothing is executed.

use crate::args::CheckArgs;
use crate::bind::{self, Declared};
use crate::exit::{Exit, Failure, OrExit};
use crate::print;
use crate::ranges;
use crate::table::table;
use crate::text::{glob, nearest, plural};
use anyhow::anyhow;
use infer::{Analysis, Dim, Fact, Facts, Inputs, PartialShape, Why};
use ir::{Code, Diagnostic, ElementType, Graph, Layer, OutputRef, Port, Severity, SourceFile};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

/// More bytes than what is known of most models. Those that are not used are never touched.
const HEAP: usize = 8 << 20;

/// Checks a model.
///
/// # Errors
/// When there is no such file, or a flag is wrong.
pub fn check(args: &CheckArgs) -> Result<Exit, Failure> {
    runtime::prefer_large_heap(HEAP);
    let graph = match ir::read(bind::model_file(&args.model)) {
        Ok(graph) => graph,
        Err(problems) if problems.list().iter().any(|p| p.code == Code::Unreadable) => {
            return Err(problems).or_exit(Exit::Model);
        }
        Err(problems) => {
            let (list, source) = (problems.list(), problems.source_file());
            if args.json {
                print::json(&report(&[], list, source))?;
            } else {
                print::text(format!("{}\n{}\n", told(list, source), counts(list)))?;
            }
            return Ok(Exit::Failed);
        }
    };
    // The process ends with the check: the system takes back the memory as a whole.
    let graph = ManuallyDrop::new(graph);
    let declared = Declared::new(&graph, &args.shape)?;
    some_layer_is_meant(args, &graph)?;
    let Analysis { facts, findings } =
        infer::analyse(&graph, &Inputs { nominal: true, ..declared.given() });
    let facts = ManuallyDrop::new(facts);
    let mut all: Vec<Diagnostic> = graph.warnings().to_vec();
    all.extend(findings);
    if !args.shape.is_empty() {
        // What a file declares is for the shapes it declares.
        all.retain(|p| p.code != Code::Declared);
    }
    if !all.iter().any(|p| p.severity == Severity::Error) {
        all.extend(ranges::prove(&graph, &declared));
    }
    Diagnostic::sort(&mut all);
    if args.json {
        print::json(&report(&layers(&graph, &facts), &all, graph.source()))?;
    } else {
        print::text(text(args, &graph, &facts, &all))?;
    }
    Ok(if all.iter().all(is_note) { Exit::Good } else { Exit::Failed })
}

fn is_note(problem: &Diagnostic) -> bool {
    problem.severity == Severity::Note
}

/// A pattern that no layer matches is mistyped.
fn some_layer_is_meant(args: &CheckArgs, graph: &Graph) -> Result<(), Failure> {
    let Some(pattern) = &args.only else { return Ok(()) };
    let names = || live(graph).into_iter().filter_map(|p| graph.layers().get(p));
    if names().any(|layer| glob(pattern, &layer.name)) {
        return Ok(());
    }
    let hint = match nearest(pattern, names().map(|layer| layer.name.as_str())) {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None => "; `irrun check --all` lists the layers".to_owned(),
    };
    let error = anyhow!("--only {pattern}: no layer has such a name{hint}");
    Err(Failure { exit: Exit::Usage, error })
}

/// The layers that are needed, in the order of the file.
fn live(graph: &Graph) -> Vec<usize> {
    let mut order = graph.order().to_vec();
    order.sort_unstable();
    order
}

fn layers(graph: &Graph, facts: &Facts) -> Vec<Value> {
    let layer = |position: usize| {
        let layer = graph.layers().get(position)?;
        let node = facts.node(position);
        let output = |(i, port): (usize, &Port)| {
            let fact = node.and_then(|n| n.outputs.get(i)).cloned().unwrap_or_else(Fact::unknown);
            let mut value = json!({
                "type": fact.element_type.name(),
                "shape": fact.shape.to_string(),
                "declared": declared_shape(port).to_string(),
            });
            let reasons = reasons(&fact, facts);
            if let (false, Some(map)) = (reasons.is_empty(), value.as_object_mut()) {
                map.insert("unknown_because".to_owned(), json!(reasons));
            }
            value
        };
        let mut value = json!({
            "id": layer.id,
            "name": layer.name,
            "type": layer.op_type,
            "version": layer.version,
            "outputs": layer.outputs.iter().enumerate().map(output).collect::<Vec<_>>(),
        });
        if let (Some(node), Some(map)) = (node, value.as_object_mut())
            && !layer.bodies.is_empty()
        {
            let bodies = layer.bodies.iter().zip(&node.bodies);
            let bodies: Vec<Value> = bodies.map(|(b, f)| json!(layers(&b.graph, f))).collect();
            map.insert("bodies".to_owned(), json!(bodies));
        }
        Some(value)
    };
    live(graph).into_iter().filter_map(layer).collect()
}

fn declared_shape(port: &Port) -> PartialShape {
    let dim = |&d: &i64| if d < 0 { Dim::any() } else { Dim::fixed(d) };
    port.dims.iter().map(dim).collect()
}

fn report(layers: &[Value], findings: &[Diagnostic], source: &SourceFile) -> Value {
    let finding = |p: &Diagnostic| {
        json!({
            "code": p.code.to_string(),
            "severity": p.severity.to_string(),
            "layer": p.layer,
            "name": p.name_and_type.as_ref().map(|(name, _)| name),
            "type": p.name_and_type.as_ref().map(|(_, op_type)| op_type),
            "port": p.port,
            "inputs": inputs(p),
            "line": source.line(p.at),
            "message": p.full_message(),
            "alike": p.alike,
            "behind": p.behind,
        })
    };
    json!({
        "schema": 1,
        "ok": findings.iter().all(is_note),
        "layers": layers,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// The types and shapes that a layer was given, as its finding names them.
fn inputs(problem: &Diagnostic) -> Vec<&str> {
    let list = problem.context.as_deref().and_then(|c| c.strip_prefix("inputs: "));
    list.map(|list| list.split("  ").collect()).unwrap_or_default()
}

fn text(args: &CheckArgs, graph: &Graph, facts: &Facts, findings: &[Diagnostic]) -> String {
    let chosen = |layer: &Layer| match &args.only {
        Some(pattern) => glob(pattern, &layer.name),
        None => args.all || layer.is("Parameter") || layer.is("Result"),
    };
    let mut rows = vec![["layer", "type", "name", "outputs"].map(str::to_owned).to_vec()];
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    for position in live(graph) {
        let Some(layer) = graph.layers().get(position).filter(|l| chosen(l)) else { continue };
        let outputs = outputs(graph, facts, position);
        for reason in outputs.iter().flat_map(|(fact, _)| reasons(fact, facts)) {
            *unknown.entry(reason).or_default() += 1;
        }
        let stands_in = args.shape.is_empty();
        let shown: Vec<String> = outputs.iter().map(|(f, p)| shown(f, p, stands_in)).collect();
        let kind = format!("{}-{}", layer.op_type, layer.version);
        rows.push(vec![layer.id.to_string(), kind, layer.name.clone(), shown.join("  ")]);
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
    out.push_str(&format!("\n{}, {}\n", plural(live(graph).len(), "layer"), counts(findings)));
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

/// A fact, or what the file declares where nothing is known, marked as such.
fn shown(fact: &Fact, port: &Port, stands_in: bool) -> String {
    let unknown = fact.element_type == ElementType::Dynamic || fact.shape.rank().is_none();
    match port.precision {
        Some(precision) if unknown && stands_in && precision.is_static() => {
            format!("{precision}{} (declared)", declared_shape(port))
        }
        _ => fact.to_string(),
    }
}

/// A line for each finding.
fn told(findings: &[Diagnostic], source: &SourceFile) -> String {
    let line = |p: &Diagnostic| format!("{} {}: {}\n", p.severity, p.code, p.render(source));
    findings.iter().map(line).collect()
}

/// `1 error, 0 warnings`, and notes if there are any.
fn counts(findings: &[Diagnostic]) -> String {
    let count = |wanted| findings.iter().filter(|p| p.severity == wanted).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let text = format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"));
    match count(Severity::Note) {
        0 => text,
        notes => format!("{text}, {}", plural(notes, "note")),
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
