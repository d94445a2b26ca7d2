//! Rows of f32 by table lookups in registers: neighbouring outputs have their taps in a window of
//! two vectors, which one permutation reads.

use super::taps::Taps;
#[cfg(target_arch = "x86_64")]
use crate::base::isa::{Isa, isa};
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512, Lookup};

/// Lanes of the widest vector, and of the narrowest that looks up.
const MOST_LANES: usize = 16;
const FEWEST_LANES: usize = 8;

/// Elements of the widest window.
#[cfg(target_arch = "x86_64")]
const WINDOW: usize = 2 * MOST_LANES;

/// The taps of a row of f32, tap by tap.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowLookup {
    /// Elements of the data's row and of the output's.
    input: usize,
    output: usize,
    /// Taps of each element.
    taps: usize,
    /// For each tap, the index of each element, up to a whole number of the widest vectors.
    index: Vec<i32>,
    /// For each tap, the weight of each element, as many.
    weight: Vec<f32>,
    /// For each group of [`FEWEST_LANES`] elements, the least index.
    least: Vec<usize>,
}

impl RowLookup {
    /// The taps of rows of `input` elements; `None` unless all elements have equally many taps, and
    /// those of a vector of outputs lie in one window.
    pub(super) fn new(taps: &Taps, input: usize) -> Option<RowLookup> {
        let (output, count) = (taps.len(), taps.each().next()?.len());
        let indices = i32::try_from(input);
        if count == 0 || indices.is_err() || taps.each().any(|taps| taps.len() != count) {
            return None;
        }
        let stride = output.next_multiple_of(MOST_LANES);
        let last = taps.taps.len() - count;
        let (mut index, mut weight) = (Vec::new(), Vec::new());
        for tap in 0..count {
            let places = (0..stride).map(|i| (i * count).min(last) + tap);
            index.extend(places.clone().map(|at| taps.taps[at].0 as i32));
            weight.extend(places.map(|at| taps.taps[at].1 as f32));
        }
        let bounds = |lanes: usize| {
            taps.taps.chunks(lanes * count).map(move |group| {
                let indices = group.iter().map(|(index, _)| *index);
                (indices.clone().min().unwrap_or(0), indices.max().unwrap_or(0))
            })
        };
        let fit = |lanes: usize| bounds(lanes).all(|(least, most)| most - least < 2 * lanes);
        let mut least: Vec<usize> = bounds(FEWEST_LANES).map(|(least, _)| least).collect();
        least.resize(stride / FEWEST_LANES, least.last().copied().unwrap_or(0));
        (fit(FEWEST_LANES) && fit(MOST_LANES)).then_some(RowLookup {
            input,
            output,
            taps: count,
            index,
            weight,
            least,
        })
    }

    /// Elements of a row of the data.
    pub(super) fn input(&self) -> usize {
        self.input
    }

    /// Weighted sums, for each row of the data: 0, plus each weight times its element, in the
    /// order of the taps. Whether there are vectors for it; if not, nothing is done.
    ///
    /// # Panics
    /// When the slices are not as many rows of the right length.
    pub(super) fn sums(&self, from: &[f32], to: &mut [f32]) -> bool {
        self.rows::<true>(from, to)
    }

    /// The elements at the first taps, for each row of the data; otherwise as [`RowLookup::sums`].
    ///
    /// # Panics
    /// As [`RowLookup::sums`].
    pub(super) fn elements(&self, from: &[f32], to: &mut [f32]) -> bool {
        self.rows::<false>(from, to)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn rows<const WEIGHTED: bool>(&self, _from: &[f32], _to: &mut [f32]) -> bool {
        false
    }

    #[cfg(target_arch = "x86_64")]
    fn rows<const WEIGHTED: bool>(&self, from: &[f32], to: &mut [f32]) -> bool {
        let rows = (from.chunks_exact(self.input.max(1)), to.chunks_exact_mut(self.output.max(1)));
        assert!(rows.0.len() == rows.1.len(), "as many rows of data as of output");
        let isa = isa();
        if isa < Isa::Avx2 {
            return false;
        }
        for (from, to) in rows.0.zip(rows.1) {
            let mut short = [0.0; WINDOW];
            let from = if self.input < WINDOW {
                short[..self.input].copy_from_slice(from);
                &short
            } else {
                from
            };
            // SAFETY: `isa` is what the CPU has; the row has a window at least.
            unsafe {
                match isa {
                    Isa::Avx512 | Isa::Amx => avx512::<WEIGHTED>(self, from, to),
                    _ => avx2::<WEIGHTED>(self, from, to),
                }
            }
        }
        true
    }

    /// One row; without `WEIGHTED`, the elements at the first taps.
    ///
    /// # Safety
    /// The instruction set of `V` must be available, `from` have [`WINDOW`] elements or more, and
    /// `to` have [`RowLookup::output`].
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn row<V: Lookup, const WEIGHTED: bool>(&self, from: &[f32], to: &mut [f32]) {
        debug_assert!(from.len() >= WINDOW && to.len() == self.output);
        let stride = self.index.len() / self.taps;
        let furthest = from.len() - 2 * V::LANES;
        let groups = self.least.chunks_exact(V::LANES / FEWEST_LANES);
        for (block, groups) in groups.enumerate().take(self.output.div_ceil(V::LANES)) {
            let at = block * V::LANES;
            let least = groups.iter().fold(furthest, |least, group| least.min(*group));
            let reach = least as i32..(least + 2 * V::LANES) as i32;
            let of_tap = |tap: usize| &self.index[tap * stride + at..][..V::LANES];
            debug_assert!((0..self.taps).all(|tap| of_tap(tap).iter().all(|i| reach.contains(i))));
            // SAFETY: the window begins at or before `furthest`; indices and weights are whole
            // vectors; so many elements of the output are left.
            unsafe {
                let window = from.as_ptr().add(least);
                let table = [V::load(window), V::load(window.add(V::LANES))];
                let lookup =
                    |tap: usize| table[0].lookup(table[1], of_tap(tap).as_ptr(), reach.start);
                let mut lanes = V::zero();
                if WEIGHTED {
                    for tap in 0..self.taps {
                        let weight = V::load(self.weight.as_ptr().add(tap * stride + at));
                        lanes = lanes.add(weight.mul(lookup(tap)));
                    }
                } else {
                    lanes = lookup(0);
                }
                let to = to.as_mut_ptr().add(at);
                match self.output - at {
                    left if left < V::LANES => lanes.store_masked(to, left),
                    _ => lanes.store(to),
                }
            }
        }
    }
}

/// # Safety
/// As [`RowLookup::row`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<const WEIGHTED: bool>(rows: &RowLookup, from: &[f32], to: &mut [f32]) {
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise.
    unsafe { rows.row::<Avx512, WEIGHTED>(from, to) }
}

/// # Safety
/// As [`RowLookup::row`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const WEIGHTED: bool>(rows: &RowLookup, from: &[f32], to: &mut [f32]) {
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise.
    unsafe { rows.row::<Avx2, WEIGHTED>(from, to) }
}
