//! Normalisation: elements minus their mean, divided by a measure of their size. Means are computed
//! first, then the squares of the differences, in f32 or f64.

use crate::base::num::UnalignedF32;
use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::simd::{TRANSPOSE_DIM, opaque_index, opaque_ref, transpose_16x16};
use crate::base::slices::{Block, GRAIN, LANES, LONG_ROW, Lanes, Slices, each, met};
use crate::gemm::{PostOp, apply_post_ops, apply_to_rows};
use crate::math::real::{Real, StoredReal};
use crate::multiversion;
use crate::nn::norm::long_rows::{Affine, LongRows};
use crate::nn::norm::normalization::MeanScale;
pub use crate::nn::norm::normalization::{Divisor, Normalization};
use bytemuck::cast_slice;

/// Normalises every slice.
pub fn normalize<T: StoredReal>(
    threads: &Threads,
    slices: &Slices,
    normalization: Normalization,
    io: &mut InOut<'_, T>,
) {
    let long = slices.rows().and_then(|(rows, columns)| LongRows::new(rows, columns));
    if let (Some(rows), Some(io)) = (long, io.as_f32()) {
        return normalize_long(threads, rows, normalization, io);
    }
    slices.blocks(threads, io, |block| normalize_block(block, normalization, slices.len()));
}

/// Normalises long rows of f32.
fn normalize_long(
    threads: &Threads,
    rows: LongRows,
    normalization: Normalization,
    mut io: InOut<'_, f32>,
) {
    let all = rows.mean_scales(threads, normalization, &mut io);
    let affine = |row: usize| {
        let MeanScale { mean, scale } = all[row];
        Affine { mean, scale, shift: None }
    };
    rows.rewrite(threads, io.len() / all.len(), &affine, &io);
}

