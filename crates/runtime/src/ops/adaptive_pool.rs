//! AdaptiveAvgPool-8 and AdaptiveMaxPool-8: pooling kernels with windows of different sizes.

use crate::ops::pool;
use crate::prelude::*;
use infer::ops::adaptive_pool::AdaptivePool;
use kernels::pool::{Axis, Pool, Pooling};

impl Lower for AdaptivePool {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (data, output) = (cx.sizes(0), cx.output_sizes(0)?);
        let mut axes = [1; 3].map(|one| Axis::adaptive(one, one));
        let unused = axes.len() + 2 - data.len();
        let sizes = data[2..].iter().zip(&output[2..]);
        for (axis, (input, output)) in axes[unused..].iter_mut().zip(sizes) {
            *axis = Axis::adaptive(*input, *output);
        }
        let pooling = if self.is_max() { Pooling::Max } else { Pooling::Mean(None) };
        pool::lower(cx, Pool::new(axes), pooling, data[2..].iter().product())
    }
}
