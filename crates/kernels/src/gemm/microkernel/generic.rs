//! The f32 microkernel: some rows of A times a panel of B, with all sums in registers. Loops over
//! its rows and vectors have constant lengths, so that the compiler unrolls them.

use crate::base::isa::{Isa, isa};
use crate::base::simd::{Vector, opaque};
use crate::gemm::microkernel::args::{MAX_ROWS, MicrokernelArgs};
use crate::gemm::output::Out;
use crate::gemm::pack::a_conflict;
use crate::gemm::post_ops::BlockPostOps;
use crate::gemm::prefetch::TERMS;
use crate::gemm::source::{Source, Strides};

/// A block whose rows lie anywhere: `R` rows, and the first `P` of the panel's `W` vectors of
/// columns, all in registers.
///
/// # Safety
/// As `microkernel::run`, where the instruction set of `V` is available.
#[inline(always)]
pub(crate) unsafe fn indirect<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &MicrokernelArgs,
    a: *const *const f32,
) {
    debug_assert!(!a.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        let sums = if P == W && a_conflict::rows_conflict::<V, R>(block, a) {
            a_conflict::sums(block, |run, i| *a.add(run * R + i))
        } else {
            indirect_sums::<V, R, P, W>(block, a)
        };
        store(&block.out, sums);
    }
}

/// Whether the loop along k is unrolled by [`TERMS`]. With vectors of eight lanes the core is bound
/// by issue slots, more so if its other hyperthread is busy, so fewer loop instructions help. Not
/// for few rows, which are bound by latency, nor for half panels, which are often all of B.
const fn by_terms<V: Vector, const R: usize, const P: usize, const W: usize>() -> bool {
    V::LANES == 8 && R >= 4 && P == W
}

/// Adds the products for one k: the element of row `i` is at `a(i)`, those of the columns at `b`.
///
/// # Safety
/// The pointers are valid, and the instruction set of `V` is available.
#[inline(always)]
unsafe fn add_term<V: Vector, const R: usize, const P: usize>(
    sums: &mut [[V; P]; R],
    a: impl Fn(usize) -> *const f32,
    b: *const f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut columns = [V::zero(); P];
        for p in 0..P {
            columns[p] = V::load(b.add(p * V::LANES));
        }
        for i in 0..R {
            let a = V::splat(*a(i));
            for p in 0..P {
                sums[i][p] = a.fma(columns[p], sums[i][p]);
            }
        }
    }
}

/// Sums of a block whose rows lie anywhere.
///
/// # Safety
/// As [`indirect`].
#[inline(always)]
unsafe fn indirect_sums<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &MicrokernelArgs,
    a: *const *const f32,
) -> [[V; P]; R] {
    // SAFETY: the caller's promise.
    unsafe {
        // Loops over indices, not iterators: what is not inlined here is not compiled for the
        // instruction set.
        let mut sums = [[V::zero(); P]; R];
        let (mut panel, mut prefetch) = (block.b, block.ahead);
        for run in 0..block.runs {
            let mut b = panel;
            panel = panel.add(block.k * W * V::LANES);
            if (*a.add(run * R)).is_null() || block.k == 0 {
                continue;
            }
            let mut rows = [std::ptr::null(); R];
            for i in 0..R {
                let row = *a.add(run * R + i);
                debug_assert!(!row.is_null());
                rows[i] = row;
            }
            let mut k = 0;
            if by_terms::<V, R, P, W>() && block.k >= TERMS {
                // Loops along k are tested at the end: otherwise the compiler copies all sums in
                // each iteration.
                loop {
                    for t in 0..TERMS {
                        add_term(&mut sums, |i| rows[i].add(k + t), b.add(t * W * V::LANES));
                    }
                    b = b.add(TERMS * W * V::LANES);
                    prefetch.terms();
                    k += TERMS;
                    if block.k - k < TERMS {
                        break;
                    }
                }
                if k == block.k {
                    continue;
                }
            }
            loop {
                add_term(&mut sums, |i| rows[i].add(k), b);
                b = b.add(W * V::LANES);
                // Not for half panels: they are often all of B, and this loop has as many loads as
                // it can bear.
                if P == W {
                    prefetch.term();
                }
                k += 1;
                if k == block.k {
                    break;
                }
            }
        }
        sums
    }
}

/// Rows that are addressed from one pointer.
const ROWS_PER_POINTER: usize = 4;

// Four pointers reach this many rows.
const _: () = assert!(MAX_ROWS <= 4 * ROWS_PER_POINTER);

