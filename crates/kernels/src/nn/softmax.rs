//! Softmax and log-softmax along an axis. The maximum of a slice is subtracted first, so that
//! nothing overflows.

use crate::base::num::Wide;
use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::simd::opaque_index;
use crate::base::slices::{AlongAxis, Block, GRAIN, LANES, Lanes, Slices, each, met};
use crate::math::real::{Real, StoredReal};
use crate::multiversion;
use std::ops::Range;

/// Softmax of every slice.
pub fn softmax<T: StoredReal>(threads: &Threads, slices: &Slices, io: &mut InOut<'_, T>) {
    if let Some((count, width @ 1..=NARROW)) = slices.rows() {
        return threads.par_ranges(count, GRAIN / width, |rows| {
            // SAFETY: the ranges are disjoint, so no two have a row in common.
            let part = unsafe { io.part(rows.start * width..rows.end * width) };
            // Not compiled for other types, whose short rows are rare.
            if width <= SHORT && size_of::<T>() == size_of::<f32>() {
                short_rows(part, width)
            } else {
                narrow_rows(part, width)
            }
        });
    }
    // Other types compute the powers twice, rather than rounding them.
    if let Some(along) = slices.strided().filter(|_| size_of::<T>() == size_of::<T::Wide>()) {
        return strided(threads, along, io);
    }
    slices.blocks(threads, io, |block| softmax_block(block));
}

/// Log-softmax of every slice.
pub fn log_softmax<T: StoredReal>(threads: &Threads, slices: &Slices, io: &mut InOut<'_, T>) {
    slices.blocks(threads, io, |block| log_softmax_block(block));
}

#[inline(always)]
fn largest<T: StoredReal>(block: &mut Block<'_, T>) -> Lanes<T::Wide> {
    let larger = |a, b| if b > a { b } else { a };
    let lowest = T::Wide::of(f64::NEG_INFINITY);
    let Some(row) = block.row() else {
        return block.fold(lowest, |a, x, _| larger(a, x), larger);
    };
    let (groups, rest) = row.as_chunks::<LANES>();
    let mut tops = [lowest; LANES];
    for group in 0..groups.len() {
        let x = &groups[opaque_index(group)];
        for i in 0..LANES {
            tops[i] = larger(tops[i], x[i].widen());
        }
    }
    for (top, x) in tops.iter_mut().zip(rest) {
        *top = larger(*top, x.widen());
    }
    met(tops, larger)
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    fn softmax_block<T: StoredReal>(block: &mut Block<'_, T>) {
        let top = largest(block);
        let zero = T::Wide::default();
        let power = |x: T::Wide, i: usize| (x - top[i]).weight();
        // The powers are stored only if the type is exact; other types compute them twice.
        if size_of::<T>() == size_of::<T::Wide>() {
            let sum = block.map_sum(zero, power, |a, b| a + b);
            let scale = each(sum, |sum| T::Wide::of(1.0) / sum);
            block.rewrite().map(|y, i| y * scale[i]);
        } else {
            let sum = block.fold(zero, |sum, x, i| sum + power(x, i), |a, b| a + b);
            let scale = each(sum, |sum| T::Wide::of(1.0) / sum);
            block.map(|x, i| power(x, i) * scale[i]);
        }
    }
}

/// Vectors of [`LANES`] neighbouring slices in a tile.
const GROUPS: usize = 4;

