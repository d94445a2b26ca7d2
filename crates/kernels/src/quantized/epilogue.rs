//! What is done to sums while they are in registers of AVX-512.

use super::affine::AffineRows;
use super::tile::WIDTH;
use crate::base::par::Slice;
use std::arch::x86_64::*;

/// What is done to the sums of some rows.
pub(super) trait Epilogue: Copy {
    /// What the products of a row of `P` vectors are added to.
    ///
    /// # Safety
    /// The CPU has AVX-512.
    unsafe fn start<const P: usize>(self) -> [__m512i; P];

    /// Takes the sums of `R` rows of `P` vectors, from `row` on.
    ///
    /// # Safety
    /// The CPU has AVX-512. The destination has the rows and the columns of the panel, which are
    /// at most `P` vectors, and nobody else uses them.
    unsafe fn apply<const R: usize, const P: usize>(self, row: usize, sums: &[[__m512i; P]; R]);
}

/// Writes them to rows of [`WIDTH`].
#[derive(Clone, Copy)]
pub(super) struct ToSums(pub(super) Slice<i32>);

impl Epilogue for ToSums {
    #[inline(always)]
    unsafe fn start<const P: usize>(self) -> [__m512i; P] {
        // SAFETY: the caller's promise.
        unsafe { [_mm512_setzero_si512(); P] }
    }

    #[inline(always)]
    unsafe fn apply<const R: usize, const P: usize>(self, row: usize, sums: &[[__m512i; P]; R]) {
        debug_assert!((row + R) * WIDTH <= self.0.count() && 16 * P <= WIDTH);
        for i in 0..R {
            for p in 0..P {
                // SAFETY: the caller's promise.
                unsafe {
                    let to = self.0.at((row + i) * WIDTH + 16 * p);
                    _mm512_storeu_si512(to.cast(), sums[i][p]);
                }
            }
        }
    }
}

impl Epilogue for AffineRows<'_> {
    #[inline(always)]
    unsafe fn start<const P: usize>(self) -> [__m512i; P] {
        // SAFETY: the caller's promise.
        unsafe { AffineRows::start(&self) }
    }

    #[inline(always)]
    unsafe fn apply<const R: usize, const P: usize>(self, row: usize, sums: &[[__m512i; P]; R]) {
        debug_assert!(self.fits_registers() && self.columns.scales.len() <= 16 * P);
        // SAFETY: the caller's promise, and rows of sums stay in registers only if they fit there.
        unsafe { self.write_registers(row, sums) }
    }
}
