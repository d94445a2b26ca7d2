//! `--compare-steps`: the first layer whose values differ from those of a reference.

use crate::arrays::Arrays;
use crate::compare::Tolerance;
use crate::compare::comparison::Comparison;
use crate::compare::show;
use crate::compare::tolerance::ToleranceArgs;
use crate::compare::tolerance::{largest, unit_roundoff};
use crate::text::plural;
use anyhow::{Result, ensure};
use ir::{ElementType, Graph, OutputRef};
use runtime::{Observed, Origin, Tensor};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Elements listed of each value.
const WORST: usize = 5;

/// The layers that both sides have, compared as they are computed.
pub(crate) struct Steps {
    reference: Arrays,
    tolerance: ToleranceArgs,
    compared: Vec<ComparedLayer>,
    /// Where in the list each of them is, by its path.
    places: HashMap<String, usize>,
}

/// A layer's output beside the reference.
struct ComparedLayer {
    comparison: Comparison,
    title: String,
    at: OutputRef,
    /// The bodies around it: the inputs of a layer are in the same.
    bodies: String,
    by: Origin,
    /// The largest magnitude that is expected.
    largest: f64,
}

/// The first layer that differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FirstDifference {
    /// The layer as messages name it.
    pub layer: String,
    /// Its output.
    pub output: Comparison,
    /// Whether the plan that gives the outputs computed it, or the graph as it is written.
    pub as_run: bool,
    /// What is known of its inputs, in order.
    pub inputs: Vec<Input>,
}

/// An input of a layer that differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Input {
    /// The layer and port that it comes from.
    pub from: String,
    /// How it differs; nothing where the reference has no such value.
    pub comparison: Option<Comparison>,
}

/// What `--compare-steps` has found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Found {
    /// Outputs of layers that were compared.
    pub compared: usize,
    /// Those that differ.
    pub differing: usize,
    /// How far they may be apart.
    pub within: String,
    /// The first of them in topological order.
    pub first: Option<FirstDifference>,
    /// All that were compared, but those in bodies, in topological order: what `irrun graph
    /// --differences` colours layers by.
    pub layers: Vec<LayerDifference>,
}

/// An output of a layer that was compared.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LayerDifference {
    /// The layer as messages name it.
    pub layer: String,
    /// The name of the output: `LAYER:PORT`.
    pub output: String,
    /// Whether it agrees.
    pub ok: bool,
    /// The largest difference as a part of the largest magnitude that is expected; null where
    /// values cannot be compared.
    pub relative: Option<f64>,
}

impl ComparedLayer {
    fn summary(&self) -> LayerDifference {
        let known = self.comparison.difference.as_ref().filter(|d| d.incomparable == 0);
        let relative =
            known.filter(|_| self.comparison.mismatch.is_none()).map(|difference| match difference
                .max_abs
            {
                0.0 => 0.0,
                most => most / self.largest.max(f64::MIN_POSITIVE),
            });
        LayerDifference {
            layer: self.title.clone(),
            output: self.comparison.name.clone(),
            ok: self.comparison.ok,
            relative: relative.filter(|r| r.is_finite()),
        }
    }
}

