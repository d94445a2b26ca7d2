//! Floats of eight and four bits.

/// Declares a small float stored in a byte, by its exponent and mantissa bits.
macro_rules! small_float {
    ($(#[$doc:meta])* $name:ident, $mantissa:literal, $bias:literal, $top:literal, $over:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub u8);

        impl $name {
            /// The nearest value, ties to even.
            #[inline(always)]
            pub fn new(value: f32) -> $name {
                let bits = value.to_bits();
                let sign = (bits >> 31 << (8 - $name::UNUSED - 1)) as u8;
                let magnitude = f32::from_bits(bits & 0x7fff_ffff);
                $name(sign | Self::magnitude(magnitude))
            }

            /// Rounds to the mantissa's bits or, below the smallest exponent, to a multiple of the
            /// least value.
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
                // A carry out of the mantissa goes into the exponent by itself.
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
    /// 5 exponent and 2 mantissa bits, with infinities and NaN as in IEEE 754.
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

/// A power of two from 2^-127 to 2^127; no sign, no zero; the top code is NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct F8E8M0(pub u8);

impl F8E8M0 {
    /// The nearest power of two, ties to the even exponent; the least one for 0 and below.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Nf4(pub u8);

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
