//! A tensor as slices along some of its axes, for functions of a whole slice such as softmax and
//! normalisation.
//!
//! If a slice contains the last axis, it is made of contiguous runs: lane `i` of sixteen takes
//! every sixteenth element, and the lanes are combined in a fixed tree. If not, neighbouring
//! elements belong to different slices, and each of sixteen lanes takes one slice. The choice
//! depends on the axes only, so the bits are the same for any number of threads.

use crate::base::num::{Pod, Stored};
use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::simd::opaque_index;

/// Lanes of a block.
pub const LANES: usize = 16;

/// One value per lane.
pub type Lanes<W> = [W; LANES];

/// Applies a function to each lane. Not the array's `map`, which would be compiled as a function of
/// its own, without the instruction set.
#[inline(always)]
pub fn each<A: Copy, B: Copy + Default>(lanes: Lanes<A>, f: impl Fn(A) -> B) -> Lanes<B> {
    let mut out = [B::default(); LANES];
    for i in 0..LANES {
        out[i] = f(lanes[i]);
    }
    out
}

/// Combines all lanes, in halves; every lane gets the result.
#[inline(always)]
pub fn met<W: Copy>(mut lanes: Lanes<W>, meet: impl Fn(W, W) -> W) -> Lanes<W> {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = meet(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    [lanes[0]; LANES]
}

/// From this many elements on, the sum of a row is made of parts, so that the error does not grow
/// with the row.
pub(crate) const LONG_ROW: usize = 8 << 10;

/// Elements of a part.
pub(crate) const PART: usize = 16 * LANES;

/// Pairwise sum of parts: parts are added in pairs, their sums in pairs again, and so on.
pub(crate) struct Pairs<W> {
    /// At each level, if its bit of `count` is set, the sum of twice as many parts as at the level
    /// below.
    levels: [W; usize::BITS as usize],
    /// Parts so far.
    count: usize,
}

impl<W: Copy> Pairs<W> {
    /// The empty sum; `start` is the neutral element.
    #[inline(always)]
    pub(crate) fn new(start: W) -> Pairs<W> {
        Pairs { levels: [start; usize::BITS as usize], count: 0 }
    }

    /// Adds a part.
    #[inline(always)]
    pub(crate) fn push(&mut self, mut sum: W, meet: impl Fn(W, W) -> W) {
        let full = self.count.trailing_ones() as usize;
        for level in &self.levels[..full] {
            sum = meet(*level, sum);
        }
        self.levels[full] = sum;
        self.count += 1;
    }

    /// The sum of all parts, the highest level first.
    #[inline(always)]
    pub(crate) fn sum(&self, start: W, meet: impl Fn(W, W) -> W) -> W {
        let is_there = |level: &usize| self.count >> level & 1 == 1;
        let levels = (0..self.levels.len()).rev().filter(is_there);
        levels.fold(start, |sum, level| meet(sum, self.levels[level]))
    }
}

/// Elements that are worth a second thread.
pub(crate) const GRAIN: usize = 8 << 10;

/// A tensor seen along one of its axes: `outer` slices, each of `size` entries of `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlongAxis {
    /// Slices: the product of the sizes before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub size: usize,
    /// Elements of an entry: the product of the sizes behind the axis.
    pub inner: usize,
}

impl AlongAxis {
    /// A tensor of `sizes` along axis `axis`.
    ///
    /// # Panics
    /// When the tensor has no such axis.
    pub fn new(sizes: &[usize], axis: usize) -> AlongAxis {
        let product = |sizes: &[usize]| sizes.iter().product();
        let (outer, inner) = (product(&sizes[..axis]), product(&sizes[axis + 1..]));
        AlongAxis { outer, size: sizes[axis], inner }
    }

    /// All elements.
    pub fn count(self) -> usize {
        self.outer * self.size * self.inner
    }
}

/// The memory layout of a tensor's slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Size and stride of the axes outside the slices, except the last axis.
    outer: Vec<(usize, usize)>,
    /// Size and stride of the axes of a slice, except the last axis.
    inner: Vec<(usize, usize)>,
    /// Size of the last axis.
    last: usize,
    /// Whether the slices contain the last axis.
    along: bool,
}

