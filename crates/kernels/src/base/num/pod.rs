//! Plain data: values that can be copied as bytes.

use bytemuck::{Zeroable, cast_slice, cast_slice_mut, try_cast_slice};

/// Types for which every bit pattern is a value, that have no padding, and that can be compared.
pub trait Pod: bytemuck::Pod + Default + Send + Sync + PartialEq + std::fmt::Debug {}

impl<T: bytemuck::Pod + Default + Send + Sync + PartialEq + std::fmt::Debug> Pod for T {}

/// An f32 at any address: weights need not be aligned in their file.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, Zeroable)]
#[repr(C, packed)]
pub struct UnalignedF32(f32);

impl UnalignedF32 {
    /// The value.
    #[inline(always)]
    pub fn get(self) -> f32 {
        self.0
    }

    /// The values as aligned f32, if they are aligned.
    pub fn aligned(values: &[UnalignedF32]) -> Option<&[f32]> {
        try_cast_slice(values).ok()
    }

    /// Aligned values.
    pub fn of(values: &[f32]) -> &[UnalignedF32] {
        cast_slice(values)
    }

    /// The values in some bytes; up to three bytes at the end are left out.
    pub fn of_bytes(bytes: &[u8]) -> &[UnalignedF32] {
        let (whole, _) = bytes.as_chunks::<{ size_of::<f32>() }>();
        cast_slice(whole)
    }
}

/// The bytes of some numbers.
pub fn bytes<T: Pod>(values: &[T]) -> &[u8] {
    cast_slice(values)
}

/// The bytes of some numbers, for writing.
pub fn bytes_mut<T: Pod>(values: &mut [T]) -> &mut [u8] {
    cast_slice_mut(values)
}
