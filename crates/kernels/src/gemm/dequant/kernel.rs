//! Dequantizes panels of a compressed B: in registers for few rows of A, into memory once for many.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(not(target_arch = "aarch64"))]
use crate::base::simd::Portable;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512, Vector};
use crate::base::simd::{Integral, prefetch};
use crate::gemm::dequant::format::{PackedLayout, WeightFormat};
use crate::gemm::k_blocks::KBlocks;
#[cfg(target_arch = "x86_64")]
use crate::gemm::pack::bf16::store_pairs;
#[cfg(target_arch = "x86_64")]
use crate::gemm::precision::has_dp_bf16;
use crate::gemm::tuning::{DEQUANT_FEW_ROWS, DEQUANT_PREFETCH, DEQUANT_ROWS, dequant_rows};
use std::ops::Range;

/// The most columns of a panel.
pub(super) const WIDTH: usize = 32;

/// A packed panel.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    pub(super) layout: PackedLayout,
    bytes: &'a [u8],
}

impl<'a> Panel<'a> {
    /// When `bytes` is too short.
    pub(crate) fn new(layout: PackedLayout, bytes: &'a [u8]) -> Panel<'a> {
        assert!(bytes.len() >= layout.len() && layout.width <= WIDTH, "the panel is too short");
        Panel { layout, bytes }
    }

    /// Dequantizes the panel to rows of f32.
    pub(crate) fn widen(self, to: &mut [f32]) {
        assert!(to.len() >= self.layout.k * self.layout.width);
        let to = to.as_mut_ptr();
        // SAFETY: `to` holds all rows.
        unsafe { self.read(Task::Widen(to)) }
    }

    /// Dequantizes the panel to bf16, as rows of pairs, and fills the rest with zeros.
    ///
    /// # Panics
    /// Unless the CPU has AVX512-BF16.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn round(self, to: &mut [f32]) {
        let PackedLayout { k, width, .. } = self.layout;
        assert!(has_dp_bf16() && to.len() >= k.div_ceil(2) * width);
        to[k / 2 * width..].fill(0.0);
        // SAFETY: `to` holds all pairs; `has_dp_bf16` says that the instruction exists.
        unsafe { round(self, to.as_mut_ptr()) }
    }

    /// Rows of A times the panel; `to` has one row of sums for each.
    ///
    /// # Panics
    /// When rows are too short, or more than [`dequant_rows`].
    pub(super) fn multiply(self, a: &[f32], stride: usize, to: &mut [[f32; WIDTH]]) {
        let rows = to.len();
        assert!(rows > 0 && rows <= dequant_rows());
        assert!(a.len() >= (rows - 1) * stride + self.layout.k);
        let mut sums = [[0f32; WIDTH]; DEQUANT_ROWS];
        // Missing rows repeat the last one.
        let row = |i: usize| a[i.min(rows - 1) * stride..].as_ptr();
        let a = std::array::from_fn(row);
        let task = match rows {
            1 => Task::One(a[0], &mut sums),
            ..=DEQUANT_FEW_ROWS => Task::Few(a, &mut sums),
            _ => Task::Many(a, &mut sums),
        };
        // SAFETY: the rows have an element for each k.
        unsafe { self.read(task) };
        to.copy_from_slice(&sums[..rows]);
    }

    /// # Safety
    /// The pointers of the task are valid for all of k.
    unsafe fn read(self, task: Task<'_>) {
        debug_assert!(!task.has_null());
        // SAFETY: the caller's promise; `isa` is what the CPU has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => avx512(self, task),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2(self, task),
                _ => portable(self, task),
            }
        }
    }
}