impl Slices {
    /// The slices of a tensor of `sizes` along `axes`.
    pub fn new(sizes: &[usize], axes: &[usize]) -> Slices {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let mut stride = 1;
        for (axis, &size) in sizes.iter().enumerate().rev().filter(|(_, s)| **s != 1) {
            let axes: &mut Vec<_> = if axes.contains(&axis) { &mut inner } else { &mut outer };
            match axes.last_mut() {
                // Neighbouring axes of the same kind are merged.
                Some((merged, first)) if *first * *merged == stride => *merged *= size,
                _ => axes.push((size, stride)),
            }
            stride *= size;
        }
        let along = outer.first().is_none_or(|axis| axis.1 != 1);
        let list = if along { &mut inner } else { &mut outer };
        let last = if list.is_empty() { 1 } else { list.remove(0).0 };
        Slices { outer, inner, last, along }
    }

    /// The rows of a contiguous matrix; each is a run, even if it has one element.
    pub fn of_rows(rows: usize, columns: usize) -> Slices {
        Slices { outer: vec![(rows, columns)], inner: Vec::new(), last: columns, along: true }
    }

    /// Elements of a slice.
    pub fn len(&self) -> usize {
        volume(&self.inner) * if self.along { self.last } else { 1 }
    }

    /// Whether the slices have no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of slices and their length, if all are runs and contiguous.
    pub fn rows(&self) -> Option<(usize, usize)> {
        let count = volume(&self.outer);
        let next = self.outer.iter().all(|(_, stride)| *stride == self.last);
        (self.along && self.inner.is_empty() && self.outer.len() < 2 && next)
            .then_some((count, self.last))
    }

    /// The tensor along the one axis of the slices, if that is not the last.
    pub(crate) fn strided(&self) -> Option<AlongAxis> {
        let [(size, inner)] = self.inner[..] else { return None };
        let outer = volume(&self.outer);
        let are_neighbours = self.outer.iter().all(|(_, stride)| *stride == size * inner);
        (!self.along && inner == self.last && are_neighbours && self.outer.len() < 2)
            .then_some(AlongAxis { outer, size, inner })
    }

    /// Calls `f` for every block, on all threads. Blocks write disjoint elements.
    pub fn blocks<T: Pod>(
        &self,
        threads: &Threads,
        io: &mut InOut<'_, T>,
        f: impl Fn(&mut Block<'_, T>) + Sync,
    ) {
        let tiles = if self.along { 1 } else { self.last.div_ceil(LANES) };
        let count = if self.is_empty() { 0 } else { volume(&self.outer) * tiles };
        let width = if self.along { self.last } else { LANES };
        let grain = GRAIN.div_ceil((volume(&self.inner) * width).max(1));
        threads.par_ranges(count, grain, |blocks| {
            for block in blocks {
                let first = block % tiles * LANES;
                let base = position(&self.outer, block / tiles) + first;
                let width = if self.along { self.last } else { LANES.min(self.last - first) };
                // SAFETY: the elements of different blocks are disjoint, and `io` is borrowed
                // exclusively.
                let io = unsafe { io.part(0..io.len()) };
                f(&mut Block { io, base, width, inner: &self.inner, along: self.along });
            }
        });
    }
}

fn volume(axes: &[(usize, usize)]) -> usize {
    axes.iter().map(|a| a.0).product()
}

/// The offset of index `i` over some axes, innermost first.
#[inline(always)]
pub(crate) fn position(axes: &[(usize, usize)], mut i: usize) -> usize {
    let Some(((_, outermost), rest)) = axes.split_last() else { return 0 };
    let mut at = 0;
    for (size, stride) in rest {
        at += i % size * stride;
        i /= size;
    }
    at + i * outermost
}

/// One slice of contiguous runs, or up to sixteen neighbouring slices.
pub struct Block<'a, T> {
    io: InOut<'a, T>,
    base: usize,
    width: usize,
    inner: &'a [(usize, usize)],
    along: bool,
}

