//! A case folder: a model, inputs, and what they must give (`docs/formats.md`).

use crate::compare::{Tolerance, compare};
use crate::npy::{self, Cast};
use crate::property;
use anyhow::{Context, Result, anyhow, bail};
use ir::Graph;
use runtime::{Options, Session, Tensor, Threads};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A case folder as `case.json` describes it.
#[derive(Clone, Debug)]
pub struct Case {
    dir: PathBuf,
    runs: Vec<Vec<Step>>,
    /// What values must satisfy where they are not fixed.
    property: Option<Value>,
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
        let path = dir.join("case.json");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let json: Value =
            serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let runs = match json.get("runs").and_then(Value::as_array) {
            Some(runs) => runs.iter().map(|run| steps(run, &json)).collect::<Result<_>>()?,
            None => vec![vec![plain_step(&json)]],
        };
        let property = (json["check"] == "property").then(|| json["property"].clone());
        Ok(Case { dir: dir.to_owned(), runs, property })
    }

    /// The inputs of each step of the first run.
    ///
    /// # Errors
    /// When a file cannot be read or is of another type than the model declares.
    pub fn inputs(&self, graph: &Graph) -> Result<Vec<Vec<Tensor>>> {
        let declared = crate::bind::Declared::new(graph, &[]).map_err(|f| f.error)?;
        let steps = self.runs.first().context("the case has no runs")?;
        steps.iter().map(|step| self.read_inputs(step, &declared)).collect()
    }

    fn read_inputs(&self, step: &Step, declared: &crate::bind::Declared) -> Result<Vec<Tensor>> {
        let files = step.inputs.iter().zip(&declared.types);
        files.map(|(file, t)| npy::read(&self.dir.join(file), *t, Cast::Never)).collect()
    }

    /// Whether the model has an operation that irrun does not know.
    ///
    /// # Errors
    /// When the model cannot be read.
    pub fn is_unsupported(&self) -> Result<bool> {
        fn any(graph: &Graph) -> bool {
            let unknown = |l: &ir::Layer| infer::find(&l.kind, &l.version).is_err();
            graph.layers().iter().any(|l| unknown(l) || l.bodies.iter().any(|b| any(&b.graph)))
        }
        Ok(any(&ir::read(self.dir.join("model.xml"))?))
    }

    /// Runs the case. Returns the outputs of all its steps.
    ///
    /// # Errors
    /// What went wrong or differs.
    pub fn run(&self, options: &Options, threads: &Arc<Threads>) -> Result<Vec<Tensor>> {
        let graph = ir::read(self.dir.join("model.xml"))?;
        let mut session: Option<Session> = None;
        let mut outputs = Vec::new();
        for (r, run) in self.runs.iter().enumerate() {
            if let Some(session) = &mut session {
                session.reset();
            }
            for (s, step) in run.iter().enumerate() {
                let place = || format!("run {r}, step {s}");
                let made = self.step(&graph, step, &mut session, options, threads);
                outputs.extend(made.with_context(place)?);
            }
        }
        Ok(outputs)
    }

    fn step(
        &self,
        graph: &Graph,
        step: &Step,
        session: &mut Option<Session>,
        options: &Options,
        threads: &Arc<Threads>,
    ) -> Result<Vec<Tensor>> {
        let declared = crate::bind::Declared::new(graph, &[]).map_err(|f| f.error)?;
        let inputs = self.read_inputs(step, &declared)?;
        let session = match session {
            Some(session) => session,
            None => {
                let plan = crate::run::plan(graph, &inputs, &[], options).map_err(|f| f.error)?;
                session.insert(plan.session_on(Arc::clone(threads)))
            }
        };
        let outputs = session.run(&inputs)?;
        if outputs.len() < step.expected.len() {
            bail!("{} outputs, expected {}", outputs.len(), step.expected.len());
        }
        let mut pairs = Vec::new();
        for (got, expected) in outputs.iter().zip(&step.expected) {
            let file = self.dir.join(&expected.file);
            let golden = npy::read(&file, got.element_type(), Cast::Never)?;
            pairs.push((got, golden, expected.tolerance));
        }
        match &self.property {
            Some(property) => {
                let pairs: Vec<_> = pairs.iter().map(|(g, e, _)| (*g, e)).collect();
                property::check(property, &pairs)?;
            }
            None => pairs.iter().enumerate().try_for_each(|(i, (got, golden, tolerance))| {
                compare(got, golden, *tolerance).with_context(|| format!("output {i}"))
            })?,
        }
        Ok(outputs)
    }
}

/// Every folder with a `case.json` below `dir`, sorted.
///
/// # Errors
/// When a directory cannot be read.
pub fn find(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = std::fs::read_dir(&dir).with_context(|| dir.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|n| n == "case.json") {
                found.push(dir.clone());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn tolerance(value: &Value, whole: &Value) -> Tolerance {
    let number = |key: &str| value[key].as_f64().or(whole[key].as_f64()).unwrap_or(0.0);
    Tolerance { rtol: number("rtol"), atol: number("atol") }
}

/// `input_<k>.npy` and `expected_<k>.npy` for every input and output listed.
fn plain_step(json: &Value) -> Step {
    let count = |key: &str| json[key].as_array().map_or(0, Vec::len);
    let expected = |i: usize| Expected {
        file: format!("expected_{i}.npy"),
        tolerance: tolerance(&json["outputs"][i], json),
    };
    Step {
        inputs: (0..count("inputs")).map(|i| format!("input_{i}.npy")).collect(),
        expected: (0..count("outputs")).map(expected).collect(),
    }
}

fn steps(run: &Value, whole: &Value) -> Result<Vec<Step>> {
    let list = run["steps"].as_array().or(run.as_array()).context("a run has no steps")?;
    let file = |v: &Value| {
        let name = v.as_str().or(v["file"].as_str());
        name.map(str::to_owned).ok_or_else(|| anyhow!("an entry of a step names no file"))
    };
    let step = |step: &Value| -> Result<Step> {
        let entries = |key: &str| step[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let expected = |v: &Value| -> Result<Expected> {
            Ok(Expected { file: file(v)?, tolerance: tolerance(v, whole) })
        };
        Ok(Step {
            inputs: entries("inputs").iter().map(file).collect::<Result<_>>()?,
            expected: entries("expected").iter().map(expected).collect::<Result<_>>()?,
        })
    };
    list.iter().map(step).collect()
}
