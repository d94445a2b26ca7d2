//! Naive convolutions of any type, by the definition: NCHW, computed in the wide type and rounded
//! once; integers wrap.

use super::problem::Convolution;
use crate::base::num::{Stored, Wide};
use crate::base::par::Threads;
use crate::conv::tuning::NAIVE_GRAIN;
use crate::gemm::Window;
use crate::math::arithmetic::Arithmetic;

/// Forward or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Convolution. Filters are given by output channel, then input channel of the group.
    Forward,
    /// Transposed convolution. Filters are given by group and input channel, then output channel of
    /// the group.
    Backward,
}

/// A convolution and its direction.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The sizes. Transposed, input `i` reaches output `i * stride + tap * dilation - start`.
    pub conv: Convolution,
    /// The direction.
    pub direction: Direction,
}

impl Definition {
    /// The position of tap `tap` of output `output`, if within the input.
    fn position(&self, axis: &Window, output: usize, tap: usize) -> Option<usize> {
        if self.direction == Direction::Forward {
            return axis.position(output, tap);
        }
        let at = output as isize + axis.start - (tap * axis.dilation) as isize;
        let (at, stride) = (usize::try_from(at).ok()?, axis.stride);
        (at % stride == 0 && at / stride < axis.input).then_some(at / stride)
    }

    /// The index of a filter's first tap.
    fn filter(&self, output: usize, input: usize) -> usize {
        let (inputs, outputs) = self.conv.group();
        let index = match self.direction {
            Direction::Forward => output * inputs + input,
            Direction::Backward => (output / outputs * inputs + input) * outputs + output % outputs,
        };
        index * self.conv.taps()
    }
}

/// Convolves `input` into `output`.
///
/// # Panics
/// When a slice does not have the size of the convolution.
pub fn plain<T: Stored>(
    definition: &Definition,
    threads: &Threads,
    (input, filters): (&[T], &[T]),
    output: &mut [T],
) where
    T::Wide: Arithmetic,
{
    let conv = &definition.conv;
    let (inputs, outputs) = conv.group();
    let image: usize = conv.axes.iter().map(|a| a.input).product();
    assert_eq!(output.len(), conv.batch * conv.outputs * conv.positions());
    assert_eq!(input.len(), conv.batch * conv.inputs * image);
    assert_eq!(filters.len(), conv.outputs * inputs * conv.taps());
    let work = (conv.taps() * inputs).max(1);
    threads.par_chunks_mut(
        output,
        conv.positions().max(1),
        NAIVE_GRAIN.div_ceil(work),
        |first, part| {
            for (i, plane) in part.chunks_mut(conv.positions().max(1)).enumerate() {
                let (batch, channel) = ((first + i) / conv.outputs, (first + i) % conv.outputs);
                let first = batch * conv.inputs + channel / outputs * inputs;
                for (at, to) in plane.iter_mut().enumerate() {
                    let mut sum = T::Wide::default();
                    definition.taps(at, |tap, pixel| {
                        for c in 0..inputs {
                            let x = input[(first + c) * image + pixel].widen();
                            let y = filters[definition.filter(channel, c) + tap].widen();
                            sum = sum.add(x.mul(y));
                        }
                    });
                    *to = Wide::narrow(sum);
                }
            }
        },
    );
}

impl Definition {
    /// Calls `f(tap, position)` for the taps of an output that are within the input.
    pub(super) fn taps(&self, output: usize, mut f: impl FnMut(usize, usize)) {
        let [depth, height, width] = &self.conv.axes;
        let (x, rest) = (output % width.output, output / width.output);
        let (y, z) = (rest % height.output, rest / height.output);
        for kz in 0..depth.taps {
            let Some(z) = self.position(depth, z, kz) else { continue };
            for ky in 0..height.taps {
                let Some(y) = self.position(height, y, ky) else { continue };
                for kx in 0..width.taps {
                    if let Some(x) = self.position(width, x, kx) {
                        let tap = (kz * height.taps + ky) * width.taps + kx;
                        f(tap, (z * height.input + y) * width.input + x);
                    }
                }
            }
        }
    }
}
