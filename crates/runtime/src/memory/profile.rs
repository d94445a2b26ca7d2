//! Profiling: time per layer, and when each step ran.

use ir::Layer;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The time of one layer with one kernel, over all runs since profiling began.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// The layer as messages name it, with the types of all layers that the step computes.
    pub layer: String,
    /// The operation type, or those of all layers that the kernel replaces: `MatMul+Add`.
    pub op_type: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Total time. The time of layers of a body counts for these only, not for the layer around
    /// them.
    pub time: Duration,
    /// How many times it ran; in a body, once per iteration.
    pub times: u32,
}

/// One execution of a step.
#[derive(Clone, Debug)]
pub struct StepSpan {
    /// The layer as messages name it, with the types of all layers that the step computes.
    pub layer: String,
    /// The operation type, or those of all layers that the kernel replaces: `MatMul+Add`.
    pub op_type: String,
    /// The kernel.
    pub kernel: &'static str,
    /// When it started, relative to the start of tracing.
    pub start: Duration,
    /// How long it took, including the layers of its body.
    pub time: Duration,
}

/// The most executions that are kept, since a loop may have any number.
const MOST_SPANS: usize = 1_000_000;

/// Executions in the order in which they ended: index of the step, start, duration.
#[derive(Clone, Debug)]
struct Trace {
    begin: Instant,
    spans: Vec<(usize, Duration, Duration)>,
}

/// Times of all steps that have run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    steps: Vec<StepTime>,
    /// When each step ran, if tracing is on.
    trace: Option<Trace>,
    /// The index of each entry in `steps`, by graph, layer and kernel.
    places: HashMap<(usize, usize, &'static str), usize>,
    total: Duration,
}

impl Profile {
    /// A profile with tracing.
    pub(crate) fn tracing() -> Profile {
        let trace = Trace { begin: Instant::now(), spans: Vec::new() };
        Profile { trace: Some(trace), ..Profile::default() }
    }

    /// The total time of all steps so far.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// Adds the time of a step. What was recorded since `total` was `before` belongs to its bodies.
    pub(crate) fn record(
        &mut self,
        (layers, layer): (&[Layer], usize),
        (op_types, kernel): (&str, &'static str),
        (start, time): (Instant, Duration),
        before: Duration,
    ) {
        let own = time.saturating_sub(self.total - before);
        self.total += own;
        let key = (layers.as_ptr().addr(), layer, kernel);
        let place = *self.places.entry(key).or_insert_with(|| {
            let layer = layers.get(layer).map(|l| l.title_as(op_types)).unwrap_or_default();
            let (op_type, time, times) = (op_types.to_owned(), Duration::ZERO, 0);
            self.steps.push(StepTime { layer, op_type, kernel, time, times });
            self.steps.len() - 1
        });
        self.steps[place].time += own;
        self.steps[place].times += 1;
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.spans.len() < MOST_SPANS) {
            trace.spans.push((place, start.saturating_duration_since(trace.begin), time));
        }
    }

    /// The executions of steps in the order in which they ended.
    pub(crate) fn spans(&self) -> Vec<StepSpan> {
        let span = |(place, start, time): &(usize, Duration, Duration)| {
            let StepTime { layer, op_type, kernel, .. } = self.steps.get(*place)?.clone();
            Some(StepSpan { layer, op_type, kernel, start: *start, time: *time })
        };
        self.trace.iter().flat_map(|trace| &trace.spans).filter_map(span).collect()
    }

    pub(crate) fn steps(&self) -> Vec<StepTime> {
        self.steps.clone()
    }
}
