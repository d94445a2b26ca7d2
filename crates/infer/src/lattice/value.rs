//! Small tensors with known values or bounds: patterns, axes, shape arithmetic.

use crate::lattice::dim::{Dim, Symbol, Why};
use half::{bf16, f16};
use ir::ElementType;
use smallvec::SmallVec;
use std::fmt;

/// Tensors with more elements than this are data, not shapes, and have no [`PartialValue`].
pub const MAX_ELEMENTS: usize = 1024;

/// An integer between two bounds, both included.
///
/// `i64::MAX` means "unbounded", as in OpenVINO's bound evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The smallest possible value.
    pub lo: i128,
    /// The largest possible value.
    pub hi: i128,
    /// The label of the dim the value came from.
    pub symbol: Symbol,
    /// Why the value is not known.
    pub why: Why,
}

impl Interval {
    /// The value of a dimension without an upper bound.
    pub const INF: i128 = (1 << 63) - 1;

    /// An exact value.
    pub fn exact(value: impl Into<i128>) -> Interval {
        let value = value.into();
        Interval::between(value, value)
    }

    /// Any value from `lo` to `hi`.
    pub fn between(lo: i128, hi: i128) -> Interval {
        Interval { lo, hi: hi.max(lo), symbol: Symbol::NONE, why: Why::NONE }
    }

    /// Any value of an integral type.
    pub fn any(element_type: ElementType) -> Interval {
        let (lo, hi) = element_type.integer_range().unwrap_or((i128::from(i64::MIN), Self::INF));
        Interval::between(lo, hi)
    }

    /// The value, if it is known.
    pub fn value(self) -> Option<i128> {
        (self.lo == self.hi).then_some(self.lo)
    }

    /// Whether the value is known.
    pub fn is_exact(self) -> bool {
        self.lo == self.hi
    }
}

/// The dim of a size value. A negative value cannot be a size and gives `Dim::any()`.
impl From<Interval> for Dim {
    fn from(v: Interval) -> Dim {
        let bound = |b: i128| i64::try_from(b.clamp(0, Interval::INF)).unwrap_or(Dim::INF);
        let dim = if v.lo < 0 && v.lo != v.hi {
            Dim::range(0, bound(v.hi))
        } else {
            Dim::range(bound(v.lo), bound(v.hi))
        };
        // "Unbounded" is written as i64::MAX, even as an exact value.
        let dim = if v.lo >= Interval::INF { Dim::any() } else { dim };
        dim.with_symbol(v.symbol).with_why(v.why)
    }
}

impl From<Dim> for Interval {
    fn from(d: Dim) -> Interval {
        let bounds = Interval::between(d.min().into(), d.max().into());
        Interval { symbol: d.symbol(), why: d.why(), ..bounds }
    }
}

/// The elements of a [`PartialValue`] in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Integers and booleans.
    Int(Vec<Interval>),
    /// Floating-point values: lower and upper bound.
    Real(Vec<(f64, f64)>),
}

/// A small tensor whose elements are known, or at least bounded.
#[derive(Clone, PartialEq)]
pub struct PartialValue {
    /// The element type of the tensor.
    pub element_type: ElementType,
    /// Its shape.
    pub sizes: SmallVec<[usize; 4]>,
    /// Its elements.
    pub elements: Elements,
}

impl PartialValue {
    /// A tensor of integers.
    pub fn ints(element_type: ElementType, sizes: &[usize], elements: Vec<Interval>) -> Self {
        PartialValue { element_type, sizes: sizes.into(), elements: Elements::Int(elements) }
    }

    /// A tensor of floating-point values.
    pub fn reals(element_type: ElementType, sizes: &[usize], elements: Vec<(f64, f64)>) -> Self {
        PartialValue { element_type, sizes: sizes.into(), elements: Elements::Real(elements) }
    }

    /// A tensor of known type and shape only; `None` for types without bounds.
    pub fn unknown(element_type: ElementType, sizes: &[usize]) -> Option<Self> {
        let count: usize = sizes.iter().product();
        let any = element_type.integer_range().map(|_| Interval::any(element_type))?;
        (count <= MAX_ELEMENTS).then(|| Self::ints(element_type, sizes, vec![any; count]))
    }