impl Steps {
    /// Opens the reference.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(path: &Path, tolerance: ToleranceArgs) -> Result<Steps> {
        let reference = Arrays::open(path)?;
        Ok(Steps { reference, tolerance, compared: Vec::new(), places: HashMap::new() })
    }

    /// Compares a value, if the reference has it. What the plan has computed goes before what was
    /// computed as written.
    ///
    /// # Errors
    /// When the reference cannot be read.
    pub(crate) fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
        let path = value.path();
        let Some(index) = self.array_of(value, &path) else { return Ok(()) };
        let got = value.tensor().map_err(|e| e.to_string())?;
        let expected = self.reference.read(index, got.element_type());
        let expected = expected.map_err(|e| format!("{e:#}"))?;
        let tolerance = if self.tolerance.is_empty() {
            usual(&expected)
        } else {
            self.tolerance.of(|name| name == path || name == value.layer.name)
        };
        let step = ComparedLayer {
            comparison: Comparison::of(&path, &got, &expected, tolerance, WORST),
            title: value.layer.title(),
            at: OutputRef { layer: value.position, port: value.port },
            bodies: value.bodies.iter().map(|body| format!("{body}/")).collect(),
            by: value.origin,
            largest: largest(&expected),
        };
        match self.places.get(&path) {
            Some(&place) => self.compared[place] = step,
            None => {
                self.places.insert(path, self.compared.len());
                self.compared.push(step);
            }
        }
        Ok(())
    }

    /// The array of a value: by its path, by the name of a layer with one output, or by a tensor
    /// name.
    fn array_of(&self, value: &Observed<'_>, path: &str) -> Option<usize> {
        let names = self.reference.names();
        let exact = |name: &str| names.iter().position(|own| own == name);
        if let Some(index) = exact(path) {
            return Some(index);
        }
        let outer = value.bodies.is_empty();
        let port = value.layer.outputs.get(value.port).filter(|_| outer);
        let by_tensor = || port?.names.iter().find_map(|name| exact(name));
        let by_layer =
            || exact(&value.layer.name).filter(|_| outer && value.layer.outputs.len() == 1);
        let by_file = || self.reference.find(path).filter(|_| self.reference.path().is_dir());
        by_tensor().or_else(by_layer).or_else(by_file)
    }

    /// What differs first.
    ///
    /// # Errors
    /// When nothing was compared.
    pub(crate) fn found(&self, graph: &Graph) -> Result<Found> {
        ensure!(
            !self.compared.is_empty(),
            "--compare-steps: no layer has the name of an array in {}; arrays are called \
             LAYER:PORT, such as those that docs/tools/dump_openvino.py writes",
            self.reference.path().display()
        );
        let differing = self.compared.iter().filter(|step| !step.comparison.ok);
        let first = differing.clone().min_by_key(|step| self.rank(step, graph));
        let mut outer: Vec<&ComparedLayer> =
            self.compared.iter().filter(|s| s.bodies.is_empty()).collect();
        outer.sort_by_key(|step| self.rank(step, graph));
        Ok(Found {
            compared: self.compared.len(),
            differing: differing.count(),
            within: self.within(),
            first: first.map(|step| self.explained(step, graph)),
            layers: outer.into_iter().map(ComparedLayer::summary).collect(),
        })
    }

    /// How far values may be apart, for people.
    fn within(&self) -> String {
        if !self.tolerance.is_empty() {
            return self.tolerance.to_string();
        }
        let types = self.compared.iter().map(|step| step.comparison.types[1].as_str());
        let part = |name| {
            let part = units(ElementType::from_attribute(name)?)?;
            Some(format!("{} ({name})", show::short(part)))
        };
        let parts: Vec<String> =
            types.collect::<BTreeSet<_>>().into_iter().filter_map(part).collect();
        if parts.is_empty() {
            return "0".to_owned();
        }
        format!("{} of a value and of the largest beside it", parts.join(", "))
    }

    /// Its place in topological order. What is in a body is computed before the layer around it
    /// is done, in the order in which it was seen.
    fn rank(&self, step: &ComparedLayer, graph: &Graph) -> (usize, usize) {
        let seen = self.places.get(&step.comparison.name).copied().unwrap_or(0);
        let outer = step.bodies.is_empty();
        let of = |layer: usize| graph.order().iter().position(|&l| l == layer);
        let around = || {
            let name = step.bodies.split(['[', '.', '/']).next();
            graph.layers().iter().position(|l| Some(l.name.as_str()) == name)
        };
        let layer = if outer { Some(step.at.layer) } else { around() };
        let place = layer.and_then(of).unwrap_or(usize::MAX);
        (place, if outer { usize::MAX } else { seen })
    }

    fn explained(&self, step: &ComparedLayer, graph: &Graph) -> FirstDifference {
        // The graph of a body is not at hand; its inputs are found by the layers seen there.
        let sources = if step.bodies.is_empty() { graph.inputs_of(step.at.layer) } else { &[] };
        let input = |source: &OutputRef| {
            let same = |other: &&ComparedLayer| other.bodies == step.bodies && other.at == *source;
            let layer = graph.layers().get(source.layer);
            let name = layer.map_or_else(String::new, |l| format!("{}:{}", l.name, source.port));
            let constant = layer.is_some_and(|l| l.is("Const"));
            Input {
                from: if constant { format!("{name} (constant)") } else { name },
                comparison: self.compared.iter().find(same).map(|s| s.comparison.clone()),
            }
        };
        FirstDifference {
            layer: step.title.clone(),
            output: step.comparison.clone(),
            as_run: step.by == Origin::AsRun,
            inputs: sources.iter().map(input).collect(),
        }
    }
}

/// What two engines are apart at most by rounding alone, mostly: some hundred units of the type,
/// of the value and of the largest.
pub(crate) fn usual(expected: &Tensor) -> Tolerance {
    let Some(rtol) = units(expected.element_type()) else { return Tolerance::default() };
    Tolerance { rtol, atol: rtol * largest(expected) }
}

/// Those units of a type; nothing for integers.
fn units(element_type: ElementType) -> Option<f64> {
    let unit = unit_roundoff(element_type)?;
    Some(if unit > 1e-5 { 16.0 * unit } else { 1024.0 * unit })
}

/// What people read.
pub(crate) fn text(found: &Found) -> String {
    let count = plural(found.compared, "output");
    let Some(first) = &found.first else {
        return format!(
            "compare-steps: {count} of layers agree with the reference, within {}\n",
            found.within
        );
    };
    let by = if first.as_run { "as run" } else { "as written" };
    let mut text = format!(
        "compare-steps: {} of {count} of layers differ; the first is {} ({by})\n\n",
        found.differing, first.layer
    );
    text.push_str(&show::text(std::slice::from_ref(&first.output), ["got", "reference"], 1));
    let known: Vec<Comparison> = first.inputs.iter().filter_map(|i| i.comparison.clone()).collect();
    if !known.is_empty() {
        text.push_str("\nits inputs:\n");
        text.push_str(&show::text(&known, ["got", "reference"], 0));
    }
    let unknown = first.inputs.iter().filter(|i| i.comparison.is_none());
    for input in unknown {
        text.push_str(&format!("input {}: not in the reference\n", input.from));
    }
    text
}
