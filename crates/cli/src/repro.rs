//! `irrun repro`: one layer with its inputs and outputs, as a report of a bug needs it.

use crate::arrays::Arrays;
use crate::bind::{self, Declared, Given};
use crate::compare::comparison::Comparison;
use crate::compare::show;
use crate::exit::{Exit, Failure, OrExit};
use crate::extract;
use crate::locate;
use crate::look::steps::usual;
use crate::media::picture::PictureArgs;
use crate::npy;
use crate::out;
use crate::random::{self, RandomArgs};
use crate::run;
use crate::surgery::written::Report as Written;
use crate::surgery::{self, induced};
use crate::text::plural;
use crate::version;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use infer::{Facts, PartialShape};
use ir::{Graph, Layer, OutputRef};
use runtime::{Observed, Observer, Options, Tensor};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Packing a layer for a report of a bug.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    irrun repro model.xml --layer conv1 --input x.npy -o report\n  \
    irrun repro model.xml --layer 41 --random -o report\n  \
    irrun repro model.xml --layer conv1 --input x.npy --reference ref.npz -o report")]
pub struct ReproArgs {
    /// The model, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml")]
    pub model: PathBuf,
    /// The layer, by name or id.
    #[arg(long, value_name = "LAYER")]
    pub layer: String,
    /// Inputs, as for running.
    #[arg(short, long, value_name = "[NAME|INDEX=]FILE")]
    pub input: Vec<OsString>,
    /// How pictures are read.
    #[command(flatten)]
    pub media: PictureArgs,
    /// Values for inputs that are not given.
    #[command(flatten)]
    pub random: RandomArgs,
    /// What another program computes for the layers, as for --compare-steps. The layer's inputs are
    /// then those of the reference, so that what differs is its own doing.
    #[arg(long, value_name = "REF.npz|DIR")]
    pub reference: Option<PathBuf>,
    /// Where the report goes: a directory that is not there yet.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Shapes to use in place of those the model declares.
    #[arg(long, value_name = "NAME[1,3,?,?]")]
    pub shape: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl ReproArgs {
    /// What the flags say about inputs.
    fn given(&self) -> Given<'_> {
        Given { files: &self.input, texts: &[], cast: false, media: &self.media }
    }
}

/// What OpenVINO runs.
const SCRIPT: &str = include_str!("repro.py");

/// Packs the layer.
///
/// # Errors
/// As running the model, unless it fails at the layer or behind it; when there is no such layer, it
/// is no operation, or the directory is there already.
pub(crate) fn repro(args: &ReproArgs) -> Result<Exit, Failure> {
    let model = locate::model_file(&args.model);
    let graph = locate::read(&model).or_exit(Exit::Model)?;
    let position = locate::layer(&graph, &args.layer).or_exit(Exit::Usage)?;
    let layer = graph.layers().get(position).context("no such layer").or_exit(Exit::Usage)?;
    can_be_packed(layer, &args.output).or_exit(Exit::Usage)?;
    let declared = Declared::new(&graph, &args.shape)?;
    files_are_apart(args, &model, &declared).or_exit(Exit::Usage)?;
    let given = bind::given_inputs(&args.given(), &declared)?;
    let tensors = random::complete(&args.random, given, &declared)?;
    let facts = run::facts(&graph, &tensors, &[])?;
    let only = HashSet::from([position]);
    let part = extract::part(&graph, &facts, &only, &only)?;
    let sources = sources(&graph, position);
    let reference = match &args.reference {
        Some(path) => {
            Reference::read(path, (&graph, &facts), (position, &sources)).or_exit(Exit::Input)?
        }
        None => Reference::default(),
    };
    let are_theirs = reference.inputs.is_some();
    let inputs = match reference.inputs {
        Some(inputs) => inputs,
        None => values(&graph, &tensors, &sources)?,
    };
    let own = outputs(&part, &inputs);
    let of = (model.as_path(), graph.name());
    let reference_file = args.reference.as_deref();
    let report =
        Report { layer, of, inputs, are_theirs, own, reference_file, reference: reference.outputs };
    out::make_dir(out::dir_of(&args.output)).or_exit(Exit::Input)?;
    std::fs::create_dir(&args.output)
        .with_context(|| format!("the directory {} cannot be made", args.output.display()))
        .or_exit(Exit::Input)?;
    surgery::write(&part, &model, &args.output.join("model.xml"))?;
    report.write(&args.output).or_exit(Exit::Input)?;
    let text = format!(
        "{}: {} with {}; README.md tells how to run it",
        args.output.display(),
        layer.title(),
        plural(report.inputs.len(), "input"),
    );
    Written::new(&args.output, &part, &graph).tell(args.json, &text)?;
    Ok(Exit::Good)
}

