//! Time per layer.

use crate::plan::{Plan, Work};
use std::time::Duration;

/// Time that one step took over all runs since profiling began.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// The layer as messages name it.
    pub layer: String,
    /// The operation type.
    pub kind: String,
    /// The kernel.
    pub kernel: &'static str,
    /// Total time.
    pub time: Duration,
    /// Number of runs.
    pub runs: u32,
}

/// Times of all steps that have run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    steps: Vec<(usize, StepTime)>,
}

impl Profile {
    pub(crate) fn record(&mut self, plan: &Plan, step: usize, time: Duration) {
        let step = &plan.steps[step];
        let kernel = match &step.work {
            Work::Kernel(kernel) => kernel.name(),
            Work::Late(..) => "late",
        };
        let known = self.steps.iter_mut().find(|(l, s)| *l == step.layer && s.kernel == kernel);
        match known {
            Some((_, entry)) => {
                entry.time += time;
                entry.runs += 1;
            }
            None => {
                let layer = plan.graph.layers().get(step.layer);
                let kind = layer.map_or(String::new(), |l| l.kind.clone());
                let layer = layer.map_or(String::new(), |l| l.title());
                self.steps.push((step.layer, StepTime { layer, kind, kernel, time, runs: 1 }));
            }
        }
    }

    pub(crate) fn steps(&self) -> Vec<StepTime> {
        self.steps.iter().map(|(_, step)| step.clone()).collect()
    }
}
