//! A GEMM: its operands, sizes and post-ops.

use super::dequant::format::Compressed;
use super::dequant::pack::{CompressedPanels, CompressedRhs};
use super::dynamic::pack::DynamicPanels;
use super::im2col::Im2col;
use super::k_blocks::KBlocks;
use super::microkernel::args::nr;
use super::pack::b::{Layout, Packed, RhsSize, panels_len};
use super::post_ops::{PostOp, RegisterPostOps};
use super::precision::Precision;
use super::tuning::{READING_B_ROWS, SMALL_M_ROWS, dequant_small_m_rows};
use crate::base::num::UnalignedF32;

/// B, the right operand.
#[derive(Clone, Copy, Debug)]
pub enum Rhs<'a> {
    /// Packed ahead of time, for a matrix that is used many times.
    Packed(&'a Packed),
    /// Packed by [`pack_into`](super::pack_into). Near its end the GEMM prefetches the memory
    /// behind the panels, since that may be the B of the next one.
    Panels(&'a [f32]),
    /// The first `k` rows of a matrix of `rows` rows that [`pack_into`](super::pack_into) packed in
    /// f32. Sums have the bits that the whole matrix gives if the other elements of A are 0 and
    /// those of B finite.
    LeadingRows {
        /// The panels of the whole matrix.
        panels: &'a [f32],
        /// Its rows.
        rows: usize,
    },
    /// Not packed.
    Unpacked(&'a [UnalignedF32], Layout),
    /// Compressed to fewer bits, not packed.
    Compressed(Compressed<'a>),
    /// Compressed, in packed panels.
    CompressedPanels(&'a CompressedPanels),
    /// Compressed, in panels that are multiplied by rows of A quantized to 8 bits.
    Dynamic(&'a DynamicPanels),
}

/// A, the left operand.
#[derive(Clone, Copy, Debug)]
pub enum Lhs<'a> {
    /// Rows of `k` elements.
    Rows {
        /// The matrix.
        values: &'a [f32],
        /// Distance between its rows.
        stride: usize,
    },
    /// Rows of `k` elements, each multiplied by a factor for its column before use.
    Scaled {
        /// The matrix.
        values: &'a [f32],
        /// Distance between its rows.
        stride: usize,
        /// For each group of rows, a factor for each column.
        factors: &'a [f32],
        /// Rows of a group.
        rows: usize,
    },
    /// Matrices with equally many columns, concatenated along the columns. Their rows have no gaps
    /// between them.
    Concat {
        /// The matrix whose columns come first.
        first: &'a [f32],
        /// Those that follow.
        others: &'a [&'a [f32]],
        /// Columns of each.
        columns: usize,
    },
    /// Rows of runs of `run` elements each; the runs may lie anywhere.
    Runs {
        /// The elements of all runs.
        values: &'a [f32],
        /// Start of each run, in units of `run` elements, row by row.
        runs: &'a [u32],
        /// Elements of a run; it divides `k`.
        run: usize,
    },
    /// Row `i` is the window of output `i` of a convolution (implicit im2col).
    Im2col(&'a Im2col<'a>),
    /// bf16 elements, as pairs in lanes of f32. Its lengths, strides and indices count pairs.
    Bf16(&'a Lhs<'a>),
}

/// C = A · B, with `m` rows, `n` columns and `k` elements along k.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// A.
    pub a: Lhs<'a>,
    /// B.
    pub b: Rhs<'a>,
    /// Distance between rows of C.
    pub c_stride: usize,
    /// What the operands are converted to.
    pub precision: Precision,
    /// What is done to each element of C, in order.
    pub post_ops: &'a [PostOp<'a>],
}

impl Gemm<'_> {
    pub(super) fn check(&self, c: usize) {
        let Gemm { m, n, k, precision, .. } = *self;
        let (a, a_k) = self.lhs();
        let reach = |rows: usize, columns: usize, stride: usize| match (rows, columns) {
            (0, _) | (_, 0) => 0,
            _ => (rows - 1).saturating_mul(stride).saturating_add(columns),
        };
        match a {
            Lhs::Rows { values, stride } => {
                assert!(values.len() >= reach(m, a_k, stride), "A is too short");
            }
            Lhs::Scaled { values, stride, factors, rows } => {
                assert!(values.len() >= reach(m, k, stride), "A is too short");
                let least = m.div_ceil(rows.max(1)).saturating_mul(k);
                assert!(factors.len() >= least, "there are too few factors");
            }
            Lhs::Concat { first, others, columns } => {
                let all = columns.checked_mul(others.len() + 1);
                assert!(all == Some(a_k), "A has other columns");
                let least = m.saturating_mul(columns);
                let mut all = [first].into_iter().chain(others.iter().copied());
                assert!(all.all(|part| part.len() >= least), "A is too short");
            }
            Lhs::Runs { values, runs, run } => {
                let are_all = m
                    .checked_mul(a_k)
                    .is_some_and(|all| runs.len().checked_mul(run) == Some(all) && a_k % run == 0);
                assert!(are_all, "the runs differ from A");
                let last = runs.iter().max().map_or(0, |r| (*r as usize + 1).saturating_mul(run));
                assert!(last <= values.len(), "A is too short");
            }
            Lhs::Im2col(windows) => windows.check(m, a_k),
            Lhs::Bf16(_) => panic!("`Lhs::Bf16` is nested"),
        }
        assert!(c >= reach(m, n, self.c_stride) && (m < 2 || self.c_stride >= n), "C is too short");
        match self.b {
            Rhs::Packed(packed) => assert!(packed.is(k, n, precision), "B differs"),
            Rhs::Panels(panels) => {
                assert!(panels.len() >= panels_len(k, n, precision), "B is too short");
            }
            Rhs::LeadingRows { panels, rows } => {
                let is_part = k <= rows && precision == Precision::F32;
                assert!(
                    is_part && panels.len() >= panels_len(rows, n, precision),
                    "B is too short"
                );
            }
            Rhs::Unpacked(b, layout) => assert!(b.len() >= layout.reach(k, n), "B is too short"),
            Rhs::Compressed(matrix) => {
                assert!(matrix.size == RhsSize { k, n }, "B differs");
                matrix.check();
            }
            Rhs::CompressedPanels(panels) => assert!(panels.is(k, n), "B differs"),
            Rhs::Dynamic(panels) => assert!(panels.is(k, n), "B differs"),
        }
        if m > 0 && n > 0 {
            RegisterPostOps::of(self.post_ops).0.check(m, n);
        }
    }

    /// Whether there are so few rows that B is multiplied unpacked, or dequantized in registers for
    /// a few rows at a time.
    pub(super) fn is_small_m(&self) -> bool {
        let most = match self.b {
            Rhs::Compressed(_) | Rhs::CompressedPanels(_) => dequant_small_m_rows(),
            Rhs::Unpacked(_, Layout::Rows { .. } | Layout::Columns { .. }) => SMALL_M_ROWS,
            _ => return false,
        };
        let are_rows = matches!(self.a, Lhs::Rows { .. });
        self.m <= most && self.precision == Precision::F32 && are_rows
    }

    /// The panels of B from the panel of this column on, if B is packed.
    pub(super) fn panels_at(&self, column: usize) -> Option<&[f32]> {
        let width = nr();
        self.panels()?.get(column / width * width * self.panel_rows()..)
    }

    /// Rows of a panel of B.
    pub(super) fn panel_rows(&self) -> usize {
        match self.b {
            Rhs::LeadingRows { rows, .. } => rows,
            _ => self.precision.rows(self.k),
        }
    }

    /// B, if it is compressed.
    pub(super) fn compressed(&self) -> Option<CompressedRhs<'_>> {
        match &self.b {
            Rhs::Compressed(matrix) => Some(CompressedRhs::Unpacked(matrix)),
            Rhs::CompressedPanels(panels) => Some(CompressedRhs::Panels(panels)),
            _ => None,
        }
    }

    /// The panels of B, if B is packed.
    pub(super) fn panels(&self) -> Option<&[f32]> {
        match self.b {
            Rhs::Packed(packed) => Some(packed.panels()),
            Rhs::Panels(panels) | Rhs::LeadingRows { panels, .. } => Some(panels),
            _ => None,
        }
    }

    /// Lanes of a row of A.
    pub(super) fn lanes(&self) -> usize {
        self.precision.lanes(self.k)
    }

    /// A, and the length of its rows in elements or in pairs.
    pub(super) fn lhs(&self) -> (Lhs<'_>, usize) {
        match self.a {
            Lhs::Bf16(a) => (*a, self.lanes()),
            a => (a, self.k),
        }
    }

    /// Elements that each counted element of A stands for: 2 if A is pairs of bf16.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn per_count(&self) -> usize {
        match self.a {
            Lhs::Bf16(_) => self.precision.per_lane(),
            _ => 1,
        }
    }

    /// Work, in multiply-adds: those of the rows of A, and reading B.
    pub(super) fn work(&self) -> usize {
        (self.m + READING_B_ROWS) * self.n * self.k.max(1)
    }

    /// Whether no two rows of A share elements.
    pub(super) fn reads_once(&self) -> bool {
        !matches!(self.lhs().0, Lhs::Im2col(_) | Lhs::Runs { .. })
    }

    /// The blocks of a row of A along k, in lanes. Sums of bf16 operands are not divided: their
    /// errors are those of the operands.
    pub(super) fn k_blocks(&self) -> KBlocks {
        match (self.precision, self.a) {
            (Precision::Bf16, _) => KBlocks::whole(self.lanes()),
            (Precision::F32, Lhs::Im2col(windows)) => windows.k_blocks(),
            (Precision::F32, _) => match self.b {
                Rhs::LeadingRows { rows, .. } => KBlocks::of_row(rows).up_to(self.k),
                _ => KBlocks::of_row(self.k),
            },
        }
    }

    /// Runs of consecutive elements in a row of A.
    pub(super) fn runs(&self) -> usize {
        match self.lhs() {
            (Lhs::Rows { .. } | Lhs::Scaled { .. } | Lhs::Bf16(_), _) => 1,
            (Lhs::Concat { others, .. }, _) => others.len() + 1,
            (Lhs::Runs { run, .. }, k) => k / run.max(1),
            (Lhs::Im2col(windows), _) => windows.runs(),
        }
    }
}
