//! The flags. Their help is what the README and the man page say.

use crate::batch::BatchArgs;
use crate::bind::Given;
use crate::compare::tolerance::ToleranceArgs;
use crate::diff::DiffArgs;
use crate::draw::GraphArgs;
use crate::edit::EditArgs;
use crate::expect::ExpectArgs;
use crate::explain::ExplainArgs;
use crate::extract::ExtractArgs;
use crate::generate::GenerateArgs;
use crate::limits::LimitArgs;
use crate::look::LookArgs;
use crate::media::boxes::DrawArgs;
use crate::media::picture::PictureArgs;
use crate::random::RandomArgs;
use crate::reduce::ReduceArgs;
use crate::repro::ReproArgs;
use crate::semantics::Semantics;
use crate::shell::{CompletionsArgs, ManArgs};
use crate::text::Glob;
use crate::top::TopArgs;
use clap::builder::StyledStr;
use clap::{Arg, Args, ColorChoice, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// Runs OpenVINO IR models: model.xml + model.bin, one binary, the same bits everywhere.
#[derive(Debug, Parser)]
#[command(
    name = "irrun",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  irrun model.xml
  irrun model.xml --input x.npy --output y.npy
  irrun check model.xml --shape 'x[1..8,3,224,224]'

Exit codes: 0 good, 1 a comparison or check failed, 2 bad usage, 3 bad model, 4 bad input, \
5 failed while running."
)]
pub struct Cli {
    /// What to do; without it, the model is run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Running a model.
    #[command(flatten)]
    pub run: RunArgs,
    /// Colours on a terminal; NO_COLOR in the environment means never.
    #[arg(long, global = true, value_name = "WHEN", default_value_t)]
    pub color: ColorChoice,
    /// Limits of every command.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a model; the word may be left out.
    #[command(after_help = "Examples:
  irrun run model.xml --input x.npy
  irrun run model.xml --input ids=ids.npy --input mask=mask.npy --output out/
  irrun run model.xml --input inputs.npz --expect expected.npz --rtol 1e-4
  irrun run model.xml --input cat.jpg --scale 255 --top 5 --labels labels.txt
  irrun run model.xml --batch-dir pictures/ --output out/")]
    Run(Box<RunArgs>),
    /// Check a model and infer its shapes; nothing is executed.
    Check(CheckArgs),
    /// Generate text from a language model: tokenizer, model, detokenizer.
    Generate(GenerateArgs),
    /// Run every case folder below some directories and compare with its goldens.
    Test(TestArgs),
    /// Measure load, check, plan, first run and the steady state.
    Bench(BenchArgs),
    /// Tell what a model consists of: inputs, outputs, variables, operations, weights.
    Inspect(InspectArgs),
    /// Draw a model as a page, a picture, or text that Graphviz or Mermaid draws.
    Graph(GraphArgs),
    /// Compare two arrays, archives or directories of arrays.
    Diff(DiffArgs),
    /// Tell why a size is what it is, or what a code such as IR0502 means.
    Explain(ExplainArgs),
    /// Cut a part out of a model, as a model of its own.
    Extract(ExtractArgs),
    /// Pack one layer with its inputs and outputs, for a report of a bug.
    Repro(ReproArgs),
    /// Find the smallest part of a model for which a command still fails.
    Reduce(ReduceArgs),
    /// Change names, shapes, outputs or weights of a model.
    Edit(EditArgs),
    /// List the operations and the opsets they exist in.
    Ops(OpsArgs),
    /// Print the completions for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page.
    Man(ManArgs),
}

