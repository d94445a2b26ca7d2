//! `irrun extract`: a part of a model as a model of its own.

use crate::bind::Declared;
use crate::exit::{Exit, Failure, OrExit};
use crate::locate;
use crate::print;
use crate::surgery::written::Report;
use crate::surgery::{self, declare, induced};
use anyhow::anyhow;
use clap::Args;
use infer::Facts;
use ir::{Graph, Severity};
use std::collections::HashSet;
use std::path::PathBuf;

/// Cutting a part out of a model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    irrun extract model.xml --from conv1 --to relu3 -o part.xml\n  \
    irrun extract model.xml --to encoder/MatMul -o encoder.xml\n  \
    irrun extract model.xml --from 41 --to 41 -o one_layer.xml")]
pub struct ExtractArgs {
    /// The model, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml")]
    pub model: PathBuf,
    /// The first layer of the part, by name or id, as often as need be; without any, the part
    /// begins at the inputs.
    #[arg(long, value_name = "LAYER")]
    pub from: Vec<String>,
    /// The last layer of the part, by name or id, as often as need be; without any, the part ends
    /// at the outputs.
    #[arg(long, value_name = "LAYER", required_unless_present = "from")]
    pub to: Vec<String>,
    /// Where the part goes; its weights go beside it.
    #[arg(short, long, value_name = "FILE.xml")]
    pub output: PathBuf,
    /// Shapes to use in place of those the model declares.
    #[arg(long, value_name = "NAME[1,3,?,?]")]
    pub shape: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Writes the part.
///
/// # Errors
/// When the file is no graph, no layer lies between those that are named, or nothing can be
/// written.
pub(crate) fn extract(args: &ExtractArgs) -> Result<Exit, Failure> {
    let model = locate::model_file(&args.model);
    let graph = locate::read(&model).or_exit(Exit::Model)?;
    let find = |names: &[String]| -> Result<HashSet<usize>, Failure> {
        names
            .iter()
            .map(|name| locate::layer(&graph, name))
            .collect::<Result<_, _>>()
            .or_exit(Exit::Usage)
    };
    let (from, to) = (find(&args.from)?, find(&args.to)?);
    let declared = Declared::new(&graph, &args.shape)?;
    let facts = infer::analyse(&graph, &declared.given()).facts;
    let kept = between(&graph, &from, &to);
    if kept.is_empty() {
        let error = anyhow!(
            "no layer lies {}: no edge leads from one to the other",
            match (&args.from[..], &args.to[..]) {
                (from, []) => format!("behind --from {}", from.join(", ")),
                ([], to) => format!("between the inputs and --to {}", to.join(", ")),
                (from, to) => {
                    format!("between --from {} and --to {}", from.join(", "), to.join(", "))
                }
            }
        );
        return Err(Failure { exit: Exit::Usage, error });
    }
    let part = part(&graph, &facts, &kept, &to)?;
    surgery::write(&part, &model, &args.output)?;
    let report = Report::new(&args.output, &part, &graph);
    report.tell(args.json, &report.text())?;
    Ok(Exit::Good)
}

/// The part that some layers are, with the types and shapes it has in the whole.
///
/// # Errors
/// When it could not run by itself.
pub(crate) fn part(
    graph: &Graph,
    facts: &Facts,
    kept: &HashSet<usize>,
    to: &HashSet<usize>,
) -> Result<Graph, Failure> {
    let part = induced::induced(graph, facts, kept, to).or_exit(Exit::Model)?;
    let analysis = infer::analyse(&part, &infer::Inputs::default());
    let mut parts = surgery::needed(&part);
    declare::declare(&mut parts, &part, &analysis.facts);
    for finding in analysis.findings.iter().filter(|f| f.severity == Severity::Error) {
        print::note(format_args!("{}: {}", finding.severity, finding.render(graph.source())));
    }
    surgery::assemble(&part, parts).or_exit(Exit::Model)
}

/// What is needed for `to` and depends on `from`; all that is needed, or that depends, where one of
/// them is empty.
fn between(graph: &Graph, from: &HashSet<usize>, to: &HashSet<usize>) -> HashSet<usize> {
    let constant = induced::constant(graph);
    let mut after: HashSet<usize> = HashSet::new();
    for &position in graph.order() {
        let follows = graph.inputs_of(position).iter().any(|s| after.contains(&s.layer));
        if from.contains(&position) || follows || from.is_empty() && !constant[position] {
            after.insert(position);
        }
    }
    let is_end = |position: &usize| {
        let layer = graph.layers().get(*position);
        layer.is_some_and(|l| l.is("Result") || l.is("Assign"))
    };
    let ends = graph.order().iter().copied().filter(|p| is_end(p) && to.is_empty());
    let mut needed: HashSet<usize> = HashSet::new();
    let mut open: Vec<usize> = to.iter().copied().chain(ends).collect();
    while let Some(position) = open.pop() {
        if after.contains(&position) && needed.insert(position) {
            open.extend(graph.inputs_of(position).iter().map(|s| s.layer));
            open.extend(assigned(graph, position));
        }
    }
    needed
}

/// The Assign of the variable that a layer reads: what is read has to be written.
fn assigned(graph: &Graph, position: usize) -> Vec<usize> {
    let layers = graph.layers();
    let Some(read) = layers.get(position).filter(|l| l.is("ReadValue")) else { return Vec::new() };
    let id = read.attribute("variable_id");
    let writes = |p: &usize| {
        layers.get(*p).is_some_and(|l| l.is("Assign") && l.attribute("variable_id") == id)
    };
    graph.order().iter().copied().filter(writes).collect()
}
