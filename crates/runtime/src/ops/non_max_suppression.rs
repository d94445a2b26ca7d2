//! All versions of NonMaxSuppression, and NMSRotated-13.

use crate::kernel::produce::{Inputs, Produced, Values, produce};
use crate::prelude::*;
use infer::ops::non_max_suppression::{Encoding, NonMaxSuppression};
use kernels::detection::boxes::{Rect, descending};
use kernels::detection::rotated::Rotated;
use kernels::detection::suppression::{Kept, Suppression};

impl Lower for NonMaxSuppression {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (encoding, sorted) = (self.encoding(), self.sorted());
        Ok(produce(cx, "non max suppression", move |inputs| {
            let mut kept = select(inputs, encoding)?;
            if sorted {
                // The sort is stable: equal scores stay in the order of batches, classes and boxes.
                kept.sort_by(|a, b| descending(a.score, b.score));
            }
            Ok(outputs(&kept))
        }))
    }
}

fn select(inputs: &Inputs<'_, '_>, encoding: Encoding) -> Result<Vec<Kept>, KernelError> {
    let &[batch, classes, count] = inputs.sizes(1) else { return Ok(Vec::new()) };
    let limit = if inputs.has(2) { inputs.ints(2).first().copied().unwrap_or(0) } else { 0 };
    let suppression = Suppression {
        // A negative limit means no limit.
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        overlap: inputs.float_or(3, 0.0)?,
        score: inputs.float_or(4, 0.0)?,
        sigma: inputs.float_or(5, 0.0)?,
    };
    let (boxes, scores) = (inputs.floats(0)?, inputs.floats(1)?);
    let (threads, sizes) = (inputs.threads(), (batch, classes, count));
    let boxes: Vec<Rect> = match encoding {
        // x and y are swapped in all boxes, which does not matter for overlaps.
        Encoding::Corner => Rect::read_all(&boxes).map(Rect::between).collect(),
        Encoding::Center => {
            let centred = |b: &[f32]| Rect::centred(b[0], b[1], b[2], b[3]);
            boxes.chunks_exact(4).map(centred).collect()
        }
        Encoding::Rotated { clockwise } => {
            let sign = if clockwise { 1.0 } else { -1.0 };
            let rotated = |b: &[f32]| Rotated::new(&[b[0], b[1], b[2], b[3], sign * b[4]]);
            let boxes: Vec<Rotated> = boxes.chunks_exact(5).map(rotated).collect();
            return Ok(suppression.run(threads, sizes, &boxes, &scores));
        }
    };
    Ok(suppression.run(threads, sizes, &boxes, &scores))
}

fn outputs(kept: &[Kept]) -> Vec<Produced> {
    let indices = kept.iter().flat_map(|k| [k.batch as i64, k.class as i64, k.index as i64]);
    let scores = kept.iter().flat_map(|k| [k.batch as f32, k.class as f32, k.score]);
    let sizes = vec![kept.len(), 3];
    vec![
        (sizes.clone(), Values::Ints(indices.collect())),
        (sizes, Values::Floats(scores.collect())),
        (vec![1], Values::Ints(vec![kept.len() as i64])),
    ]
}
