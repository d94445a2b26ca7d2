//! A convolution of a Concat whose inputs are quantized differently is a sum of convolutions, each
//! of one input. The sums of an input are exact, but those of different inputs are added in f32.

use crate::graph::net::{Integers, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::tensor::Tensor;
use infer::ops::concat::Concat;
use kernels::conv::Convolution;
use kernels::quantized::QuantParams;

/// Below this many channels of an input, its sums take longer to add than to compute.
const MIN_CHANNELS: usize = 16;

/// A part of the channels of a convolution, which are quantized alike.
pub(super) struct Part {
    pub(super) data: ValueId,
    pub(super) conv: Convolution,
    pub(super) params: QuantParams,
    /// The filters of these channels.
    pub(super) integers: Integers,
}

/// The parts of a convolution of a Concat along the last axis, by input.
pub(super) fn parts(
    rewriter: &GraphRewriter<'_>,
    data: ValueId,
    conv: &Convolution,
    integers: &Integers,
) -> Option<Vec<Part>> {
    let net = &*rewriter.net;
    let concat = rewriter.maker(data)?;
    let rank = net.sizes(data)?.len();
    concat.is::<Concat>()?.axis(rank).ok().filter(|axis| axis + 1 == rank)?;
    let mut first = 0;
    let part = |&data: &ValueId| {
        let inputs = *net.sizes(data)?.last()?;
        let integers = of_channels(integers, first, inputs)?;
        first += inputs;
        let params = net.values[data].quant_params.filter(|_| inputs >= MIN_CHANNELS)?;
        Some(Part { data, conv: Convolution { inputs, ..conv.clone() }, params, integers })
    };
    concat.inputs.iter().map(part).collect()
}

/// The filters of `count` input channels from `first` on.
fn of_channels(
    Integers { values, scales }: &Integers,
    first: usize,
    count: usize,
) -> Option<Integers> {
    let (&[outputs, inputs, ref taps @ ..], given) = (values.sizes(), values.as_slice::<i8>()?)
    else {
        return None;
    };
    let taps_of_one: usize = taps.iter().product();
    let run = first.checked_mul(taps_of_one)?..(first + count).checked_mul(taps_of_one)?;
    let filters = given.chunks_exact((inputs * taps_of_one).max(1));
    let own: Vec<i8> =
        filters.flat_map(|f| f.get(run.clone()).unwrap_or_default()).copied().collect();
    let sizes: Vec<usize> = [outputs, count].iter().chain(taps).copied().collect();
    Some(Integers { values: Tensor::from_vec(&sizes, own).ok()?, scales: scales.clone() })
}
