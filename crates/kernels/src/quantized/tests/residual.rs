//! Post-ops that requantization applies in one loop: a bias, a residual, LeakyRelu and the
//! quantizer of the output give the same as one after the other, for any number of columns.

use super::window;
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::conv::{Convolution, Input};
use crate::gemm::{Operand, PostOp, Precision, Strided, Window, apply_post_ops};
use crate::math::quantize::{ColumnQuantizers, Output, Quantizer, Quantizers};
use crate::math::unary::Unary;
use crate::quantized::{Data, Operands, QuantParams, QuantizedConvolution};

/// Rows of the output: some are left over when several are taken at a time.
const ROWS: usize = 39;

fn numbers(n: usize, by: usize) -> Vec<f32> {
    (0..n).map(|i| (i * by % 101) as f32 / 40.0 - 1.2).collect()
}

/// The quantized output of a 1×1 convolution with these post-ops behind it, and what they give one
/// after the other.
fn both(outputs: usize, post_ops: &[PostOp<'_>], to: Quantizers<'_>) -> (Vec<u8>, Vec<u8>) {
    let axes = [Window::NONE, Window::NONE, window(ROWS, 1, 1, 1, 0)];
    let precision = Precision::F32;
    let conv = Convolution { batch: 1, axes, inputs: 12, outputs, groups: 1, precision };
    let params = QuantParams::new(-3.2, 0.1).unwrap();
    let conv = QuantizedConvolution::new(&conv, params).unwrap().in_panels();
    let filters: Vec<i8> = (0..outputs * 12).map(|i| (i * 31 % 200) as i8).collect();
    let panels = conv.pack_filters(Packer::unpooled(Threads::single()), &filters);
    let data = numbers(ROWS * 12, 7);
    let data = Data::F32(Input::channels_last(&data), params.quantizer().unwrap());
    let scales: Vec<f32> = numbers(outputs, 29).iter().map(|x| x / 200.0).collect();
    let operands = Operands { data, filters: &panels, scales: &scales };
    let run = |post_ops: &[PostOp<'_>], output: Output<'_>| {
        conv.run(
            Workers { threads: Threads::single(), scratch: &ScratchPool::default() },
            operands,
            post_ops,
            output,
        );
    };
    let (mut found, mut values) = (vec![0; ROWS * outputs], vec![0.0; ROWS * outputs]);
    run(post_ops, Output::Quantized(&mut found, to));
    run(&[], Output::F32(&mut values));
    let mut expected = vec![0; ROWS * outputs];
    let rows = values.chunks_exact_mut(outputs).zip(expected.chunks_exact_mut(outputs));
    for (i, (row, to_row)) in rows.enumerate() {
        apply_post_ops(post_ops, i, 0, row);
        to.row(0, row, to_row);
    }
    (found, expected)
}

#[test]
fn residuals_in_one_loop_are_added_in_their_order() {
    for outputs in [3, 8, 11, 16, 23, 32, 70] {
        let bias = numbers(outputs, 3);
        let values: Vec<u8> = (0..ROWS * outputs).map(|i| (i * 11 % 256) as u8).collect();
        let bias = PostOp::Add(Operand::Columns(&bias));
        let of_sums = Quantizer::new(0.0, 255.0, 256).unwrap();
        let of_sums = PostOp::Quantize { to: of_sums, scale: 0.75, low: -8.5 };
        let values = Strided { values: &values, stride: outputs };
        let residual = PostOp::AddQuantized { values, scale: 0.3, low: -12.25 };
        let [leaky, steep] = [0.125, -2.0].map(|alpha| PostOp::Apply(Unary::LeakyRelu { alpha }));
        let forms: [&[PostOp<'_>]; 9] = [
            &[bias, residual],
            &[bias, residual, leaky],
            &[bias, of_sums, residual],
            &[of_sums, residual, leaky],
            &[bias, residual, PostOp::Apply(Unary::Relu {})],
            &[bias, leaky],
            &[leaky],
            &[bias, steep],
            &[bias, residual, steep],
        ];
        for (form, low) in forms.into_iter().flat_map(|form| [0.0, -10.0].map(|low| (form, low))) {
            // Its factor is 1, as that of one whose scale has been folded.
            let to = Quantizer::new(low, low + 63.0, 64).unwrap();
            let (found, expected) = both(outputs, form, Quantizers::Uniform(to));
            assert!(expected.iter().any(|q| (1..63).contains(q)));
            assert_eq!(found, expected, "{outputs} columns, from {low} on: {form:?}");
        }
    }
}

#[test]
fn columns_behind_leaky_relu_have_offsets_of_their_own() {
    for outputs in [8, 16, 23, 32, 70] {
        let limits = |factor: f32| -> Vec<[f32; 4]> {
            let low = |j: usize| -(j as f32) / 4.0;
            (0..outputs).map(|j| [low(j), low(j) + 127.0 / factor, 0.0, 1.0]).collect()
        };
        for factor in [1.0, 2.5] {
            let parameters = ColumnQuantizers::parameters(&limits(factor), 128).unwrap();
            let to = Quantizers::Columns(ColumnQuantizers::new(&parameters, 127.0));
            let leaky = [PostOp::Apply(Unary::LeakyRelu { alpha: 0.125 })];
            let (found, expected) = both(outputs, &leaky, to);
            assert_eq!(found, expected, "{outputs} columns times {factor}");
        }
    }
}
