//! Time per layer, and when each step ran.

use ir::Layer;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time that one layer took with one kernel, over all runs since profiling began.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// The layer as messages name it, with the types of all layers that were computed.
    pub layer: String,
    /// The operation type, or those of all layers that the kernel stands for: `MatMul+Add`.
    pub op_type: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Total time. That of the layers of a body is theirs alone, not that of the layer around it.
    pub time: Duration,
    /// How often it ran: in a body, once for each iteration.
    pub times: u32,
}

/// One execution of a step.
#[derive(Clone, Debug)]
pub struct StepSpan {
    /// The layer as messages name it, with the types of all layers that were computed.
    pub layer: String,
    /// The operation type, or those of all layers that the kernel stands for: `MatMul+Add`.
    pub op_type: String,
    /// The kernel.
    pub kernel: &'static str,
    /// When it began, since tracing did.
    pub start: Duration,
    /// How long it took, with the layers of its body.
    pub time: Duration,
}

/// Executions that are kept at most: a loop may have any number.
const MOST_SPANS: usize = 1_000_000;

/// Executions in the order in which they ended, each with the position of its step.
#[derive(Clone, Debug)]
struct Trace {
    begin: Instant,
    spans: Vec<(usize, Duration, Duration)>,
}

/// Times of all steps that have run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    steps: Vec<StepTime>,
    /// When each step ran, if that is asked for.
    trace: Option<Trace>,
    /// Where each of them is: by its graph, its layer there, and its kernel.
    places: HashMap<(usize, usize, &'static str), usize>,
    total: Duration,
}

impl Profile {
    /// One that keeps when each step ran.
    pub(crate) fn tracing() -> Profile {
        let trace = Trace { begin: Instant::now(), spans: Vec::new() };
        Profile { trace: Some(trace), ..Profile::default() }
    }

    /// The time of all steps so far.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// Adds the time of a step, with all that has been recorded since `total` was `before`.
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