/// Normalises rows of `columns` elements, then applies `post_ops` to each.
///
/// # Panics
/// When the slice does not hold whole rows.
pub fn normalize_rows(
    threads: &Threads,
    columns: usize,
    normalization: Normalization,
    post_ops: &[PostOp<'_>],
    io: &mut InOut<'_, f32>,
) {
    let rows = io.len() / columns.max(1);
    assert_eq!(rows * columns, io.len(), "a row is not whole");
    // Longer rows are summed in parts.
    let are_short = (1..=LONG_ROW).contains(&columns);
    if are_short && columns >= LANES && normalization.divisor != Divisor::One {
        let at_once = if columns <= SHORT_ROW { ROWS_AT_ONCE } else { LONG_ROWS_AT_ONCE };
        let grain = GRAIN.div_ceil(at_once * columns);
        return threads.par_ranges(rows.div_ceil(at_once), grain, |groups| {
            for first in groups.map(|group| group * at_once) {
                let count = at_once.min(rows - first);
                // SAFETY: the rows of different groups are disjoint.
                let mut io = unsafe { io.part(first * columns..(first + count) * columns) };
                normalize_some(&mut io, columns, normalization);
                apply_to_rows(post_ops, first, columns, io.output(0..count * columns));
            }
        });
    }
    let slices = Slices::of_rows(rows, columns);
    slices.blocks(threads, io, |block| {
        normalize_block(block, normalization, columns);
        apply_post_ops(post_ops, block.place(0) / columns, 0, block.line());
    });
}

/// Rows that are normalised together, since the sums of one alone are bound by latency. Their lanes
/// are added for all rows at once.
const ROWS_AT_ONCE: usize = TRANSPOSE_DIM;

/// Rows longer than [`SHORT_ROW`] that are normalised together: they fit L1.
const LONG_ROWS_AT_ONCE: usize = 4;

/// The most elements of a short row.
const SHORT_ROW: usize = 256;

multiversion! {
    /// Normalises up to [`ROWS_AT_ONCE`] rows of at least [`LANES`] elements, with the bits of
    /// [`normalize_block`].
    fn normalize_some(io: &mut InOut<'_, f32>, columns: usize, normalization: Normalization) {
        let rows = io.len() / columns;
        let from: &[f32] = match io.slices() {
            Err(run) => run,
            Ok((from, _)) => from,
        };
        let mut all = [MeanScale { mean: 0.0, scale: 0.0 }; ROWS_AT_ONCE];
        match (rows, columns % LANES) {
            (ROWS_AT_ONCE, 0) => all = row_mean_scales::<_, false>(from, columns, normalization),
            (ROWS_AT_ONCE, _) => all = row_mean_scales::<_, true>(from, columns, normalization),
            (LONG_ROWS_AT_ONCE, 0) => {
                let some: [_; LONG_ROWS_AT_ONCE] =
                    row_mean_scales::<_, false>(from, columns, normalization);
                all[..LONG_ROWS_AT_ONCE].copy_from_slice(&some);
            }
            _ => {
                for row in 0..rows {
                    let from = &from[row * columns..];
                    [all[row]] = row_mean_scales::<1, true>(from, columns, normalization);
                }
            }
        }
        let whole = columns - columns % LANES;
        for row in 0..rows {
            let MeanScale { mean, scale } = all[row];
            let first = row * columns;
            // The last group overlaps the one before, which may be overwritten.
            let last: [f32; LANES] = io.load(first + columns - LANES);
            for at in (first..first + whole).step_by(LANES) {
                let at = opaque_index(at);
                let x: [f32; LANES] = io.load(at);
                io.store(at, each(x, |x| (x - mean) * scale));
            }
            if whole < columns {
                io.store(first + columns - LANES, each(last, |x| (x - mean) * scale));
            }
        }
    }
}

/// The means and scales of the first `R` rows. Unless `REST`, rows are whole groups of [`LANES`].
#[inline(always)]
fn row_mean_scales<const R: usize, const REST: bool>(
    from: &[f32],
    columns: usize,
    normalization: Normalization,
) -> [MeanScale; R] {
    let (count, rest) = (columns as f32, if REST { columns % LANES } else { 0 });
    let whole = columns - rest;
    // The bits of the elements in the last group of a row; the others are 0.
    let mut mask = [0u32; LANES];
    mask[..rest].fill(u32::MAX);
    let masked = |x: f32, i: usize| f32::from_bits(x.to_bits() & mask[i]);
    let mut means = [0f32; R];
    if normalization.center {
        let mut sums = [[0f32; LANES]; R];
        for at in (0..whole).step_by(LANES) {
            let at = opaque_index(at);
            for r in 0..R {
                let x = &from[r * columns + at..][..LANES];
                for i in 0..LANES {
                    sums[r][i] += x[i];
                }
            }
        }
        if rest > 0 {
            for r in 0..R {
                let x = leading(&from[r * columns + whole..]);
                for i in 0..LANES {
                    sums[r][i] += masked(x[i], i);
                }
            }
        }
        means = totals(&sums);
        for r in 0..R {
            means[r] /= count;
        }
    }
    let mut squares = [[0f32; LANES]; R];
    for at in (0..whole).step_by(LANES) {
        let at = opaque_index(at);
        for r in 0..R {
            let x = &from[r * columns + at..][..LANES];
            for i in 0..LANES {
                let d = x[i] - means[r];
                squares[r][i] += d * d;
            }
        }
    }
    if rest > 0 {
        for r in 0..R {
            let x = leading(&from[r * columns + whole..]);
            for i in 0..LANES {
                let d = masked(x[i] - means[r], i);
                squares[r][i] += d * d;
            }
        }
    }
    let mut scales = totals(&squares);
    for r in 0..R {
        scales[r] = 1.0 / normalization.divisor.of(scales[r], count);
    }
    let mut all = [MeanScale { mean: 0.0, scale: 0.0 }; R];
    for r in 0..R {
        all[r] = MeanScale { mean: means[r], scale: scales[r] };
    }
    all
}

/// The first [`LANES`] elements, as many as there are; the others are 0.
#[inline(always)]
fn leading(from: &[f32]) -> [f32; LANES] {
    if let Some(all) = from.first_chunk() {
        return *all;
    }
    let mut x = [0.0; LANES];
    x[..from.len()].copy_from_slice(from);
    x
}

/// The sum of each row's lanes, added as [`met`] does.
#[inline(always)]
fn totals<const R: usize>(lanes: &[[f32; LANES]; R]) -> [f32; R] {
    let mut totals = [0f32; R];
    let lanes = opaque_ref(lanes);
    if R != TRANSPOSE_DIM {
        for r in 0..R {
            totals[r] = met(lanes[r], |a, b| a + b)[0];
        }
        return totals;
    }
    let mut transposed = transpose_16x16(UnalignedF32::of(lanes.as_flattened()), LANES);
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            let upper = transposed[opaque_index(i + half)];
            for r in 0..TRANSPOSE_DIM {
                transposed[i][r] += upper[r];
            }
        }
        half /= 2;
    }
    totals.copy_from_slice(&transposed[0]);
    totals
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    fn normalize_block<T: StoredReal>(block: &mut Block<'_, T>, normalization: Normalization, count: usize) {
        let MeanScale { mean, scale } = mean_scale(block, normalization, count);
        match normalization.divisor {
            Divisor::One => block.map(|x, i| x - mean[i]),
            _ => block.map(|x, i| (x - mean[i]) * scale[i]),
        }
    }
}