/// What is done with the dequantized elements of a panel.
enum Task<'a> {
    /// They are written as f32.
    Widen(*mut f32),
    /// They are multiplied by one row of A.
    One(*const f32, &'a mut [[f32; WIDTH]; DEQUANT_ROWS]),
    /// They are multiplied by the first [`DEQUANT_FEW_ROWS`] rows.
    Few([*const f32; DEQUANT_ROWS], &'a mut [[f32; WIDTH]; DEQUANT_ROWS]),
    /// They are multiplied by all [`DEQUANT_ROWS`] rows.
    Many([*const f32; DEQUANT_ROWS], &'a mut [[f32; WIDTH]; DEQUANT_ROWS]),
}

impl Task<'_> {
    /// Whether one of the pointers is null.
    fn has_null(&self) -> bool {
        match self {
            Task::Widen(to) => to.is_null(),
            Task::One(a, _) => a.is_null(),
            Task::Few(a, _) | Task::Many(a, _) => a.iter().any(|a| a.is_null()),
        }
    }
}

/// # Safety
/// As [`Panel::read`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn avx512(panel: Panel<'_>, task: Task<'_>) {
    debug_assert!(Isa::Avx512.is_available());
    // SAFETY: the caller's promise.
    unsafe { perform::<Avx512, 2>(panel, task) }
}

/// # Safety
/// As [`Panel::read`], with AVX512-BF16; `to` holds all pairs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
unsafe fn round(panel: Panel<'_>, to: *mut f32) {
    debug_assert!(has_dp_bf16());
    // SAFETY: the caller's promise.
    unsafe {
        let mut pairs = Pairs { to, even: [Avx512::zero(); 2] };
        dequantize(panel, &mut pairs);
        if panel.layout.k % 2 == 1 {
            pairs.take(panel.layout.k, [Avx512::zero(); 2]);
        }
    }
}

/// # Safety
/// As [`Panel::read`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2(panel: Panel<'_>, task: Task<'_>) {
    debug_assert!(Isa::Avx2.is_available());
    // SAFETY: the caller's promise.
    unsafe { perform::<Avx2, 2>(panel, task) }
}

/// # Safety
/// As [`Panel::read`].
unsafe fn portable(panel: Panel<'_>, task: Task<'_>) {
    debug_assert!(panel.bytes.len() >= panel.layout.len());
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        perform::<Neon, 4>(panel, task);
        #[cfg(not(target_arch = "aarch64"))]
        perform::<Portable, 2>(panel, task);
    }
}

/// # Safety
/// As [`Panel::read`], where the instruction set of `V` is available and panels have `P` vectors.
#[inline(always)]
unsafe fn perform<V: Integral, const P: usize>(panel: Panel<'_>, task: Task<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match task {
            Task::Widen(to) => dequantize::<V, P>(panel, &mut RowSink { to }),
            Task::One(a, to) => {
                let mut sums = Sums::<V, 1, P>::new([a]);
                dequantize(panel, &mut sums);
                sums.store(to);
            }
            Task::Few([a, b, c, d, ..], to) => {
                let mut sums = Sums::<V, DEQUANT_FEW_ROWS, P>::new([a, b, c, d]);
                dequantize(panel, &mut sums);
                sums.store(to);
            }
            Task::Many(a, to) => {
                // Only AVX-512 has registers for this many.
                assert!(V::LANES == 16);
                let mut sums = Sums::<V, DEQUANT_ROWS, P>::new(a);
                dequantize(panel, &mut sums);
                sums.store(to);
            }
        }
    }
}

/// Takes the rows of a panel in order.
trait Sink<V, const P: usize> {
    /// # Safety
    /// The sink has memory or an operand for this k; the instruction set of `V` is available.
    unsafe fn take(&mut self, term: usize, row: [V; P]);

    /// Ends a block along k.
    #[inline(always)]
    fn end_block(&mut self) {}
}

/// Writes all rows to memory.
struct RowSink {
    to: *mut f32,
}

impl<V: Integral, const P: usize> Sink<V, P> for RowSink {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, row: [V; P]) {
        debug_assert!(!self.to.is_null());
        for p in 0..P {
            // SAFETY: the caller's promise.
            unsafe { row[p].store(self.to.add((term * P + p) * V::LANES)) };
        }
    }
}

/// Writes pairs of rows to memory, converted to bf16.
#[cfg(target_arch = "x86_64")]
struct Pairs {
    to: *mut f32,
    /// An even row, until the odd one comes.
    even: [Avx512; 2],
}

#[cfg(target_arch = "x86_64")]
impl Sink<Avx512, 2> for Pairs {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, row: [Avx512; 2]) {
        debug_assert!(!self.to.is_null());
        if term.is_multiple_of(2) {
            self.even = row;
            return;
        }
        for p in 0..2 {
            // SAFETY: the caller's promise.
            unsafe {
                let to = self.to.add((term / 2 * 2 + p) * Avx512::LANES);
                store_pairs(self.even[p].0, row[p].0, to);
            }
        }
    }
}

