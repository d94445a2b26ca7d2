//! The innermost axes of a copy: runs, steps, and transposes.

use crate::base::isa::{Isa, isa};
use crate::base::num::Pod;
use crate::base::simd::store_fence;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{transpose_8x8, transpose_16x16_to};

/// One axis of a copy: its size, and its strides in source and destination, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of steps.
    pub size: usize,
    /// Stride in the source; 0 repeats an element, negative goes backwards.
    pub from: isize,
    /// Stride in the destination.
    pub to: isize,
}

/// Rows and columns of the square blocks of a transpose, which fit the cache.
const TILE: usize = 16;

/// From so many elements on, no cache holds a transpose. Its strips are wider, so that neighbours
/// of a line are read soon after it, and its stores are non-temporal: 0.25 to 0.5 of the time on a
/// Zen 4 with an L3 of 32 MB. Smaller ones took up to twice as long with such stores.
const LARGE: usize = 4 << 20;

/// Tiles of a strip of a large transpose.
const LARGE_STRIP: usize = 4;

/// The size up to which an axis is copied together with the one around it.
const SHORT: usize = 8;

/// Steps of a strip along the axis around a short one.
const SHORT_STEPS: usize = 512;

/// Steps of a strip along a single axis.
const LONG_STEPS: usize = 16 << 10;

/// How two neighbouring axes are copied as one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pair {
    /// The inner axis is a short run.
    Runs,
    /// The inner axis is short and takes its elements from a line of the source each: neighbours
    /// along the outer axis are neighbours in the source.
    Interleave,
    /// The outer axis is short, and its elements are neighbours in the source.
    Deinterleave,
    /// Neighbours in the destination are far apart in the source, and vice versa.
    Transpose,
}

impl Pair {
    fn of(outer: Axis, inner: Axis) -> Option<Pair> {
        match (outer.from, inner.from, inner.to) {
            (_, 1, 1) if inner.size <= SHORT => Some(Pair::Runs),
            (_, 0 | 1, _) => None,
            (1, _, 1) if inner.size <= SHORT => Some(Pair::Interleave),
            (1, _, 1) if outer.size <= SHORT => Some(Pair::Deinterleave),
            (1, _, 1) => Some(Pair::Transpose),
            _ => None,
        }
    }

    /// The axis, 0 or 1, that is divided among threads: the longer one. It is the outer axis either
    /// of the step that wrote the source or of the step that will read the destination, so that
    /// each thread finds its part in its own cache.
    fn divided(self, outer: Axis, inner: Axis) -> usize {
        match self {
            Pair::Runs | Pair::Interleave => 0,
            Pair::Deinterleave => 1,
            Pair::Transpose => usize::from(inner.size >= outer.size),
        }
    }

    /// The steps of a strip along the divided axis.
    fn steps(self, axes: [Axis; 2]) -> usize {
        match self {
            Pair::Transpose if is_large(axes) => LARGE_STRIP * TILE,
            Pair::Transpose => TILE,
            _ => SHORT_STEPS,
        }
    }
}

/// Whether no cache holds a transpose of these axes.
fn is_large([outer, inner]: [Axis; 2]) -> bool {
    outer.size.saturating_mul(inner.size) >= LARGE
}

/// Whether [`copy_row`] copies two axes at once.
pub(super) fn is_row(outer: Axis, inner: Axis) -> bool {
    Pair::of(outer, inner).is_some()
}

/// Number of parts of what one call of [`copy_row`] could copy: the strips of one or two axes.
pub(super) fn strips(inner: &[Axis]) -> usize {
    match *inner {
        [axis] => axis.size.div_ceil(LONG_STEPS).max(1),
        [a, b] => {
            let strips = |pair: Pair| [a, b][pair.divided(a, b)].size.div_ceil(pair.steps([a, b]));
            Pair::of(a, b).map_or(1, strips)
        }
        _ => 1,
    }
}

/// Copies one strip of two axes, if [`is_row`]. There are [`strips`] of them.
///
/// # Safety
/// As [`copy_row`], for the positions along both axes.
pub(super) unsafe fn copy_strip<T: Pod>(
    mut axes: [Axis; 2],
    strip: usize,
    from: *const T,
    to: *mut T,
) {
    let [outer, inner] = axes;
    let Some(pair) = Pair::of(outer, inner) else { unreachable!("two axes are a pair") };
    let (divided, steps) = (pair.divided(outer, inner), pair.steps(axes));
    let is_large = is_large(axes);
    let axis = &mut axes[divided];
    let first = strip * steps;
    debug_assert!(first < axis.size);
    axis.size = steps.min(axis.size - first);
    let (from_first, to_first) = (first as isize * axis.from, first as isize * axis.to);
    // SAFETY: the strip is a part of the row.
    unsafe {
        let (from, to) = (from.offset(from_first), to.offset(to_first));
        if pair == Pair::Transpose {
            transpose(axes, TransposeStrip { divided, is_large }, from, to);
        } else {
            copy_pair(pair, axes, from, to);
        }
    }
}

