use super::*;
use crate::base::num::{UnalignedF32, f16};
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::Packer;
use crate::gemm::tests::sum_of_chains;
use crate::gemm::{
    Compressed, CompressedPanels, GroupParams, Layout, Operand, Packed, PostOp, Precision, Rhs,
    RhsSize, WeightFormat,
};

fn numbers(len: usize, modulus: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + 13) % modulus) as f32 / 16.0 - 2.0).collect()
}

/// A matrix as it is stored, and its dequantized elements.
struct Matrix {
    bytes: Vec<u8>,
    scales: Vec<f32>,
    zeros: Vec<f32>,
    values: Vec<f32>,
}

const FORMATS: [WeightFormat; 5] =
    [WeightFormat::F16, WeightFormat::U8, WeightFormat::I8, WeightFormat::U4, WeightFormat::I4];

fn matrix(format: WeightFormat, by_rows: bool, RhsSize { k, n }: RhsSize, group: usize) -> Matrix {
    let groups = k / group;
    // Products with scales of f32 are rounded, those with scales of f16 are exact.
    let scale = |i: usize| 0.013 + (i % 11) as f32 * 0.003;
    let to_f16 = |x: f32| if by_rows { f16::from_f32(x).to_f32() } else { x };
    let scales: Vec<f32> = (0..n * groups).map(|i| to_f16(scale(i))).collect();
    let integer = |i: usize| ((i * 2_654_435_761) >> 7) as u8;
    let value = |byte: u8| match format {
        WeightFormat::U8 => f32::from(byte),
        WeightFormat::I8 => f32::from(byte as i8),
        WeightFormat::U4 => f32::from(byte & 15),
        _ => f32::from((byte << 4) as i8 >> 4),
    };
    let zeros: Vec<f32> = (0..n * groups).map(|i| value(integer(i + 77))).collect();
    let at = |p: usize, j: usize| if by_rows { p * n + j } else { j * k + p };
    let half = |i: usize| f16::from_f32((i % 37) as f32 * 0.37 - 5.0);
    let mut values = vec![0.0; k * n];
    for (p, j) in (0..k).flat_map(|p| (0..n).map(move |j| (p, j))) {
        let factor = j * groups + p / group;
        values[p * n + j] = match format {
            WeightFormat::F16 => half(at(p, j)).to_f32(),
            _ => (value(integer(at(p, j))) - zeros[factor]) * scales[factor],
        };
    }
    let bytes = match format {
        WeightFormat::F16 => (0..k * n).flat_map(|i| half(i).to_bits().to_le_bytes()).collect(),
        WeightFormat::U8 | WeightFormat::I8 => (0..k * n).map(integer).collect(),
        _ => (0..k * n / 2).map(|i| integer(2 * i) & 15 | integer(2 * i + 1) << 4).collect(),
    };
    Matrix { bytes, scales, zeros, values }
}

impl Matrix {
    fn stored(
        &self,
        format: WeightFormat,
        by_rows: bool,
        size: RhsSize,
        group: usize,
    ) -> Compressed<'_> {
        let groups = size.k / group;
        let factors = |values| GroupParams { values, column: groups, group: 1 };
        let (scales, zeros) = (factors(&self.scales), Some(factors(&self.zeros)));
        Compressed { bytes: &self.bytes, format, by_rows, size, group, scales, zeros }
    }
}

