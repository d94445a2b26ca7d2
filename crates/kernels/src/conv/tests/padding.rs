//! Padding adds nothing, whatever the filters hold.

use super::*;
use crate::base::workers::{Packer, Workers};

/// Some of the filters are not finite.
fn with_special(mut weights: Vec<f32>) -> Vec<f32> {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let step = weights.len() / 5 + 1;
    weights.iter_mut().skip(2).step_by(step).zip(special.iter().cycle()).for_each(|(w, s)| *w = *s);
    weights
}

/// The same bits, or both NaN.
#[track_caller]
fn same(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let differs = |(x, y): (&f32, &f32)| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan());
    let at = found.iter().zip(expected).position(differs);
    assert!(at.is_none(), "{what}: at {at:?} {:?}", at.map(|i| (found[i], expected[i])));
}

/// Padded convolutions of every kernel: 1×1, Winograd, few input channels, groups, strides and
/// dilations, depthwise, a few filters per channel.
fn padded(precision: Precision) -> Vec<Convolution> {
    let axis = |input: usize, taps: usize, stride: usize, dilation: usize, pad: usize| {
        let output = (input + 2 * pad - (taps - 1) * dilation - 1) / stride + 1;
        Window { input, output, taps, stride, dilation, start: -(pad as isize) }
    };
    let of = |axis: Window, inputs: usize, outputs: usize, groups: usize| {
        let axes = [Window::NONE, axis, axis];
        Convolution { batch: 2, axes, inputs, outputs, groups, precision }
    };
    vec![
        of(axis(6, 1, 1, 1, 1), 24, 40, 1),
        of(axis(16, 3, 1, 1, 1), 32, 48, 1),
        of(axis(11, 3, 2, 1, 1), 3, 20, 1),
        of(axis(9, 3, 1, 1, 1), 18, 12, 3),
        of(axis(9, 5, 2, 1, 2), 20, 33, 1),
        of(axis(9, 3, 1, 2, 2), 17, 16, 1),
        of(axis(14, 3, 1, 1, 1), 40, 40, 40),
        of(axis(9, 3, 2, 1, 1), 32, 32, 8),
        of(axis(9, 3, 1, 1, 1), 6, 12, 6),
        of(axis(2, 3, 1, 1, 4), 16, 16, 1),
    ]
}

#[test]
fn padding_adds_nothing_to_filters_that_are_not_finite() {
    for conv in padded(Precision::F32) {
        let input = numbers(conv.batch * conv.inside() * conv.inputs, 1);
        let weights = conv.outputs * conv.group().0 * conv.taps();
        let weights = with_special(numbers(weights, 2));
        let bias = numbers(conv.outputs, 3);
        let mut expected = reference(&conv, &input, &weights);
        assert!(expected.iter().any(|x| x.is_nan()) && expected.iter().any(|x| x.is_finite()));
        for row in expected.chunks_mut(conv.outputs) {
            row.iter_mut().zip(&bias).for_each(|(sum, bias)| *sum += bias);
        }
        let post_ops = [PostOp::Add(Operand::Columns(&bias[..]))];
        for how in [(1, false), (3, false), (2, true)] {
            let found = run(&conv, how, (&input, &weights), &post_ops);
            same(&found, &expected, &format!("{how:?} {conv:?}"));
        }
        if conv.reads_channels_first() {
            let threads = Threads::new(2);
            let filters = conv.filters_once(&threads, &weights);
            let planes = planes(&conv, &input);
            let input = Input { channels_first: true, ..Input::channels_last(&planes) };
            let mut found = vec![0.0; expected.len()];
            let operands = (input, &filters, &weights[..]);
            conv.run(&threads, &ScratchPool::default(), operands, &post_ops, &mut found);
            same(&found, &expected, "channels first");
        }
    }
}

/// Operands are bf16, and results may be.
#[test]
fn padding_adds_nothing_in_bf16() {
    for conv in padded(Precision::Bf16) {
        if !conv.can_output_bf16() {
            continue;
        }
        let input = numbers(conv.batch * conv.inside() * conv.inputs, 4);
        let mut weights = numbers(conv.outputs * conv.group().0 * conv.taps(), 5);
        // Infinite in bf16.
        weights.iter_mut().step_by(31).for_each(|weight| *weight = f32::MAX);
        let of = |values: &[f32]| values.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
        let wide = |values: &[bf16]| values.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let halves = of(&input);
        let expected = reference(&conv, &wide(&halves), &wide(&of(&weights)));
        same(&run(&conv, (2, false), (&input, &weights), &[]), &expected, "in bf16");
        let workers = Workers { threads: Threads::single(), scratch: &ScratchPool::default() };
        let filters = conv.pack_filters(Packer::unpooled(workers.threads), &weights);
        let mut found = vec![bf16::NAN; expected.len()];
        let data =
            if conv.accepts_bf16() { Input::bf16(&halves) } else { Input::channels_last(&input) };
        conv.run_bf16(workers, (data, &filters), &[], Target::Bf16(&mut found));
        same(&wide(&found), &wide(&of(&expected)), "to bf16");
    }
}