/// A block whose rows lie at a fixed stride, so that few registers address all of them.
///
/// # Safety
/// As [`indirect`].
#[inline(always)]
pub(crate) unsafe fn strided<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &MicrokernelArgs,
    a: *const *const f32,
    steps: Strides,
) {
    debug_assert!(!a.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        let sums =
            if P == W && steps.inner == 1 && a_conflict::stride_conflicts::<V, R>(block, steps.row)
            {
                a_conflict::sums(block, |run, i| match *a.add(run) {
                    first if first.is_null() => first,
                    first => first.add(i * steps.row),
                })
            } else {
                strided_sums::<V, R, P, W>(block, a, steps)
            };
        store(&block.out, sums);
    }
}

/// Blocks of `R` rows each, one below the other, whose rows lie at a fixed stride. For short rows:
/// what the blocks have in common is set up once.
///
/// # Safety
/// As [`indirect`], for all blocks.
#[inline(always)]
unsafe fn strided_blocks<V: Vector, const R: usize, const P: usize, const W: usize>(
    first: &MicrokernelArgs,
    blocks: usize,
) {
    let Source::Strided(a, steps) = first.a else { unreachable!("rows lie at a fixed stride") };
    debug_assert!(first.runs == 1);
    let mut block = *first;
    // SAFETY: the caller's promise: there is a pointer for the run.
    unsafe {
        let mut row = *a;
        for _ in 0..blocks {
            strided::<V, R, P, W>(&block, &row, steps);
            row = row.wrapping_add(R * steps.row);
            block.out = block.out.below(R);
        }
    }
}

/// Sums of a block whose rows lie at a fixed stride.
///
/// # Safety
/// As [`indirect`].
#[inline(always)]
unsafe fn strided_sums<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &MicrokernelArgs,
    a: *const *const f32,
    Strides { row: step, inner }: Strides,
) -> [[V; P]; R] {
    debug_assert!(!a.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::zero(); P]; R];
        let (mut panel, mut prefetch) = (block.b, block.ahead);
        // Addresses scale an index by 1, 2, 4 or 8, so three steps need a register of their own.
        // Opaque, since the compiler would otherwise compute the product in the loop.
        let thrice = std::hint::black_box(3 * step);
        for run in 0..block.runs {
            let (first, mut b) = (*a.add(run), panel);
            panel = panel.add(block.k * W * V::LANES);
            if first.is_null() || block.k == 0 {
                continue;
            }
            prefetch.begin_run(first);
            let mut rows = [0, 1, 2, 3].map(|i| first.wrapping_add(i * ROWS_PER_POINTER * step));
            let row = |rows: [*const f32; 4], i: usize| {
                let offset =
                    if i % ROWS_PER_POINTER == 3 { thrice } else { i % ROWS_PER_POINTER * step };
                rows[i / ROWS_PER_POINTER].add(offset)
            };
            let mut left = block.k;
            if by_terms::<V, R, P, W>() && inner == 1 && left >= TERMS {
                loop {
                    // Opaque, since the compiler would otherwise use one pointer, and offsets of
                    // the rows that it has no registers for.
                    rows = rows.map(opaque);
                    for t in 0..TERMS {
                        add_term(&mut sums, |i| row(rows, i).add(t), b.add(t * W * V::LANES));
                    }
                    b = b.add(TERMS * W * V::LANES);
                    prefetch.terms();
                    // Wrapping, since the last step may leave A, where nothing is read.
                    rows = rows.map(|row| row.wrapping_add(TERMS));
                    left -= TERMS;
                    if left < TERMS {
                        break;
                    }
                }
                if left == 0 {
                    continue;
                }
            }
            loop {
                rows = rows.map(opaque);
                add_term(&mut sums, |i| row(rows, i), b);
                b = b.add(W * V::LANES);
                // Not for half panels: they are often all of B, and this loop has as many loads as
                // it can bear.
                if P == W {
                    prefetch.term();
                }
                rows = rows.map(|row| row.wrapping_add(inner));
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        sums
    }
}

