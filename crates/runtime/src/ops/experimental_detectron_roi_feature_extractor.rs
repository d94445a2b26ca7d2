//! ExperimentalDetectronROIFeatureExtractor-6.

use crate::kernel::produce::{Inputs, Produced, Values, fill_up, produce};
use crate::prelude::*;
use infer::ops::experimental_detectron_roi_feature_extractor::ExperimentalDetectronRoiFeatureExtractor;
use kernels::detection::boxes::Rect;
use kernels::detection::pyramid::{Map, Sampling, level};
use std::sync::atomic::{AtomicBool, Ordering};

impl Lower for ExperimentalDetectronRoiFeatureExtractor {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (side, ratio) = (self.output_size, self.sampling_ratio);
        let sampling = Sampling { side, ratio, offset: if self.aligned { 0.5 } else { 0.0 } };
        let scales = self.pyramid_scales.clone();
        let levels = cx.input_count() - 1;
        Ok(produce(cx, "roi feature extractor", move |inputs| {
            run(&sampling, &scales[..levels], inputs)
        }))
    }
}

fn run(
    sampling: &Sampling,
    scales: &[f32],
    inputs: &Inputs<'_, '_>,
) -> Result<Vec<Produced>, KernelError> {
    let rois = inputs.floats(0)?;
    let boxes: Vec<Rect> = Rect::read_all(&rois).collect();
    let data = (1..=scales.len()).map(|input| inputs.floats(input));
    let data = data.collect::<Result<Vec<_>, KernelError>>()?;
    let map = |(i, scale): (usize, &f32)| {
        let sizes = inputs.sizes(i + 1);
        Map { area: (sizes[2], sizes[3]), scale: 1.0 / scale, data: &data[i] }
    };
    let maps: Vec<Map<'_>> = scales.iter().enumerate().map(map).collect();
    let sizes = vec![boxes.len(), inputs.sizes(1)[1], sampling.side, sampling.side];
    let mut out: Vec<f32> = Vec::new();
    fill_up(&mut out, &sizes)?;
    let each = out.len().checked_div(boxes.len()).unwrap_or(0).max(1);
    let large = AtomicBool::new(false);
    inputs.threads().par_chunks_mut(&mut out, each, 1, |first, part| {
        for (out, region) in part.chunks_exact_mut(each).zip(&boxes[first..]) {
            let Some(level) = level(*region, maps.len()) else { continue };
            if !sampling.run(&maps[level], *region, out) {
                large.store(true, Ordering::Relaxed);
            }
        }
    });
    if large.into_inner() {
        return Err(KernelError::at(0, "holds a region that is far larger than the image"));
    }
    let rois = (vec![boxes.len(), 4], Values::Floats(rois.into_owned()));
    Ok(vec![(sizes, Values::Floats(out)), rois])
}