impl<T: Stored> Block<'_, T> {
    /// The offset of a lane's element in the first row.
    pub fn place(&self, lane: usize) -> usize {
        self.base + if self.along { 0 } else { lane }
    }

    /// The elements of a slice that is a single run.
    pub(crate) fn row(&self) -> Option<&[T]> {
        (self.along && volume(self.inner) == 1)
            .then(|| self.io.input(self.base..self.base + self.width))
    }

    /// The output of a slice that is a single run.
    ///
    /// # Panics
    /// When it is not.
    pub fn line(&mut self) -> &mut [T] {
        assert!(self.along && volume(self.inner) == 1, "the slice is not one run");
        self.io.output(self.base..self.base + self.width)
    }

    /// A part of each run.
    pub fn part(&mut self, offset: usize, width: usize) -> Block<'_, T> {
        // SAFETY: this block is borrowed exclusively.
        let io = unsafe { self.io.part(0..self.io.len()) };
        Block { io, base: self.base + offset, width, inner: self.inner, along: self.along }
    }

    /// The same block with the output as its input.
    pub fn rewrite(&mut self) -> Block<'_, T> {
        let io = self.io.rewrite();
        Block { io, base: self.base, width: self.width, inner: self.inner, along: self.along }
    }

    /// Folds the elements of each slice; every lane gets the value of its slice.
    #[inline(always)]
    pub fn fold(
        &mut self,
        start: T::Wide,
        step: impl Fn(T::Wide, T::Wide, usize) -> T::Wide,
        meet: impl Fn(T::Wide, T::Wide) -> T::Wide,
    ) -> Lanes<T::Wide> {
        self.in_parts::<false>(start, |sum, x, i| (step(sum, x, i), x), meet)
    }

    /// Replaces elements, and sums the new ones as [`Block::fold`] does.
    #[inline(always)]
    pub fn map_sum(
        &mut self,
        start: T::Wide,
        f: impl Fn(T::Wide, usize) -> T::Wide,
        add: impl Fn(T::Wide, T::Wide) -> T::Wide,
    ) -> Lanes<T::Wide> {
        let both = |sum, x, i| {
            let y = f(x, i);
            (add(sum, y), y)
        };
        self.in_parts::<true>(start, both, &add)
    }

    /// Visits every element as [`Block::walk`] does and combines the lanes; on a long row part by
    /// part, adding the parts in pairs.
    #[inline(always)]
    fn in_parts<const STORE: bool>(
        &mut self,
        start: T::Wide,
        f: impl Fn(T::Wide, T::Wide, usize) -> (T::Wide, T::Wide),
        meet: impl Fn(T::Wide, T::Wide) -> T::Wide,
    ) -> Lanes<T::Wide> {
        let is_long = self.along && self.width > LONG_ROW;
        let part = if is_long { PART } else { self.width.max(1) };
        let mut pairs = is_long.then(|| Pairs::new(start));
        let mut lanes = [start; LANES];
        // `f` is called at one place: a closure of several callers may become a function of its
        // own, compiled without the instruction set.
        for offset in (0..self.width).step_by(part) {
            let mut block = self.part(offset, part.min(self.width - offset));
            lanes = block.walk::<STORE>([start; LANES], &f);
            if let Some(pairs) = &mut pairs {
                pairs.push(met(lanes, &meet)[0], &meet);
            }
        }
        match pairs {
            Some(pairs) => [pairs.sum(start, meet); LANES],
            None => self.met(lanes, meet),
        }
    }

    /// Replaces every element.
    #[inline(always)]
    pub fn map(&mut self, f: impl Fn(T::Wide, usize) -> T::Wide) {
        self.walk::<true>([T::Wide::default(); LANES], |none, x, i| (none, f(x, i)));
    }

    /// If the lanes share a slice, combines them in halves.
    #[inline(always)]
    fn met<W: Pod>(&self, lanes: Lanes<W>, meet: impl Fn(W, W) -> W) -> Lanes<W> {
        if self.along { met(lanes, meet) } else { lanes }
    }

    /// Visits every element. `f` gets the state of its lane, the element and the lane; it returns
    /// the new state and, if `STORE`, the new element.
    #[inline(always)]
    fn walk<const STORE: bool>(
        &mut self,
        mut lanes: Lanes<T::Wide>,
        f: impl Fn(T::Wide, T::Wide, usize) -> (T::Wide, T::Wide),
    ) -> Lanes<T::Wide> {
        let whole = self.width - self.width % LANES;
        let rest = self.width - whole;
        for run in 0..volume(self.inner) {
            let start = self.base + position(self.inner, run);
            for at in (start..start + whole).step_by(LANES) {
                let at = opaque_index(at);
                let mut x: [T; LANES] = self.io.load(at);
                for i in 0..LANES {
                    let (state, y) = f(lanes[i], x[i].widen(), i);
                    lanes[i] = state;
                    x[i] = narrow(y);
                }
                if STORE {
                    self.io.store(at, x);
                }
            }
            if rest > 0 {
                let at = opaque_index(start + whole);
                let mut x: [T; LANES] = self.io.load_masked(at, rest);
                for i in 0..LANES {
                    let (state, y) = f(lanes[i], x[i].widen(), i);
                    lanes[i] = if i < rest { state } else { lanes[i] };
                    x[i] = narrow(y);
                }
                if STORE {
                    self.io.store_masked(at, x, rest);
                }
            }
        }
        lanes
    }
}

