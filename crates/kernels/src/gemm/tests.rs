mod long_sums;
mod short_rows;

use super::*;
use crate::base::num::{UnalignedF32, bf16};
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::{Packer, Workers};
use crate::math::unary::{SIXTH, Unary};
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

/// The definition: chains of fused multiply-adds, whose sums are added in order. Each has 768
/// terms, the last up to 1,152.
pub(super) fn sum_of_chains(k: usize, term: impl Fn(usize) -> (f32, f32)) -> f32 {
    let chain = |terms: std::ops::Range<usize>| {
        terms.map(&term).fold(0f32, |sum, (a, b)| a.mul_add(b, sum))
    };
    let (mut sum, mut at) = (-0.0, 0);
    while k - at > 1152 {
        sum += chain(at..at + 768);
        at += 768;
    }
    sum + chain(at..k)
}

/// The product of two matrices by the definition.
fn reference(m: usize, n: usize, k: usize, a: &[f32], b: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            c[i * n + j] = sum_of_chains(k, |p| (a[i * k + p], b(p, j)));
        }
    }
    c
}

fn multiply(m: usize, n: usize, k: usize, a: &[f32], b: Rhs<'_>, threads: &Threads) -> Vec<f32> {
    multiply_in(Precision::F32, (m, n, k), a, b, threads)
}

fn multiply_in(
    precision: Precision,
    (m, n, k): (usize, usize, usize),
    a: &[f32],
    b: Rhs<'_>,
    threads: &Threads,
) -> Vec<f32> {
    let mut c = vec![f32::NAN; m * n];
    let a = Lhs::Rows { values: a, stride: k };
    let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] };
    gemm.run(threads, &ScratchPool::default(), &mut c);
    c
}

