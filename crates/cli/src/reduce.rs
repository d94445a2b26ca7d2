//! `irrun reduce`: the smallest part of a model for which a command still fails, by delta debugging
//! ("Simplifying and isolating failure-inducing input", Zeller and Hildebrandt).

use crate::args::whole;
use crate::exit::{Exit, Failure, OrExit};
use crate::locate;
use crate::print;
use crate::surgery::declare::shape_text;
use crate::surgery::written::Report;
use crate::surgery::{self, induced};
use crate::text::plural;
use anyhow::{Context, anyhow};
use clap::Args;
use infer::{Dim, PartialShape};
use ir::Graph;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Reducing a model.
#[derive(Debug, Args)]
#[command(
    after_help = "The command has failed when its exit code is the one that the whole model \
    gives it.\n\nExamples:\n  \
    irrun reduce model.xml --test 'irrun check {}' -o small.xml\n  \
    irrun reduce model.xml --test './differs.sh {}' -o small.xml\n  \
    irrun reduce model.xml --test 'python compare.py {} | grep -q mismatch && exit 1' -o small.xml"
)]
pub struct ReduceArgs {
    /// The model, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml")]
    pub model: PathBuf,
    /// What fails: a command for the shell, with {} for the file of the model.
    #[arg(long, value_name = "CMD")]
    pub test: String,
    /// Where the smallest model goes; its weights go beside it.
    #[arg(short, long, value_name = "FILE.xml")]
    pub output: PathBuf,
    /// Stop after so many runs of the command.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<usize>)]
    pub tries: usize,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Reduces a model.
///
/// # Errors
/// When the file is no graph, the command does not fail on it, or nothing can be written.
pub(crate) fn reduce(args: &ReduceArgs) -> Result<Exit, Failure> {
    if !args.test.contains("{}") {
        let error = anyhow!("--test {}: write {{}} where the file of the model belongs", args.test);
        return Err(Failure { exit: Exit::Usage, error });
    }
    let model = locate::model_file(&args.model);
    let graph = locate::read(&model).or_exit(Exit::Model)?;
    let room = tempfile::tempdir().context("no temporary directory").or_exit(Exit::Input)?;
    let code = run(&args.test, &model).or_exit(Exit::Input)?;
    can_be_run(args, code)?;
    if code.success() {
        let error = anyhow!("--test {}: it does not fail on the whole model", args.test);
        return Err(Failure { exit: Exit::Usage, error });
    }
    let mut test = Test { args, code, file: room.path().join("model.xml"), tries: 0 };
    let mut smallest = layers(&graph, &mut test);
    shapes(&mut smallest, &mut test);
    surgery::write(&smallest, &model, &args.output)?;
    let text = format!(
        "{}: {} of {} after {}; the command still ends with {}",
        args.output.display(),
        plural(smallest.layers().len(), "layer"),
        graph.layers().len(),
        plural(test.tries, "try").replace("trys", "tries"),
        test.code,
    );
    Report::new(&args.output, &smallest, &graph).after(test.tries).tell(args.json, &text)?;
    Ok(Exit::Good)
}

/// Refuses a command that the shell has not found or may not run: it would fail for any model.
fn can_be_run(args: &ReduceArgs, code: ExitStatus) -> Result<(), Failure> {
    let why = match code.code() {
        Some(126) => "may not be run",
        Some(127) => "is not found",
        _ => return Ok(()),
    };
    let error = anyhow!(
        "--test {}: the command, or one that it runs, {why} (exit code {}); try it in a shell",
        args.test,
        code.code().unwrap_or_default()
    );
    Err(Failure { exit: Exit::Usage, error })
}

/// The test that a smaller model has to fail as the whole does.
struct Test<'a> {
    args: &'a ReduceArgs,
    code: ExitStatus,
    file: PathBuf,
    tries: usize,
}

impl Test<'_> {
    fn is_spent(&self) -> bool {
        self.tries >= self.args.tries
    }

    fn fails(&mut self, graph: &Graph) -> bool {
        if self.is_spent() {
            return false;
        }
        let written = surgery::pack::packed(graph).is_ok_and(|g| ir::write(&g, &self.file).is_ok());
        self.tries += 1;
        let fails = written && run(&self.args.test, &self.file).is_ok_and(|code| code == self.code);
        if fails {
            print::note(format_args!("{} left", plural(graph.layers().len(), "layer")));
        }
        fails
    }
}

