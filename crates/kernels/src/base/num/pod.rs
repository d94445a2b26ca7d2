//! Values that can be moved by their bytes.

use bytemuck::{Zeroable, cast_slice, cast_slice_mut, try_cast_slice};

/// Types for which every bit pattern is a value, that have no padding, and that can be compared.
pub trait Plain: bytemuck::Pod + Default + Send + Sync + PartialEq + std::fmt::Debug {}

impl<T: bytemuck::Pod + Default + Send + Sync + PartialEq + std::fmt::Debug> Plain for T {}

/// An f32 at any address: weights need not be aligned in their file.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, Zeroable)]
#[repr(C, packed)]
pub struct Loose(f32);

impl Loose {
    /// The value.
    #[inline(always)]
    pub fn get(self) -> f32 {
        self.0
    }

    /// Values that are aligned, if they are.
    pub fn aligned(values: &[Loose]) -> Option<&[f32]> {
        try_cast_slice(values).ok()
    }

    /// Aligned values.
    pub fn of(values: &[f32]) -> &[Loose] {
        cast_slice(values)
    }

    /// Values of four bytes each, of which a rest is left out.
    pub fn of_bytes(bytes: &[u8]) -> &[Loose] {
        let (whole, _) = bytes.as_chunks::<{ size_of::<f32>() }>();
        cast_slice(whole)
    }
}

/// The bytes of some numbers.
pub fn bytes<T: Plain>(values: &[T]) -> &[u8] {
    cast_slice(values)
}

/// The bytes of some numbers, for writing.
pub fn bytes_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    cast_slice_mut(values)
}
