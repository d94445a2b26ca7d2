//! `irrun check`: types and shapes of every layer, and everything that is wrong with a model.
//! Nothing is executed.

use crate::args::CheckArgs;
use crate::bind::{self, Declared};
use crate::exit::{Exit, Failure, OrExit};
use crate::print;
use crate::table::table;
use crate::text::{glob, plural};
use infer::{Analysis, Dim, Fact, Facts, Inputs, PartialShape, Why};
use ir::{Code, Graph, Layer, Port, Problem, Severity, Source};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

/// More bytes than what is known of most models. Those that are not used are never touched.
const HEAP: usize = 8 << 20;

/// Checks a model.
///
/// # Errors
/// When the file is no graph at all, or a flag is wrong.
pub fn check(args: &CheckArgs) -> Result<Exit, Failure> {
    runtime::prefer_large_heap(HEAP);
    let graph = match ir::read(bind::model_file(&args.model)) {
        Ok(graph) => graph,
        Err(problems) if args.json => {
            print::json(&report(&[], problems.list(), problems.source_file()))?;
            return Ok(Exit::Model);
        }
        Err(problems) => return Err(problems).or_exit(Exit::Model),
    };
    // The process ends with the check: the system takes back the memory as a whole.
    let graph = ManuallyDrop::new(graph);
    let declared = Declared::new(&graph, &args.shape)?;
    let Analysis { facts, findings } =
        infer::analyse(&graph, &Inputs { nominal: true, ..declared.given() });
    let facts = ManuallyDrop::new(facts);
    let mut all: Vec<Problem> = graph.warnings().to_vec();
    all.extend(findings);
    if !args.shape.is_empty() {
        // What a file declares is for the shapes it declares.
        all.retain(|p| p.code != Code::Declared);
    }
    Problem::sort(&mut all);
    if args.json {
        print::json(&report(&layers(&graph, &facts), &all, graph.source()))?;
    } else {
        print::text(text(args, &graph, &facts, &all))?;
    }
    Ok(if is_good(&all) { Exit::Good } else { Exit::Failed })
}

/// Whether nothing is wrong: notes are no faults.
fn is_good(findings: &[Problem]) -> bool {
    findings.iter().all(|p| p.severity == Severity::Note)
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
            "type": layer.kind,
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

fn report(layers: &[Value], findings: &[Problem], source: &Source) -> Value {
    let finding = |p: &Problem| {
        json!({
            "code": p.code.to_string(),
            "severity": p.severity.to_string(),
            "layer": p.layer,
            "line": source.line(p.at),
            "message": p.full_message(),
        })
    };
    json!({
        "schema": 1,
        "ok": is_good(findings),
        "layers": layers,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn text(args: &CheckArgs, graph: &Graph, facts: &Facts, findings: &[Problem]) -> String {
    let chosen = |layer: &Layer| match &args.only {
        Some(pattern) => glob(pattern, &layer.name),
        None => args.all || layer.is("Parameter") || layer.is("Result"),
    };
    let mut rows = vec![["layer", "type", "name", "outputs"].map(str::to_owned).to_vec()];
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    for position in live(graph) {
        let Some(layer) = graph.layers().get(position).filter(|l| chosen(l)) else { continue };
        let outputs: Vec<Fact> = match layer.is("Result") {
            true => {
                graph.inputs_of(position).iter().filter_map(|s| facts.output(*s)).cloned().collect()
            }
            false => facts.node(position).map(|n| n.outputs.clone()).unwrap_or_default(),
        };
        for reason in outputs.iter().flat_map(|f| reasons(f, facts)) {
            *unknown.entry(reason).or_default() += 1;
        }
        let shown: Vec<String> = outputs.iter().map(Fact::to_string).collect();
        let kind = format!("{}-{}", layer.kind, layer.version);
        rows.push(vec![layer.id.to_string(), kind, layer.name.clone(), shown.join("  ")]);
    }
    let mut out = match (&args.only, rows.len()) {
        (Some(pattern), 1) => format!("no layer has a name like {pattern}\n"),
        _ => table(&rows),
    };
    if !unknown.is_empty() {
        out.push_str("\nunknown because\n");
        for (reason, count) in &unknown {
            out.push_str(&format!("  {reason} ({})\n", plural(*count, "tensor")));
        }
    }
    if !findings.is_empty() {
        out.push('\n');
    }
    for problem in findings {
        out.push_str(&format!(
            "{} {}: {}\n",
            problem.severity,
            problem.code,
            problem.render(graph.source())
        ));
    }
    let count = |severity| findings.iter().filter(|p| p.severity == severity).count();
    out.push_str(&format!(
        "\n{}, {}, {}",
        plural(live(graph).len(), "layer"),
        plural(count(Severity::Error), "error"),
        plural(count(Severity::Warning), "warning")
    ));
    match count(Severity::Note) {
        0 => out.push('\n'),
        notes => out.push_str(&format!(", {}\n", plural(notes, "note"))),
    }
    out
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