/// Copies one strip of a single axis, of [`LONG_STEPS`] steps or what is left.
///
/// # Safety
/// As [`copy_row`], for the whole axis.
pub(super) unsafe fn copy_long<T: Pod>(axis: Axis, strip: usize, from: *const T, to: *mut T) {
    let first = strip * LONG_STEPS;
    debug_assert!(first < axis.size);
    let part = Axis { size: LONG_STEPS.min(axis.size - first), ..axis };
    let (from_first, to_first) = (first as isize * axis.from, first as isize * axis.to);
    // SAFETY: the strip is a part of the row.
    unsafe { copy_row(&[part], from.offset(from_first), to.offset(to_first)) }
}

/// Copies along the innermost axis.
///
/// # Safety
/// Every position along the axis is valid, for reading in the source and for writing in the
/// destination.
pub(super) unsafe fn copy_row<T: Pod>(axes: &[Axis], from: *const T, to: *mut T) {
    debug_assert!(from.is_aligned() && to.is_aligned());
    // SAFETY: the positions below are those along the axis.
    unsafe {
        match *axes {
            [] => *to = *from,
            [Axis { size, from: 1, to: 1 }] => copy_run(from, to, size),
            [Axis { size, from: 0, to: 1 }] => {
                std::slice::from_raw_parts_mut(to, size).fill(*from);
            }
            [axis] => {
                for i in 0..axis.size as isize {
                    *to.offset(i * axis.to) = *from.offset(i * axis.from);
                }
            }
            _ => unreachable!("a row has one axis"),
        }
    }
}

/// Copies along two axes.
///
/// # Safety
/// As [`copy_row`], for the positions along both axes.
unsafe fn copy_pair<T: Pod>(pair: Pair, axes: [Axis; 2], from: *const T, to: *mut T) {
    let [outer, inner] = axes;
    // SAFETY: the caller's promise.
    unsafe {
        match (pair, outer.size, inner.size) {
            (Pair::Runs, _, 2) => short_runs::<T, 2>(outer, from, to),
            (Pair::Runs, _, 3) => short_runs::<T, 3>(outer, from, to),
            (Pair::Runs, _, 4) => short_runs::<T, 4>(outer, from, to),
            (Pair::Runs, _, 5) => short_runs::<T, 5>(outer, from, to),
            (Pair::Runs, _, 6) => short_runs::<T, 6>(outer, from, to),
            (Pair::Runs, _, 7) => short_runs::<T, 7>(outer, from, to),
            (Pair::Runs, _, 8) => short_runs::<T, 8>(outer, from, to),
            (Pair::Interleave, _, 2) => unrolled::<T, 2>([outer, inner], from, to),
            (Pair::Interleave, _, 3) => unrolled::<T, 3>([outer, inner], from, to),
            (Pair::Interleave, _, 4) => unrolled::<T, 4>([outer, inner], from, to),
            (Pair::Deinterleave, 2, _) => unrolled::<T, 2>([inner, outer], from, to),
            (Pair::Deinterleave, 3, _) => unrolled::<T, 3>([inner, outer], from, to),
            (Pair::Deinterleave, 4, _) => unrolled::<T, 4>([inner, outer], from, to),
            _ => transpose(axes, TransposeStrip { divided: 0, is_large: false }, from, to),
        }
    }
}

/// Copies a run; a short one without a call.
///
/// # Safety
/// As [`copy_row`].
#[inline(always)]
unsafe fn copy_run<T: Pod>(from: *const T, to: *mut T, size: usize) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= size * size_of::<T>());
    // SAFETY: both runs are valid, by the caller's promise.
    unsafe {
        if size * size_of::<T>() >= 32 {
            std::ptr::copy_nonoverlapping(from, to, size);
        } else {
            for i in 0..size {
                *to.add(i) = *from.add(i);
            }
        }
    }
}

/// Copies a run of `N` elements for each step along an axis.
///
/// # Safety
/// As [`copy_row`].
unsafe fn short_runs<T: Pod, const N: usize>(axis: Axis, from: *const T, to: *mut T) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= N * size_of::<T>());
    let (mut from, mut to) = (from.cast::<[T; N]>(), to.cast::<[T; N]>());
    let step = |by: isize| by * size_of::<T>() as isize;
    for _ in 0..axis.size {
        // SAFETY: each run is valid, by the caller's promise; the steps after the last wrap.
        unsafe { to.write_unaligned(from.read_unaligned()) };
        from = from.wrapping_byte_offset(step(axis.from));
        to = to.wrapping_byte_offset(step(axis.to));
    }
}

/// Copies the `N` elements along a short axis for each step along a long one.
///
/// # Safety
/// As [`copy_pair`].
unsafe fn unrolled<T: Pod, const N: usize>([long, short]: [Axis; 2], from: *const T, to: *mut T) {
    debug_assert!(short.size == N);
    // SAFETY: the caller's promise. The compiler vectorises steps that it knows.
    unsafe {
        match (long.from, long.to, short.from, short.to) {
            (1, step, _, 1) if step == N as isize => steps::<T, N>(
                Axis { from: 1, to: N as isize, ..long },
                Axis { to: 1, ..short },
                from,
                to,
            ),
            (step, 1, 1, _) if step == N as isize => steps::<T, N>(
                Axis { from: N as isize, to: 1, ..long },
                Axis { from: 1, ..short },
                from,
                to,
            ),
            _ => steps::<T, N>(long, short, from, to),
        }
    }
}