/// Running a model.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The model: an .xml with its .bin beside it, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml", required = true)]
    pub model: Option<PathBuf>,
    /// An input: a tensor or layer name or an index, and a file: an .npy, a picture as .png or
    /// .jpg, or sound as .wav. Without a name, the next input in order, or for an .npz or
    /// .safetensors every array by its name.
    #[arg(short, long, value_name = "[NAME|INDEX=]FILE")]
    pub input: Vec<OsString>,
    /// An input of strings: one string, or the lines of a file; - is standard input. Without a
    /// name, the next input.
    #[arg(long, value_name = "[NAME|INDEX=]TEXT|@FILE")]
    pub text: Vec<String>,
    /// Where an output goes: an .npy, an .npz or .safetensors for all, or a directory. Without any,
    /// a summary of each output is printed.
    #[arg(short, long, value_name = "[NAME|INDEX=]FILE|DIR/")]
    pub output: Vec<OsString>,
    /// One run for each file of a directory.
    #[command(flatten)]
    pub batch: BatchArgs,
    /// The largest values of outputs.
    #[command(flatten)]
    pub top: TopArgs,
    /// Boxes on a picture.
    #[command(flatten)]
    pub draw: DrawArgs,
    /// Values for inputs that are not given.
    #[command(flatten)]
    pub random: RandomArgs,
    /// Convert inputs whose type is not that of the model.
    #[arg(long)]
    pub cast: bool,
    /// How pictures are read.
    #[command(flatten)]
    pub media: PictureArgs,
    /// Run the graph as it is written.
    #[arg(long)]
    pub no_optimize: bool,
    /// Print the steps of the plan and where their results live.
    #[arg(long)]
    pub explain: bool,
    /// Print the time of each operation type and of each layer.
    #[arg(long)]
    pub profile: bool,
    /// The values that variables begin with: an array for each, under its id. `irrun inspect` lists
    /// the variables.
    #[arg(long, value_name = "FILE.npz")]
    pub state: Option<PathBuf>,
    /// Where the values of the variables go after the run.
    #[arg(long, value_name = "FILE.npz")]
    pub save_state: Option<PathBuf>,
    /// What the outputs should be.
    #[command(flatten)]
    pub expect: ExpectArgs,
    /// Values of layers.
    #[command(flatten)]
    pub look: LookArgs,
    /// Flags that several commands share.
    #[command(flatten)]
    pub common: Common,
}

impl RunArgs {
    /// What the flags say about inputs.
    pub fn given(&self) -> Given<'_> {
        Given { files: &self.input, texts: &self.text, cast: self.cast, media: &self.media }
    }
}

/// Checking a model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    irrun check model.xml --all\n  \
    irrun check model.xml --symbolic --shape 'x[N,3,H,W]'\n  \
    irrun check model.xml --lint --weights")]