/// Sums over k of rows of A times the panel.
struct Sums<V, const R: usize, const P: usize> {
    a: [*const f32; R],
    /// Those of the block along k that is being read.
    chains: [[V; P]; R],
    /// Those of the blocks before it.
    sums: [[V; P]; R],
}

impl<V: Integral, const R: usize, const P: usize> Sums<V, R, P> {
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn new(a: [*const f32; R]) -> Self {
        debug_assert!(a.iter().all(|row| !row.is_null()));
        // The first block's sums are added to -0, which changes no number.
        // SAFETY: the caller's promise.
        let (chains, sums) = unsafe { ([[V::zero(); P]; R], [[V::splat(-0.0); P]; R]) };
        Sums { a, chains, sums }
    }

    /// Writes the sums of all rows.
    #[inline(always)]
    fn store(self, to: &mut [[f32; WIDTH]; DEQUANT_ROWS]) {
        const { assert!(R <= DEQUANT_ROWS && P * V::LANES <= WIDTH) };
        for i in 0..R {
            for p in 0..P {
                // SAFETY: within a row; vectors are there, and so is their instruction set.
                unsafe { self.sums[i][p].store(to[i].as_mut_ptr().add(p * V::LANES)) };
            }
        }
    }
}

impl<V: Integral, const R: usize, const P: usize> Sink<V, P> for Sums<V, R, P> {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, row: [V; P]) {
        for i in 0..R {
            // SAFETY: the caller's promise.
            unsafe {
                let x = V::splat(*self.a[i].add(term));
                for p in 0..P {
                    self.chains[i][p] = x.fma(row[p], self.chains[i][p]);
                }
            }
        }
    }

    #[inline(always)]
    fn end_block(&mut self) {
        for i in 0..R {
            for p in 0..P {
                // SAFETY: vectors are there, and so is their instruction set.
                unsafe {
                    self.sums[i][p] = self.sums[i][p].add(self.chains[i][p]);
                    self.chains[i][p] = V::zero();
                }
            }
        }
    }
}

/// Dequantizes a panel and passes its rows to a sink, in order.
///
/// # Safety
/// The sink takes all rows; the instruction set of `V` is available.
#[inline(always)]
unsafe fn dequantize<V: Integral, const P: usize>(panel: Panel<'_>, sink: &mut impl Sink<V, P>) {
    debug_assert!(panel.layout.width == P * V::LANES);
    // SAFETY: the caller's promise.
    unsafe {
        if panel.layout.is_exact {
            dequantize_as::<V, P, true>(panel, sink)
        } else {
            dequantize_as::<V, P, false>(panel, sink)
        }
    }
}

/// # Safety
/// As [`dequantize`].
#[inline(always)]
unsafe fn dequantize_as<V: Integral, const P: usize, const EXACT: bool>(
    panel: Panel<'_>,
    sink: &mut impl Sink<V, P>,
) {
    let PackedLayout { format, k, group, width, .. } = panel.layout;
    debug_assert!(width == P * V::LANES && panel.bytes.len() >= panel.layout.len());
    debug_assert!(panel.layout.groups() * group == k || format == WeightFormat::F16);
    // SAFETY: the panel has elements for all of k and scales for all groups, and the caller's
    // promise.
    unsafe {
        let mut from = panel.bytes.as_ptr().add(panel.layout.elements());
        if format == WeightFormat::F16 {
            for block in KBlocks::of_row(k).iter() {
                for term in block {
                    let mut row = [V::zero(); P];
                    for p in 0..P {
                        row[p] = V::load_halves(from.add(2 * p * V::LANES));
                    }
                    sink.take(term, row);
                    from = next(from, 2 * P * V::LANES);
                }
                sink.end_block();
            }
            return;
        }
        let mut scales = panel.bytes.as_ptr().cast::<f32>();
        let mut zeros = panel.bytes.as_ptr().add(panel.layout.zeros());
        let blocks = KBlocks::of_row(k);
        let mut block = blocks.block(0);
        for first in (0..panel.layout.groups()).map(|i| i * group) {
            let scale = Scales::<V, P, EXACT>::load(scales, zeros);
            scales = scales.add(P * V::LANES);
            zeros = zeros.add(P * V::LANES);
            let mut term = first;
            while term < first + group {
                if term == block.end {
                    sink.end_block();
                    block = blocks.block(term);
                }
                let end = block.end.min(first + group);
                if matches!(format, WeightFormat::U8 | WeightFormat::I8) {
                    from = dequantize_bytes(&scale, from, term..end, sink);
                } else {
                    from = dequantize_nibbles(&scale, from, term..end, sink);
                }
                term = end;
            }
        }
        sink.end_block();
    }
}