/// The product of rows and columns wraps to 0.
#[test]
#[should_panic(expected = "C is too short")]
fn sizes_that_cannot_be_counted_are_refused() {
    let many = 1 << (usize::BITS / 2);
    let (a, b) = (Lhs::Rows { values: &[], stride: 0 }, Rhs::Panels(&[]));
    let precision = Precision::F32;
    let gemm = Gemm { m: many, n: many, k: 0, a, b, c_stride: many, precision, post_ops: &[] };
    gemm.run(Threads::single(), &ScratchPool::default(), &mut []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bit for bit: packed or not, row-major or column-major, on any number of threads.
    #[test]
    fn sums_are_chains_along_k(m in 4usize..40, n in 1usize..90, k in 0usize..70, t in 1usize..4) {
        let threads = Threads::new(t);
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let expected = reference(m, n, k, &a, |p, j| b[p * n + j]);
        let rows = Layout::Rows { stride: n };
        prop_assert_eq!(&multiply(m, n, k, &a, Rhs::Unpacked(UnalignedF32::of(&b), rows), &threads), &expected);
        let packed = Packed::new(Packer::unpooled(&threads), UnalignedF32::of(&b), rows, RhsSize { k, n }, Precision::F32);
        prop_assert_eq!(&multiply(m, n, k, &a, Rhs::Packed(&packed), &threads), &expected);
        let transposed: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
        let columns = Layout::Columns { stride: k };
        prop_assert_eq!(&multiply(m, n, k, &a, Rhs::Unpacked(UnalignedF32::of(&transposed), columns), &threads), &expected);
    }
}

/// Few rows, for which B is read unpacked or a few panels at a time, are the same chains, whatever
/// their number.
#[test]
fn few_rows_are_chains() {
    let threads = Threads::new(2);
    for m in 1..=SMALL_M_ROWS + 1 {
        for (n, k) in [
            (1, 0),
            (130, 0),
            (100, 257),
            (33, 64),
            (8, 5),
            (64, 16),
            (16, 33),
            (1037, 70),
            (83, 1152),
            (83, 1153),
            (70, 2003),
        ] {
            let (a, b) = (numbers(m * k, 3), numbers(k * n, 4));
            for layout in [Layout::Columns { stride: k }, Layout::Rows { stride: n }] {
                let at = |p: usize, j: usize| match layout {
                    Layout::Columns { stride } => b[j * stride + p],
                    Layout::Rows { stride } => b[p * stride + j],
                    Layout::Kernel { .. } => unreachable!(),
                };
                let expected = reference(m, n, k, &a, at);
                let found =
                    multiply(m, n, k, &a, Rhs::Unpacked(UnalignedF32::of(&b), layout), &threads);
                assert_eq!(found, expected, "{m} {n} {k} {layout:?}");
                let (to, size) = (Packer::unpooled(&threads), RhsSize { k, n });
                let packed = Packed::new(to, UnalignedF32::of(&b), layout, size, Precision::F32);
                for threads in [Threads::single(), &threads] {
                    let found = multiply(m, n, k, &a, Rhs::Packed(&packed), threads);
                    assert_eq!(found, expected, "{m} {n} {k} {layout:?}, packed");
                }
            }
        }
    }
}

fn to_bf16(x: f32) -> f32 {
    flushed(bf16::from_f32(x).to_f32())
}

/// Subnormals are 0.
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

/// As VDPBF16PS does it: in each pair, the second product first.
fn sum_of_pairs(terms: &[(f32, f32)]) -> f32 {
    let products = terms.chunks(2).flat_map(|pair| pair.iter().rev());
    products.fold(0.0, |sum, (a, b)| flushed(a.mul_add(*b, sum)))
}

/// As TDPBF16PS does it: of 32 elements along k, the even and the odd ones separately.
fn sum_of_tiles(terms: &[(f32, f32)]) -> f32 {
    sum_of_steps(terms, 32)
}

/// The same with `step` elements at a time.
fn sum_of_steps(terms: &[(f32, f32)], step: usize) -> f32 {
    let mut sum = 0.0;
    for block in terms.chunks(step) {
        let mut halves = [0f32; 2];
        for (i, (a, b)) in block.iter().enumerate() {
            halves[i % 2] = flushed(a.mul_add(*b, halves[i % 2]));
        }
        sum = flushed(sum + flushed(halves[0] + halves[1]));
    }
    sum
}

/// The definition of the instruction that the CPU has.
fn bf16_reference(m: usize, n: usize, k: usize, a: &[f32], b: &[f32]) -> Vec<f32> {
    let sum = if Precision::Bf16.has_tiles() { sum_of_tiles } else { sum_of_pairs };
    let term = |p: usize, c: usize| (to_bf16(a[c / n * k + p]), to_bf16(b[p * n + c % n]));
    (0..m * n).map(|c| sum(&(0..k).map(|p| term(p, c)).collect::<Vec<_>>())).collect()
}

/// Products and sums near the least normal number.
#[test]
fn bf16_products_below_the_normal_numbers_are_0() {
    let (m, n, k, threads) = (37, 45, 131, Threads::new(2));
    let tiny = |seed| {
        let factor = |x: f32| f32::exp2((x.to_bits() >> 12 & 15) as f32 - 72.0);
        // The first rows of A are smaller still, so that their sums are 0 on any CPU.
        let row = |i: usize| if i < m * k / 2 { 2f32.powi(-14) } else { 1.0 };
        let numbers = numbers(m * k.max(n) * 4, seed);
        numbers.iter().enumerate().map(|(i, x)| x * factor(*x) * row(i)).collect::<Vec<_>>()
    };
    let (a, b) = (tiny(1), tiny(2));
    let right = Rhs::Unpacked(UnalignedF32::of(&b), Layout::Rows { stride: n });
    let found = multiply_in(Precision::Bf16, (m, n, k), &a, right, &threads);
    let expected = bf16_reference(m, n, k, &a, &b);
    assert!(expected.contains(&0.0) && expected.iter().any(|x| *x != 0.0));
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bit for bit, and no further from the exact result than two roundings of 2⁻⁸ and k of 2⁻²⁴.
    #[test]
    fn bf16_sums_are_chains_along_k(m in 1usize..40, n in 1usize..90, k in 0usize..70, t in 1usize..4) {
        let threads = Threads::new(t);
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let expected = bf16_reference(m, n, k, &a, &b);
        let rows = Layout::Rows { stride: n };
        let of = |b: Rhs<'_>| multiply_in(Precision::Bf16, (m, n, k), &a, b, &threads);
        prop_assert_eq!(&of(Rhs::Unpacked(UnalignedF32::of(&b), rows)), &expected);
        let packed = Packed::new(Packer::unpooled(&threads), UnalignedF32::of(&b), rows, RhsSize { k, n }, Precision::Bf16);
        prop_assert_eq!(&of(Rhs::Packed(&packed)), &expected);
        let transposed: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
        let columns = Layout::Columns { stride: k };
        prop_assert_eq!(&of(Rhs::Unpacked(UnalignedF32::of(&transposed), columns)), &expected);
        for (c, found) in expected.iter().enumerate() {
            let terms = (0..k).map(|p| f64::from(a[c / n * k + p]) * f64::from(b[p * n + c % n]));
            let (exact, size) = terms.fold((0.0, 0.0), |(s, t), x| (s + x, t + x.abs()));
            let bound = ((1.0 + 2f64.powi(-8)).powi(2) * (1.0 + 2f64.powi(-24)).powi(k as i32) - 1.0) * size;
            prop_assert!((f64::from(*found) - exact).abs() <= bound, "{found} {exact} {bound}");
        }
    }
}

/// On a thread of its own, which has no scratch from earlier GEMMs.
#[test]
fn bf16_gemms_without_k_are_0() {
    let gemm = || {
        let b = Rhs::Unpacked(&[], Layout::Rows { stride: 5 });
        multiply_in(Precision::Bf16, (40, 5, 0), &[], b, Threads::single())
    };
    assert_eq!(std::thread::spawn(gemm).join().unwrap(), [0.0; 40 * 5]);
}

/// A convolution of a batch of two images.
struct ConvCase {
    channels: usize,
    /// Width and height of the kernel.
    taps: usize,
    stride: usize,
    /// Between the lines of a window.
    dilation: usize,
    /// Width and height of the output.
    width: usize,
    height: usize,
}

impl ConvCase {
    const BATCH: usize = 2;

    fn axes(&self) -> [Window; 3] {
        let (taps, stride) = (self.taps, self.stride);
        let axis = |output: usize, dilation: usize| {
            let reach = (output - 1) * stride + (taps - 1) * dilation + 1;
            let (input, start) = (reach - taps / 2 - 1 + taps % 2, -((taps / 2) as isize));
            Window { input, output, taps, stride, dilation, start }
        };
        [Window::NONE, axis(self.height, self.dilation), axis(self.width, 1)]
    }

    /// Positions of an input image.
    fn positions(&self) -> usize {
        self.axes().iter().map(|axis| axis.input).product()
    }

    fn gemm_size(&self, n: usize) -> GemmSize {
        let m = ConvCase::BATCH * self.width * self.height;
        GemmSize { m, n, k: self.taps * self.taps * self.channels }
    }

    /// The input under element `p` of the window of output `row`, if it is within.
    fn element(&self, a: &[f32], row: usize, p: usize) -> Option<f32> {
        let [_, down, across] = self.axes();
        let (image, place) = (row / (self.width * self.height), row % (self.width * self.height));
        let (tap, channel) = (p / self.channels, p % self.channels);
        let line = down.position(place / self.width, tap / self.taps)?;
        let at = line * across.input + across.position(place % self.width, tap % self.taps)?;
        Some(a[(image * self.positions() + at) * self.channels + channel])
    }

    /// What the GEMM of these windows adds, in the order of the instruction set.
    fn sum(&self, windows: &Im2col<'_>, terms: &[(f32, f32)]) -> f32 {
        if !Precision::Bf16.has_tiles() {
            return sum_of_pairs(terms);
        }
        #[cfg(target_arch = "x86_64")]
        if amx::windows::suits(windows, 1) {
            let run = self.taps * self.channels;
            return sum_of_steps(terms, run / run.div_ceil(32));
        }
        let _ = windows;
        sum_of_tiles(terms)
    }

    fn check(&self, threads: &Threads) {
        let ConvCase { channels, taps, stride, .. } = *self;
        let size = self.gemm_size(40);
        let GemmSize { n, k, .. } = size;
        let a = numbers(ConvCase::BATCH * self.positions() * channels, 3);
        let (b, zeros) = (numbers(k * n, 4), vec![0.0; channels]);
        let strides = InputStrides::channels_last(self.positions(), channels);
        let axes = self.axes();
        let windows = Im2col { input: &a, axes, strides, channels: 0..channels, zeros: &zeros };
        let expected = |row: usize, column: usize| {
            let term = |p: usize| {
                let element = self.element(&a, row, p).unwrap_or(0.0);
                (to_bf16(element), to_bf16(b[p * n + column]))
            };
            self.sum(&windows, &(0..k).map(term).collect::<Vec<_>>())
        };
        let (to, layout) = (Packer::unpooled(threads), Layout::Rows { stride: n });
        let b = UnalignedF32::of(&b);
        let packed = Packed::new(to, b, layout, RhsSize { k, n }, Precision::Bf16);
        for threads in [Threads::single(), threads] {
            let c = bf16_product(size, Lhs::Im2col(&windows), &packed, threads);
            for (i, found) in c.iter().enumerate() {
                assert_eq!(*found, expected(i / n, i % n), "{channels} {taps} {stride}: {i}");
            }
            if Precision::Bf16.keeps_pairs() {
                let halves = halves(windows.input);
                let windows = Im2col {
                    input: pairs(&halves).unwrap(),
                    strides: InputStrides::channels_last(self.positions(), channels / 2),
                    channels: 0..channels / 2,
                    ..windows
                };
                let a = Lhs::Bf16(&Lhs::Im2col(&windows));
                let again = bf16_product(size, a, &packed, threads);
                assert_eq!(again, c, "{channels} {taps} {stride}");
            }
        }
    }
}

fn bf16_product(size: GemmSize, a: Lhs<'_>, b: &Packed, threads: &Threads) -> Vec<f32> {
    let GemmSize { m, n, k } = size;
    let (b, precision) = (Rhs::Packed(b), Precision::Bf16);
    let mut c = vec![0.0; m * n];
    let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] };
    gemm.run(threads, &ScratchPool::default(), &mut c);
    c
}

