//! Time per layer.

use ir::Layer;
use std::collections::HashMap;
use std::time::Duration;

/// Time that one layer took with one kernel, over all runs since profiling began.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// The layer as messages name it.
    pub layer: String,
    /// The operation type.
    pub op_type: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Total time. That of the layers of a body is theirs alone, not that of the layer around it.
    pub time: Duration,
    /// How often it ran: in a body, once for each iteration.
    pub times: u32,
}

/// Times of all steps that have run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    steps: Vec<StepTime>,
    /// Where each of them is: by its graph, its layer there, and its kernel.
    places: HashMap<(usize, usize, &'static str), usize>,
    total: Duration,
}

impl Profile {
    /// The time of all steps so far.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// Adds the time of a step, with all that has been recorded since `total` was `before`.
    pub(crate) fn record(
        &mut self,
        (layers, layer, kernel): (&[Layer], usize, &'static str),
        time: Duration,
        before: Duration,
    ) {
        let own = time.saturating_sub(self.total - before);
        self.total += own;
        let key = (layers.as_ptr().addr(), layer, kernel);
        let place = *self.places.entry(key).or_insert_with(|| {
            let layer = layers.get(layer);
            let (title, op_type) =
                layer.map(|l| (l.title(), l.op_type.clone())).unwrap_or_default();
            let (time, times) = (Duration::ZERO, 0);
            self.steps.push(StepTime { layer: title, op_type, kernel, time, times });
            self.steps.len() - 1
        });
        self.steps[place].time += own;
        self.steps[place].times += 1;
    }

    pub(crate) fn steps(&self) -> Vec<StepTime> {
        self.steps.clone()
    }
}
