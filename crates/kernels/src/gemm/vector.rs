//! Products with few rows: B is read once, where it lies.

use super::{Layout, Product, Tile};
use crate::multiversion;
use crate::par::Slice;

/// Lanes of a dot product.
const LANES: usize = 16;

/// Columns computed together.
const COLUMNS: usize = 8;

/// Computes a tile of a product with few rows.
pub(super) fn tile(
    p: &Product<'_>,
    tile: Tile,
    (a, a_stride): (&[f32], usize),
    (b, layout): (&[f32], Layout),
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
    p.finish(tile.rows.0..tile.rows.1, left, right, c);
}

multiversion! {
    /// Dot products of `a` with rows of `b`: sixteen lanes each, folded in halves.
    fn dots(a: &[f32], b: &[f32], stride: usize, out: &mut [f32]) {
        for (group, out) in out.chunks_mut(COLUMNS).enumerate() {
            let mut lanes = [[0f32; LANES]; COLUMNS];
            let mut rows = [&b[..0]; COLUMNS];
            for (j, to) in rows.iter_mut().enumerate() {
                let row = group * COLUMNS + j.min(out.len() - 1);
                *to = &b[row * stride..][..a.len()];
            }
            let whole = a.len() / LANES * LANES;
            for k in (0..whole).step_by(LANES) {
                let x = &a[k..k + LANES];
                for (lanes, row) in lanes.iter_mut().zip(&rows) {
                    let y = &row[k..k + LANES];
                    for i in 0..LANES {
                        lanes[i] = x[i].mul_add(y[i], lanes[i]);
                    }
                }
            }
            for k in whole..a.len() {
                for (lanes, row) in lanes.iter_mut().zip(&rows) {
                    lanes[k - whole] = a[k].mul_add(row[k], lanes[k - whole]);
                }
            }
            for (out, lanes) in out.iter_mut().zip(&mut lanes) {
                *out = fold(lanes);
            }
        }
    }
}

/// Adds lanes in halves.
#[inline(always)]
fn fold(lanes: &mut [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Columns whose sums are kept in registers.
const WIDE: usize = 64;

multiversion! {
    /// Sums of rows of `b`, each times an element of `a`, along k in order.
    fn sums(a: &[f32], b: &[f32], stride: usize, out: &mut [f32]) {
        let mut groups = out.chunks_exact_mut(WIDE);
        let mut first = 0;
        for out in &mut groups {
            let mut sum = [0f32; WIDE];
            for (k, x) in a.iter().enumerate() {
                let row = &b[k * stride + first..][..WIDE];
                for (sum, y) in sum.iter_mut().zip(row) {
                    *sum = x.mul_add(*y, *sum);
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
                *sum = x.mul_add(*y, *sum);
            }
        }
    }
}
