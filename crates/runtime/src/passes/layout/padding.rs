//! Zeros that Pad puts around a map are padding of the convolution that reads it: what TensorFlow's
//! models have in front of convolutions without any.

use crate::graph::net::{Net, ValueId};
use crate::graph::pattern::number;
use crate::graph::rewriter::GraphRewriter;
use infer::ops::pad::{Mode, Pad};
use kernels::conv::Convolution;
use smallvec::SmallVec;

/// A value with zeros around it.
pub(crate) struct Padded {
    /// The value.
    pub(crate) from: ValueId,
    /// For each spatial axis the size without the zeros, and how many there are before it.
    axes: SmallVec<[(usize, isize); 3]>,
}

impl Padded {
    /// What zeros are put around along the spatial axes alone to make `value`, whose channels are
    /// the last axis or the second. None for constant filters that are not finite: they make NaN of
    /// zeros, and padding adds nothing.
    pub(crate) fn of(
        rewriter: &GraphRewriter<'_>,
        (value, filters): (ValueId, ValueId),
        channels_last: bool,
    ) -> Option<Padded> {
        let maker = rewriter.maker(value)?;
        let net = &*rewriter.net;
        maker.is::<Pad>().filter(|pad| pad.mode() == Mode::Constant)?;
        let &[from, begins, ends, ref fill @ ..] = &maker.inputs[..] else { return None };
        let sizes = net.sizes(from)?;
        if fill.iter().any(|v| number(net, *v) != Some(0.0)) {
            return None;
        }
        let [begins, ends] = [begins, ends].map(|v| net.values[v].fact.value.as_deref()?.i64s());
        let (begins, ends) = (begins?, ends?);
        let channels = if channels_last { sizes.len().checked_sub(1)? } else { 1 };
        let mut axes = SmallVec::new();
        for (axis, (&size, pads)) in sizes.iter().zip(begins.iter().zip(&ends)).enumerate() {
            match (axis == 0 || axis == channels, pads) {
                (true, (0, 0)) => {}
                (false, (&begin, 0..)) if begin >= 0 => {
                    axes.push((size, isize::try_from(begin).ok()?));
                }
                _ => return None,
            }
        }
        // Last, since it looks through all of them.
        ignore_zeros(net, filters).then_some(Padded { from, axes })
    }

    /// Lets the windows of a convolution look beyond what is left without the zeros.
    pub(crate) fn read_by(&self, conv: &mut Convolution) {
        // Axes that a convolution lacks are the first ones.
        for (window, (size, begin)) in conv.axes.iter_mut().rev().zip(self.axes.iter().rev()) {
            window.input = *size;
            window.start -= begin;
        }
    }
}

/// Whether zeros times these filters are zeros, as far as they are known.
fn ignore_zeros(net: &Net, filters: ValueId) -> bool {
    let Some(filters) = &net.values[filters].constant else { return true };
    // They may lie anywhere in the file, aligned or not.
    filters.bytes().as_chunks::<4>().0.iter().all(|bytes| f32::from_ne_bytes(*bytes).is_finite())
}
