//! Packs a compressed B into panels.

use crate::base::aligned_buf::AlignedBuf;
use crate::base::isa::{Isa, isa};
use crate::base::num::{UnalignedF32, bytes_mut};
use crate::base::simd::{TRANSPOSE_DIM, transpose_16x16};
use crate::base::workers::Packer;
use crate::gemm::dequant::format::{Compressed, PackedLayout, WeightFormat};
use crate::gemm::dequant::kernel::Panel;
use crate::gemm::microkernel::args::nr;
use crate::gemm::pack::b::{Packed, RhsSize, convert_rows, each_panel, f32_len};
use crate::gemm::precision::Precision;
#[cfg(target_arch = "x86_64")]
use crate::gemm::precision::has_dp_bf16;
use crate::gemm::tuning::DEQUANT_PANELS;
#[cfg(target_arch = "x86_64")]
use crate::gemm::tuning::amx_group;
use std::sync::atomic::{AtomicBool, Ordering};

impl Packed {
    /// Packs a compressed matrix as f32 or bf16 panels.
    ///
    /// # Panics
    /// As [`CompressedPanels::new`].
    pub fn decompressed(to: Packer<'_>, matrix: &Compressed<'_>, precision: Precision) -> Packed {
        matrix.check();
        let (size, width, matrix) = (matrix.size, nr(), CompressedRhs::Unpacked(matrix));
        Packed::from_panels(to, size, precision, |panel, to| {
            let mut workspace = vec![0f32; matrix.panel_scratch_len(precision)];
            matrix.write(panel * width, precision, &mut workspace, to);
        })
    }
}

impl Compressed<'_> {
    /// Packs columns `first..` into a panel; columns past the last are 0.
    pub(crate) fn panel<'a>(&self, first: usize, workspace: &'a mut [u8]) -> Panel<'a> {
        let is_exact = self.pack(first, workspace);
        Panel::new(PackedLayout { is_exact, ..self.layout() }, workspace)
    }

    /// Packs a panel; returns whether zero point · scale is exact in all groups.
    fn pack(&self, first: usize, to: &mut [u8]) -> bool {
        let layout = self.layout();
        let columns = layout.width.min(self.size.n - first);
        let (factors, elements) = to.split_at_mut(layout.elements());
        let is_exact = self.pack_factors(first, factors);
        let flip = self.flip();
        if columns < layout.width {
            elements.fill(0);
        }
        match (self.by_rows, self.format) {
            (false, _) => self.transpose(first, columns, flip, elements),
            (true, WeightFormat::U4 | WeightFormat::I4) => {
                self.join_rows(first, columns, flip, elements)
            }
            (true, _) => self.copy_rows(first, columns, flip, elements),
        }
        is_exact
    }

    /// The bits to flip in each byte to make signed elements unsigned, with the zero point moved by
    /// the same amount.
    pub(crate) fn flip(&self) -> u8 {
        match self.format {
            WeightFormat::I8 => 0x80,
            WeightFormat::I4 => 0x88,
            _ => 0,
        }
    }

    /// Packs the scales and zero points of columns `first..`; returns whether their products are
    /// exact.
    pub(crate) fn pack_factors(&self, first: usize, factors: &mut [u8]) -> bool {
        let layout = self.layout();
        let columns = layout.width.min(self.size.n - first);
        let (scales, zeros) = factors.split_at_mut(layout.zeros());
        // Signed elements become unsigned, and their zero points move with them.
        let base = match self.format {
            WeightFormat::I8 => 128.0,
            WeightFormat::I4 => 8.0,
            _ => 0.0,
        };
        let mut is_exact = true;
        let scales = scales.chunks_exact_mut(layout.width * size_of::<f32>());
        for (group, (scales, zeros)) in scales.zip(zeros.chunks_exact_mut(layout.width)).enumerate()
        {
            scales.fill(0);
            zeros.fill(0);
            for column in 0..columns {
                let at = first + column;
                let scale = self.scales.get(at, group);
                scales[4 * column..][..4].copy_from_slice(&scale.to_ne_bytes());
                let zero = self.zeros.map_or(0.0, |zeros| zeros.get(at, group)) + base;
                debug_assert!(f32::from(zero as u8) == zero, "a zero point fits no element");
                zeros[column] = zero as u8;
                is_exact &= f64::from(zero * scale) == f64::from(zero) * f64::from(scale);
            }
        }
        is_exact
    }

    /// Packs row-major elements of whole bytes.
    fn copy_rows(&self, first: usize, columns: usize, flip: u8, to: &mut [u8]) {
        let ((row, _), each) = (self.layout().rows(), self.layout().rows().0 / self.layout().width);
        let rows = self.bytes.chunks_exact((self.size.n * each).max(1)).take(self.size.k);
        for (to, from) in to.chunks_exact_mut(row).zip(rows) {
            for (to, byte) in to.iter_mut().zip(&from[first * each..][..columns * each]) {
                *to = byte ^ flip;
            }
        }
    }

    /// Packs row-major elements of 4 bits: joins those of two rows in a byte.
    fn join_rows(&self, first: usize, columns: usize, flip: u8, to: &mut [u8]) {
        let RhsSize { k, n } = self.size;
        let nibble = |row: usize, column: usize| {
            if row >= k {
                return 0;
            }
            self.bytes[(row * n + column) / 2] >> (4 * (column % 2)) & 15
        };
        for (i, to) in to.chunks_exact_mut(self.layout().width).take(k.div_ceil(2)).enumerate() {
            for (j, to) in to.iter_mut().take(columns).enumerate() {
                let pair = nibble(2 * i, first + j) | nibble(2 * i + 1, first + j) << 4;
                *to = pair ^ flip;
            }
        }
    }

    /// Packs column-major elements: transposes them, four bytes at a time.
    fn transpose(&self, first: usize, columns: usize, flip: u8, to: &mut [u8]) {
        let layout = self.layout();
        let (row, rows) = layout.rows();
        let each = row / layout.width;
        let column = rows * each;
        let flips = u32::from_ne_bytes([flip; 4]);
        for j in (0..columns).step_by(TRANSPOSE_DIM) {
            let side = TRANSPOSE_DIM.min(columns - j);
            let from = &self.bytes[(first + j) * column..][..side * column];
            let mut at = 0;
            while side == TRANSPOSE_DIM
                && column.is_multiple_of(4)
                && at + 4 * TRANSPOSE_DIM <= column
            {
                let block = transpose_16x16(UnalignedF32::of_bytes(&from[at..]), column / 4);
                for (i, lanes) in block.iter().enumerate() {
                    let lanes = lanes.map(|lane| lane.to_bits() ^ flips);
                    for part in 0..4 / each {
                        let to = &mut to[(at / each + i * (4 / each) + part) * row + j * each..];
                        spread(&lanes, 8 * each * part, &mut to[..TRANSPOSE_DIM * each]);
                    }
                }
                at += 4 * TRANSPOSE_DIM;
            }
            for (j, from) in (j..).zip(from.chunks_exact(column.max(1))) {
                for i in at..column {
                    to[i / each * row + j * each + i % each] = from[i] ^ flip;
                }
            }
        }
    }
}

