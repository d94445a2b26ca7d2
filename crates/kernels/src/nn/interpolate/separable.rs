//! Separable interpolation: weighted sums along axes, one axis after the other.

use super::GRAIN;
use super::lookup::RowLookup;
use super::taps::Taps;
use crate::base::num::Pod;
use crate::base::par::{Slice, Threads};
use crate::math::real::Real;
use crate::multiversion;
use bytemuck::{cast_slice, cast_slice_mut};
use std::ops::Range;

/// The resampling of one axis: `outer` times `input` runs of `inner` elements.
struct Pass<W> {
    outer: usize,
    input: usize,
    inner: usize,
    ends: Vec<usize>,
    /// Whether each element has two taps.
    paired: bool,
    index: Vec<usize>,
    weight: Vec<W>,
    /// The same as lookups in registers, if runs are single elements of f32.
    lookup: Option<RowLookup>,
}

/// A resampling of some axes.
pub struct Resample<W> {
    /// Independent parts of the tensor: the product of the axes before the first that is resampled.
    blocks: usize,
    passes: Vec<Pass<W>>,
    /// Whether the last pass is along the first of the axes. Each element of that axis is then a
    /// line that the other passes resample by itself.
    has_lines: bool,
}

/// Columns that are summed at a time.
const COLUMNS: usize = 64;

impl<W: Real + Pod> Resample<W> {
    /// A resampling of some axes of a tensor of `sizes`, in the given order.
    ///
    /// # Panics
    /// When there is no axis, or a tap is outside its axis.
    pub fn new(sizes: &[usize], axes: &[(usize, Taps)]) -> Resample<W> {
        let first = axes.iter().map(|(axis, _)| *axis).min().expect("an axis to resample");
        let product = |sizes: &[usize]| sizes.iter().product::<usize>();
        let blocks = product(&sizes[..first]);
        let mut sizes = sizes.to_vec();
        let passes = axes.iter().map(|(axis, taps)| {
            let outer = product(&sizes[first..*axis]);
            let pass = Pass::new(taps, [outer, sizes[*axis], product(&sizes[axis + 1..])]);
            sizes[*axis] = taps.len();
            pass
        });
        let passes = passes.collect();
        let has_lines = axes.len() > 1 && axes[axes.len() - 1].0 == first;
        Resample { blocks, passes, has_lines }
    }

    /// Elements of scratch memory for so many threads.
    pub fn scratch_len(&self, threads: usize) -> usize {
        threads * self.own_scratch_len()
    }

    /// Elements of scratch memory for one thread.
    fn own_scratch_len(&self) -> usize {
        match self.lines() {
            Some((before, last)) => last.reach() * last.inner + 2 * between(before, last.input),
            None => 2 * between(&self.passes, 1),
        }
    }

    /// The passes before the last, and the last, if there are lines.
    fn lines(&self) -> Option<(&[Pass<W>], &Pass<W>)> {
        let (last, before) = self.passes.split_last()?;
        self.has_lines.then_some((before, last))
    }

    /// Resamples. Between two axes, values are rounded by `round`.
    ///
    /// # Panics
    /// When a slice does not have the size of the resampling, or `scratch` is shorter than
    /// [`Resample::scratch_len`] says.
    pub fn run(
        &self,
        threads: &Threads,
        round: &(dyn Fn(&mut [W]) + Sync),
        from: &[W],
        to: &mut [W],
        scratch: &mut [W],
    ) {
        let (first, last) = (&self.passes[0], &self.passes[self.passes.len() - 1]);
        let (input, output) = (first.input_len(), last.output_len());
        assert_eq!((from.len(), to.len()), (self.blocks * input, self.blocks * output));
        assert!(scratch.len() >= self.scratch_len(threads.count()), "scratch memory is too short");
        if to.is_empty() {
            return;
        }
        if self.passes.len() == 1 {
            return first.run(threads, from, to);
        }
        match self.lines() {
            Some(lines) => self.by_lines(lines, threads, round, from, to, scratch),
            None => self.by_axes(threads, round, from, to, scratch),
        }
    }

