//! `irrun MODEL.xml`: read, propagate, compile, run, write.

use crate::args::RunArgs;
use crate::bind::{self, Declared, Port, Target};
use crate::compare::comparison::Comparison;
use crate::compare::show;
use crate::cost;
use crate::exit::{Exit, Failure, OrExit};
use crate::expect::Expected;
use crate::locate;
use crate::look::{Look, steps};
use crate::media::boxes::{self, Canvas};
use crate::profile::LayerTime;
use crate::summary::{self, Statistics, finite, own_digits};
use crate::text::plural;
use crate::top::{Top, TopRow};
use crate::{json, limits, npy, npz, out, print, profile, random, state};
use anyhow::{Context, Result, anyhow};
use infer::{Fact, InputSpec, Inputs, PartialShape};
use ir::{ElementType, Graph};
use runtime::{Options, Plan, Session, Tensor, Threads};
use schemars::JsonSchema;
use serde::Serialize;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs a model once.
///
/// # Errors
/// With the exit code that tells whose fault it is.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let model = args.model.as_ref().context("give a MODEL.xml").or_exit(Exit::Usage)?;
    let threads = Arc::new(threads(args.common.threads));
    // They begin while the model is read.
    threads.start();
    // The process ends with the run: the system takes back the memory as a whole.
    let model = locate::model_file(model);
    let graph = ManuallyDrop::new(ir::read(&model).or_exit(Exit::Model)?);
    if let Some(path) = &args.save_state {
        state::can_be_saved(path, &graph)?;
    }
    let declared = Declared::new(&graph, &args.common.shape)?;
    let ports = bind::outputs(&graph);
    let targets = bind::targets(&args.output, &ports).or_exit(Exit::Usage)?;
    if args.common.json && targets.iter().any(|target| out::is_standard_output(target.path())) {
        let error = anyhow!("--json prints on standard output; write the output to a file");
        return Err(Failure { exit: Exit::Usage, error });
    }
    let expected = Expected::open(&args.expect, &ports, args.look.compare_steps.is_some())?;
    let files = bind::input_files(&args.input, &declared);
    let canvas = Canvas::new(&args.draw, files).or_exit(Exit::Usage)?;
    let top = Top::new(&args.top, canvas.is_some(), &graph)?;
    let look = Look::new(&args.look, &args.expect.tolerance, &graph)?;
    let mut given = bind::given_inputs(&args.given(), &declared)?;
    random::fill(&args.random, &mut given, &declared)?;
    let tensors = bind::complete(given, &declared).or_exit(Exit::Usage)?;
    files_are_apart(args, &model, (&declared, &ports), &targets).or_exit(Exit::Usage)?;
    let values = match &args.state {
        Some(path) => state::load(path, &graph)?,
        None => Vec::new(),
    };
    let options = Options { runs_once: true, ..options(args) };
    let plan = plan(&graph, &tensors, &values, &options)?;
    if args.explain {
        let did_nothing = |line: &str| line.starts_with("pass ") && line.ends_with(": 0");
        let mut lines = plan.explain();
        lines.retain(|line| !did_nothing(line));
        if lines.is_empty() {
            print::note("nothing is computed: the outputs are parts of the inputs");
        }
        lines.iter().for_each(print::note);
    }
    let mut session = ManuallyDrop::new(plan.session_on(threads));
    for (id, value) in values {
        session.set_variable(&id, value).or_exit(Exit::Input)?;
    }
    if args.profile {
        session.start_profile();
    }
    let (outputs, look) = match args.look.is_empty() {
        true => (session.run(&tensors), look),
        false => session.run_observed(&tensors, look),
    };
    let outputs = outputs.or_exit(Exit::Running)?;
    let found = look.steps.map(|steps| steps.found(&graph)).transpose().or_exit(Exit::Input)?;
    let dumped = look.dump.as_ref().map_or(&[][..], |dump| dump.arrays());
    for path in args.look.written() {
        npz::write(path, dumped).or_exit(Exit::Input)?;
    }
    write(&targets, &ports, &outputs)?;
    tell_of_nans("", &ports, &outputs);
    let name = |label| top.label(label).map(str::to_owned);
    let boxes =
        canvas.map(|canvas| canvas.draw(&outputs, name)).transpose().or_exit(Exit::Input)?;
    let sums = match args.expect.tol {
        Some(_) => cost::longest_sums(
            &graph,
            &infer::propagate(&graph, &self::given(&tensors, &[])).or_exit(Exit::Model)?,
        ),
        None => Vec::new(),
    };
    let compared = expected.compare(&outputs, &ports, &args.expect, &sums)?;
    let agrees = found.as_ref().is_none_or(|found| found.first.is_none());
    let agrees = agrees && compared.iter().all(|c| c.ok);
    let exit = if agrees { Exit::Good } else { Exit::Failed };
    let variables = match args.save_state.is_some() || args.common.json {
        true => session.variables().or_exit(Exit::Running)?,
        false => Vec::new(),
    };
    if let Some(path) = &args.save_state {
        state::save(path, &variables)?;
    }
    if args.common.json {
        let mut report = report(&ports, &outputs, (&targets, &top), (&session, &variables));
        report.expected = compared;
        report.steps = found;
        report.boxes = boxes;
        json::print(&report)?;
        return Ok(exit);
    }
    if !compared.is_empty() {
        print::text(show::text(&compared, ["got", "expected"], compared.len()))?;
    } else if let Some(found) = &found {
        print::text(steps::text(found))?;
    } else if !dumped.is_empty() && args.look.written().next().is_none() {
        print::text(summary::text("value", numbered(dumped)))?;
    } else if let Some(boxes) = boxes.filter(|_| !top.is_wanted()) {
        print::text(boxes::text(&boxes))?;
    } else if targets.is_empty() || top.is_wanted() {
        print::text(text(&ports, &outputs, &top))?;
    }
    print::text(profile::text(&session.profile(), 1))?;
    Ok(exit)
}

