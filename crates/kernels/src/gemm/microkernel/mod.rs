//! The innermost block of a matrix product: some rows of A times a panel of B, in registers.

pub(crate) mod bf16_dp;
#[cfg(target_arch = "x86_64")]
mod bf16_f32;

use crate::base::isa::{Isa, isa};
use crate::base::simd::{Vector, opaque};
use crate::gemm::output::Out;
use crate::gemm::pack::a_conflict;
use crate::gemm::precision::{Precision, Unit};
use crate::gemm::prefetch::{Requests, TERMS};
use crate::gemm::source::Source;

/// Most rows in a block on any instruction set.
pub(crate) const MAX_ROWS: usize = 14;

/// What a block computes: `c[i][j] = sum over runs and k of a[run][i][k] * b[run][k][j]`, adding
/// along k in order, from 0; and what is done to the sums before they leave the registers.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// Where A lies.
    pub(crate) a: Source,
    /// Number of runs: 1 for a matrix product, the taps of the kernel for a convolution.
    pub(crate) runs: usize,
    /// Lanes of a run: elements, or pairs of them.
    pub(crate) k: usize,
    /// A packed panel: for each run and k, one row of columns.
    pub(crate) b: *const f32,
    /// What will be read later, and is asked for with the rows of the panel: of B and of A.
    pub(crate) ahead: Requests,
    /// Where the block goes.
    pub(crate) out: Out,
}

/// Elements from one to the next.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// Of the rows.
    pub(crate) row: usize,
    /// Of the elements of a run.
    pub(crate) inner: usize,
}

/// What is done to the sums of a block, in this order.
#[derive(Clone, Copy)]
pub(crate) struct Then {
    /// What is added to each row, unless null.
    pub(crate) bias: *const f32,
    /// A matrix that is added, unless null, and the distance between its rows.
    pub(crate) add: (*const f32, usize),
    /// A function of each.
    pub(crate) function: Function,
}

impl Then {
    /// The sums stay as they are.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const NOTHING: Then =
        Then { bias: std::ptr::null(), add: (std::ptr::null(), 0), function: Function::Identity };
}

/// A function of so few instructions that it is applied to sums in registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    /// The sum itself.
    Identity,
    /// Kept above 0; NaN becomes 0.
    Relu,
    /// Kept between two numbers; NaN stays.
    Clamp(f32, f32),
    /// What is below 0 multiplied by a number above 0, at most 1.
    LeakyRelu(f32),
    /// As [`Unary::HSwish`](crate::math::unary::Unary::HSwish).
    HSwish,
}

/// Rows in a block and columns in a panel for the instruction set in use.
pub(crate) fn shape() -> (usize, usize) {
    match isa() {
        Isa::Portable if cfg!(target_arch = "aarch64") => (6, 16),
        Isa::Portable => (4, 8),
        Isa::Avx2 => (6, 16),
        Isa::Avx512 | Isa::Amx => (14, 32),
    }
}

/// Rows in a block of so many columns: more where half a panel leaves registers for them.
pub(crate) fn rows_of(columns: usize) -> usize {
    match isa() {
        Isa::Avx2 if columns <= 8 => 8,
        _ => shape().0,
    }
}

/// Rows in a block for operands rounded so.
pub(crate) fn most_rows(precision: Precision) -> usize {
    match precision.has_tiles() {
        #[cfg(target_arch = "x86_64")]
        true => crate::gemm::amx::kernel::ROWS,
        _ => shape().0,
    }
}