/// Refuses to write the inputs over a file that is read.
fn files_are_apart(args: &ReproArgs, model: &Path, declared: &Declared) -> Result<()> {
    let Some(path) = &args.random.save_inputs else { return Ok(()) };
    let mut read = out::of_model(model).to_vec();
    read.extend(bind::input_files(&args.input, declared).map(|file| ("an input", file)));
    read.extend(args.reference.iter().map(|file| ("the reference", file.clone())));
    out::keep_apart(&[path], &read)
}

/// Endings of files: who gives one of them expects no directory.
const FILES: [&str; 12] =
    ["zip", "7z", "tar", "gz", "tgz", "xz", "zst", "xml", "npz", "npy", "json", "md"];

fn can_be_packed(layer: &Layer, dir: &Path) -> Result<()> {
    if ["Parameter", "Const", "Result"].iter().any(|op_type| layer.is(op_type)) {
        bail!("{} computes nothing; name a layer that does", layer.title());
    }
    ensure!(!dir.exists(), "{} is there already; name a new directory", dir.display());
    let ending = dir.extension().unwrap_or_default().to_ascii_lowercase();
    if FILES.iter().any(|known| ending == *known) {
        let plain = dir.with_extension("");
        bail!("{} is to be a directory; call it {}", dir.display(), plain.display());
    }
    Ok(())
}

/// The tensors that are inputs of the layer by itself, in the order of its Parameters.
fn sources(graph: &Graph, position: usize) -> Vec<OutputRef> {
    let constant = induced::constant(graph);
    let mut sources: Vec<OutputRef> = Vec::new();
    for source in graph.inputs_of(position) {
        if !constant[source.layer] && !sources.contains(source) {
            sources.push(*source);
        }
    }
    sources
}

/// The values of some tensors in a run.
struct Wanted(Vec<(OutputRef, Option<Tensor>)>);

impl Observer for Wanted {
    fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
        let at = OutputRef { layer: value.position, port: value.port };
        for (_, found) in self.0.iter_mut().filter(|(of, _)| *of == at && value.bodies.is_empty()) {
            *found = Some(value.tensor().map_err(|e| e.to_string())?);
        }
        Ok(())
    }
}

/// The values of some tensors of a graph. Where it fails, those that it has got to are enough.
fn values(
    graph: &Graph,
    tensors: &[Tensor],
    sources: &[OutputRef],
) -> Result<Vec<Tensor>, Failure> {
    let of_input = |source: &OutputRef| {
        let input = graph.parameters().iter().position(|p| *p == source.layer)?;
        tensors.get(input).cloned()
    };
    let wanted = Wanted(sources.iter().map(|s| (*s, of_input(s))).collect());
    let mut session = run::plan(graph, tensors, &[], &Options::default())?.session();
    let (ran, wanted) = session.run_observed(tensors, wanted);
    let found: Option<Vec<Tensor>> = wanted.0.into_iter().map(|(_, value)| value).collect();
    match (found, ran) {
        (Some(found), _) => Ok(found),
        (None, Err(failed)) => Err(failed).or_exit(Exit::Running),
        (None, Ok(_)) => {
            let error = anyhow!("the inputs of the layer were not computed: no output needs them");
            Err(Failure { exit: Exit::Usage, error })
        }
    }
}

/// What the layer gives by itself, or why it gives nothing.
fn outputs(part: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let shown = |failure: Failure| format!("{:#}", failure.error);
    let plan = run::plan(part, inputs, &[], &Options::default()).map_err(shown)?;
    plan.session().run(inputs).map_err(|problems| problems.to_string())
}

/// What another program computes for the layer.
#[derive(Default)]
struct Reference {
    /// The layer's inputs, if it has all of them.
    inputs: Option<Vec<Tensor>>,
    /// Each output, if it has it.
    outputs: Vec<Option<Tensor>>,
}

impl Reference {
    /// Reads what an archive has.
    ///
    /// # Errors
    /// When it cannot be read, or has nothing of the outputs.
    fn read(
        path: &Path,
        (graph, facts): (&Graph, &Facts),
        (position, sources): (usize, &[OutputRef]),
    ) -> Result<Reference> {
        let mut arrays = Arrays::open(path)?;
        let mut value = |of: OutputRef| -> Result<Option<Tensor>> {
            let (Some(layer), Some(fact)) = (graph.layers().get(of.layer), facts.output(of)) else {
                return Ok(None);
            };
            let index = array_of(layer, of.port, arrays.names());
            index.map(|index| arrays.read(index, fact.element_type)).transpose()
        };
        let inputs: Vec<Option<Tensor>> =
            sources.iter().map(|source| value(*source)).collect::<Result<_>>()?;
        let made = (0..).zip(facts.node(position).map_or(&[][..], |node| &node.outputs));
        let outputs: Vec<Option<Tensor>> = made
            .map(|(port, _)| value(OutputRef { layer: position, port }))
            .collect::<Result<_>>()?;
        ensure!(
            outputs.iter().any(Option::is_some),
            "{} has no array of the layer's outputs; an array is called LAYER:PORT",
            path.display()
        );
        Ok(Reference { inputs: inputs.into_iter().collect(), outputs })
    }
}

