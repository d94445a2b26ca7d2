//! ExperimentalDetectronTopKROIs-6.

use crate::kernel::produce::{Values, fill_up, produce};
use crate::prelude::*;
use infer::ops::experimental_detectron_top_k_rois::ExperimentalDetectronTopKRois;
use kernels::detection::boxes::ranked;

impl Lower for ExperimentalDetectronTopKRois {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let rows = self.max_rois();
        Ok(produce(cx, "top k rois", move |inputs| {
            let (rois, scores) = (inputs.floats(0)?, inputs.floats(1)?);
            let order = ranked(&scores, rows, |_| true).into_iter();
            let mut out: Vec<f32> =
                order.flat_map(|i| rois[i * 4..][..4].iter().copied()).collect();
            fill_up(&mut out, &[rows, 4])?;
            Ok(vec![(vec![rows, 4], Values::Floats(out))])
        }))
    }
}