/// Softmax along an axis that is not the last.
fn strided<T: StoredReal>(threads: &Threads, along: AlongAxis, io: &InOut<'_, T>) {
    let AlongAxis { outer, size, inner } = along;
    if size == 0 {
        return;
    }
    let tiles = inner.div_ceil(GROUPS * LANES);
    let grain = GRAIN.div_ceil((size * inner.min(GROUPS * LANES)).max(1));
    threads.par_ranges(outer * tiles, grain, |range| {
        for tile in range {
            let (slice, first) = (tile / tiles, tile % tiles * GROUPS * LANES);
            let columns = first..inner.min(first + GROUPS * LANES);
            // SAFETY: tiles have no elements in common.
            let mut io = unsafe { io.part(slice * size * inner..(slice + 1) * size * inner) };
            strided_tile(&mut io, size, columns);
        }
    });
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    /// Softmax of some columns of a matrix of `rows`, with the bits of [`softmax_block`].
    fn strided_tile<T: StoredReal>(io: &mut InOut<'_, T>, rows: usize, columns: Range<usize>) {
        let width = io.len() / rows;
        if columns.len() == GROUPS * LANES {
            return softmax_of_columns::<T, GROUPS>(io, [rows, width], columns.start, LANES);
        }
        for first in columns.clone().step_by(LANES) {
            let count = LANES.min(columns.end - first);
            softmax_of_columns::<T, 1>(io, [rows, width], first, count);
        }
    }
}

/// Softmax of `N` vectors of `count` columns each.
#[inline(always)]
fn softmax_of_columns<T: StoredReal, const N: usize>(
    io: &mut InOut<'_, T>,
    [rows, width]: [usize; 2],
    first: usize,
    count: usize,
) {
    let mut top = [[T::Wide::of(f64::NEG_INFINITY); LANES]; N];
    for row in 0..rows {
        let at = opaque_index(row * width + first);
        for n in 0..N {
            let x = some_lanes(io, at + n * LANES, count);
            for i in 0..LANES {
                top[n][i] = if x[i] > top[n][i] { x[i] } else { top[n][i] };
            }
        }
    }
    let mut scale = [[T::Wide::default(); LANES]; N];
    for row in 0..rows {
        let at = opaque_index(row * width + first);
        for n in 0..N {
            let mut x = some_lanes(io, at + n * LANES, count);
            for i in 0..LANES {
                x[i] = Real::weight(x[i] - top[n][i]);
                scale[n][i] = scale[n][i] + x[i];
            }
            set_lanes(io, at + n * LANES, count, x);
        }
    }
    for n in 0..N {
        scale[n] = each(scale[n], |sum| T::Wide::of(1.0) / sum);
    }
    let mut io = io.rewrite();
    for row in 0..rows {
        let at = opaque_index(row * width + first);
        for n in 0..N {
            let mut y = some_lanes(&io, at + n * LANES, count);
            for i in 0..LANES {
                y[i] = y[i] * scale[n][i];
            }
            set_lanes(&mut io, at + n * LANES, count, y);
        }
    }
}

/// `count` elements, at most as many as lanes.
#[inline(always)]
fn some_lanes<T: StoredReal>(io: &InOut<'_, T>, at: usize, count: usize) -> Lanes<T::Wide> {
    let x: [T; LANES] = if count == LANES { io.load(at) } else { io.load_masked(at, count) };
    let mut lanes = [T::Wide::default(); LANES];
    for i in 0..LANES {
        lanes[i] = x[i].widen();
    }
    lanes
}

/// Replaces `count` elements.
#[inline(always)]
fn set_lanes<T: StoredReal>(io: &mut InOut<'_, T>, at: usize, count: usize, lanes: Lanes<T::Wide>) {
    let mut y = [T::default(); LANES];
    for i in 0..LANES {
        y[i] = Wide::narrow(lanes[i]);
    }
    if count == LANES {
        io.store(at, y);
    } else {
        io.store_masked(at, y, count);
    }
}

/// Up to this length, sixteen rows are computed at once, one in each lane. A row in sixteen lanes
/// would leave most of them empty.
const SHORT: usize = LANES / 4;

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    /// Softmax of rows of `width` ≤ [`SHORT`] elements; the bits are those of [`narrow_rows`].
    fn short_rows<T: StoredReal>(io: InOut<'_, T>, width: usize) {
        match width {
            1 => rows_in_lanes::<T, 1>(io),
            2 => rows_in_lanes::<T, 2>(io),
            3 => rows_in_lanes::<T, 3>(io),
            _ => rows_in_lanes::<T, SHORT>(io),
        }
    }
}

