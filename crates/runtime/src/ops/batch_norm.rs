//! BatchNormInference: f16 and bf16 in f32.

use crate::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::batch_norm::BatchNorm;
use kernels::normalize::{Batch, Channels, normalize_batch};
use kernels::real::StoredReal;
use std::marker::PhantomData;

impl Lower for BatchNorm {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let inputs = self.inputs();
        let (channels, epsilon) = (channels(cx.sizes(inputs[0])), self.epsilon());
        kernel_for!(cx, 0, float T => {
            BatchNormKernel::<T> { inputs, channels, epsilon, of: PhantomData }
        })
    }
}

/// The channels of data whose axis 1 they are.
pub(crate) fn channels(sizes: &[usize]) -> Channels {
    Channels { outer: sizes[0], channels: sizes[1], inner: sizes[2..].iter().product() }
}

struct BatchNormKernel<T> {
    inputs: [usize; 5],
    channels: Channels,
    epsilon: f64,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for BatchNormKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let [data, gamma, beta, mean, variance] = self.inputs;
        let io = cx.in_out::<T>(data, 0);
        let batch = Batch {
            gamma: cx.input(gamma),
            beta: cx.input(beta),
            mean: cx.input(mean),
            variance: cx.input(variance),
        };
        normalize_batch(cx.threads(), self.channels, batch, self.epsilon, &io);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(1 << self.inputs[0])
    }

    fn name(&self) -> &'static str {
        "batch norm"
    }
}
