//! Microkernel: some quantized rows times a panel of integers.

use super::dot::{Dot4, Plain};
#[cfg(target_arch = "x86_64")]
use super::dot::{Madd256, Vnni256, Vnni512};
use super::pack::DynamicPanel;
use super::rows::{GROUP, MOST_ROWS, PackedRows, block_rows};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable;
use crate::base::simd::{Integral, Vector, opaque_index, prefetch};
use crate::gemm::tuning::DEQUANT_PREFETCH;

/// The most columns of a panel.
pub(super) const WIDTH: usize = 32;

/// Up to this many rows, the dot products of all vectors of columns fit the registers. Those of
/// more rows are computed vector by vector.
const REGISTER_ROWS: usize = 4;

/// The sums of a block.
pub(super) type Sums = [[f32; WIDTH]; MOST_ROWS];

/// Multiplies a block of rows by a panel. Sums of other rows stay as they are, and all do if `k` is
/// 0.
///
/// # Panics
/// When there are other numbers of rows, or `k` differs from the panel's.
pub(super) fn multiply(panel: DynamicPanel<'_>, a: &PackedRows<'_>, sums: &mut Sums) {
    let layout = panel.layout;
    assert!(a.count() == block_rows(a.count()) && a.k == layout.k && layout.width <= WIDTH);
    assert!(a.factors.len() == 2 * a.count() * (a.k / GROUP));
    assert!(panel.bytes.len() >= layout.len() && layout.group.is_multiple_of(GROUP));
    if a.count() == 0 || a.k == 0 {
        return;
    }
    // SAFETY: `isa` and the features are what the CPU has; the operands have been checked.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if is_x86_feature_detected!("avx512vnni") => {
                vnni512(panel, a, sums)
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => madd256::<4>(panel, a, sums),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if is_x86_feature_detected!("avxvnni") => vnni256(panel, a, sums),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => madd256::<2>(panel, a, sums),
            _ => plain(panel, a, sums),
        }
    }
}

/// # Safety
/// As [`rows`], with AVX512-VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
unsafe fn vnni512(panel: DynamicPanel<'_>, a: &PackedRows<'_>, sums: &mut Sums) {
    debug_assert!(Isa::Avx512.is_available() && is_x86_feature_detected!("avx512vnni"));
    // SAFETY: the caller's promise.
    unsafe {
        match a.count() {
            1 => rows::<Vnni512, 2, 1>(panel, a, sums),
            4 => rows::<Vnni512, 2, 4>(panel, a, sums),
            _ => rows::<Vnni512, 2, MOST_ROWS>(panel, a, sums),
        }
    }
}

/// # Safety
/// As [`rows`], with AVX-VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn vnni256(panel: DynamicPanel<'_>, a: &PackedRows<'_>, sums: &mut Sums) {
    debug_assert!(Isa::Avx2.is_available() && is_x86_feature_detected!("avxvnni"));
    // SAFETY: the caller's promise.
    unsafe {
        match a.count() {
            1 => rows::<Vnni256, 2, 1>(panel, a, sums),
            _ => rows::<Vnni256, 2, 2>(panel, a, sums),
        }
    }
}

/// # Safety
/// As [`rows`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn madd256<const P: usize>(panel: DynamicPanel<'_>, a: &PackedRows<'_>, sums: &mut Sums) {
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise.
    unsafe {
        match a.count() {
            1 => rows::<Madd256, P, 1>(panel, a, sums),
            _ => rows::<Madd256, P, 2>(panel, a, sums),
        }
    }
}

/// # Safety
/// As [`rows`].
unsafe fn plain(panel: DynamicPanel<'_>, a: &PackedRows<'_>, sums: &mut Sums) {
    debug_assert!(a.count() > 0 && a.k == panel.layout.k);
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        match a.count() {
            1 => rows::<Plain<Neon>, 4, 1>(panel, a, sums),
            _ => rows::<Plain<Neon>, 4, 2>(panel, a, sums),
        }
        #[cfg(not(target_arch = "aarch64"))]
        match a.count() {
            1 => rows::<Plain<Portable>, 2, 1>(panel, a, sums),
            _ => rows::<Plain<Portable>, 2, 2>(panel, a, sums),
        }
    }
}

/// `R` rows times a panel of `P` vectors.
///
/// # Safety
/// The instruction set of `D` is available; there are `R` rows; they and the panel have the same
/// `k`, a multiple of the group.
#[inline(always)]
unsafe fn rows<D: Dot4, const P: usize, const R: usize>(
    panel: DynamicPanel<'_>,
    a: &PackedRows<'_>,
    to: &mut Sums,
) {
    debug_assert!(a.count() == R && a.k == panel.layout.k);
    // SAFETY: the caller's promise.
    unsafe {
        if panel.is_packed() {
            rows_of::<D, P, R, true>(panel, a, to)
        } else {
            rows_of::<D, P, R, false>(panel, a, to)
        }
    }
}