/// The mean and scale of each lane.
#[inline(always)]
fn mean_scale<T: StoredReal>(
    block: &mut Block<'_, T>,
    normalization: Normalization,
    count: usize,
) -> MeanScale<Lanes<T::Wide>> {
    let (zero, one, count) = (T::Wide::of(0.0), T::Wide::of(1.0), T::Wide::of(count as f64));
    let mut mean = [zero; LANES];
    if normalization.center {
        mean = each(block.fold(zero, |sum, x, _| sum + x, |a, b| a + b), |sum| sum / count);
    }
    if normalization.divisor == Divisor::One {
        return MeanScale { mean, scale: [one; LANES] };
    }
    let square = |sum, x, i: usize| {
        let d = x - mean[i];
        sum + d * d
    };
    let squares = block.fold(zero, square, |a, b| a + b);
    let scale = each(squares, |sum| one / normalization.divisor.of(sum, count));
    MeanScale { mean, scale }
}

/// Divides each element by itself: 1, except for 0.
pub fn divide_by_itself<T: StoredReal>(io: &mut InOut<'_, T>) {
    for i in 0..io.len() {
        let [x]: [T; 1] = io.load(i);
        let is_zero = x.widen() == T::Wide::of(0.0);
        io.store(i, [T::from_f32(if is_zero { 0.0 } else { 1.0 })]);
    }
}

/// Channels of a tensor: `outer` times `channels` runs of `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Size of the axes before the channels.
    pub outer: usize,
    /// Number of channels.
    pub channels: usize,
    /// Size of the axes after the channels.
    pub inner: usize,
}

/// Groups of neighbouring channels that are normalised together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Number of groups.
    pub count: usize,
    /// ε, added to the variance.
    pub eps: f64,
}

/// Normalises groups of neighbouring channels, then scales and shifts each channel.
///
/// # Panics
/// When there is not one scale and one shift per channel, or a group is not whole.
pub fn normalize_groups<T: StoredReal>(
    threads: &Threads,
    Channels { outer, channels, inner }: Channels,
    groups: Groups,
    (scale, shift): (&[T], &[T]),
    io: &mut InOut<'_, T>,
) {
    assert!(scale.len() == channels && shift.len() == channels && channels % groups.count == 0);
    let size = channels / groups.count;
    let long = LongRows::new(outer * groups.count, size * inner);
    if let (Some(rows), Some(mut io)) = (long, io.as_f32()) {
        let normalization =
            Normalization { center: true, divisor: Divisor::DeviationInside(groups.eps) };
        let all = rows.mean_scales(threads, normalization, &mut io);
        let (scale, shift): (&[f32], &[f32]) = (cast_slice(scale), cast_slice(shift));
        let affine = |run: usize| {
            let MeanScale { mean, scale: factor } = all[run / size];
            let channel = run % channels;
            Affine { mean, scale: factor * scale[channel], shift: Some(shift[channel]) }
        };
        return rows.rewrite(threads, inner, &affine, &io);
    }
    let slices = Slices::of_rows(outer * groups.count, size * inner);
    slices.blocks(threads, io, |block| {
        let first = block.place(0) / inner % channels;
        let (scale, shift) = (&scale[first..first + size], &shift[first..first + size]);
        group_block(block, groups.eps, inner, scale, shift);
    });
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    fn group_block<T: StoredReal>(
        block: &mut Block<'_, T>,
        eps: f64,
        inner: usize,
        scale: &[T],
        shift: &[T],
    ) {
        let normalization = Normalization { center: true, divisor: Divisor::DeviationInside(eps) };
        let count = scale.len() * inner;
        let MeanScale { mean, scale: factor } = mean_scale(block, normalization, count);
        for (channel, (scale, shift)) in scale.iter().zip(shift).enumerate() {
            let (scale, shift) = (factor[0] * scale.widen(), shift.widen());
            block.part(channel * inner, inner).map(|x, _| (x - mean[0]) * scale + shift);
        }
    }
}

/// Statistics and parameters of each channel, for batch normalisation.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, T> {
    /// Factors of the normalised elements.
    pub gamma: &'a [T],
    /// Added after the scaling.
    pub beta: &'a [T],
    /// Means.
    pub mean: &'a [T],
    /// Variances.
    pub variance: &'a [T],
}

