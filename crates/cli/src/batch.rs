//! `--batch-dir`: one run for each file of a directory.

use crate::args::RunArgs;
use crate::bind::{self, Declared, Given, Port, Target};
use crate::exit::{Exit, Failure, OrExit};
use crate::hint;
use crate::media::Kind;
use crate::media::picture::PictureArgs;
use crate::report::{self, OutputReport};
use crate::run;
use crate::text::plural;
use crate::top::Top;
use crate::{json, limits, locate, npy, npz, out, print};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use ir::Graph;
use runtime::{Options, Session, Tensor, Threads};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The flags.
#[derive(Debug, Default, Args)]
pub struct BatchArgs {
    /// Run once for each array, picture and sound in a directory, in the order of their names, for
    /// a model with one input. With -o DIR/ each run writes a file there, called like its input: an
    /// .npy, or an .npz if there are several outputs. A file that fails is named, and the others
    /// are run.
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = [
        "input", "text", "random", "explain", "profile", "state", "save_state", "expect", "dump",
        "dump_all", "save_inputs", "compare_steps", "nan_check", "draw",
    ])]
    pub batch_dir: Option<PathBuf>,
}

/// What `irrun MODEL.xml --batch-dir DIR --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// The files in the order of their names.
    files: Vec<FileReport>,
    /// How many of them failed.
    failed: usize,
}

/// What became of a file.
#[derive(Serialize, JsonSchema)]
struct FileReport {
    file: String,
    /// What the model gives for it; nothing if it failed.
    outputs: Vec<OutputReport>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FileError>,
}

/// Why a file failed.
#[derive(Serialize, JsonSchema)]
struct FileError {
    /// The exit code that it alone would lead to: 3 bad model, 4 bad input, 5 failed while running.
    exit_code: u8,
    /// What standard error says.
    message: String,
}

