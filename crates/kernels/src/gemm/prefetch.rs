//! Prefetches that microkernels issue while they multiply.

use super::tuning::PREFETCH_DISTANCE;
use crate::base::aligned_buf::LINE_F32;
use crate::base::simd::prefetch;

/// Memory to prefetch line by line.
#[derive(Clone, Copy)]
pub(super) struct PrefetchStream {
    /// The next address.
    pub(super) from: *const f32,
    /// Elements from one prefetch to the next.
    pub(super) step: usize,
}

impl PrefetchStream {
    /// Nothing to prefetch: the same valid address each time, since an unmapped one costs a page
    /// walk.
    pub(super) fn nothing(from: *const f32) -> PrefetchStream {
        PrefetchStream { from, step: 0 }
    }

    /// What is left to prefetch after `terms` elements along k.
    fn after(self, terms: usize) -> PrefetchStream {
        PrefetchStream { from: self.from.wrapping_add(terms * self.step), ..self }
    }

    /// Prefetches two lines for [`TERMS`] elements along k.
    #[inline(always)]
    fn prefetch_terms(&mut self) {
        prefetch(self.from);
        prefetch(self.from.wrapping_add(TERMS / 2 * self.step));
        self.from = self.from.wrapping_add(TERMS * self.step);
    }

    /// Prefetches the next line.
    #[inline(always)]
    fn prefetch(&mut self) {
        prefetch(self.from);
        self.from = self.from.wrapping_add(self.step);
    }
}

/// Elements along k per iteration of the unrolled inner loop.
pub(super) const TERMS: usize = 4;

/// What a block prefetches, evenly along k.
#[derive(Clone, Copy)]
pub(super) struct Prefetch {
    streams: [PrefetchStream; 2],
    /// If the second stream begins anew with each run of A: its distance from the run, in elements.
    run_distance: Option<usize>,
}

impl Prefetch {
    /// Two streams over all of k.
    pub(super) fn streams(streams: [PrefetchStream; 2]) -> Prefetch {
        Prefetch { streams, run_distance: None }
    }

    /// Nothing, as [`PrefetchStream::nothing`].
    pub(super) fn nothing(from: *const f32) -> Prefetch {
        Prefetch::streams([PrefetchStream::nothing(from); 2])
    }

    /// Streams over the panel itself, [`PREFETCH_DISTANCE`] ahead; each stream takes every second
    /// line.
    pub(super) fn of_panel(panel: &[f32], width: usize) -> Prefetch {
        let from = panel.as_ptr().wrapping_add(PREFETCH_DISTANCE);
        let stream = |from| PrefetchStream { from, step: width };
        Prefetch::streams([from, from.wrapping_add(LINE_F32)].map(stream))
    }

    /// The same, where the second stream begins anew with each run of A, `distance` elements ahead
    /// of it.
    pub(super) fn by_run(self, distance: usize) -> Prefetch {
        Prefetch { run_distance: Some(distance), ..self }
    }

    /// Begins a run of A, whose first element is at `first`.
    #[inline(always)]
    pub(super) fn begin_run(&mut self, first: *const f32) {
        if let Some(distance) = self.run_distance {
            self.streams[1].from = first.wrapping_add(distance);
        }
    }

    /// What is left to prefetch after `terms` elements along k.
    pub(super) fn after(self, terms: usize) -> Prefetch {
        Prefetch { streams: self.streams.map(|stream| stream.after(terms)), ..self }
    }

    /// Issues the prefetches for one element along k.
    #[inline(always)]
    pub(super) fn term(&mut self) {
        let [first, second] = &mut self.streams;
        first.prefetch();
        second.prefetch();
    }

    /// Issues the prefetches for [`TERMS`] elements along k: half as many as [`Self::term`] would.
    #[inline(always)]
    pub(super) fn terms(&mut self) {
        let [first, second] = &mut self.streams;
        first.prefetch_terms();
        second.prefetch_terms();
    }
}

/// Divides memory into parts, one for each block to prefetch.
#[derive(Clone, Copy)]
pub(super) struct PrefetchShares {
    /// Elements of a part.
    part: usize,
    /// Elements from one prefetch to the next.
    step: usize,
}

impl PrefetchShares {
    /// `count` parts of `len` elements in all, for blocks of `lanes` steps along k.
    pub(super) fn new(len: usize, count: usize, lanes: usize) -> PrefetchShares {
        PrefetchShares {
            part: len.div_ceil(count.max(1)),
            step: len.div_ceil((count * lanes).max(1)),
        }
    }

    /// Where part `i` begins.
    pub(super) fn start(self, i: usize) -> usize {
        i * self.part
    }

    /// Part `i` of the memory from `from` on; nothing if that is `None`.
    pub(super) fn of(self, from: Option<&f32>, i: usize, panel: &[f32]) -> PrefetchStream {
        match from {
            Some(from) => {
                let from = std::ptr::from_ref(from).wrapping_add(self.start(i));
                PrefetchStream { from, step: self.step }
            }
            None => PrefetchStream::nothing(panel.as_ptr()),
        }
    }
}