#[inline(always)]
fn narrow<T: Stored>(value: T::Wide) -> T {
    crate::base::num::Wide::narrow(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slice of each element, as the offset with the slice's axes at 0.
    fn reference(sizes: &[usize], axes: &[usize]) -> Vec<usize> {
        let count: usize = sizes.iter().product();
        let slice = |i: usize| {
            let (mut rest, mut at, mut stride) = (i, 0, 1);
            for axis in (0..sizes.len()).rev() {
                if !axes.contains(&axis) {
                    at += rest % sizes[axis] * stride;
                }
                rest /= sizes[axis];
                stride *= sizes[axis];
            }
            at
        };
        (0..count).map(slice).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every element becomes the sum of its slice.
        #[test]
        fn slices_are_those_of_the_definition(
            axes in proptest::collection::vec((prop_oneof![1usize..5, 15usize..18], any::<bool>()), 0..5),
        ) {
            let sizes: Vec<usize> = axes.iter().map(|a| a.0).collect();
            let chosen: Vec<usize> = (0..axes.len()).filter(|i| axes[*i].1).collect();
            let slice = reference(&sizes, &chosen);
            let from: Vec<i64> = (0..slice.len()).map(|i| (i * i % 101) as i64).collect();
            let mut to = vec![0; from.len()];
            let slices = Slices::new(&sizes, &chosen);
            slices.blocks(&Threads::new(2), &mut InOut::separate(&from, &mut to), |block| {
                let sum = block.fold(0, |sum, x, _| sum + x, |a, b| a + b);
                block.map(|_, lane| sum[lane]);
            });
            let mut sums = vec![0; from.len()];
            for (x, slice) in from.iter().zip(&slice) {
                sums[*slice] += x;
            }
            let expected: Vec<i64> = slice.iter().map(|s| sums[*s]).collect();
            prop_assert_eq!(to, expected);
            prop_assert_eq!(slices.len(), chosen.iter().map(|a| sizes[*a]).product::<usize>());
        }
    }

    #[test]
    fn axes_merge() {
        let plain = |sizes: &[usize], axes: &[usize]| {
            let s = Slices::new(sizes, axes);
            (s.outer, s.inner, s.last, s.along)
        };
        assert_eq!(plain(&[2, 3, 4, 5], &[2, 3]), (vec![(6, 20)], vec![], 20, true));
        assert_eq!(plain(&[2, 3, 1, 5], &[1]), (vec![(2, 15)], vec![(3, 5)], 5, false));
        assert_eq!(plain(&[2, 3, 4], &[0, 2]), (vec![(3, 4)], vec![(2, 12)], 4, true));
        assert_eq!(plain(&[1], &[]), (vec![], vec![], 1, true));
        assert!(Slices::new(&[2, 0], &[1]).is_empty());
    }
}
