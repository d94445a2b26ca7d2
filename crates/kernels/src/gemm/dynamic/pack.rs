//! Packs weights of 8 or 4 bits for quantized rows of A.

use super::rows::{GROUP, TermOrder};
use crate::base::aligned_buf::AlignedBuf;
use crate::base::workers::Packer;
use crate::gemm::dequant::format::{Compressed, PackedLayout, WeightFormat};
use crate::gemm::microkernel::args::nr;
use crate::gemm::pack::b::{RhsSize, each_panel};
use crate::multiversion;

/// Bytes of a lane: four 8-bit elements, or eight 4-bit ones.
const LANE: usize = 4;

/// Bytes that are unpacked in one step. Rows of a panel are a multiple of it.
const STEP: usize = 32;

/// A matrix of integers in panels, packed for the instruction set in use. Scales and zero points
/// come first, as in `PackedLayout`; then the elements, in rows of four bytes per column,
/// consecutive along k.
#[derive(Debug)]
pub struct DynamicPanels {
    data: AlignedBuf,
    layout: PackedLayout,
    columns: usize,
}

/// A packed panel.
#[derive(Clone, Copy)]
pub(super) struct DynamicPanel<'a> {
    pub(super) layout: PackedLayout,
    pub(super) bytes: &'a [u8],
}

impl DynamicPanels {
    /// Packs a matrix.
    ///
    /// # Panics
    /// When a slice of the matrix is too short, or its groups are not a multiple of 32 elements.
    pub fn new(Packer { threads, arena }: Packer<'_>, matrix: &Compressed<'_>) -> Self {
        matrix.check();
        assert!(Compressed::suits_dynamic_quantization(matrix.format, matrix.group));
        let (layout, columns) = (matrix.layout(), matrix.size.n);
        let mut data = arena.alloc(columns.div_ceil(layout.width) * layout.len());
        each_panel(threads, data.elements_mut::<u8>(), layout.len(), |panel, to| {
            let (factors, elements) = to.split_at_mut(layout.elements());
            matrix.pack_factors(panel * layout.width, factors);
            matrix.pack_lanes(panel * layout.width, elements);
        });
        DynamicPanels { data, layout, columns }
    }

    /// Whether it has `k` rows and `n` columns.
    pub(in crate::gemm) fn is(&self, k: usize, n: usize) -> bool {
        (self.layout.k, self.columns) == (k, n)
    }

    /// Columns of a panel.
    pub(super) fn width(&self) -> usize {
        self.layout.width
    }

    /// The order along k that rows of A must have.
    pub(super) fn order(&self) -> TermOrder {
        match self.layout.format {
            WeightFormat::U4 | WeightFormat::I4 => TermOrder::Nibbles,
            _ => TermOrder::Plain,
        }
    }

    /// The panel that begins at column `first`.
    pub(super) fn panel(&self, first: usize) -> DynamicPanel<'_> {
        assert_eq!(self.layout.width, nr(), "packed for another instruction set");
        let len = self.layout.len();
        let bytes = &self.data.elements()[first / self.layout.width * len..][..len];
        DynamicPanel { layout: self.layout, bytes }
    }
}

impl DynamicPanel<'_> {
    /// Whether its elements have 4 bits.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.layout.format, WeightFormat::U4 | WeightFormat::I4)
    }

    /// Bytes of the panel if its elements had 8 bits.
    pub(super) fn widened_len(&self) -> usize {
        PackedLayout { format: WeightFormat::U8, ..self.layout }.len()
    }

    /// The same panel with elements of 8 bits. Each row of lanes becomes two, the low nibbles and
    /// then the high ones, which is the order of rows of A for it.
    ///
    /// # Panics
    /// When `to` is shorter than [`DynamicPanel::widened_len`].
    pub(super) fn widen<'t>(&self, to: &'t mut [u8]) -> DynamicPanel<'t> {
        let layout = PackedLayout { format: WeightFormat::U8, ..self.layout };
        let (from, begin) = (self.layout.rows(), layout.elements());
        let (factors, elements) = to.split_at_mut(begin);
        factors.copy_from_slice(&self.bytes[..begin]);
        widen_rows(&self.bytes[begin..][..from.0 * from.1], LANE * layout.width, elements);
        DynamicPanel { layout, bytes: to }
    }
}

multiversion! {
    fn widen_rows(packed: &[u8], row: usize, to: &mut [u8]) {
        debug_assert!(row.is_multiple_of(STEP));
        for (packed, to) in packed.chunks_exact(row).zip(to.chunks_exact_mut(2 * row)) {
            let (low, high) = to.split_at_mut(row);
            let low = low.as_chunks_mut::<STEP>().0.iter_mut();
            let high = high.as_chunks_mut::<STEP>().0.iter_mut();
            for (packed, (low, high)) in packed.as_chunks::<STEP>().0.iter().zip(low.zip(high)) {
                for i in 0..STEP {
                    low[i] = packed[i] & 15;
                    high[i] = packed[i] >> 4;
                }
            }
        }
    }
}

impl Compressed<'_> {
    /// Whether groups of A divide the groups of the weights, so that the sum of a group is an
    /// integer.
    pub fn suits_dynamic_quantization(format: WeightFormat, group: usize) -> bool {
        format != WeightFormat::F16 && group > 0 && group.is_multiple_of(GROUP)
    }

    /// Packs the elements of columns `first..`; those past the last column are 0.
    fn pack_lanes(&self, first: usize, to: &mut [u8]) {
        let (width, flip) = (self.layout().width, [self.flip(); LANE]);
        let columns = width.min(self.size.n - first);
        for (row, to) in to.chunks_exact_mut(width * LANE).enumerate() {
            to[columns * LANE..].fill(0);
            for (column, to) in to.as_chunks_mut::<LANE>().0[..columns].iter_mut().enumerate() {
                let lane = self.lane(row, first + column);
                *to = (u32::from_ne_bytes(lane) ^ u32::from_ne_bytes(flip)).to_ne_bytes();
            }
        }
    }

    /// The bytes of lane `row` of a column. In a matrix of an odd number of rows, missing nibbles
    /// are 0.
    fn lane(&self, row: usize, column: usize) -> [u8; LANE] {
        let RhsSize { k, n } = self.size;
        let is_packed = matches!(self.format, WeightFormat::U4 | WeightFormat::I4);
        let lanes = k / if is_packed { 2 * LANE } else { LANE };
        if row >= lanes {
            return [0; LANE];
        }
        if !self.by_rows {
            return self.bytes.as_chunks().0[column * lanes + row];
        }
        let nibble = |term: usize| {
            let at = term * n + column;
            self.bytes[at / 2] >> (4 * (at % 2)) & 15
        };
        std::array::from_fn(|i| {
            let term = row * LANE + i;
            if is_packed {
                nibble(2 * term) | nibble(2 * term + 1) << 4
            } else {
                self.bytes[term * n + column]
            }
        })
    }
}

const _: () = assert!(GROUP.is_multiple_of(2 * LANE));
