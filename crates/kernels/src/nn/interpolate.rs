//! Interpolation: weighted sums along axes, one axis after the other.

use crate::base::num::{Pod, Stored, bf16, f16};
use crate::base::par::{Slice, Threads};
use crate::math::convert::Ways;
use crate::math::real::Real;
use crate::multiversion;

/// An element type that can be averaged: floats in f32 or f64, integers in f64.
pub trait Pixel: Stored {
    /// The type of the sums.
    type Sum: Real + Pod;

    /// The value.
    fn load(self) -> Self::Sum;

    /// The nearest value, ties to even; integers saturate.
    fn save(sum: Self::Sum) -> Self;

    /// Conversions of elements to sums and back.
    const WAYS: Ways<Self::Sum>;
}

macro_rules! pixels {
    ($($t:ty: $sum:ty, |$v:ident| $load:expr, |$s:ident| $save:expr, $ways:expr);* $(;)?) => {
        $(impl Pixel for $t {
            type Sum = $sum;
            const WAYS: Ways<$sum> = $ways;

            #[inline(always)]
            fn load(self) -> $sum {
                let $v = self;
                $load
            }

            #[inline(always)]
            fn save($s: $sum) -> $t {
                $save
            }
        })*
    };
    (integers $($t:ty),*) => {
        pixels!($($t: f64, |v| v as f64, |s| s.round_even() as $t, Some((load::<$t>, save::<$t>)));*);
    };
}

pixels! {
    f32: f32, |v| v, |s| s, None;
    f64: f64, |v| v, |s| s, None;
    f16: f32, |v| v.widen(), |s| f16::from_f32(s), Some((load::<f16>, save::<f16>));
    bf16: f32, |v| v.widen(), |s| bf16::from_f32(s), Some((load::<bf16>, save::<bf16>));
}
pixels!(integers u8, u16, u32, u64, i8, i16, i32, i64);

multiversion! {
    fn load<T: Pixel>(from: &[u8], to: &mut [T::Sum]) {
        for (from, to) in from.chunks_exact(size_of::<T>()).zip(to) {
            // SAFETY: there are as many bytes as the value has; every bit pattern is a value.
            *to = unsafe { from.as_ptr().cast::<T>().read_unaligned() }.load();
        }
    }
}

multiversion! {
    fn save<T: Pixel>(from: &[T::Sum], to: &mut [u8]) {
        for (from, to) in from.iter().zip(to.chunks_exact_mut(size_of::<T>())) {
            // SAFETY: there are as many bytes as the value has.
            unsafe { to.as_mut_ptr().cast::<T>().write_unaligned(T::save(*from)) };
        }
    }
}

/// The taps of each element of a resized axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taps {
    /// The end of each element's taps; they begin at the end of the previous element's.
    ends: Vec<usize>,
    /// Indices along the axis, and their weights.
    taps: Vec<(usize, f64)>,
}

impl Taps {
    /// Adds an element. Without taps it is 0.
    pub fn push(&mut self, taps: impl IntoIterator<Item = (usize, f64)>) {
        self.taps.extend(taps);
        self.ends.push(self.taps.len());
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The taps of each element.
    fn each(&self) -> impl Iterator<Item = &[(usize, f64)]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.taps[*start..*end])
    }

    /// The same with two taps for each element; a single tap is split in halves. `None` if an
    /// element has another number of taps.
    fn in_pairs(&self) -> Option<Taps> {
        let mut pairs = Taps::default();
        for taps in self.each() {
            match *taps {
                [(i, w)] => pairs.push([(i, w / 2.0), (i, w / 2.0)]),
                [a, b] => pairs.push([a, b]),
                _ => return None,
            }
        }
        Some(pairs)
    }
}

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
}

/// A resampling of some axes.
pub struct Resample<W> {
    /// Independent parts of the tensor: the product of the axes before the first that is resampled.
    blocks: usize,
    passes: Vec<Pass<W>>,
}

/// Multiplications that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Columns that are summed at a time.
const COLUMNS: usize = 64;