/// Applies the post-ops to the sums and writes them.
///
/// # Safety
/// As [`indirect`].
#[inline(always)]
pub(crate) unsafe fn store<V: Vector, const R: usize, const P: usize>(
    out: &Out,
    mut sums: [[V; P]; R],
) {
    let lanes = V::LANES;
    debug_assert!(out.columns <= P * lanes && (V::ROUNDS || !out.is_bf16));
    let BlockPostOps { bias, add: (add, stride), activation } = out.absorbed;
    let is_whole = out.columns == P * lanes;
    // Only loads and stores are compiled twice, since this is part of every microkernel.
    let count = |p: usize| out.columns.saturating_sub(p * lanes).min(lanes);
    // SAFETY: the caller's promise; only the first columns are read and written.
    unsafe {
        if !out.earlier.is_null() {
            for i in 0..R {
                for p in 0..P {
                    let earlier = V::load(out.earlier.wrapping_add((i * P + p) * lanes));
                    sums[i][p] = sums[i][p].add(earlier);
                }
            }
        }
        if !bias.is_null() {
            let mut values = [V::zero(); P];
            for p in 0..P {
                values[p] = V::load_masked(bias.wrapping_add(p * lanes), count(p));
            }
            for i in 0..R {
                for p in 0..P {
                    sums[i][p] = sums[i][p].add(values[p]);
                }
            }
        }
        if !add.is_null() {
            let at = |i: usize, p: usize| add.wrapping_add(i * stride + p * lanes);
            if is_whole {
                for i in 0..R {
                    for p in 0..P {
                        sums[i][p] = sums[i][p].add(V::load(at(i, p)));
                    }
                }
            } else {
                for i in 0..R {
                    for p in 0..P {
                        sums[i][p] = sums[i][p].add(V::load_masked(at(i, p), count(p)));
                    }
                }
            }
        }
        activation.apply(&mut sums);
        if V::ROUNDS && out.is_bf16 {
            for i in 0..R {
                for p in 0..P {
                    sums[i][p].store_bf16(out.bf16_at(i, p, lanes), count(p));
                }
            }
        } else if is_whole {
            for i in 0..R {
                for p in 0..P {
                    sums[i][p].store(out.at(i, p, lanes));
                }
            }
        } else {
            for i in 0..R {
                for p in 0..P {
                    sums[i][p].store_masked(out.at(i, p, lanes), count(p));
                }
            }
        }
    }
}

/// Applies the post-ops to sums in rows of `P` vectors, and writes them.
///
/// # Safety
/// There are `rows` rows of sums, memory for them, and operands for their post-ops; the instruction
/// set of `V` is available.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn store_rows<V: Vector, const P: usize>(
    sums: *const f32,
    out: &Out,
    rows: usize,
) {
    debug_assert!(rows < 2 || out.columns <= out.stride);
    let mut row = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while row + 4 <= rows {
            some_rows::<V, 4, P>(sums, out, row);
            row += 4;
        }
        while row < rows {
            some_rows::<V, 1, P>(sums, out, row);
            row += 1;
        }
    }
}

/// # Safety
/// As [`store_rows`].
#[inline(always)]
#[cfg(target_arch = "x86_64")]
unsafe fn some_rows<V: Vector, const R: usize, const P: usize>(
    sums: *const f32,
    out: &Out,
    row: usize,
) {
    debug_assert!(!sums.is_null());
    let out = out.below(row);
    // SAFETY: the caller's promise.
    unsafe {
        let mut values = [[V::zero(); P]; R];
        for i in 0..R {
            for p in 0..P {
                values[i][p] = V::load(sums.add(((row + i) * P + p) * V::LANES));
            }
        }
        store(&out, values);
    }
}

/// Calls the microkernel for this many rows. Each is a function of its own: one function for all
/// would have a stack frame of megabytes in unoptimised builds.
macro_rules! rows {
    ($(#[$target:meta])? $vector:ty, $part:literal of $panel:literal, $block:expr, $rows:expr;
     $($r:literal)*) => {{
        $(#[$target])?
        #[inline(never)]
        unsafe fn strided_rows<const R: usize>(
            block: &MicrokernelArgs,
            a: *const *const f32,
            strides: $crate::gemm::source::Strides,
        ) {
            debug_assert!(!a.is_null() && R <= $crate::gemm::microkernel::args::MAX_ROWS);
            // SAFETY: the promise of who calls the microkernel.
            unsafe { strided::<$vector, R, $part, $panel>(block, a, strides) }
        }
        $(#[$target])?
        #[inline(never)]
        unsafe fn indirect_rows<const R: usize>(block: &MicrokernelArgs, a: *const *const f32) {
            debug_assert!(!a.is_null() && R <= $crate::gemm::microkernel::args::MAX_ROWS);
            // SAFETY: the promise of who calls the microkernel.
            unsafe { indirect::<$vector, R, $part, $panel>(block, a) }
        }
        match ($block.a, $rows) {
            $((Source::Strided(a, strides), $r) => strided_rows::<$r>($block, a, strides),)*
            $((Source::Indirect(a), $r) => indirect_rows::<$r>($block, a),)*
            (_, rows) => unreachable!("a block of {rows} rows"),
        }
    }};
}

pub(crate) use rows;

/// # Safety
/// As `microkernel::run`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn avx512(block: &MicrokernelArgs, rows: usize) {
    use crate::base::simd::Avx512;
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise, with AVX-512.
    unsafe {
        rows!(
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            Avx512, 2 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14
        )
    }
}

/// # Safety
/// As `microkernel::run`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn avx512_half(block: &MicrokernelArgs, rows: usize) {
    use crate::base::simd::Avx512;
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise, with AVX-512.
    unsafe {
        rows!(
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            Avx512, 1 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14
        )
    }
}

/// # Safety
/// As `microkernel::run`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn avx2(block: &MicrokernelArgs, rows: usize) {
    use crate::base::simd::Avx2;
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise, with AVX2.
    unsafe {
        rows!(
            #[target_feature(enable = "avx2,fma")]
            Avx2, 2 of 2, block, rows; 1 2 3 4 5 6
        )
    }
}

