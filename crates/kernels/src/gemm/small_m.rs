//! GEMM with few rows (small m): B is read once, unpacked.

use super::k_blocks::{KBlocks, end_block};
use super::pack::b::Layout;
use super::post_ops::finish;
use super::problem::Gemm;
use super::tiling::Tile;
use crate::base::num::UnalignedF32;
use crate::base::par::Slice;
use crate::base::simd::{TRANSPOSE_DIM, transpose_16x16};
use crate::multiversion;

/// Computes a tile of a GEMM with few rows.
pub(super) fn tile(
    p: &Gemm<'_>,
    tile: Tile,
    (a, a_stride): (&[f32], usize),
    (b, layout): (&[UnalignedF32], Layout),
    c: Slice<f32>,
) {
    let (left, right) = tile.columns;
    let (mut row, end) = tile.rows;
    while row < end {
        let rows = (end - row).min(ROWS_AT_A_TIME);
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
        match layout {
            Layout::Columns { stride } => dots(a, &b[left * stride..], stride, out),
            Layout::Rows { stride } => sums(a, &b[left..], stride, out),
            Layout::Kernel { .. } => unreachable!("windows are never thin"),
        }
    }
    // SAFETY: as above.
    unsafe { finish(p.post_ops, tile.rows.0..tile.rows.1, left..right, p.c_stride, c) };
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
        std::array::from_fn(|i| &self.values[i * self.stride..][..self.terms])
    }
}

multiversion! {
    /// Dot products of rows of `a` with rows of `b`, each a chain for each block along k. Squares
    /// of `b` are transposed so that its rows become lanes.
    fn dots(a: LhsSlice<'_>, b: &[UnalignedF32], stride: usize, out: &mut [&mut [f32]]) {
        let count = out.first().map_or(0, |line| line.len());
        let whole = count / TRANSPOSE_DIM * TRANSPOSE_DIM;
        for first in (0..whole).step_by(TRANSPOSE_DIM) {
            let b = &b[first * stride..];
            match out.len() {
                1 => block_dots::<1>(a.all(), b, stride, first, out),
                2 => block_dots::<2>(a.all(), b, stride, first, out),
                3 => block_dots::<3>(a.all(), b, stride, first, out),
                _ => block_dots::<ROWS_AT_A_TIME>(a.all(), b, stride, first, out),
            }
        }
        for first in whole..count {
            let own = &b[first * stride..][..a.terms];
            for (i, line) in out.iter_mut().enumerate() {
                let row = &a.values[i * a.stride..][..a.terms];
                // The first block's sum is added to -0, which changes no number.
                line[first] = KBlocks::of_row(a.terms).iter().fold(-0.0, |sum, block| {
                    let terms = row[block.clone()].iter().zip(&own[block]);
                    sum + terms.fold(0.0, |chain: f32, (x, y)| x.mul_add(y.get(), chain))
                });
            }
        }
    }
}

/// Dot products of rows of `a` with [`TRANSPOSE_DIM`] rows of `b`.
#[inline(always)]
fn block_dots<const R: usize>(
    a: [&[f32]; R],
    b: &[UnalignedF32],
    stride: usize,
    first: usize,
    out: &mut [&mut [f32]],
) {
    // The first block's sums are added to -0, which changes no number.
    let (mut sums, mut chains) = ([[-0f32; TRANSPOSE_DIM]; R], [[0f32; TRANSPOSE_DIM]; R]);
    for block in KBlocks::of_row(a[0].len()).iter() {
        // All blocks but the last are whole squares.
        let whole = block.start + block.len() / TRANSPOSE_DIM * TRANSPOSE_DIM;
        for k in (block.start..whole).step_by(TRANSPOSE_DIM) {
            let square = transpose_16x16(&b[k..], stride);
            for (a, chains) in a.iter().zip(&mut chains) {
                let a = &a[k..][..TRANSPOSE_DIM];
                for (x, line) in a.iter().zip(&square) {
                    for (chain, y) in chains.iter_mut().zip(line) {
                        *chain = x.mul_add(*y, *chain);
                    }
                }
            }
        }
        for (a, chains) in a.iter().zip(&mut chains) {
            for (k, x) in a.iter().enumerate().take(block.end).skip(whole) {
                for (lane, chain) in chains.iter_mut().enumerate() {
                    *chain = x.mul_add(b[lane * stride + k].get(), *chain);
                }
            }
        }
        chains.iter_mut().zip(&mut sums).for_each(|(chains, sums)| end_block(chains, sums));
    }
    for (sums, line) in sums.iter().zip(out) {
        line[first..first + TRANSPOSE_DIM].copy_from_slice(sums);
    }
}

/// Columns with their sums in registers.
const WIDE: usize = 64;

multiversion! {
    /// Sums of the rows of `b`, each scaled by an element of a row of `a`, in the order of k.
    fn sums(a: LhsSlice<'_>, b: &[UnalignedF32], stride: usize, out: &mut [&mut [f32]]) {
        let count = out.first().map_or(0, |line| line.len());
        let whole = count / WIDE * WIDE;
        for first in (0..whole).step_by(WIDE) {
            let b = &b[first..];
            match out.len() {
                1 => wide_sums::<1>(a.all(), b, stride, first, out),
                2 => wide_sums::<2>(a.all(), b, stride, first, out),
                3 => wide_sums::<3>(a.all(), b, stride, first, out),
                _ => wide_sums::<ROWS_AT_A_TIME>(a.all(), b, stride, first, out),
            }
        }
        for (i, line) in out.iter_mut().enumerate() {
            let row = &a.values[i * a.stride..][..a.terms];
            let line = &mut line[whole..];
            line.fill(-0.0);
            for block in KBlocks::of_row(a.terms).iter() {
                let mut chains = [0f32; WIDE];
                for k in block {
                    let own = &b[k * stride + whole..][..line.len()];
                    for (chain, y) in chains.iter_mut().zip(own) {
                        *chain = row[k].mul_add(y.get(), *chain);
                    }
                }
                end_block(&mut chains, line);
            }
        }
    }
}

/// Sums of [`WIDE`] columns for some rows.
#[inline(always)]
fn wide_sums<const R: usize>(
    a: [&[f32]; R],
    b: &[UnalignedF32],
    stride: usize,
    first: usize,
    out: &mut [&mut [f32]],
) {
    let mut sums = [[-0f32; WIDE]; R];
    for block in KBlocks::of_row(a[0].len()).iter() {
        let mut chains = [[0f32; WIDE]; R];
        for k in block {
            let own = &b[k * stride..][..WIDE];
            for (a, chains) in a.iter().zip(&mut chains) {
                for (chain, y) in chains.iter_mut().zip(own) {
                    *chain = a[k].mul_add(y.get(), *chain);
                }
            }
        }
        chains.iter_mut().zip(&mut sums).for_each(|(chains, sums)| end_block(chains, sums));
    }
    for (sums, line) in sums.iter().zip(out) {
        line[first..first + WIDE].copy_from_slice(sums);
    }
}
