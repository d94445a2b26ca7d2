//! Transposed convolutions whose kernel is as large as their stride.

use super::*;
use crate::base::workers::Packer;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Kernels as large as their stride, with lines in several pieces, and all kinds of post-ops.
    #[test]
    fn patches_are_written_where_they_belong(
        (height, width, depth) in (1usize..4, prop_oneof![1usize..9, 700usize..900], 1usize..3),
        (taps, deep, wide) in (1usize..4, 1usize..3, 1usize..4),
        (batch, ci, co) in (1usize..3, 1usize..5, 1usize..7),
    ) {
        let axis = |input: usize, taps: usize| Window {
            input, output: input * taps, taps, stride: taps, dilation: 1, start: 0,
        };
        let axes = [axis(depth, deep), axis(height, taps), axis(width, wide)];
        let conv = Convolution { batch, axes, inputs: ci, outputs: co, groups: 1, precision: Precision::F32 };
        let input = numbers(batch * conv.inside() * ci, 5);
        let weights = numbers(ci * co * conv.taps(), 6);
        let rows = batch * conv.positions();
        let (bias, matrix) = (numbers(co, 7), numbers(rows * co, 8));
        let divisors: Vec<f32> = (1..=co).map(|channel| channel as f32).collect();
        let post_ops = [
            PostOp::Add(Operand::Columns(&bias)),
            PostOp::Divide(Operand::Columns(&divisors)),
            PostOp::Apply(Unary::Relu {}),
            PostOp::Add(Operand::Matrix(Strided { values: &matrix, stride: co })),
            PostOp::Multiply(Operand::Columns(&bias)),
        ];
        let mut expected = Vec::new();
        for (i, value) in spread(&conv, &input, &weights).into_iter().enumerate() {
            let bias = f64::from(bias[i % co]);
            let quotient = (value + bias) / f64::from(divisors[i % co]);
            expected.push((quotient.max(0.0) + f64::from(matrix[i])) * bias);
        }
        let back = Transposed::new(&conv);
        for threads in [1, 3].map(Threads::new) {
            let filters = back.pack_filters(Packer::unpooled(&threads), &weights);
            let mut out = vec![f32::NAN; expected.len()];
            back.run(&threads, &ScratchPool::default(), (&input, &filters), &post_ops, &mut out);
            for (i, (a, b)) in out.iter().zip(&expected).enumerate() {
                prop_assert!((f64::from(*a) - b).abs() < 1e-4, "{i}: {a} {b}");
            }
        }
    }
}