/// Writes bits from `shift` on of each lane, as one byte or as two.
#[inline(always)]
fn spread(lanes: &[u32; TRANSPOSE_DIM], shift: usize, to: &mut [u8]) {
    if to.len() == TRANSPOSE_DIM {
        to.iter_mut().zip(lanes).for_each(|(to, lane)| *to = (lane >> shift) as u8);
    } else {
        for (to, lane) in to.chunks_exact_mut(2).zip(lanes) {
            to.copy_from_slice(&((lane >> shift) as u16).to_le_bytes());
        }
    }
}

/// A compressed matrix in panels, packed for the instruction set in use.
#[derive(Debug)]
pub struct CompressedPanels {
    data: AlignedBuf,
    layout: PackedLayout,
    columns: usize,
}

impl CompressedPanels {
    /// Packs a matrix into an arena.
    ///
    /// # Panics
    /// When a slice of the matrix is too short, or elements of a row or group share a byte with
    /// those of another.
    pub fn new(Packer { threads, arena }: Packer<'_>, matrix: &Compressed<'_>) -> CompressedPanels {
        matrix.check();
        let (layout, columns) = (matrix.layout(), matrix.size.n);
        let panels = columns.div_ceil(layout.width);
        let mut data = arena.alloc(panels * layout.len());
        let is_exact = AtomicBool::new(true);
        each_panel(threads, data.elements_mut::<u8>(), layout.len(), |panel, to| {
            let own = matrix.pack(panel * layout.width, to);
            is_exact.fetch_and(own, Ordering::Relaxed);
        });
        let layout = PackedLayout { is_exact: is_exact.into_inner(), ..layout };
        CompressedPanels { data, layout, columns }
    }

    /// Whether it has `k` rows and `n` columns.
    pub(crate) fn is(&self, k: usize, n: usize) -> bool {
        (self.layout.k, self.columns) == (k, n)
    }

