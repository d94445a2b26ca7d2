//! A matrix B whose elements are stored in fewer bits than f32 has: whole numbers of 8 or 4 bits with
//! a scale and a zero point for each group of terms of a column, or f16.
//!
//! Panels keep them so, side by side as the columns of a block, since reading a weight takes longer
//! than computing it. What is computed is `(element - zero) * scale`, each rounded to f32.

use crate::base::aligned_buf::{AlignedBuf, WeightArena};
use crate::base::num::{UnalignedF32, bytes_mut};
use crate::base::par::Threads;
use crate::base::simd::{SIDE, transpose_16x16};
use crate::gemm::dequant::kernel::Panel;
use crate::gemm::microkernel;
use crate::gemm::pack::b::{each_panel, round_rows, unrounded};
use crate::gemm::precision::Precision;
#[cfg(target_arch = "x86_64")]
use crate::gemm::precision::has_pairs;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the elements of a compressed matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// f16, without scales.
    F16,
    /// Bytes without a sign.
    U8,
    /// Bytes with a sign.
    I8,
    /// Two to a byte, the first in the low bits, without a sign.
    U4,
    /// The same with a sign.
    I4,
}

/// What each group of terms of each column has one of.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a> {
    /// All of them.
    pub values: &'a [f32],
    /// Distance from the one of a column to that of the next.
    pub column: usize,
    /// Distance from the one of a group to that of the next.
    pub group: usize,
}

impl Factors<'_> {
    fn get(&self, column: usize, group: usize) -> f32 {
        self.values[column * self.column + group * self.group]
    }

    /// Values from the first to the last of a matrix.
    fn reach(&self, columns: usize, groups: usize) -> usize {
        match columns * groups {
            0 => 0,
            _ => (columns - 1) * self.column + (groups - 1) * self.group + 1,
        }
    }
}

/// A matrix B of `k` rows and `n` columns as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Compressed<'a> {
    /// The elements, without gaps.
    pub bytes: &'a [u8],
    /// How they are stored.
    pub code: Code,
    /// Whether row after row or column after column.
    pub by_rows: bool,
    /// Rows and columns.
    pub size: (usize, usize),
    /// Terms of a group.
    pub group: usize,
    /// What elements are multiplied by; not for f16.
    pub scales: Factors<'a>,
    /// What is subtracted from elements before, if not 0: whole numbers that an element could be.
    pub zeros: Option<Factors<'a>>,
}

/// What of a matrix tells how its panels are laid out: for each group of terms first the scales of
/// all columns, in f32, then the zero points of all, as bytes; and then the elements, for each term a
/// row, or for each two one whose low bits are the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) code: Code,
    pub(crate) terms: usize,
    /// Terms of a group; 0 where there are no scales.
    pub(crate) group: usize,
    pub(crate) width: usize,
    /// Whether zero points times scales are numbers of f32, so that `element * scale - zero * scale`,
    /// rounded once, is `(element - zero) * scale`.
    pub(crate) is_exact: bool,
}

/// Bytes of a cache line.
const LINE: usize = 64;

impl Form {
    pub(crate) fn groups(&self) -> usize {
        self.terms.checked_div(self.group).unwrap_or_default()
    }

    /// Where the zero points begin.
    pub(crate) fn zeros(&self) -> usize {
        self.groups() * self.width * size_of::<f32>()
    }

    /// Where the elements begin.
    pub(crate) fn elements(&self) -> usize {
        self.zeros() + self.groups() * self.width
    }

    /// Bytes of the rows of elements, and their number.
    pub(crate) fn rows(&self) -> (usize, usize) {
        match self.code {
            Code::F16 => (2 * self.width, self.terms),
            Code::U8 | Code::I8 => (self.width, self.terms),
            Code::U4 | Code::I4 => (self.width, self.terms.div_ceil(2)),
        }
    }

    /// Bytes of a panel.
    pub(crate) fn len(&self) -> usize {
        let (bytes, rows) = self.rows();
        (self.elements() + bytes * rows).next_multiple_of(LINE)
    }
}

