//! A case folder: a model, inputs, and what they must give (`docs/formats.md`).

use super::case_file::{self, CaseFile, Check, Output, Property, Run, StepFile};
use super::digests::{self, LayerDigests};
use super::property;
use super::schedule::Runner;
use super::test::Test;
use crate::bind::Declared;
use crate::compare::{Tolerance, compare};
use crate::npy::{self, Cast};
use crate::out;
use crate::text::plural;
use anyhow::{Context, Result, ensure};
use ir::Graph;
use runtime::{Session, Tensor};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A case folder as `case.json` describes it.
#[derive(Clone, Debug)]
pub struct Case {
    dir: PathBuf,
    runs: Vec<Vec<Step>>,
    /// What values must satisfy where they are not fixed.
    property: Option<Arc<Property>>,
}

/// One call of the model: input files and what comes out.
#[derive(Clone, Debug)]
struct Step {
    inputs: Vec<String>,
    expected: Vec<Expected>,
}

#[derive(Clone, Debug)]
struct Expected {
    file: String,
    tolerance: Tolerance,
}

impl Case {
    /// Reads `case.json`.
    ///
    /// # Errors
    /// When it is not of the form described.
    pub fn open(dir: &Path) -> Result<Case> {
        Case::of(dir, CaseFile::read(dir)?)
    }

    /// The case of a folder whose `case.json` has been read.
    ///
    /// # Errors
    /// When what it says would compare nothing.
    pub fn of(dir: &Path, file: CaseFile) -> Result<Case> {
        let runs = runs(&file).with_context(|| dir.join("case.json").display().to_string())?;
        let property = file.property.filter(|_| file.check == Check::Property);
        ensure!(
            file.check == Check::Allclose || property.is_some(),
            "{}: \"check\" is \"property\", but there is no \"property\"; say which",
            dir.join("case.json").display()
        );
        Ok(Case { dir: dir.to_owned(), runs, property: property.map(Arc::new) })
    }

    /// The inputs of each step of the first run.
    ///
    /// # Errors
    /// When a file cannot be read or is of another type than the model declares.
    pub fn inputs(&self, graph: &Graph) -> Result<Vec<Vec<Tensor>>> {
        let declared = Declared::new(graph, &[]).map_err(|f| f.error)?;
        let steps = self.runs.first().context("the case has no runs")?;
        steps.iter().map(|step| self.read_inputs(step, &declared)).collect()
    }

    /// The files that it consists of, which nothing else may overwrite.
    pub fn files(&self) -> Vec<out::Read> {
        let mut files = files_of(&self.dir);
        for step in self.runs.iter().flatten() {
            files.extend(step.inputs.iter().map(|file| ("an input", self.dir.join(file))));
            let goldens = step.expected.iter();
            files.extend(goldens.map(|e| ("what is expected", self.dir.join(&e.file))));
        }
        files
    }

    fn read_inputs(&self, step: &Step, declared: &Declared) -> Result<Vec<Tensor>> {
        let (given, taken) = (step.inputs.len(), declared.types.len());
        ensure!(
            given == taken,
            "case.json lists {}, but the model has {taken}",
            plural(given, "input")
        );
        let files = step.inputs.iter().zip(&declared.types);
        files.map(|(file, t)| npy::read(&self.dir.join(file), *t, Cast::Never)).collect()
    }

    /// Prepares each step of each run, and hands it out with the session and the inputs.
    fn each_step(
        &self,
        runner: &Runner<'_>,
        mut run_step: impl FnMut(&Step, &mut Session, &[Tensor]) -> Result<()>,
    ) -> Result<()> {
        let graph = ir::read(self.dir.join("model.xml"))?;
        let declared = Declared::new(&graph, &[]).map_err(|f| f.error)?;
        let mut session: Option<Session> = None;
        for (r, run) in self.runs.iter().enumerate() {
            if let Some(session) = &mut session {
                session.reset();
            }
            for (s, step) in run.iter().enumerate() {
                let mut run_one = || {
                    let inputs = self.read_inputs(step, &declared)?;
                    let session = match &mut session {
                        Some(session) => session,
                        None => {
                            let runs_once = self.is_single_step();
                            session.insert(runner.session(&graph, &inputs, runs_once)?)
                        }
                    };
                    run_step(step, session, &inputs)
                };
                // A place among others is worth telling.
                if self.is_single_step() {
                    run_one()?
                } else {
                    run_one().with_context(|| format!("run {r}, step {s}"))?
                }
            }
        }
        Ok(())
    }

