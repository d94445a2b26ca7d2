use super::*;
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::conv::{Convolution, Input};
use crate::gemm::{Operand, PostOp, Precision, Strided, Window};
use crate::math::quantize::{ColumnQuantizers, Output, Quantizer, Quantizers};
use crate::math::unary::Unary;
use proptest::prelude::*;

mod residual;

/// The definition: sums of quantized values times filters.
fn sums(conv: &Convolution, params: QuantParams, data: &[u8], filters: &[i8]) -> Vec<i64> {
    let [_, height, width] = conv.axes;
    let (inputs, outputs) = (conv.inputs / conv.groups, conv.outputs / conv.groups);
    let mut to = Vec::new();
    for batch in 0..conv.batch {
        for (y, x) in (0..height.output).flat_map(|y| (0..width.output).map(move |x| (y, x))) {
            for n in 0..conv.outputs {
                let mut sum = 0i64;
                for (ky, kx) in (0..height.taps).flat_map(|y| (0..width.taps).map(move |x| (y, x)))
                {
                    let Some((iy, ix)) = height.position(y, ky).zip(width.position(x, kx)) else {
                        continue;
                    };
                    let position = (batch * height.input + iy) * width.input + ix;
                    let first = position * conv.inputs + n / outputs * inputs;
                    for c in 0..inputs {
                        let q = i64::from(data[first + c]) - i64::from(params.zero_point());
                        let tap = ky * width.taps + kx;
                        let w = (n * inputs + c) * height.taps * width.taps + tap;
                        sum += q * i64::from(filters[w]);
                    }
                }
                to.push(sum);
            }
        }
    }
    to
}

/// The sums times the scales of their channels, and ReLU.
fn reference(
    conv: &Convolution,
    params: QuantParams,
    data: &[u8],
    filters: &[i8],
    scales: &[f32],
) -> Vec<f32> {
    let sums = sums(conv, params, data, filters);
    let scaled = |(i, sum): (usize, &i64)| (*sum as f32 * scales[i % conv.outputs]).max(0.0);
    sums.iter().enumerate().map(scaled).collect()
}

