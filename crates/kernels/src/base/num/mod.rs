//! Element types as Rust types, and how their values widen and narrow.
//!
//! f16 and bf16 are stored as such and computed in f32. Conversions are written as operations on
//! bits that compile to vector code, and round to nearest, ties to even.

pub use half::{bf16, f16};

/// Types that can be moved by their bytes and have a zero.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub unsafe trait Plain:
    Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + 'static
{
}

macro_rules! plain {
    ($($t:ty),*) => {
        // SAFETY: numbers without padding for which every bit pattern is a value.
        $(unsafe impl Plain for $t {})*
    };
}

plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, f16, bf16, f32, f64);

/// An f32 that may lie anywhere: weights need not be aligned in their file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, packed)]
pub struct Loose(f32);

// SAFETY: one f32 without padding.
unsafe impl Plain for Loose {}

impl Loose {
    /// The value.
    #[inline(always)]
    pub fn get(self) -> f32 {
        self.0
    }

    /// Values that are aligned, if they are.
    pub fn aligned(values: &[Loose]) -> Option<&[f32]> {
        // SAFETY: the same size, and every bit pattern is a value.
        match unsafe { values.align_to() } {
            ([], values, []) => Some(values),
            _ => None,
        }
    }

    /// Aligned values.
    pub fn of(values: &[f32]) -> &[Loose] {
        // SAFETY: the same size, and less alignment.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
    }

    /// Values of four bytes each, of which a rest is left out.
    pub fn of_bytes(bytes: &[u8]) -> &[Loose] {
        // SAFETY: no more bytes, no alignment, and every bit pattern is a value.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<f32>()) }
    }
}

/// The bytes of some numbers.
pub fn bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: Plain types have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of some numbers, for writing.
pub fn bytes_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and every bit pattern is a value.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// A type that conversions go through: `f32`, `f64`, `i64` or `u64`.
pub trait Wide: Plain {
    /// Whether it is a type of integers.
    const IS_INTEGER: bool;

    /// The value as `T`, which need not be able to hold it.
    fn narrow<T: Stored>(self) -> T;
}

/// A number as it is stored.
pub trait Stored: Plain {
    /// The narrowest of the wide types that holds every value.
    type Wide: Wide;

    /// The same value.
    fn widen(self) -> Self::Wide;

    /// Rounded to nearest, ties to even; integers truncate and wrap.
    fn from_f32(value: f32) -> Self;

    /// As [`Stored::from_f32`].
    fn from_f64(value: f64) -> Self;

    /// Integers wrap.
    fn from_i64(value: i64) -> Self;

    /// Integers wrap.
    fn from_u64(value: u64) -> Self;
}

macro_rules! wide {
    ($($t:ty, $from:ident, $is_integer:literal);*) => {
        $(impl Wide for $t {
            const IS_INTEGER: bool = $is_integer;

            #[inline(always)]
            fn narrow<T: Stored>(self) -> T {
                T::$from(self)
            }
        })*
    };
}

wide!(f32, from_f32, false; f64, from_f64, false; i64, from_i64, true; u64, from_u64, true);

macro_rules! stored_integer {
    ($($t:ty => $wide:ty),*) => {
        $(impl Stored for $t {
            type Wide = $wide;

            #[inline(always)]
            fn widen(self) -> $wide {
                self as $wide
            }

            /// Truncated, NaN as 0; beyond 64 bits the nearest 64-bit value, whose low bits stay.
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                value as i64 as Self
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as i64 as Self
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as Self
            }
        })*
    };
}

stored_integer!(u8 => i64, u16 => i64, u32 => i64, i8 => i64, i16 => i64, i32 => i64, i64 => i64);

impl Stored for u64 {
    type Wide = u64;

    #[inline(always)]
    fn widen(self) -> u64 {
        self
    }

    #[inline(always)]
    fn from_f32(value: f32) -> u64 {
        if value < 0.0 { value as i64 as u64 } else { value as u64 }
    }

    #[inline(always)]
    fn from_f64(value: f64) -> u64 {
        if value < 0.0 { value as i64 as u64 } else { value as u64 }
    }

    #[inline(always)]
    fn from_i64(value: i64) -> u64 {
        value as u64
    }

    #[inline(always)]
    fn from_u64(value: u64) -> u64 {
        value
    }
}

macro_rules! stored_float {
    ($t:ty, $wide:ty, |$v:ident| $widen:expr, |$f:ident| $from_f32:expr, |$d:ident| $from_f64:expr) => {
        impl Stored for $t {
            type Wide = $wide;

            #[inline(always)]
            fn widen(self) -> $wide {
                let $v = self;
                $widen
            }

            #[inline(always)]
            fn from_f32($f: f32) -> Self {
                $from_f32
            }

            #[inline(always)]
            fn from_f64($d: f64) -> Self {
                $from_f64
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                Self::from_f64(value as f64)
            }

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                Self::from_f64(value as f64)
            }
        }
    };
}

