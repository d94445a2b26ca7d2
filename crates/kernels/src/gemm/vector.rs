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
        let whole = out.len() / COLUMNS * COLUMNS;
        let (groups, rest) = out.split_at_mut(whole);
        for (i, out) in groups.chunks_exact_mut(COLUMNS).enumerate() {
            some_dots::<COLUMNS>(a, &b[i * COLUMNS * stride..], stride, out);
        }
        for (i, out) in rest.chunks_exact_mut(1).enumerate() {
            some_dots::<1>(a, &b[(whole + i) * stride..], stride, out);
        }
    }
}

/// Dot products of `a` with the first `N` rows of `b`.
#[inline(always)]
fn some_dots<const N: usize>(a: &[f32], b: &[f32], stride: usize, out: &mut [f32]) {
    assert!(b.len() >= (N - 1) * stride + a.len(), "B is too short");
    let mut lanes = [[0f32; LANES]; N];
    let whole = a.len() / LANES * LANES;
    for k in (0..whole).step_by(LANES) {
        let x = &a[k..k + LANES];
        for j in 0..N {
            // SAFETY: row `j` has `a.len()` elements, as the assertion has shown.
            let y = unsafe { std::slice::from_raw_parts(b.as_ptr().add(j * stride + k), LANES) };
            for i in 0..LANES {
                lanes[j][i] = x[i].mul_add(y[i], lanes[j][i]);
            }
        }
    }
    for k in whole..a.len() {
        for j in 0..N {
            lanes[j][k - whole] = a[k].mul_add(b[j * stride + k], lanes[j][k - whole]);
        }
    }
    // Lanes are added in halves, for all rows at once.
    let mut turned = [[0f32; N]; LANES];
    for i in 0..LANES {
        for j in 0..N {
            turned[i][j] = lanes[j][i];
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            for j in 0..N {
                turned[i][j] += turned[i + half][j];
            }
        }
        half /= 2;
    }
    out.copy_from_slice(&turned[0]);
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
