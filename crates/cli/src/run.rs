//! `irrun MODEL.xml`: read, propagate, compile, run, write.

use crate::args::RunArgs;
use crate::bind::{self, Declared, Port, Target};
use crate::compare::comparison::Comparison;
use crate::compare::show;
use crate::cost;
use crate::exit::{Exit, Failure, OrExit};
use crate::expect::{self, Expected};
use crate::locate;
use crate::look::dump::Dump;
use crate::look::{Look, LookArgs, finite, steps};
use crate::media::boxes::{self, Canvas};
use crate::report::{self, Report};
use crate::summary;
use crate::text::plural;
use crate::top::Top;
use crate::{
    finding, json, limits, memory, npy, npz, out, print, profile, progress, random, state,
};
use anyhow::{Context, Result};
use infer::{Fact, Facts, InputSpec, Inputs, PartialShape};
use ir::{ByteOffset, Code, Diagnostic, Diagnostics, Graph};
use runtime::{Options, Plan, Session, StepTime, Tensor, Threads};
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
    let job = ManuallyDrop::new(Job::read(args, locate::model_file(model))?);
    let expected = Expected::open(&args.expect, &job.ports, args.look.compare_steps.is_some())?;
    let look = Look::new(&args.look, &args.expect.tolerance, &job.graph)?;
    let inputs = job.inputs()?;
    if args.look.nan_check {
        let given = job.declared.ports.iter().zip(&inputs);
        given.for_each(|(port, tensor)| finite::tell_of_input(port.shown(), tensor));
    }
    let mut session = ManuallyDrop::new(job.session(&inputs, threads)?);
    let shown = progress::show_run();
    let (outputs, look) = if args.look.is_empty() {
        (session.run(&inputs), look)
    } else {
        session.run_observed(&inputs, look)
    };
    drop(shown);
    let failed = |problems| finding::with_inputs(problems, &job.graph, &given(&inputs, &[]));
    let outputs = outputs.map_err(failed).or_exit(Exit::Running)?;
    let written = job.write(&inputs, &outputs, look)?;
    let sums = job.sums(&inputs)?;
    let compared = expected.compare(&outputs, &job.ports, &args.expect, &sums)?;
    let variables = job.variables(&session)?;
    let results = Results { outputs, written, compared, variables, profile: session.profile() };
    if args.common.json { job.print_json(results) } else { job.print_text(&results) }
}

/// A model that is run once, and what the flags say about it.
struct Job<'a> {
    args: &'a RunArgs,
    model: PathBuf,
    graph: Graph,
    declared: Declared,
    ports: Vec<Port>,
    /// Where outputs go.
    targets: Vec<Target>,
    /// The picture that boxes are drawn on.
    canvas: Option<Canvas>,
    top: Top,
}

/// What came of a run beside its outputs.
struct Written {
    /// The first layer that differs from the reference.
    steps: Option<steps::Found>,
    /// The values of layers.
    dump: Option<Dump>,
    /// What was drawn.
    boxes: Option<Vec<boxes::Detection>>,
}

impl Written {
    fn dumped(&self) -> &[(String, Tensor)] {
        self.dump.as_ref().map_or(&[], |dump| dump.arrays())
    }

    /// The values of layers that no file holds.
    fn printed(&self, args: &LookArgs) -> &[(String, Tensor)] {
        if args.written().next().is_none() { self.dumped() } else { &[] }
    }
}

/// All that a run gives.
struct Results {
    outputs: Vec<Tensor>,
    written: Written,
    compared: Vec<Comparison>,
    variables: Vec<(String, Tensor)>,
    profile: Vec<StepTime>,
}

impl Results {
    /// Whether what is compared agrees.
    fn exit(&self) -> Exit {
        let agrees = self.written.steps.as_ref().is_none_or(|found| found.first.is_none());
        if agrees && self.compared.iter().all(|c| c.ok) { Exit::Good } else { Exit::Failed }
    }
}