    /// The layout of its panels.
    pub(crate) fn layout(&self) -> PackedLayout {
        assert_eq!(self.layout.width, nr(), "packed for another instruction set");
        self.layout
    }

    /// The panel that begins at column `first`, and those behind it.
    pub(crate) fn panel(&self, first: usize) -> Panel<'_> {
        Panel::new(self.layout(), self.bytes_from(first))
    }

    /// The panels from column `first` on.
    fn bytes_from(&self, first: usize) -> &[u8] {
        &self.data.elements()[first / self.layout.width * self.layout.len()..]
    }
}

/// A compressed matrix, packed or not.
#[derive(Clone, Copy)]
pub(crate) enum CompressedRhs<'a> {
    /// Not packed.
    Unpacked(&'a Compressed<'a>),
    /// Packed.
    Panels(&'a CompressedPanels),
}

impl CompressedRhs<'_> {
    fn layout(self) -> PackedLayout {
        match self {
            CompressedRhs::Unpacked(matrix) => matrix.layout(),
            CompressedRhs::Panels(panels) => panels.layout(),
        }
    }

    /// Elements of f32 that one panel needs as workspace while it is packed and converted.
    pub(crate) fn panel_scratch_len(self, precision: Precision) -> usize {
        let layout = self.layout();
        let packed = match self {
            CompressedRhs::Unpacked(_) => layout.len().div_ceil(size_of::<f32>()),
            CompressedRhs::Panels(_) => 0,
        };
        match precision {
            Precision::F32 => packed,
            Precision::Bf16 => packed + f32_len(layout.k, layout.width, precision),
        }
    }

    /// Bytes of a panel.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn panel_bytes(self) -> usize {
        self.layout().len()
    }

    /// The panels from column `first` on, if they are packed.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn bytes_from(&self, first: usize) -> &[u8] {
        match self {
            CompressedRhs::Panels(panels) => panels.bytes_from(first),
            CompressedRhs::Unpacked(_) => &[],
        }
    }

    /// Elements of scratch memory for a tile of `panels` panels. They are all written as f32 or
    /// bf16, with AMX one group at a time; for few rows one panel is packed, and dequantized in
    /// registers.
    pub(crate) fn scratch_len(
        self,
        panels: usize,
        is_small_m: bool,
        precision: Precision,
    ) -> usize {
        if is_small_m {
            return self.panel_scratch_len(Precision::F32);
        }
        let panel = self.layout().width * precision.rows(self.layout().k);
        #[cfg(target_arch = "x86_64")]
        let panels = if precision.has_tiles() { amx_group(panel) } else { panels };
        panels * panel + self.panel_scratch_len(precision)
    }

    /// Writes the panel that begins at column `first`, dequantized and in the precision of the
    /// GEMM. `workspace` has [`Self::panel_scratch_len`] elements.
    pub(crate) fn write(
        &self,
        first: usize,
        precision: Precision,
        workspace: &mut [f32],
        to: &mut [f32],
    ) {
        if precision == Precision::F32 {
            return self.panel(first, workspace).widen(to);
        }
        #[cfg(target_arch = "x86_64")]
        if precision.per_lane() == 2 && has_dp_bf16() {
            return self.panel(first, workspace).round(to);
        }
        let PackedLayout { k, width, .. } = self.layout();
        let (rows, workspace) = workspace.split_at_mut(f32_len(k, width, precision));
        self.panel(first, workspace).widen(rows);
        rows[k * width..].fill(0.0);
        convert_rows(rows, width, precision, to);
    }

    /// How many of `left` panels this many rows are multiplied by at a time.
    pub(crate) fn panels_at_once(self, rows: usize, left: usize) -> usize {
        let suits = match self.layout().format {
            WeightFormat::F16 => false,
            WeightFormat::U8 | WeightFormat::I8 => true,
            WeightFormat::U4 | WeightFormat::I4 => isa() >= Isa::Avx512,
        };
        match self {
            CompressedRhs::Panels(_) if rows == 1 && suits && left >= DEQUANT_PANELS => {
                DEQUANT_PANELS
            }
            _ => 1,
        }
    }

    /// The panel that begins at column `first`.
    pub(crate) fn panel<'a>(&'a self, first: usize, workspace: &'a mut [f32]) -> Panel<'a> {
        match self {
            CompressedRhs::Panels(panels) => panels.panel(first),
            CompressedRhs::Unpacked(matrix) => matrix.panel(first, bytes_mut(workspace)),
        }
    }
}
