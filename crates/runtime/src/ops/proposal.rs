//! All versions of Proposal.

use crate::kernel::produce::{Inputs, Produced, Values, fill_up, produce};
use crate::prelude::*;
use infer::ops::proposal::Proposal;
use kernels::detection::boxes::{Move, Rect};
use kernels::detection::greedy::{Greedy, Proposals};

impl Lower for Proposal {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (rule, anchors) = (self.clone(), anchors(self));
        Ok(produce(cx, "proposal", move |inputs| run(&rule, &anchors, inputs)))
    }
}

/// The anchors of all ratios and scales, in pixels; in the TensorFlow form not rounded.
fn anchors(rule: &Proposal) -> Vec<Rect> {
    let (edge, base) = (edge(rule), rule.base_size);
    let centre = 0.5 * (base - edge) - if rule.tensorflow { 0.5 * base } else { 0.0 };
    let round = |v: f32| if rule.tensorflow { v } else { v.round() };
    let of_ratio = |ratio: &f32| {
        let width = round((base * base / ratio).sqrt());
        let height = round(width * ratio);
        let of_scale = move |scale: &f32| {
            Rect::centred(centre, centre, width * scale - edge, height * scale - edge)
        };
        rule.scale.iter().map(of_scale).collect::<Vec<_>>()
    };
    rule.ratio.iter().flat_map(of_ratio).collect()
}

/// 1 if the last pixel belongs to the box.
fn edge(rule: &Proposal) -> f32 {
    if rule.tensorflow { 0.0 } else { 1.0 }
}

fn run(
    rule: &Proposal,
    anchors: &[Rect],
    inputs: &Inputs<'_, '_>,
) -> Result<Vec<Produced>, KernelError> {
    let &[batch, _, rows, columns] = inputs.sizes(0) else {
        return Err(KernelError::at(0, "must have rank 4"));
    };
    let (scores, deltas, info) = (inputs.floats(0)?, inputs.floats(1)?, inputs.floats(2)?);
    let (height, width, tall) = (info[0], info[1], info[2]);
    let wide = info.get(3).copied().unwrap_or(tall);
    let image = Image {
        rule,
        anchors,
        area: (rows, columns),
        // In the order of the coordinates of a box.
        limits: if rule.tensorflow { (height, width) } else { (width, height) },
    };
    let proposals = Proposals {
        before: rule.pre_nms_topn,
        after: rule.post_nms_topn,
        greedy: Greedy::fixed(rule.nms_thresh, edge(rule)),
        least: (rule.min_size * wide, rule.min_size * tall),
        edge: edge(rule),
        small_first: true,
    };
    let (mut out, mut probabilities) = (Vec::new(), Vec::new());
    let count = anchors.len() * rows * columns;
    for item in 0..batch {
        // The first half of the scores is the background.
        let scores = image.in_order(&scores[(item * 2 + 1) * count..][..count]);
        let boxes = image.boxes(&deltas[item * 4 * count..][..4 * count]);
        let chosen = proposals.choose(&boxes, &scores);
        for i in &chosen {
            out.extend([item as f32].into_iter().chain(image.finished(boxes[*i]).corners()));
            probabilities.push(scores[*i]);
        }
        if chosen.len() < rule.post_nms_topn {
            out.push(-1.0);
        }
        fill_up(&mut out, &[item + 1, rule.post_nms_topn, 5])?;
        fill_up(&mut probabilities, &[item + 1, rule.post_nms_topn])?;
    }
    let all = probabilities.len();
    Ok(vec![(vec![all, 5], Values::Floats(out)), (vec![all], Values::Floats(probabilities))])
}

struct Image<'a> {
    rule: &'a Proposal,
    anchors: &'a [Rect],
    /// Rows and columns of the feature map.
    area: (usize, usize),
    /// The ends of the image along the two coordinates.
    limits: (f32, f32),
}

impl Image<'_> {
    /// Position and anchor of each proposal in turn.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let anchors = self.anchors.len();
        (0..self.area.0 * self.area.1).flat_map(move |at| (0..anchors).map(move |a| (at, a)))
    }

    fn in_order(&self, scores: &[f32]) -> Vec<f32> {
        let area = self.area.0 * self.area.1;
        self.places().map(|(at, anchor)| scores[anchor * area + at]).collect()
    }

    fn boxes(&self, deltas: &[f32]) -> Vec<Rect> {
        let (rule, edge, area) = (self.rule, edge(self.rule), self.area.0 * self.area.1);
        let decode = |(at, anchor): (usize, usize)| {
            let delta = |i: usize| deltas[(anchor * 4 + i) * area + at];
            let (row, column) = (at / self.area.1, at % self.area.1);
            let (x, y) = if rule.tensorflow { (row, column) } else { (column, row) };
            let (x, y) = (x as f32 * rule.feat_stride, y as f32 * rule.feat_stride);
            let own = self.anchors[anchor];
            let own = Rect::new(own.x0 + x, own.y0 + y, own.x1 + x, own.y1 + y);
            let own = if rule.tensorflow { own.clipped(self.limits.0, self.limits.1) } else { own };
            let shift =
                (delta(0) / rule.box_coordinate_scale, delta(1) / rule.box_coordinate_scale);
            let log = (delta(2) / rule.box_size_scale, delta(3) / rule.box_size_scale);
            let moved = Move { shift, log }.apply(own, edge);
            if rule.clip_before_nms {
                moved.clipped(self.limits.0 - edge, self.limits.1 - edge)
            } else {
                moved
            }
        };
        self.places().map(decode).collect()
    }

    /// A box as written to the output.
    fn finished(&self, found: Rect) -> Rect {
        let (width, height) = self.limits;
        let found = if self.rule.clip_after_nms { found.clipped(width, height) } else { found };
        if self.rule.normalize {
            Rect::new(found.x0 / width, found.y0 / height, found.x1 / width, found.y1 / height)
        } else {
            found
        }
    }
}
