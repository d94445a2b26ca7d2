//! Memory that is asked for before it is read.

use super::tuning::PREFETCH_DISTANCE;
use crate::base::simd::prefetch;

/// Elements of a cache line.
pub(super) const LINE: usize = 16;

/// Memory that will be read later.
#[derive(Clone, Copy)]
pub(super) struct PrefetchStream {
    /// Where it begins.
    pub(super) from: *const f32,
    /// Elements from one request to the next.
    pub(super) step: usize,
}

impl PrefetchStream {
    /// Nothing new: addresses without memory take long to look up, so that one with memory is asked for
    /// again and again.
    pub(super) fn nothing(from: *const f32) -> PrefetchStream {
        PrefetchStream { from, step: 0 }
    }

    /// Asks for a line where it begins, and another half the way to what [`TERMS`] requests later begin.
    #[inline(always)]
    fn ask_for_terms(&mut self) {
        prefetch(self.from);
        prefetch(self.from.wrapping_add(TERMS / 2 * self.step));
        self.from = self.from.wrapping_add(TERMS * self.step);
    }

    #[inline(always)]
    fn ask(&mut self) {
        prefetch(self.from);
        self.from = self.from.wrapping_add(self.step);
    }
}

/// Terms that are multiplied between two looks at whether there are more.
pub(super) const TERMS: usize = 4;

/// What a block asks for, evenly, while it goes through its terms.
#[derive(Clone, Copy)]
pub(super) struct Prefetch(pub(super) [PrefetchStream; 2]);

impl Prefetch {
    /// The lines of a panel itself that come soon: every second one each.
    pub(super) fn further_on(panel: &[f32], width: usize) -> Prefetch {
        let from = panel.as_ptr().wrapping_add(PREFETCH_DISTANCE);
        Prefetch([from, from.wrapping_add(LINE)].map(|from| PrefetchStream { from, step: width }))
    }

    /// What is due with a term.
    #[inline(always)]
    pub(super) fn ask(&mut self) {
        let Prefetch([first, second]) = self;
        first.ask();
        second.ask();
    }

    /// What is due with [`TERMS`] terms, in half as many requests as for each of them.
    #[inline(always)]
    pub(super) fn ask_for_terms(&mut self) {
        let Prefetch([first, second]) = self;
        first.ask_for_terms();
        second.ask_for_terms();
    }
}

/// The parts of some memory that blocks ask for, each evenly while it is multiplied.
#[derive(Clone, Copy)]
pub(super) struct PrefetchShares {
    /// Elements of a part.
    part: usize,
    /// Elements from one request to the next.
    step: usize,
}

impl PrefetchShares {
    /// `count` parts of `len` elements, for blocks of so many lanes.
    pub(super) fn new(len: usize, count: usize, lanes: usize) -> PrefetchShares {
        PrefetchShares {
            part: len.div_ceil(count.max(1)),
            step: len.div_ceil((count * lanes).max(1)),
        }
    }

    /// Part `i` of the memory from `from` on, if there is some.
    pub(super) fn of(self, from: Option<&f32>, i: usize, panel: &[f32]) -> PrefetchStream {
        match from {
            Some(from) => {
                let from = std::ptr::from_ref(from).wrapping_add(i * self.part);
                PrefetchStream { from, step: self.step }
            }
            None => PrefetchStream::nothing(panel.as_ptr()),
        }
    }
}
