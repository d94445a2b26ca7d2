//! All versions of DetectionOutput.

use crate::kernel::produce;
use crate::kernel::produce::{Inputs, fill_up};
use crate::prelude::*;
use infer::ops::detection_output::DetectionOutput;
use kernels::detection::boxes::Rect;
use kernels::detection::decoded::{Decoding, Selection};
use std::borrow::Cow;

impl Lower for DetectionOutput {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let rule = self.clone();
        let sizes = cx.output_sizes(0)?.to_vec();
        Ok(produce::produce(cx, "detection output", move |inputs| {
            let rows = sizes[2];
            let image = Images::new(&rule, inputs)?;
            let mut out: Vec<f32> = Vec::new();
            for item in 0..image.batch {
                image.list(item, &mut out);
            }
            out.truncate(rows.saturating_mul(7));
            if out.len() / 7 < rows {
                out.push(-1.0);
            }
            fill_up(&mut out, &[rows, 7])?;
            Ok(vec![(sizes.clone(), produce::Values::Floats(out))])
        }))
    }
}

/// The values of an input.
type Values<'r> = Cow<'r, [f32]>;

/// The inputs, and sizes from their shapes.
struct Images<'a, 'r> {
    rule: &'a DetectionOutput,
    batch: usize,
    priors: usize,
    classes: usize,
    locations: Values<'r>,
    scores: Values<'r>,
    boxes: Values<'r>,
    /// Scores and locations of an earlier stage (ARM), which refines the prior boxes.
    earlier: Option<(Values<'r>, Values<'r>)>,
}

impl<'a, 'r> Images<'a, 'r> {
    fn new(
        rule: &'a DetectionOutput,
        inputs: &Inputs<'_, 'r>,
    ) -> Result<Images<'a, 'r>, KernelError> {
        let batch = inputs.sizes(0)[0];
        let priors = inputs.sizes(2)[2] / rule.prior_size();
        Ok(Images {
            rule,
            batch,
            priors,
            classes: inputs.sizes(1)[1].checked_div(priors).unwrap_or(0),
            locations: inputs.floats(0)?,
            scores: inputs.floats(1)?,
            boxes: inputs.floats(2)?,
            earlier: if inputs.has(4) {
                Some((inputs.floats(3)?, inputs.floats(4)?))
            } else {
                None
            },
        })
    }

    /// Appends the detections of a batch element.
    fn list(&self, item: usize, out: &mut Vec<f32>) {
        let rule = self.rule;
        let limit = |n: i64| usize::try_from(n).ok();
        let selection = Selection {
            background: limit(rule.background_label_id),
            candidates: limit(rule.top_k),
            results: limit(rule.keep_top_k),
            overlap: rule.nms_threshold,
            confidence: rule.confidence_threshold,
            one_class: rule.decrease_label_id,
        };
        let (scores, boxes) = (self.scores(item), self.boxes(item));
        for (class, priors) in selection.select(self.classes, &scores, boxes) {
            let label = class as f32 - if rule.decrease_label_id { 1.0 } else { 0.0 };
            for (prior, found) in priors {
                let score = scores[prior * self.classes + class];
                let found = if rule.clip_after_nms { found.clipped(1.0, 1.0) } else { found };
                out.extend([item as f32, label, score].into_iter().chain(found.corners()));
            }
        }
    }

    /// The scores of a batch element by prior box and class. Boxes in which an earlier stage found
    /// nothing are background.
    fn scores(&self, item: usize) -> Vec<f32> {
        let count = self.priors * self.classes;
        let mut scores = self.scores[item * count..][..count].to_vec();
        let Some((earlier, _)) = &self.earlier else { return scores };
        let earlier = earlier[item * self.priors * 2..].chunks_exact(2);
        for (own, seen) in scores.chunks_exact_mut(self.classes.max(1)).zip(earlier) {
            if seen[1] < self.rule.objectness_score {
                own.fill(0.0);
                let background = usize::try_from(self.rule.background_label_id).ok();
                if let Some(score) = background.and_then(|label| own.get_mut(label)) {
                    *score = 1.0;
                }
            }
        }
        scores
    }

    /// A decoder of the boxes of a batch element, by prior box and class.
    fn boxes(&self, item: usize) -> impl Fn(usize, usize) -> Rect {
        let (rule, size) = (self.rule, self.rule.prior_size());
        let decoding = Decoding {
            by_centre: rule.by_centre,
            image: if rule.normalized { (1.0, 1.0) } else { rule.image },
            clip: rule.clip_before_nms,
        };
        let refined = Decoding { image: (1.0, 1.0), ..decoding };
        let rows = if rule.variance_encoded_in_target { 1 } else { 2 };
        let each = self.priors * size * rows;
        let own = if self.boxes.len() > each { item * each } else { 0 };
        let (boxes, variances) = self.boxes[own..][..each].split_at(self.priors * size);
        let sets = if rule.share_location { 1 } else { self.classes };
        let locations = move |all: &[f32], prior: usize, set: usize| {
            Rect::read(&all[((item * self.priors + prior) * sets + set) * 4..])
        };
        move |prior, class| {
            let set = if rule.share_location { 0 } else { class };
            let variance = if rule.variance_encoded_in_target {
                [1.0; 4]
            } else {
                Rect::read(&variances[prior * 4..]).corners()
            };
            let start = Rect::read(&boxes[prior * size + size - 4..]);
            let by = locations(&self.locations, prior, set);
            match &self.earlier {
                None => decoding.decode(start, variance, by),
                Some((_, earlier)) => {
                    let by_earlier = locations(earlier, prior, set);
                    let start = decoding.decode(start, variance, by_earlier);
                    refined.decode(start, variance, by)
                }
            }
        }
    }
}
