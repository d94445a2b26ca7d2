//! What is wrong with a model, for people and for programs.

use crate::text::plural;
use infer::{Facts, Inputs};
use ir::{Diagnostic, Diagnostics, Graph, Severity, SourceFile};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// A finding as JSON has it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Finding {
    /// The stable code, such as `IR0502`, that `docs/errors.md` explains.
    code: String,
    /// `error`, `warning` or `note`; a note is no fault.
    severity: String,
    /// The id of the layer; null where the file is meant.
    layer: Option<u64>,
    /// Its name.
    name: Option<String>,
    /// Its operation type.
    #[serde(rename = "type")]
    op_type: Option<String>,
    /// The port as the specification calls it, such as `input 2 (axes)`.
    port: Option<String>,
    /// The types and shapes that the layer was given.
    inputs: Vec<String>,
    /// The line of the XML, counted from 1.
    line: usize,
    /// What is wrong and what to do.
    message: String,
    /// How many more layers are wrong in the same way.
    alike: usize,
    /// How many layers are not known, or differ from what is declared, because of it.
    behind: usize,
}

impl Finding {
    /// The findings of a file.
    pub(crate) fn all(problems: &[Diagnostic], source: &SourceFile) -> Vec<Finding> {
        problems.iter().map(|problem| Finding::new(problem, source)).collect()
    }

    fn new(problem: &Diagnostic, source: &SourceFile) -> Finding {
        let (name, op_type) = problem.name_and_type.clone().unzip();
        Finding {
            code: problem.code.to_string(),
            severity: problem.severity.to_string(),
            layer: problem.layer,
            name,
            op_type,
            port: problem.port.clone(),
            inputs: inputs(problem),
            line: source.line(problem.at),
            message: problem.full_message(),
            alike: problem.alike,
            behind: problem.behind,
        }
    }
}

/// What is wrong with a graph, with the types and shapes that layers were given, where that is
/// known.
pub(crate) fn with_inputs(problems: Diagnostics, graph: &Graph, given: &Inputs) -> Diagnostics {
    let facts = infer::analyse(graph, given).facts;
    let mut list = problems.list().to_vec();
    tell_inputs(&mut list, graph, &facts);
    Diagnostics::new(Arc::clone(graph.source()), list)
}

/// Adds to each error of a layer what that was given, unless it has it already.
pub(crate) fn tell_inputs(problems: &mut [Diagnostic], graph: &Graph, facts: &Facts) {
    let is_open = |p: &&mut Diagnostic| p.severity == Severity::Error && p.context.is_none();
    for problem in problems.iter_mut().filter(is_open) {
        let Some(position) = layer_of(problem, graph) else { continue };
        let sources = graph.inputs_of(position).iter();
        let inputs: Vec<String> =
            sources.filter_map(|&source| Some(facts.output(source)?.to_string())).collect();
        if !inputs.is_empty() {
            problem.context = Some(format!("inputs: {}", inputs.join("  ")));
        }
    }
}

/// The layer that a finding is about, unless it is in a body: ids are counted anew there.
pub(crate) fn layer_of(problem: &Diagnostic, graph: &Graph) -> Option<usize> {
    let position = graph.find(problem.layer?)?;
    let layer = graph.layers().get(position)?;
    let (name, op_type) = problem.name_and_type.as_ref()?;
    (layer.name == *name && layer.op_type == *op_type).then_some(position)
}

/// The types and shapes that a layer was given, as its finding names them.
fn inputs(problem: &Diagnostic) -> Vec<String> {
    let list = problem.context.as_deref().and_then(|c| c.strip_prefix("inputs: "));
    list.map(|list| list.split("  ").map(str::to_owned).collect()).unwrap_or_default()
}

/// Whether a finding is no fault of the file.
pub(crate) fn is_note(problem: &Diagnostic) -> bool {
    problem.severity == Severity::Note
}

/// A line for each finding.
pub(crate) fn told(findings: &[Diagnostic], source: &SourceFile) -> String {
    let line = |p: &Diagnostic| format!("{} {}: {}\n", p.severity, p.code, p.render(source));
    findings.iter().map(line).collect()
}

/// `1 error, 0 warnings`, and notes if there are any.
pub(crate) fn counts(findings: &[Diagnostic]) -> String {
    let count = |wanted| findings.iter().filter(|p| p.severity == wanted).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let text = format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"));
    match count(Severity::Note) {
        0 => text,
        notes => format!("{text}, {}", plural(notes, "note")),
    }
}
