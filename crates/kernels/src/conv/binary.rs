//! Binary convolutions: bit 0 stands for -1.

use super::problem::Convolution;
use crate::base::par::Threads;
use crate::conv::tuning::BINARY_GRAIN;

/// Convolves zeros and ones with filters of packed bits, the lowest bit of a byte first. `pad` is
/// the value of the padding.
///
/// # Panics
/// When a slice does not have the size of the convolution.
pub fn binary(
    conv: &Convolution,
    threads: &Threads,
    pad: f32,
    (input, filters): (&[f32], &[u8]),
    output: &mut [f32],
) {
    let [_, height, width] = conv.axes;
    let sign = |one: bool| if one { 1.0 } else { -1.0 };
    let (terms, positions) = (conv.inputs * conv.taps(), conv.positions().max(1));
    threads.par_chunks_mut(output, 1, BINARY_GRAIN.div_ceil(terms.max(1)), |first, part| {
        for (i, to) in part.iter_mut().enumerate() {
            let (plane, position) = ((first + i) / positions, (first + i) % positions);
            let (batch, channel) = (plane / conv.outputs, plane % conv.outputs);
            let (row, column) = (position / width.output, position % width.output);
            let term = |k: usize| {
                let bit = channel * terms + k;
                let (line, x) = (k / width.taps, width.position(column, k % width.taps));
                let (own, y) = (line / height.taps, height.position(row, line % height.taps));
                let plane = batch * conv.inputs + own;
                let value = match (y, x) {
                    (Some(y), Some(x)) => {
                        sign(input[(plane * height.input + y) * width.input + x] != 0.0)
                    }
                    _ => pad,
                };
                value * sign(filters[bit / 8] >> (bit % 8) & 1 == 1)
            };
            *to = (0..terms).map(term).sum();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::{Precision, Window};

    #[test]
    fn equal_bits_count() {
        let axis = Window { input: 2, output: 3, taps: 2, stride: 1, dilation: 1, start: -1 };
        let axes = [Window::NONE, axis, axis];
        let conv = Convolution {
            batch: 1,
            axes,
            inputs: 1,
            outputs: 1,
            groups: 1,
            precision: Precision::F32,
        };
        let run = |pad: f32| {
            let mut output = [0.0; 9];
            binary(&conv, Threads::single(), pad, (&[1., 0., 0., 1.], &[0b1001]), &mut output);
            output
        };
        assert_eq!(run(0.0), [1.0, -2.0, 1.0, -2.0, 4.0, -2.0, 1.0, -2.0, 1.0]);
        assert_eq!(run(1.0)[0], 0.0);
    }
}
