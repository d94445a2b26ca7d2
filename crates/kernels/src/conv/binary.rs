//! Convolutions of bits: 0 stands for -1.

use super::{Convolution, Definition, Direction, plain};
use crate::gemm::Window;
use crate::par::Threads;

/// Convolves zeros and ones with filters of packed bits, the lowest bit of a byte first. Around
/// the input lies `pad`.
///
/// # Panics
/// When a slice is not of the size the convolution is for.
pub fn binary(
    conv: &Convolution,
    threads: &Threads,
    pad: f32,
    (input, filters): (&[f32], &[u8]),
    output: &mut [f32],
) {
    let sign = |one: bool| if one { 1.0 } else { -1.0 };
    let count = conv.outputs * conv.group().0 * conv.taps();
    let bit = |i: usize| sign(filters[i / 8] >> (i % 8) & 1 == 1);
    let filters: Vec<f32> = (0..count).map(bit).collect();
    // The padding is written out.
    let axes = conv.axes.map(|axis| Window {
        input: axis.output.saturating_sub(1) * axis.stride + (axis.taps - 1) * axis.dilation + 1,
        start: 0,
        ..axis
    });
    let ([_, height, width], [_, rows, columns]) = (conv.axes, axes);
    let mut image = vec![pad; conv.batch * conv.inputs * rows.input * columns.input];
    for (i, to) in image.iter_mut().enumerate() {
        let (line, column) = (i / columns.input, i % columns.input);
        let (plane, row) = (line / rows.input, line % rows.input);
        let inside = |at: usize, axis: &Window| {
            usize::try_from(at as isize + axis.start).ok().filter(|at| *at < axis.input)
        };
        if let (Some(row), Some(column)) = (inside(row, &height), inside(column, &width)) {
            *to = sign(input[(plane * height.input + row) * width.input + column] != 0.0);
        }
    }
    let definition =
        Definition { conv: Convolution { axes, ..conv.clone() }, direction: Direction::Forward };
    plain(&definition, threads, (&image, &filters), output);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bits_count() {
        let axis = Window { input: 2, output: 3, taps: 2, stride: 1, dilation: 1, start: -1 };
        let axes = [Window::NONE, axis, axis];
        let conv = Convolution { batch: 1, axes, inputs: 1, outputs: 1, groups: 1 };
        let run = |pad: f32| {
            let mut output = [0.0; 9];
            binary(&conv, Threads::single(), pad, (&[1., 0., 0., 1.], &[0b1001]), &mut output);
            output
        };
        assert_eq!(run(0.0), [1.0, -2.0, 1.0, -2.0, 4.0, -2.0, 1.0, -2.0, 1.0]);
        assert_eq!(run(1.0)[0], 0.0);
    }
}
