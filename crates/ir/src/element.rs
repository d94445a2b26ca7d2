//! Element types, their names in the format, and the packing of their values.

use std::fmt;

/// The type of a tensor's elements, as IR files name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementType {
    /// Unknown until the inputs are known (`dynamic`, `undefined`).
    Dynamic,
    /// One byte, 0 or 1.
    Boolean,
    /// 1-bit unsigned, eight to a byte, first element in the most significant bit.
    U1,
    /// 2-bit unsigned, four to a byte, first element in the lowest bits.
    U2,
    /// 3-bit unsigned, groups of eight in three bytes.
    U3,
    /// 4-bit unsigned, two to a byte, first element in the low nibble.
    U4,
    /// 6-bit unsigned, groups of four in three bytes.
    U6,
    /// 8-bit unsigned.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// 64-bit unsigned.
    U64,
    /// 4-bit two's complement, two to a byte, first element in the low nibble.
    I4,
    /// 8-bit signed.
    I8,
    /// 16-bit signed.
    I16,
    /// 32-bit signed.
    I32,
    /// 64-bit signed.
    I64,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// 4-bit NormalFloat, two to a byte.
    NF4,
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinities.
    F8E4M3,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    F8E5M2,
    /// 8-bit power-of-two scale, no sign and no mantissa.
    F8E8M0,
    /// 4-bit float, 2 exponent bits and 1 mantissa bit, two to a byte.
    F4E2M1,
    /// UTF-8 text of any length.
    String,
}

use ElementType::*;

/// Every element type with its attribute name, its port name and its size in bits.
const NAMES: &[(ElementType, &str, &str, u32)] = &[
    (Dynamic, "dynamic", "UNSPECIFIED", 0),
    (Boolean, "boolean", "BOOL", 8),
    (U1, "u1", "BIN", 1),
    (U2, "u2", "U2", 2),
    (U3, "u3", "U3", 3),
    (U4, "u4", "U4", 4),
    (U6, "u6", "U6", 6),
    (U8, "u8", "U8", 8),
    (U16, "u16", "U16", 16),
    (U32, "u32", "U32", 32),
    (U64, "u64", "U64", 64),
    (I4, "i4", "I4", 4),
    (I8, "i8", "I8", 8),
    (I16, "i16", "I16", 16),
    (I32, "i32", "I32", 32),
    (I64, "i64", "I64", 64),
    (F16, "f16", "FP16", 16),
    (BF16, "bf16", "BF16", 16),
    (F32, "f32", "FP32", 32),
    (F64, "f64", "FP64", 64),
    (NF4, "nf4", "NF4", 4),
    (F8E4M3, "f8e4m3", "F8E4M3", 8),
    (F8E5M2, "f8e5m2", "F8E5M2", 8),
    (F8E8M0, "f8e8m0", "F8E8M0", 8),
    (F4E2M1, "f4e2m1", "F4E2M1", 4),
    (String, "string", "STRING", 0),
];

impl ElementType {
    /// Every element type, in the order of the table in `docs/formats.md`.
    pub fn all() -> impl Iterator<Item = ElementType> {
        NAMES.iter().map(|row| row.0)
    }

    fn row(self) -> (&'static str, &'static str, u32) {
        NAMES
            .iter()
            .find(|row| row.0 == self)
            .map_or(("dynamic", "UNSPECIFIED", 0), |row| (row.1, row.2, row.3))
    }