    /// Whether [`PartialValue::from_bytes`] decodes a type: booleans, integers of 4, 8 and more
    /// bits, floating-point numbers of 16 and more.
    pub fn decodes(element_type: ElementType) -> bool {
        use ElementType::*;
        let is_integral = !matches!(element_type, U1 | U2 | U3 | U6) && element_type.is_integral();
        is_integral || matches!(element_type, Boolean | F16 | BF16 | F32 | F64)
    }

    /// Decodes packed little-endian bytes; `None` for types that cannot hold sizes.
    pub fn from_bytes(element_type: ElementType, sizes: &[usize], bytes: &[u8]) -> Option<Self> {
        let count = sizes.iter().try_fold(1usize, |n, s| n.checked_mul(*s))?;
        if count > MAX_ELEMENTS {
            return None;
        }
        if let Some(ints) = decode_ints(element_type, count, bytes) {
            let exact = ints.into_iter().map(Interval::exact).collect();
            return Some(Self::ints(element_type, sizes, exact));
        }
        let reals = decode_reals(element_type, count, bytes)?;
        Some(Self::reals(element_type, sizes, reals.into_iter().map(|v| (v, v)).collect()))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::Int(v) => v.len(),
            Elements::Real(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, if they are integers.
    pub fn intervals(&self) -> Option<&[Interval]> {
        match &self.elements {
            Elements::Int(v) => Some(v),
            Elements::Real(_) => None,
        }
    }

    /// The elements as exact 64-bit integers, if all are known integers. Values of u64 beyond
    /// `i64::MAX` wrap, so that 2^64-1 reads as -1.
    pub fn i64s(&self) -> Option<Vec<i64>> {
        match &self.elements {
            Elements::Int(v) => v.iter().map(|v| v.value().map(wrap_i64)).collect(),
            // Some files hold axes and counts as real numbers.
            Elements::Real(_) => self.f64s()?.into_iter().map(whole).collect(),
        }
    }

    /// The elements as floating-point numbers, if all are known.
    pub fn f64s(&self) -> Option<Vec<f64>> {
        match &self.elements {
            Elements::Int(v) => v.iter().map(|v| v.value().map(int_to_f64)).collect(),
            Elements::Real(v) => v.iter().map(|(lo, hi)| (lo == hi).then_some(*lo)).collect(),
        }
    }

    /// Whether every element is known.
    pub fn is_exact(&self) -> bool {
        match &self.elements {
            Elements::Int(v) => v.iter().all(|v| v.is_exact()),
            Elements::Real(v) => v.iter().all(|(lo, hi)| lo == hi),
        }
    }

    /// A new tensor of moved elements: the elements of the flattened tensor at indices `from`.
    pub fn gathered(&self, sizes: &[usize], from: impl Iterator<Item = usize>) -> Option<Self> {
        let elements = match &self.elements {
            Elements::Int(v) => {
                Elements::Int(from.map(|i| v.get(i).copied()).collect::<Option<_>>()?)
            }
            Elements::Real(v) => {
                Elements::Real(from.map(|i| v.get(i).copied()).collect::<Option<_>>()?)
            }
        };
        Some(PartialValue { element_type: self.element_type, sizes: sizes.into(), elements })
    }

    /// Whether the first element is not 0, if that is known.
    pub fn truth(&self) -> Option<bool> {
        match &self.elements {
            Elements::Int(v) => v.first()?.value().map(|v| v != 0),
            Elements::Real(v) => v.first().filter(|(lo, hi)| lo == hi).map(|(v, _)| *v != 0.0),
        }
    }

    /// The same elements under another shape.
    pub fn reshaped(&self, sizes: &[usize]) -> Option<Self> {
        let same = sizes.iter().product::<usize>() == self.len();
        same.then(|| PartialValue { sizes: sizes.into(), ..self.clone() })
    }
}

/// Prints `{2, 5}`, or `{1..8, ?}` for bounded and unknown elements.
impl fmt::Display for PartialValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        let show = |i: usize| match &self.elements {
            Elements::Int(v) => v.get(i).map(|v| interval_text(*v, self.element_type)),
            Elements::Real(v) => {
                let text = |v| real_text(v, self.element_type);
                v.get(i).map(|(lo, hi)| if lo == hi { text(*lo) } else { "?".to_owned() })
            }
        };
        let mut parts: Vec<String> = (0..self.len().min(SHOWN)).filter_map(show).collect();
        if self.len() > SHOWN {
            parts.push("…".to_owned());
        }
        write!(f, "{{{}}}", parts.join(", "))
    }
}