fn window(input: usize, taps: usize, stride: usize, dilation: usize, before: isize) -> Window {
    let reach = (taps - 1) * dilation + 1;
    let output = (input + 2 * before.unsigned_abs()).saturating_sub(reach) / stride + 1;
    Window { input, output, taps, stride, dilation, start: -before }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_exact(
        (batch, inputs, outputs) in (1usize..3, 1usize..40, 1usize..70),
        (height, width) in (3usize..9, 3usize..40),
        (taps, stride, dilation, before) in (1usize..4, 1usize..3, 1usize..3, 0isize..3),
        (zero, seed, channels_first) in (0u8..=255, any::<u64>(), any::<bool>()),
    ) {
        let axes = [
            Window::NONE,
            window(height.max(5), taps, stride, dilation, before),
            window(width.max(taps), taps, stride, 1, before),
        ];
        let precision = Precision::F32;
        let conv = Convolution { batch, axes, inputs, outputs, groups: 1, precision };
        is_exact(&conv, zero, seed, channels_first)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Numbers of outputs for which CPUs without dot4 use the kernel of f32.
    #[test]
    fn sums_of_few_outputs_are_exact(
        (batch, inputs, outputs) in (1usize..3, 1usize..20, 1usize..5),
        (height, width, taps, before) in (3usize..9, 35usize..90, 2usize..4, 0isize..3),
        (zero, seed, channels_first) in (0u8..=255, any::<u64>(), any::<bool>()),
    ) {
        let axes = [height, width].map(|size| window(size, taps, 1, 1, before));
        let axes = [Window::NONE, axes[0], axes[1]];
        let precision = Precision::F32;
        let conv = Convolution { batch, axes, inputs, outputs, groups: 1, precision };
        is_exact(&conv, zero, seed, channels_first)?;
    }

    /// 1×1 kernels with more rows than CPUs without dot4 widen at a time, and whole or partial
    /// vectors of outputs.
    #[test]
    fn sums_of_many_positions_are_exact(
        (batch, inputs, outputs) in (1usize..3, 1usize..150, 1usize..9),
        (height, width, rest) in (17usize..30, 35usize..60, 0usize..2),
        (zero, seed, channels_first) in (0u8..=255, any::<u64>(), any::<bool>()),
    ) {
        let axes = [height, width].map(|size| window(size, 1, 1, 1, 0));
        let axes = [Window::NONE, axes[0], axes[1]];
        let (outputs, precision) = (8 * outputs + rest, Precision::F32);
        let conv = Convolution { batch, axes, inputs, outputs, groups: 1, precision };
        is_exact(&conv, zero, seed, channels_first)?;
    }

    /// Numbers of channels for which CPUs without dot4 use Winograd.
    #[test]
    fn sums_of_patches_are_exact(
        (batch, inputs, outputs) in (1usize..3, 4usize..17, 32usize..70),
        (height, width, before) in (12usize..20, 14usize..20, 0isize..3),
        (zero, seed, channels_first) in (0u8..=255, any::<u64>(), any::<bool>()),
    ) {
        let axes = [height, width].map(|size| window(size, 3, 1, 1, before));
        let axes = [Window::NONE, axes[0], axes[1]];
        let precision = Precision::F32;
        let conv = Convolution { batch, axes, inputs: 4 * inputs, outputs, groups: 1, precision };
        is_exact(&conv, zero, seed, channels_first)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Groups that are computed together, in fours of channels, and alone.
    #[test]
    fn sums_of_groups_are_exact(
        (batch, inputs, outputs, groups) in (1usize..3, 1usize..9, 1usize..40, 2usize..9),
        (height, width, before) in (3usize..9, 3usize..40, 0isize..3),
        (taps, stride) in (1usize..4, 1usize..3),
        (zero, seed, channels_first) in (0u8..=255, any::<u64>(), any::<bool>()),
    ) {
        let axes = [height, width].map(|size| window(size, taps, stride, 1, before));
        let (axes, precision) = ([Window::NONE, axes[0], axes[1]], Precision::F32);
        let (inputs, outputs) = (4 * inputs * groups, outputs * groups);
        let conv = Convolution { batch, axes, inputs, outputs, groups, precision };
        is_exact(&conv, zero, seed, channels_first)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Groups whose bytes are permuted to their lanes.
    #[test]
    fn sums_of_small_groups_are_exact(
        (batch, log, merged) in (1usize..3, 2u32..5, 1usize..4),
        (height, width, before) in (3usize..9, 3usize..40, 0isize..3),
        (taps, stride) in (1usize..4, 1usize..3),
        (zero, seed) in (0u8..=255, any::<u64>()),
    ) {
        let axes = [height, width].map(|size| window(size, taps, stride, 1, before));
        let (axes, precision) = ([Window::NONE, axes[0], axes[1]], Precision::F32);
        let (channels, groups) = (32 * merged, (32 * merged) >> log);
        let (inputs, outputs) = (channels, channels);
        let conv = Convolution { batch, axes, inputs, outputs, groups, precision };
        is_exact(&conv, zero, seed, false)?;
    }
}

/// The largest possible sums.
#[test]
fn sums_of_patches_do_not_wrap() {
    let axes = [Window::NONE, window(12, 3, 1, 1, 1), window(13, 3, 1, 1, 1)];
    let (inputs, outputs, precision) = (1808, 32, Precision::F32);
    let conv = Convolution { batch: 1, axes, inputs, outputs, groups: 1, precision };
    for (q, w) in [(255, -128), (255, 127)] {
        let data = vec![q; 12 * 13 * inputs];
        let filters = vec![w; outputs * inputs * 9];
        agrees(&conv, 0, (&data, &filters), false).unwrap();
    }
}

/// Operands of all sizes, many of them the largest.
fn is_exact(
    conv: &Convolution,
    zero: u8,
    seed: u64,
    channels_first: bool,
) -> Result<(), TestCaseError> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state >> 40 & 3 == 0 {
            if state >> 42 & 1 == 0 { 0x7f } else { 0x80 }
        } else {
            state as u8
        }
    };
    let [_, height, width] = conv.axes;
    let count = conv.batch * height.input * width.input * conv.inputs;
    let data: Vec<u8> = (0..count).map(|_| next() ^ 0x80).collect();
    let count = conv.outputs * conv.inputs / conv.groups * height.taps * width.taps;
    let filters: Vec<i8> = (0..count).map(|_| next() as i8).collect();
    agrees(conv, zero, (&data, &filters), channels_first)
}

/// From f32 and from quantized values, on one thread and three.
fn agrees(
    conv: &Convolution,
    zero: u8,
    (data, filters): (&[u8], &[i8]),
    channels_first: bool,
) -> Result<(), TestCaseError> {
    let params = QuantParams::new(-f64::from(zero) * 0.3, 0.3).unwrap();
    let Some(quantized) = QuantizedConvolution::new(conv, params) else {
        return Err(TestCaseError::fail("the convolution is refused"));
    };
    let (inputs, positions) = (conv.inputs, conv.axes[1].input * conv.axes[2].input);
    let scales: Vec<f32> = (0..conv.outputs).map(|i| 0.01 * (i + 1) as f32).collect();
    let value = |q: u8| (f32::from(q) - f32::from(zero)) * params.scale();
    let place = |i: usize| {
        if channels_first {
            let (c, at) = (i / positions % inputs, i % positions);
            (i / (positions * inputs) * positions + at) * inputs + c
        } else {
            i
        }
    };
    let values: Vec<f32> = (0..data.len()).map(|i| value(data[place(i)])).collect();
    let expected = reference(conv, params, data, filters, &scales);
    let post_ops = [PostOp::Apply(Unary::Relu {})];
    for threads in [1, 3].map(Threads::new) {
        let panels = quantized.pack_filters(Packer::unpooled(&threads), filters);
        let quantizers = vec![params.quantizer().unwrap(); inputs];
        let given = match channels_first {
            true => Data::Planes(&values, &quantizers),
            false => Data::F32(Input::channels_last(&values), quantizers[0]),
        };
        for data in [given, Data::Quantized(data)] {
            if channels_first && matches!(data, Data::Quantized(_)) {
                continue;
            }
            let operands = Operands { data, filters: &panels, scales: &scales };
            let mut found = vec![f32::NAN; expected.len()];
            let output = Output::F32(&mut found);
            quantized.run(
                Workers { threads: &threads, scratch: &ScratchPool::default() },
                operands,
                &post_ops,
                output,
            );
            prop_assert_eq!(&found, &expected);
        }
    }
    Ok(())
}

/// Each plane of NCHW data has its own quantizer.
#[test]
fn planes_have_quantizers_of_their_own() {
    for (inputs, outputs) in [(3, 40), (3, 2), (6, 40)] {
        let axes = [Window::NONE, window(9, 3, 2, 1, 1), window(21, 3, 2, 1, 1)];
        let precision = Precision::F32;
        let conv = Convolution { batch: 2, axes, inputs, outputs, groups: 1, precision };
        let inside = 9 * 21;
        let data: Vec<u8> = (0..2 * inside * inputs).map(|i| (i * 89 % 256) as u8).collect();
        let filters: Vec<i8> = (0..outputs * inputs * 9).map(|i| (i * 31 % 200) as i8).collect();
        let scales = vec![0.01; outputs];
        let params = QuantParams::new(-12.0, 0.1).unwrap();
        let quantized = QuantizedConvolution::new(&conv, params).unwrap();
        let panels = quantized.pack_filters(Packer::unpooled(Threads::single()), &filters);
        let run = |data: Data<'_>| {
            let operands = Operands { data, filters: &panels, scales: &scales };
            let mut found = vec![f32::NAN; 2 * conv.positions() * outputs];
            let output = Output::F32(&mut found);
            quantized.run(
                Workers { threads: Threads::single(), scratch: &ScratchPool::default() },
                operands,
                &[],
                output,
            );
            found
        };
        let step = |c: usize| 0.5 + c as f32;
        let quantizer = |c: usize| Quantizer::new(-3.0, 255.0 * step(c) - 3.0, 256).unwrap();
        let quantizers: Vec<Quantizer> = (0..inputs).map(quantizer).collect();
        let mut planes = vec![0.0; data.len()];
        for (i, q) in data.iter().enumerate() {
            let (at, c) = (i / inputs, i % inputs);
            planes[(at / inside * inputs + c) * inside + at % inside] =
                f32::from(*q) * step(c) - 3.0;
        }
        assert_eq!(run(Data::Planes(&planes, &quantizers)), run(Data::Quantized(&data)));
    }
}

