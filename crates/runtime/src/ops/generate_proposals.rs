//! GenerateProposals-9, ExperimentalDetectronGenerateProposalsSingleImage-6.

use crate::kernel::produce::{Inputs, Produced, Values, fill_up, produce};
use crate::prelude::*;
use infer::ops::generate_proposals::{GenerateProposals, Kind};
use kernels::detection::boxes::{Move, Rect};
use kernels::detection::greedy::{Greedy, Proposals};

impl Lower for GenerateProposals {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let rule = self.clone();
        Ok(produce(cx, "generate proposals", move |inputs| run(&rule, inputs)))
    }
}

/// The largest growth of a box, as a logarithm.
const LIMIT: f32 = 4.135_166_6; // ln(1000 / 16)

fn run(rule: &GenerateProposals, inputs: &Inputs<'_, '_>) -> Result<Vec<Produced>, KernelError> {
    let (info, anchors) = (inputs.floats(0)?, inputs.floats(1)?);
    let (deltas, scores) = (inputs.floats(2)?, inputs.floats(3)?);
    let anchors: Vec<Rect> = Rect::read_all(&anchors).collect();
    let sizes = inputs.sizes(3);
    let area = sizes.iter().rev().take(2).product();
    let batch = if rule.kind == Kind::Single { 1 } else { sizes[0] };
    let each = inputs.sizes(0).last().copied().unwrap_or(0);
    let (mut rois, mut found, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for item in 0..batch {
        let part = anchors.len();
        let (deltas, scores) =
            (&deltas[item * 4 * part..][..4 * part], &scores[item * part..][..part]);
        let info = &info[item * each..][..each];
        let (scores, boxes) = (in_order(scores, area), refined(rule, info, &anchors, deltas, area));
        let chosen = proposals(rule, info).choose(&boxes, &scores);
        counts.push(chosen.len() as i64);
        rois.extend(chosen.iter().flat_map(|i| boxes[*i].corners()));
        found.extend(chosen.iter().map(|i| scores[*i]));
    }
    if rule.kind == Kind::Single {
        fill_up(&mut rois, &[rule.post_nms_count, 4])?;
        fill_up(&mut found, &[rule.post_nms_count])?;
    }
    Ok(vec![
        (vec![found.len(), 4], Values::Floats(rois)),
        (vec![found.len()], Values::Floats(found)),
        (vec![counts.len()], Values::Ints(counts)),
    ])
}

/// Scores from `[anchors][area]` to `[area][anchors]`.
fn in_order(scores: &[f32], area: usize) -> Vec<f32> {
    let at = |i: usize| scores.iter().skip(i).step_by(area.max(1)).copied();
    (0..area).flat_map(at).collect()
}

/// The boxes of all anchors, position by position, clipped to the image.
fn refined(
    rule: &GenerateProposals,
    info: &[f32],
    anchors: &[Rect],
    deltas: &[f32],
    area: usize,
) -> Vec<Rect> {
    let edge = if rule.normalized { 0.0 } else { 1.0 };
    let kinds = anchors.len().checked_div(area).unwrap_or(0);
    let refine = |(i, anchor): (usize, &Rect)| {
        let delta = |k: usize| deltas[(i % kinds * 4 + k) * area + i / kinds];
        let by = Move { shift: (delta(0), delta(1)), log: (delta(2), delta(3)) };
        let moved = by.limited(LIMIT).apply(*anchor, edge).inclusive(edge);
        moved.clipped(info[1] - edge, info[0] - edge)
    };
    anchors.iter().enumerate().map(refine).collect()
}

fn proposals(rule: &GenerateProposals, info: &[f32]) -> Proposals {
    let single = rule.kind == Kind::Single;
    let edge = if rule.normalized { 0.0 } else { 1.0 };
    let (tall, wide) = match info {
        _ if single => (1.0, 1.0),
        [_, _, scale] => (*scale, *scale),
        [_, _, tall, wide] => (*tall, *wide),
        _ => (1.0, 1.0),
    };
    Proposals {
        before: rule.pre_nms_count,
        after: rule.post_nms_count,
        greedy: Greedy {
            overlap: rule.nms_threshold,
            eta: rule.nms_eta,
            // In a single image, OpenVINO measures overlaps without the last pixel.
            edge: if single { 0.0 } else { edge },
        },
        least: (rule.min_size * wide, rule.min_size * tall),
        edge,
        small_first: single,
    }
}