/// Dequantizes elements of a group that are bytes; returns the address of the next row.
///
/// # Safety
/// As [`dequantize`]; `from` is the row of the first element along k.
#[inline(always)]
unsafe fn dequantize_bytes<V: Integral, const P: usize, const EXACT: bool>(
    scale: &Scales<V, P, EXACT>,
    mut from: *const u8,
    terms: Range<usize>,
    sink: &mut impl Sink<V, P>,
) -> *const u8 {
    debug_assert!(!from.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        for term in terms {
            let mut row = [V::zero(); P];
            for p in 0..P {
                row[p] = scale.apply(V::load_bytes(from.add(p * V::LANES)), p);
            }
            sink.take(term, row);
            from = next(from, P * V::LANES);
        }
    }
    from
}

/// Dequantizes elements of a group of which two neighbours along k share a byte; returns the
/// address of the next row. If there is an odd number, the last shares its byte with nothing.
///
/// # Safety
/// As [`dequantize_bytes`].
#[inline(always)]
unsafe fn dequantize_nibbles<V: Integral, const P: usize, const EXACT: bool>(
    scale: &Scales<V, P, EXACT>,
    mut from: *const u8,
    terms: Range<usize>,
    sink: &mut impl Sink<V, P>,
) -> *const u8 {
    debug_assert!(terms.start.is_multiple_of(2) && !from.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        for term in terms.clone().step_by(2) {
            let (mut low, mut high) = ([V::zero(); P], [V::zero(); P]);
            for p in 0..P {
                let [even, odd] = V::load_nibbles(from.add(p * V::LANES));
                (low[p], high[p]) = (scale.apply(even, p), scale.apply(odd, p));
            }
            sink.take(term, low);
            if term + 1 < terms.end {
                sink.take(term + 1, high);
            }
            from = next(from, P * V::LANES);
        }
    }
    from
}

/// The scales of a group, and what is added to its elements: before they are scaled, or after if
/// that is exact.
#[derive(Clone, Copy)]
struct Scales<V, const P: usize, const EXACT: bool> {
    scale: [V; P],
    add: [V; P],
}

impl<V: Integral, const P: usize, const EXACT: bool> Scales<V, P, EXACT> {
    /// # Safety
    /// `scales` and `zeros` have values for all lanes; the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn load(scales: *const f32, zeros: *const u8) -> Self {
        debug_assert!(!scales.is_null() && !zeros.is_null());
        // SAFETY: the caller's promise.
        unsafe {
            let (mut scale, mut add) = ([V::zero(); P], [V::zero(); P]);
            for p in 0..P {
                scale[p] = V::load(scales.add(p * V::LANES));
                add[p] = V::load_bytes(zeros.add(p * V::LANES)).mul(V::splat(-1.0));
                if EXACT {
                    add[p] = add[p].mul(scale[p]);
                }
            }
            Scales { scale, add }
        }
    }

    /// Dequantizes elements of vector `p`.
    #[inline(always)]
    fn apply(&self, elements: V, p: usize) -> V {
        // SAFETY: vectors are there, and so is their instruction set.
        unsafe {
            if EXACT {
                elements.fma(self.scale[p], self.add[p])
            } else {
                elements.add(self.add[p]).mul(self.scale[p])
            }
        }
    }
}

/// Advances `from` by `bytes`, and prefetches further ahead.
///
/// # Safety
/// The result is within the panel or at its end.
#[inline(always)]
unsafe fn next(from: *const u8, bytes: usize) -> *const u8 {
    debug_assert!(!from.is_null());
    prefetch(from.wrapping_add(DEQUANT_PREFETCH).cast());
    // SAFETY: the caller's promise.
    unsafe { from.add(bytes) }
}
