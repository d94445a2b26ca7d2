//! bf16 data and results.

use super::*;
use crate::base::workers::{Packer, Workers};

/// With three channels and seven taps, the last element of a run belongs to the next position.
#[test]
fn infinities_stay_where_they_are_in_narrow_convolutions() {
    let axis = Window { input: 30, output: 15, taps: 7, stride: 2, dilation: 1, start: -3 };
    let (axes, precision) = ([Window::NONE, axis, axis], Precision::Bf16);
    let conv = Convolution { batch: 2, axes, inputs: 3, outputs: 20, groups: 1, precision };
    let input = coarse(2 * 30 * 30 * 3, 10);
    let weights = coarse(20 * 3 * 49, 11);
    let near = |found: &[f32], expected: &[f32]| {
        let each = |(x, y): (&f32, &f32)| x == y || (x - y).abs() < 1e-4;
        found.len() == expected.len() && found.iter().zip(expected).all(each)
    };
    let found = run(&conv, (2, false), (&input, &weights), &[]);
    assert!(near(&found, &reference(&conv, &input, &weights)));
    for special in [f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        let mut input = input.clone();
        input[(13 * 30 + 14) * 3] = special;
        let found = run(&conv, (2, false), (&input, &weights), &[]);
        input[(13 * 30 + 14) * 3] = if special == f32::MAX { f32::INFINITY } else { special };
        assert!(near(&found, &reference(&conv, &input, &weights)), "{special}");
        assert_eq!(found.iter().filter(|x| x.is_finite()).count(), (2 * 15 * 15 - 3 * 4) * 20);
    }
}

/// bf16 data give the same as f32 data that are exact in bf16, and bf16 results are the f32 results
/// converted.
#[test]
fn convolutions_read_and_write_bf16() {
    let axis = |taps: usize, stride: usize, start: isize| {
        let output = (9 - taps).wrapping_add_signed(-2 * start) / stride + 1;
        Window { input: 9, output, taps, stride, dilation: 1, start }
    };
    for (inputs, groups, axis) in
        [(32, 1, axis(1, 1, 0)), (24, 1, axis(3, 1, -1)), (48, 3, axis(3, 2, -1))]
    {
        let (axes, precision) = ([Window::NONE, axis, axis], Precision::Bf16);
        let conv = Convolution { batch: 2, axes, inputs, outputs: 60, groups, precision };
        if !precision.keeps_pairs() {
            return assert!(!conv.can_output_bf16() && !conv.accepts_bf16());
        }
        assert!(conv.can_output_bf16() && conv.accepts_bf16());
        let input = coarse(2 * 81 * inputs, 3);
        let weights = numbers(60 * inputs / groups * conv.taps(), 4);
        let post_ops = [PostOp::Apply(Unary::Relu {})];
        let expected = run(&conv, (1, false), (&input, &weights), &post_ops);
        let halves = |values: &[f32]| values.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
        let (workers, input) = (
            Workers { threads: &Threads::new(2), scratch: &ScratchPool::default() },
            halves(&input),
        );
        let filters = conv.pack_filters(Packer::unpooled(workers.threads), &weights);
        let operands = || (Input::bf16(&input), &filters);
        let mut found = vec![f32::NAN; expected.len()];
        conv.run_bf16(workers, operands(), &post_ops, Target::F32(&mut found));
        assert_eq!(found, expected);
        let mut found = vec![bf16::NAN; expected.len()];
        conv.run_bf16(workers, operands(), &post_ops, Target::Bf16(&mut found));
        assert_eq!(found, halves(&expected));
    }
    // A convolution of few input channels writes bf16 too.
    let axis = axis(3, 2, -1);
    let (axes, precision) = ([Window::NONE, axis, axis], Precision::Bf16);
    let conv = Convolution { batch: 1, axes, inputs: 3, outputs: 34, groups: 1, precision };
    assert!(conv.can_output_bf16() && !conv.accepts_bf16());
    let (input, weights) = (numbers(81 * 3, 5), numbers(34 * 27, 6));
    let expected = run(&conv, (2, false), (&input, &weights), &[]);
    let filters = conv.pack_filters(Packer::unpooled(Threads::single()), &weights);
    let (workers, input) = (
        Workers { threads: Threads::single(), scratch: &ScratchPool::default() },
        Input::channels_last(&input),
    );
    let mut found = vec![bf16::NAN; expected.len()];
    conv.run_bf16(workers, (input, &filters), &[], Target::Bf16(&mut found));
    assert!(found.iter().zip(&expected).all(|(x, y)| *x == bf16::from_f32(*y)));
}
