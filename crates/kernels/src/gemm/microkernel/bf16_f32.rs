//! bf16 operands multiplied in f32, for CPUs on which that is faster than VDPBF16PS.
//!
//! Neighbours along k are swapped, so that the chain of multiply-adds is that of VDPBF16PS:
//! `fma(a0, b0, fma(a1, b1, sum))`. Subnormal sums become 0, as they do there: MXCSR is set to
//! flush them while the chains are computed.

use crate::base::isa::{Isa, isa};
use crate::gemm::microkernel::args::{MicrokernelArgs, is_half, mr_of, nr};
use crate::gemm::microkernel::generic;
use crate::gemm::microkernel::sums::Sums;
use std::arch::asm;

/// Computes a block, as [`run`](super::run).
///
/// # Safety
/// The pointers of the block are valid for its size.
pub(crate) unsafe fn run(block: &MicrokernelArgs, rows: usize) {
    debug_assert!(rows <= mr_of(block.out.columns) && block.out.columns <= nr());
    let mut sums = Sums::new();
    let out = sums.out(block.out.columns);
    let (is_half, computed) = (is_half(isa(), out.columns), MicrokernelArgs { out, ..*block });
    // SAFETY: the caller's promise; `isa` is what the CPU has. The sums are written before they are
    // read.
    unsafe {
        flushing(|| match isa() {
            Isa::Avx512 | Isa::Amx if is_half => generic::avx512_half(&computed, rows),
            Isa::Avx512 | Isa::Amx => generic::avx512(&computed, rows),
            Isa::Avx2 if is_half => generic::avx2_half(&computed, rows),
            Isa::Avx2 => generic::avx2(&computed, rows),
            Isa::Portable => unreachable!("the portable kernels multiply pairs"),
        });
        sums.store(&block.out, rows);
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