impl<W: Real> Resample<W> {
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
            let input = sizes[*axis];
            let pairs = taps.in_pairs();
            let taps = pairs.as_ref().unwrap_or(taps);
            assert!(taps.taps.iter().all(|(i, _)| *i < input), "a tap lies outside its axis");
            let pass = Pass {
                outer: product(&sizes[first..*axis]),
                input,
                inner: product(&sizes[axis + 1..]),
                ends: taps.ends.clone(),
                paired: pairs.is_some(),
                index: taps.taps.iter().map(|(i, _)| *i).collect(),
                weight: taps.taps.iter().map(|(_, w)| W::of(*w)).collect(),
            };
            sizes[*axis] = taps.len();
            pass
        });
        Resample { blocks, passes: passes.collect() }
    }

    /// Resamples. Between two axes, values are rounded by `round`.
    ///
    /// # Panics
    /// When a slice does not have the size of the resampling.
    pub fn run(
        &self,
        threads: &Threads,
        round: &(dyn Fn(&mut [W]) + Sync),
        from: &[W],
        to: &mut [W],
    ) {
        let [first, .., last] = &self.passes[..] else {
            return self.passes[0].run(threads, self.blocks, from, to);
        };
        let (input, output) = (first.input_len(), last.output_len());
        assert_eq!((from.len(), to.len()), (self.blocks * input, self.blocks * output));
        let between = self.passes.iter().map(Pass::input_len).skip(1).max().unwrap_or(0);
        // If there are fewer blocks than threads, each block is divided instead.
        let few = self.blocks < threads.count();
        let grain = if few { self.blocks } else { GRAIN.div_ceil(output.max(1)) };
        let out = Slice::new(to);
        threads.par_ranges(self.blocks, grain, |blocks| {
            let (mut a, mut b) = (vec![W::default(); between], vec![W::default(); between]);
            for block in blocks {
                let to = &mut a[..first.output_len()];
                first.run(threads, 1, &from[block * input..][..input], to);
                round(to);
                for pass in &self.passes[1..self.passes.len() - 1] {
                    let to = &mut b[..pass.output_len()];
                    pass.run(threads, 1, &a[..pass.input_len()], to);
                    round(to);
                    std::mem::swap(&mut a, &mut b);
                }
                // SAFETY: blocks are disjoint parts of the output.
                let to = unsafe { out.part(block * output, output) };
                last.run(threads, 1, &a[..last.input_len()], to);
            }
        });
    }
}

impl<W: Real> Pass<W> {
    fn input_len(&self) -> usize {
        self.outer * self.input * self.inner
    }

    fn output_len(&self) -> usize {
        self.outer * self.ends.len() * self.inner
    }

    fn run(&self, threads: &Threads, blocks: usize, from: &[W], to: &mut [W]) {
        let (output, inner) = (self.ends.len(), self.inner);
        assert_eq!((from.len(), to.len()), (blocks * self.input_len(), blocks * self.output_len()));
        let taps = self.index.len().div_ceil(output.max(1)).max(1);
        if inner == 1 {
            let (row, index, weight) = (self.input, &self.index, &self.weight);
            let ends = if self.paired { &[] } else { &self.ends[..] };
            return threads.par_chunks_mut(to, output, GRAIN.div_ceil(taps), |first, rows| {
                for (i, to) in rows.chunks_mut(output).enumerate() {
                    along(&from[(first + i) * row..][..row], ends, index, weight, to);
                }
            });
        }
        threads.par_chunks_mut(to, inner, GRAIN.div_ceil(taps), |mut first, mut rows| {
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
                        let taps = if row == 0 { 0 } else { self.ends[row - 1] }..self.ends[row];
                        over(from, &self.index[taps.clone()], &self.weight[taps], to);
                    }
                }
                first += count;
            }
        });
    }
}

