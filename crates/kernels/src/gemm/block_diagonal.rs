//! GEMM with a block-diagonal B: the groups of a convolution. Each block of rows of A is located
//! once, and multiplied by the panels of one group after the other.

use super::driver::block_rows;
use super::im2col::Im2col;
use super::lhs_rows::LhsRows;
use super::microkernel;
use super::microkernel::args::{MAX_ROWS, MicrokernelArgs, mr_of, nr};
use super::output::{SharedTarget, Target};
use super::pack::b::Packed;
use super::post_ops::{RegisterPostOps, finish};
use super::precision::Precision;
use super::prefetch::Prefetch;
use super::problem::{Gemm, Lhs};
use super::tuning::{CACHE, GRAIN, TILES_PER_THREAD};
use crate::base::par::Threads;
use std::ops::Range;

/// The GEMMs of all groups of a convolution in NHWC, in f32.
pub(crate) struct BlockDiagonal<'a> {
    /// The GEMM of the first group, whose A is an im2col. Its post-ops are those of all groups.
    pub(crate) first: Gemm<'a>,
    /// B of each group.
    pub(crate) b: &'a [Packed],
}

impl<'a> BlockDiagonal<'a> {
    /// `None` unless the B of several groups fit the cache, and there is something to multiply.
    pub(crate) fn of(first: Gemm<'a>, b: &'a [Packed]) -> Option<BlockDiagonal<'a>> {
        let is_empty = first.m == 0 || first.n == 0 || first.k == 0;
        let is_plain = first.precision == Precision::F32 && !is_empty;
        let is_channels_last = matches!(first.a, Lhs::Im2col(w) if w.strides.channel == 1);
        let all = BlockDiagonal { first, b };
        (is_plain && is_channels_last && all.at_once() > 1).then_some(all)
    }

    /// Groups whose B stay in the cache while rows pass by.
    fn at_once(&self) -> usize {
        let bytes = self.b.first().map_or(0, |b| size_of_val(b.panels()));
        (CACHE / bytes.max(1)).min(self.b.len())
    }

    /// The windows of all groups.
    fn windows(&self) -> &'a Im2col<'a> {
        let Lhs::Im2col(windows) = self.first.a else { unreachable!("A is an im2col") };
        windows
    }

    fn check(&self, c: usize) {
        let (Gemm { m, n, k, c_stride, .. }, count) = (self.first, self.b.len());
        let windows = self.windows();
        let (channels, width) = (&windows.channels, windows.channels.len());
        let moved = (count - 1) * width;
        let last = channels.start + moved..channels.end + moved;
        let last = Im2col { channels: last, ..*windows };
        last.check(m, k);
        assert!(windows.zeros.len() >= count * width, "there are too few zeros");
        assert!(self.b.iter().all(|b| b.is(k, n, Precision::F32)), "B differs");
        assert!(c_stride >= count * n && c >= m * c_stride, "C is too short");
        RegisterPostOps::of(self.first.post_ops).0.check(m, count * n);
    }

    /// Computes C.
    ///
    /// # Panics
    /// When a slice is too short.
    pub(crate) fn run(&self, threads: &Threads, c: &mut [f32]) {
        let Gemm { m, n, k, .. } = self.first;
        self.check(c.len());
        let mut c = Target::F32(c);
        let c = c.shared();
        let chunks = self.b.len().div_ceil(self.at_once());
        let wanted = (threads.count() * TILES_PER_THREAD).div_ceil(chunks);
        let most = mr_of(n);
        let parts = wanted.min(m.div_ceil(most));
        let work = m * n * k * self.b.len() / (chunks * parts);
        threads.par_ranges(chunks * parts, GRAIN.div_ceil(work.max(1)), |range| {
            for task in range {
                let share = |all: usize, i: usize, of: usize| all * i / of..all * (i + 1) / of;
                let groups = share(self.b.len(), task / parts, chunks);
                let blocks = share(m.div_ceil(most), task % parts, parts);
                self.rows(blocks.start * most..m.min(blocks.end * most), groups, c);
            }
        });
    }

    /// Computes some rows of the columns of some groups.
    fn rows(&self, rows: Range<usize>, groups: Range<usize>, c: SharedTarget) {
        let Gemm { n, k, c_stride, post_ops, .. } = self.first;
        let (most, channels) = (mr_of(n), self.windows().channels.len());
        let (absorbed, rest) = RegisterPostOps::of(post_ops);
        let k_blocks = self.first.k_blocks();
        let mut sources = LhsRows::new(&self.first, MAX_ROWS);
        let mut moved = vec![std::ptr::null(); MAX_ROWS * self.first.runs()];
        let mut first = rows.start;
        while first < rows.end {
            let count = sources.count(first, block_rows(rows.end - first, most));
            let (source, runs) = sources.find((first, count));
            for group in groups.clone() {
                let panels = self.b[group].panels().chunks_exact(nr() * k);
                for (i, panel) in panels.enumerate().take(n.div_ceil(nr())) {
                    let (column, columns) = (group * n + i * nr(), nr().min(n - i * nr()));
                    let absorbed = absorbed.at(first, column);
                    // SAFETY: `check` has shown that the rows, the channels of the group and its
                    // columns lie within the operands; tasks write disjoint parts of C.
                    unsafe {
                        let at = first * c_stride + column;
                        let block = MicrokernelArgs {
                            a: source.moved(group * channels, (runs, count), &mut moved),
                            runs,
                            k: k / runs,
                            b: panel.as_ptr(),
                            ahead: Prefetch::nothing(panel.as_ptr()),
                            out: c.block(at, (c_stride, columns), absorbed),
                        };
                        if k_blocks.is_one() {
                            microkernel::run(&block, None, count);
                        } else {
                            microkernel::run_in_blocks(&block, k_blocks, count);
                        }
                    }
                }
            }
            if let Some(c) = c.values() {
                let columns = groups.start * n..groups.end * n;
                // SAFETY: these rows and columns of C are those of this task.
                unsafe { finish(rest, first..first + count, columns, c_stride, c) };
            }
            first += count;
        }
    }
}
