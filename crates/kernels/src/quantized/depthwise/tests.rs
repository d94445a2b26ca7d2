use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::conv::Convolution;
use crate::gemm::{Operand, PostOp, Precision, Window};
use crate::math::quantize::{Output, Quantizer, Quantizers};
use crate::quantized::{
    Data, ExpandedDepthwise, Operands, QuantParams, QuantizedConvolution, Stage,
};
use proptest::prelude::*;

/// The sums by the definition, in i64.
fn sums(conv: &Convolution, zero_points: &[u8], data: &[u8], filters: &[i8]) -> Vec<i64> {
    let ([_, height, width], channels) = (conv.axes, conv.inputs);
    let mut to = Vec::new();
    for batch in 0..conv.batch {
        for (y, x) in (0..height.output).flat_map(|y| (0..width.output).map(move |x| (y, x))) {
            for c in 0..channels {
                let of_tap = |tap: usize| {
                    let iy = height.position(y, tap / width.taps)?;
                    let ix = width.position(x, tap % width.taps)?;
                    let at = ((batch * height.input + iy) * width.input + ix) * channels + c;
                    let q = i64::from(data[at]) - i64::from(zero_points[c]);
                    Some(q * i64::from(filters[c * conv.taps() + tap]))
                };
                to.push((0..conv.taps()).filter_map(of_tap).sum());
            }
        }
    }
    to
}

/// Numbers that look random.
fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let next =
        |x: &u64| Some(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
    std::iter::successors(Some(seed), next).skip(1).map(|x| (x >> 33) as u8).take(count).collect()
}

fn window(input: usize, taps: usize, stride: usize, dilation: usize, before: usize) -> Window {
    let reach = (taps - 1) * dilation + 1;
    let output = (input + 2 * before).saturating_sub(reach) / stride + 1;
    Window { input, output, taps, stride, dilation, start: -before.cast_signed() }
}

fn is_exact(conv: &Convolution, seed: u64, threads: usize) -> Result<(), TestCaseError> {
    let channels = conv.inputs;
    let zero_points = bytes(channels, seed);
    let params: Vec<QuantParams> = zero_points
        .iter()
        .map(|zero| QuantParams::new(-f64::from(*zero), 1.0).expect("0 is a quantized value"))
        .collect();
    let data = bytes(conv.batch * conv.inside() * channels, seed ^ 1);
    let filters: Vec<i8> =
        bytes(channels * conv.taps(), seed ^ 2).iter().map(|byte| *byte as i8).collect();
    let scales: Vec<f32> = (0..channels).map(|c| 0.5 + c as f32 / 64.0).collect();
    let bias: Vec<f32> = (0..channels).map(|c| c as f32 - 9.0).collect();
    let wanted: Vec<f32> = sums(conv, &zero_points, &data, &filters)
        .iter()
        .enumerate()
        .map(|(i, sum)| *sum as f32 * scales[i % channels] + bias[i % channels])
        .collect();
    let quantized = QuantizedConvolution::depthwise(conv, &params).expect("it is depthwise");
    let (threads, scratch) = (Threads::new(threads), ScratchPool::default());
    let packed = quantized.pack_filters(Packer::unpooled(&threads), &filters);
    let operands = Operands { data: Data::Quantized(&data), filters: &packed, scales: &scales };
    let post_ops = [PostOp::Add(Operand::Columns(&bias))];
    let mut found = vec![f32::NAN; wanted.len()];
    quantized.run(
        Workers { threads: &threads, scratch: &scratch },
        operands,
        &post_ops,
        Output::F32(&mut found),
    );
    prop_assert_eq!(&found, &wanted);
    let to = Quantizer::new(-9000.0, 70000.0, 256).expect("the limits differ");
    let mut requantized = vec![0; wanted.len()];
    let output = Output::Quantized(&mut requantized, Quantizers::Uniform(to));
    quantized.run(Workers { threads: &threads, scratch: &scratch }, operands, &post_ops, output);
    let wanted: Vec<u8> = wanted.iter().map(|value| to.byte(*value)).collect();
    prop_assert_eq!(requantized, wanted);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Windows with code of their own and others, and any number of channels.
    #[test]
    fn sums_are_exact(
        (batch, channels, seed) in (1usize..3, 2usize..75, any::<u64>()),
        (height, width, threads) in (1usize..9, 1usize..45, 1usize..4),
        (tall, wide) in (1usize..7, 1usize..8),
        (stride, dilation, before) in (1usize..4, 1usize..3, 0usize..4),
    ) {
        let reach = |taps: usize| (taps - 1) * dilation + 1;
        let height = window(height.max(reach(tall)), tall, stride, dilation, before);
        let width = window(width.max(reach(wide)), wide, stride, dilation, before);
        let (axes, precision) = ([Window::NONE, height, width], Precision::F32);
        let (inputs, outputs, groups) = (channels, channels, channels);
        let conv = Convolution { batch, axes, inputs, outputs, groups, precision };
        is_exact(&conv, seed, threads)?;
    }
}