/// Softmax of rows of `N` elements.
#[inline(always)]
fn rows_in_lanes<T: StoredReal, const N: usize>(mut io: InOut<'_, T>) {
    let count = io.len() / N;
    for first in (0..count).step_by(LANES) {
        let mut columns = [[T::Wide::default(); LANES]; N];
        for lane in 0..LANES {
            // Lanes behind the last row compute that row once more.
            let row: [T; N] = io.load((first + lane).min(count - 1) * N);
            for at in 0..N {
                columns[at][lane] = row[at].widen();
            }
        }
        softmax_of_lanes(&mut columns);
        let some = LANES.min(count - first);
        for lane in 0..some {
            let mut row = [T::default(); N];
            for at in 0..N {
                row[at] = Wide::narrow(columns[at][lane]);
            }
            io.store((first + lane) * N, row);
        }
    }
}

/// Softmax of sixteen rows, whose elements are the columns.
#[inline(always)]
fn softmax_of_lanes<W: Real, const N: usize>(columns: &mut [Lanes<W>; N]) {
    let larger = |a, b| if b > a { b } else { a };
    let mut top = [W::of(f64::NEG_INFINITY); LANES];
    for column in &*columns {
        for i in 0..LANES {
            top[i] = larger(top[i], column[i]);
        }
    }
    let mut sums = [[W::default(); LANES]; SHORT];
    for (column, sum) in columns.iter_mut().zip(&mut sums) {
        for i in 0..LANES {
            column[i] = Real::weight(column[i] - top[i]);
        }
        *sum = *column;
    }
    // In halves, as [`met`] combines lanes; what is missing there is 0.
    let mut half = SHORT / 2;
    while half > 0 {
        for at in 0..half {
            for i in 0..LANES {
                sums[at][i] = sums[at][i] + sums[at + half][i];
            }
        }
        half /= 2;
    }
    let scale = each(sums[0], |sum| W::of(1.0) / sum);
    for column in columns {
        for i in 0..LANES {
            column[i] = column[i] * scale[i];
        }
    }
}

/// Up to this length, rows are computed in groups of whole lanes.
const NARROW: usize = 4 * LANES;

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    /// Softmax of rows of `width` elements.
    fn narrow_rows<T: StoredReal>(io: InOut<'_, T>, width: usize) {
        let mut io = io;
        let mut rows = [[T::Wide::default(); NARROW]; ROWS_AT_ONCE];
        let columns = width.next_multiple_of(LANES);
        let count = io.len() / width;
        for first in (0..count).step_by(ROWS_AT_ONCE) {
            let some = ROWS_AT_ONCE.min(count - first);
            for (row, line) in rows.iter_mut().take(some).enumerate() {
                for at in (0..width).step_by(LANES) {
                    let len = LANES.min(width - at);
                    let x: [T; LANES] = io.load_masked((first + row) * width + at, len);
                    for i in 0..LANES {
                        let outside = T::Wide::of(f64::NEG_INFINITY);
                        line[at + i] = if i < len { x[i].widen() } else { outside };
                    }
                }
            }
            some_rows::<T::Wide, ROWS_AT_ONCE>(rows.as_flattened_mut(), RowLayout { columns, stride: NARROW });
            for (row, line) in rows.iter().take(some).enumerate() {
                for at in (0..width).step_by(LANES) {
                    let mut y = [T::default(); LANES];
                    for i in 0..LANES {
                        y[i] = Wide::narrow(line[at + i]);
                    }
                    let len = LANES.min(width - at);
                    io.store_masked((first + row) * width + at, y, len);
                }
            }
        }
    }
}

/// Rows that are computed together, since one alone is bound by latency.
const ROWS_AT_ONCE: usize = 4;

