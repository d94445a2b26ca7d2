//! Where the time of a run goes: `--profile` of `irrun MODEL.xml` and of `irrun bench`.

use crate::table::table;
use runtime::StepTime;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Layers that the text lists.
const LAYERS: usize = 30;

/// Milliseconds, to the nanosecond: small models take less than a microsecond.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// The time of a layer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayerTime {
    /// Its name.
    layer: String,
    /// The operation type.
    #[serde(rename = "type")]
    op_type: String,
    /// The kernel that computes it.
    kernel: &'static str,
    /// Milliseconds of all its executions in one run.
    ms: f64,
    /// How often it ran in all runs.
    times: u32,
}

/// Time of each layer in one of some runs, and how often it ran in all of them, in the order in
/// which layers first ended.
pub(crate) fn report(steps: &[StepTime], runs: u32) -> Vec<LayerTime> {
    let layer = |s: &StepTime| LayerTime {
        layer: s.layer.clone(),
        op_type: s.op_type.clone(),
        kernel: s.kernel,
        ms: ms(s.time / runs.max(1)),
        times: s.times,
    };
    steps.iter().map(layer).collect()
}

/// Time in one of some runs, per operation type and kernel, then per layer, the longest first;
/// nothing without steps.
pub(crate) fn text(steps: &[StepTime], runs: u32) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let per_run = |s: &StepTime| s.time.as_secs_f64() * 1e3 / f64::from(runs.max(1));
    let total: f64 = steps.iter().map(per_run).sum();
    let mut op_types: BTreeMap<(&str, &str), (usize, f64)> = BTreeMap::new();
    for step in steps {
        let entry = op_types.entry((&step.op_type, step.kernel)).or_default();
        entry.0 += 1;
        entry.1 += per_run(step);
    }
    let mut op_types: Vec<_> = op_types.into_iter().collect();
    op_types.sort_unstable_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let share = |time: f64| vec![format!("{time:.3} ms"), format!("{:.1} %", 100.0 * time / total)];
    let by_type = op_types.iter().map(|((op_type, kernel), (count, time))| {
        [vec![format!("{count} x {op_type}"), (*kernel).to_owned()], share(*time)].concat()
    });
    let mut layers: Vec<&StepTime> = steps.iter().collect();
    layers.sort_unstable_by(|a, b| per_run(b).total_cmp(&per_run(a)));
    let by_layer = layers
        .iter()
        .take(LAYERS)
        .map(|s| [vec![s.layer.clone(), s.kernel.to_owned()], share(per_run(s))].concat());
    let (op_types, layers): (Vec<_>, Vec<_>) = (by_type.collect(), by_layer.collect());
    format!("\n{}\n{}", table(&op_types), table(&layers))
}
