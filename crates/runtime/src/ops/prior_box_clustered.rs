//! PriorBoxClustered-1.

use super::prior_box::{Areas, areas, output};
use crate::kernel::produce::produce;
use crate::prelude::*;
use infer::ops::prior_box_clustered::PriorBoxClustered;
use kernels::detection::priors::{Grid, Prior};

impl Lower for PriorBoxClustered {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let row = cx.output_sizes(0)?[1];
        let prior = |size: &(f32, f32)| Prior {
            shift: (0.0, 0.0),
            half: (size.0 / 2.0, size.1 / 2.0),
            inside: false,
        };
        let priors: Vec<Prior> = self.sizes.iter().map(prior).collect();
        let (step, offset, clip) = (self.step, self.offset, self.clip);
        let variance = self.variance.clone();
        Ok(produce(cx, "prior box clustered", move |inputs| {
            let Areas { cells, image } = areas(inputs)?;
            let step = if step == (0.0, 0.0) {
                (image.1 / cells.1 as f32, image.0 / cells.0 as f32)
            } else {
                step
            };
            output(&Grid { cells, image, step, offset }, &priors, clip, &variance, row)
        }))
    }
}