/// The array of an output: `LAYER:PORT`, a tensor name, or the name of a layer with one output.
fn array_of(layer: &Layer, port: usize, names: &[String]) -> Option<usize> {
    let exact = |name: &str| names.iter().position(|own| own == name);
    let tensors = layer.outputs.get(port).map_or(&[][..], |port| &port.names);
    exact(&format!("{}:{port}", layer.name))
        .or_else(|| tensors.iter().find_map(|name| exact(name)))
        .or_else(|| exact(&layer.name).filter(|_| layer.outputs.len() == 1))
}

/// What the directory holds.
struct Report<'a> {
    layer: &'a Layer,
    /// The file of the model, and what it calls itself.
    of: (&'a Path, &'a str),
    inputs: Vec<Tensor>,
    /// Whether the inputs are those of the reference.
    are_theirs: bool,
    own: Result<Vec<Tensor>, String>,
    /// The file of the reference.
    reference_file: Option<&'a Path>,
    /// What the reference has of each output.
    reference: Vec<Option<Tensor>>,
}

impl Report<'_> {
    fn write(&self, dir: &Path) -> Result<()> {
        let own = self.own.as_deref().unwrap_or_default().iter().map(Some);
        let files = [
            ("input", self.inputs.iter().map(Some).collect()),
            ("irrun", own.collect()),
            ("reference", self.reference.iter().map(Option::as_ref).collect::<Vec<_>>()),
        ];
        for (name, tensors) in files {
            for (i, tensor) in tensors.into_iter().enumerate() {
                let Some(tensor) = tensor else { continue };
                let path = dir.join(format!("{name}_{i}.npy"));
                out::write_whole(&path, |file| npy::write(tensor, file))?;
            }
        }
        let text = |name: &str, text: &str| {
            out::write_whole(&dir.join(name), |file| Ok(file.write_all(text.as_bytes())?))
        };
        text("run_openvino.py", SCRIPT)?;
        text("README.md", &self.text()?)
    }

    fn text(&self) -> Result<String> {
        let Layer { op_type, version, .. } = self.layer;
        let (file, name) = self.of;
        let mut text = format!(
            "# {}\n\nOne layer of the model \"{name}\" ({}), {op_type} of {version}.\n\n",
            self.layer.title(),
            file.display()
        );
        let reference = self.reference_file.map(|file| file.display().to_string());
        let reference = reference.unwrap_or_default();
        let of = if self.are_theirs { reference.as_str() } else { "a run of irrun" };
        for (i, tensor) in self.inputs.iter().enumerate() {
            writeln!(text, "- `input_{i}.npy`: {}, from {of}", typed(tensor))?;
        }
        match &self.own {
            Ok(outputs) => {
                for (i, tensor) in outputs.iter().enumerate() {
                    writeln!(text, "- `irrun_{i}.npy`: {}", typed(tensor))?;
                }
            }
            Err(error) => writeln!(text, "- irrun fails: {error}")?,
        }
        for (i, tensor) in self.reference.iter().enumerate() {
            if let Some(tensor) = tensor {
                writeln!(text, "- `reference_{i}.npy`: {}, from {reference}", typed(tensor))?;
            }
        }
        let compared = self.compared();
        if !compared.is_empty() {
            let shown = show::text(&compared, ["irrun", "reference"], compared.len());
            writeln!(text, "\n```text\n{}\n```", shown.trim_end())?;
        }
        let inputs: Vec<String> =
            (0..self.inputs.len()).map(|i| format!("-i input_{i}.npy")).collect();
        writeln!(
            text,
            "\n```console\n$ irrun model.xml {}\n$ python run_openvino.py\n```",
            inputs.join(" ")
        )?;
        writeln!(text, "\n```text\n{}\n```", version::text().trim_end())?;
        Ok(text)
    }

    fn compared(&self) -> Vec<Comparison> {
        let own = self.own.as_deref().unwrap_or_default();
        let pairs = own.iter().zip(&self.reference).enumerate();
        let pairs = pairs.filter_map(|(i, (own, reference))| Some((i, own, reference.as_ref()?)));
        let compared = |(i, own, reference): (usize, &Tensor, &Tensor)| {
            Comparison::of(&format!("output {i}"), own, reference, usual(reference), WORST)
        };
        pairs.map(compared).collect()
    }
}

/// The worst elements that are listed.
const WORST: usize = 3;

fn typed(tensor: &Tensor) -> String {
    format!("{}{}", tensor.element_type(), PartialShape::fixed(tensor.sizes()))
}