/// Post-ops in registers, and called one by one where one of them or a partial panel needs it, give
/// the same as one post-op after the other.
#[test]
fn steps_are_applied_in_their_order() {
    let axis = Window { input: 37, output: 37, ..Window::NONE };
    are_applied_in_order([Window::NONE, axis], 70);
}

/// The same with so few outputs that they are computed in f32 on CPUs without dot4.
#[test]
fn steps_of_few_outputs_are_applied_in_their_order() {
    for outputs in 1..5 {
        are_applied_in_order([2, 37].map(|size| window(size, 3, 1, 1, 1)), outputs);
    }
}

fn are_applied_in_order([height, width]: [Window; 2], outputs: usize) {
    let (inputs, rows, precision) = (8, height.output * width.output, Precision::F32);
    let axes = [Window::NONE, height, width];
    let conv = Convolution { batch: 1, axes, inputs, outputs, groups: 1, precision };
    let params = QuantParams::new(-3.2, 0.1).unwrap();
    let quantized = QuantizedConvolution::new(&conv, params).unwrap();
    let numbers =
        |n: usize, by: usize| (0..n).map(|i| (i * by % 101) as f32 / 40.0 - 1.2).collect();
    let (data, matrix): (Vec<f32>, Vec<f32>) = (numbers(rows * 8, 7), numbers(rows * outputs, 13));
    let (columns, scales): (Vec<f32>, Vec<f32>) = (numbers(outputs, 3), numbers(outputs, 29));
    let filters: Vec<i8> = (0..outputs * 8 * conv.taps()).map(|i| (i * 31 % 200) as i8).collect();
    let panels = quantized.pack_filters(Packer::unpooled(Threads::single()), &filters);
    let data = Data::F32(Input::channels_last(&data), params.quantizer().unwrap());
    let operands = Operands { data, filters: &panels, scales: &scales };
    let run = |post_ops: &[PostOp<'_>]| {
        let mut found = vec![f32::NAN; rows * outputs];
        let output = Output::F32(&mut found);
        quantized.run(
            Workers { threads: Threads::single(), scratch: &ScratchPool::default() },
            operands,
            post_ops,
            output,
        );
        found
    };
    let values: Vec<u8> = (0..rows * outputs).map(|i| (i * 11 % 256) as u8).collect();
    let to = Quantizer::new(-20.0, 30.0, 200).unwrap();
    let limits: Vec<[f32; 4]> =
        (0..outputs).map(|j| [-30.0 - j as f32, 40.0, -31.0, 5.0 + j as f32]).collect();
    let parameters = ColumnQuantizers::parameters(&limits, 256).unwrap();
    let all = [
        PostOp::QuantizeColumns(ColumnQuantizers::new(&parameters, 255.0)),
        PostOp::Add(Operand::Columns(&columns)),
        PostOp::Add(Operand::Matrix(Strided { values: &matrix, stride: outputs })),
        PostOp::Multiply(Operand::Number(1.5)),
        PostOp::AddQuantized {
            values: Strided { values: &values, stride: outputs },
            scale: 0.01,
            low: -1.28,
        },
        PostOp::Quantize { to, scale: 0.25, low: -20.5 },
        PostOp::Multiply(Operand::Columns(&columns)),
        PostOp::Apply(Unary::Tanh {}),
        PostOp::Multiply(Operand::Number(20.0)),
        PostOp::Apply(Unary::Clamp { low: -15.0, high: 12.0 }),
        PostOp::Multiply(Operand::Matrix(Strided { values: &matrix, stride: outputs })),
        PostOp::Add(Operand::Number(-0.25)),
        PostOp::Apply(Unary::Relu {}),
    ];
    let mut expected = run(&[]);
    for (i, row) in expected.chunks_exact_mut(outputs).enumerate() {
        crate::gemm::apply_post_ops(&all, i, 0, row);
    }
    assert!(expected.iter().any(|x| *x > 0.0) && expected.contains(&0.0));
    assert_eq!(run(&all), expected);
    // Divisions are not lane operations.
    let divisors: Vec<f32> = (1..=outputs).map(|j| j as f32 / 8.0).collect();
    let positive: Vec<f32> = matrix.iter().map(|x| x + 30.0).collect();
    let divided = [
        PostOp::Add(Operand::Columns(&columns)),
        PostOp::Divide(Operand::Columns(&divisors)),
        PostOp::Divide(Operand::Number(0.7)),
        PostOp::Divide(Operand::Matrix(Strided { values: &positive, stride: outputs })),
        PostOp::Apply(Unary::Tanh {}),
    ];
    let mut quotients = run(&[]);
    for (i, row) in quotients.chunks_exact_mut(outputs).enumerate() {
        crate::gemm::apply_post_ops(&divided, i, 0, row);
    }
    assert_eq!(run(&divided), quotients);
    let quantized_by = |to: Quantizers<'_>| {
        let mut bytes = vec![0; rows * outputs];
        let output = Output::Quantized(&mut bytes, to);
        quantized.run(
            Workers { threads: Threads::single(), scratch: &ScratchPool::default() },
            operands,
            &all,
            output,
        );
        bytes
    };
    let bytes = quantized_by(Quantizers::Uniform(Quantizer::new(-1.0, 4.0, 100).unwrap()));
    let quantized = |x: &f32| ((*x + 1.0) * (99.0 / 5.0)).round_ties_even().clamp(0.0, 99.0) as u8;
    assert_eq!(bytes, expected.iter().map(quantized).collect::<Vec<u8>>());
    let limits: Vec<[f32; 4]> = (0..outputs).map(|j| [-1.0, j as f32, -1.0, j as f32]).collect();
    let parameters = ColumnQuantizers::parameters(&limits, 128).unwrap();
    let bytes = quantized_by(Quantizers::Columns(ColumnQuantizers::new(&parameters, 127.0)));
    let quantized = |(i, x): (usize, &f32)| {
        let factor = (127.0 / (f64::from((i % outputs) as u32) + 1.0)) as f32;
        ((*x + 1.0) * factor).round_ties_even().clamp(0.0, 127.0) as u8
    };
    assert_eq!(bytes, expected.iter().enumerate().map(quantized).collect::<Vec<u8>>());
}

