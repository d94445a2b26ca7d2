//! Packs B into panels: the columns of a block, with one row of them for each k.

use crate::base::aligned_buf::AlignedBuf;
use crate::base::num::UnalignedF32;
use crate::base::par::{Slice, Threads};
use crate::base::simd::{TRANSPOSE_DIM, transpose_16x16};
use crate::base::workers::Packer;
use crate::gemm::microkernel::args::nr;
use crate::gemm::pack::bf16::{pair_rows, swap_row_pairs_through_bf16};
use crate::gemm::precision::{Bf16Path, Precision};

/// The layout of B before it is packed.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// `K` rows of `N` elements, `stride` elements apart.
    Rows {
        /// Distance between rows.
        stride: usize,
    },
    /// `N` columns of `K` elements, `stride` elements apart: B transposed.
    Columns {
        /// Distance between columns.
        stride: usize,
    },
    /// The weights of a convolution: for each of `N` outputs and each channel, its taps. A row of B
    /// is one tap of one channel, `K = taps * channels`.
    Kernel {
        /// Taps of a kernel.
        taps: usize,
    },
}

/// The size of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RhsSize {
    /// Rows.
    pub k: usize,
    /// Columns.
    pub n: usize,
}

impl Layout {
    /// Elements from the start of B to its end.
    pub(crate) fn reach(self, k: usize, n: usize) -> usize {
        match self {
            _ if k == 0 || n == 0 => 0,
            Layout::Rows { stride } => (k - 1).saturating_mul(stride).saturating_add(n),
            Layout::Columns { stride } => (n - 1).saturating_mul(stride).saturating_add(k),
            Layout::Kernel { .. } => n.saturating_mul(k),
        }
    }
}

/// A matrix B of `k` rows and `n` columns, packed for the instruction set in use.
pub struct Packed {
    data: AlignedBuf,
    k: usize,
    n: usize,
    width: usize,
    precision: Precision,
}

impl Packed {
    /// Packs a matrix of `k` rows and `n` columns into an arena.
    ///
    /// # Panics
    /// When the slice is too short.
    pub fn new(
        Packer { threads, arena }: Packer<'_>,
        b: &[UnalignedF32],
        layout: Layout,
        RhsSize { k, n }: RhsSize,
        precision: Precision,
    ) -> Packed {
        let mut data = arena.alloc(panels_len(k, n, precision) * size_of::<f32>());
        pack_into(threads, b, layout, RhsSize { k, n }, precision, data.elements_mut());
        Packed { data, k, n, width: nr(), precision }
    }

    /// A matrix with panels that `write` fills; panel `i` must be as [`pack_into`] would write it.
    pub(crate) fn from_panels(
        Packer { threads, arena }: Packer<'_>,
        RhsSize { k, n }: RhsSize,
        precision: Precision,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Packed {
        let width = nr();
        let mut data = arena.alloc(panels_len(k, n, precision) * size_of::<f32>());
        each_panel(threads, data.elements_mut::<f32>(), width * precision.rows(k), write);
        Packed { data, k, n, width, precision }
    }

    /// Whether it has `k` rows and `n` columns, in this precision.
    pub(crate) fn is(&self, k: usize, n: usize, precision: Precision) -> bool {
        (self.k, self.n, self.precision) == (k, n, precision)
    }

    /// The panels, one behind the other.
    pub(crate) fn panels(&self) -> &[f32] {
        assert_eq!(self.width, nr(), "packed for another instruction set");
        self.data.elements()
    }
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({}x{})", self.k, self.n)
    }
}

/// Lanes that a matrix of `k` rows and `n` columns takes when packed.
pub fn panels_len(k: usize, n: usize, precision: Precision) -> usize {
    n.next_multiple_of(nr()).saturating_mul(precision.rows(k))
}

/// Packs a matrix into memory of [`panels_len`] elements.
///
/// # Panics
/// When a slice is too short.
pub fn pack_into(
    threads: &Threads,
    b: &[UnalignedF32],
    layout: Layout,
    RhsSize { k, n }: RhsSize,
    precision: Precision,
    to: &mut [f32],
) {
    let width = nr();
    let len = width * precision.rows(k);
    assert!(b.len() >= layout.reach(k, n) && to.len() >= panels_len(k, n, precision));
    let to = &mut to[..n.div_ceil(width) * len];
    each_panel(threads, to, len, |panel, to| {
        let columns = PanelColumns { first: panel * width, width };
        pack_panel(b, layout, RhsSize { k, n }, columns, precision, to);
    });
}