/// How the flags want a model planned.
pub fn options(args: &RunArgs) -> Options {
    Options {
        optimize: !args.no_optimize,
        precision: args.common.precision.into(),
        activations: args.common.activations.into(),
        limits: limits::of_run(),
        ..Options::default()
    }
}

/// Whether no file is written twice or is one of those that are read. Only `--save-state` may write
/// what `--state` reads, to go on from there.
fn files_are_apart(
    args: &RunArgs,
    model: &Path,
    (declared, ports): (&Declared, &[Port]),
    targets: &[Target],
) -> Result<()> {
    let mut written: Vec<&Path> = targets.iter().map(|t| t.path().as_path()).collect();
    written.extend(args.save_state.as_deref());
    written.extend(args.look.written().map(PathBuf::as_path));
    written.extend(args.random.save_inputs.as_deref());
    written.extend(args.draw.draw.as_deref());
    if written.is_empty() {
        return Ok(());
    }
    let mut read = out::of_model(model).to_vec();
    read.extend(bind::input_files(&args.input, declared).map(|file| ("an input", file)));
    let expected = Expected::files(&args.expect, ports);
    read.extend(expected.map(|file| ("what is expected", file)));
    let goes_on =
        |state: &&PathBuf| args.save_state.as_ref().is_some_and(|saved| out::is_same(saved, state));
    let state = args.state.as_ref().filter(|state| !goes_on(state));
    read.extend(state.map(|file| ("the state", file.clone())));
    out::keep_apart(&written, &read)
}

/// A plan for inputs that are there: every shape that follows from theirs is static.
///
/// # Errors
/// What is wrong with the model, all of it.
pub fn plan(
    graph: &Graph,
    tensors: &[Tensor],
    variables: &[(String, Tensor)],
    options: &Options,
) -> Result<Plan, Failure> {
    let facts = infer::propagate(graph, &given(tensors, variables)).or_exit(Exit::Model)?;
    runtime::compile_with(graph, &facts, options).or_exit(Exit::Model)
}

/// What is known of the inputs of a model whose tensors are there. Variables without a value begin
/// with their initial one.
pub fn given(tensors: &[Tensor], variables: &[(String, Tensor)]) -> Inputs {
    let shape = |t: &Tensor| PartialShape::fixed(t.sizes());
    let given = |t: &Tensor| InputSpec {
        element_type: Some(t.element_type()),
        shape: Some(shape(t)),
        value: None,
    };
    let fact = |(id, t): &(String, Tensor)| (id.clone(), Fact::new(t.element_type(), shape(t)));
    Inputs {
        parameters: tensors.iter().map(given).collect(),
        variables: Some(variables.iter().map(fact).collect()),
        ..Inputs::default()
    }
}

/// The threads that a flag asks for, or one for each processor.
pub fn threads(count: Option<usize>) -> Threads {
    count.map_or_else(Threads::default, Threads::new)
}

/// Writes outputs where they go.
///
/// # Errors
/// When a file cannot be written.
pub fn write(targets: &[Target], ports: &[Port], outputs: &[Tensor]) -> Result<(), Failure> {
    for target in targets {
        match target {
            Target::Npy(i, path) => {
                let Some(tensor) = outputs.get(*i) else { continue };
                out::write_whole(path, |file| npy::write(tensor, file)).or_exit(Exit::Input)?;
            }
            Target::Npz(selected, path) => {
                let names = bind::array_names(ports);
                let array = |&i: &usize| Some((names.get(i)?.clone(), outputs.get(i)?.clone()));
                let arrays: Vec<_> = selected.iter().filter_map(array).collect();
                npz::write(path, &arrays).or_exit(Exit::Input)?;
            }
        }
    }
    Ok(())
}

/// NaN in an output is seldom meant, and easily overlooked in a file. `of` says before the message
/// which run it was.
pub fn tell_of_nans(of: &str, ports: &[Port], outputs: &[Tensor]) {
    for (i, (port, tensor)) in ports.iter().zip(outputs).enumerate() {
        let nans = count_nans(tensor);
        if nans > 0 {
            let (name, count) = (port.shown(), plural(tensor.count(), "element"));
            print::note(format_args!("note: {of}output {i} ({name}): {nans} of {count} are NaN"));
        }
    }
}