pub struct CheckArgs {
    /// The model, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml")]
    pub model: PathBuf,
    /// List every layer, not inputs and outputs only.
    #[arg(long)]
    pub all: bool,
    /// List the layers whose name or tensor name matches, with * and ?, or that have this id.
    #[arg(long, value_name = "GLOB|ID")]
    pub only: Option<Glob>,
    /// Shapes to use in place of those the model declares.
    #[arg(long, value_name = "NAME[1,3,?,?]")]
    pub shape: Vec<String>,
    /// A size for a name in --shape, such as N in `x[N,3,224,224]`.
    #[arg(long, value_name = "N=4")]
    pub set: Vec<String>,
    /// Shapes whose sizes are all to work: up to 65,536 are tried, and of a ? those up to 64.
    #[arg(long, value_name = "NAME[1..8,3,224..640,?]")]
    pub range: Vec<String>,
    /// Try every size of --range, however many there are.
    #[arg(long, requires = "range")]
    pub exhaustive: bool,
    /// Write shapes as expressions of the open sizes of the inputs, or of the names in --shape.
    #[arg(long)]
    #[arg(conflicts_with_all = ["set", "range", "sarif", "fix", "output", "lint", "weights"])]
    pub symbolic: bool,
    /// Say what is odd as well: dead layers, constants that are there twice, ranges of the .bin
    /// that none has or two share, conversions that lose precision.
    #[arg(long)]
    pub lint: bool,
    /// Say where OpenVINO's CPU plugin is known to compute something else than the specification
    /// says.
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t, conflicts_with = "symbolic")]
    pub semantics: Semantics,
    /// Plan a run, and say what memory it will need.
    #[arg(long, conflicts_with_all = ["symbolic", "range"])]
    pub memory: bool,
    /// Look at every weight, and say where there are NaN, infinities and subnormals.
    #[arg(long)]
    pub weights: bool,
    /// Write the model without what can be mended: no dead layers, each constant once, types and
    /// dims declared as they are inferred.
    #[arg(long, requires = "output")]
    pub fix: bool,
    /// Write the findings as SARIF, which GitHub shows beside the lines of the file.
    #[arg(long, value_name = "FILE.sarif")]
    pub sarif: Option<PathBuf>,
    /// Where the mended model goes.
    #[arg(short, long, value_name = "FILE.xml", requires = "fix")]
    pub output: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Running case folders.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:
  irrun test cases
  irrun test model.xml --record cases/first --input x.npy
  irrun test cases --digests model.digests --update
  irrun test irrun.toml --tag small --junit report.xml --github",
    mut_args(for_record)
)]
pub struct TestArgs {
    /// Directories to search for case folders and irrun.toml, or suite files.
    #[arg(value_name = "DIR|SUITE.toml", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Print every case, not the failures only.
    #[arg(short, long)]
    pub verbose: bool,
    /// Run the graphs exactly as they are written.
    #[arg(long)]
    pub no_optimize: bool,
    /// Pass over cases whose model has an operation that irrun does not know, and count them.
    #[arg(long)]
    pub skip_unsupported: bool,
    /// Cases, by folder name with * and ?, that must fail; it is a failure when they pass, and a
    /// mistake when there are none.
    #[arg(long, value_name = "GLOB")]
    pub expect_failure: Vec<Glob>,
    /// Run the cases whose folder name or path matches, with * and ?.
    #[arg(long, value_name = "GLOB")]
    pub filter: Vec<Glob>,
    /// Run the models of suite files that have this tag.
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Begin no further case when one has failed.
    #[arg(long)]
    pub fail_fast: bool,
    /// Run the I-th of N parts of the cases, for N machines that share the work.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Make a case folder of a model: give the model in place of directories, and its inputs.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["update", "digests", "filter", "shard"])]
    pub record: Option<PathBuf>,
    /// With --record: an input, as for running.
    #[arg(short, long, value_name = "[NAME|INDEX=]FILE", requires = "record")]
    pub input: Vec<OsString>,
    /// How pictures are read.
    #[command(flatten)]
    pub media: PictureArgs,
    /// How far outputs may be from what is recorded; 1e-4 and 1e-5 for real numbers without it.
    #[command(flatten)]
    pub tolerance: ToleranceArgs,
    /// Put what the models give now in place of goldens that differ, and print what changed.
    #[arg(long)]
    pub update: bool,
    /// Compare hashes of the outputs with those of a file, in place of golden arrays.
    #[arg(long, value_name = "FILE")]
    pub digests: Option<PathBuf>,
    /// Digests of every layer, not of outputs only: the first that differs is told.
    #[arg(long)]
    pub layers: bool,
    /// Write the outcomes as JUnit XML.
    #[arg(long, value_name = "FILE.xml")]
    pub junit: Option<PathBuf>,
    /// Print annotations for the workflow of GitHub that runs it.
    #[arg(long, conflicts_with = "json")]
    pub github: bool,
    /// What the operands of matrix products, convolutions and attention are rounded to; bf16 is
    /// less accurate, and faster where the machine can multiply it.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub precision: Precision,
    /// Threads; the cases are divided among them.
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Flags that other commands share, where they are for recording alone.
fn for_record(arg: Arg) -> Arg {
    let ids = ["rtol", "atol", "mean", "scale", "channels"];
    let help = arg.get_help().filter(|_| ids.contains(&arg.get_id().as_str()));
    let Some(help) = help.map(ToString::to_string) else { return arg };
    let mut rest = help.chars();
    let first = rest.next().map(|c| c.to_ascii_lowercase());
    let help: String = "With --record: ".chars().chain(first).chain(rest).collect();
    arg.help(StyledStr::from(help))
}

/// Measuring a model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  irrun bench model.xml
  irrun bench model.xml --shape 'x[8,3,224,224]' --runs 200 --threads 2
  irrun bench model.xml --html profile.html
  irrun bench model.xml --streams 2 --threads 2")]
pub struct BenchArgs {
    /// The model, or a case folder: unless inputs are given, its first run is repeated step by
    /// step.
    #[arg(value_name = "MODEL.xml|DIR")]
    pub model: PathBuf,
    /// Inputs, as for running. Those not given are filled with numbers between 0 and 1.
    #[arg(short, long, value_name = "[NAME|INDEX=]FILE")]
    pub input: Vec<OsString>,
    /// Convert inputs whose type is not that of the model.
    #[arg(long)]
    pub cast: bool,
    /// How pictures are read.
    #[command(flatten)]
    pub media: PictureArgs,
    /// Timed runs.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = runs)]
    #[arg(allow_negative_numbers = true)]
    pub runs: usize,
    /// Runs before them.
    #[arg(long, value_name = "W", default_value_t = 3, value_parser = whole::<usize>)]
    #[arg(allow_negative_numbers = true)]
    pub warmup: usize,
    /// Sessions that run at the same time, each in a thread of its own, with its share of the
    /// threads and one copy of the weights for all.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = streams)]
    #[arg(allow_negative_numbers = true, conflicts_with = "profile")]
    pub streams: usize,
    /// Stop after so many seconds, whatever the number of runs.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    pub seconds: f64,
    /// Run the graph as it is written.
    #[arg(long)]
    pub no_optimize: bool,
    /// List the time of each layer and of each operation type.
    #[arg(long)]
    pub profile: bool,
    /// Write the plan as a page whose steps are coloured by their times.
    #[arg(long, value_name = "FILE.html", conflicts_with = "streams")]
    pub html: Option<PathBuf>,
    /// Write when each layer ran in one more run, as Trace Events, which ui.perfetto.dev and
    /// chrome://tracing show.
    #[arg(long, value_name = "FILE.json", conflicts_with = "streams")]
    pub trace: Option<PathBuf>,
    /// Flags that several commands share.
    #[command(flatten)]
    pub common: Common,
}

impl BenchArgs {
    /// What the flags say about inputs.
    pub fn given(&self) -> Given<'_> {
        Given { files: &self.input, texts: &[], cast: self.cast, media: &self.media }
    }
}