/// Runs a model once for each file of a directory.
///
/// # Errors
/// When the model cannot be run so, or the directory cannot be read. That a file fails is told, and
/// the worst exit code of all files is given back.
pub(crate) fn run(args: &RunArgs, dir: &Path) -> Result<Exit, Failure> {
    let mut batch = Batch::new(args)?;
    let files = files(dir).or_exit(Exit::Input)?;
    batch.flags_are_needed(dir, &files).or_exit(Exit::Usage)?;
    let targets = batch.targets(dir, &files).or_exit(Exit::Usage)?;
    let bar = print::progress(files.len());
    let mut reports = Vec::new();
    let (mut worst, mut failed) = (Exit::Good, 0);
    for (file, targets) in files.iter().zip(&targets) {
        bar.set_message(file.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let done = batch.one(file, targets);
        if done.is_err() && limits::exit_code().is_some() {
            bar.finish_and_clear();
            return done.map(|_| worst);
        }
        let outputs = match done {
            Ok(outputs) => Ok(outputs),
            Err(failure) => {
                failed += 1;
                worst = if failure.exit.code() > worst.code() { failure.exit } else { worst };
                Err(failed_with(file, &failure))
            }
        };
        if let Err(error) = &outputs {
            print::note(format_args!("error: {}", error.message));
        }
        if args.common.json {
            reports.push(batch.report(file, targets, outputs));
        } else if let Ok(outputs) = outputs {
            batch.tell(file, &outputs)?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.common.json {
        json::print(&Report { files: reports, failed })?;
    }
    if failed > 0 {
        print::note(format_args!("error: {failed} of {} failed", plural(files.len(), "file")));
    }
    Ok(worst)
}

/// Why a file failed, with its name unless the message has it.
fn failed_with(file: &Path, failure: &Failure) -> FileError {
    let (message, name) = (failure.to_string(), file.display().to_string());
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let message =
        if message.contains(&name) { message.to_owned() } else { format!("{name}: {message}") };
    FileError { exit_code: failure.exit.code(), message }
}

/// The files of a directory that can be inputs, in the order of their names.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("--batch-dir {}", dir.display());
    let mut files = Vec::new();
    let mut others = 0;
    let entries = std::fs::read_dir(dir);
    for entry in entries.with_context(|| format!("{}{}", failed(), hint::file(dir)))? {
        let path = entry.with_context(failed)?.path();
        let is_hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        if is_hidden || path.is_dir() {
            continue;
        }
        // What is called like a picture of another kind is named as one that fails.
        let is_media = !matches!(Kind::of_name(&path), Ok(None));
        if is_media || npy::is_named(&path) || npz::is_named(&path) {
            files.push(path)
        } else {
            others += 1
        }
    }
    ensure!(
        !files.is_empty() || others > 0,
        "{} is empty; put arrays, pictures or sounds in it",
        dir.display()
    );
    let others = plural(others, "other file");
    let no_input = "which is no .npy, .npz, picture or sound";
    ensure!(
        !files.is_empty(),
        "{} holds nothing that can be an input, but {others}",
        dir.display()
    );
    if !others.starts_with("0 ") {
        print::note(format_args!("note: {} holds {others}, {no_input}", dir.display()));
    }
    files.sort_unstable();
    Ok(files)
}

/// A model and the session that runs all files.
struct Batch<'a> {
    args: &'a RunArgs,
    model: PathBuf,
    graph: Graph,
    declared: Declared,
    ports: Vec<Port>,
    top: Top,
    options: Options,
    threads: Arc<Threads>,
    /// From the first file that could be read on.
    session: Option<Session>,
}

impl<'a> Batch<'a> {
    fn new(args: &'a RunArgs) -> Result<Batch<'a>, Failure> {
        let model = args.model.as_ref().context("give a MODEL.xml").or_exit(Exit::Usage)?;
        let model = locate::model_file(model);
        let graph = locate::read(&model).or_exit(Exit::Model)?;
        let declared = Declared::new(&graph, &args.common.shape)?;
        let count = declared.ports.len();
        if count != 1 {
            let inputs = plural(count, "input");
            let error = anyhow!("--batch-dir is for a model with one input; this one has {inputs}");
            return Err(Failure { exit: Exit::Usage, error });
        }
        let top = Top::new(&args.top, false, &graph)?;
        let (ports, options) = (bind::outputs(&graph), run::options(args));
        let threads = Arc::new(run::threads(args.common.threads));
        Ok(Batch { args, model, graph, declared, ports, top, options, threads, session: None })
    }

    /// Refuses flags for pictures where there is none.
    fn flags_are_needed(&self, dir: &Path, files: &[PathBuf]) -> Result<()> {
        let has_picture = files.iter().any(|file| is_picture(file));
        let needed = self.args.media.is_empty() || has_picture;
        ensure!(
            needed,
            "--mean, --scale and --channels are for pictures; {} has none",
            dir.display()
        );
        Ok(())
    }

    /// Where the outputs of each file go.
    fn targets(&self, dir: &Path, files: &[PathBuf]) -> Result<Vec<Vec<Target>>> {
        let to = match &self.args.output[..] {
            [] => return Ok(vec![Vec::new(); files.len()]),
            [one] => Path::new(one),
            _ => bail!("--batch-dir takes one --output, a directory"),
        };
        let is_file = npy::is_named(to) || npz::is_named(to) || to.is_file();
        ensure!(!is_file, "--batch-dir: --output {} is to be a directory", to.display());
        ensure!(!out::is_same(dir, to), "{} holds the inputs; give another --output", to.display());
        let target = |name: String| match self.ports.len() {
            1 => Target::Npy(0, to.join(name + ".npy")),
            count => Target::Npz((0..count).collect(), to.join(name + ".npz")),
        };
        let targets: Vec<Vec<Target>> =
            names(files).into_iter().map(|name| vec![target(name)]).collect();
        let written: Vec<&Path> =
            targets.iter().flatten().map(|target| target.path().as_path()).collect();
        let mut read = out::of_model(&self.model).to_vec();
        read.extend(files.iter().map(|file| ("an input", file.clone())));
        read.extend(self.args.top.labels.iter().map(|file| ("the labels", file.clone())));
        out::keep_apart(&written, &read)?;
        Ok(targets)
    }

    /// Reads a file, runs the model, and writes what it gives.
    fn one(&mut self, file: &Path, targets: &[Target]) -> Result<Vec<Tensor>, Failure> {
        let plain = PictureArgs::default();
        let media = if is_picture(file) { &self.args.media } else { &plain };
        let files = [file.as_os_str().to_owned()];
        let given = Given { files: &files, texts: &[], cast: self.args.cast, media };
        let inputs = bind::read_inputs(&given, &self.declared)?;
        let outputs = self.session(&inputs)?.run(&inputs).or_exit(Exit::Running)?;
        run::write(targets, &self.ports, &outputs)?;
        run::tell_of_nans(&format!("{}: ", file.display()), &self.ports, &outputs);
        Ok(outputs)
    }

    /// The session, with the variables of a first run.
    fn session(&mut self, inputs: &[Tensor]) -> Result<&mut Session, Failure> {
        match self.session.take() {
            Some(mut session) => {
                session.reset();
                Ok(self.session.insert(session))
            }
            None => {
                let plan = run::plan(&self.graph, inputs, &[], &self.options)?;
                Ok(self.session.insert(plan.session_on(Arc::clone(&self.threads))))
            }
        }
    }

    /// Prints what the model gives for a file, unless it is written.
    fn tell(&self, file: &Path, outputs: &[Tensor]) -> Result<(), Failure> {
        if !self.args.output.is_empty() && !self.top.is_wanted() {
            return Ok(());
        }
        let text = report::text(&self.ports, outputs, &self.top);
        print::text(format_args!("{}\n{text}", file.display()))
    }

    fn report(
        &self,
        file: &Path,
        targets: &[Target],
        outputs: Result<Vec<Tensor>, FileError>,
    ) -> FileReport {
        let file = file.display().to_string();
        match outputs {
            Ok(outputs) => {
                let outputs = report::outputs(&self.ports, &outputs, targets, &self.top);
                FileReport { file, outputs, error: None }
            }
            Err(error) => FileReport { file, outputs: Vec::new(), error: Some(error) },
        }
    }
}

fn is_picture(file: &Path) -> bool {
    Kind::of_name(file).is_ok_and(|kind| kind == Some(Kind::Picture))
}

/// What the outputs of files are called: as the file without its ending, or with it where two files
/// differ in that alone.
fn names(files: &[PathBuf]) -> Vec<String> {
    let text = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    let mut times = HashMap::new();
    files.iter().for_each(|file| *times.entry(text(file.file_stem())).or_insert(0) += 1);
    let name = |file: &PathBuf| {
        let stem = text(file.file_stem());
        if times.get(&stem) == Some(&1) { stem } else { text(file.file_name()) }
    };
    files.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_called_like_inputs() {
        let files = ["d/a.png", "d/b.png", "d/b.jpg", "d/c.d.png"].map(PathBuf::from);
        assert_eq!(names(&files), ["a", "b.png", "b.jpg", "c.d"]);
    }
}