    fn is_single_step(&self) -> bool {
        matches!(&self.runs[..], [run] if run.len() == 1)
    }

    /// Compares the outputs of a step with its goldens.
    fn judge(&self, step: &Step, outputs: &[Tensor]) -> Result<()> {
        let mut pairs = Vec::new();
        for (got, expected) in outputs.iter().zip(&step.expected) {
            let file = self.dir.join(&expected.file);
            let golden = npy::read(&file, got.element_type(), Cast::Never)?;
            pairs.push((got, golden, expected.tolerance));
        }
        if let Some(property) = &self.property {
            let pairs: Vec<_> = pairs.iter().map(|(g, e, _)| (*g, e)).collect();
            return property::check(property, &pairs);
        }
        pairs.iter().enumerate().try_for_each(|(i, (got, golden, tolerance))| {
            compare(got, golden, *tolerance).with_context(|| format!("output {i}"))
        })
    }
}

impl Test for Case {
    fn is_unsupported(&self) -> Result<bool> {
        Ok(has_unknown_operation(&ir::read(self.dir.join("model.xml"))?))
    }

    fn compare(&self, runner: &Runner<'_>) -> Result<Vec<Tensor>> {
        let mut all = Vec::new();
        self.each_step(runner, |step, session, inputs| {
            let outputs = session.run(inputs)?;
            step.compares_every_output(outputs.len())?;
            self.judge(step, &outputs)?;
            all.extend(outputs);
            Ok(())
        })?;
        Ok(all)
    }

    fn digests(&self, runner: &Runner<'_>, of_layers: bool) -> Result<Vec<String>> {
        let (mut outputs, mut lines, mut step) = (Vec::new(), Vec::new(), 0);
        self.each_step(runner, |_, session, inputs| {
            if !of_layers {
                outputs.extend(session.run(inputs)?);
                return Ok(());
            }
            let around = if self.is_single_step() { String::new() } else { format!("{step}: ") };
            let (result, seen) = session.run_observed(inputs, LayerDigests::new(around));
            lines.extend(seen.into_lines());
            step += 1;
            Ok(result.map(drop)?)
        })?;
        if of_layers { Ok(lines) } else { Ok(digests::of(&outputs)) }
    }

    fn update(&self, runner: &Runner<'_>) -> Result<Vec<String>> {
        let mut changes = Vec::new();
        self.each_step(runner, |step, session, inputs| {
            let outputs = session.run(inputs)?;
            step.compares_every_output(outputs.len())?;
            if self.property.is_some() {
                return self.judge(step, &outputs);
            }
            for (got, expected) in outputs.iter().zip(&step.expected) {
                let path = self.dir.join(&expected.file);
                let golden = npy::read(&path, got.element_type(), Cast::Never);
                let same = golden.and_then(|golden| compare(got, &golden, expected.tolerance));
                if let Err(change) = same {
                    let inputs = step.inputs.iter().map(|file| ("an input", self.dir.join(file)));
                    let read: Vec<_> = files_of(&self.dir).into_iter().chain(inputs).collect();
                    out::keep_apart(&[&path], &read)?;
                    out::write_whole(&path, |file| npy::write(got, file))?;
                    changes.push(format!("{}: {change:#}", expected.file));
                }
            }
            Ok(())
        })?;
        Ok(changes)
    }
}

/// The files that every case folder has.
pub fn files_of(dir: &Path) -> Vec<out::Read> {
    let mut files = out::of_model(&dir.join("model.xml")).to_vec();
    files.push(("the description of a case", dir.join("case.json")));
    files
}