    /// Resamples lines as the last axis needs them, so that a few of them are in the caches.
    fn by_lines(
        &self,
        (before, last): (&[Pass<W>], &Pass<W>),
        threads: &Threads,
        round: &(dyn Fn(&mut [W]) + Sync),
        from: &[W],
        to: &mut [W],
        scratch: &mut [W],
    ) {
        let (rows, slots, own) = (last.ends.len(), last.reach(), self.own_scratch_len());
        let line = from.len() / (self.blocks * last.input).max(1);
        let (out, scratch) = (Slice::new(to), Slice::new(scratch));
        let grain = GRAIN.div_ceil((last.inner * last.average_taps()).max(1));
        threads.par_ranges_with(self.blocks * rows, grain, |units, worker| {
            // SAFETY: each worker has a part of its own.
            let own = unsafe { scratch.part(worker * own, own) };
            let (lines, between) = own.split_at_mut(slots * last.inner);
            // What is in each slot, and the slots of the taps.
            let (mut held, mut taken) = (vec![None; slots], Vec::new());
            for unit in units {
                let (block, row) = (unit / rows, unit % rows);
                let taps = last.taps(row);
                taken.clear();
                for index in &last.index[taps.clone()] {
                    let (slot, at) = (index % slots, block * last.input + index);
                    if held[slot].replace(at) != Some(at) {
                        let to = &mut lines[slot * last.inner..][..last.inner];
                        let from = &from[at * line..][..line];
                        chain(before, last.input, Threads::single(), round, from, to, between);
                        round(to);
                    }
                    taken.push(slot);
                }
                // SAFETY: units are disjoint parts of the output.
                let to = unsafe { out.part(unit * last.inner, last.inner) };
                let weight = &last.weight[taps];
                if last.paired {
                    pairs(lines, &taken, weight, last.inner, to);
                } else {
                    over(lines, &taken, weight, to);
                }
            }
        });
    }

    /// Resamples each block axis by axis.
    fn by_axes(
        &self,
        threads: &Threads,
        round: &(dyn Fn(&mut [W]) + Sync),
        from: &[W],
        to: &mut [W],
        scratch: &mut [W],
    ) {
        let (input, output) = (from.len() / self.blocks.max(1), to.len() / self.blocks.max(1));
        let own = self.own_scratch_len();
        // If there are fewer blocks than threads, each block is divided instead.
        let few = self.blocks < threads.count();
        let grain = if few { self.blocks } else { GRAIN.div_ceil(output.max(1)) };
        let (out, scratch) = (Slice::new(to), Slice::new(scratch));
        threads.par_ranges_with(self.blocks, grain, |blocks, worker| {
            // SAFETY: each worker has a part of its own.
            let own = unsafe { scratch.part(worker * own, own) };
            for block in blocks {
                // SAFETY: blocks are disjoint parts of the output.
                let to = unsafe { out.part(block * output, output) };
                chain(&self.passes, 1, threads, round, &from[block * input..][..input], to, own);
            }
        });
    }
}

/// The most elements between two passes, for one of `lines` lines.
fn between<W: Real + Pod>(passes: &[Pass<W>], lines: usize) -> usize {
    passes.iter().skip(1).map(|pass| pass.input_len() / lines.max(1)).max().unwrap_or(0)
}

/// Resamples one of `lines` lines, pass by pass; `between` are two buffers for what is between
/// them, each [`between`] long.
fn chain<W: Real + Pod>(
    passes: &[Pass<W>],
    lines: usize,
    threads: &Threads,
    round: &(dyn Fn(&mut [W]) + Sync),
    from: &[W],
    to: &mut [W],
    between: &mut [W],
) {
    let [first, middle @ .., last] = passes else {
        return passes.iter().for_each(|only| only.run(threads, from, to));
    };
    let (mut a, mut b) = between.split_at_mut(between.len() / 2);
    let made = &mut a[..first.output_len() / lines];
    first.run(threads, from, made);
    round(made);
    for pass in middle {
        let made = &mut b[..pass.output_len() / lines];
        pass.run(threads, &a[..pass.input_len() / lines], made);
        round(made);
        std::mem::swap(&mut a, &mut b);
    }
    last.run(threads, &a[..last.input_len() / lines], to);
}

impl<W: Real + Pod> Pass<W> {
    /// A pass over an axis; `sizes` are those of the axes before it, of the axis, and of those
    /// behind it.
    ///
    /// # Panics
    /// When a tap is outside the axis.
    fn new(taps: &Taps, sizes: [usize; 3]) -> Pass<W> {
        let [outer, input, inner] = sizes;
        let pairs = taps.in_pairs();
        let taps = pairs.as_ref().unwrap_or(taps);
        assert!(taps.taps.iter().all(|(i, _)| *i < input), "a tap lies outside its axis");
        // Sums of other types are in f64.
        let is_row = inner == 1 && size_of::<W>() == size_of::<f32>();
        Pass {
            outer,
            input,
            inner,
            ends: taps.ends.clone(),
            paired: pairs.is_some(),
            index: taps.taps.iter().map(|(i, _)| *i).collect(),
            weight: taps.taps.iter().map(|(_, w)| W::of(*w)).collect(),
            lookup: if is_row { RowLookup::new(taps, input) } else { None },
        }
    }

    fn input_len(&self) -> usize {
        self.outer * self.input * self.inner
    }

    fn output_len(&self) -> usize {
        self.outer * self.ends.len() * self.inner
    }

    /// The taps of an element.
    fn taps(&self, element: usize) -> Range<usize> {
        let start = element.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[element]
    }

