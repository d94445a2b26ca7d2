//! Time per layer.

use ir::Layer;
use std::collections::HashMap;
use std::time::Duration;

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
        (layers, layer): (&[Layer], usize),
        (op_types, kernel): (&str, &'static str),
        time: Duration,
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
    }

    pub(crate) fn steps(&self) -> Vec<StepTime> {
        self.steps.clone()
    }
}