#[test]
fn what_does_not_fit_is_refused() {
    let axis = window(8, 3, 1, 1, 1);
    let precision = Precision::F32;
    let conv = Convolution {
        batch: 1,
        axes: [Window::NONE, axis, axis],
        inputs: 8,
        outputs: 8,
        groups: 1,
        precision,
    };
    let params = QuantParams::new(0.0, 0.1).unwrap();
    let is_taken = |conv: &Convolution| QuantizedConvolution::new(conv, params).is_some();
    assert!(is_taken(&conv));
    assert!(is_taken(&Convolution { groups: 2, ..conv.clone() }));
    assert!(!is_taken(&Convolution { groups: 4, ..conv.clone() }));
    assert!(!is_taken(&Convolution { inputs: 8000, ..conv.clone() }));
    assert!(!is_taken(&Convolution { axes: [axis; 3], ..conv.clone() }));
    let padded = Window { start: -1 << 40, output: 1 << 40, ..axis };
    assert!(!is_taken(&Convolution { axes: [Window::NONE, axis, padded], ..conv }));
}

#[test]
fn zero_is_a_quantized_value() {
    assert_eq!(QuantParams::new(-12.8, 0.1).unwrap().zero_point(), 128);
    assert_eq!(QuantParams::new(0.0, 0.1).unwrap().zero_point(), 0);
    // -5.3347 and 5.293 as f16: 0 is quantized value 127.968.
    assert_eq!(QuantParams::new(-5.3359375, 10.6328125 / 255.0).unwrap().zero_point(), 128);
    for (low, scale) in
        [(-1.25, 0.1), (-1.207, 0.1), (1.0, 0.1), (-30.0, 0.1), (0.0, 0.0), (0.0, f64::NAN)]
    {
        assert_eq!(QuantParams::new(low, scale), None, "{low} {scale}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The sum of what the convolution of each input gives alone, then post-ops one by one.
    #[test]
    fn concatenated_inputs_are_added(
        (batch, outputs, channels) in (1usize..3, 1usize..70, prop::collection::vec(1usize..40, 1..4)),
        (height, width, taps) in (3usize..9, 3usize..40, 1usize..4),
        (zero, seed) in (0u8..=255, any::<u64>()),
    ) {
        let axes = [height, width].map(|size| window(size, taps, 1, 1, taps as isize / 2));
        let axes = [Window::NONE, axes[0], axes[1]];
        let conv = |inputs| {
            Convolution { batch, axes, inputs, outputs, groups: 1, precision: Precision::F32 }
        };
        let bytes = |count: usize, by: usize| -> Vec<u8> {
            (0..count).map(|i| (i * by + seed as usize % 97) as u8).collect()
        };
        let own = |(i, inputs): (usize, &usize)| {
            let conv = conv(*inputs);
            let scale = 0.1 + 0.03 * i as f64;
            let params = QuantParams::new(-f64::from(zero) * scale, scale).unwrap();
            let data = bytes(batch * conv.inside() * inputs, 37 + 2 * i);
            let filters: Vec<i8> =
                bytes(outputs * inputs * conv.taps(), 31).iter().map(|b| *b as i8).collect();
            let scales: Vec<f32> = (0..outputs).map(|j| 1e-4 * (i + j + 1) as f32).collect();
            (conv, params, data, filters, scales)
        };
        let own: Vec<_> = channels.iter().enumerate().map(own).collect();
        let rows = batch * conv(1).positions();
        let mut expected = vec![0.0f32; rows * outputs];
        for (conv, params, data, filters, scales) in &own {
            let sums = sums(conv, *params, data, filters);
            for (at, sum) in sums.iter().enumerate() {
                expected[at] = (*sum as f32).mul_add(scales[at % outputs], expected[at]);
            }
        }
        let matrix: Vec<f32> = (0..rows * outputs).map(|i| (i % 7) as f32 - 3.0).collect();
        let post_ops = [
            PostOp::Add(Operand::Matrix(Strided { values: &matrix, stride: outputs })),
            PostOp::Apply(Unary::Tanh {}),
            PostOp::Apply(Unary::Relu {}),
        ];
        for (i, row) in expected.chunks_exact_mut(outputs).enumerate() {
            crate::gemm::apply_post_ops(&post_ops, i, 0, row);
        }
        let of = |own: &(Convolution, QuantParams, _, _, _)| {
            QuantizedConvolution::new(&own.0, own.1).unwrap().in_panels()
        };
        let inputs: Vec<QuantizedConvolution> = own.iter().map(of).collect();
        for threads in [1, 3].map(Threads::new) {
            let pack = |(of, own): (&QuantizedConvolution, &(_, _, _, Vec<i8>, _))| {
                of.pack_filters(Packer::unpooled(&threads), &own.3)
            };
            let filters: Vec<PackedFilters> = inputs.iter().zip(&own).map(pack).collect();
            let operands = |(own, filters)| -> Operands<'_> {
                let (_, _, data, _, scales): &(_, _, Vec<u8>, _, Vec<f32>) = own;
                Operands { data: Data::Quantized(data), filters, scales }
            };
            let operands: Vec<Operands<'_>> = own.iter().zip(&filters).map(operands).collect();
            let concat = ConcatConvolution::new(inputs.clone());
            let workers = Workers { threads: &threads, scratch: &ScratchPool::default() };
            let mut found = vec![f32::NAN; expected.len()];
            concat.run(workers, &operands, &post_ops, Output::F32(&mut found));
            prop_assert_eq!(&found, &expected);
            let quantizer = Quantizer::new(0.0, 1.0, 256).unwrap();
            let mut found = vec![0; expected.len()];
            let to = Quantizers::Uniform(quantizer);
            concat.run(workers, &operands, &post_ops, Output::Quantized(&mut found, to));
            let expected: Vec<u8> = expected.iter().map(|x| quantizer.byte(*x)).collect();
            prop_assert_eq!(&found, &expected);
        }
    }
}