/// So many lines that they are divided, and so many channels that panels are.
#[test]
fn parts_cover_the_output() {
    for (size, channels) in [(100, 33), (9, 700)] {
        let axis = window(size, 3, 1, 1, 1);
        let (axes, precision) = ([Window::NONE, axis, axis], Precision::F32);
        let (inputs, outputs, groups) = (channels, channels, channels);
        let conv = Convolution { batch: 1, axes, inputs, outputs, groups, precision };
        is_exact(&conv, 7, 3).expect("the sums are exact");
    }
}

/// A 1×1 convolution fused with the depthwise one of its result gives the same as one after the
/// other, on any number of threads.
#[test]
fn expanded_lines_are_those_of_the_whole() {
    let axis = |size: usize, taps: usize, stride: usize| window(size, taps, stride, 1, taps / 2);
    for (inputs, channels, stride, taps) in [(16, 96, 1, 3), (22, 144, 2, 3), (24, 75, 2, 5)] {
        let (batch, precision) = (2, Precision::F32);
        let (axes, groups) =
            ([Window::NONE, axis(67, taps, stride), axis(131, taps, stride)], channels);
        let second =
            Convolution { batch, axes, inputs: channels, outputs: channels, groups, precision };
        let axes = [Window::NONE, axis(67, 1, 1), axis(131, 1, 1)];
        let first = Convolution { axes, inputs, groups: 1, ..second.clone() };
        let data = bytes(batch * first.inside() * inputs, 3);
        let weights = |count: usize, seed: u64| -> Vec<i8> {
            bytes(count, seed).iter().map(|byte| *byte as i8).collect()
        };
        let filters = [weights(inputs * channels, 4), weights(channels * taps * taps, 5)];
        let params = QuantParams::new(-9.0, 1.0).expect("0 is a quantized value");
        let expand = QuantizedConvolution::new(&first, params).expect("it is plain");
        let params = vec![QuantParams::new(-30.0, 1.0).expect("0 is a quantized value"); channels];
        let depthwise = QuantizedConvolution::depthwise(&second, &params).expect("it is depthwise");
        let pair = ExpandedDepthwise::new(&expand, &depthwise).expect("it is large");
        let scales: Vec<f32> = (0..channels).map(|c| 0.01 + c as f32 / 4096.0).collect();
        let bias: Vec<f32> = (0..channels).map(|c| c as f32 - 9.0).collect();
        let post_ops = [PostOp::Add(Operand::Columns(&bias))];
        let between = Quantizer::new(-200.0, 200.0, 256).expect("the limits differ");
        let to = Quantizer::new(-900.0, 700.0, 256).expect("the limits differ");
        let run = |threads: usize, fused: bool| {
            let (threads, scratch) = (Threads::new(threads), ScratchPool::default());
            let packer = Packer::unpooled(&threads);
            let packed = [
                expand.pack_filters(packer, &filters[0]),
                depthwise.pack_filters(packer, &filters[1]),
            ];
            let stage = |i: usize, data| {
                let operands = Operands { data, filters: &packed[i], scales: &scales };
                Stage { operands, post_ops: &post_ops }
            };
            let (workers, quantizers) =
                (Workers { threads: &threads, scratch: &scratch }, Quantizers::Uniform(between));
            let mut output = vec![1; batch * second.positions() * channels];
            let result = Output::Quantized(&mut output, Quantizers::Uniform(to));
            let whole = stage(0, Data::Quantized(&data));
            if fused {
                let second = stage(1, Data::Quantized(&[]));
                pair.run(workers, (whole, quantizers), second, result);
                return output;
            }
            let mut expanded = vec![1; batch * first.positions() * channels];
            let between = Output::Quantized(&mut expanded, quantizers);
            expand.run(workers, whole.operands, &post_ops, between);
            let operands = stage(1, Data::Quantized(&expanded)).operands;
            depthwise.run(workers, operands, &post_ops, result);
            output
        };
        let wanted = run(1, false);
        for threads in [1, 2, 3] {
            assert!(run(threads, true) == wanted, "{inputs} to {channels} on {threads} threads");
        }
    }
}
