//! What a run gives, for people and for programs.

use crate::bind::{Port, Target};
use crate::compare::comparison::Comparison;
use crate::look::steps;
use crate::media::boxes;
use crate::profile::LayerTime;
use crate::summary::{self, Statistics, Value, finite, first_values, own_digits};
use crate::top::{Top, TopRow};
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Serialize;

/// Outputs for people: the largest values, the strings themselves, or a summary.
pub(crate) fn text(ports: &[Port], outputs: &[Tensor], top: &Top) -> String {
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
pub(crate) fn numbered(
    dumped: &[(String, Tensor)],
) -> impl Iterator<Item = (usize, &str, &Tensor)> {
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
pub(crate) struct Report {
    /// The outputs in order.
    pub outputs: Vec<OutputReport>,
    /// The variables after the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<VariableReport>,
    /// With `--profile`: the time of each layer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerTime>,
    /// With `--expect`: how the outputs differ from what is expected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<Comparison>,
    /// With `--compare-steps`: the first layer that differs from the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<steps::Found>,
    /// With `--dump` and no file for it: the values of layers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dump: Vec<DumpedReport>,
    /// With `--draw`: what was drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boxes: Option<Vec<boxes::Detection>>,
}

/// The type, shape and statistics of a tensor.
#[derive(Serialize, JsonSchema)]
struct TensorReport {
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
    /// The first values.
    first: Vec<Value>,
}

impl TensorReport {
    fn of(tensor: &Tensor) -> TensorReport {
        let s = Statistics::of(tensor);
        TensorReport {
            element_type: tensor.element_type().name(),
            shape: tensor.sizes().to_vec(),
            min: own_digits(s.min, tensor.element_type()),
            max: own_digits(s.max, tensor.element_type()),
            mean: finite(s.mean),
            nan: s.nans,
            first: first_values(tensor),
        }
    }
}

/// An output at a glance.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OutputReport {
    index: usize,
    /// The first name of its tensor, or that of its layer.
    name: String,
    /// The name of its layer.
    layer: String,
    #[serde(flatten)]
    values: TensorReport,
    /// With `--top`: the largest values of each row along the last axis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    top: Vec<TopRow>,
    /// The files that it was written to.
    files: Vec<String>,
}

/// The value of a layer at a glance.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DumpedReport {
    /// The output of the layer: `LAYER:PORT`.
    output: String,
    #[serde(flatten)]
    values: TensorReport,
}

/// Values of layers for programs.
pub(crate) fn dumped(dumped: &[(String, Tensor)]) -> Vec<DumpedReport> {
    let report = |(output, tensor): &(String, Tensor)| DumpedReport {
        output: output.clone(),
        values: TensorReport::of(tensor),
    };
    dumped.iter().map(report).collect()
}

/// A variable after a run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct VariableReport {
    id: String,
    /// The element type.
    #[serde(rename = "type")]
    element_type: &'static str,
    shape: Vec<usize>,
}

/// Outputs for programs.
pub(crate) fn outputs(
    ports: &[Port],
    outputs: &[Tensor],
    targets: &[Target],
    top: &Top,
) -> Vec<OutputReport> {
    let output = |(i, (port, tensor)): (usize, (&Port, &Tensor))| {
        let files = targets.iter().filter(|t| match t {
            Target::Npy(k, _) => *k == i,
            Target::Npz(list, _) => list.contains(&i),
        });
        OutputReport {
            index: i,
            name: port.shown().to_owned(),
            layer: port.friendly.clone(),
            values: TensorReport::of(tensor),
            top: top.rows(tensor),
            files: files.map(|t| t.path().display().to_string()).collect(),
        }
    };
    ports.iter().zip(outputs).enumerate().map(output).collect()
}

/// Variables for programs.
pub(crate) fn variables(variables: &[(String, Tensor)]) -> Vec<VariableReport> {
    let variable = |(id, t): &(String, Tensor)| VariableReport {
        id: id.clone(),
        element_type: t.element_type().name(),
        shape: t.sizes().to_vec(),
    };
    variables.iter().map(variable).collect()
}