    /// The most elements of the axis from the first tap of an element to its last.
    fn reach(&self) -> usize {
        let reach = |element: usize| {
            let indices = self.index[self.taps(element)].iter();
            let least = indices.clone().min().copied().unwrap_or(0);
            indices.max().map_or(0, |most| most - least + 1)
        };
        (0..self.ends.len()).map(reach).max().unwrap_or(0)
    }

    /// Taps of an element, on average.
    fn average_taps(&self) -> usize {
        self.index.len().div_ceil(self.ends.len().max(1)).max(1)
    }

    /// Resamples all runs of `from`.
    fn run(&self, threads: &Threads, from: &[W], to: &mut [W]) {
        let (output, inner) = (self.ends.len(), self.inner);
        let grain = GRAIN.div_ceil(self.average_taps());
        if inner == 1 {
            return threads.par_chunks_mut(to, output, grain, |first, rows| {
                let count = rows.len() / output;
                self.rows(&from[first * self.input..][..count * self.input], rows);
            });
        }
        threads.par_chunks_mut(to, inner, grain, |mut first, mut rows| {
            while !rows.is_empty() {
                let (outer, row) = (first / output, first % output);
                let count = (output - row).min(rows.len() / inner);
                let from = &from[outer * self.input * inner..][..self.input * inner];
                let to;
                (to, rows) = rows.split_at_mut(count * inner);
                if self.paired {
                    pairs(from, &self.index[2 * row..], &self.weight[2 * row..], inner, to)
                } else {
                    for (row, to) in (row..).zip(to.chunks_mut(inner)) {
                        let taps = self.taps(row);
                        over(from, &self.index[taps.clone()], &self.weight[taps], to);
                    }
                }
                first += count;
            }
        });
    }

    /// Resamples rows whose elements are single.
    fn rows(&self, from: &[W], to: &mut [W]) {
        if let Some(lookup) = &self.lookup
            && lookup.sums(cast_slice(from), cast_slice_mut(to))
        {
            return;
        }
        let ends = if self.paired { &[] } else { &self.ends[..] };
        for (from, to) in from.chunks(self.input).zip(to.chunks_mut(self.ends.len())) {
            along(from, ends, &self.index, &self.weight, to);
        }
    }
}

multiversion! {
    vectors if size_of::<W>() <= size_of::<f32>();
    /// Sums along a row. Without `ends`, each element has two taps.
    fn along<W: Real>(
        from: &[W],
        ends: &[usize],
        index: &[usize],
        weight: &[W],
        to: &mut [W],
    ) {
        let sum = |index: &[usize], weight: &[W]| {
            let taps = index.iter().zip(weight);
            taps.fold(W::of(0.0), |sum, (i, w)| sum + *w * from[*i])
        };
        if ends.is_empty() {
            let pairs = index.as_chunks::<2>().0.iter().zip(weight.as_chunks::<2>().0);
            for (to, (&[a, b], &[wa, wb])) in to.iter_mut().zip(pairs) {
                *to = W::of(0.0) + wa * from[a] + wb * from[b];
            }
            return;
        }
        let mut start = 0;
        for (to, end) in to.iter_mut().zip(ends) {
            *to = sum(&index[start..*end], &weight[start..*end]);
            start = *end;
        }
    }
}

multiversion! {
    vectors if size_of::<W>() <= size_of::<f32>();
    /// Sums of two rows of `inner` elements, for each row of the output.
    fn pairs<W: Real>(
        from: &[W],
        index: &[usize],
        weight: &[W],
        inner: usize,
        to: &mut [W],
    ) {
        for (row, to) in to.chunks_exact_mut(inner).enumerate() {
            let (a, b) = (index[2 * row] * inner, index[2 * row + 1] * inner);
            let (wa, wb) = (weight[2 * row], weight[2 * row + 1]);
            let both = from[a..][..inner].iter().zip(&from[b..][..inner]);
            for (to, (a, b)) in to.iter_mut().zip(both) {
                *to = W::of(0.0) + wa * *a + wb * *b;
            }
        }
    }
}

multiversion! {
    vectors if size_of::<W>() <= size_of::<f32>();
    /// Sums of rows that are as long as the output.
    fn over<W: Real>(
        from: &[W],
        index: &[usize],
        weight: &[W],
        to: &mut [W],
    ) {
        let len = to.len();
        for (block, to) in to.chunks_mut(COLUMNS).enumerate() {
            let mut sums = [W::of(0.0); COLUMNS];
            for (i, w) in index.iter().zip(weight) {
                let row = &from[i * len + block * COLUMNS..][..to.len()];
                for (sum, x) in sums.iter_mut().zip(row) {
                    *sum = *sum + *w * *x;
                }
            }
            to.copy_from_slice(&sums[..to.len()]);
        }
    }
}
