//! Conversion of stored values to wide types and back.

use super::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::pod::Pod;
use super::small_float::{F4E2M1, F8E4M3, F8E5M2, F8E8M0, Nf4};
use half::{bf16, f16};
use std::ops::{BitAnd, BitOr, Not};

/// A type that conversions go through: `f32`, `f64`, `i64` or `u64`.
pub trait Wide: Stored<Wide = Self> {
    /// Whether it is a type of integers.
    const IS_INTEGER: bool;

    /// The value as `T`, which need not be able to represent it.
    fn narrow<T: Stored>(self) -> T;
}

/// A number as it is stored.
pub trait Stored: Pod {
    /// The narrowest wide type that holds every value.
    type Wide: Wide;

    /// Whether floats within 32 bits are truncated to it as if they became i32 on the way.
    const TRUNCATES: bool = false;

    /// The same value.
    fn widen(self) -> Self::Wide;

    /// Rounded to nearest, ties to even; to an integer: truncated and wrapped.
    fn from_f32(value: f32) -> Self;

    /// As [`Stored::from_f32`].
    fn from_f64(value: f64) -> Self;

    /// Integers wrap.
    fn from_i64(value: i64) -> Self;

    /// Integers wrap.
    fn from_u64(value: u64) -> Self;
}

/// Unsigned integers, as which the bits of elements are compared and chosen.
pub trait Bits:
    Stored + PartialOrd + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self>
{
    /// All bits but the highest, which is the sign of a real number.
    const MAGNITUDE: Self;

    /// All bits, or none.
    fn all_if(chosen: bool) -> Self;
}

macro_rules! bits {
    ($($t:ty),*) => {
        $(impl Bits for $t {
            const MAGNITUDE: $t = <$t>::MAX >> 1;

            #[inline(always)]
            fn all_if(chosen: bool) -> $t {
                <$t>::from(chosen).wrapping_neg()
            }
        })*
    };
}

bits!(u8, u16, u32, u64);

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
            const TRUNCATES: bool = true;

            #[inline(always)]
            fn widen(self) -> $wide {
                self as $wide
            }

            /// Truncated; NaN is 0. Outside of 64 bits, the nearest 64-bit value, wrapped.
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
    const TRUNCATES: bool = true;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool(pub u8);

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
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct I4(pub u8);

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