/// As [`rows`]; `PACKED` if two weights share a byte.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn rows_of<D: Dot4, const P: usize, const R: usize, const PACKED: bool>(
    panel: DynamicPanel<'_>,
    a: &PackedRows<'_>,
    to: &mut Sums,
) {
    const { assert!(R <= MOST_ROWS) };
    let (layout, lanes) = (panel.layout, D::Floats::LANES);
    debug_assert!(a.count() == R && a.k == layout.k && layout.width == P * lanes);
    debug_assert!(panel.bytes.len() >= layout.len() && layout.groups() * layout.group == a.k);
    debug_assert_eq!(a.factors.len(), 2 * R * (a.k / GROUP));
    let stride = 4 * P * lanes;
    // SAFETY: the caller's promise: panels have parameters for each group and column, rows for each
    // of their groups.
    unsafe {
        let mut weights = panel.bytes.as_ptr().add(layout.elements());
        let (mut bytes, mut factors) = (a.bytes.as_ptr(), a.factors.as_ptr());
        let mut sums = [[D::Floats::zero(); P]; R];
        for group in 0..layout.groups() {
            let mut of_group = [[D::Floats::zero(); P]; R];
            let mut totals = [0f32; R];
            for _ in 0..layout.group / GROUP {
                let scale = |i: usize| D::Floats::splat(*factors.add(i));
                if R <= REGISTER_ROWS {
                    let dots = dots::<D, P, R, PACKED>(weights, stride, bytes);
                    for i in 0..R {
                        for p in 0..P {
                            of_group[i][p] = D::floats(dots[i][p]).fma(scale(i), of_group[i][p]);
                        }
                    }
                } else {
                    for p in 0..P {
                        let vector = weights.add(4 * p * lanes);
                        let dots = dots::<D, 1, R, PACKED>(vector, stride, bytes);
                        for i in 0..R {
                            of_group[i][p] = D::floats(dots[i][0]).fma(scale(i), of_group[i][p]);
                        }
                    }
                }
                for i in 0..R {
                    totals[i] += *factors.add(R + i);
                }
                weights = weights.add(lines::<PACKED>() * stride);
                (bytes, factors) = (bytes.add(GROUP * R), factors.add(2 * R));
            }
            for p in 0..P {
                let column = group * layout.width + p * lanes;
                let scale = D::Floats::load(panel.bytes.as_ptr().cast::<f32>().add(column));
                let zero = D::Floats::load_bytes(panel.bytes.as_ptr().add(layout.zeros() + column));
                for i in 0..R {
                    let shifted = zero.fma(D::Floats::splat(-totals[i]), of_group[i][p]);
                    sums[i][p] = shifted.fma(scale, sums[i][p]);
                }
            }
        }
        for i in 0..R {
            for p in 0..P {
                sums[i][p].store(to[i].as_mut_ptr().add(p * lanes));
            }
        }
    }
}

/// Sums of a group of `R` rows for `Q` vectors of columns. The weights of each four terms are lines
/// of vectors, `stride` bytes apart; with 4 bits a line has those of eight.
///
/// # Safety
/// As [`rows`], for this group.
#[inline(always)]
unsafe fn dots<D: Dot4, const Q: usize, const R: usize, const PACKED: bool>(
    mut weights: *const u8,
    stride: usize,
    mut a: *const i8,
) -> [[D::Sums; Q]; R] {
    debug_assert!(!weights.is_null() && !a.is_null());
    let ahead = |at: *const u8| prefetch(at.wrapping_add(DEQUANT_PREFETCH).cast());
    let lines = lines::<PACKED>();
    // With many rows a loop: LLVM would unroll it and load more than the registers hold.
    let count = if R > REGISTER_ROWS { opaque_index(lines) } else { lines };
    // SAFETY: the caller's promise.
    unsafe {
        let mut dots = [[D::zero(); Q]; R];
        for _ in 0..count {
            for q in 0..Q {
                let at = weights.add(4 * q * D::Floats::LANES);
                ahead(at);
                if PACKED {
                    let [low, high] = D::load_nibbles(at);
                    for i in 0..R {
                        dots[i][q] = D::add(dots[i][q], low, a.add(4 * i));
                        dots[i][q] = D::add(dots[i][q], high, a.add(4 * (R + i)));
                    }
                } else {
                    let columns = D::load(at);
                    for i in 0..R {
                        dots[i][q] = D::add(dots[i][q], columns, a.add(4 * i));
                    }
                }
            }
            weights = weights.wrapping_add(stride);
            a = a.add(GROUP / lines * R);
        }
        dots
    }
}

/// Lines of weights in a group.
const fn lines<const PACKED: bool>() -> usize {
    if PACKED { GROUP / 8 } else { GROUP / 4 }
}
