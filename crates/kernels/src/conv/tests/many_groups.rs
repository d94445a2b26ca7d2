//! Convolutions of many small groups.

use super::*;
use crate::base::workers::Packer;

/// Several chunks of groups, groups of more than one panel, and post-ops of all columns.
#[test]
fn many_groups_agree_with_the_definition() {
    for (groups, inputs, outputs) in [(12, 24, 24), (42, 16, 16), (5, 12, 40), (3, 9, 7)] {
        for (stride, start) in [(1, -1isize), (2, -1), (1, 0)] {
            let axis = |input: usize| {
                let padded = input + start.unsigned_abs() * 2;
                let output = (padded - 3) / stride + 1;
                Window { input, output, taps: 3, stride, dilation: 1, start }
            };
            let axes = [Window::NONE, axis(7), axis(9)];
            let (inputs, outputs) = (inputs * groups, outputs * groups);
            let precision = Precision::F32;
            let conv = Convolution { batch: 2, axes, inputs, outputs, groups, precision };
            let values = numbers(2 * 7 * 9 * inputs, 41);
            let weights = numbers(outputs * inputs / groups * 9, 42);
            let bias = numbers(outputs, 43);
            let mut expected = reference(&conv, &values, &weights);
            let rows = expected.len() / outputs;
            let more = numbers(expected.len(), 44);
            let more = Strided { values: &more, stride: outputs };
            let post_ops = [
                PostOp::Add(Operand::Columns(&bias)),
                PostOp::Multiply(Operand::Matrix(more)),
                PostOp::Apply(Unary::Relu {}),
            ];
            for row in 0..rows {
                let to = &mut expected[row * outputs..][..outputs];
                apply_post_ops(&post_ops, row, 0, to);
            }
            for count in [1, 3] {
                let (threads, scratch) = (Threads::new(count), ScratchPool::default());
                let filters = conv.pack_filters(Packer::unpooled(&threads), &weights);
                let mut out = vec![f32::NAN; expected.len()];
                let input = Input::channels_last(&values);
                conv.run(&threads, &scratch, (input, &filters, &weights), &post_ops, &mut out);
                assert_eq!(out, expected, "{groups} groups, stride {stride}, {count} threads");
            }
        }
    }
}