/// Normalises every channel by a known mean and variance.
///
/// # Panics
/// When there is not one of each number per channel.
pub fn normalize_batch<T: StoredReal>(
    threads: &Threads,
    Channels { outer, channels, inner }: Channels,
    batch: Batch<'_, T>,
    eps: f64,
    io: &mut InOut<'_, T>,
) {
    let lists = [batch.gamma, batch.beta, batch.mean, batch.variance];
    assert!(lists.iter().all(|list| list.len() == channels));
    let slices = Slices::new(&[outer * channels, inner], &[1]);
    slices.blocks(threads, io, |block| {
        let channel: [usize; LANES] = std::array::from_fn(|i| block.place(i) / inner % channels);
        let mean = each(channel, |c| batch.mean[c].widen());
        let shift = each(channel, |c| batch.beta[c].widen());
        let scale = each(channel, |c| {
            batch.gamma[c].widen() / (batch.variance[c].widen() + T::Wide::of(eps)).sqrt()
        });
        batch_block(block, mean, scale, shift);
    });
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    fn batch_block<T: StoredReal>(
        block: &mut Block<'_, T>,
        mean: Lanes<T::Wide>,
        scale: Lanes<T::Wide>,
        shift: Lanes<T::Wide>,
    ) {
        block.map(|x, i| (x - mean[i]) * scale[i] + shift[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::bf16;

    fn run(
        sizes: &[usize],
        axes: &[usize],
        normalization: Normalization,
        from: &[f32],
    ) -> Vec<f32> {
        let mut to = vec![0.0; from.len()];
        let slices = Slices::new(sizes, axes);
        normalize(&Threads::new(2), &slices, normalization, &mut InOut::separate(from, &mut to));
        to
    }

    fn values(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i * 37 % 101) as f32 * 0.25 + 1000.0).collect()
    }

    /// Mean 0 and variance 1; every slice is an affine function of its elements.
    #[test]
    fn slices_become_standard() {
        let sizes = [3, 19, 5, 4];
        let from = values(3 * 19 * 5 * 4);
        let normalization = Normalization { center: true, divisor: Divisor::DeviationInside(1e-9) };
        for axes in [&[3][..], &[1], &[2, 3], &[0, 2], &[1, 3], &[0, 1, 2, 3]] {
            let to = run(&sizes, axes, normalization, &from);
            let slices = Slices::new(&sizes, axes);
            let squares: Vec<f32> = to.iter().map(|y| y * y).collect();
            for (moment, expected) in [(to, 0.0), (squares, 1.0)] {
                let mut sums = moment.clone();
                slices.blocks(Threads::single(), &mut InOut::separate(&moment, &mut sums), |b| {
                    let sum = b.fold(0.0, |sum, x, _| sum + x, |a, b| a + b);
                    b.map(|_, i| sum[i] / slices.len() as f32);
                });
                assert!(sums.iter().all(|m| (m - expected).abs() < 1e-4), "{axes:?} {expected}");
            }
        }
    }

    #[test]
    fn rows_have_the_same_bits() {
        let sizes = [(1, 16), (4, 96), (11, 48), (6, 21), (40, 1), (1, 1), (2, 16_400)];
        let with_rest = [(37, 24), (20, 17), (19, 255), (7, 301), (4, 1000)];
        for (rows, columns) in sizes.into_iter().chain(with_rest) {
            let from = values(rows * columns);
            for center in [true, false] {
                let normalization =
                    Normalization { center, divisor: Divisor::DeviationInside(1e-5) };
                let mut to = from.clone();
                normalize_rows(
                    &Threads::new(2),
                    columns,
                    normalization,
                    &[],
                    &mut InOut::in_place(&mut to),
                );
                assert_eq!(
                    to,
                    run(&[rows, columns], &[1], normalization, &from),
                    "{rows} {columns}"
                );
            }
        }
    }

    /// Long groups have the bits of blocks, which f64 does not, so blocks are called by hand.
    #[test]
    fn long_groups_have_the_same_bits() {
        let shape = Channels { outer: 2, channels: 4, inner: 8_209 };
        let groups = Groups { count: 2, eps: 1e-3 };
        let from = values(2 * 4 * 8_209);
        let (scale, shift) = ([0.5f32, -2.0, 1.5, 0.0], [0.25f32, 1.0, -3.0, 7.0]);
        let mut blocks = from.clone();
        let slices = Slices::of_rows(4, 2 * 8_209);
        slices.blocks(Threads::single(), &mut InOut::in_place(&mut blocks), |block| {
            let first = block.place(0) / 8_209 % 4;
            let of = first..first + 2;
            group_block(block, 1e-3, 8_209, &scale[of.clone()], &shift[of]);
        });
        for threads in [1, 3] {
            let mut to = vec![f32::NAN; from.len()];
            let mut io = InOut::separate(&from, &mut to);
            normalize_groups(&Threads::new(threads), shape, groups, (&scale, &shift), &mut io);
            assert_eq!(to, blocks);
        }
    }

    #[test]
    fn nothing_is_normalised() {
        let normalization = Normalization { center: true, divisor: Divisor::DeviationInside(1e-5) };
        for (sizes, axes) in [([0, 9_000], &[1][..]), ([3, 0], &[1]), ([3, 0], &[0, 1])] {
            assert!(run(&sizes, axes, normalization, &[]).is_empty());
        }
        let shape = Channels { outer: 0, channels: 1, inner: 9_000 };
        let mut io = InOut::in_place(&mut []);
        let groups = Groups { count: 1, eps: 1e-5 };
        normalize_groups::<f32>(Threads::single(), shape, groups, (&[1.0], &[0.0]), &mut io);
    }

    #[test]
    fn divisors() {
        let normalization = |center, divisor| Normalization { center, divisor };
        let run = |f| run(&[2], &[0], f, &[3.0, 5.0]);
        assert_eq!(run(normalization(true, Divisor::One)), [-1.0, 1.0]);
        assert_eq!(run(normalization(true, Divisor::DeviationInside(3.0))), [-0.5, 0.5]);
        assert_eq!(run(normalization(true, Divisor::DeviationOutside(3.0))), [-0.25, 0.25]);
        assert_eq!(run(normalization(false, Divisor::NormPlus(30.0))), [0.375, 0.625]);
        assert_eq!(run(normalization(false, Divisor::NormAtLeast(64.0))), [0.375, 0.625]);
    }

    #[test]
    fn all_but_0_divided_by_itself_is_1() {
        let from: Vec<f32> = (0..40).map(|i| (i % 3) as f32 - 1.0).collect();
        let mut to = vec![9.0; 40];
        divide_by_itself(&mut InOut::separate(&from, &mut to));
        assert!(to.iter().zip(&from).all(|(y, x)| *y == if *x == 0.0 { 0.0 } else { 1.0 }));
    }

    #[test]
    fn groups_and_batches() {
        let threads = Threads::new(2);
        // Two groups of two channels with two elements each.
        let from = [1.0, 3.0, 5.0, 7.0, -2.0, -2.0, 2.0, 2.0f64];
        let mut to = [0.0; 8];
        let shape = Channels { outer: 1, channels: 4, inner: 2 };
        let mut io = InOut::separate(&from, &mut to);
        let (scale, shift) = ([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 1.0, 0.0]);
        let groups = |count| Groups { count, eps: 4.0 };
        normalize_groups(&threads, shape, groups(2), (&scale, &shift), &mut io);
        let (third, root) = (1.0 / 3.0, 8f64.sqrt());
        let low = 1.0 - 6.0 / root;
        let expected = [-1.0, -third, 2.0 * third, 2.0, low, low, root, root];
        assert!(to.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{to:?}");

        // Groups of one element become 0, the distance from their mean.
        let mut to = [f64::NAN; 8];
        let shape = Channels { outer: 2, channels: 4, inner: 1 };
        normalize_groups(
            &threads,
            shape,
            groups(4),
            (&scale, &shift),
            &mut InOut::separate(&from, &mut to),
        );
        assert_eq!(to, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);

        let b = |v: f32| bf16::from_f32(v);
        let from: Vec<bf16> = (0..40).map(|i| b(i as f32)).collect();
        for (outer, inner) in [(20, 1), (1, 20)] {
            let mut to = vec![b(0.0); 40];
            let shape = Channels { outer, channels: 2, inner };
            let (mean, beta) = ([b(1.0), b(2.0)], [b(0.0), b(3.0)]);
            let batch =
                Batch { gamma: &[b(2.0); 2], beta: &beta, mean: &mean, variance: &[b(3.0); 2] };
            normalize_batch(&threads, shape, batch, 1.0, &mut InOut::separate(&from, &mut to));
            for (i, y) in to.iter().enumerate() {
                let c = i / inner % 2;
                let expected = i as f32 - [1.0, 2.0][c] + [0.0, 3.0][c];
                assert_eq!(y.to_f32(), expected);
            }
        }
    }
}
