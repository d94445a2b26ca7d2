//! ExperimentalDetectronPriorGridGenerator-6.

use crate::kernel::produce::{Values, fill_up, produce};
use crate::prelude::*;
use infer::ops::experimental_detectron_prior_grid_generator::ExperimentalDetectronPriorGridGenerator;
use kernels::detection::boxes::Rect;

impl Lower for ExperimentalDetectronPriorGridGenerator {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (map, image) = (cx.sizes(1), cx.sizes(2));
        let cells = |own: usize, size: usize| if own == 0 { size } else { own };
        let (rows, columns) = (cells(self.cells.0, map[2]), cells(self.cells.1, map[3]));
        let step = |own: f32, image: usize, cells: usize| {
            if own == 0.0 { image as f32 / cells as f32 } else { own }
        };
        let (down, right) =
            (step(self.stride.0, image[2], rows), step(self.stride.1, image[3], columns));
        let sizes = cx.output_sizes(0)?.to_vec();
        Ok(produce(cx, "prior grid", move |inputs| {
            let priors = inputs.floats(0)?;
            let cells = (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y)));
            let boxes = cells.flat_map(|(x, y)| {
                let (x, y) = (right * (x as f32 + 0.5), down * (y as f32 + 0.5));
                let moved = move |r: Rect| [r.x0 + x, r.y0 + y, r.x1 + x, r.y1 + y];
                Rect::read_all(&priors).flat_map(moved)
            });
            let mut out: Vec<f32> = boxes.collect();
            fill_up(&mut out, &sizes)?;
            Ok(vec![(sizes.clone(), Values::Floats(out))])
        }))
    }
}