/// Whether a graph or a body in it has an operation that irrun does not know.
pub fn has_unknown_operation(graph: &Graph) -> bool {
    let is_unknown = |l: &ir::Layer| infer::find(&l.op_type, &l.version).is_err();
    let in_bodies = |l: &ir::Layer| l.bodies.iter().any(|b| has_unknown_operation(&b.graph));
    graph.layers().iter().any(|l| is_unknown(l) || in_bodies(l))
}

impl Step {
    /// A step that compares less than the model gives would pass whatever the rest is.
    fn compares_every_output(&self, results: usize) -> Result<()> {
        let expected = self.expected.len();
        ensure!(
            expected > 0,
            "case.json lists no outputs to compare; the model has {}",
            plural(results, "output")
        );
        ensure!(
            expected == results,
            "case.json lists {}, but the model has {results}; list each in order",
            plural(expected, "output")
        );
        Ok(())
    }
}

/// Every folder with a `case.json` below `dir`, sorted, each once however links lead there.
///
/// # Errors
/// When a directory cannot be read.
pub fn find(dir: &Path) -> Result<Vec<PathBuf>> {
    folders_with("case.json", dir)
}

/// Every folder below `dir` with a model and a golden that lacks `case.json`.
///
/// # Errors
/// When a directory cannot be read.
pub fn without_case_file(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs = folders_with("expected_0.npy", dir)?;
    let has = |dir: &PathBuf, name: &str| dir.join(name).exists();
    dirs.retain(|dir| has(dir, "model.xml") && !has(dir, "case.json"));
    Ok(dirs)
}

/// Every folder below `dir` with a file of some name, sorted, each once however links lead there.
///
/// # Errors
/// When a directory cannot be read.
pub fn folders_with(name: &str, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    let mut seen = HashSet::new();
    while let Some(dir) = open.pop() {
        // Links may lead back to where they lie.
        let place = dir.canonicalize().with_context(|| dir.display().to_string())?;
        if !seen.insert(place) {
            continue;
        }
        let entries = std::fs::read_dir(&dir).with_context(|| dir.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|n| n == name) {
                found.push(dir.clone());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The steps of each run: those listed, or a single one of plain file names.
fn runs(file: &CaseFile) -> Result<Vec<Vec<Step>>> {
    let Some(runs) = &file.runs else { return Ok(vec![vec![plain_step(file)]]) };
    ensure!(!runs.is_empty(), "\"runs\" is empty, so nothing would be compared; list a run");
    let steps = |(r, run): (usize, &Run)| {
        let none = "\"steps\" is empty, so nothing would be compared; list a step";
        ensure!(!run.steps.is_empty(), "run {r}: {none}");
        Ok(run.steps.iter().map(|step| listed_step(step, file)).collect())
    };
    runs.iter().enumerate().map(steps).collect()
}

/// The tolerance of an output: its own, or that of the whole case, or none.
fn tolerance((rtol, atol): (Option<f64>, Option<f64>), whole: &CaseFile) -> Tolerance {
    let number = |own: Option<f64>, whole: Option<f64>| own.or(whole).unwrap_or(0.0);
    Tolerance { rtol: number(rtol, whole.rtol), atol: number(atol, whole.atol) }
}

/// `input_<k>.npy` and `expected_<k>.npy` for every input and output listed.
fn plain_step(file: &CaseFile) -> Step {
    let expected = |(i, output): (usize, &Output)| Expected {
        file: format!("expected_{i}.npy"),
        tolerance: tolerance((output.rtol, output.atol), file),
    };
    Step {
        inputs: (0..file.inputs.len()).map(|i| format!("input_{i}.npy")).collect(),
        expected: file.outputs.iter().enumerate().map(expected).collect(),
    }
}

fn listed_step(step: &case_file::Step, whole: &CaseFile) -> Step {
    let expected = |entry: &StepFile| Expected {
        file: entry.path().to_owned(),
        tolerance: tolerance(entry.tolerances(), whole),
    };
    Step {
        inputs: step.inputs.iter().map(|entry| entry.path().to_owned()).collect(),
        expected: step.expected.iter().map(expected).collect(),
    }
}
