//! GEMM with few rows (small m): B is read once, unpacked.

use super::k_blocks::KBlocks;
use super::pack::b::Layout;
use super::post_ops::finish;
use super::problem::Gemm;
use super::tiling::{Span, Tile};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
use crate::base::num::UnalignedF32;
use crate::base::par::Slice;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon as Base;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable as Base;
use crate::base::simd::{TRANSPOSE_DIM, Vector, transpose_16x16};
use crate::multiversion;

/// Computes a tile of a GEMM with few rows.
pub(super) fn run_tile(
    p: &Gemm<'_>,
    tile: Tile,
    (a, a_stride): (&[f32], usize),
    (b, layout): (&[UnalignedF32], Layout),
    c: Slice<f32>,
) {
    let Span { start: left, end: right } = tile.columns;
    let Span { start: mut row, end } = tile.rows;
    while row < end {
        let rows = (end - row).div_ceil((end - row).div_ceil(ROWS_AT_A_TIME));
        let line = |i: usize| {
            if i >= rows {
                return &mut [][..];
            }
            // SAFETY: within C, tiles are disjoint, and so are rows.
            unsafe { c.part((row + i) * p.c_stride + left, right - left) }
        };
        let mut out: [&mut [f32]; ROWS_AT_A_TIME] = std::array::from_fn(line);
        let out = &mut out[..rows];
        row += rows;
        if p.k == 0 {
            out.iter_mut().for_each(|line| line.fill(0.0));
            continue;
        }
        let values = &a[(row - rows) * a_stride..][..(rows - 1) * a_stride + p.k];
        let a = LhsSlice { values, stride: a_stride, terms: p.k };
        let first = match layout {
            Layout::Columns { stride } => left * stride,
            _ => left,
        };
        rows_of(a, &b[first..], layout, out);
    }
    // SAFETY: as above.
    unsafe { finish(p.post_ops, tile.rows.range(), tile.columns.range(), p.c_stride, c) };
}

/// Rows of A for which B is read once.
const ROWS_AT_A_TIME: usize = 4;

/// Some rows of A.
#[derive(Clone, Copy)]
struct LhsSlice<'a> {
    values: &'a [f32],
    stride: usize,
    terms: usize,
}

impl<'a> LhsSlice<'a> {
    /// `R` rows.
    #[inline(always)]
    fn all<const R: usize>(self) -> [&'a [f32]; R] {
        std::array::from_fn(|i| self.row(i))
    }

    fn row(self, i: usize) -> &'a [f32] {
        &self.values[i * self.stride..][..self.terms]
    }
}

/// Multiplies at most [`ROWS_AT_A_TIME`] rows of A by columns of B, which begin at `b`.
fn rows_of(a: LhsSlice<'_>, b: &[UnalignedF32], layout: Layout, out: &mut [&mut [f32]]) {
    // SAFETY: `isa` is what the CPU has.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => avx512(a, b, layout, out),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(a, b, layout, out),
            _ => by_layout::<Base, { TRANSPOSE_DIM / Base::LANES }>(a, b, layout, out),
        }
    }
}

/// # Safety
/// As [`by_layout`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(a: LhsSlice<'_>, b: &[UnalignedF32], layout: Layout, out: &mut [&mut [f32]]) {
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise.
    unsafe { by_layout::<crate::base::simd::Avx512, 1>(a, b, layout, out) }
}

/// # Safety
/// As [`by_layout`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(a: LhsSlice<'_>, b: &[UnalignedF32], layout: Layout, out: &mut [&mut [f32]]) {
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise.
    unsafe { by_layout::<crate::base::simd::Avx2, 2>(a, b, layout, out) }
}

/// As [`rows_of`]; `G` vectors have [`TRANSPOSE_DIM`] lanes.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn by_layout<V: Vector, const G: usize>(
    a: LhsSlice<'_>,
    b: &[UnalignedF32],
    layout: Layout,
    out: &mut [&mut [f32]],
) {
    // SAFETY: the caller's promise.
    unsafe {
        match layout {
            Layout::Columns { stride } => dots::<V, G>(a, b, stride, out),
            Layout::Rows { stride } => sums::<V>(a, b, stride, out),
            Layout::Kernel { .. } => unreachable!("filters are always packed"),
        }
    }
}