/// As [`unrolled`].
///
/// # Safety
/// As [`copy_pair`].
#[inline(always)]
unsafe fn steps<T: Pod, const N: usize>(long: Axis, short: Axis, from: *const T, to: *mut T) {
    debug_assert!(short.size == N);
    for i in 0..long.size as isize {
        for j in 0..N as isize {
            // SAFETY: a position along the two axes.
            unsafe {
                *to.offset(i * long.to + j * short.to) =
                    *from.offset(i * long.from + j * short.from);
            }
        }
    }
}

/// Which part of a transpose a strip is.
struct TransposeStrip {
    /// The axis, 0 or 1, that is divided into strips.
    divided: usize,
    /// Whether no cache holds the whole transpose.
    is_large: bool,
}

/// Transposes a strip by square tiles, so that source and destination stay in the cache: those
/// along the divided axis one after the other, which are neighbours in memory.
///
/// # Safety
/// As [`copy_pair`].
unsafe fn transpose<T: Pod>(
    axes: [Axis; 2],
    TransposeStrip { divided, is_large }: TransposeStrip,
    from: *const T,
    to: *mut T,
) {
    let [outer, inner] = axes;
    debug_assert!(outer.from == 1 && inner.to == 1);
    let square = Square::of::<T>(axes, is_large, to.addr());
    for a in (0..axes[1 - divided].size).step_by(TILE) {
        for b in (0..axes[divided].size).step_by(TILE) {
            let (i, j) = if divided == 0 { (b, a) } else { (a, b) };
            let part = |axis: Axis, at| Axis { size: TILE.min(axis.size - at), ..axis };
            let axes = [part(outer, i), part(inner, j)];
            let (i, j) = (i as isize, j as isize);
            // SAFETY: the tile is a part of both axes.
            unsafe {
                tile(square, axes, from.offset(i + j * inner.from), to.offset(i * outer.to + j));
            }
        }
    }
    if square == Square::Streamed {
        store_fence();
    }
}

/// The squares of a tile that are transposed in registers.
#[derive(Clone, Copy, PartialEq)]
enum Square {
    /// None: element by element.
    None,
    /// Eight rows and columns of four bytes each, with AVX2.
    Eight,
    /// Whole tiles, with AVX-512.
    Tile,
    /// The same, with non-temporal stores.
    Streamed,
}

impl Square {
    /// For elements of `T`, from this address of the destination on.
    fn of<T>([outer, inner]: [Axis; 2], is_large: bool, to: usize) -> Square {
        if cfg!(not(target_arch = "x86_64")) || size_of::<T>() != 4 || isa() < Isa::Avx2 {
            return Square::None;
        }
        if isa() < Isa::Avx512 || inner.from < 0 || outer.to < 0 {
            return Square::Eight;
        }
        let has_whole_lines = to.is_multiple_of(64) && outer.to % TILE as isize == 0;
        if is_large && has_whole_lines { Square::Streamed } else { Square::Tile }
    }
}

/// Transposes a tile: squares in registers, and what is left of it element by element.
///
/// # Safety
/// As [`copy_pair`], and the CPU has the instructions of the square.
unsafe fn tile<T: Pod>(square: Square, axes: [Axis; 2], from: *const T, to: *mut T) {
    let [outer, inner] = axes;
    #[cfg(target_arch = "x86_64")]
    if matches!(square, Square::Tile | Square::Streamed) && outer.size.min(inner.size) == TILE {
        let (from, to) = ((from.cast(), inner.from as usize), (to.cast(), outer.to as usize));
        // SAFETY: the tile is whole, and its strides are positive.
        unsafe { transpose_16x16_to(from, to, square == Square::Streamed) };
        return;
    }
    let whole = |axis: Axis| if square == Square::None { 0 } else { axis.size / 8 * 8 };
    let (rows, columns) = (whole(outer), whole(inner));
    #[cfg(target_arch = "x86_64")]
    for i in (0..rows as isize).step_by(8) {
        for j in (0..columns as isize).step_by(8) {
            // SAFETY: the square is a part of the tile, and the CPU has AVX2.
            unsafe {
                let (from, to) = (from.offset(i + j * inner.from), to.offset(i * outer.to + j));
                transpose_8x8((from.cast(), inner.from), (to.cast(), outer.to));
            }
        }
    }
    for i in 0..outer.size {
        for j in (if i < rows { columns } else { 0 })..inner.size {
            let (i, j) = (i as isize, j as isize);
            // SAFETY: a position along the two axes.
            unsafe { *to.offset(i * outer.to + j) = *from.offset(i + j * inner.from) };
        }
    }
}
