//! Convolutions to few output channels, with neighbouring outputs of a line as lanes.

use super::*;
use crate::base::workers::Packer;

/// Input lines that are long enough for the kernel, with strides, dilations and paddings; in one
/// case the input lies before the first window.
fn axes() -> impl Iterator<Item = [Window; 2]> {
    let axis = |output: usize, taps: usize, stride: usize, dilation: usize, start: isize| {
        let reach = (output - 1) * stride + (taps - 1) * dilation + 1;
        // One position less than the windows reach, so that there is padding behind the input too.
        let input = reach.saturating_add_signed(start).saturating_sub(1).max(1);
        Window { input, output, taps, stride, dilation, start }
    };
    [
        [axis(6, 3, 1, 1, -1), axis(100, 3, 1, 1, -1)],
        [axis(5, 3, 2, 1, -1), axis(67, 3, 2, 1, -1)],
        [axis(7, 2, 3, 2, -2), axis(33, 5, 3, 2, -4)],
        [axis(4, 5, 1, 3, -6), axis(150, 4, 1, 3, 0)],
        [axis(3, 1, 1, 1, 0), axis(48, 7, 4, 1, -9)],
        [axis(9, 3, 1, 1, 2), axis(130, 3, 1, 1, 3)],
    ]
    .into_iter()
}

#[test]
fn few_outputs_agree_with_the_definition() {
    for [height, width] in axes() {
        for (inputs, outputs) in [
            (1, 1),
            (8, 1),
            (3, 2),
            (8, 3),
            (35, 4),
            (5, 5),
            (16, 6),
            (3, 7),
            (33, 8),
            (3, 9),
            (90, 1),
            (60, 2),
        ] {
            let conv = Convolution {
                batch: 2,
                axes: [Window::NONE, height, width],
                inputs,
                outputs,
                groups: 1,
                precision: Precision::F32,
            };
            let values = numbers(2 * height.input * width.input * inputs, 8);
            let weights = numbers(outputs * inputs * conv.taps(), 9);
            let expected = reference(&conv, &values, &weights);
            for threads in [Threads::new(1), Threads::new(3)] {
                let filters = conv.pack_filters(Packer::unpooled(&threads), &weights);
                // The number that every instruction set takes; with a stride a GEMM is faster.
                let is_small = matches!(filters, Filters::SmallOc(_));
                assert!(
                    is_small || outputs > 2 || width.stride > 1,
                    "{height:?} {width:?} {inputs} {outputs}"
                );
                for out in in_both_layouts((&conv, &threads), &filters, (&values, &weights)) {
                    assert_eq!(out, expected, "{height:?} {width:?} {inputs} {outputs}");
                }
            }
        }
    }
}

/// Sizes that a model may state and no memory holds: this kernel refuses them, and nothing
/// overflows.
#[test]
fn sizes_beyond_all_memory_have_other_kernels() {
    let most = isize::MAX as usize / 2;
    let axis = |input, output, taps| Window { input, output, taps, ..Window::NONE };
    for (width, inputs) in [
        (axis(most, most - 2, 3), 1),
        (axis(usize::MAX, 64, 3), 1),
        (axis(66, 64, 3), usize::MAX / 2),
        (Window { stride: 0, ..axis(66, 64, 3) }, 1),
        (Window { dilation: most, ..axis(66, 64, 3) }, 1),
    ] {
        let axes = [Window::NONE, axis(3, 1, 3), width];
        let conv = Convolution {
            batch: 1,
            axes,
            inputs,
            outputs: 1,
            groups: 1,
            precision: Precision::F32,
        };
        assert!(small_oc::small_oc(&conv).is_none(), "{width:?} {inputs}");
    }
}

/// With one negative pad, windows may read only padding, before or behind the data.
#[test]
fn windows_of_nothing_but_padding_are_0() {
    for start in [-200, 200] {
        let width = Window { input: 100, output: 64, taps: 3, stride: 1, dilation: 1, start };
        let height = Window { input: 3, output: 3, taps: 3, stride: 1, dilation: 1, start: -1 };
        let conv = Convolution {
            batch: 1,
            axes: [Window::NONE, height, width],
            inputs: 20,
            outputs: 2,
            groups: 1,
            precision: Precision::F32,
        };
        let (values, weights) = (numbers(100 * 3 * 20, 8), numbers(2 * 20 * 9, 9));
        let threads = Threads::new(2);
        let filters = conv.pack_filters(Packer::unpooled(&threads), &weights);
        assert!(matches!(filters, Filters::SmallOc(_)));
        for channels_first in [false, true] {
            let input = Input { channels_first, ..Input::channels_last(&values) };
            let mut out = vec![f32::NAN; 3 * 64 * 2];
            let operands = (input, &filters, &weights[..]);
            conv.run(&threads, &ScratchPool::default(), operands, &[], &mut out);
            assert!(out.iter().all(|x| *x == 0.0), "{start} {channels_first}");
        }
    }
}

/// A bias and an activation in registers; a matrix and other post-ops after them.
#[test]
fn sums_of_few_outputs_have_their_post_ops() {
    let [height, width] = axes().next().unwrap();
    let (inputs, outputs) = (8, 3);
    let axes = [Window::NONE, height, width];
    let conv =
        Convolution { batch: 1, axes, inputs, outputs, groups: 1, precision: Precision::F32 };
    let values = numbers(height.input * width.input * inputs, 8);
    let weights = numbers(outputs * inputs * conv.taps(), 9);
    let (bias, matrix) = (numbers(outputs, 10), numbers(conv.positions() * outputs, 11));
    let sums = reference(&conv, &values, &weights);
    let by_bias = PostOp::Add(Operand::Columns(&bias));
    let by_matrix = PostOp::Add(Operand::Matrix(Strided { values: &matrix, stride: outputs }));
    let (relu, sigmoid) = (PostOp::Apply(Unary::Relu {}), PostOp::Apply(Unary::Sigmoid {}));
    for post_ops in [&[by_bias, relu][..], &[by_bias, by_matrix, relu], &[relu, by_bias, sigmoid]] {
        let mut expected = sums.clone();
        for (i, row) in expected.chunks_mut(outputs).enumerate() {
            apply_post_ops(post_ops, i, 0, row);
        }
        let threads = Threads::new(2);
        let filters = conv.filters_once(&threads, &weights);
        let operands = (Input::channels_last(&values), &filters, &weights[..]);
        let mut out = vec![f32::NAN; sums.len()];
        conv.run(&threads, &ScratchPool::default(), operands, post_ops, &mut out);
        assert_eq!(out, expected, "{post_ops:?}");
    }
}