/// Dot products of rows of `a` with rows of `b`, each a chain for each block along k. Squares of
/// `b` are transposed so that its rows become lanes.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn dots<V: Vector, const G: usize>(
    a: LhsSlice<'_>,
    b: &[UnalignedF32],
    stride: usize,
    out: &mut [&mut [f32]],
) {
    let count = out.first().map_or(0, |line| line.len());
    if count < TRANSPOSE_DIM {
        return few_dots(a, b, stride, out);
    }
    for first in (0..count).step_by(TRANSPOSE_DIM) {
        // The last square overlaps the one before it, which changes nothing.
        let first = first.min(count - TRANSPOSE_DIM);
        let b = &b[first * stride..];
        // SAFETY: the caller's promise.
        unsafe {
            match out.len() {
                1 => block_dots::<V, 1, G>(a.all(), b, stride, first, out),
                2 => block_dots::<V, 2, G>(a.all(), b, stride, first, out),
                3 => block_dots::<V, 3, G>(a.all(), b, stride, first, out),
                _ => block_dots::<V, ROWS_AT_A_TIME, G>(a.all(), b, stride, first, out),
            }
        }
    }
}

multiversion! {
    /// As [`dots`], for fewer than [`TRANSPOSE_DIM`] rows of `b`.
    fn few_dots(a: LhsSlice<'_>, b: &[UnalignedF32], stride: usize, out: &mut [&mut [f32]]) {
        for (i, line) in out.iter_mut().enumerate() {
            let row = a.row(i);
            for (j, to) in line.iter_mut().enumerate() {
                let own = &b[j * stride..][..a.terms];
                // The first block's sum is added to -0, which changes no number.
                *to = KBlocks::of_row(a.terms).iter().fold(-0.0, |sum, block| {
                    let terms = row[block.clone()].iter().zip(&own[block]);
                    sum + terms.fold(0.0, |chain: f32, (x, y)| x.mul_add(y.get(), chain))
                });
            }
        }
    }
}

/// Dot products of rows of `a` with [`TRANSPOSE_DIM`] rows of `b`.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn block_dots<V: Vector, const R: usize, const G: usize>(
    a: [&[f32]; R],
    b: &[UnalignedF32],
    stride: usize,
    first: usize,
    out: &mut [&mut [f32]],
) {
    const { assert!(G * V::LANES == TRANSPOSE_DIM) };
    // SAFETY: the caller's promise; stores are checked by the slice.
    unsafe {
        // The first block's sums are added to -0, which changes no number.
        let (mut sums, mut chains) = ([[V::splat(-0.0); G]; R], [[V::zero(); G]; R]);
        for block in KBlocks::of_row(a[0].len()).iter() {
            // All blocks but the last are whole squares.
            let whole = block.start + block.len() / TRANSPOSE_DIM * TRANSPOSE_DIM;
            for k in (block.start..whole).step_by(TRANSPOSE_DIM) {
                let square = transpose_16x16(&b[k..], stride);
                for (i, line) in square.iter().enumerate() {
                    multiply(a, k + i, line, &mut chains);
                }
            }
            for k in whole..block.end {
                let mut line = [0.0; TRANSPOSE_DIM];
                for (lane, y) in line.iter_mut().enumerate() {
                    *y = b[lane * stride + k].get();
                }
                multiply(a, k, &line, &mut chains);
            }
            end_blocks(&mut chains, &mut sums);
        }
        for (sums, line) in sums.iter().zip(out) {
            let line = &mut line[first..][..TRANSPOSE_DIM];
            for (sum, to) in sums.iter().zip(line.chunks_exact_mut(V::LANES)) {
                sum.store(to.as_mut_ptr());
            }
        }
    }
}