impl<'a> Job<'a> {
    /// Reads the model and checks the flags by it.
    fn read(args: &'a RunArgs, model: PathBuf) -> Result<Job<'a>, Failure> {
        memory::prefer_large_heap_for(&model);
        let graph = locate::read(&model).or_exit(Exit::Model)?;
        if let Some(path) = &args.save_state {
            state::can_be_saved(path, &graph)?;
        }
        let declared = Declared::new(&graph, &args.common.shape)?;
        let ports = bind::outputs(&graph);
        let targets = bind::targets(&args.output, &ports).or_exit(Exit::Usage)?;
        let written = targets.iter().map(|target| target.path().as_path());
        out::leave_room_for_report(args.common.json, written)?;
        let files = bind::input_files(&args.input, &declared);
        let canvas = Canvas::new(&args.draw, files).or_exit(Exit::Usage)?;
        let top = Top::new(&args.top, canvas.is_some(), &graph)?;
        Ok(Job { args, model, graph, declared, ports, targets, canvas, top })
    }

    /// The inputs, given or random.
    fn inputs(&self) -> Result<Vec<Tensor>, Failure> {
        let given = bind::given_inputs(&self.args.given(), &self.declared)?;
        // That of --save-inputs is written here.
        self.files_are_apart().or_exit(Exit::Usage)?;
        random::complete(&self.args.random, given, &self.declared)
    }

    /// Whether no file is written twice or is one of those that are read. Only `--save-state` may
    /// write what `--state` reads, to go on from there.
    fn files_are_apart(&self) -> Result<()> {
        let args = self.args;
        let mut written: Vec<&Path> = self.targets.iter().map(|t| t.path().as_path()).collect();
        written.extend(args.save_state.as_deref());
        written.extend(args.look.written().map(PathBuf::as_path));
        written.extend(args.random.save_inputs.as_deref());
        written.extend(args.draw.draw.as_deref());
        if written.is_empty() {
            return Ok(());
        }
        let mut read = out::of_model(&self.model).to_vec();
        let inputs = bind::input_files(&args.input, &self.declared);
        read.extend(inputs.map(|file| ("an input", file)));
        let expected = Expected::files(&args.expect, &self.ports);
        read.extend(expected.map(|file| ("what is expected", file)));
        read.extend(bind::text_files(&args.text).map(|file| ("an input", file)));
        read.extend(args.top.labels.iter().map(|file| ("the labels", file.clone())));
        read.extend(args.look.compare_steps.iter().map(|file| ("the reference", file.clone())));
        let goes_on = |state: &&PathBuf| {
            args.save_state.as_ref().is_some_and(|saved| out::is_same(saved, state))
        };
        let state = args.state.as_ref().filter(|state| !goes_on(state));
        read.extend(state.map(|file| ("the state", file.clone())));
        out::keep_apart(&written, &read)
    }

    /// Plans the model for its inputs.
    fn session(&self, inputs: &[Tensor], threads: Arc<Threads>) -> Result<Session, Failure> {
        let values = match &self.args.state {
            Some(path) => state::load(path, &self.graph)?,
            None => Vec::new(),
        };
        let options = Options { runs_once: true, ..options(self.args) };
        let plan = plan(&self.graph, inputs, &values, &options)?;
        if self.args.explain {
            tell_plan(&plan);
        }
        let mut session = plan.session_on(threads);
        for (id, value) in values {
            session.set_variable(&id, value).or_exit(Exit::Input)?;
        }
        if self.args.profile {
            session.start_profile();
        }
        Ok(session)
    }

    /// Writes the outputs, the values of layers and the boxes.
    fn write(&self, inputs: &[Tensor], outputs: &[Tensor], look: Look) -> Result<Written, Failure> {
        let steps = look.steps.map(|steps| steps.found(&self.graph)).transpose();
        let steps = steps.or_exit(Exit::Input)?;
        let mut written = Written { steps, dump: look.dump, boxes: None };
        for path in self.args.look.written() {
            npz::write(path, written.dumped()).or_exit(Exit::Input)?;
        }
        write(&self.targets, &self.ports, outputs)?;
        tell_of_nans("", &self.ports, outputs);
        let name = |label| self.top.label(label).map(str::to_owned);
        let drawn = self.canvas.as_ref().map(|canvas| {
            let size = self.declared.picture_size(inputs);
            canvas.draw(outputs, size, name)
        });
        written.boxes = drawn.transpose().or_exit(Exit::Input)?;
        Ok(written)
    }

    /// The terms that are added up on the longest way to each output, for `--tol auto`.
    fn sums(&self, inputs: &[Tensor]) -> Result<Vec<u64>, Failure> {
        if self.args.expect.tol.is_none() || self.args.expect.expect.is_empty() {
            return Ok(Vec::new());
        }
        let facts = facts(&self.graph, inputs, &[])?;
        Ok(cost::longest_sums(&self.graph, &facts))
    }

    /// The variables after the run, where they are printed or saved.
    fn variables(&self, session: &Session) -> Result<Vec<(String, Tensor)>, Failure> {
        let variables = if self.args.save_state.is_some() || self.args.common.json {
            session.variables().or_exit(Exit::Running)?
        } else {
            Vec::new()
        };
        if let Some(path) = &self.args.save_state {
            state::save(path, &variables)?;
        }
        Ok(variables)
    }

    fn print_json(&self, results: Results) -> Result<Exit, Failure> {
        let exit = results.exit();
        json::print(&Report {
            outputs: report::outputs(&self.ports, &results.outputs, &self.targets, &self.top),
            variables: report::variables(&results.variables),
            layers: profile::report(&results.profile, 1),
            expected: results.compared,
            dump: report::dumped(results.written.printed(&self.args.look)),
            steps: results.written.steps,
            boxes: results.written.boxes,
        })?;
        Ok(exit)
    }

    fn print_text(&self, results: &Results) -> Result<Exit, Failure> {
        let Results { outputs, written, compared, .. } = results;
        expect::tell_of_exactness(compared);
        let dumped = written.printed(&self.args.look);
        if !compared.is_empty() {
            print::text(show::text(compared, ["got", "expected"], compared.len()))?;
        } else if let Some(found) = &written.steps {
            print::text(steps::text(found))?;
        } else if !dumped.is_empty() {
            print::text(summary::text("value", report::numbered(dumped)))?;
        } else if let Some(boxes) = written.boxes.as_ref().filter(|_| !self.top.is_wanted()) {
            print::text(boxes::text(boxes))?;
        } else if self.targets.is_empty() || self.top.is_wanted() {
            print::text(report::text(&self.ports, outputs, &self.top))?;
        }
        print::text(profile::text(&results.profile, 1))?;
        Ok(results.exit())
    }
}

/// Prints the steps of a plan, and the passes that did something.
fn tell_plan(plan: &Plan) {
    let did_nothing = |line: &str| line.starts_with("pass ") && line.ends_with(": 0");
    let mut lines: Vec<String> = plan.explain().iter().map(|line| without_numbers(line)).collect();
    lines.retain(|line| !did_nothing(line));
    if lines.is_empty() {
        print::note("nothing is computed: the outputs are parts of the inputs");
    }
    lines.iter().for_each(print::note);
}

/// A line of a plan without the numbers of values.
fn without_numbers(line: &str) -> String {
    let Some((layer, outputs)) = line.rsplit_once(" -> ") else { return line.to_owned() };
    let place = |output: &str| match output.rsplit_once(" in ") {
        Some((fact, place)) => format!("{fact} in {}", memory::place(place)),
        None => output.to_owned(),
    };
    let outputs: Vec<String> = outputs.split(", ").map(place).collect();
    format!("{layer} -> {}", outputs.join(", "))
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
    let facts = facts(graph, tensors, variables)?;
    runtime::compile_with(graph, &facts, options).or_exit(Exit::Model)
}

/// What follows from inputs that are there.
///
/// # Errors
/// What is wrong with the model; or with the inputs, where it works with those it declares.
pub fn facts(
    graph: &Graph,
    tensors: &[Tensor],
    variables: &[(String, Tensor)],
) -> Result<Facts, Failure> {
    let given = given(tensors, variables);
    let problems = match infer::propagate(graph, &given) {
        Ok(facts) => return Ok(facts),
        Err(problems) => problems,
    };
    let problems = finding::with_inputs(problems, graph, &given);
    if tensors.is_empty() || infer::propagate(graph, &Inputs::default()).is_err() {
        return Err(problems).or_exit(Exit::Model);
    }
    let shown = |(port, tensor): (Port, &Tensor)| {
        let shape = PartialShape::fixed(tensor.sizes());
        format!("\"{}\" is {}{shape}", port.shown(), tensor.element_type())
    };
    let inputs: Vec<String> = bind::inputs(graph).into_iter().zip(tensors).map(shown).collect();
    let message = format!("the model works with other shapes of its inputs: {}", inputs.join(", "));
    let note = Diagnostic::note(Code::Shape, ByteOffset(0), message);
    let list = problems.list().iter().cloned().chain([note]).collect();
    Err(Diagnostics::new(Arc::clone(graph.source()), list)).or_exit(Exit::Input)
}

/// What is known of the inputs of a model whose tensors are there. Variables without a value begin
/// with their initial one.
pub fn given(tensors: &[Tensor], variables: &[(String, Tensor)]) -> Inputs {
    let shape = |t: &Tensor| PartialShape::fixed(t.sizes());
    let given = |t: &Tensor| InputSpec {
        element_type: Some(t.element_type()),
        shape: Some(shape(t)),
        ..InputSpec::default()
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
        let (nans, _) = finite::count(tensor);
        if nans > 0 {
            let (name, count) = (port.shown(), plural(tensor.count(), "element"));
            print::note(format_args!("note: {of}output {i} ({name}): {nans} of {count} are NaN"));
        }
    }
}