/// Repeats a statement for each row below `$rows`. Written out, since a loop that the compiler
/// leaves as one would keep the sums in memory.
macro_rules! each_row {
    ($rows:ident, $i:ident => $body:expr) => {
        each_row!($rows, $i, $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    ($rows:ident, $i:ident, $body:expr; $($row:literal)*) => {
        $(if $row < $rows {
            let $i = $row;
            $body;
        })*
    };
}

/// Computes a block of `rows` rows, at most those of [`rows_of`] its columns, whose operands are rounded
/// as `unit` has them, if it is there.
///
/// # Safety
/// The pointers of the block are valid for its size.
pub(crate) unsafe fn run(block: &Block, unit: Option<Unit>, rows: usize) {
    // SAFETY: the caller's promise; `isa` is what the machine has.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            _ if unit == Some(Unit::Wide) => bf16_f32::run(block, rows),
            _ if unit.is_some() => bf16_dp::run(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if block.out.columns <= 16 => avx512_half(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => avx512(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if block.out.columns <= 8 => avx2_half(block, rows),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(block, rows),
            _ => portable(block, rows),
        }
    }
}

/// The first columns of a block in `P` vectors for each of `R` rows, all in registers; a row of the
/// panel has `W` vectors.
///
/// # Safety
/// As [`run`], where the instruction set of `V` is available.
#[inline(always)]
pub(crate) unsafe fn kernel<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &Block,
    a: *const *const f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let sums = if P == W && a_conflict::compete::<V, R>(block, a) {
            a_conflict::sums(block, |run, i| *a.add(run * R + i))
        } else {
            kernel_sums::<V, R, P, W>(block, a)
        };
        store(&block.out, sums);
    }
}

/// Whether [`TERMS`] terms are multiplied at a time: where vectors have eight lanes, a core has little time for
/// other instructions than products, and half of that while another program has its other thread. Few rows
/// wait for their sums, and half a panel is often all there is.
const fn by_terms<V: Vector, const R: usize, const P: usize, const W: usize>() -> bool {
    V::LANES == 8 && R >= 4 && P == W
}

/// Adds the products of one term: the factor of row `i` lies at `a(i)`, those of the columns lie at `b`.
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
        each_row!(R, i => {
            let a = V::splat(*a(i));
            for p in 0..P {
                sums[i][p] = a.fma(columns[p], sums[i][p]);
            }
        });
    }
}

