//! Square blocks of f32, transposed in registers.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::{Isa, isa};
use crate::base::num::UnalignedF32;

/// Rows and columns of the blocks that [`transpose_16x16`] transposes.
pub(crate) const TRANSPOSE_DIM: usize = 16;

/// Transposes sixteen rows of sixteen elements, whose starts are `stride` elements apart.
///
/// # Panics
/// When the rows are not within `from`.
#[inline(always)]
pub(crate) fn transpose_16x16(
    from: &[UnalignedF32],
    stride: usize,
) -> [[f32; TRANSPOSE_DIM]; TRANSPOSE_DIM] {
    let reach = stride.saturating_mul(TRANSPOSE_DIM - 1).saturating_add(TRANSPOSE_DIM);
    assert!(from.len() >= reach, "a row is not within the slice");
    #[cfg(target_arch = "x86_64")]
    if isa() >= Isa::Avx512 {
        // SAFETY: the instruction set is available, and the rows have been checked.
        return unsafe { super::x86::transpose_16x16(from.as_ptr().cast(), stride) };
    }
    let mut transposed = [[0f32; TRANSPOSE_DIM]; TRANSPOSE_DIM];
    #[cfg(target_arch = "x86_64")]
    if isa() == Isa::Avx2 {
        for (i, j) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            let to = transposed.as_mut_ptr().cast::<f32>();
            // SAFETY: the instruction set is available, the rows have been checked, and the square
            // lies within the array.
            unsafe {
                let from = from.as_ptr().cast::<f32>().add(i * stride + j);
                let to = to.add(j * TRANSPOSE_DIM + i);
                super::x86::transpose_8x8((from, stride as isize), (to, TRANSPOSE_DIM as isize));
            }
        }
        return transposed;
    }
    for (j, row) in from.chunks(stride.max(1)).take(TRANSPOSE_DIM).enumerate() {
        for (i, x) in row.iter().take(TRANSPOSE_DIM).enumerate() {
            transposed[i][j] = x.get();
        }
    }
    transposed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fifteen strides of this size wrap around to one element.
    #[test]
    #[should_panic(expected = "a row is not within the slice")]
    fn rows_farther_apart_than_can_be_counted_are_refused() {
        let stride = 0xeeee_eeee_eeee_eeef_u64 as usize;
        transpose_16x16(UnalignedF32::of(&[0.0; 32]), stride);
    }

    #[test]
    fn blocks_are_transposed() {
        let from: Vec<f32> = (0..16 * 19).map(|i| i as f32).collect();
        let transposed = transpose_16x16(UnalignedF32::of(&from), 19);
        for (i, row) in transposed.iter().enumerate() {
            for (j, x) in row.iter().enumerate() {
                assert_eq!(*x, from[j * 19 + i]);
            }
        }
    }
}
