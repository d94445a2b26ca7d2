//! Formats of a compressed B: integers of 8 or 4 bits with a scale and a zero point for each group
//! along k of each column, or f16.
//!
//! Packed panels keep this format, since reading weights takes longer than dequantizing them. An
//! element is dequantized as `(element - zero) * scale`, each operation rounded to f32.

use crate::base::aligned_buf::LINE_BYTES;
use crate::gemm::microkernel::args::nr;
use crate::gemm::pack::b::RhsSize;

/// How the elements of a compressed matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightFormat {
    /// f16, without scales.
    F16,
    /// Unsigned bytes.
    U8,
    /// Signed bytes.
    I8,
    /// Unsigned, two to a byte, the first in the low bits.
    U4,
    /// Signed, two to a byte, the first in the low bits.
    I4,
}

/// A parameter of each group along k of each column.
#[derive(Clone, Copy, Debug)]
pub struct GroupParams<'a> {
    /// All values.
    pub values: &'a [f32],
    /// Distance from one column to the next.
    pub column: usize,
    /// Distance from one group to the next.
    pub group: usize,
}

impl GroupParams<'_> {
    pub(crate) fn get(&self, column: usize, group: usize) -> f32 {
        self.values[column * self.column + group * self.group]
    }

    /// Elements from the first value of a matrix to the last.
    fn reach(&self, columns: usize, groups: usize) -> usize {
        if columns == 0 || groups == 0 {
            return 0;
        }
        let last = (columns - 1).saturating_mul(self.column);
        (groups - 1).saturating_mul(self.group).saturating_add(last).saturating_add(1)
    }
}

/// A matrix B of `k` rows and `n` columns, as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Compressed<'a> {
    /// The elements, without gaps.
    pub bytes: &'a [u8],
    /// How they are stored.
    pub format: WeightFormat,
    /// Whether it is row-major; else column-major.
    pub by_rows: bool,
    /// Its size.
    pub size: RhsSize,
    /// Elements of a group along k.
    pub group: usize,
    /// Scales; unused for f16.
    pub scales: GroupParams<'a>,
    /// Zero points, subtracted before scaling: integers that an element could have. `None`: 0.
    pub zeros: Option<GroupParams<'a>>,
}

/// Layout of a packed panel. First the group parameters: for each group the f32 scales of all
/// columns; then, again for each group, the zero points of all columns as bytes. Then the elements,
/// one row per k; with 4 bits one row per two k, the first in the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedLayout {
    pub(crate) format: WeightFormat,
    pub(crate) k: usize,
    /// Elements of a group along k; 0 without scales.
    pub(crate) group: usize,
    pub(crate) width: usize,
    /// Whether every zero point · scale is exact in f32. Then `element * scale - zero * scale`,
    /// rounded once, is `(element - zero) * scale`.
    pub(crate) is_exact: bool,
}

impl PackedLayout {
    pub(crate) fn groups(&self) -> usize {
        self.k.checked_div(self.group).unwrap_or_default()
    }

    /// Offset of the zero points.
    pub(crate) fn zeros(&self) -> usize {
        self.groups() * self.width * size_of::<f32>()
    }

    /// Offset of the elements.
    pub(crate) fn elements(&self) -> usize {
        self.zeros() + self.groups() * self.width
    }

    /// Bytes in a row of elements, and the number of rows.
    pub(crate) fn rows(&self) -> (usize, usize) {
        match self.format {
            WeightFormat::F16 => (2 * self.width, self.k),
            WeightFormat::U8 | WeightFormat::I8 => (self.width, self.k),
            WeightFormat::U4 | WeightFormat::I4 => (self.width, self.k.div_ceil(2)),
        }
    }

    /// Bytes of a panel.
    pub(crate) fn len(&self) -> usize {
        let (bytes, rows) = self.rows();
        (self.elements() + bytes * rows).next_multiple_of(LINE_BYTES)
    }
}

impl Compressed<'_> {
    /// The layout of its panels.
    pub(crate) fn layout(&self) -> PackedLayout {
        let group = if self.format == WeightFormat::F16 { 0 } else { self.group };
        let width = nr();
        PackedLayout { format: self.format, k: self.size.k, group, width, is_exact: false }
    }

    /// Does not look at zero points: the caller has checked that they are integers of the type of
    /// the elements.
    ///
    /// # Panics
    /// When a slice is too short, when `k` is not a multiple of the group, or when elements of a
    /// row or a group share a byte with those of another.
    pub(crate) fn check(&self) {
        let RhsSize { k, n } = self.size;
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