impl Stored for f32 {
    type Wide = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn from_f32(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn from_i64(value: i64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn from_u64(value: u64) -> f32 {
        value as f32
    }
}

stored_float!(f64, f64, |v| v, |f| f64::from(f), |d| d);
stored_float!(f16, f32, |v| f16_to_f32(v), |f| f32_to_f16(f), |d| f16::from_f64(d));
stored_float!(bf16, f32, |v| bf16_to_f32(v), |f| f32_to_bf16(f), |d| bf16::from_f64(d));
stored_float!(F8E4M3, f32, |v| v.to_f32(), |f| F8E4M3::new(f), |d| F8E4M3::new(d as f32));
stored_float!(F8E5M2, f32, |v| v.to_f32(), |f| F8E5M2::new(f), |d| F8E5M2::new(d as f32));
stored_float!(F8E8M0, f32, |v| v.to_f32(), |f| F8E8M0::new(f), |d| F8E8M0::new(d as f32));
stored_float!(F4E2M1, f32, |v| v.to_f32(), |f| F4E2M1::new(f), |d| F4E2M1::new(d as f32));
stored_float!(Nf4, f32, |v| v.to_f32(), |f| Nf4::new(f), |d| Nf4::new(d as f32));

/// A boolean: one byte, true when it is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Bool(pub u8);

// SAFETY: one byte.
unsafe impl Plain for Bool {}

impl Stored for Bool {
    type Wide = i64;

    #[inline(always)]
    fn widen(self) -> i64 {
        i64::from(self.0 != 0)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Bool {
        Bool(u8::from(value != 0.0))
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Bool {
        Bool(u8::from(value != 0.0))
    }

    #[inline(always)]
    fn from_i64(value: i64) -> Bool {
        Bool(u8::from(value != 0))
    }

    #[inline(always)]
    fn from_u64(value: u64) -> Bool {
        Bool(u8::from(value != 0))
    }
}

/// A 4-bit signed integer, unpacked: its two's complement in the low nibble.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct I4(pub u8);

// SAFETY: one byte.
unsafe impl Plain for I4 {}

impl Stored for I4 {
    type Wide = i64;

    #[inline(always)]
    fn widen(self) -> i64 {
        i64::from(((self.0 << 4) as i8) >> 4)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> I4 {
        I4(u8::from_f32(value) & 15)
    }

    #[inline(always)]
    fn from_f64(value: f64) -> I4 {
        I4(u8::from_f64(value) & 15)
    }

    #[inline(always)]
    fn from_i64(value: i64) -> I4 {
        I4(value as u8 & 15)
    }

    #[inline(always)]
    fn from_u64(value: u64) -> I4 {
        I4(value as u8 & 15)
    }
}

/// f16 to f32, exactly.
#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    let bits = u32::from(value.to_bits());
    let magnitude = bits & 0x7fff;
    // The exponent bias differs by 112, for subnormal numbers too.
    let finite = (f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude << 13 | 0x7f80_0000;
    let chosen = if magnitude >= 0x7c00 { special } else { finite };
    f32::from_bits(chosen | (bits & 0x8000) << 16)
}

/// f32 to f16, ties to even.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(magnitude >> 13 & 1) >> 13;
    // Adding 0.5 rounds a subnormal number at its last bit.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let special = if magnitude > 0x7f80_0000 { 0x7e00 | magnitude >> 13 & 0x3ff } else { 0x7c00 };
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let chosen = if magnitude >= 0x4780_0000 { special } else { finite };
    f16::from_bits((chosen | bits >> 16 & 0x8000) as u16)
}

/// bf16 to f32, exactly.
#[inline(always)]
pub fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// f32 to bf16, ties to even.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let nan = bits >> 16 | 0x40;
    let chosen = if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded };
    bf16::from_bits(chosen as u16)
}

/// Declares a small float stored in a byte, by its exponent and mantissa bits.
macro_rules! small_float {
    ($(#[$doc:meta])* $name:ident, $mantissa:literal, $bias:literal, $top:literal, $over:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(transparent)]
        pub struct $name(pub u8);

        // SAFETY: one byte.
        unsafe impl Plain for $name {}

        impl $name {
            /// The nearest value, ties to even.
            #[inline(always)]
            pub fn new(value: f32) -> $name {
                let bits = value.to_bits();
                let sign = (bits >> 31 << (8 - $name::UNUSED - 1)) as u8;
                let magnitude = f32::from_bits(bits & 0x7fff_ffff);
                $name(sign | Self::magnitude(magnitude))
            }

            /// Rounds at the last bit of the mantissa, or of the smallest exponent.
            #[inline(always)]
            fn magnitude(value: f32) -> u8 {
                let over: fn(f32) -> Option<u8> = $over;
                if let Some(code) = over(value) {
                    return code;
                }
                let bits = value.to_bits();
                let exponent = ((bits >> 23) as i32 - 127).max(1 - $bias);
                // One unit in the last place of the result, as an f32.
                let unit = f32::from_bits(((exponent - $mantissa + 127) as u32) << 23);
                let steps = (value / unit).round_ties_even() as i32;
                // Steps that overflow the mantissa carry into the exponent by themselves.
                let code = ((exponent + $bias - 1) << $mantissa) + steps;
                code as u8
            }

            /// The value, exactly.
            #[inline(always)]
            pub fn to_f32(self) -> f32 {
                let code = i32::from(self.0) & $top;
                let (exponent, mantissa) = (code >> $mantissa, code & ((1 << $mantissa) - 1));
                let hidden = if exponent == 0 { 0 } else { 1 << $mantissa };
                let power = exponent.max(1) - $bias - $mantissa + 127;
                let value = (hidden + mantissa) as f32 * f32::from_bits((power as u32) << 23);
                let value = if Self::is_special(code) { Self::special(code) } else { value };
                let negative = self.0 >> (8 - $name::UNUSED - 1) & 1 == 1;
                if negative { -value } else { value }
            }
        }
    };
}

small_float! {
    /// 4 exponent and 3 mantissa bits; no infinities, NaN at the top.
    F8E4M3, 3, 7, 0x7f, |v| if v > 464.0 || v.is_nan() { Some(0x7f) } else { None }
}

impl F8E4M3 {
    const UNUSED: u32 = 0;

    #[inline(always)]
    fn is_special(code: i32) -> bool {
        code == 0x7f
    }

    #[inline(always)]
    fn special(_code: i32) -> f32 {
        f32::NAN
    }
}

small_float! {
    /// 5 exponent and 2 mantissa bits, with infinities and NaN as IEEE has them.
    F8E5M2, 2, 15, 0x7f, |v| {
        if v.is_nan() { Some(0x7e) } else if v >= 61440.0 { Some(0x7c) } else { None }
    }
}

impl F8E5M2 {
    const UNUSED: u32 = 0;

    #[inline(always)]
    fn is_special(code: i32) -> bool {
        code >= 0x7c
    }

    #[inline(always)]
    fn special(code: i32) -> f32 {
        if code == 0x7c { f32::INFINITY } else { f32::NAN }
    }
}

small_float! {
    /// 2 exponent bits and 1 mantissa bit, unpacked to the low nibble; saturates at 6.
    F4E2M1, 1, 1, 0x07, |v| if v >= 5.0 || v.is_nan() { Some(7) } else { None }
}

impl F4E2M1 {
    const UNUSED: u32 = 4;

    #[inline(always)]
    fn is_special(_code: i32) -> bool {
        false
    }

    #[inline(always)]
    fn special(_code: i32) -> f32 {
        0.0
    }
}

/// A power of two from 2^-127 to 2^127; no sign, no zero, NaN at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct F8E8M0(pub u8);

// SAFETY: one byte.
unsafe impl Plain for F8E8M0 {}

impl F8E8M0 {
    /// The nearest power of two, ties to the even exponent; what is not positive gives the least.
    #[inline(always)]
    pub fn new(value: f32) -> F8E8M0 {
        let bits = value.to_bits();
        if value.is_nan() {
            return F8E8M0(0xff);
        }
        if value <= 0.0 {
            return F8E8M0(0);
        }
        let (exponent, mantissa) = (bits >> 23, bits & 0x7f_ffff);
        let up = mantissa > 0x40_0000 || (mantissa == 0x40_0000 && exponent & 1 == 1);
        let up = up && exponent > 0;
        F8E8M0((exponent + u32::from(up)).min(0xfe) as u8)
    }

    /// The value, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        match self.0 {
            0xff => f32::NAN,
            0 => f32::from_bits(1 << 22),
            exponent => f32::from_bits(u32::from(exponent) << 23),
        }
    }
}

/// A 4-bit NormalFloat, unpacked to the low nibble: one of sixteen quantiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Nf4(pub u8);

// SAFETY: one byte.
unsafe impl Plain for Nf4 {}

/// The quantiles of the QLoRA paper (Dettmers and others, 2023, appendix E).
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

impl Nf4 {
    /// The nearest quantile.
    #[inline(always)]
    pub fn new(value: f32) -> Nf4 {
        let above = |i: &usize| value > (NF4[*i] + NF4[*i + 1]) * 0.5;
        Nf4((0..15).filter(above).count() as u8)
    }

    /// The quantile.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        NF4[usize::from(self.0 & 15)]
    }
}

#[cfg(test)]
mod tests;
