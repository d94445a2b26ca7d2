//! A matrix B whose elements are stored in fewer bits than f32 has: whole numbers of 8 or 4 bits
//! with a scale and a zero point for each group of terms of a column, or f16.
//!
//! Panels keep them so, side by side as the columns of a block, since reading a weight takes longer
//! than computing it. What is computed is `(element - zero) * scale`, each rounded to f32.

use crate::gemm::microkernel::args::nr;

/// How the elements of a compressed matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightFormat {
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
pub struct GroupParams<'a> {
    /// All of them.
    pub values: &'a [f32],
    /// Distance from the one of a column to that of the next.
    pub column: usize,
    /// Distance from the one of a group to that of the next.
    pub group: usize,
}

impl GroupParams<'_> {
    pub(crate) fn get(&self, column: usize, group: usize) -> f32 {
        self.values[column * self.column + group * self.group]
    }

    /// Values from the first to the last of a matrix.
    fn reach(&self, columns: usize, groups: usize) -> usize {
        if columns == 0 || groups == 0 {
            return 0;
        }
        let last = (columns - 1).saturating_mul(self.column);
        (groups - 1).saturating_mul(self.group).saturating_add(last).saturating_add(1)
    }
}

/// A matrix B of `k` rows and `n` columns as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Compressed<'a> {
    /// The elements, without gaps.
    pub bytes: &'a [u8],
    /// How they are stored.
    pub format: WeightFormat,
    /// Whether row after row or column after column.
    pub by_rows: bool,
    /// Rows and columns.
    pub size: (usize, usize),
    /// Terms of a group.
    pub group: usize,
    /// What elements are multiplied by; not for f16.
    pub scales: GroupParams<'a>,
    /// What is subtracted from elements before, if not 0: whole numbers that an element could be.
    pub zeros: Option<GroupParams<'a>>,
}

/// What of a matrix tells how its panels are laid out: for each group of terms first the scales of
/// all columns, in f32, then the zero points of all, as bytes; and then the elements, for each term
/// a row, or for each two one whose low bits are the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedLayout {
    pub(crate) format: WeightFormat,
    pub(crate) terms: usize,
    /// Terms of a group; 0 where there are no scales.
    pub(crate) group: usize,
    pub(crate) width: usize,
    /// Whether zero points times scales are numbers of f32, so that `element * scale - zero *
    /// scale`, rounded once, is `(element - zero) * scale`.
    pub(crate) is_exact: bool,
}

/// Bytes of a cache line.
const LINE: usize = 64;

impl PackedLayout {
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
        match self.format {
            WeightFormat::F16 => (2 * self.width, self.terms),
            WeightFormat::U8 | WeightFormat::I8 => (self.width, self.terms),
            WeightFormat::U4 | WeightFormat::I4 => (self.width, self.terms.div_ceil(2)),
        }
    }

    /// Bytes of a panel.
    pub(crate) fn len(&self) -> usize {
        let (bytes, rows) = self.rows();
        (self.elements() + bytes * rows).next_multiple_of(LINE)
    }
}

impl Compressed<'_> {
    /// The layout of its panels.
    pub(crate) fn layout(&self) -> PackedLayout {
        let group = if self.format == WeightFormat::F16 { 0 } else { self.group };
        let width = nr();
        PackedLayout { format: self.format, terms: self.size.0, group, width, is_exact: false }
    }

    /// # Panics
    /// When a slice is too short, when groups are not all of as many terms, or when elements of a
    /// row or a group share a byte with others.
    pub(crate) fn check(&self) {
        let (k, n) = self.size;
        let bits = match self.format {
            WeightFormat::F16 => 16,
            WeightFormat::U8 | WeightFormat::I8 => 8,
            WeightFormat::U4 | WeightFormat::I4 => 4,
        };
        let inner = if self.by_rows { n } else { k };
        let all = k.saturating_mul(n).saturating_mul(bits);
        assert!(self.bytes.len().saturating_mul(8) >= all && all < usize::MAX, "B is too short");
        assert!(inner * bits % 8 == 0, "rows share a byte");
        if self.format == WeightFormat::F16 {
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
}