/// Runs the command on a file. What it says is not passed on: it is run hundreds of times.
fn run(command: &str, file: &Path) -> anyhow::Result<ExitStatus> {
    let file = file.display().to_string().replace('\'', "'\\''");
    let command = command.replace("{}", &format!("'{file}'"));
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut process = Command::new(shell);
    process.args([flag, &command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process.status().with_context(|| format!("{shell} cannot be started"))
}

/// As few layers as still fail: halves, quarters and so on are left out while the rest fails.
fn layers(graph: &Graph, test: &mut Test) -> Graph {
    let facts = infer::analyse(graph, &infer::Inputs::default()).facts;
    let constant = induced::constant(graph);
    let is_layer = |p: &usize| {
        let interface = ["Parameter", "Result"];
        let layer = graph.layers().get(*p);
        !constant[*p] && layer.is_some_and(|l| !interface.iter().any(|t| l.is(t)))
    };
    let mut kept: Vec<usize> = graph.order().iter().copied().filter(is_layer).collect();
    let part = |kept: &[usize]| {
        let kept: HashSet<usize> = kept.iter().copied().collect();
        induced::induced(graph, &facts, &kept, &HashSet::new()).ok()
    };
    let mut smallest = graph.clone();
    let mut pieces = 2;
    while kept.len() > 1 && !test.is_spent() {
        let size = kept.len().div_ceil(pieces);
        let chunks: Vec<Vec<usize>> = kept.chunks(size).map(<[usize]>::to_vec).collect();
        let rest = |chunk: &Vec<usize>| -> Vec<usize> {
            kept.iter().copied().filter(|p| !chunk.contains(p)).collect()
        };
        // One piece alone, or all but one.
        let alone = chunks.iter().map(|chunk| (chunk.clone(), 2));
        let without = chunks.iter().map(|chunk| (rest(chunk), (pieces - 1).max(2)));
        let smaller = alone.chain(without).find_map(|(layers, pieces)| {
            let graph = part(&layers).filter(|_| !layers.is_empty())?;
            test.fails(&graph).then_some((layers, graph, pieces))
        });
        match smaller {
            Some((layers, graph, next)) => (kept, smallest, pieces) = (layers, graph, next),
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(kept.len()),
        }
    }
    // Even a single layer is easier to read without the rest of the file around it.
    match part(&kept).filter(|whole| whole.layers().len() < smallest.layers().len()) {
        Some(whole) if test.fails(&whole) => whole,
        _ => smallest,
    }
}

/// Inputs as small as still fail: each size 1, or else halved as often as it can be.
fn shapes(graph: &mut Graph, test: &mut Test) {
    for position in graph.parameters().to_vec() {
        let rank = shape_of(graph, position).and_then(|shape| shape.rank()).unwrap_or(0);
        for axis in 0..rank {
            let mut divisor = i64::MAX;
            while let Some(size) = shape_of(graph, position).and_then(|s| s.dim(axis).value()) {
                let wanted = if divisor == i64::MAX { 1 } else { size / divisor };
                if wanted < 1 || wanted >= size {
                    break;
                }
                let smaller = with_dim(graph, position, axis, wanted);
                match smaller.filter(|smaller| test.fails(smaller)) {
                    Some(smaller) => *graph = smaller,
                    None if divisor == 2 => break,
                    None => divisor = 2,
                }
            }
        }
    }
}

fn shape_of(graph: &Graph, position: usize) -> Option<PartialShape> {
    graph.layers().get(position)?.attribute("shape")?.parse().ok()
}

fn with_dim(graph: &Graph, position: usize, axis: usize, size: i64) -> Option<Graph> {
    let shape = shape_of(graph, position)?.with_dim(axis, Dim::fixed(size));
    let mut parts = graph.parts().clone();
    let layer = parts.layers.get_mut(position)?;
    let data = layer.data.iter_mut().filter(|(key, _)| key == "shape");
    data.for_each(|(_, value)| *value = shape_text(&shape));
    let changed = surgery::assemble(graph, parts).ok()?;
    let facts = infer::analyse(&changed, &infer::Inputs::default()).facts;
    let mut parts = changed.parts().clone();
    surgery::declare::declare(&mut parts, &changed, &facts);
    surgery::assemble(&changed, parts).ok()
}
