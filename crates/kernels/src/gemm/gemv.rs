//! A single row times packed panels (gemv). Several panels are multiplied at a time: the chain of
//! sums of one panel is bound by latency, and starting on a panel takes longer than reading it.

use super::k_blocks::KBlocks;
use super::microkernel::args::nr;
#[cfg(target_arch = "x86_64")]
use super::microkernel::bf16_dp::Native16;
use super::microkernel::generic::store;
use super::output::{Out, SharedTarget};
use super::post_ops::{RegisterPostOps, finish};
use super::precision::Bf16Path;
#[cfg(target_arch = "x86_64")]
use super::precision::has_dp_bf16;
use super::problem::Gemm;
use super::tiling::{Span, Tile};
use super::tuning::{LONG_PANEL, PREFETCH_DISTANCE};
use crate::base::isa::{Isa, isa};
use crate::base::simd::{Vector, prefetch};

/// Whether a row is multiplied here on this bf16 path (`None`: in f32).
pub(super) fn suits(path: Option<Bf16Path>) -> bool {
    path.is_none_or(|path| path == Bf16Path::DpBf16 && isa() > Isa::Portable)
}

/// The most panels that are multiplied at a time.
const MAX_PANELS: usize = 4;

/// A row and some panels: `c[j] = Σ a[k] · b[k][j]`, added in the order of k, block after block.
struct Row {
    a: *const f32,
    /// The blocks of the row, in lanes: elements, or pairs of bf16.
    blocks: KBlocks,
    /// The first panel, and the elements from one panel to the next.
    b: *const f32,
    apart: usize,
    /// The first panel to prefetch; there are as many, equally far apart.
    later: *const f32,
    out: Out,
}

impl Gemm<'_> {
    /// Computes a tile of one row that is a single run and [`suits`]. Prefetches the panels of a
    /// later tile or, if panels are long, further along the panels themselves.
    ///
    /// # Safety
    /// The row has the lanes that `k` elements take. While this runs nobody else touches the tile.
    pub(super) unsafe fn run_row(
        &self,
        tile: Tile,
        (a, path): (*const f32, Option<Bf16Path>),
        (panels, later): (&[f32], &[f32]),
        c: SharedTarget,
    ) {
        let width = nr();
        let (row, Span { start: left, end: right }) = (tile.rows.start, tile.columns);
        debug_assert!(tile.rows.len() == 1 && suits(path) && !a.is_null());
        let (absorbed, rest) = RegisterPostOps::of(self.post_ops);
        let (blocks, apart) = (self.k_blocks(), width * self.panel_rows());
        let mut column = left;
        while column < right {
            let count = (right - column).div_ceil(width).min(MAX_PANELS);
            let first = (column - left) / width * apart;
            let own = &panels[first..][..count * apart];
            let later = match later.get(first..first + own.len()) {
                _ if apart >= LONG_PANEL => own.as_ptr().wrapping_add(PREFETCH_DISTANCE),
                Some(later) => later.as_ptr(),
                // A valid address: prefetching an unmapped one costs a page walk.
                None => own.as_ptr(),
            };
            let columns = (count * width).min(right - column);
            // SAFETY: the caller's promise; `check` has shown that columns lie within B and C.
            unsafe {
                let offset = row * self.c_stride + column;
                let out = c.block(offset, (self.c_stride, columns), absorbed.at(row, column));
                let row = Row { a, blocks, b: own.as_ptr(), apart, later, out };
                run(&row, path, count);
            }
            column += columns;
        }
        if let Some(c) = c.values() {
            // SAFETY: within C and within this tile.
            unsafe { finish(rest, row..row + 1, left..right, self.c_stride, c) };
        }
    }
}

/// Multiplies the row by `panels` panels, at most [`MAX_PANELS`], in f32 or on bf16 path `path`.
///
/// # Safety
/// The pointers are valid for the row and the panels.
unsafe fn run(row: &Row, path: Option<Bf16Path>, panels: usize) {
    debug_assert!((1..=MAX_PANELS).contains(&panels) && suits(path));
    // SAFETY: the caller's promise; `isa` is what the CPU has.
    unsafe {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            _ if path.is_some() => avx512_in_pairs(row, panels),
            #[cfg(not(target_arch = "x86_64"))]
            _ if path.is_some() => unreachable!("pairs have no instruction here"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx => avx512(row, panels),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(row, panels),
            _ => portable(row, panels),
        }
    }
}

/// Sums of some panels of `W` vectors each, `P` vectors in all.
///
/// # Safety
/// As [`run`], where the instruction set of `V` is available.
#[inline(always)]
unsafe fn kernel<V: Vector, const W: usize, const P: usize>(row: &Row) {
    const { assert!(P.is_multiple_of(W)) };
    debug_assert!(row.apart >= row.blocks.end() * W * V::LANES);
    debug_assert!(!row.a.is_null() && !row.b.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        // The first block's sums are added to -0, which changes no number.
        let mut sums = [[V::splat(-0.0); P]; 1];
        let (mut b, mut later) = (row.b, row.later);
        for block in row.blocks.iter() {
            let mut chains = [V::zero(); P];
            for k in block {
                let a = V::splat(*row.a.add(k));
                for p in 0..P {
                    let column = V::load(b.add(p / W * row.apart + p % W * V::LANES));
                    chains[p] = a.fma(column, chains[p]);
                }
                for panel in 0..P / W {
                    prefetch(later.wrapping_add(panel * row.apart));
                }
                b = b.add(W * V::LANES);
                later = later.wrapping_add(W * V::LANES);
            }
            for p in 0..P {
                sums[0][p] = sums[0][p].add(chains[p]);
            }
        }
        store(&row.out, sums);
    }
}

/// As [`kernel`] for panels of two vectors.
///
/// # Safety
/// As [`run`], where the instruction set of `V` is available.
#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
unsafe fn by_panels<V: Vector>(row: &Row, panels: usize) {
    debug_assert!((1..=MAX_PANELS).contains(&panels));
    // SAFETY: the caller's promise.
    unsafe {
        match panels {
            1 => kernel::<V, 2, 2>(row),
            2 => kernel::<V, 2, 4>(row),
            3 => kernel::<V, 2, 6>(row),
            _ => kernel::<V, 2, 8>(row),
        }
    }
}

/// # Safety
/// As [`run`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(row: &Row, panels: usize) {
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise.
    unsafe { by_panels::<crate::base::simd::Avx512>(row, panels) }
}

/// # Safety
/// As [`run`], with AVX512-BF16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn avx512_in_pairs(row: &Row, panels: usize) {
    debug_assert!(has_dp_bf16());
    // SAFETY: the caller's promise.
    unsafe { by_panels::<Native16>(row, panels) }
}

/// # Safety
/// As [`run`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(row: &Row, panels: usize) {
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise.
    unsafe { by_panels::<crate::base::simd::Avx2>(row, panels) }
}

/// # Safety
/// As [`run`].
unsafe fn portable(row: &Row, panels: usize) {
    debug_assert!((1..=MAX_PANELS).contains(&panels));
    // SAFETY: the caller's promise; what every CPU has.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        match panels {
            1 => kernel::<crate::base::simd::Neon, 4, 4>(row),
            2 => kernel::<crate::base::simd::Neon, 4, 8>(row),
            3 => kernel::<crate::base::simd::Neon, 4, 12>(row),
            _ => kernel::<crate::base::simd::Neon, 4, 16>(row),
        }
        #[cfg(not(target_arch = "aarch64"))]
        by_panels::<crate::base::simd::Portable>(row, panels);
    }
}