/// The sums of a block whose rows lie anywhere.
///
/// # Safety
/// As [`kernel`].
#[inline(always)]
unsafe fn kernel_sums<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &Block,
    a: *const *const f32,
) -> [[V; P]; R] {
    // SAFETY: the caller's promise.
    unsafe {
        // Loops over indices, not iterators: what is not inlined here is not compiled for the
        // instruction set.
        let mut sums = [[V::zero(); P]; R];
        let (mut panel, mut requests) = (block.b, block.ahead);
        for run in 0..block.runs {
            let mut b = panel;
            panel = panel.add(block.k * W * V::LANES);
            if (*a.add(run * R)).is_null() || block.k == 0 {
                continue;
            }
            let mut rows = [std::ptr::null(); R];
            for i in 0..R {
                rows[i] = *a.add(run * R + i);
            }
            let mut k = 0;
            if by_terms::<V, R, P, W>() && block.k >= TERMS {
                // Tested at its end: else the compiler copies all sums in each turn.
                loop {
                    for t in 0..TERMS {
                        add_term(&mut sums, |i| rows[i].add(k + t), b.add(t * W * V::LANES));
                    }
                    b = b.add(TERMS * W * V::LANES);
                    requests.ask_for_terms();
                    k += TERMS;
                    if block.k - k < TERMS {
                        break;
                    }
                }
                if k == block.k {
                    continue;
                }
            }
            // As above.
            loop {
                add_term(&mut sums, |i| rows[i].add(k), b);
                b = b.add(W * V::LANES);
                // Half a panel is often all there is, and has as many loads as it can bear.
                if P == W {
                    requests.ask();
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

/// Rows that are reached from one pointer.
const NEAR: usize = 4;

// `each_row!` counts so far, and four pointers reach so far.
const _: () = assert!(MAX_ROWS <= 14 && MAX_ROWS <= 4 * NEAR);

/// The same where rows are evenly apart, so that few registers point to all of them.
///
/// # Safety
/// As [`kernel`].
#[inline(always)]
pub(crate) unsafe fn line<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &Block,
    a: *const *const f32,
    steps: Steps,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let sums = if P == W && steps.inner == 1 && a_conflict::compete_at::<V, R>(block, steps.row)
        {
            a_conflict::sums(block, |run, i| match *a.add(run) {
                first if first.is_null() => first,
                first => first.add(i * steps.row),
            })
        } else {
            line_sums::<V, R, P, W>(block, a, steps)
        };
        store(&block.out, sums);
    }
}

/// The sums of a block whose rows are evenly apart.
///
/// # Safety
/// As [`kernel`].
#[inline(always)]
unsafe fn line_sums<V: Vector, const R: usize, const P: usize, const W: usize>(
    block: &Block,
    a: *const *const f32,
    Steps { row: step, inner }: Steps,
) -> [[V; P]; R] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::zero(); P]; R];
        let (mut panel, mut requests) = (block.b, block.ahead);
        let thrice = std::hint::black_box(3 * step);
        for run in 0..block.runs {
            let (first, mut b) = (*a.add(run), panel);
            panel = panel.add(block.k * W * V::LANES);
            if first.is_null() || block.k == 0 {
                continue;
            }
            let mut rows = [0, 1, 2, 3].map(|i| first.wrapping_add(i * NEAR * step));
            let row = |rows: [*const f32; 4], i: usize| {
                let offset = if i % NEAR == 3 { thrice } else { i % NEAR * step };
                rows[i / NEAR].add(offset)
            };
            let mut left = block.k;
            if by_terms::<V, R, P, W>() && inner == 1 && left >= TERMS {
                // As above.
                loop {
                    // Else the compiler makes one pointer of them, and offsets of the rows that it has
                    // no registers for.
                    rows = rows.map(opaque);
                    for t in 0..TERMS {
                        add_term(&mut sums, |i| row(rows, i).add(t), b.add(t * W * V::LANES));
                    }
                    b = b.add(TERMS * W * V::LANES);
                    requests.ask_for_terms();
                    // Not beyond the end, even behind the last.
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
            // As above.
            loop {
                rows = rows.map(opaque);
                add_term(&mut sums, |i| row(rows, i), b);
                b = b.add(W * V::LANES);
                // Half a panel is often all there is, and has as many loads as it can bear.
                if P == W {
                    requests.ask();
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

/// Finishes the sums and writes them.
///
/// # Safety
/// As [`kernel`].
#[inline(always)]
pub(crate) unsafe fn store<V: Vector, const R: usize, const P: usize>(
    out: &Out,
    sums: [[V; P]; R],
) {
    let lanes = V::LANES;
    // SAFETY: the caller's promise; only the first columns are read and written.
    unsafe {
        match out.columns == P * lanes {
            true => finish(
                out,
                sums,
                |from, p| V::load(from.add(p * lanes)),
                |v, i, p| v.store(out.at(i, p, lanes)),
                |v, i, p| v.store_rounded(out.rounded_at(i, p, lanes), lanes),
            ),
            false => {
                let count = |p: usize| out.columns.saturating_sub(p * lanes).min(lanes);
                finish(
                    out,
                    sums,
                    |from, p| V::load_masked(from.wrapping_add(p * lanes), count(p)),
                    |v, i, p| v.store_masked(out.at(i, p, lanes), count(p)),
                    |v, i, p| v.store_rounded(out.rounded_at(i, p, lanes), count(p)),
                );
            }
        }
    }
}

/// Finishes the sums and writes them, by functions that load vector `p` of a row, and store that of row
/// `i` as it is or rounded.
///
/// # Safety
/// As [`kernel`].
#[inline(always)]
unsafe fn finish<V: Vector, const R: usize, const P: usize>(
    out: &Out,
    mut sums: [[V; P]; R],
    load: impl Fn(*const f32, usize) -> V,
    store: impl Fn(V, usize, usize),
    round: impl Fn(V, usize, usize),
) {
    let Then { bias, add: (add, stride), function } = out.then;
    // SAFETY: the caller's promise.
    unsafe {
        if !bias.is_null() {
            let mut values = [V::zero(); P];
            for p in 0..P {
                values[p] = load(bias, p);
            }
            each_row!(R, i => for p in 0..P { sums[i][p] = sums[i][p].add(values[p]) });
        }
        if !add.is_null() {
            each_row!(R, i => for p in 0..P { sums[i][p] = sums[i][p].add(load(add.add(i * stride), p)) });
        }
        match function {
            Function::Identity => {}
            Function::Relu => {
                let zero = V::zero();
                each_row!(R, i => for p in 0..P { sums[i][p] = sums[i][p].max(zero) });
            }
            Function::Clamp(low, high) => {
                let (low, high) = (V::splat(low), V::splat(high));
                each_row!(R, i => for p in 0..P { sums[i][p] = high.min(low.max(sums[i][p])) });
            }
            Function::LeakyRelu(alpha) => {
                let alpha = V::splat(alpha);
                each_row!(R, i => for p in 0..P { sums[i][p] = sums[i][p].mul(alpha).max(sums[i][p]) });
            }
            Function::HSwish => {
                let [three, zero, six] = [V::splat(3.0), V::zero(), V::splat(6.0)];
                let sixth = V::splat(1.0 / 6.0);
                each_row!(R, i => for p in 0..P {
                    let gate = sums[i][p].add(three).max(zero).min(six).mul(sixth);
                    sums[i][p] = sums[i][p].mul(gate);
                });
            }
        }
        if V::ROUNDS && out.rounds {
            each_row!(R, i => for p in 0..P { round(sums[i][p], i, p) });
        } else {
            each_row!(R, i => for p in 0..P { store(sums[i][p], i, p) });
        }
    }
}

/// Finishes sums that lie in rows of `P` vectors, and writes them.
///
/// # Safety
/// There are as many rows of sums, room for them, and operands for what is done to them; the
/// instruction set of `V` is available.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn store_rows<V: Vector, const P: usize>(
    sums: *const f32,
    out: &Out,
    rows: usize,
) {
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

macro_rules! rows {
    ($vector:ty, $part:literal of $panel:literal, $block:expr, $rows:expr; $($r:literal)*) => {
        match ($block.a, $rows) {
            $((Source::Line(a, steps), $r) => line::<$vector, $r, $part, $panel>($block, a, steps),)*
            $((Source::Rows(a), $r) => kernel::<$vector, $r, $part, $panel>($block, a),)*
            (_, rows) => unreachable!("a block of {rows} rows"),
        }
    };
}

pub(crate) use {each_row, rows};

/// # Safety
/// As [`run`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn avx512(block: &Block, rows: usize) {
    use crate::base::simd::Avx512;
    // SAFETY: the caller's promise, with AVX-512.
    unsafe { rows!(Avx512, 2 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
}

/// # Safety
/// As [`run`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(crate) unsafe fn avx512_half(block: &Block, rows: usize) {
    use crate::base::simd::Avx512;
    // SAFETY: the caller's promise, with AVX-512.
    unsafe { rows!(Avx512, 1 of 2, block, rows; 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
}

/// # Safety
/// As [`run`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn avx2(block: &Block, rows: usize) {
    use crate::base::simd::Avx2;
    // SAFETY: the caller's promise, with AVX2.
    unsafe { rows!(Avx2, 2 of 2, block, rows; 1 2 3 4 5 6) }
}

/// # Safety
/// As [`run`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn avx2_half(block: &Block, rows: usize) {
    use crate::base::simd::Avx2;
    // SAFETY: the caller's promise, with AVX2.
    unsafe { rows!(Avx2, 1 of 2, block, rows; 1 2 3 4 5 6 7 8) }
}

/// # Safety
/// As [`run`].
#[cfg(target_arch = "aarch64")]
unsafe fn portable(block: &Block, rows: usize) {
    use crate::base::simd::Neon;
    // SAFETY: the caller's promise; NEON is part of AArch64.
    unsafe { rows!(Neon, 4 of 4, block, rows; 1 2 3 4 5 6) }
}

/// # Safety
/// As [`run`].
#[cfg(not(target_arch = "aarch64"))]
unsafe fn portable(block: &Block, rows: usize) {
    use crate::base::simd::Portable;
    // SAFETY: the caller's promise.
    unsafe { rows!(Portable, 2 of 2, block, rows; 1 2 3 4) }
}
