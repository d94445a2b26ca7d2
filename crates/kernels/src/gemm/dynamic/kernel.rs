//! Microkernel: some quantized rows times a panel of integers.

use super::dot::{Dot4, Plain};
#[cfg(target_arch = "x86_64")]
use super::dot::{Madd256, Vnni256, Vnni512};
use super::pack::DynamicPanel;
use super::rows::{GROUP, RowGroups};
#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable;
use crate::base::simd::{Integral, Vector, prefetch};
use crate::gemm::tuning::DEQUANT_PREFETCH;

/// The most columns of a panel.
pub(super) const WIDTH: usize = 32;

/// The most rows of a block on any instruction set.
pub(super) const MOST_ROWS: usize = 8;

/// The most rows of a block: as many as fit the registers.
pub(super) fn most_rows() -> usize {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx if is_x86_feature_detected!("avx512vnni") => MOST_ROWS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 | Isa::Amx => 2,
        _ => 2,
    }
}

/// The sums of a block.
pub(super) type Sums = [[f32; WIDTH]; MOST_ROWS];

/// Multiplies rows, at most [`most_rows`], by a panel.
///
/// # Panics
/// When there are more rows, or `k` differs from the panel's.
pub(super) fn multiply(panel: DynamicPanel<'_>, a: &RowGroups<'_>, sums: &mut Sums) {
    let layout = panel.layout;
    assert!(a.count() <= most_rows() && a.k == layout.k && layout.width <= WIDTH);
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
unsafe fn vnni512(panel: DynamicPanel<'_>, a: &RowGroups<'_>, sums: &mut Sums) {
    debug_assert!(Isa::Avx512.is_available() && is_x86_feature_detected!("avx512vnni"));
    // SAFETY: the caller's promise.
    unsafe {
        match a.count() {
            1 => rows::<Vnni512, 2, 1>(panel, a, sums),
            2..=4 => rows::<Vnni512, 2, 4>(panel, a, sums),
            _ => rows::<Vnni512, 2, MOST_ROWS>(panel, a, sums),
        }
    }
}

/// # Safety
/// As [`rows`], with AVX-VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn vnni256(panel: DynamicPanel<'_>, a: &RowGroups<'_>, sums: &mut Sums) {
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
unsafe fn madd256<const P: usize>(panel: DynamicPanel<'_>, a: &RowGroups<'_>, sums: &mut Sums) {
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
unsafe fn plain(panel: DynamicPanel<'_>, a: &RowGroups<'_>, sums: &mut Sums) {
    debug_assert!(a.count() > 0 && a.k == panel.layout.k);
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        rows::<Plain<Neon>, 4, 2>(panel, a, sums);
        #[cfg(not(target_arch = "aarch64"))]
        rows::<Plain<Portable>, 2, 2>(panel, a, sums);
    }
}

/// Up to `R` rows times a panel of `P` vectors. Missing rows repeat the last one.
///
/// # Safety
/// The instruction set of `D` is available; there are 1 to `R` rows; they and the panel have the
/// same `k`, a multiple of the group.
#[inline(always)]
unsafe fn rows<D: Dot4, const P: usize, const R: usize>(
    panel: DynamicPanel<'_>,
    a: &RowGroups<'_>,
    to: &mut Sums,
) {
    const { assert!(R <= MOST_ROWS) };
    let (layout, last) = (panel.layout, a.count() - 1);
    let is_packed = panel.is_packed();
    let lanes = D::Floats::LANES;
    debug_assert!(a.count() <= R && a.k == layout.k && layout.width == P * lanes);
    debug_assert!(panel.bytes.len() >= layout.len() && layout.groups() * layout.group == a.k);
    debug_assert_eq!(a.factors.len(), 2 * a.count() * (a.k / GROUP));
    let row: [usize; R] = std::array::from_fn(|i| i.min(last));
    // SAFETY: the caller's promise: panels have parameters for each group and column, rows for each
    // of their groups.
    unsafe {
        let bytes = row.map(|i| a.bytes.as_ptr().add(i * a.k));
        let factors = row.map(|i| a.factors.as_ptr().add(2 * i * (a.k / GROUP)));
        let mut sums = [[D::Floats::zero(); P]; R];
        let mut weights = panel.bytes.as_ptr().add(layout.elements());
        for group in 0..layout.groups() {
            let mut of_group = [[D::Floats::zero(); P]; R];
            let mut totals = [0f32; R];
            for part in group * layout.group / GROUP..(group + 1) * layout.group / GROUP {
                let a = bytes.map(|row| row.add(part * GROUP));
                let dots = if is_packed {
                    nibbles::<D, P, R>(&mut weights, a)
                } else {
                    whole::<D, P, R>(&mut weights, a)
                };
                for i in 0..R {
                    let [scale, total] = *factors[i].add(2 * part).cast::<[f32; 2]>();
                    for p in 0..P {
                        let (dots, scale) = (D::floats(dots[i][p]), D::Floats::splat(scale));
                        of_group[i][p] = dots.fma(scale, of_group[i][p]);
                    }
                    totals[i] += total;
                }
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
        for i in 0..=last {
            for p in 0..P {
                sums[i][p].store(to[i].as_mut_ptr().add(p * lanes));
            }
        }
    }
}

/// Sums of a group of 8-bit elements.
///
/// # Safety
/// As [`rows`], for this group.
#[inline(always)]
unsafe fn whole<D: Dot4, const P: usize, const R: usize>(
    weights: &mut *const u8,
    a: [*const i8; R],
) -> [[D::Sums; P]; R] {
    debug_assert!(!weights.is_null() && a.iter().all(|row| !row.is_null()));
    // SAFETY: the caller's promise.
    unsafe {
        let mut dots = [[D::zero(); P]; R];
        for term in (0..GROUP).step_by(4) {
            for p in 0..P {
                let columns = D::load(weights.add(4 * p * D::Floats::LANES));
                for i in 0..R {
                    dots[i][p] = D::add(dots[i][p], columns, a[i].add(term));
                }
            }
            next::<D, P>(weights);
        }
        dots
    }
}

/// Sums of a group of 4-bit elements.
///
/// # Safety
/// As [`rows`], for this group.
#[inline(always)]
unsafe fn nibbles<D: Dot4, const P: usize, const R: usize>(
    weights: &mut *const u8,
    a: [*const i8; R],
) -> [[D::Sums; P]; R] {
    debug_assert!(!weights.is_null() && a.iter().all(|row| !row.is_null()));
    // SAFETY: the caller's promise.
    unsafe {
        let mut dots = [[D::zero(); P]; R];
        for term in (0..GROUP).step_by(8) {
            for p in 0..P {
                let [low, high] = D::load_nibbles(weights.add(4 * p * D::Floats::LANES));
                for i in 0..R {
                    dots[i][p] = D::add(dots[i][p], low, a[i].add(term));
                    dots[i][p] = D::add(dots[i][p], high, a[i].add(term + 4));
                }
            }
            next::<D, P>(weights);
        }
        dots
    }
}

/// Advances to the next row of lanes, and prefetches a later one.
///
/// # Safety
/// The next row is within the panel, or at its end.
#[inline(always)]
unsafe fn next<D: Dot4, const P: usize>(weights: &mut *const u8) {
    debug_assert!(!weights.is_null());
    let bytes = 4 * P * D::Floats::LANES;
    for line in (0..bytes).step_by(64) {
        prefetch(weights.wrapping_add(DEQUANT_PREFETCH + line).cast());
    }
    // SAFETY: the caller's promise.
    *weights = unsafe { weights.add(bytes) };
}
