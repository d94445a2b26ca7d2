use super::*;
use crate::base::workers::Packer;
use crate::gemm::{
    Compressed, GroupParams, Operand, PostOp, Precision, Rhs, RhsSize, WeightFormat,
};

const FORMATS: [WeightFormat; 4] =
    [WeightFormat::U8, WeightFormat::I8, WeightFormat::U4, WeightFormat::I4];

/// Integers in the range of a format.
fn integers(format: WeightFormat, count: usize, seed: u64) -> Vec<i32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as i32
    };
    let (low, count_of) = match format {
        WeightFormat::I8 => (-128, 256),
        WeightFormat::U4 => (0, 16),
        WeightFormat::I4 => (-8, 16),
        _ => (0, 256),
    };
    (0..count).map(|_| low + next().rem_euclid(count_of)).collect()
}

/// `integers` as they are stored.
fn stored(format: WeightFormat, values: &[i32]) -> Vec<u8> {
    match format {
        WeightFormat::U4 | WeightFormat::I4 => {
            let nibble = |i: i32| (i & 15) as u8;
            values.chunks(2).map(|pair| nibble(pair[0]) | nibble(pair[1]) << 4).collect()
        }
        _ => values.iter().map(|i| *i as u8).collect(),
    }
}

fn reals(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + 13) % 101) as f32 / 16.0 - 3.0).collect()
}

/// A group as the module documentation quantizes it: its integers, and their scale.
fn quantized(group: &[f32]) -> (Vec<i32>, f32) {
    let largest = group.iter().fold(0f32, |most, x| most.max(x.abs()));
    let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    let integer = |x: &f32| (x * inverse).round_ties_even() as i32;
    (group.iter().map(integer).collect(), largest / 127.0)
}

/// A GEMM by the definition, bit for bit: integers within groups, then f32 in order.
struct Case {
    m: usize,
    n: usize,
    k: usize,
    group: usize,
    weights: Vec<i32>,
    zeros: Vec<f32>,
    scales: Vec<f32>,
    a: Vec<f32>,
}

impl Case {
    fn new(format: WeightFormat, (m, n, k, group): (usize, usize, usize, usize)) -> Case {
        let groups = n * k / group;
        Case {
            m,
            n,
            k,
            group,
            weights: integers(format, n * k, 3),
            zeros: integers(format, groups, 5).iter().map(|z| *z as f32).collect(),
            scales: (0..groups).map(|i| 0.013 + (i % 11) as f32 * 0.003).collect(),
            a: reals(m * k),
        }
    }

    /// The element of a row and a column. Signed weights and their zero points are moved up by
    /// `base`.
    fn element(&self, i: usize, j: usize, base: i32) -> f32 {
        let (groups, mut sum) = (self.k / self.group, 0f32);
        for group in 0..groups {
            let (mut of_group, mut total) = (0f32, 0f32);
            for first in (group * self.group..(group + 1) * self.group).step_by(GROUP) {
                let (q, scale) = quantized(&self.a[i * self.k + first..][..GROUP]);
                let weights = &self.weights[j * self.k + first..][..GROUP];
                let dot: i32 = q.iter().zip(weights).map(|(q, w)| q * (w + base)).sum();
                of_group = (dot as f32).mul_add(scale, of_group);
                total += scale * q.iter().sum::<i32>() as f32;
            }
            let at = j * groups + group;
            let shifted = (self.zeros[at] + base as f32).mul_add(-total, of_group);
            sum = shifted.mul_add(self.scales[at], sum);
        }
        sum
    }

    /// The element without quantization of A, and the bound of the error.
    fn exact(&self, i: usize, j: usize) -> (f64, f64) {
        let (groups, mut sum, mut error) = (self.k / self.group, 0f64, 0f64);
        for first in (0..self.k).step_by(GROUP) {
            let row = &self.a[i * self.k + first..][..GROUP];
            let largest = row.iter().fold(0f64, |most, x| most.max(f64::from(x.abs())));
            let at = j * groups + first / self.group;
            for (term, x) in (first..).zip(row) {
                let weight = f64::from(self.weights[j * self.k + term]) - f64::from(self.zeros[at]);
                let weight = weight * f64::from(self.scales[at]);
                sum += f64::from(*x) * weight;
                error += largest / 254.0 * weight.abs();
            }
        }
        (sum, error)
    }

