//! BatchNormInference; f16 and bf16 are computed in f32.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Lanes;
use crate::prelude::*;
use infer::ops::batch_norm::BatchNorm;
use kernels::layer_norm::{Batch, Channels, normalize_batch};
use kernels::real::StoredReal;

impl Lower for BatchNorm {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let inputs = self.inputs();
        let (channels, epsilon) = (channels(cx.sizes(inputs[0])), self.epsilon());
        kernel_for!(cx, 0, float T => {
            let lanes = Lanes::of::<T>();
            BatchNormKernel { inputs, channels, epsilon, lanes }
        })
    }
}

/// The channels of data, which are axis 1.
pub(crate) fn channels(sizes: &[usize]) -> Channels {
    Channels { outer: sizes[0], channels: sizes[1], inner: sizes[2..].iter().product() }
}

struct BatchNormKernel<L> {
    inputs: [usize; 5],
    channels: Channels,
    epsilon: f64,
    lanes: Lanes<L>,
}

impl<L: StoredReal> Kernel for BatchNormKernel<L> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let [data, gamma, beta, mean, variance] = self.inputs;
        let [gamma, beta, mean, variance] =
            [gamma, beta, mean, variance].map(|input| self.lanes.input(cx, input));
        let batch = Batch { gamma: &gamma, beta: &beta, mean: &mean, variance: &variance };
        let threads = cx.threads();
        self.lanes.in_out(cx, data, |io| {
            normalize_batch(threads, self.channels, batch, self.epsilon, io);
        });
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        self.lanes.reuse(self.inputs[0])
    }

    fn name(&self) -> &'static str {
        "batch norm"
    }
}