/// Writes consecutive panels of `len` elements each, in parallel.
pub(crate) fn each_panel<T: Send + Sync>(
    threads: &Threads,
    panels: &mut [T],
    len: usize,
    write: impl Fn(usize, &mut [T]) + Sync,
) {
    let count = panels.len().checked_div(len).unwrap_or_default();
    let out = Slice::new(panels);
    threads.par_ranges(count, 1 + (1 << 15) / (len + 1), |range| {
        for panel in range {
            // SAFETY: panels are disjoint parts of the buffer.
            write(panel, unsafe { out.part(panel * len, len) });
        }
    });
}

/// Elements of a panel before it is converted, with the zeros that pad it.
pub(crate) fn f32_len(k: usize, width: usize, precision: Precision) -> usize {
    precision.per_lane() * precision.rows(k) * width
}

/// Converts the rows of a panel to the precision of the GEMM.
pub(crate) fn convert_rows(rows: &[f32], width: usize, precision: Precision, to: &mut [f32]) {
    match precision.bf16_path() {
        None => to.copy_from_slice(rows),
        Some(Bf16Path::F32) => swap_row_pairs_through_bf16(rows, width, to),
        Some(Bf16Path::Amx | Bf16Path::DpBf16) => pair_rows(rows, width, to),
    }
}

/// The columns of B in a panel.
#[derive(Clone, Copy)]
pub(crate) struct PanelColumns {
    /// The first.
    pub(crate) first: usize,
    /// How many; those past `n` are 0.
    pub(crate) width: usize,
}

/// Packs a panel of B.
pub(crate) fn pack_panel(
    b: &[UnalignedF32],
    layout: Layout,
    size: RhsSize,
    panel: PanelColumns,
    precision: Precision,
    to: &mut [f32],
) {
    let (RhsSize { k, n }, PanelColumns { first, width }) = (size, panel);
    if precision != Precision::F32 {
        let mut rows = vec![0f32; f32_len(k, width, precision)];
        pack_panel(b, layout, size, panel, Precision::F32, &mut rows[..k * width]);
        return convert_rows(&rows, width, precision, to);
    }
    let columns = width.min(n - first);
    match layout {
        Layout::Rows { stride } => {
            for (i, to) in to.chunks_exact_mut(width).take(k).enumerate() {
                let row = &b[i * stride + first..][..columns];
                for (to, x) in to.iter_mut().zip(row) {
                    *to = x.get();
                }
                to[columns..].fill(0.0);
            }
        }
        Layout::Columns { stride } => {
            transpose(&b[first * stride..], stride, columns, k, to, width, |i| i);
        }
        Layout::Kernel { taps } => {
            let channels = k / taps.max(1);
            let row = |i: usize| i % taps * channels + i / taps;
            transpose(&b[first * k..], k, columns, k, to, width, row);
        }
    }
}

/// Writes `columns` columns of `k` elements as rows of `width`, in square blocks. Element `i` of a
/// column goes to row `row(i)`.
fn transpose(
    from: &[UnalignedF32],
    stride: usize,
    columns: usize,
    k: usize,
    to: &mut [f32],
    width: usize,
    row: impl Fn(usize) -> usize,
) {
    if columns < width {
        to.fill(0.0);
    }
    for j in (0..columns).step_by(TRANSPOSE_DIM) {
        let side = TRANSPOSE_DIM.min(columns - j);
        let mut i = 0;
        while side == TRANSPOSE_DIM && i + TRANSPOSE_DIM <= k {
            let block = transpose_16x16(&from[j * stride + i..], stride);
            for (p, column) in block.iter().enumerate() {
                to[row(i + p) * width + j..][..TRANSPOSE_DIM].copy_from_slice(column);
            }
            i += TRANSPOSE_DIM;
        }
        for i in i..k {
            for j in j..j + side {
                to[row(i) * width + j] = from[j * stride + i].get();
            }
        }
    }
}
