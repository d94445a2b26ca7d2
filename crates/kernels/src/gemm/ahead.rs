//! Memory that is asked for before it is read.

/// Elements from those that are multiplied to those that are asked for.
pub(super) const SOON: usize = 1024;

/// Elements of a cache line.
pub(super) const LINE: usize = 16;

/// Memory that will be read later.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// Where it begins.
    pub(super) from: *const f32,
    /// Elements from one request to the next.
    pub(super) step: usize,
}

impl Ahead {
    /// The lines of a panel itself that come soon, and of the next one.
    pub(super) fn further_on(panel: &[f32], width: usize) -> [Ahead; 2] {
        let from = panel.as_ptr().wrapping_add(SOON);
        [from, from.wrapping_add(width / 2)].map(|from| Ahead { from, step: width })
    }
}

/// The parts of some memory that blocks ask for, each evenly while it is multiplied.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    /// Elements of a part.
    part: usize,
    /// Elements from one request to the next.
    step: usize,
}

impl Shares {
    /// `count` parts of `len` elements, for blocks of so many lanes.
    pub(super) fn new(len: usize, count: usize, lanes: usize) -> Shares {
        Shares { part: len.div_ceil(count.max(1)), step: len.div_ceil((count * lanes).max(1)) }
    }

    /// Part `i` of the memory from `from` on. Where there is none, `panel`: addresses without memory take
    /// long to look up.
    pub(super) fn of(self, from: Option<&f32>, i: usize, panel: &[f32]) -> Ahead {
        match from {
            Some(from) => {
                let from = std::ptr::from_ref(from).wrapping_add(i * self.part);
                Ahead { from, step: self.step }
            }
            None => Ahead { from: panel.as_ptr(), step: 0 },
        }
    }
}
