//! Convolutions between tensors whose channels are the last axis.

use super::then::{Then, steps};
use crate::net::Made;
use crate::ops::convolution::{Prepared, Way};
use crate::prelude::*;
use crate::prepared::Ahead;
use kernels::conv::Convolution;

/// A convolution with its channels last: inputs are the data, the filters as the model gives them,
/// and the operands of the steps.
#[derive(Clone)]
pub(crate) struct ChannelsLast {
    pub(crate) conv: Convolution,
    /// Whether it is the way back from output to input.
    pub(crate) backward: bool,
    pub(crate) then: Vec<Then>,
}

impl Made for ChannelsLast {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(ChannelsLastKernel {
            way: Way::new(&self.conv, self.backward),
            columns: self.conv.outputs,
            then: self.then.clone(),
            filters: Ahead::new(1, cx.is_invariant(1)),
        }))
    }
}

struct ChannelsLastKernel {
    way: Way,
    columns: usize,
    then: Vec<Then>,
    filters: Ahead<Prepared<'static>>,
}

impl Kernel for ChannelsLastKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (input, filters) = (cx.input(0), cx.input(1));
        let output = cx.output(0);
        let steps = steps(&self.then, cx, self.columns);
        let place = (cx.threads(), cx.scratch_pool());
        let once;
        let prepare = || self.way.prepare(cx.threads(), filters);
        let filters = match self.filters.again(cx, || self.way.form(), prepare) {
            Some(prepared) => prepared,
            None => {
                once = self.way.prepare_once(cx.threads(), filters);
                &once
            }
        };
        self.way.run(place, input, filters, &steps, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.way.flops()
    }

    fn name(&self) -> &'static str {
        "convolution"
    }
}