/// # Safety
/// As `microkernel::run`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn avx2_half(block: &MicrokernelArgs, rows: usize) {
    use crate::base::simd::Avx2;
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise, with AVX2.
    unsafe {
        rows!(
            #[target_feature(enable = "avx2,fma")]
            Avx2, 1 of 2, block, rows; 1 2 3 4 5 6 7 8
        )
    }
}

/// # Safety
/// As `microkernel::run_blocks`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn avx512_blocks(first: &MicrokernelArgs, blocks: usize) {
    use crate::base::simd::Avx512;
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise, with AVX-512.
    unsafe { strided_blocks::<Avx512, 14, 2, 2>(first, blocks) }
}

/// # Safety
/// As `microkernel::run_blocks`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn avx512_half_blocks(first: &MicrokernelArgs, blocks: usize) {
    use crate::base::simd::Avx512;
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise, with AVX-512.
    unsafe { strided_blocks::<Avx512, 14, 1, 2>(first, blocks) }
}

/// # Safety
/// As `microkernel::run_blocks`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn avx2_blocks(first: &MicrokernelArgs, blocks: usize) {
    use crate::base::simd::Avx2;
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise, with AVX2.
    unsafe { strided_blocks::<Avx2, 6, 2, 2>(first, blocks) }
}

/// # Safety
/// As `microkernel::run_blocks`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn avx2_half_blocks<const R: usize>(first: &MicrokernelArgs, blocks: usize) {
    use crate::base::simd::Avx2;
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise, with AVX2.
    unsafe { strided_blocks::<Avx2, R, 1, 2>(first, blocks) }
}

/// # Safety
/// As `microkernel::run`, with panels for [`Isa::Portable`].
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn portable(block: &MicrokernelArgs, rows: usize) {
    use crate::base::simd::Neon;
    debug_assert!(isa() == Isa::Portable);
    // SAFETY: the caller's promise; NEON is part of AArch64.
    unsafe { rows!(Neon, 4 of 4, block, rows; 1 2 3 4 5 6) }
}

/// # Safety
/// As `microkernel::run`, with panels for [`Isa::Portable`].
#[cfg(not(target_arch = "aarch64"))]
pub(super) unsafe fn portable(block: &MicrokernelArgs, rows: usize) {
    use crate::base::simd::Portable;
    debug_assert!(isa() == Isa::Portable);
    // SAFETY: the caller's promise.
    unsafe { rows!(Portable, 2 of 2, block, rows; 1 2 3 4) }
}

/// # Safety
/// As `microkernel::run_blocks`, with panels for [`Isa::Portable`].
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn portable_blocks(first: &MicrokernelArgs, blocks: usize) {
    use crate::base::simd::Neon;
    debug_assert!(isa() == Isa::Portable);
    // SAFETY: the caller's promise; NEON is part of AArch64.
    unsafe { strided_blocks::<Neon, 6, 4, 4>(first, blocks) }
}

/// # Safety
/// As `microkernel::run_blocks`, with panels for [`Isa::Portable`].
#[cfg(not(target_arch = "aarch64"))]
pub(super) unsafe fn portable_blocks(first: &MicrokernelArgs, blocks: usize) {
    use crate::base::simd::Portable;
    debug_assert!(isa() == Isa::Portable);
    // SAFETY: the caller's promise.
    unsafe { strided_blocks::<Portable, 4, 2, 2>(first, blocks) }
}
