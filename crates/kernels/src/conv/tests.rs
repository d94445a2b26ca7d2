mod few_outputs;
mod in_bf16;
mod long_windows;
mod many_groups;
mod padding;
mod patches;

use super::*;
use crate::base::num::bf16;
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::gemm::{KBlocks, Operand, PostOp, Precision, Strided, Target, Window, apply_post_ops};
use crate::math::quantize::{ColumnQuantizers, Output, Quantizer, Quantizers};
use crate::math::unary::Unary;
use proptest::prelude::*;

fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut x = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        (x >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// The definition, index by index, in the order of the GEMM: taps outside, channels inside, in
/// blocks. Depthwise: the taps of a line inside the channels, in one block.
fn reference(conv: &Convolution, input: &[f32], weights: &[f32]) -> Vec<f32> {
    let [d, h, w] = conv.axes;
    let (ci, co) = (conv.inputs / conv.groups, conv.outputs / conv.groups);
    let along = if conv.is_depthwise() { w.taps } else { 1 };
    let terms: Vec<(usize, usize)> = (0..conv.taps() / along)
        .flat_map(|line| (0..ci).map(move |c| (line, c)))
        .flat_map(|(line, c)| (0..along).map(move |tap| (line * along + tap, c)))
        .collect();
    let blocks = if conv.is_depthwise() { KBlocks::whole(terms.len()) } else { conv.k_blocks() };
    let mut out = Vec::new();
    for b in 0..conv.batch {
        for p in 0..conv.positions() {
            let (x, y, z) = (p % w.output, p / w.output % h.output, p / w.output / h.output);
            let pixel = |t: usize| {
                let (kx, ky, kz) = (t % w.taps, t / w.taps % h.taps, t / w.taps / h.taps);
                let at = |a: &Window, o: usize, k: usize| {
                    let i = (o * a.stride + k * a.dilation) as isize + a.start;
                    (0..a.input as isize).contains(&i).then_some(i as usize)
                };
                let (z, y, x) = (at(&d, z, kz)?, at(&h, y, ky)?, at(&w, x, kx)?);
                Some(((b * d.input + z) * h.input + y) * w.input + x)
            };
            let pixels: Vec<Option<usize>> = (0..conv.taps()).map(pixel).collect();
            for o in 0..conv.outputs {
                let chain = |block: std::ops::Range<usize>| {
                    terms[block].iter().fold(0f32, |sum, &(t, c)| {
                        let Some(pixel) = pixels[t] else { return sum };
                        let weight = weights[(o * ci + c) * conv.taps() + t];
                        input[pixel * conv.inputs + o / co * ci + c].mul_add(weight, sum)
                    })
                };
                out.push(blocks.iter().map(chain).fold(-0.0, |sum, of_block| sum + of_block));
            }
        }
    }
    out
}

fn window() -> impl Strategy<Value = Window> {
    (1usize..36, 1usize..6, 1usize..3, 1usize..3, 0usize..3, 0usize..3).prop_map(
        |(input, taps, stride, dilation, before, after)| {
            let extent = (taps - 1) * dilation + 1;
            let padded = input + before + after;
            let output = if padded < extent { 0 } else { (padded - extent) / stride + 1 };
            Window { input, output, taps, stride, dilation, start: -(before as isize) }
        },
    )
}

/// An NHWC input as NCHW.
fn planes(conv: &Convolution, input: &[f32]) -> Vec<f32> {
    let positions = conv.axes.iter().map(|a| a.input).product::<usize>();
    let image = |image: &[f32]| -> Vec<f32> {
        let at = |i: usize| image[i % positions * conv.inputs + i / positions];
        (0..image.len()).map(at).collect()
    };
    input.chunks(positions * conv.inputs).flat_map(image).collect()
}

/// Taps, strides and dilations with unrolled code, in lines of seven, eight and other lengths, at
/// both ends of the input.
#[test]
fn usual_windows_agree_with_the_definition() {
    for (taps, stride, dilation) in [(3, 1, 1), (3, 2, 1), (5, 1, 1), (5, 2, 1), (5, 1, 2)] {
        for (output, before) in [(7usize, 0usize), (7, 2), (14, 1), (8, 4), (19, 2)] {
            let extent = (taps - 1) * dilation + 1;
            let input = ((output - 1) * stride + extent).saturating_sub(before + 1).max(1);
            let axis = Window { input, output, taps, stride, dilation, start: -(before as isize) };
            for (channels, each) in [(5, 1), (16, 1), (37, 1), (18, 2), (20, 4), (64, 4), (40, 8)] {
                let axes = [Window::NONE, axis, axis];
                let (inputs, outputs, groups) = (channels, channels, channels / each);
                let precision = Precision::F32;
                let conv = Convolution { batch: 1, axes, inputs, outputs, groups, precision };
                assert!(conv.is_depthwise());
                let values = numbers(input * input * channels, 3);
                let weights = numbers(channels * conv.taps() * each, 4);
                let threads = Threads::new(2);
                let filters = conv.pack_filters(Packer::unpooled(&threads), &weights);
                let mut out = vec![f32::NAN; output * output * channels];
                let operands = (Input::channels_last(&values), &filters, &weights[..]);
                conv.run(&threads, &ScratchPool::default(), operands, &[], &mut out);
                assert_eq!(out, reference(&conv, &values, &weights), "{axis:?} {channels} {each}");
            }
        }
    }
}

/// Up to five filters per channel: few enough to repeat the channel, and more.
#[test]
fn channels_with_several_filters_agree_with_the_definition() {
    for (taps, stride, dilation) in [(1, 1, 1), (3, 1, 1), (3, 2, 1), (4, 1, 2), (7, 2, 1)] {
        for (channels, each, batch) in
            [(2, 2, 3), (37, 2, 1), (48, 2, 1), (6, 3, 2), (33, 4, 1), (3, 5, 1), (5, 2, 1)]
        {
            // The last one reads only padding.
            let input = if channels == 5 { 0 } else { 15 };
            let before = if channels == 5 { 15 } else { taps / 2 };
            let output = (input + before - (taps - 1) * dilation) / stride;
            let axis = Window { input, output, taps, stride, dilation, start: -(before as isize) };
            let conv = Convolution {
                batch,
                axes: [Window::NONE, axis, axis],
                inputs: channels,
                outputs: channels * each,
                groups: channels,
                precision: Precision::F32,
            };
            let values = numbers(batch * input * input * channels, 5);
            let weights = numbers(conv.outputs * conv.taps(), 6);
            let bias = numbers(conv.outputs, 7);
            let mut expected = reference(&conv, &values, &weights);
            for row in expected.chunks_mut(conv.outputs) {
                row.iter_mut().zip(&bias).for_each(|(sum, bias)| *sum += bias);
            }
            for threads in [Threads::new(1), Threads::new(3)] {
                let packed = conv.pack_filters(Packer::unpooled(&threads), &weights);
                for filters in [packed, conv.filters_once(&threads, &weights)] {
                    let mut out = vec![f32::NAN; expected.len()];
                    let operands = (Input::channels_last(&values), &filters, &weights[..]);
                    let post_ops = [PostOp::Add(Operand::Columns(&bias))];
                    conv.run(&threads, &ScratchPool::default(), operands, &post_ops, &mut out);
                    assert_eq!(out, expected, "{axis:?} {channels} {each}");
                }
            }
        }
    }
}

/// What a convolution gives for an input in NHWC, and for the same input in NCHW.
fn in_both_layouts(
    (conv, threads): (&Convolution, &Threads),
    filters: &Filters<'_>,
    (values, weights): (&[f32], &[f32]),
) -> [Vec<f32>; 2] {
    let planes = planes(conv, values);
    let last = Input::channels_last(values);
    let first = Input { channels_first: true, ..Input::channels_last(&planes) };
    [last, first].map(|input| {
        let mut out = vec![f32::NAN; conv.batch * conv.positions() * conv.outputs];
        conv.run(threads, &ScratchPool::default(), (input, filters, weights), &[], &mut out);
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn convolutions_agree_with_the_definition(
        (h, w) in (window(), window()),
        (batch, groups, ci, co) in (1usize..3, 1usize..3, 1usize..20, 1usize..40),
    ) {
        let axes = [Window::NONE, h, w];
        let conv = Convolution { batch, axes, inputs: ci * groups, outputs: co * groups, groups, precision: Precision::F32 };
        let input = numbers(batch * h.input * w.input * conv.inputs, 1);
        let weights = numbers(conv.outputs * ci * conv.taps(), 2);
        let expected = reference(&conv, &input, &weights);
        let threads = Threads::new(2);
        let mut out = vec![f32::NAN; expected.len()];
        let filters = conv.pack_filters(Packer::unpooled(&threads), &weights);
        let scratch = ScratchPool::default();
        conv.run(&threads, &scratch, (Input::channels_last(&input), &filters, &weights), &[], &mut out);
        prop_assert_eq!(&out, &expected);
        let planes = planes(&conv, &input);
        let planes = Input { channels_first: true, ..Input::channels_last(&planes) };
        if !conv.is_depthwise() && (groups == 1 || ci > 1) {
            out.fill(f32::NAN);
            conv.run(&threads, &scratch, (planes, &filters, &weights), &[], &mut out);
            prop_assert_eq!(&out, &expected);
        }
    }

    /// The same output as without means; the means add line after line.
    #[test]
    fn means_are_those_of_the_output(
        (h, w) in (window(), window()),
        (batch, groups, each) in (1usize..3, 2usize..30, prop::sample::select(vec![1, 2, 4, 8])),
    ) {
        let channels = groups * each;
        let conv = Convolution {
            batch, axes: [Window::NONE, h, w], inputs: channels, outputs: channels, groups,
            precision: Precision::F32,
        };
        let input = numbers(batch * h.input * w.input * channels, 1);
        let weights = numbers(channels * each * conv.taps(), 2);
        let filters = conv.pack_filters(Packer::unpooled(Threads::single()), &weights);
        let expected = reference(&conv, &input, &weights);
        let mean = |at: usize| {
            let line = |y: usize| -> f32 {
                let element = |x: usize| (at / channels * h.output + y) * w.output + x;
                (0..w.output).map(|x| expected[element(x) * channels + at % channels]).sum()
            };
            match conv.positions() {
                0 => 0.0,
                count => (0..h.output).map(line).sum::<f32>() / count as f32,
            }
        };
        let expected_means: Vec<f32> = (0..batch * channels).map(mean).collect();
        for threads in 1..3 {
            let (threads, scratch) = (Threads::new(threads), ScratchPool::default());
            let (mut out, mut means) = (vec![f32::NAN; expected.len()], vec![f32::NAN; batch * channels]);
            let to = (Output::F32(&mut out), &mut means[..]);
            let workers = Workers { threads: &threads, scratch: &scratch };
            conv.run_depthwise(workers, (DepthwiseInput::F32(&input), &filters), &[], to);
            prop_assert_eq!(&out, &expected);
            prop_assert_eq!(&means, &expected_means);
        }
    }

    /// Quantized values of each channel give the same as their f32 values, and become quantized
    /// values again.
    #[test]
    fn inputs_can_be_quantized(
        (h, w) in (window(), window()),
        (batch, groups, each) in (1usize..3, 2usize..70, prop::sample::select(vec![1, 1, 1, 2, 8])),
    ) {
        let channels = groups * each;
        let conv = Convolution {
            batch, axes: [Window::NONE, h, w], inputs: channels, outputs: channels, groups,
            precision: Precision::F32,
        };
        let count = batch * h.input * w.input * channels;
        let quantized: Vec<u8> = (0..count).map(|i| (i * 37 % 251) as u8).collect();
        let limits: Vec<[f32; 4]> = (0..channels)
            .map(|c| [-1.0, 2.0, -0.5 - c as f32, 1.0 + c as f32 * 0.25])
            .collect();
        let parameters = ColumnQuantizers::parameters(&limits, 256).unwrap();
        let of = ColumnQuantizers::new(&parameters, 255.0);
        let value = |(i, q): (usize, &u8)| {
            let [.., low, high] = limits[i % channels].map(f64::from);
            f32::from(*q) * ((high - low) / 255.0) as f32 + low as f32
        };
        let input: Vec<f32> = quantized.iter().enumerate().map(value).collect();
        let weights = numbers(channels * each * conv.taps(), 2);
        let filters = conv.pack_filters(Packer::unpooled(Threads::single()), &weights);
        let bias = numbers(channels, 3);
        let more = numbers(batch * conv.positions() * channels, 4);
        let post_ops = [
            PostOp::Add(Operand::Columns(&bias)),
            PostOp::Apply(Unary::Tanh {}),
            PostOp::Add(Operand::Matrix(Strided { values: &more, stride: channels })),
        ];
        let mut expected = reference(&conv, &input, &weights);
        for (i, row) in expected.chunks_exact_mut(channels).enumerate() {
            apply_post_ops(&post_ops, i, 0, row);
        }
        let to = Quantizer::new(-1.5, 2.5, 256).unwrap();
        let q = |x: &f32| {
            ((*x + 1.5) * (255.0 / 4.0)).round_ties_even().clamp(0.0, 255.0) as u8
        };
        for threads in 1..4 {
            let (threads, scratch) = (Threads::new(threads), ScratchPool::default());
            let (mut out, mut bytes) = (vec![f32::NAN; expected.len()], vec![0; expected.len()]);
            let workers = Workers { threads: &threads, scratch: &scratch };
            let map = DepthwiseInput::Quantized(&quantized, of);
            let values = (Output::F32(&mut out), &mut [][..]);
            conv.run_depthwise(workers, (map, &filters), &post_ops, values);
            prop_assert_eq!(&out, &expected);
            let quantized_output = (Output::Quantized(&mut bytes, Quantizers::Uniform(to)), &mut [][..]);
            conv.run_depthwise(workers, (map, &filters), &post_ops, quantized_output);
            prop_assert_eq!(&bytes, &expected.iter().map(q).collect::<Vec<u8>>());
        }
    }

    /// If operands already are bf16, results differ only by the order of the sums.
    #[test]
    fn bf16_convolutions_are_close(
        (h, w) in (window(), window()),
        (batch, groups, ci, co) in (1usize..3, 1usize..3, 1usize..40, 1usize..40),
    ) {
        let axes = [Window::NONE, h, w];
        let (inputs, outputs, precision) = (ci * groups, co * groups, Precision::Bf16);
        let conv = Convolution { batch, axes, inputs, outputs, groups, precision };
        let input = coarse(batch * h.input * w.input * inputs, 1);
        let weights = coarse(outputs * ci * conv.taps(), 2);
        let expected = reference(&conv, &input, &weights);
        for filters in [conv.pack_filters(Packer::unpooled(Threads::single()), &weights), conv.filters_once(Threads::single(), &weights)] {
            let run = |threads: usize| {
                let mut out = vec![f32::NAN; expected.len()];
                let (threads, scratch) = (Threads::new(threads), ScratchPool::default());
                let input = Input::channels_last(&input);
                conv.run(&threads, &scratch, (input, &filters, &weights), &[], &mut out);
                out
            };
            let out = run(1);
            prop_assert_eq!(&out, &run(3));
            if conv.reads_channels_first() {
                let planes = planes(&conv, &input);
                let planes = Input { channels_first: true, ..Input::channels_last(&planes) };
                let mut again = vec![f32::NAN; expected.len()];
                let (threads, scratch) = (Threads::single(), ScratchPool::default());
                conv.run(threads, &scratch, (planes, &filters, &weights), &[], &mut again);
                prop_assert_eq!(&out, &again);
            }
            for (x, y) in out.iter().zip(&expected) {
                prop_assert!((x - y).abs() <= 1e-6 * (ci * conv.taps()) as f32, "{x} {y}");
            }
        }
    }

    #[test]
    fn few_channels_in_a_group_agree_with_the_definition(
        (h, w) in (window(), window()),
        (batch, groups, each) in (1usize..3, 1usize..40, prop::sample::select(vec![1, 2, 4, 8])),
    ) {
        let axes = [Window::NONE, h, w];
        let channels = groups * each;
        let conv = Convolution { batch, axes, inputs: channels, outputs: channels, groups, precision: Precision::F32 };
        let input = numbers(batch * h.input * w.input * channels, 3);
        let weights = numbers(channels * each * conv.taps(), 4);
        let expected = reference(&conv, &input, &weights);
        let mut out = vec![f32::NAN; expected.len()];
        let threads = Threads::new(2);
        let filters = conv.pack_filters(Packer::unpooled(&threads), &weights);
        conv.run(&threads, &ScratchPool::default(), (Input::channels_last(&input), &filters, &weights), &[], &mut out);
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn the_way_back_spreads_every_input(
        (h, w) in (back(), back()),
        (batch, groups, ci, co) in (1usize..3, 1usize..3, 1usize..5, 1usize..5),
    ) {
        let axes = [Window::NONE, h, w];
        let conv = Convolution { batch, axes, inputs: ci * groups, outputs: co * groups, groups, precision: Precision::F32 };
        let input = numbers(batch * h.input * w.input * conv.inputs, 5);
        let weights = numbers(conv.inputs * co * conv.taps(), 6);
        let expected = spread(&conv, &input, &weights);
        let close = |found: &[f32]| {
            found.iter().zip(&expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-4)
        };

        let threads = Threads::new(2);
        let back = Transposed::new(&conv);
        let filters = back.pack_filters(Packer::unpooled(&threads), &weights);
        let mut out = vec![f32::NAN; expected.len()];
        back.run(&threads, &ScratchPool::default(), (&input, &filters), &[], &mut out);
        prop_assert!(close(&out), "{out:?} {expected:?}");

        let transpose = |values: &[f32], channels: usize, positions: usize, back: bool| -> Vec<f32> {
            let (r, c) = if back { (channels, positions) } else { (positions, channels) };
            let one = |m: &[f32]| (0..r * c).map(|i| m[i % r * c + i / r]).collect::<Vec<_>>();
            values.chunks((r * c).max(1)).flat_map(one).collect()
        };
        let first = transpose(&input, conv.inputs, h.input * w.input, false);
        let definition = Definition { conv: conv.clone(), direction: Direction::Backward };
        plain(&definition, &threads, (&first, &weights), &mut out);
        prop_assert!(close(&transpose(&out, conv.outputs, conv.positions(), true)));
    }
}

/// A convolution that Winograd's algorithm computes.
fn winograd() -> impl Strategy<Value = Convolution> {
    let window = || (13usize..24, 0usize..3, 0usize..3);
    let depth = prop_oneof![
        Just(Window::NONE),
        (1usize..4, 2usize..4, 1usize..3, 1usize..3, 0isize..5).prop_map(
            |(input, taps, stride, dilation, before)| {
                // A tap of the first window is within the input.
                let (input, reach) = (input.max(dilation), (taps - 1) * dilation);
                let before = before.min(reach as isize);
                let padded = input + 2 * before.unsigned_abs();
                let free = padded.saturating_sub(reach + 1);
                Window { input, output: free / stride + 1, taps, stride, dilation, start: -before }
            }
        )
    ];
    let sizes = (window(), window(), depth, 1usize..3, 2usize..4, 2usize..6);
    sizes.prop_map(|(h, w, depth, batch, ci, co)| {
        let axis = |(input, before, after): (usize, usize, usize)| Window {
            input,
            output: input + before + after - 2,
            taps: 3,
            stride: 1,
            dilation: 1,
            start: -(before as isize),
        };
        Convolution {
            batch,
            axes: [depth, axis(h), axis(w)],
            inputs: 16 * ci,
            outputs: 16 * co,
            groups: 1,
            precision: Precision::F32,
        }
    })
}

/// The result of a convolution on some threads, with filters packed for many runs or for one.
fn run(
    conv: &Convolution,
    (threads, once): (usize, bool),
    (input, weights): (&[f32], &[f32]),
    post_ops: &[PostOp<'_>],
) -> Vec<f32> {
    let threads = Threads::new(threads);
    let filters = if once {
        conv.filters_once(&threads, weights)
    } else {
        conv.pack_filters(Packer::unpooled(&threads), weights)
    };
    let mut out = vec![f32::NAN; conv.batch * conv.positions() * conv.outputs];
    let input = Input::channels_last(input);
    let scratch = ScratchPool::default();
    conv.run(&threads, &scratch, (input, &filters, weights), post_ops, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Winograd's sums are as near to the definition as rounding allows, and the same for any
    /// number of threads.
    #[test]
    fn fewer_multiplications_are_close(conv in winograd()) {
        prop_assert!(conv.is_winograd());
        let input = numbers(conv.batch * conv.inside() * conv.inputs, 7);
        let weights = numbers(conv.outputs * conv.inputs * conv.taps(), 8);
        let operands = (&input[..], &weights[..]);
        let sums = run(&conv, (1, false), operands, &[]);
        prop_assert_eq!(&sums, &run(&conv, (3, true), operands, &[]));
        if conv.batch > 1 {
            let alone = Convolution { batch: 1, ..conv.clone() };
            let first = (&input[..input.len() / conv.batch], operands.1);
            prop_assert_eq!(&sums[..sums.len() / conv.batch], run(&alone, (1, false), first, &[]));
        }
        // The error of this many terms below 1 that add like random numbers.
        let terms = conv.taps() * conv.inputs;
        let bound = 24.0 * f32::EPSILON * (terms as f32).sqrt();
        for (x, y) in sums.iter().zip(reference(&conv, &input, &weights)) {
            prop_assert!((x - y).abs() <= bound, "{x} {y} {bound}");
        }

        let residual = numbers(sums.len(), 9);
        let stride = conv.outputs;
        let post_ops = [
            PostOp::Add(Operand::Columns(&weights)),
            PostOp::Add(Operand::Matrix(Strided { values: &residual, stride })),
            PostOp::Apply(Unary::Relu {}),
        ];
        let expected = sums.iter().zip(&residual).enumerate().map(|(i, (x, r))| {
            let sum = x + weights[i % stride] + r;
            if sum > 0.0 { sum } else { 0.0 }
        });
        prop_assert_eq!(run(&conv, (2, false), operands, &post_ops), expected.collect::<Vec<_>>());
    }
}

/// An infinite input must not reach outputs that do not read it, nor become NaN.
#[test]
fn infinities_stay_where_they_are() {
    let axis = Window { input: 13, output: 13, taps: 3, stride: 1, dilation: 1, start: -1 };
    let (axes, precision) = ([Window::NONE, axis, axis], Precision::F32);
    let conv = Convolution { batch: 1, axes, inputs: 32, outputs: 32, groups: 1, precision };
    assert!(conv.is_winograd());
    let mut input = numbers(13 * 13 * 32, 10);
    input[(6 * 13 + 6) * 32 + 5] = f32::INFINITY;
    let weights = numbers(32 * 32 * 9, 11);
    let found = run(&conv, (2, false), (&input, &weights), &[]);
    assert_eq!(found, reference(&conv, &input, &weights));
    assert_eq!(found.iter().filter(|x| x.is_infinite()).count(), 9 * 32);
}

/// Numbers that are exact in bf16.
fn coarse(len: usize, seed: u32) -> Vec<f32> {
    numbers(len, seed).iter().map(|x| bf16::from_f32(*x).to_f32()).collect()
}

/// A model may ask for any padding: nothing is allocated for it.
#[test]
fn padding_beyond_memory_is_not_written_down() {
    let far = 1usize << 50;
    let axis =
        Window { input: 3, output: 2, taps: 1, stride: far, dilation: 1, start: -(far as isize) };
    let conv = Convolution {
        batch: 1,
        axes: [Window::NONE, axis, axis],
        inputs: 1,
        outputs: 1,
        groups: 1,
        precision: Precision::Bf16,
    };
    let values: Vec<f32> = (1..=9).map(|i| i as f32).collect();
    let filters = conv.pack_filters(Packer::unpooled(Threads::single()), &[2.0]);
    let mut out = [f32::NAN; 4];
    let input = Input::channels_last(&values);
    conv.run(Threads::single(), &ScratchPool::default(), (input, &filters, &[]), &[], &mut out);
    assert_eq!(out, [0.0, 0.0, 0.0, 2.0]);
    // Nor for the stride of a single window.
    let axis = Window { output: 1, taps: 3, start: 0, ..axis };
    let conv = Convolution { axes: [Window::NONE, axis, axis], inputs: 3, outputs: 2, ..conv };
    let (input, weights) = (coarse(27, 7), coarse(2 * 27, 8));
    let found = run(&conv, (1, false), (&input, &weights), &[]);
    let expected = reference(&conv, &input, &weights);
    assert!(found.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-4), "{found:?}");
}

/// A window of a transposed convolution, with an output of any size.
fn back() -> impl Strategy<Value = Window> {
    (1usize..6, 1usize..4, 1usize..4, 1usize..4, 0usize..4, 1usize..20).prop_map(
        |(input, taps, stride, dilation, start, output)| Window {
            input,
            output,
            taps,
            stride,
            dilation,
            start: start as isize,
        },
    )
}

/// Adds every input, times each tap, to the output it reaches.
fn spread(conv: &Convolution, input: &[f32], weights: &[f32]) -> Vec<f64> {
    let [d, h, w] = conv.axes;
    let (ci, co) = (conv.inputs / conv.groups, conv.outputs / conv.groups);
    let mut out = vec![0f64; conv.batch * conv.positions() * conv.outputs];
    for (i, x) in input.iter().enumerate() {
        let (c, pixel) = (i % conv.inputs, i / conv.inputs);
        let (line, x_at) = (pixel / w.input, pixel % w.input);
        let (y, z, b) = (line % h.input, line / h.input % d.input, line / h.input / d.input);
        for t in 0..conv.taps() {
            let place = |a: &Window, i: usize, tap: usize| {
                let o = (i * a.stride + tap * a.dilation) as isize - a.start;
                usize::try_from(o).ok().filter(|o| *o < a.output)
            };
            let plane = place(&d, z, t / w.taps / h.taps);
            let at = (plane, place(&h, y, t / w.taps % h.taps), place(&w, x_at, t % w.taps));
            let (Some(oz), Some(oy), Some(ox)) = at else { continue };
            let line = (b * d.output + oz) * h.output + oy;
            for o in 0..co {
                let weight = weights[(c * co + o) * conv.taps() + t];
                let channel = c / ci * co + o;
                out[(line * w.output + ox) * conv.outputs + channel] +=
                    f64::from(*x) * f64::from(weight);
            }
        }
    }
    out
}

/// The third tap's position wraps around to that of the first; the second is far outside.
fn with_taps_too_far_apart(groups: usize) {
    let dilation = 1 << (usize::BITS - 1);
    let axis = Window { input: 4, output: 4, taps: 3, stride: 1, dilation, start: 0 };
    let axes = [Window::NONE, Window::NONE, axis];
    let (channels, precision) = (16, Precision::F32);
    let (inputs, outputs) = (channels, channels);
    let conv = Convolution { batch: 1, axes, inputs, outputs, groups, precision };
    let given = numbers(3 * channels * channels / groups, 1);
    let threads = Threads::single();
    let filters = conv.pack_filters(Packer::unpooled(threads), &given);
    let (values, mut out) = (numbers(4 * channels, 2), vec![0.0; 4 * channels]);
    let input = Input::channels_last(&values);
    conv.run(threads, &ScratchPool::default(), (input, &filters, &given), &[], &mut out);
}

#[test]
#[should_panic(expected = "positions cannot be counted")]
fn windows_that_cannot_be_counted_are_refused() {
    with_taps_too_far_apart(1);
}

#[test]
#[should_panic(expected = "positions cannot be counted")]
fn windows_of_each_channel_that_cannot_be_counted_are_refused() {
    with_taps_too_far_apart(16);
}
