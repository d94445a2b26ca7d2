//! Windows of several blocks along k.

use super::*;
use crate::base::workers::Packer;

/// Blocks that are lines, taps and parts of taps, with and without padding, and with filters that
/// are not finite.
#[test]
fn long_windows_agree_with_the_definition() {
    let axis = |input: usize, taps: usize, stride: usize, start: isize| {
        let output = (input + 1 - taps) / stride + 1;
        Window { input, output, taps, stride, dilation: 1, start }
    };
    for (taps, inputs, outputs) in
        [(3, 150, 20), (3, 400, 17), (2, 1200, 5), (5, 130, 9), (1, 1300, 8)]
    {
        for (stride, start) in [(2, 0), (2, -1), (3, 0)] {
            let axes = [Window::NONE, axis(7, taps, stride, start), axis(19, taps, stride, start)];
            let precision = Precision::F32;
            let conv = Convolution { batch: 2, axes, inputs, outputs, groups: 1, precision };
            let values = numbers(2 * 7 * 19 * inputs, 31);
            let mut weights = numbers(outputs * inputs * conv.taps(), 32);
            for is_finite in [true, false] {
                if !is_finite {
                    weights[0] = f32::INFINITY;
                }
                let expected = reference(&conv, &values, &weights);
                let threads = Threads::new(2);
                let filters = conv.pack_filters(Packer::unpooled(&threads), &weights);
                for out in in_both_layouts((&conv, &threads), &filters, (&values, &weights)) {
                    assert_eq!(out, expected, "{taps} {inputs} {stride} {start} {is_finite}");
                }
            }
        }
    }
}