impl fmt::Debug for PartialValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} = {self}", self.element_type, &self.sizes[..])
    }
}

/// A number with the digits of its type; very large and very small ones with an exponent.
fn real_text(v: f64, element_type: ElementType) -> String {
    let plain = v == 0.0 || !v.is_finite() || (1e-6..1e15).contains(&v.abs());
    match (plain, element_type == ElementType::F64) {
        (true, true) => v.to_string(),
        (false, true) => format!("{v:e}"),
        (true, false) => narrow(v).to_string(),
        (false, false) => format!("{:e}", narrow(v)),
    }
}

/// A number that was read from a type of at most 32 bits.
#[allow(clippy::as_conversions)] // Such numbers stay what they are; no conversion of floats fails.
fn narrow(v: f64) -> f32 {
    v as f32
}

fn interval_text(v: Interval, element_type: ElementType) -> String {
    let any = Interval::any(element_type);
    match v.value() {
        Some(value) => value.to_string(),
        None if v.lo <= any.lo && v.hi >= any.hi => "?".to_owned(),
        None if v.hi >= Interval::INF => format!("{}..", v.lo),
        None => format!("{}..{}", v.lo, v.hi),
    }
}

/// A finite number without its fraction.
fn whole(value: f64) -> Option<i64> {
    value.is_finite().then(|| i64::try_from(f64_to_int(value)).ok())?
}

/// The low 64 bits, as two's complement.
pub(crate) fn wrap_i64(value: i128) -> i64 {
    let low = value.rem_euclid(1 << 64);
    let signed = if low > Interval::INF { low - (1 << 64) } else { low };
    i64::try_from(signed).unwrap_or(0)
}

/// The value modulo the range of an integral type.
pub(crate) fn wrap_int(value: i128, element_type: ElementType) -> i128 {
    match element_type.integer_range() {
        Some((lo, hi)) => lo + (value - lo).rem_euclid(hi - lo + 1),
        None => value,
    }
}

/// The nearest f64. Integers in IR files have at most 64 bits, which f64 covers.
#[allow(clippy::as_conversions)] // `as` from integers to floats rounds and cannot fail.
pub(crate) fn int_to_f64(value: i128) -> f64 {
    value as f64
}

/// Truncated towards zero and saturated to the range of i128; NaN gives 0.
#[allow(clippy::as_conversions)] // `as` from floats to integers saturates and cannot fail.
pub(crate) fn f64_to_int(value: f64) -> i128 {
    value as i128
}

fn words<const N: usize>(count: usize, bytes: &[u8]) -> Option<impl Iterator<Item = [u8; N]>> {
    let bytes = bytes.get(..count.checked_mul(N)?)?;
    Some(bytes.chunks_exact(N).map(|chunk| {
        let mut word = [0; N];
        word.copy_from_slice(chunk);
        word
    }))
}

