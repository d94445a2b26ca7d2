//! Divides a long k into blocks (k-blocking), so that rounding errors of sums grow less with k.
//!
//! The sums of a block are one chain of fused multiply-adds from 0, and those of the blocks are
//! added in order. Where blocks begin depends on the sizes alone, never on the instruction set, the
//! tiling, or where the elements lie in memory.

use std::ops::Range;

/// Elements of a block. The errors of long sums are then below OpenVINO's.
const BLOCK: usize = 768;

/// The most elements of a block: a rest up to this is not divided. 3×3×128 is one block.
pub(crate) const LONGEST_BLOCK: usize = 1152;

/// Blocks of elements along k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KBlocks {
    /// Elements along k that are divided.
    k: usize,
    /// The end of the last block, if what follows is left out.
    end: usize,
    /// No block crosses a multiple of this; it divides `k`.
    span: usize,
    /// Blocks are whole pieces; it divides `span`.
    piece: usize,
}

impl KBlocks {
    /// Blocks of a row of A.
    pub(crate) fn of_row(k: usize) -> KBlocks {
        KBlocks { k, end: k, span: k, piece: 1 }
    }

    /// A single block.
    pub(crate) fn whole(k: usize) -> KBlocks {
        KBlocks { k, end: k, span: k, piece: k }
    }

    /// Blocks of a window of `k` elements, in lines of `line` elements and taps of `channels`: they
    /// are whole lines, or whole taps of a line, or parts of a tap.
    pub(crate) fn of_window(k: usize, line: usize, channels: usize) -> KBlocks {
        if line <= LONGEST_BLOCK {
            KBlocks { k, end: k, span: k, piece: line }
        } else if channels <= LONGEST_BLOCK {
            KBlocks { k, end: k, span: line, piece: channels }
        } else {
            KBlocks { k, end: k, span: channels, piece: 1 }
        }
    }

    /// The same blocks up to element `end`, where the last one is cut.
    pub(crate) fn up_to(self, end: usize) -> KBlocks {
        debug_assert!(end <= self.k);
        KBlocks { end, ..self }
    }

    /// Whether there is a single block.
    pub(crate) fn is_one(self) -> bool {
        self.block(0).end == self.end
    }

    /// Whether each block is part of a run, or whole runs, if k is runs of `run` elements.
    pub(crate) fn suit_runs(self, run: usize) -> bool {
        let step = self.step();
        self.is_one()
            || run.is_multiple_of(self.span)
            || run.is_multiple_of(step)
            || step.is_multiple_of(run)
    }

    /// The end of the last block.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        self.end
    }

    /// The block that begins at element `at`.
    #[inline(always)]
    pub(crate) fn block(self, at: usize) -> Range<usize> {
        if self.k <= LONGEST_BLOCK || self.piece == self.k {
            return at..self.end;
        }
        let left = if self.span == self.k { self.k - at } else { self.span - at % self.span };
        let len = if left > LONGEST_BLOCK { self.step() } else { left };
        at..(at + len).min(self.end)
    }

    /// All blocks in order; at least one, which is empty if k is 0.
    #[inline(always)]
    pub(crate) fn iter(self) -> impl Iterator<Item = Range<usize>> {
        let next = move |last: &Range<usize>| (last.end < self.end).then(|| self.block(last.end));
        std::iter::successors(Some(self.block(0)), next)
    }

    /// Elements of each block but the last of a span.
    #[inline(always)]
    fn step(self) -> usize {
        let piece = self.piece.max(1);
        (BLOCK / piece).max(1) * piece
    }
}

/// Adds the sums of a block to those of the blocks before it, and starts the next from 0.
#[inline(always)]
pub(crate) fn end_block(chains: &mut [f32], sums: &mut [f32]) {
    for (sum, chain) in sums.iter_mut().zip(chains) {
        *sum += *chain;
        *chain = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(blocks: KBlocks) -> Vec<usize> {
        blocks.iter().map(|block| block.end).collect()
    }

    #[test]
    fn rows_are_blocks_of_768_and_a_rest_of_up_to_1152() {
        assert_eq!(ends(KBlocks::of_row(0)), [0]);
        assert_eq!(ends(KBlocks::of_row(1152)), [1152]);
        assert_eq!(ends(KBlocks::of_row(1153)), [768, 1153]);
        assert_eq!(ends(KBlocks::of_row(1920)), [768, 1920]);
        assert_eq!(ends(KBlocks::of_row(2000)), [768, 1536, 2000]);
        assert_eq!(ends(KBlocks::whole(2000)), [2000]);
    }

    #[test]
    fn what_is_left_out_moves_no_block() {
        let up_to = |end| KBlocks::of_row(2000).up_to(end);
        assert_eq!(ends(up_to(2000)), [768, 1536, 2000]);
        assert_eq!(ends(up_to(1600)), [768, 1536, 1600]);
        assert_eq!(ends(up_to(1000)), [768, 1000]);
        assert_eq!(ends(up_to(768)), [768]);
        assert!(up_to(768).is_one() && !up_to(769).is_one());
        assert_eq!(ends(KBlocks::of_row(1100).up_to(900)), [900]);
    }

    #[test]
    fn windows_are_lines_or_taps_or_parts_of_taps() {
        let window = |taps: usize, channels: usize| {
            ends(KBlocks::of_window(taps * taps * channels, taps * channels, channels))
        };
        assert_eq!(window(3, 128), [1152]);
        assert_eq!(window(3, 192), [576, 1728]);
        assert_eq!(window(5, 60), [600, 1500]);
        assert_eq!(window(3, 256), [768, 1536, 2304]);
        assert_eq!(window(3, 512), [512, 1536, 2048, 3072, 3584, 4608]);
        assert_eq!(window(1, 1300), ends(KBlocks::of_row(1300)));
        assert_eq!(window(2, 1200)[..4], [768, 1200, 1968, 2400]);
    }

    #[test]
    fn runs_suit_if_no_block_ends_within_one_that_it_does_not_begin_in() {
        for k in [1200, 1536, 2400, 3000] {
            let blocks = KBlocks::of_row(k);
            for run in (1..=k).filter(|run| k % run == 0) {
                let suits = blocks.iter().all(|block| {
                    let is_part = block.start / run == (block.end - 1) / run;
                    is_part || block.start % run == 0 && block.end % run == 0
                });
                assert!(suits || !blocks.suit_runs(run), "{k} in runs of {run}");
            }
        }
        assert!(KBlocks::of_row(3072).suit_runs(1536) && KBlocks::of_row(2048).suit_runs(32));
        assert!(!KBlocks::of_row(1280).suit_runs(80));
    }
}