multiversion! {
    /// Softmax of rows in place. Rows are whole groups of [`LANES`]; the bits are those of
    /// [`softmax`].
    ///
    /// # Panics
    /// When the rows are not whole groups.
    pub(crate) fn softmax_rows(rows: &mut [f32], columns: usize) {
        assert!(columns > 0 && columns.is_multiple_of(LANES) && rows.len().is_multiple_of(columns));
        let whole = rows.len() / columns / ROWS_AT_ONCE * ROWS_AT_ONCE;
        let (groups, rest) = rows.split_at_mut(whole * columns);
        for group in groups.chunks_exact_mut(ROWS_AT_ONCE * columns) {
            some_rows::<f32, ROWS_AT_ONCE>(group, RowLayout { columns, stride: columns });
        }
        for row in rest.chunks_exact_mut(columns) {
            some_rows::<f32, 1>(row, RowLayout { columns, stride: columns });
        }
    }
}

/// Rows of a matrix whose first `columns` elements count, `stride` elements apart.
#[derive(Clone, Copy)]
struct RowLayout {
    columns: usize,
    stride: usize,
}

/// Softmax of rows.
#[inline(always)]
fn some_rows<W: Real, const R: usize>(rows: &mut [W], layout: RowLayout) {
    let RowLayout { columns, stride } = layout;
    let larger = |a, b| if b > a { b } else { a };
    let mut tops = [[W::of(f64::NEG_INFINITY); LANES]; R];
    for at in (0..columns).step_by(LANES) {
        let at = opaque_index(at);
        for r in 0..R {
            let x = &rows[r * stride + at..][..LANES];
            for i in 0..LANES {
                tops[r][i] = larger(tops[r][i], x[i]);
            }
        }
    }
    let mut sums = [[W::default(); LANES]; R];
    for top in &mut tops {
        *top = met(*top, larger);
    }
    for at in (0..columns).step_by(LANES) {
        let at = opaque_index(at);
        for r in 0..R {
            let x = &mut rows[r * stride + at..][..LANES];
            for i in 0..LANES {
                x[i] = Real::weight(x[i] - tops[r][i]);
                sums[r][i] = sums[r][i] + x[i];
            }
        }
    }
    for r in 0..R {
        let sum = met(sums[r], |a, b| a + b);
        let scale = W::of(1.0) / sum[0];
        for x in &mut rows[r * stride..][..columns] {
            *x = *x * scale;
        }
    }
}