fn decode_ints(element_type: ElementType, count: usize, bytes: &[u8]) -> Option<Vec<i128>> {
    use ElementType::*;
    Some(match element_type {
        Boolean => words(count, bytes)?.map(|[b]: [u8; 1]| i128::from(b != 0)).collect(),
        U8 => words(count, bytes)?.map(|[b]: [u8; 1]| b.into()).collect(),
        I8 => words(count, bytes)?.map(|b| i8::from_le_bytes(b).into()).collect(),
        U16 => words(count, bytes)?.map(|b| u16::from_le_bytes(b).into()).collect(),
        I16 => words(count, bytes)?.map(|b| i16::from_le_bytes(b).into()).collect(),
        U32 => words(count, bytes)?.map(|b| u32::from_le_bytes(b).into()).collect(),
        I32 => words(count, bytes)?.map(|b| i32::from_le_bytes(b).into()).collect(),
        U64 => words(count, bytes)?.map(|b| u64::from_le_bytes(b).into()).collect(),
        I64 => words(count, bytes)?.map(|b| i64::from_le_bytes(b).into()).collect(),
        U4 | I4 => {
            let bytes = bytes.get(..count.div_ceil(2))?;
            let nibbles = bytes.iter().flat_map(|b| [b & 15, b >> 4]).take(count);
            let signed = element_type == I4;
            nibbles.map(|n| i128::from(n) - if signed && n > 7 { 16 } else { 0 }).collect()
        }
        _ => return None,
    })
}

fn decode_reals(element_type: ElementType, count: usize, bytes: &[u8]) -> Option<Vec<f64>> {
    use ElementType::*;
    Some(match element_type {
        F16 => words(count, bytes)?.map(|b| f16::from_le_bytes(b).into()).collect(),
        BF16 => words(count, bytes)?.map(|b| bf16::from_le_bytes(b).into()).collect(),
        F32 => words(count, bytes)?.map(|b| f32::from_le_bytes(b).into()).collect(),
        F64 => words(count, bytes)?.map(f64::from_le_bytes).collect(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    #[test]
    fn reals_have_the_digits_of_their_type() {
        let text = |element_type, v: f64| {
            PartialValue::reals(element_type, &[1], vec![(v, v)]).to_string()
        };
        assert_eq!(text(F32, f64::from(0.1f32)), "{0.1}");
        assert_eq!(text(F64, 0.1), "{0.1}");
        assert_eq!(text(F32, f64::from(1e-9f32)), "{1e-9}");
        assert_eq!(text(F64, f64::from(0.1f32)), "{0.10000000149011612}");
    }

    #[test]
    fn types_that_decode_are_known() {
        for element_type in ElementType::all() {
            let decoded = PartialValue::from_bytes(element_type, &[1], &[1; 8]);
            assert_eq!(decoded.is_some(), PartialValue::decodes(element_type), "{element_type}");
        }
    }

    #[test]
    fn bytes_decode() {
        let value = |t, n: usize, bytes: &[u8]| PartialValue::from_bytes(t, &[n], bytes).unwrap();
        assert_eq!(value(I4, 5, &[0xe1, 0x87, 0x0f]).i64s().unwrap(), [1, -2, 7, -8, -1]);
        assert_eq!(value(U4, 2, &[0x1f]).i64s().unwrap(), [15, 1]);
        assert_eq!(value(U64, 1, &[0xff; 8]).i64s().unwrap(), [-1]);
        assert_eq!(value(Boolean, 2, &[0, 7]).i64s().unwrap(), [0, 1]);
        assert_eq!(value(BF16, 1, &[0x80, 0x3f]).f64s().unwrap(), [1.0]);
        assert!(PartialValue::from_bytes(I64, &[2], &[0; 15]).is_none());
        assert!(PartialValue::from_bytes(U8, &[usize::MAX, 2], &[0; 15]).is_none());
    }

    #[test]
    fn dims_and_values_are_the_same_intervals() {
        let dims = [Dim::fixed(3), Dim::any(), Dim::range(2, 9), Dim::range(4, Dim::INF)];
        for dim in dims {
            assert_eq!(Dim::from(Interval::from(dim)), dim);
        }
        assert_eq!(Dim::from(Interval::exact(i64::MAX)), Dim::any());
        assert_eq!(Dim::from(Interval::between(-3, 5)), Dim::range(0, 5));
    }

    #[test]
    fn values_print_as_sets() {
        let v = vec![Interval::exact(2), Interval::between(1, 8), Interval::any(I64)];
        assert_eq!(PartialValue::ints(I64, &[3], v).to_string(), "{2, 1..8, ?}");
    }
}
