//! bf16 operands multiplied in f32, for CPUs on which that is faster than VDPBF16PS.
//!
//! Neighbours along k are swapped, so that the chain of multiply-adds is that of VDPBF16PS:
//! `fma(a0, b0, fma(a1, b1, sum))`. Subnormal sums become 0, as they do there: MXCSR is set to
//! flush them while the chains are computed.

use crate::base::isa::{Isa, isa};
use crate::base::simd::{Avx2, Avx512};
use crate::gemm::microkernel::args::{MAX_ROWS, MicrokernelArgs};
use crate::gemm::microkernel::generic::{self, store_rows};
use crate::gemm::output::Out;
use crate::gemm::post_ops::BlockPostOps;
use std::arch::asm;
use std::mem::MaybeUninit;

/// The most columns of a panel.
const WIDTH: usize = 32;

/// Sums of a block, before their post-ops.
#[repr(C, align(64))]
struct Sums([f32; MAX_ROWS * WIDTH]);

/// Computes a block, as [`run`](super::run).
///
/// # Safety
/// The pointers of the block are valid for its size.
pub(crate) unsafe fn run(block: &MicrokernelArgs, rows: usize) {
    debug_assert!(rows <= MAX_ROWS && block.out.columns <= WIDTH);
    let mut sums = MaybeUninit::<Sums>::uninit();
    let to = sums.as_mut_ptr().cast::<f32>();
    let computed = |width: usize| MicrokernelArgs {
        out: Out {
            to,
            is_bf16: false,
            stride: width,
            columns: width,
            earlier: std::ptr::null(),
            absorbed: BlockPostOps::NOTHING,
        },
        ..*block
    };
    // SAFETY: the caller's promise; `isa` is what the CPU has. `sums` holds the sums of any block,
    // and only those that have been written are read.
    unsafe {
        match isa() {
            Isa::Avx512 | Isa::Amx if block.out.columns <= WIDTH / 2 => {
                flushing(|| generic::avx512_half(&computed(WIDTH / 2), rows));
                write_half(to, &block.out, rows);
            }
            Isa::Avx512 | Isa::Amx => {
                flushing(|| generic::avx512(&computed(WIDTH), rows));
                write(to, &block.out, rows);
            }
            Isa::Avx2 if block.out.columns <= WIDTH / 4 => {
                flushing(|| generic::avx2_half(&computed(WIDTH / 4), rows));
                write_avx2_half(to, &block.out, rows);
            }
            Isa::Avx2 => {
                flushing(|| generic::avx2(&computed(WIDTH / 2), rows));
                write_avx2(to, &block.out, rows);
            }
            Isa::Portable => unreachable!("the portable kernels multiply pairs"),
        }
    }
}

/// Calls a function while subnormal results are flushed to 0. The blocks are not inlined, so that
/// nothing else is computed under that setting.
fn flushing(compute: impl FnOnce()) {
    /// Flush-to-zero bit of MXCSR.
    const FLUSH: u32 = 1 << 15;
    let mut before = 0u32;
    // SAFETY: a control register of this thread, which has its value back afterwards; `compute`
    // does not unwind.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &mut before, options(nostack, preserves_flags));
        let flush = before | FLUSH;
        asm!("ldmxcsr [{}]", in(reg) &flush, options(nostack, preserves_flags));
        compute();
        asm!("ldmxcsr [{}]", in(reg) &before, options(nostack, preserves_flags));
    }
}

/// # Safety
/// As [`store_rows`], with AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn write(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx512.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx512, 2>(sums, out, rows) }
}

/// # Safety
/// As [`store_rows`], with AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn write_half(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx512.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx512, 1>(sums, out, rows) }
}

/// # Safety
/// As [`store_rows`], with AVX2.
#[target_feature(enable = "avx2,fma")]
unsafe fn write_avx2(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx2.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx2, 2>(sums, out, rows) }
}

/// # Safety
/// As [`store_rows`], with AVX2.
#[target_feature(enable = "avx2,fma")]
unsafe fn write_avx2_half(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(Isa::Avx2.is_available() && rows <= MAX_ROWS);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx2, 1>(sums, out, rows) }
}
