//! Sums of a block in memory, for those of a later block along k or for post-ops.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::gemm::microkernel::args::{MAX_COLUMNS, MAX_ROWS, is_half, nr};
#[cfg(target_arch = "x86_64")]
use crate::gemm::microkernel::generic::store_rows;
use crate::gemm::output::Out;
use crate::gemm::post_ops::BlockPostOps;
use std::mem::MaybeUninit;

/// Sums of a block, in rows of all columns that a microkernel computes.
#[repr(C, align(64))]
pub(super) struct Sums(MaybeUninit<[f32; MAX_ROWS * MAX_COLUMNS]>);

impl Sums {
    /// Sums that are yet to be written.
    pub(super) fn new() -> Sums {
        Sums(MaybeUninit::uninit())
    }

    /// Where a microkernel writes the sums of a block of this many columns.
    pub(super) fn out(&mut self, columns: usize) -> Out {
        let width = computed_columns(columns);
        Out {
            to: self.0.as_mut_ptr().cast(),
            is_bf16: false,
            stride: width,
            columns: width,
            earlier: std::ptr::null(),
            absorbed: BlockPostOps::NOTHING,
        }
    }

    /// Applies the post-ops to the sums of some rows, and writes them.
    ///
    /// # Safety
    /// A microkernel has written the sums of `rows` rows of as many columns; there is memory for
    /// them, and operands for their post-ops.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn store(&self, out: &Out, rows: usize) {
        debug_assert!(rows <= MAX_ROWS && out.columns <= nr());
        let sums = self.0.as_ptr().cast();
        let is_half = is_half(isa(), out.columns);
        // SAFETY: the caller's promise; `isa` is what the CPU has.
        unsafe {
            match isa() {
                Isa::Avx512 | Isa::Amx if is_half => avx512_half(sums, out, rows),
                Isa::Avx512 | Isa::Amx => avx512(sums, out, rows),
                Isa::Avx2 if is_half => avx2_half(sums, out, rows),
                Isa::Avx2 => avx2(sums, out, rows),
                Isa::Portable => unreachable!("its microkernels apply post-ops themselves"),
            }
        }
    }
}

/// Columns that a microkernel computes for this many: half a panel if that is enough.
fn computed_columns(columns: usize) -> usize {
    if is_half(isa(), columns) { nr() / 2 } else { nr() }
}

/// # Safety
/// As [`store_rows`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx512.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx512, 2>(sums, out, rows) }
}

/// # Safety
/// As [`store_rows`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512_half(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx512.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx512, 1>(sums, out, rows) }
}

/// # Safety
/// As [`store_rows`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx2.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx2, 2>(sums, out, rows) }
}

/// # Safety
/// As [`store_rows`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2_half(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx2.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx2, 1>(sums, out, rows) }
}