impl Compressed<'_> {
    /// How its panels are laid out.
    pub(crate) fn form(&self) -> Form {
        let group = if self.code == Code::F16 { 0 } else { self.group };
        let width = microkernel::shape().1;
        Form { code: self.code, terms: self.size.0, group, width, is_exact: false }
    }

    /// # Panics
    /// When a slice is too short, when groups are not all of as many terms, or when elements of a row
    /// or a group share a byte with others.
    pub(crate) fn check(&self) {
        let (k, n) = self.size;
        let bits = match self.code {
            Code::F16 => 16,
            Code::U8 | Code::I8 => 8,
            Code::U4 | Code::I4 => 4,
        };
        let inner = if self.by_rows { n } else { k };
        assert!(self.bytes.len() * 8 >= k * n * bits, "B is too short");
        assert!(inner * bits % 8 == 0, "rows share a byte");
        if self.code == Code::F16 {
            return;
        }
        assert!(self.group > 0 && k.is_multiple_of(self.group), "groups differ");
        let is_even = self.group.is_multiple_of(2) || bits == 8 || self.group == k;
        assert!(is_even, "groups share a byte");
        for factors in [Some(self.scales), self.zeros].into_iter().flatten() {
            let reach = factors.reach(n, k / self.group);
            assert!(factors.values.len() >= reach, "there are too few factors");
        }
    }

    /// Columns `first..` as a panel, laid out in some memory; columns beyond the last are 0.
    pub(crate) fn panel<'a>(&self, first: usize, room: &'a mut [u8]) -> Panel<'a> {
        let is_exact = self.pack(first, room);
        Panel::new(Form { is_exact, ..self.form() }, room)
    }

    /// Whether zero points times scales are exact.
    fn pack(&self, first: usize, to: &mut [u8]) -> bool {
        let form = self.form();
        let columns = form.width.min(self.size.1 - first);
        let (factors, elements) = to.split_at_mut(form.elements());
        let (scales, zeros) = factors.split_at_mut(form.zeros());
        // Elements without a sign lie higher.
        let (flip, base) = match self.code {
            Code::I8 => (0x80, 128.0),
            Code::I4 => (0x88, 8.0),
            _ => (0, 0.0),
        };
        let mut is_exact = true;
        let scales = scales.chunks_exact_mut(form.width * size_of::<f32>());
        for (group, (scales, zeros)) in scales.zip(zeros.chunks_exact_mut(form.width)).enumerate() {
            scales.fill(0);
            zeros.fill(0);
            for column in 0..columns {
                let at = first + column;
                let scale = self.scales.get(at, group);
                scales[4 * column..][..4].copy_from_slice(&scale.to_ne_bytes());
                let zero = self.zeros.map_or(0.0, |zeros| zeros.get(at, group)) + base;
                zeros[column] = zero as u8;
                is_exact &= f64::from(zero * scale) == f64::from(zero) * f64::from(scale);
            }
        }
        if columns < form.width {
            elements.fill(0);
        }
        match (self.by_rows, self.code) {
            (false, _) => self.transpose(first, columns, flip, elements),
            (true, Code::U4 | Code::I4) => self.join_rows(first, columns, flip, elements),
            (true, _) => self.copy_rows(first, columns, flip, elements),
        }
        is_exact
    }

    /// Copies what lies row by row, of whole bytes.
    fn copy_rows(&self, first: usize, columns: usize, flip: u8, to: &mut [u8]) {
        let ((row, _), each) = (self.form().rows(), self.form().rows().0 / self.form().width);
        let rows = self.bytes.chunks_exact((self.size.1 * each).max(1)).take(self.size.0);
        for (to, from) in to.chunks_exact_mut(row).zip(rows) {
            for (to, byte) in to.iter_mut().zip(&from[first * each..][..columns * each]) {
                *to = byte ^ flip;
            }
        }
    }

    /// Joins elements of two rows that lie beside their neighbours.
    fn join_rows(&self, first: usize, columns: usize, flip: u8, to: &mut [u8]) {
        let (k, n) = self.size;
        let nibble = |row: usize, column: usize| match row < k {
            true => self.bytes[(row * n + column) / 2] >> (4 * (column % 2)) & 15,
            false => 0,
        };
        for (i, to) in to.chunks_exact_mut(self.form().width).take(k.div_ceil(2)).enumerate() {
            for (j, to) in to.iter_mut().take(columns).enumerate() {
                let pair = nibble(2 * i, first + j) | nibble(2 * i + 1, first + j) << 4;
                *to = pair ^ flip;
            }
        }
    }

    /// Turns what lies column by column, four bytes at a time.
    fn transpose(&self, first: usize, columns: usize, flip: u8, to: &mut [u8]) {
        let form = self.form();
        let (row, rows) = form.rows();
        let each = row / form.width;
        let column = rows * each;
        let flips = u32::from_ne_bytes([flip; 4]);
        for j in (0..columns).step_by(SIDE) {
            let side = SIDE.min(columns - j);
            let from = &self.bytes[(first + j) * column..][..side * column];
            let mut at = 0;
            while side == SIDE && column.is_multiple_of(4) && at + 4 * SIDE <= column {
                let block = transpose_16x16(UnalignedF32::of_bytes(&from[at..]), column / 4);
                for (i, lanes) in block.iter().enumerate() {
                    let lanes = lanes.map(|lane| lane.to_bits() ^ flips);
                    for part in 0..4 / each {
                        let to = &mut to[(at / each + i * (4 / each) + part) * row + j * each..];
                        spread(&lanes, 8 * each * part, &mut to[..SIDE * each]);
                    }
                }
                at += 4 * SIDE;
            }
            for (j, from) in (j..).zip(from.chunks_exact(column.max(1))) {
                for i in at..column {
                    to[i / each * row + j * each + i % each] = from[i] ^ flip;
                }
            }
        }
    }
}