/// Windows of every kind that AMX tiles read in place, and some of other kinds, against the
/// definition of a convolution.
#[test]
fn bf16_convolutions_are_chains_along_k() {
    let threads = Threads::new(3);
    for [channels, taps, stride, dilation, width, height] in [
        [32, 3, 1, 1, 14, 5],
        [64, 3, 2, 1, 28, 3],
        [32, 1, 1, 2, 12, 6],
        [4, 7, 2, 1, 30, 4],
        [16, 3, 1, 3, 45, 3],
        [96, 3, 1, 1, 7, 7],
        [10, 3, 1, 1, 31, 3],
        [2, 2, 2, 1, 16, 2],
    ] {
        ConvCase { channels, taps, stride, dilation, width, height }.check(&threads);
    }
}

/// Converted as a GEMM converts its operands.
fn halves(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|x| bf16::from_f32(to_bf16(*x))).collect()
}

/// If A is already bf16, and if C is bf16, nothing else changes.
#[test]
fn operands_and_results_may_be_bf16() {
    let precision = Precision::Bf16;
    if !precision.keeps_pairs() {
        return;
    }
    for (m, n, k) in [(1, 2, 2), (5, 24, 34), (40, 100, 64), (67, 34, 130)] {
        let (threads, scratch) = (Threads::new(2), ScratchPool::default());
        let (a, b, bias) = (numbers(m * k, 1), numbers(k * n, 2), numbers(n, 3));
        let more = numbers(m * n, 4);
        let post_ops = [
            PostOp::Add(Operand::Columns(&bias)),
            PostOp::Add(Operand::Matrix(Strided { values: &more, stride: n })),
            PostOp::Apply(Unary::Relu {}),
        ];
        let b = Rhs::Unpacked(UnalignedF32::of(&b), Layout::Rows { stride: n });
        let rows = Lhs::Rows { values: &a, stride: k };
        let gemm = Gemm { m, n, k, a: rows, b, c_stride: n, precision, post_ops: &post_ops };
        let mut expected = vec![f32::NAN; m * n];
        gemm.run(&threads, &scratch, &mut expected);
        let bf16_a = halves(&a);
        let rows = Lhs::Rows { values: pairs(&bf16_a).unwrap(), stride: k / 2 };
        let gemm = Gemm { a: Lhs::Bf16(&rows), ..gemm };
        let mut found = vec![f32::NAN; m * n];
        gemm.run(&threads, &scratch, &mut found);
        assert_eq!(found, expected);
        let mut found = vec![bf16::NAN; m * n];
        gemm.run_to(&threads, &scratch, Target::Bf16(&mut found));
        assert_eq!(found, halves(&expected));
    }
}