    /// The name used in data attributes and in every message: `f32`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The name written in a port's `precision`: `FP32`.
    pub fn precision(self) -> &'static str {
        self.row().1
    }

    /// Parses a data attribute (`element_type`, `destination_type`), in any letter case. Rejects
    /// port names such as `FP32`, as OpenVINO does.
    pub fn from_attribute(text: &str) -> Option<ElementType> {
        if text.eq_ignore_ascii_case("undefined") {
            return Some(Dynamic);
        }
        NAMES.iter().find(|row| row.1.eq_ignore_ascii_case(text)).map(|row| row.0)
    }

    /// Parses a port's `precision`: the upper-case names, and the lower-case type names. OpenVINO
    /// writes `BIN` for u1, Model Optimizer wrote `U1`.
    pub fn from_precision(text: &str) -> Option<ElementType> {
        match text {
            "bin" | "U1" => return Some(U1),
            "undefined" => return Some(Dynamic),
            _ => {}
        }
        NAMES.iter().find(|row| row.2 == text || row.1 == text).map(|row| row.0)
    }

    /// Size of one element in bits; `None` for `dynamic` and `string`.
    pub fn bits(self) -> Option<u32> {
        match self.row().2 {
            0 => None,
            bits => Some(bits),
        }
    }

    /// Size of one element in bytes, when it is a whole number of bytes.
    pub fn byte_size(self) -> Option<usize> {
        match self.bits() {
            Some(8) => Some(1),
            Some(16) => Some(2),
            Some(32) => Some(4),
            Some(64) => Some(8),
            _ => None,
        }
    }

    /// Whether several elements share a byte.
    pub fn is_packed(self) -> bool {
        self.bits().is_some_and(|bits| bits < 8)
    }

    /// Bytes of `count` packed elements; `None` on overflow and for types without a size. u3 and u6
    /// take whole groups of three bytes.
    pub fn packed_len(self, count: u64) -> Option<u64> {
        match self {
            U3 => count.div_ceil(8).checked_mul(3),
            U6 => count.div_ceil(4).checked_mul(3),
            _ => Some(count.checked_mul(u64::from(self.bits()?))?.div_ceil(8)),
        }
    }

    /// Integers of any width, signed or unsigned; not `boolean`.
    pub fn is_integral(self) -> bool {
        self.is_signed_integral() || self.is_unsigned_integral()
    }

    /// i4 to i64.
    pub fn is_signed_integral(self) -> bool {
        matches!(self, I4 | I8 | I16 | I32 | I64)
    }

    /// u1 to u64.
    pub fn is_unsigned_integral(self) -> bool {
        matches!(self, U1 | U2 | U3 | U4 | U6 | U8 | U16 | U32 | U64)
    }

    /// Floating-point types of any width.
    pub fn is_real(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64 | NF4 | F8E4M3 | F8E5M2 | F8E8M0 | F4E2M1)
    }

    /// Whether the type is known before the inputs are.
    pub fn is_static(self) -> bool {
        self != Dynamic
    }

    /// Smallest and largest value of an integral type of up to 64 bits.
    pub fn integer_range(self) -> Option<(i128, i128)> {
        let bits = self.bits()?;
        if self.is_signed_integral() {
            let half = 1i128 << (bits - 1);
            Some((-half, half - 1))
        } else if self == Boolean {
            Some((0, 1))
        } else if self.is_unsigned_integral() {
            Some((0, (1i128 << bits) - 1))
        } else {
            None
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for t in ElementType::all() {
            assert_eq!(ElementType::from_attribute(t.name()), Some(t));
            assert_eq!(ElementType::from_attribute(&t.name().to_uppercase()), Some(t));
            assert_eq!(ElementType::from_precision(t.precision()), Some(t));
            assert_eq!(ElementType::from_precision(t.name()), Some(t));
        }
        assert_eq!(ElementType::from_precision("U1"), Some(U1));
    }

    #[test]
    fn foreign_names_are_refused() {
        for text in ["FP32", "fp16", "bool", "BIN", "float", "int64", ""] {
            assert_eq!(ElementType::from_attribute(text), None, "{text}");
        }
        for text in ["F32", "fp32", "fp16", "float16", "MIXED", "DYNAMIC"] {
            assert_eq!(ElementType::from_precision(text), None, "{text}");
        }
    }

    /// The byte counts of the packing table in semantics 7.5.
    #[test]
    fn packed_lengths() {
        for (t, count, bytes) in [
            (U1, 10, 2),
            (U2, 5, 2),
            (U3, 8, 3),
            (U3, 5, 3),
            (U6, 4, 3),
            (U6, 5, 6),
            (I4, 5, 3),
            (Boolean, 5, 5),
            (I64, 2, 16),
            (F32, 0, 0),
        ] {
            assert_eq!(t.packed_len(count), Some(bytes), "{t} x {count}");
        }
        assert_eq!(I64.packed_len(u64::MAX), None);
        assert_eq!(String.packed_len(1), None);
    }
}