/// Bit for bit the GEMM of the dequantized elements, for few rows and many, packed or not.
#[test]
fn compressed_sums_are_chains_along_k() {
    let threads = Threads::new(2);
    let cases = [
        (1, 70, 128, 32),
        (3, 32, 64, 64),
        (4, 16, 66, 66),
        (7, 98, 192, 64),
        (40, 70, 128, 32),
        (2, 8, 0, 2),
        (1, 600, 320, 64),
        // Blocks along k begin with a group, or within one.
        (1, 70, 2304, 128),
        (3, 34, 2000, 2000),
        (7, 40, 2000, 200),
        (40, 34, 2304, 576),
    ];
    for ((m, n, k, group), format) in cases.into_iter().flat_map(|case| FORMATS.map(|c| (case, c)))
    {
        for by_rows in [false, true] {
            let of = matrix(format, by_rows, RhsSize { k, n }, group);
            let stored = of.stored(format, by_rows, RhsSize { k, n }, group);
            let panels = CompressedPanels::new(Packer::unpooled(&threads), &stored);
            let to = Packer::unpooled(&threads);
            let packed = Packed::decompressed(to, &stored, Precision::F32);
            let (a, bias) = (numbers(m * k, 101), numbers(n, 53));
            let post_ops = [PostOp::Add(Operand::Columns(&bias))];
            let rights =
                [Rhs::Compressed(stored), Rhs::CompressedPanels(&panels), Rhs::Packed(&packed)];
            for b in rights {
                let a_rows = Lhs::Rows { values: &a, stride: k };
                let precision = Precision::F32;
                let gemm =
                    Gemm { m, n, k, a: a_rows, b, c_stride: n, precision, post_ops: &post_ops };
                let mut c = vec![f32::NAN; m * n];
                gemm.run(&threads, &ScratchPool::default(), &mut c);
                for (at, found) in c.iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let term = |p: usize| (a[i * k + p], of.values[p * n + j]);
                    let expected = sum_of_chains(k, term) + bias[j];
                    assert_eq!(*found, expected, "{format:?} {by_rows} {m} {n} {k} at {i} {j}");
                }
            }
        }
    }
}

/// Asserts that a GEMM in bf16 is bit for bit that of the dequantized elements converted to bf16.
fn bf16_agrees((m, n, k, group): (usize, usize, usize, usize), format: WeightFormat) {
    let (by_rows, precision) = (m == 40, Precision::Bf16);
    let of = matrix(format, by_rows, RhsSize { k, n }, group);
    let stored = of.stored(format, by_rows, RhsSize { k, n }, group);
    let a = numbers(m * k, 101);
    let run = |b: Rhs<'_>, threads: &Threads| {
        let a = Lhs::Rows { values: &a, stride: k };
        let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] };
        let mut c = vec![f32::NAN; m * n];
        gemm.run(threads, &ScratchPool::default(), &mut c);
        c
    };
    let values = UnalignedF32::of(&of.values);
    let expected = run(Rhs::Unpacked(values, Layout::Rows { stride: n }), Threads::single());
    for threads in [Threads::new(1), Threads::new(3)] {
        let to = Packer::unpooled(&threads);
        let panels = CompressedPanels::new(to, &stored);
        let packed = Packed::decompressed(to, &stored, precision);
        for b in [Rhs::Compressed(stored), Rhs::CompressedPanels(&panels), Rhs::Packed(&packed)] {
            assert!(run(b, &threads) == expected, "{format:?} {m} {n} {k}");
        }
    }
}

#[test]
fn compressed_gemms_can_be_bf16() {
    for case in [(1, 70, 128, 32), (9, 34, 66, 66), (40, 70, 128, 32)] {
        FORMATS.into_iter().for_each(|format| bf16_agrees(case, format));
    }
}

/// More rows than a tile of AMX has of packed panels.
#[test]
fn compressed_gemms_of_many_rows_can_be_bf16() {
    FORMATS.into_iter().for_each(|format| bf16_agrees((280, 34, 1280, 64), format));
}

/// With odd k, the last row of 4-bit elements has no partner.
#[test]
fn rows_of_nibbles_can_be_odd() {
    let (n, k) = (34, 7);
    let of = matrix(WeightFormat::U4, true, RhsSize { k, n }, k);
    let stored = of.stored(WeightFormat::U4, true, RhsSize { k, n }, k);
    let a = numbers(k, 41);
    let a_rows = Lhs::Rows { values: &a, stride: k };
    let b = Rhs::Compressed(stored);
    let (m, precision) = (1, Precision::F32);
    let gemm = Gemm { m, n, k, a: a_rows, b, c_stride: n, precision, post_ops: &[] };
    let mut c = vec![f32::NAN; n];
    gemm.run(&Threads::new(1), &ScratchPool::default(), &mut c);
    for (j, found) in c.iter().enumerate() {
        let expected = sum_of_chains(k, |p| (a[p], of.values[p * n + j]));
        assert_eq!(*found, expected, "column {j}");
    }
}