#[test]
fn steps_see_rows_and_columns() {
    let (m, n, k) = (5, 40, 3);
    let (a, b) = (numbers(m * k, 7), numbers(k * n, 8));
    let (bias, residual) = (numbers(n, 9), numbers(m * n, 10));
    let post_ops = [
        PostOp::Add(Operand::Columns(&bias)),
        PostOp::Apply(Unary::Relu {}),
        PostOp::Add(Operand::Matrix(Strided { values: &residual, stride: n })),
    ];
    let b_right = Rhs::Unpacked(UnalignedF32::of(&b), Layout::Rows { stride: n });
    let left = Lhs::Rows { values: &a, stride: k };
    let precision = Precision::F32;
    let p = Gemm { m, n, k, a: left, b: b_right, c_stride: n, precision, post_ops: &post_ops };
    let mut c = vec![0.0; m * n];
    p.run(&Threads::new(2), &ScratchPool::default(), &mut c);
    let plain = reference(m, n, k, &a, |p, j| b[p * n + j]);
    for (i, c) in c.iter().enumerate() {
        assert_eq!(*c, (plain[i] + bias[i % n]).max(0.0) + residual[i]);
    }
}

/// Post-ops in registers give the same bits as the same post-ops one after the other.
#[test]
fn steps_in_registers_are_the_steps() {
    let threads = Threads::new(2);
    for (m, n, k) in [(31, 70, 5), (14, 32, 9), (29, 16, 4), (23, 8, 6), (3, 1, 2)] {
        let (mut a, b) = (numbers(m * k, 11), numbers(k * n, 12));
        (a[0], a[k], a[2 * k]) = (f32::NAN, f32::INFINITY, -0.0);
        let (bias, residual) = (numbers(n, 13), numbers(m * n, 14));
        let (rows, precision) = (Layout::Rows { stride: n }, Precision::F32);
        let packed = Packed::new(
            Packer::unpooled(&threads),
            UnalignedF32::of(&b),
            rows,
            RhsSize { k, n },
            precision,
        );
        let plain = multiply(m, n, k, &a, Rhs::Packed(&packed), &threads);
        let (add, matrix) = (
            PostOp::Add(Operand::Columns(&bias)),
            PostOp::Add(Operand::Matrix(Strided { values: &residual, stride: n })),
        );
        let (relu, clamp) = (Unary::Relu {}, Unary::Clamp { low: -0.25, high: 0.5 });
        let leaky = |alpha: f64| PostOp::Apply(Unary::LeakyRelu { alpha });
        for post_ops in [
            &[add][..],
            &[matrix],
            &[add, matrix, PostOp::Apply(relu)],
            &[matrix, add, PostOp::Apply(clamp)],
            &[PostOp::Apply(clamp), PostOp::Multiply(Operand::Number(2.0))],
            &[add, PostOp::Apply(Unary::HSwish { factor: SIXTH })],
            &[leaky(0.1)],
            &[leaky(1.0), add],
            // Infinity times 0 is NaN; alpha above 1 needs another formula.
            &[leaky(0.0)],
            &[leaky(-0.5)],
            &[add, leaky(2.0)],
            &[add, PostOp::Apply(relu), matrix],
        ] {
            let left = Lhs::Rows { values: &a, stride: k };
            let b = Rhs::Packed(&packed);
            let mut c = vec![0.0; m * n];
            Gemm { m, n, k, a: left, b, c_stride: n, precision, post_ops }.run(
                &threads,
                &ScratchPool::default(),
                &mut c,
            );
            let mut expected = plain.clone();
            for (i, row) in expected.chunks_mut(n).enumerate() {
                apply_post_ops(post_ops, i, 0, row);
            }
            let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&c), bits(&expected), "{m} {n} {k} {post_ops:?}");
        }
    }
}

