//! `irrun edit`: a model with other names, shapes, outputs or weights.

use crate::bind::{self, Port};
use crate::exit::{Exit, Failure, OrExit};
use crate::locate;
use crate::surgery::compress::{Compressed, compressed, weight_bytes};
use crate::surgery::written::Report;
use crate::surgery::{self, declare};
use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use infer::Inputs;
use ir::{Graph, Parts, Severity};
use std::path::PathBuf;

/// Changing a model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    irrun edit model.xml --shape 'image[1,3,224,224]' -o static.xml\n  \
    irrun edit model.xml --rename x.1=image --drop-output aux -o clean.xml\n  \
    irrun edit model.xml --weights f16 -o half.xml")]
pub struct EditArgs {
    /// The model, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml")]
    pub model: PathBuf,
    /// Where the changed model goes; its weights go beside it.
    #[arg(short, long, value_name = "FILE.xml")]
    pub output: PathBuf,
    /// Give an input or output another name.
    #[arg(long, value_name = "OLD=NEW")]
    pub rename: Vec<String>,
    /// Give an input another shape.
    #[arg(long, value_name = "NAME[1,3,?,?]")]
    pub shape: Vec<String>,
    /// Leave out an output, and all that only it needs.
    #[arg(long, value_name = "NAME|INDEX")]
    pub drop_output: Vec<String>,
    /// Store f32 weights in another type.
    #[arg(long, value_name = "TYPE", value_enum)]
    pub weights: Option<WeightType>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What weights may be stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WeightType {
    /// Half the bytes, with a Convert behind each.
    F16,
}

/// Changes a model.
///
/// # Errors
/// When the file is no graph, a flag is wrong, or nothing can be written.
pub(crate) fn edit(args: &EditArgs) -> Result<Exit, Failure> {
    let model = locate::model_file(&args.model);
    let graph = locate::read(&model).or_exit(Exit::Model)?;
    let flags = [&args.rename, &args.shape, &args.drop_output];
    if flags.iter().all(|flag| flag.is_empty()) && args.weights.is_none() {
        let error =
            anyhow!("nothing to change: give --rename, --shape, --drop-output or --weights");
        return Err(Failure { exit: Exit::Usage, error });
    }
    let (inputs, outputs) = (bind::inputs(&graph), bind::outputs(&graph));
    let mut parts = graph.parts().clone();
    // What was done, to be told when it is written.
    let mut done = Vec::new();
    for text in &args.rename {
        done.push(rename(&graph, &mut parts, (&inputs, &outputs), text).or_exit(Exit::Usage)?);
    }
    let declared = bind::Declared::new(&graph, &args.shape)?;
    for &input in &declared.overridden {
        let layer = graph.parameters().get(input).and_then(|&p| parts.layers.get_mut(p));
        let text = declare::shape_text(&declared.shapes[input]);
        let data = layer.into_iter().flat_map(|l| &mut l.data).filter(|(key, _)| key == "shape");
        data.for_each(|(_, value)| value.clone_from(&text));
        done.push(format!("\"{}\" is {} now", inputs[input].shown(), declared.shapes[input]));
    }
    let dropped = drop_outputs(&graph, &mut parts, &outputs, &args.drop_output);
    done.extend(dropped.or_exit(Exit::Usage)?);
    let mut changed = surgery::assemble(&graph, parts).or_exit(Exit::Model)?;
    if args.weights == Some(WeightType::F16) {
        changed = halved(&changed, &mut done)?;
    }
    let changed = declared_anew(&changed)?;
    surgery::write(&changed, &model, &args.output)?;
    let report = Report::new(&args.output, &changed, &graph);
    done.push(report.text());
    report.tell(args.json, &done.join("\n"))?;
    Ok(Exit::Good)
}

/// Without what nothing needs any more, and with the types and shapes that it has now.
///
/// # Errors
/// When the changed model breaks a rule: the rules that it breaks.
fn declared_anew(graph: &Graph) -> Result<Graph, Failure> {
    let analysis = infer::analyse(graph, &Inputs::default());
    let errors: Vec<_> =
        analysis.findings.into_iter().filter(|f| f.severity == Severity::Error).collect();
    if !errors.is_empty() {
        let source = std::sync::Arc::clone(graph.source());
        return Err(ir::Diagnostics::new(source, errors)).or_exit(Exit::Model);
    }
    let mut parts = surgery::needed(graph);
    declare::declare(&mut parts, graph, &analysis.facts);
    surgery::assemble(graph, parts).or_exit(Exit::Model)
}

/// With weights of half the size, and what was done.
fn halved(graph: &Graph, told: &mut Vec<String>) -> Result<Graph, Failure> {
    let mut done = Compressed::default();
    let halved = compressed(graph, &mut done).or_exit(Exit::Model)?;
    let stays = |name: &String| format!("note: \"{name}\" stays f32: f16 ends at 65504");
    told.extend(done.beyond.iter().map(stays));
    let constants = match done.constants {
        1 => "1 constant is".to_owned(),
        n => format!("{n} constants are"),
    };
    told.push(format!(
        "{constants} f16 now: {} bytes of weights in place of {}",
        weight_bytes(&halved),
        weight_bytes(graph),
    ));
    Ok(halved)
}

/// Gives an input or output another tensor name; an input's layer takes it too. Tells what it did.
fn rename(
    graph: &Graph,
    parts: &mut Parts,
    (inputs, outputs): (&[Port], &[Port]),
    text: &str,
) -> Result<String> {
    let known =
        |old: &str| bind::find(inputs, old, "input").or(bind::find(outputs, old, "output")).is_ok();
    let splits = text.match_indices('=').map(|(i, _)| (&text[..i], &text[i + 1..]));
    let (old, new) = splits
        .clone()
        .find(|(old, _)| known(old))
        .or(splits.clone().next())
        .with_context(|| format!("--rename {text} is not of the form OLD=NEW"))?;
    ensure!(!new.is_empty(), "--rename {text}: the new name is empty");
    let taken = inputs.iter().chain(outputs).any(|port| port.names.iter().any(|n| n == new));
    ensure!(!taken, "--rename {text}: there is an input or output {new} already");
    if let Ok(input) = bind::find(inputs, old, "input") {
        let layer = graph.parameters().get(input).and_then(|&p| parts.layers.get_mut(p));
        if let Some(layer) = layer {
            layer.name = new.to_owned();
            layer.outputs.iter_mut().take(1).for_each(|port| port.names = vec![new.to_owned()]);
        }
        return Ok(format!("input \"{old}\" is called \"{new}\" now"));
    }
    let output = bind::find(outputs, old, "output");
    let output = output.map_err(|_| no_such_port((inputs, outputs), old))?;
    let source = graph.results().get(output).and_then(|&p| graph.inputs_of(p).first());
    let port = source.and_then(|s| parts.layers.get_mut(s.layer)?.outputs.get_mut(s.port));
    if let Some(port) = port {
        port.names = vec![new.to_owned()];
    }
    Ok(format!("output \"{old}\" is called \"{new}\" now"))
}

/// Names the inputs and outputs that there are, or the one that was probably meant.
fn no_such_port((inputs, outputs): (&[Port], &[Port]), name: &str) -> anyhow::Error {
    let names = |ports: &[Port]| ports.iter().map(|p| p.shown().to_owned()).collect::<Vec<_>>();
    let (inputs, outputs) = (names(inputs), names(outputs));
    let all = inputs.iter().chain(&outputs).map(String::as_str);
    match crate::text::nearest(name, all) {
        Some(near) => anyhow!("there is no input or output \"{name}\"; did you mean \"{near}\"?"),
        None => anyhow!(
            "there is no input or output \"{name}\"; the inputs are {}, the outputs {}",
            inputs.join(", "),
            outputs.join(", ")
        ),
    }
}

/// Leaves out outputs, and tells which.
fn drop_outputs(
    graph: &Graph,
    parts: &mut Parts,
    outputs: &[Port],
    names: &[String],
) -> Result<Vec<String>> {
    let (mut dropped, mut told) = (Vec::new(), Vec::new());
    for name in names {
        let output = bind::find(outputs, name, "output").context("--drop-output")?;
        let layer = graph.results().get(output).and_then(|&p| graph.layers().get(p));
        dropped.extend(layer.map(|l| l.id));
        told.push(format!("output \"{}\" is left out", outputs[output].shown()));
    }
    let left = graph.results().len().saturating_sub(dropped.len());
    ensure!(left > 0 || dropped.is_empty(), "--drop-output: no output would be left");
    parts.layers.retain(|layer| !dropped.contains(&layer.id));
    parts.edges.retain(|edge| !dropped.contains(&edge.to_layer));
    Ok(told)
}
