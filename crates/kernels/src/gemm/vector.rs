//! Products with few rows: B is read once, where it lies.

use super::{Layout, Product, Tile, finish};
use crate::multiversion;
use crate::num::Loose;
use crate::par::Slice;
use crate::simd::{SIDE, turn};

/// Computes a tile of a product with few rows.
pub(super) fn tile(
    p: &Product<'_>,
    tile: Tile,
    (a, a_stride): (&[f32], usize),
    (b, layout): (&[Loose], Layout),
    c: Slice<f32>,
) {
    let (left, right) = tile.columns;
    for row in tile.rows.0..tile.rows.1 {
        let a = &a[row * a_stride..][..p.k];
        // SAFETY: within C, and tiles are disjoint.
        let out =
            unsafe { std::slice::from_raw_parts_mut(c.at(row * p.c_stride + left), right - left) };
        match layout {
            Layout::Columns { stride } => dots(a, &b[left * stride..], stride, out),
            Layout::Rows { stride } => sums(a, &b[left..], stride, out),
            Layout::Kernel { .. } => unreachable!("windows are never thin"),
        }
    }
    // SAFETY: as above.
    unsafe { finish(p.steps, tile.rows.0..tile.rows.1, left..right, p.c_stride, c) };
}

multiversion! {
    /// Products of `a` with rows of `b`, each a chain along k: the rows of a block are turned to
    /// stand side by side.
    fn dots(a: &[f32], b: &[Loose], stride: usize, out: &mut [f32]) {
        let whole = out.len() / SIDE * SIDE;
        let (groups, rest) = out.split_at_mut(whole);
        for (i, out) in groups.chunks_exact_mut(SIDE).enumerate() {
            block_dots(a, &b[i * SIDE * stride..], stride, out);
        }
        for (i, out) in rest.iter_mut().enumerate() {
            let row = &b[(whole + i) * stride..][..a.len()];
            *out = 0.0;
            for (x, y) in a.iter().zip(row) {
                *out = x.mul_add(y.get(), *out);
            }
        }
    }
}

/// Products of `a` with the first [`SIDE`] rows of `b`.
#[inline(always)]
fn block_dots(a: &[f32], b: &[Loose], stride: usize, out: &mut [f32]) {
    let mut sums = [0f32; SIDE];
    let whole = a.len() / SIDE * SIDE;
    for k in (0..whole).step_by(SIDE) {
        let block = turn(&b[k..], stride);
        for i in 0..SIDE {
            for lane in 0..SIDE {
                sums[lane] = a[k + i].mul_add(block[i][lane], sums[lane]);
            }
        }
    }
    for k in whole..a.len() {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum = a[k].mul_add(b[lane * stride + k].get(), *sum);
        }
    }
    out.copy_from_slice(&sums);
}

/// Columns whose sums are kept in registers.
const WIDE: usize = 64;

multiversion! {
    /// Sums of rows of `b`, each times an element of `a`, along k in order.
    fn sums(a: &[f32], b: &[Loose], stride: usize, out: &mut [f32]) {
        let mut groups = out.chunks_exact_mut(WIDE);
        let mut first = 0;
        for out in &mut groups {
            let mut sum = [0f32; WIDE];
            for (k, x) in a.iter().enumerate() {
                let row = &b[k * stride + first..][..WIDE];
                for (sum, y) in sum.iter_mut().zip(row) {
                    *sum = x.mul_add(y.get(), *sum);
                }
            }
            out.copy_from_slice(&sum);
            first += WIDE;
        }
        let out = groups.into_remainder();
        out.fill(0.0);
        for (k, x) in a.iter().enumerate() {
            let row = &b[k * stride + first..][..out.len()];
            for (sum, y) in out.iter_mut().zip(row) {
                *sum = x.mul_add(y.get(), *sum);
            }
        }
    }
}