fn count_nans(tensor: &Tensor) -> usize {
    if !tensor.element_type().is_real() {
        return 0;
    }
    let wide = runtime::convert(tensor, ElementType::F64);
    let values = wide.as_ref().ok().and_then(|t| t.as_slice::<f64>()).unwrap_or_default();
    values.iter().filter(|value| value.is_nan()).count()
}

/// Outputs for people: the largest values, the strings themselves, or a summary.
pub fn text(ports: &[Port], outputs: &[Tensor], top: &Top) -> String {
    if top.is_wanted() {
        return top.text(named(ports, outputs));
    }
    lines(outputs).unwrap_or_else(|| summary::text("output", named(ports, outputs)))
}

/// Outputs with their positions and names.
fn named<'a>(
    ports: &'a [Port],
    outputs: &'a [Tensor],
) -> impl Iterator<Item = (usize, &'a str, &'a Tensor)> {
    let each = ports.iter().zip(outputs).enumerate();
    each.map(|(i, (port, tensor))| (i, port.shown(), tensor))
}

/// Values of layers with their positions and names.
fn numbered(dumped: &[(String, Tensor)]) -> impl Iterator<Item = (usize, &str, &Tensor)> {
    dumped.iter().enumerate().map(|(i, (name, tensor))| (i, name.as_str(), tensor))
}

/// The strings themselves, if there is nothing but strings.
fn lines(outputs: &[Tensor]) -> Option<String> {
    let strings: Option<Vec<_>> = outputs.iter().map(Tensor::as_strings).collect();
    let strings = strings.filter(|all| !all.is_empty())?;
    Some(strings.into_iter().flatten().map(|line| format!("{line}\n")).collect())
}

/// What `irrun MODEL.xml --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    outputs: Vec<OutputReport>,
    /// The variables after the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<VariableReport>,
    /// With `--profile`: the time of each layer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<LayerTime>,
    /// With `--expect`: how the outputs differ from what is expected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expected: Vec<Comparison>,
    /// With `--compare-steps`: the first layer that differs from the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<steps::Found>,
    /// With `--draw`: what was drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    boxes: Option<Vec<boxes::Found>>,
}

/// An output at a glance.
#[derive(Serialize, JsonSchema)]
pub struct OutputReport {
    index: usize,
    /// The first name of its tensor, or that of its layer.
    name: String,
    /// The name of its layer.
    layer: String,
    /// The element type.
    #[serde(rename = "type")]
    element_type: &'static str,
    shape: Vec<usize>,
    /// The least value that is not NaN; null where it is not finite.
    min: Option<f64>,
    /// The greatest.
    max: Option<f64>,
    /// The mean.
    mean: Option<f64>,
    /// How many values are NaN.
    nan: usize,
    /// The first values as text.
    first: Vec<String>,
    /// With `--top`: the largest values of each row along the last axis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    top: Vec<TopRow>,
    /// The files that it was written to.
    files: Vec<String>,
}

/// A variable after a run.
#[derive(Serialize, JsonSchema)]
struct VariableReport {
    id: String,
    /// The element type.
    #[serde(rename = "type")]
    element_type: &'static str,
    shape: Vec<usize>,
}

/// Outputs for programs.
pub fn report_outputs(
    ports: &[Port],
    outputs: &[Tensor],
    targets: &[Target],
    top: &Top,
) -> Vec<OutputReport> {
    let output = |(i, (port, tensor)): (usize, (&Port, &Tensor))| {
        let s = Statistics::of(tensor);
        let files = targets.iter().filter(|t| match t {
            Target::Npy(k, _) => *k == i,
            Target::Npz(list, _) => list.contains(&i),
        });
        OutputReport {
            index: i,
            name: port.shown().to_owned(),
            layer: port.friendly.clone(),
            element_type: tensor.element_type().name(),
            shape: tensor.sizes().to_vec(),
            min: own_digits(s.min, tensor.element_type()),
            max: own_digits(s.max, tensor.element_type()),
            mean: finite(s.mean),
            nan: s.nans,
            first: s.first,
            top: top.rows(tensor),
            files: files.map(|t| t.path().display().to_string()).collect(),
        }
    };
    ports.iter().zip(outputs).enumerate().map(output).collect()
}

fn report(
    ports: &[Port],
    outputs: &[Tensor],
    (targets, top): (&[Target], &Top),
    (session, variables): (&Session, &[(String, Tensor)]),
) -> Report {
    let variable = |(id, t): &(String, Tensor)| VariableReport {
        id: id.clone(),
        element_type: t.element_type().name(),
        shape: t.sizes().to_vec(),
    };
    Report {
        outputs: report_outputs(ports, outputs, targets, top),
        variables: variables.iter().map(variable).collect(),
        layers: profile::report(&session.profile(), 1),
        expected: Vec::new(),
        steps: None,
        boxes: None,
    }
}
