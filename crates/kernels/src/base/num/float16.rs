//! f16 and bf16 to f32 and back, as operations on bits that compile to vector code.

use half::{bf16, f16};

/// f16 to f32, exactly.
#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    let bits = u32::from(value.to_bits());
    let magnitude = bits & 0x7fff;
    // The exponent bias differs by 112; the product is right for subnormal numbers too.
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