multiversion! {
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

/// Selects elements of a tensor, axis by axis.
pub struct Pick {
    /// For each axis that matters, the offset of each of its choices.
    axes: Vec<Vec<usize>>,
    /// Elements that move together.
    inner: usize,
    /// Elements of the data up to the last that can be selected.
    reach: usize,
}

impl Pick {
    /// Selects from a tensor of `sizes`: on each axis the listed elements, or all.
    pub fn new(sizes: &[usize], choices: &[Option<Vec<usize>>]) -> Pick {
        let mut stride = 1;
        let mut pick = Pick { axes: Vec::new(), inner: 1, reach: 0 };
        for (size, choice) in sizes.iter().zip(choices).rev() {
            match choice {
                None if pick.axes.is_empty() => pick.inner *= size,
                None => pick.axes.push((0..*size).map(|i| i * stride).collect()),
                Some(choice) => pick.axes.push(choice.iter().map(|i| i * stride).collect()),
            }
            stride *= size;
        }
        pick.axes.reverse();
        let last = |axis: &Vec<usize>| axis.iter().max().copied().unwrap_or(0);
        pick.reach = pick.axes.iter().map(last).sum::<usize>() + pick.inner;
        pick
    }

    /// Copies the selected elements.
    ///
    /// # Panics
    /// When the output does not have the size of the selection, or a choice is outside the data.
    pub fn run<T: Pod>(&self, threads: &Threads, from: &[T], to: &mut [T]) {
        let (outer, last) = match self.axes.split_last() {
            Some((last, outer)) => (outer, &last[..]),
            None => (&[][..], &[0][..]),
        };
        let row = last.len() * self.inner;
        assert_eq!(to.len(), outer.iter().map(Vec::len).product::<usize>() * row);
        if to.is_empty() {
            return;
        }
        assert!(self.reach <= from.len(), "a choice lies outside the data");
        threads.par_chunks_mut(to, row, GRAIN, |first, rows| {
            for (i, to) in rows.chunks_mut(row).enumerate() {
                let mut rest = first + i;
                let mut base = 0;
                for axis in outer.iter().rev() {
                    base += axis[rest % axis.len()];
                    rest /= axis.len();
                }
                let from = &from[base..];
                if self.inner == 1 {
                    to.iter_mut().zip(last).for_each(|(to, at)| *to = from[*at]);
                    continue;
                }
                for (to, at) in to.chunks_mut(self.inner).zip(last) {
                    to.copy_from_slice(&from[*at..][..self.inner]);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(size: usize) -> Taps {
        let mut taps = Taps::default();
        (0..size / 2).for_each(|i| taps.push([(2 * i, 0.5), (2 * i + 1, 0.5)]));
        taps
    }

    #[test]
    fn axes_are_averaged_in_any_order() {
        let data: Vec<f32> = (0..2 * 4 * 6 * 3).map(|i: usize| (i * i % 97) as f32).collect();
        let expected: Vec<f32> = (0..2 * 2 * 3 * 3)
            .map(|i: usize| {
                let (n, y, x, c) = (i / 18, i / 9 % 2, i / 3 % 3, i % 3);
                let at = |dy, dx| data[((n * 4 + 2 * y + dy) * 6 + 2 * x + dx) * 3 + c];
                (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0
            })
            .collect();
        let (y, x) = ((1, halves(4)), (2, halves(6)));
        for axes in [[y.clone(), x.clone()], [x, y]] {
            let mut out = vec![0.0; expected.len()];
            let resample = Resample::new(&[2, 4, 6, 3], &axes);
            resample.run(&Threads::new(3), &|_| (), &data, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn integers_round_and_saturate() {
        let mut taps = Taps::default();
        taps.push([(0, 0.5)]);
        taps.push([(0, 2.0), (1, 1.0)]);
        taps.push([]);
        let ((load, save), (mut data, mut sums)) = (u8::WAYS.unwrap(), ([0.0; 2], [0.0; 3]));
        load(&[101, 70], &mut data);
        Resample::new(&[2], &[(0, taps)]).run(Threads::single(), &|_| (), &data, &mut sums);
        let mut out = [9; 3];
        save(&sums, &mut out);
        assert_eq!(out, [50, 255, 0]);
    }

    #[test]
    fn elements_are_picked() {
        let data: Vec<u8> = (0..24).collect();
        let pick = Pick::new(&[2, 3, 4], &[None, Some(vec![2, 0]), None]);
        let mut out = [0; 16];
        pick.run(Threads::single(), &data, &mut out);
        assert_eq!(out, [8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15]);
        let pick = Pick::new(&[2, 3, 4], &[Some(vec![1]), None, Some(vec![3, 3])]);
        let mut out = [0; 6];
        pick.run(Threads::single(), &data, &mut out);
        assert_eq!(out, [15, 15, 19, 19, 23, 23]);
    }
}
