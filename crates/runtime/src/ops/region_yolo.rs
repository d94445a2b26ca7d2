//! RegionYolo-1.

use crate::kernel::produce::{Values, produce};
use crate::prelude::*;
use infer::ops::region_yolo::RegionYolo;
use kernels::detection::yolo::Region;

impl Lower for RegionYolo {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (coords, classes, softmax) = (self.coords(), self.classes(), self.softmax());
        let region = Region { coords, classes, softmax };
        let (data, channels) = (cx.sizes(0), self.channels());
        let (area, item) = (data[2] * data[3], data[1] * data[2] * data[3]);
        let sizes = cx.output_sizes(0)?.to_vec();
        Ok(produce(cx, "region yolo", move |inputs| {
            let data = inputs.floats(0)?;
            let mut out = Vec::with_capacity(sizes.iter().product());
            for item in data.chunks_exact(item.max(1)) {
                let start = out.len();
                // A softmax copies channels behind the regions; otherwise they are dropped.
                out.extend_from_slice(if softmax { item } else { &item[..channels * area] });
                region.run(inputs.threads(), area, &mut out[start..][..channels * area]);
            }
            Ok(vec![(sizes.clone(), Values::Floats(out))])
        }))
    }
}