/// Looking at a model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  irrun inspect model.xml
  irrun inspect model.xml --shape 'x[1,3,224,224]'
  irrun inspect model.xml --json | jq .inputs")]
pub struct InspectArgs {
    /// The model, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml")]
    pub model: PathBuf,
    /// Shapes to use in place of those the model declares.
    #[arg(long, value_name = "NAME[1,3,?,?]")]
    pub shape: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Listing operations.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  irrun ops
  irrun ops 'Reduce*'
  irrun ops --json | jq '.operations[].type'")]
pub struct OpsArgs {
    /// List the operations whose name matches, with * and ?.
    #[arg(value_name = "GLOB")]
    pub only: Option<Glob>,
    /// Print the page docs/operations.md.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Flags that several commands share.
#[derive(Debug, Args)]
pub struct Common {
    /// Shapes to use in place of those the model declares.
    #[arg(long, value_name = "NAME[1,3,224,224]")]
    pub shape: Vec<String>,
    /// What the operands of matrix products, convolutions and attention are rounded to; bf16 is
    /// less accurate, and faster where the machine can multiply it.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub precision: Precision,
    /// What rows are rounded to before they are multiplied by weights of 8 or 4 bits; int8 is
    /// faster, and wrong by up to 1/254 of the largest of each 32 values. OpenVINO does it by
    /// default.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub activations: Activations,
    /// Threads; the results do not depend on it.
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// One of some parts: `1/4` is the first of four.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    /// Which part, from 0.
    pub index: usize,
    /// How many parts.
    pub count: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').map(|(i, n)| (i.parse().ok(), n.parse().ok()));
        match numbers {
            Some((Some(i), Some(n))) if (1..=n).contains(&i) => {
                Ok(Shard { index: i - 1, count: n })
            }
            _ => Err("give a part and the number of parts, as in 1/4".to_owned()),
        }
    }
}

/// Threads that a process is given at most; of many more the system has not the memory.
const MOST_THREADS: usize = 1024;

/// Reads a number of threads.
///
/// # Errors
/// What it may be.
pub fn threads(text: &str) -> Result<usize, String> {
    let wanted = || format!("give a whole number from 1 to {MOST_THREADS}");
    text.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n)).ok_or_else(wanted)
}

fn runs(text: &str) -> Result<usize, String> {
    let wanted = || "give a whole number from 1 on".to_owned();
    text.parse().ok().filter(|n| *n > 0).ok_or_else(wanted)
}

/// More streams than any machine keeps busy; systems refuse threads at some number.
const MAX_STREAMS: usize = 256;

fn streams(text: &str) -> Result<usize, String> {
    let wanted = || format!("give a whole number from 1 to {MAX_STREAMS}");
    text.parse().ok().filter(|n| (1..=MAX_STREAMS).contains(n)).ok_or_else(wanted)
}

/// Reads a whole number.
///
/// # Errors
/// What it may be.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "give a whole number from 0 on".to_owned())
}

/// Reads a number.
///
/// # Errors
/// What it may be.
pub fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "give a number, such as 0.5".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|s| *s > 0.0).ok_or_else(|| "give a number above 0".to_owned())
}

/// What the operands of matrix products are rounded to.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Precision {
    /// Not rounded.
    #[default]
    F32,
    /// Eight bits of significand, as OpenVINO does by default where the machine has it.
    Bf16,
}

impl Precision {
    /// The name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
        }
    }
}

/// What rows are rounded to before they are multiplied by compressed weights.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Activations {
    /// Not rounded: the weights are dequantized.
    #[default]
    F32,
    /// Integers of 8 bits with a scale for each 32 (dynamic quantization).
    Int8,
}

impl From<Activations> for runtime::Activations {
    fn from(activations: Activations) -> runtime::Activations {
        match activations {
            Activations::F32 => runtime::Activations::F32,
            Activations::Int8 => runtime::Activations::Int8,
        }
    }
}

impl From<Precision> for runtime::Precision {
    fn from(precision: Precision) -> runtime::Precision {
        match precision {
            Precision::F32 => runtime::Precision::F32,
            Precision::Bf16 => runtime::Precision::Bf16,
        }
    }
}