/// Writes of each lane the bits from `shift` on, as a byte or as two.
#[inline(always)]
fn spread(lanes: &[u32; SIDE], shift: usize, to: &mut [u8]) {
    match to.len() == SIDE {
        true => to.iter_mut().zip(lanes).for_each(|(to, lane)| *to = (lane >> shift) as u8),
        false => {
            for (to, lane) in to.chunks_exact_mut(2).zip(lanes) {
                to.copy_from_slice(&((lane >> shift) as u16).to_le_bytes());
            }
        }
    }
}

/// A compressed matrix in panels, for the instruction set in use.
#[derive(Debug)]
pub struct CompressedPanels {
    data: AlignedBuf,
    form: Form,
    columns: usize,
}

impl CompressedPanels {
    /// Lays out a matrix, and puts it on a arena.
    ///
    /// # Panics
    /// When a slice of the matrix is too short, or elements of a row or group share a byte with others.
    pub fn new(
        (threads, arena): (&Threads, &WeightArena),
        matrix: &Compressed<'_>,
    ) -> CompressedPanels {
        matrix.check();
        let (form, columns) = (matrix.form(), matrix.size.1);
        let panels = columns.div_ceil(form.width);
        let mut data = arena.alloc(panels * form.len());
        let is_exact = AtomicBool::new(true);
        each_panel(threads, data.elements_mut::<u8>(), form.len(), |panel, to| {
            let own = matrix.pack(panel * form.width, to);
            is_exact.fetch_and(own, Ordering::Relaxed);
        });
        let form = Form { is_exact: is_exact.into_inner(), ..form };
        CompressedPanels { data, form, columns }
    }

    /// Whether it has `k` rows and `n` columns.
    pub(crate) fn is(&self, k: usize, n: usize) -> bool {
        (self.form.terms, self.columns) == (k, n)
    }

    /// How its panels are laid out.
    pub(crate) fn form(&self) -> Form {
        assert_eq!(self.form.width, microkernel::shape().1, "packed for another instruction set");
        self.form
    }

    /// The panel that begins with a column.
    pub(crate) fn panel(&self, first: usize) -> Panel<'_> {
        Panel::new(self.form(), &self.bytes_from(first)[..self.form.len()])
    }

    /// The panels from a column on.
    fn bytes_from(&self, first: usize) -> &[u8] {
        &self.data.elements()[first / self.form.width * self.form.len()..]
    }
}

/// A compressed matrix, laid out before or not.
#[derive(Clone, Copy)]
pub(crate) enum Stored<'a> {
    /// As it is stored.
    Plain(&'a Compressed<'a>),
    /// In panels.
    Panels(&'a CompressedPanels),
}

impl Stored<'_> {
    fn form(self) -> Form {
        match self {
            Stored::Plain(matrix) => matrix.form(),
            Stored::Panels(panels) => panels.form(),
        }
    }

    /// Elements of f32 that one panel takes while it is laid out and rounded.
    pub(crate) fn panel_room(self, precision: Precision) -> usize {
        let form = self.form();
        let laid = match self {
            Stored::Plain(_) => form.len().div_ceil(size_of::<f32>()),
            Stored::Panels(_) => 0,
        };
        match precision {
            Precision::F32 => laid,
            Precision::Bf16 => laid + unrounded(form.terms, form.width, precision),
        }
    }

    /// Bytes of a panel.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn panel_bytes(self) -> usize {
        self.form().len()
    }

    /// The panels from a column on, if they are laid out.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn bytes_from(&self, first: usize) -> &[u8] {
        match self {
            Stored::Panels(panels) => panels.bytes_from(first),
            Stored::Plain(_) => &[],
        }
    }

    /// Elements of scratch memory for a tile of some panels, which are written unless rows are few; for
    /// tiles of the machine some at a time.
    pub(crate) fn room(self, panels: usize, are_few: bool, precision: Precision) -> usize {
        if are_few {
            return self.panel_room(Precision::F32);
        }
        let panel = self.form().width * precision.rows(self.form().terms);
        #[cfg(target_arch = "x86_64")]
        let panels =
            if precision.has_tiles() { crate::gemm::amx::kernel::group(panel) } else { panels };
        panels * panel + self.panel_room(precision)
    }

    /// Writes the panel that begins with a column as it is multiplied; `room` is as long as
    /// [`Self::panel_room`] says.
    pub(crate) fn write(
        &self,
        first: usize,
        precision: Precision,
        room: &mut [f32],
        to: &mut [f32],
    ) {
        if precision == Precision::F32 {
            return self.panel(first, room).widen(to);
        }
        #[cfg(target_arch = "x86_64")]
        if precision.per_lane() == 2 && has_pairs() {
            return self.panel(first, room).round(to);
        }
        let Form { terms, width, .. } = self.form();
        let (rows, room) = room.split_at_mut(unrounded(terms, width, precision));
        self.panel(first, room).widen(rows);
        rows[terms * width..].fill(0.0);
        round_rows(rows, width, precision, to);
    }

    /// The panel that begins with a column.
    pub(crate) fn panel<'a>(&'a self, first: usize, room: &'a mut [f32]) -> Panel<'a> {
        match self {
            Stored::Panels(panels) => panels.panel(first),
            Stored::Plain(matrix) => matrix.panel(first, bytes_mut(room)),
        }
    }
}