#[test]
fn factors_multiply_the_columns_of_a() {
    let (m, n, k, rows) = (30, 20, 7, 10);
    let (a, b, factors) = (numbers(m * k, 15), numbers(k * n, 16), numbers(m / rows * k, 17));
    let scaled: Vec<f32> =
        a.iter().enumerate().map(|(i, x)| x * factors[i / (rows * k) * k + i % k]).collect();
    let expected = reference(m, n, k, &scaled, |p, j| b[p * n + j]);
    let left = Lhs::Scaled { values: &a, stride: k, factors: &factors, rows };
    let right = Rhs::Unpacked(UnalignedF32::of(&b), Layout::Rows { stride: n });
    let mut c = vec![0.0; m * n];
    let precision = Precision::F32;
    Gemm { m, n, k, a: left, b: right, c_stride: n, precision, post_ops: &[] }.run(
        &Threads::new(2),
        &ScratchPool::default(),
        &mut c,
    );
    assert_eq!(c, expected);
}

#[test]
fn gemms_without_columns_need_no_memory() {
    let (a, layout) = (numbers(40, 1), Layout::Rows { stride: 0 });
    let (left, right) = (Lhs::Rows { values: &a, stride: 8 }, Rhs::Unpacked(&[], layout));
    for precision in [Precision::F32, Precision::Bf16] {
        let gemm =
            Gemm { m: 5, n: 0, k: 8, a: left, b: right, c_stride: 0, precision, post_ops: &[] };
        assert_eq!(gemm.scratch_len(), 0);
        gemm.run(&Threads::new(2), &ScratchPool::default(), &mut []);
        gemm.run_alone(&mut [], &mut []);
    }
}