multiversion! {
    vectors if size_of::<T>() <= size_of::<f32>();
    fn log_softmax_block<T: StoredReal>(block: &mut Block<'_, T>) {
        let top = largest(block);
        let zero = T::Wide::default();
        let sum = block.fold(zero, |sum, x, i| sum + (x - top[i]).weight(), |a, b| a + b);
        let log = each(sum, |sum| sum.ln());
        block.map(|x, i| x - top[i] - log[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::f16;

    fn run<T: StoredReal>(sizes: &[usize], axis: usize, from: &[T], log: bool) -> Vec<T> {
        let mut to = vec![T::default(); from.len()];
        let (slices, mut io) = (Slices::new(sizes, &[axis]), InOut::separate(from, &mut to));
        if log {
            log_softmax(&Threads::new(2), &slices, &mut io)
        } else {
            softmax(&Threads::new(2), &slices, &mut io)
        }
        to
    }

    #[test]
    fn agrees_with_the_definition() {
        let sizes = [3, 37, 21];
        let from: Vec<f32> = (0..3 * 37 * 21).map(|i| (i * 37 % 101) as f32 * 0.7 - 20.0).collect();
        for axis in 0..3 {
            let inner: usize = sizes[axis + 1..].iter().product();
            let (soft, log) = (run(&sizes, axis, &from, false), run(&sizes, axis, &from, true));
            for (i, (soft, log)) in soft.iter().zip(&log).enumerate() {
                let first = i - i / inner % sizes[axis] * inner;
                let slice = (0..sizes[axis]).map(|k| f64::from(from[first + k * inner]));
                let sum: f64 = slice.map(libm::exp).sum();
                let exact = f64::from(from[i]) - libm::log(sum);
                assert!((f64::from(*log) - exact).abs() < 1e-5, "{log} {exact}");
                assert!((f64::from(*soft) / libm::exp(exact) - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn rows_have_the_same_bits() {
        for (count, columns) in [(1, 16), (4, 64), (11, 48)] {
            let number = |i: usize| match i % 29 {
                7 => f32::NEG_INFINITY,
                _ => (i * 37 % 101) as f32 * 0.7 - 20.0,
            };
            let from: Vec<f32> = (0..count * columns).map(number).collect();
            let mut rows = from.clone();
            softmax_rows(&mut rows, columns);
            assert_eq!(rows, run(&[count, columns], 1, &from, false));
        }
    }

    #[test]
    fn strided_slices_have_the_same_bits() {
        for sizes in [[2, 5, 150], [1, 21, 64], [3, 2, 7], [1, 70, 16]] {
            let count = sizes.iter().product();
            let number = |i: usize| if i % 29 == 7 { f32::NEG_INFINITY } else { i as f32 % 13.7 };
            let from: Vec<f32> = (0..count).map(number).collect();
            let mut blocks = vec![0.0; count];
            let mut io = InOut::separate(&from, &mut blocks);
            Slices::new(&sizes, &[1]).blocks(Threads::single(), &mut io, softmax_block);
            assert_eq!(run(&sizes, 1, &from, false), blocks);
            let mut in_place = from.clone();
            let mut io = InOut::in_place(&mut in_place);
            softmax(&Threads::new(2), &Slices::new(&sizes, &[1]), &mut io);
            assert_eq!(in_place, blocks);
        }
    }

    #[test]
    fn short_rows_have_the_same_bits() {
        for width in 1..=SHORT {
            let number = |i: usize| match i % 53 {
                7 => f32::NEG_INFINITY,
                11 => f32::NAN,
                13 => f32::INFINITY,
                _ => (i * 37 % 101) as f32 * 0.7 - 20.0,
            };
            let from: Vec<f32> = (0..37 * width).map(number).collect();
            let mut narrow = vec![0.0; from.len()];
            narrow_rows(InOut::separate(&from, &mut narrow), width);
            let short = run(&[37, width], 1, &from, false);
            for (x, y) in short.iter().zip(&narrow) {
                let same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                assert!(same, "width {width}: {x}, {y}");
            }
        }
    }

    #[test]
    fn weights_are_normal_numbers_or_zero() {
        let from: Vec<f32> = (0..64).map(|i| if i == 5 { 1.0 } else { -86.0 - i as f32 }).collect();
        let weights = run(&[64], 0, &from, false);
        assert!(weights.iter().all(|&w| w == 0.0 || w >= f32::MIN_POSITIVE));
        assert!(weights[0] > 0.0 && weights[63] == 0.0);
    }

    #[test]
    fn nothing_is_normalised() {
        for sizes in [[2, 0, 5], [0, 3, 5], [2, 3, 0]] {
            for axis in 0..3 {
                assert!(run::<f32>(&sizes, axis, &[], false).is_empty());
                assert!(run::<f32>(&sizes, axis, &[], true).is_empty());
            }
        }
    }

    #[test]
    fn edges() {
        assert_eq!(run(&[2], 0, &[1e30f32, -1e30], false), [1.0, 0.0]);
        assert_eq!(run(&[2], 0, &[0.0, f64::NEG_INFINITY], true), [0.0, f64::NEG_INFINITY]);
        assert!(run(&[2], 0, &[f32::NEG_INFINITY; 2], false).iter().all(|y| y.is_nan()));
        assert!(run(&[3], 0, &[1.0, f32::NAN, 2.0], false).iter().all(|y| y.is_nan()));
        let quarter = f16::from_f32(0.25);
        assert_eq!(run(&[4, 1], 0, &[f16::from_f32(60000.0); 4], false), [quarter; 4]);
    }
}