/// Adds the products of element `k` of each row and a line to the chains.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn multiply<V: Vector, const R: usize, const G: usize>(
    a: [&[f32]; R],
    k: usize,
    line: &[f32; TRANSPOSE_DIM],
    chains: &mut [[V; G]; R],
) {
    const { assert!(G * V::LANES == TRANSPOSE_DIM) };
    for r in 0..R {
        for g in 0..G {
            // SAFETY: the caller's promise; the line has the lanes of `G` vectors.
            unsafe {
                let y = V::load(line[g * V::LANES..].as_ptr());
                chains[r][g] = V::splat(a[r][k]).fma(y, chains[r][g]);
            }
        }
    }
}

/// As [`end_block`](super::k_blocks::end_block), for vectors.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn end_blocks<V: Vector, const R: usize, const G: usize>(
    chains: &mut [[V; G]; R],
    sums: &mut [[V; G]; R],
) {
    for r in 0..R {
        for g in 0..G {
            // SAFETY: the caller's promise.
            unsafe {
                sums[r][g] = sums[r][g].add(chains[r][g]);
                chains[r][g] = V::zero();
            }
        }
    }
}

/// Sums of the rows of `b`, each scaled by an element of a row of `a`, in the order of k.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn sums<V: Vector>(
    a: LhsSlice<'_>,
    b: &[UnalignedF32],
    stride: usize,
    out: &mut [&mut [f32]],
) {
    let count = out.first().map_or(0, |line| line.len());
    let mut first = 0;
    while first < count {
        let left = count - first;
        // SAFETY: the caller's promise.
        first += unsafe {
            match (out.len(), left / V::LANES) {
                (1, 8..) => column_sums::<V, 1, 8>(a.all(), (b, stride), (first, left), out),
                (1, 4..) => column_sums::<V, 1, 4>(a.all(), (b, stride), (first, left), out),
                (1, _) => column_sums::<V, 1, 1>(a.all(), (b, stride), (first, left), out),
                (2, 4..) => column_sums::<V, 2, 4>(a.all(), (b, stride), (first, left), out),
                (2, _) => column_sums::<V, 2, 1>(a.all(), (b, stride), (first, left), out),
                (3, 2..) => column_sums::<V, 3, 2>(a.all(), (b, stride), (first, left), out),
                (3, _) => column_sums::<V, 3, 1>(a.all(), (b, stride), (first, left), out),
                (_, 2..) => column_sums::<V, 4, 2>(a.all(), (b, stride), (first, left), out),
                (_, _) => column_sums::<V, 4, 1>(a.all(), (b, stride), (first, left), out),
            }
        };
    }
}

/// Sums of `W` vectors of columns, or of the `left` columns if these are fewer, for some rows.
/// Returns the number of columns.
///
/// # Safety
/// The instruction set of `V` is available.
#[inline(always)]
unsafe fn column_sums<V: Vector, const R: usize, const W: usize>(
    a: [&[f32]; R],
    (b, stride): (&[UnalignedF32], usize),
    (first, left): (usize, usize),
    out: &mut [&mut [f32]],
) -> usize {
    let columns = left.min(W * V::LANES);
    let lanes = columns.min(V::LANES);
    debug_assert!(W == 1 || columns == W * V::LANES);
    // SAFETY: the caller's promise; loads and stores are within the slices.
    unsafe {
        let mut sums = [[V::splat(-0.0); W]; R];
        let mut chains = [[V::zero(); W]; R];
        for block in KBlocks::of_row(a[0].len()).iter() {
            for k in block {
                let own = b[k * stride + first..][..columns].as_ptr().cast::<f32>();
                for w in 0..W {
                    let from = own.add(w * V::LANES);
                    let y =
                        if lanes < V::LANES { V::load_masked(from, lanes) } else { V::load(from) };
                    for r in 0..R {
                        chains[r][w] = V::splat(a[r][k]).fma(y, chains[r][w]);
                    }
                }
            }
            end_blocks(&mut chains, &mut sums);
        }
        for (sums, line) in sums.iter().zip(out) {
            let line = &mut line[first..][..columns];
            for (sum, to) in sums.iter().zip(line.chunks_mut(V::LANES)) {
                sum.store_masked(to.as_mut_ptr(), to.len());
            }
        }
    }
    columns
}
