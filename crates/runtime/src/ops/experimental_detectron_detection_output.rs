//! ExperimentalDetectronDetectionOutput-6.

use crate::kernel::produce::{Inputs, Produced, Values, fill_up, produce};
use crate::prelude::*;
use infer::ops::experimental_detectron_detection_output::ExperimentalDetectronDetectionOutput;
use kernels::detection::boxes::{Move, Rect, descending, ranked};
use kernels::detection::greedy::Greedy;

impl Lower for ExperimentalDetectronDetectionOutput {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let rule = self.clone();
        Ok(produce(cx, "detection output", move |inputs| run(&rule, inputs)))
    }
}

/// A detection.
struct Detection {
    class: usize,
    score: f32,
    found: Rect,
}

fn run(
    rule: &ExperimentalDetectronDetectionOutput,
    inputs: &Inputs<'_, '_>,
) -> Result<Vec<Produced>, KernelError> {
    let (rois, deltas, scores) = (inputs.floats(0)?, inputs.floats(1)?, inputs.floats(2)?);
    let rois: Vec<Rect> = Rect::read_all(&rois).collect();
    let classes = inputs.sizes(2)[1];
    let mut all: Vec<Detection> = Vec::new();
    for class in 1..classes {
        all.extend(of_class(rule, (class, classes), &rois, &deltas, &scores));
    }
    let rows = rule.max_detections_per_image;
    if all.len() > rows {
        // The sort is stable: equal scores stay in the order of classes.
        all.sort_by(|a, b| descending(a.score, b.score));
        all.truncate(rows);
    }
    let mut boxes: Vec<f32> = all.iter().flat_map(|d| d.found.corners()).collect();
    let mut labels: Vec<i64> = all.iter().map(|d| d.class as i64).collect();
    let mut scores: Vec<f32> = all.iter().map(|d| d.score).collect();
    fill_up(&mut boxes, &[rows, 4])?;
    fill_up(&mut labels, &[rows])?;
    fill_up(&mut scores, &[rows])?;
    Ok(vec![
        (vec![rows, 4], Values::Floats(boxes)),
        (vec![rows], Values::Ints(labels)),
        (vec![rows], Values::Floats(scores)),
    ])
}

fn of_class(
    rule: &ExperimentalDetectronDetectionOutput,
    (class, classes): (usize, usize),
    rois: &[Rect],
    deltas: &[f32],
    scores: &[f32],
) -> Vec<Detection> {
    let refine = |(i, roi): (usize, &Rect)| {
        let delta = |k: usize| deltas[(i * classes + class) * 4 + k] / rule.deltas_weights[k];
        let by = Move { shift: (delta(0), delta(1)), log: (delta(2), delta(3)) };
        let moved = by.limited(rule.max_delta_log_wh).apply(*roi, 1.0);
        moved.inclusive(1.0).map(|v| v.max(0.0))
    };
    let boxes: Vec<Rect> = rois.iter().enumerate().map(refine).collect();
    // An empty region has no score.
    let score = |(i, roi): (usize, &Rect)| {
        if roi.area(0.0) > 0.0 { scores[i * classes + class] } else { f32::NAN }
    };
    let own: Vec<f32> = rois.iter().enumerate().map(score).collect();
    let order = ranked(&own, usize::MAX, |s| s > rule.score_threshold);
    let limit = usize::try_from(rule.post_nms_count).unwrap_or(usize::MAX);
    let kept = Greedy::fixed(rule.nms_threshold, 1.0).keep(&boxes, order, limit);
    kept.into_iter().map(|i| Detection { class, score: own[i], found: boxes[i] }).collect()
}