    fn run(&self, format: WeightFormat, by_rows: bool) -> Vec<f32> {
        let Case { m, n, k, group, .. } = *self;
        let transposed: Vec<i32> = (0..k * n).map(|i| self.weights[i % n * k + i / n]).collect();
        let bytes = stored(format, if by_rows { &transposed } else { &self.weights });
        let factors = |values| GroupParams { values, column: k / group, group: 1 };
        let (scales, zeros) = (factors(&self.scales), Some(factors(&self.zeros)));
        let matrix = Compressed {
            bytes: &bytes,
            format,
            by_rows,
            size: RhsSize { k, n },
            group,
            scales,
            zeros,
        };
        let threads = Threads::new(2);
        let panels = DynamicPanels::new(Packer::unpooled(&threads), &matrix);
        let bias: Vec<f32> = reals(n);
        let post_ops = [PostOp::Add(Operand::Columns(&bias))];
        let a = Lhs::Rows { values: &self.a, stride: k };
        let b = Rhs::Dynamic(&panels);
        let precision = Precision::F32;
        let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &post_ops };
        let mut c = vec![f32::NAN; m * n];
        gemm.run(&threads, &ScratchPool::default(), &mut c);
        for (c, bias) in c.iter_mut().zip(bias.iter().cycle()) {
            *c -= bias;
        }
        c
    }
}

/// Every format in both orders; few rows, and enough that 4 bits are widened; columns that do not
/// fill a panel; a group as long as the column. The bias is added and subtracted again, so the bits
/// of small sums may differ by its own.
#[test]
fn gemms_follow_the_definition() {
    let sizes = [
        (1, 70, 128, 32),
        (2, 5, 64, 64),
        (3, 34, 64, 32),
        (14, 40, 128, 64),
        (9, 33, 96, 96),
        (33, 7, 64, 32),
        (40, 70, 256, 128),
        (0, 3, 32, 32),
    ];
    for (size, format) in sizes.into_iter().flat_map(|size| FORMATS.map(|f| (size, f))) {
        let case = Case::new(format, size);
        let base = match format {
            WeightFormat::I8 => 128,
            WeightFormat::I4 => 8,
            _ => 0,
        };
        for by_rows in [false, true].into_iter().filter(|rows| !rows || case.n.is_multiple_of(2)) {
            let c = case.run(format, by_rows);
            let bias = reals(case.n);
            for (at, found) in c.iter().enumerate() {
                let (i, j) = (at / case.n, at % case.n);
                let expected = case.element(i, j, base) + bias[j] - bias[j];
                assert_eq!(*found, expected, "{format:?} {by_rows} {size:?} at {i} {j}");
                let (exact, error) = case.exact(i, j);
                let rounding = 1e-5 * (error * 254.0 + exact.abs());
                let wrong = (f64::from(*found) - exact).abs();
                assert!(wrong <= error + rounding, "{wrong} > {error} {size:?} at {i} {j}");
            }
        }
    }
}

#[test]
fn zeros_tiny_numbers_and_infinities_have_a_meaning() {
    let mut case = Case::new(WeightFormat::U8, (5, 3, 64, 64));
    case.a[..64].fill(0.0);
    case.a[64..128].fill(f32::from_bits(1));
    case.a[130] = f32::INFINITY;
    case.a[200] = f32::NAN;
    let c = case.run(WeightFormat::U8, false);
    assert!(c[..6].iter().all(|x| *x == 0.0), "{c:?}");
    assert!(c[6..12].iter().all(|x| x.is_nan()), "{c:?}");
    assert!(c[12..].iter().all(|x| x.is_finite()), "{c:?}");
}
