//! Products of the same few rows by several matrices, as one job: for the queries, keys and values of one
//! token, threads take nearly as long to begin as to multiply.

use super::divide::{GRAIN, TILES_PER_THREAD, Tile};
use super::{FEW_ROWS, Left, Precision, Product, micro};
use crate::par::{Slice, Threads};
use std::ops::Range;

/// Whether products of so many rows can be computed together.
pub fn are_few(rows: usize, precision: Precision) -> bool {
    rows <= FEW_ROWS && precision == Precision::F32
}

/// Computes each product into the output at its place.
///
/// # Panics
/// When a slice is too short, when a product has more rows than [`are_few`] allows, or when its rows do
/// not lie one behind the other.
pub fn run_together(threads: &Threads, products: &[Product<'_>], outputs: &mut [&mut [f32]]) {
    assert_eq!(products.len(), outputs.len());
    for (product, c) in products.iter().zip(&*outputs) {
        product.check(c.len());
        let lie_behind = matches!(product.a, Left::Rows { .. });
        assert!(are_few(product.m, product.precision) && lie_behind, "they are not of this kind");
        assert!(product.panels().is_some() || product.is_thin(), "B has to be packed for each");
    }
    let outputs: Vec<Slice<f32>> = outputs.iter_mut().map(|c| Slice::new(c)).collect();
    let work: usize = products.iter().map(|p| (p.m + 3) * p.n * p.k.max(1)).sum();
    let parts = if work <= GRAIN { 1 } else { threads.count() * TILES_PER_THREAD };
    threads.run(parts, &|part, _| {
        for (i, (product, c)) in products.iter().zip(&outputs).enumerate() {
            let own = columns(product, part, parts);
            if product.m == 0 || own.is_empty() {
                continue;
            }
            let next = products.get(i + 1);
            let later = next.and_then(|next| next.panels_at(columns(next, part, parts).start));
            let (rows, is_thin) = ((0, product.m), product.is_thin());
            let tile = Tile { rows, columns: (own.start, own.end), is_thin };
            product.compute(tile, later.unwrap_or_default(), &mut [], *c);
        }
    });
}

/// The columns of a part: whole panels.
fn columns(product: &Product<'_>, part: usize, parts: usize) -> Range<usize> {
    let (_, width) = micro::shape();
    let panels = product.n.div_ceil(width);
    let at = |part: usize| (panels * part / parts * width).min(product.n);
    at(part)..at(part + 1)
}
