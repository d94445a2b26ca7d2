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
use crate::gemm::tuning::{
    DEQUANT_FEW_ROWS, DEQUANT_PANELS, DEQUANT_PREFETCH, DEQUANT_ROWS, dequant_rows,
};
use std::marker::PhantomData;
use std::ops::Range;

/// The most columns of a panel.
pub(super) const WIDTH: usize = 32;

/// A packed panel, or the first of some.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    pub(super) layout: PackedLayout,
    bytes: &'a [u8],
}

impl<'a> Panel<'a> {
    /// The panel at the start of these bytes.
    ///
    /// # Panics
    /// When they are too short.
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

    /// Rows of A times the panel, or a single row times `panels` of them, which lie one behind the
    /// other; `to` has a row of sums for each row and panel.
    ///
    /// # Panics
    /// When rows are too short or more than [`dequant_rows`], or panels are neither one nor
    /// [`DEQUANT_PANELS`].
    pub(super) fn multiply(
        self,
        (a, stride): (&[f32], usize),
        panels: usize,
        to: &mut [[f32; WIDTH]],
    ) {
        let rows = to.len() / panels;
        assert!(rows > 0 && rows <= dequant_rows() && (rows == 1 || panels == 1));
        assert!(panels == 1 || panels == DEQUANT_PANELS);
        assert!(self.bytes.len() >= panels * self.layout.len());
        assert!(a.len() >= (rows - 1) * stride + self.layout.k);
        if rows == 1 {
            // SAFETY: the row has an element for each k.
            return unsafe { self.read(Task::One(a.as_ptr(), to)) };
        }
        let mut sums = [[0f32; WIDTH]; DEQUANT_ROWS];
        // Missing rows repeat the last one.
        let row = |i: usize| a[i.min(rows - 1) * stride..].as_ptr();
        let a = std::array::from_fn(row);
        let task = match rows {
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
    /// Those of several panels are multiplied by one row of A.
    One(*const f32, &'a mut [[f32; WIDTH]]),
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
    unsafe { perform::<Avx512, 2, 4>(panel, task) }
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
        dequantize::<Avx512, 2, 2>(panel, &mut pairs);
        if panel.layout.k % 2 == 1 {
            (0..2).for_each(|p| pairs.take(panel.layout.k, p, Avx512::zero()));
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
    unsafe { perform::<Avx2, 2, 4>(panel, task) }
}

/// # Safety
/// As [`Panel::read`].
unsafe fn portable(panel: Panel<'_>, task: Task<'_>) {
    debug_assert!(panel.bytes.len() >= panel.layout.len());
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        perform::<Neon, 4, 8>(panel, task);
        #[cfg(not(target_arch = "aarch64"))]
        perform::<Portable, 2, 4>(panel, task);
    }
}

/// Panels of `W` vectors; [`DEQUANT_PANELS`] of them have `ALL`.
///
/// # Safety
/// As [`Panel::read`], where the instruction set of `V` is available.
#[inline(always)]
unsafe fn perform<V: Integral, const W: usize, const ALL: usize>(panel: Panel<'_>, task: Task<'_>) {
    const { assert!(ALL == DEQUANT_PANELS * W) };
    // SAFETY: the caller's promise.
    unsafe {
        match task {
            Task::Widen(to) => dequantize::<V, W, W>(panel, &mut RowSink::<W> { to }),
            Task::One(a, to) if to.len() == 1 => multiply::<V, 1, W, W>(panel, [a], to),
            Task::One(a, to) => multiply::<V, 1, W, ALL>(panel, [a], to),
            Task::Few([a, b, c, d, ..], to) => {
                multiply::<V, DEQUANT_FEW_ROWS, W, W>(panel, [a, b, c, d], to)
            }
            Task::Many(a, to) => {
                // Only AVX-512 has registers for this many.
                assert!(V::LANES == 16);
                multiply::<V, DEQUANT_ROWS, W, W>(panel, a, to);
            }
        }
    }
}

/// `R` rows of A times the `P` vectors of some panels.
///
/// # Safety
/// As [`dequantize`], with rows of A for all of k.
#[inline(always)]
unsafe fn multiply<V: Integral, const R: usize, const W: usize, const P: usize>(
    panel: Panel<'_>,
    a: [*const f32; R],
    to: &mut [[f32; WIDTH]],
) {
    debug_assert!(a.iter().all(|row| !row.is_null()));
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = Sums::<V, R, P>::new(a);
        dequantize::<V, W, P>(panel, &mut sums);
        sums.store::<W>(to);
    }
}

/// Takes the rows of some panels in order, vector by vector.
trait Sink<V> {
    /// Takes vector `p` of row `term`.
    ///
    /// # Safety
    /// The sink has memory or an operand for it; the instruction set of `V` is available.
    unsafe fn take(&mut self, term: usize, p: usize, vector: V);

    /// Ends a block along k.
    #[inline(always)]
    fn end_block(&mut self) {}
}

/// Writes all rows, of `P` vectors, to memory.
struct RowSink<const P: usize> {
    to: *mut f32,
}

impl<V: Integral, const P: usize> Sink<V> for RowSink<P> {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, p: usize, vector: V) {
        debug_assert!(!self.to.is_null());
        // SAFETY: the caller's promise.
        unsafe { vector.store(self.to.add((term * P + p) * V::LANES)) };
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
impl Sink<Avx512> for Pairs {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, p: usize, vector: Avx512) {
        debug_assert!(!self.to.is_null());
        if term.is_multiple_of(2) {
            self.even[p] = vector;
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let to = self.to.add((term / 2 * 2 + p) * Avx512::LANES);
            store_pairs(self.even[p].0, vector.0, to);
        }
    }
}

/// Sums over k of rows of A times the vectors of some panels.
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

    /// Writes the sums of all rows, or of one row and all panels of `W` vectors.
    #[inline(always)]
    fn store<const W: usize>(self, to: &mut [[f32; WIDTH]]) {
        const { assert!(W * V::LANES <= WIDTH && (R == 1 || W == P)) };
        for i in 0..R {
            for p in 0..P {
                let to = &mut to[i + p / W][p % W * V::LANES..][..V::LANES];
                // SAFETY: `to` has all lanes; vectors are there, and so is their instruction set.
                unsafe { self.sums[i][p].store(to.as_mut_ptr()) };
            }
        }
    }
}

impl<V: Integral, const R: usize, const P: usize> Sink<V> for Sums<V, R, P> {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, p: usize, vector: V) {
        for i in 0..R {
            // SAFETY: the caller's promise.
            unsafe {
                let x = V::splat(*self.a[i].add(term));
                self.chains[i][p] = x.fma(vector, self.chains[i][p]);
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

/// Dequantizes panels of `W` vectors, `P` in all, which lie one behind the other, and passes their
/// rows to a sink, in order.
///
/// # Safety
/// There are as many panels, and the sink takes all rows; the instruction set of `V` is available.
#[inline(always)]
unsafe fn dequantize<V: Integral, const W: usize, const P: usize>(
    first: Panel<'_>,
    sink: &mut impl Sink<V>,
) {
    const { assert!(P.is_multiple_of(W)) };
    debug_assert!(first.layout.width == W * V::LANES);
    debug_assert!(first.bytes.len() >= P / W * first.layout.len());
    let panels = Vectors::<V, W, P> { apart: first.layout.len(), vector: PhantomData };
    // SAFETY: the caller's promise.
    unsafe {
        match (first.layout.format, first.layout.is_exact) {
            (WeightFormat::F16, _) => panels.halves(first, sink),
            (_, true) => panels.groups::<true>(first, sink),
            (_, false) => panels.groups::<false>(first, sink),
        }
    }
}

/// The `P` vectors of a row of some panels, each of `W` vectors.
#[derive(Clone, Copy)]
struct Vectors<V, const W: usize, const P: usize> {
    /// Bytes from one panel to the next.
    apart: usize,
    vector: PhantomData<V>,
}

impl<V: Integral, const W: usize, const P: usize> Vectors<V, W, P> {
    /// The offset of vector `p` from the first, in bytes, if a lane takes `each` bytes.
    #[inline(always)]
    fn offset(self, p: usize, each: usize) -> usize {
        p / W * self.apart + p % W * V::LANES * each
    }

    /// The address of the row behind one of `each` bytes a lane. Prefetches further ahead.
    ///
    /// # Safety
    /// It is within the panels or at their end.
    #[inline(always)]
    unsafe fn next(self, from: *const u8, each: usize) -> *const u8 {
        debug_assert!(!from.is_null());
        for panel in 0..P / W {
            prefetch(from.wrapping_add(panel * self.apart + DEQUANT_PREFETCH).cast());
        }
        // SAFETY: the caller's promise.
        unsafe { from.add(W * V::LANES * each) }
    }

    /// Widens panels of f16.
    ///
    /// # Safety
    /// As [`dequantize`].
    #[inline(always)]
    unsafe fn halves(self, first: Panel<'_>, sink: &mut impl Sink<V>) {
        debug_assert!(first.layout.format == WeightFormat::F16);
        // SAFETY: the panels have elements for all of k, and the caller's promise.
        unsafe {
            let mut from = first.bytes.as_ptr().add(first.layout.elements());
            for block in KBlocks::of_row(first.layout.k).iter() {
                for term in block {
                    for p in 0..P {
                        sink.take(term, p, V::load_halves(from.add(self.offset(p, 2))));
                    }
                    from = self.next(from, 2);
                }
                sink.end_block();
            }
        }
    }

    /// Dequantizes panels of integers, group by group.
    ///
    /// # Safety
    /// As [`dequantize`].
    #[inline(always)]
    unsafe fn groups<const EXACT: bool>(self, first: Panel<'_>, sink: &mut impl Sink<V>) {
        let PackedLayout { format, k, group, .. } = first.layout;
        debug_assert!(first.layout.groups() * group == k);
        let is_bytes = matches!(format, WeightFormat::U8 | WeightFormat::I8);
        let blocks = KBlocks::of_row(k);
        let mut block = blocks.block(0);
        // SAFETY: the panels have elements for all of k and scales for all groups, and the caller's
        // promise.
        unsafe {
            let mut from = first.bytes.as_ptr().add(first.layout.elements());
            let mut scales = first.bytes.as_ptr();
            let mut zeros = scales.add(first.layout.zeros());
            for start in (0..first.layout.groups()).map(|i| i * group) {
                let scale = Scales::<V, P, EXACT>::load(self, scales, zeros);
                scales = scales.add(W * V::LANES * size_of::<f32>());
                zeros = zeros.add(W * V::LANES);
                let mut term = start;
                while term < start + group {
                    if term == block.end {
                        sink.end_block();
                        block = blocks.block(term);
                    }
                    let end = block.end.min(start + group);
                    from = if is_bytes {
                        self.bytes(&scale, from, term..end, sink)
                    } else {
                        self.nibbles(&scale, from, term..end, sink)
                    };
                    term = end;
                }
            }
        }
        sink.end_block();
    }

    /// Dequantizes elements of a group that are bytes; returns the address of the next row.
    ///
    /// # Safety
    /// As [`dequantize`]; `from` is the row of the first element along k.
    #[inline(always)]
    unsafe fn bytes<const EXACT: bool>(
        self,
        scale: &Scales<V, P, EXACT>,
        mut from: *const u8,
        terms: Range<usize>,
        sink: &mut impl Sink<V>,
    ) -> *const u8 {
        debug_assert!(!from.is_null());
        // SAFETY: the caller's promise.
        unsafe {
            for term in terms {
                for p in 0..P {
                    let elements = V::load_bytes(from.add(self.offset(p, 1)));
                    sink.take(term, p, scale.apply(elements, p));
                }
                from = self.next(from, 1);
            }
        }
        from
    }

    /// Dequantizes elements of a group of which two neighbours along k share a byte; returns the
    /// address of the next row. If there is an odd number, the last shares its byte with nothing.
    ///
    /// # Safety
    /// As [`Self::bytes`].
    #[inline(always)]
    unsafe fn nibbles<const EXACT: bool>(
        self,
        scale: &Scales<V, P, EXACT>,
        mut from: *const u8,
        terms: Range<usize>,
        sink: &mut impl Sink<V>,
    ) -> *const u8 {
        debug_assert!(terms.start.is_multiple_of(2) && !from.is_null());
        // SAFETY: the caller's promise.
        unsafe {
            for term in terms.clone().step_by(2) {
                let has_odd = term + 1 < terms.end;
                for p in 0..P {
                    let [even, odd] = V::load_nibbles(from.add(self.offset(p, 1)));
                    sink.take(term, p, scale.apply(even, p));
                    if has_odd {
                        sink.take(term + 1, p, scale.apply(odd, p));
                    }
                }
                from = self.next(from, 1);
            }
        }
        from
    }
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
    unsafe fn load<const W: usize>(
        panels: Vectors<V, W, P>,
        scales: *const u8,
        zeros: *const u8,
    ) -> Self {
        debug_assert!(!scales.is_null() && !zeros.is_null());
        // SAFETY: the caller's promise.
        unsafe {
            let (mut scale, mut add) = ([V::zero(); P], [V::zero(); P]);
            for p in 0..P {
                scale[p] = V::load(scales.add(panels.offset(p, size_of::<f32>())).cast());
                add[p] = V::load_bytes(zeros.add(panels.offset(p, 1))).mul(V::splat(-1.0));
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