/// Grouped GEMMs of few rows, packed and unpacked, give what each gives alone.
#[test]
fn grouped_gemms_equal_single_gemms() {
    let threads = Threads::new(3);
    for (m, k) in [(1, 200), (3, 130), (2, 0)] {
        let a = numbers(m * k, 18);
        let widths = [70, 32, 5, 300, 70];
        let matrices = widths.map(|n| numbers(k * n, 20));
        let bias = numbers(300, 19);
        let post_ops = [PostOp::Add(Operand::Columns(&bias))];
        let rows = |n: usize| Layout::Rows { stride: n };
        let packed: Vec<Packed> = widths
            .iter()
            .zip(&matrices)
            .map(|(&n, b)| {
                Packed::new(
                    Packer::unpooled(&threads),
                    UnalignedF32::of(b),
                    rows(n),
                    RhsSize { k, n },
                    Precision::F32,
                )
            })
            .collect();
        let gemm = |i: usize| Gemm {
            m,
            n: widths[i],
            k,
            a: Lhs::Rows { values: &a, stride: k },
            b: match i % 2 {
                0 => Rhs::Packed(&packed[i]),
                _ => Rhs::Unpacked(UnalignedF32::of(&matrices[i]), rows(widths[i])),
            },
            c_stride: widths[i],
            precision: Precision::F32,
            post_ops: &post_ops,
        };
        let mut outputs = widths.map(|n| vec![f32::NAN; m * n]);
        let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(|c| &mut c[..]).collect();
        // The last is multiplied by the first, which has equally many columns.
        let member = |i: usize| GroupedGemm { gemm: gemm(i), factor: (i == 4).then_some(0) };
        run_grouped(
            Workers { threads: &threads, scratch: &ScratchPool::default() },
            &[0, 1, 2, 3, 4].map(member),
            &mut slices,
        );
        for (i, found) in outputs.iter().enumerate() {
            let plain = reference(m, widths[i], k, &a, |p, j| matrices[i][p * widths[i] + j]);
            for (at, (found, sum)) in found.iter().zip(plain).enumerate() {
                let factor = if i == 4 { outputs[0][at] } else { 1.0 };
                let expected = (sum + bias[at % widths[i]]) * factor;
                assert_eq!(*found, expected, "{m} {k} {i}");
            }
        }
    }
}
