//! Convolutions to tensors whose channels are the last axis.

use super::then::{Then, steps};
use crate::net::Made;
use crate::ops::convolution::{Prepared, Way};
use crate::prelude::*;
use crate::prepared::Ahead;
use kernels::conv::{Convolution, Input};
use smallvec::SmallVec;
use std::ops::Range;

/// A convolution that writes its channels last: inputs are the data, the filters as the model gives
/// them, the operands of the steps, gates, and what lies beside the data.
#[derive(Clone)]
pub(crate) struct ChannelsLast {
    pub(crate) conv: Convolution,
    /// Whether it is the way back from output to input.
    pub(crate) backward: bool,
    /// Whether the data still has its channels first.
    pub(crate) channels_first: bool,
    /// The input that the channels of the data are multiplied by.
    pub(crate) gates: Option<usize>,
    /// The inputs whose channels follow those of the data, as many in each.
    pub(crate) beside: Range<usize>,
    pub(crate) then: Vec<Then>,
    /// Whether a second output is the mean of each channel.
    pub(crate) gives_means: bool,
}

impl ChannelsLast {
    /// The same with the mean of each channel as a second output, if it can give that.
    pub(crate) fn with_means(&self) -> Option<ChannelsLast> {
        let can = self.conv.is_by_channels() && !self.backward && !self.gives_means;
        can.then(|| ChannelsLast { gives_means: true, ..self.clone() })
    }

    /// Whether it reads the channels of each position once, as they are: so it can multiply them by
    /// gates, or read them from several inputs.
    pub(crate) fn is_plain_product(&self) -> bool {
        let is_plain = self.gates.is_none() && self.beside.is_empty();
        is_plain && !self.backward && !self.channels_first && self.conv.is_product()
    }
}

impl Made for ChannelsLast {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let conv = Convolution { precision: cx.precision(), ..self.conv.clone() };
        Ok(Box::new(ChannelsLastKernel {
            way: Way::new(&conv, self.backward),
            columns: self.conv.outputs,
            channels_first: self.channels_first,
            gates: self.gates,
            beside: self.beside.clone(),
            then: self.then.clone(),
            gives_means: self.gives_means,
            filters: Ahead::new(1, cx.is_invariant(1)),
        }))
    }
}

struct ChannelsLastKernel {
    way: Way,
    columns: usize,
    channels_first: bool,
    gates: Option<usize>,
    beside: Range<usize>,
    then: Vec<Then>,
    gives_means: bool,
    filters: Ahead<Prepared<'static>>,
}

impl Kernel for ChannelsLastKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let factors = self.gates.map(|gates| cx.input(gates));
        let channels_first = self.channels_first;
        let beside: SmallVec<[&[f32]; 8]> = self.beside.clone().map(|i| cx.input(i)).collect();
        let input = Input { values: cx.input(0), channels_first, factors, beside: &beside };
        let given = cx.input(1);
        let output = cx.output(0);
        let steps = steps(&self.then, cx, self.columns);
        let place = (cx.threads(), cx.scratch_pool());
        let once;
        let prepare = || self.way.prepare(cx.to_shelf(), given);
        let filters = match self.filters.again(cx, || self.way.form(), prepare) {
            Some(prepared) => prepared,
            None => {
                once = self.way.prepare_once(cx.threads(), given);
                &once
            }
        };
        match self.gives_means {
            true => {
                let operands = (input.values, filters);
                self.way.run_with_means(place, operands, &steps, (output, cx.output(1)));
            }
            false => self.way.run(place, input, (filters, given), &steps, output),
        }
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.way.flops()
    }

    fn name(&self) -> &'static str {
        "convolution"
    }
}
