//! A Pad of zeros becomes the padding of the convolution that reads it. Models from TensorFlow put
//! such a Pad before convolutions without padding.

use crate::graph::net::{Net, ValueId};
use crate::graph::pattern::number;
use crate::graph::rewriter::GraphRewriter;
use infer::ops::pad::{Mode, Pad};
use kernels::conv::Convolution;
use smallvec::SmallVec;

/// The input of a Pad with zeros.
pub(crate) struct Padded {
    /// The input.
    pub(crate) from: ValueId,
    /// For each spatial axis its size without padding, and the zeros before it.
    axes: SmallVec<[(usize, isize); 3]>,
}

impl Padded {
    /// The input of the Pad that makes `value`, if it adds zeros along spatial axes only; channels
    /// are the last axis or the second. `None` if constant filters are not finite: times explicit
    /// zeros they give NaN, while implicit padding adds nothing.
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
        // Checked last, since it reads all filters.
        ignore_zeros(net, filters).then_some(Padded { from, axes })
    }

    /// Moves the padding into the windows of a convolution.
    pub(crate) fn read_by(&self, conv: &mut Convolution) {
        // The windows of a convolution with fewer than three axes are the last ones.
        for (window, (size, begin)) in conv.axes.iter_mut().rev().zip(self.axes.iter().rev()) {
            window.input = *size;
            window.start -= begin;
        }
    }
}

/// Whether zeros times these filters are zeros; unknown filters count as finite.
fn ignore_zeros(net: &Net, filters: ValueId) -> bool {
    let Some(filters) = &net.values[filters].constant else { return true };
    // The tensor may be unaligned in the file.
    filters.bytes().as_chunks::<4>().0.iter().all(|bytes| f32::from_ne_bytes(*bytes).is_finite())
}
