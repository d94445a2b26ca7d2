//! MatrixNms-8, MulticlassNms-8, -9.

use crate::kernel::produce::{Inputs, Produced, Values, produce};
use crate::prelude::*;
use infer::ops::class_nms as rule;
use infer::ops::class_nms::ClassNms;
use kernels::detection::boxes::Rect;
use kernels::detection::classes::{ByClass, Choice, Image, Matrix, Order};
use kernels::detection::greedy::Greedy;
use std::ops::Range;

impl Lower for ClassNms {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let limit = |n: i64| usize::try_from(n).ok();
        let (edge, score) = (if self.normalized { 0.0 } else { 1.0 }, self.score_threshold);
        let matrix = matches!(self.choice, rule::Choice::Matrix { .. });
        let by_class = ByClass {
            choice: match self.choice {
                rule::Choice::Greedy { overlap, eta } => {
                    Choice::Greedy { greedy: Greedy { overlap, eta, edge }, score }
                }
                rule::Choice::Matrix { after, sigma } => {
                    Choice::Matrix(Matrix { score, after, sigma, edge })
                }
            },
            candidates: limit(self.nms_top_k).unwrap_or(usize::MAX),
            results: limit(self.keep_top_k).unwrap_or(usize::MAX),
            background: limit(self.background_class),
            order: match self.order {
                // OpenVINO keeps the boxes of an image in the order of their scores.
                rule::Order::Class if matrix && !self.sort_result_across_batch => Order::Score,
                rule::Order::Class => Order::Class,
                rule::Order::Score => Order::Score,
                rule::Order::Any => Order::Any,
            },
            across: self.sort_result_across_batch,
        };
        Ok(produce(cx, "class nms", move |inputs| run(&by_class, inputs)))
    }
}

/// The layout of boxes and scores of images.
struct BoxLayout {
    classes: usize,
    boxes: usize,
    /// For each image its range of boxes, if classes have boxes of their own.
    own: Option<Vec<Range<usize>>>,
}

impl BoxLayout {
    fn new(inputs: &Inputs<'_, '_>) -> Result<BoxLayout, KernelError> {
        let boxes = inputs.sizes(0)[1];
        if !inputs.has(2) {
            return Ok(BoxLayout { classes: inputs.sizes(1)[1], boxes, own: None });
        }
        let mut start = 0usize;
        let part = |count: i64| {
            let from = start;
            let end = usize::try_from(count.max(0)).ok().and_then(|n| from.checked_add(n));
            start = end.filter(|end| *end <= boxes).ok_or_else(|| {
                KernelError::at(2, format!("counts more than the {boxes} boxes there are"))
            })?;
            Ok(from..start)
        };
        let own = inputs.ints(2).into_iter().map(part).collect::<Result<Vec<_>, KernelError>>()?;
        Ok(BoxLayout { classes: inputs.sizes(0)[0], boxes, own: Some(own) })
    }

    fn images<'a>(&self, boxes: &'a [Rect], scores: &'a [f32]) -> Vec<Image<'a>> {
        let count = self.boxes;
        match &self.own {
            None => {
                let images = scores.len().checked_div(self.classes * count).unwrap_or(0);
                let shared = |image: usize| {
                    let own = &boxes[image * count..][..count];
                    let scores = &scores[image * self.classes * count..][..self.classes * count];
                    scores.chunks_exact(count).map(|scores| (own, scores)).collect()
                };
                (0..images).map(shared).collect()
            }
            Some(parts) => {
                let of_class = |class: usize, part: &Range<usize>| {
                    let at = class * count + part.start..class * count + part.end;
                    (&boxes[at.clone()], &scores[at])
                };
                let image = |part: &Range<usize>| {
                    (0..self.classes).map(|class| of_class(class, part)).collect()
                };
                parts.iter().map(image).collect()
            }
        }
    }

    /// The index of a box in the input, and the number that the output gives it.
    fn place(&self, image: usize, class: usize, index: usize) -> (usize, usize) {
        match &self.own {
            None => (image * self.boxes + index, image * self.boxes + index),
            Some(parts) => {
                let index = parts[image].start + index;
                // OpenVINO numbers boxes first, then classes.
                (class * self.boxes + index, index * self.classes + class)
            }
        }
    }
}

fn run(by_class: &ByClass, inputs: &Inputs<'_, '_>) -> Result<Vec<Produced>, KernelError> {
    let layout = BoxLayout::new(inputs)?;
    let (boxes, scores) = (inputs.floats(0)?, inputs.floats(1)?);
    let boxes: Vec<Rect> = Rect::read_all(&boxes).collect();
    let (kept, mut counts) = by_class.run(inputs.threads(), &layout.images(&boxes, &scores));
    // Without classes or boxes, no image keeps any.
    counts.resize(if inputs.has(2) { inputs.sizes(2)[0] } else { inputs.sizes(0)[0] }, 0);
    let (mut rows, mut numbers) = (Vec::new(), Vec::new());
    for k in &kept {
        let (at, number) = layout.place(k.batch, k.class, k.index);
        rows.extend([k.class as f32, k.score].into_iter().chain(boxes[at].corners()));
        numbers.push(number as i64);
    }
    let counts: Vec<i64> = counts.into_iter().map(|n| n as i64).collect();
    Ok(vec![
        (vec![kept.len(), 6], Values::Floats(rows)),
        (vec![kept.len(), 1], Values::Ints(numbers)),
        (vec![counts.len()], Values::Ints(counts)),
    ])
}
