//! Requantizes sums: i32 to f32, post-ops, and back to u8 if the output is quantized. Works on a
//! few rows of a panel at a time, in registers.

use super::affine::{Affine, AffineRows};
use super::lane_op::{LaneOp, Reach};
use super::output::{Columns, To};
#[cfg(target_arch = "x86_64")]
use super::tile::QUARTER;
use super::tile::{HALF, PANEL_ROWS, TILE_ROWS, WIDTH};
use crate::base::isa::{Isa, isa};
use crate::base::par::{Slice, Threads};
use crate::base::scratch::InOut;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{Integral, Vector};
use crate::gemm::{PostOp, finish};
use crate::math::unary::unary_f32;

/// Whether every CPU of the target has the vectors. On x86-64 the few without AVX2 take the scalar
/// path.
const HAS_VECTORS: bool = cfg!(target_arch = "aarch64");

/// Arguments and results of a function that is called on whole rows; each thread keeps one.
#[repr(C, align(64))]
pub(super) struct Values {
    arguments: [f32; TILE_ROWS * WIDTH],
    results: [f32; TILE_ROWS * WIDTH],
}

impl Default for Values {
    fn default() -> Values {
        Values { arguments: [0.0; TILE_ROWS * WIDTH], results: [0.0; TILE_ROWS * WIDTH] }
    }
}

/// How the sums of a panel are requantized; the results are the same.
enum Way<'a> {
    /// A bias and a quantizer, and little between them.
    Affine(Box<Affine<'a>>),
    /// Post-ops as lane operations.
    Lanes(Vec<LaneOp<'a>>),
    /// Without vectors.
    Scalar,
}

/// Requantizes the sums of a panel and writes them.
pub(super) struct Requantizer<'a> {
    columns: Columns<'a>,
    post_ops: &'a [PostOp<'a>],
    way: Way<'a>,
    output: To<'a>,
    /// Rows of the output, and elements in each.
    rows: usize,
    stride: usize,
}

impl<'a> Requantizer<'a> {
    /// For an output of `rows` rows of `stride` elements.
    pub(super) fn new(
        columns: Columns<'a>,
        post_ops: &'a [PostOp<'a>],
        output: To<'a>,
        (rows, stride): (usize, usize),
    ) -> Requantizer<'a> {
        let all = Requantizer::of_values(columns, post_ops, output, (rows, stride));
        let affine = match &all.way {
            Way::Lanes(ops) => Affine::of(ops, all.columns.scales),
            _ => None,
        };
        let affine = affine.map(|affine| Way::Affine(Box::new(affine)));
        Requantizer { way: affine.unwrap_or(all.way), ..all }
    }

    /// The same for sums that have been scaled already.
    pub(super) fn of_values(
        columns: Columns<'a>,
        post_ops: &'a [PostOp<'a>],
        output: To<'a>,
        (rows, stride): (usize, usize),
    ) -> Requantizer<'a> {
        let own = (columns.first, columns.scales.len());
        let lanes = || {
            let mut all = Vec::with_capacity(post_ops.len() + 3);
            post_ops.iter().try_for_each(|op| LaneOp::append(&mut all, *op, own, rows))?;
            if let To::Quantized(_, quantizers) = output {
                LaneOp::quantize(&mut all, quantizers, own)?;
            }
            Some(all)
        };
        let lanes = if HAS_VECTORS || isa() > Isa::Portable { lanes() } else { None };
        let way = lanes.map_or(Way::Scalar, Way::Lanes);
        Requantizer { way, columns, post_ops, output, rows, stride }
    }

    /// Number of columns that are written.
    pub(super) fn width(&self) -> usize {
        self.columns.scales.len()
    }

    /// All rows of the output, if their sums can be requantized in registers of AVX-512.
    pub(super) fn in_registers(&self) -> Option<AffineRows<'_>> {
        let Way::Affine(affine) = &self.way else { return None };
        let (columns, stride) = (&self.columns, self.stride);
        let (to, at) = (&self.output, columns.first);
        let rows = AffineRows { affine, columns, row: 0, to, at, stride };
        (isa() >= Isa::Avx512 && rows.fits_registers()).then_some(rows)
    }

    /// Writes rows from `row` on.
    ///
    /// # Safety
    /// The output has the rows, and no other task uses these columns of them.
    pub(super) unsafe fn write(
        &self,
        sums: &[[i32; WIDTH]],
        row: usize,
        Values { arguments, results }: &mut Values,
    ) {
        debug_assert!(row + sums.len() <= self.rows && sums.len() <= TILE_ROWS);
        let values = &mut arguments[..sums.len() * self.width()];
        let (columns, stride) = (&self.columns, self.stride);
        // SAFETY: the caller's promise.
        unsafe {
            let (to, at) = (&self.output, row * stride + columns.first);
            match &self.way {
                Way::Affine(affine) => {
                    AffineRows { affine, columns, row, to, at, stride }.write(sums);
                }
                Way::Lanes(ops) => {
                    let (count, from) = (sums.len(), RowInput::Sums(sums));
                    let rows = RequantizeRows { columns, ops, row, count, from, to, at, stride };
                    let results = &mut results[..values.len()];
                    rows.write(Slice::new(values), Slice::new(results));
                }
                Way::Scalar => self.write_scalar(row, sums, values),
            }
        }
    }

    /// Writes rows of values from `row` on, which stand for scaled sums.
    ///
    /// # Safety
    /// As [`Self::write`].
    pub(super) unsafe fn write_values(
        &self,
        from: &[[f32; WIDTH]],
        row: usize,
        Values { arguments, results }: &mut Values,
    ) {
        debug_assert!(row + from.len() <= self.rows && from.len() <= TILE_ROWS);
        let (count, width) = (from.len(), self.width());
        let (columns, stride) = (&self.columns, self.stride);
        let values = &mut arguments[..count * width];
        for (from, to) in from.iter().zip(values.chunks_exact_mut(width)) {
            to.copy_from_slice(&from[..width]);
        }
        // SAFETY: the caller's promise.
        unsafe {
            let Way::Lanes(ops) = &self.way else { return self.finish_scalar(row, values) };
            let (to, at) = (&self.output, row * stride + columns.first);
            let values = Slice::new(values);
            let from = RowInput::Values(values);
            let rows = RequantizeRows { columns, ops, row, count, from, to, at, stride };
            rows.write(values, Slice::new(&mut results[..count * width]));
        }
    }

    /// [`Self::write`] without vectors.
    ///
    /// # Safety
    /// As [`Self::write`].
    unsafe fn write_scalar(&self, row: usize, sums: &[[i32; WIDTH]], values: &mut [f32]) {
        debug_assert!(row + sums.len() <= self.rows);
        let Columns { compensation, scales, .. } = self.columns;
        for (sums, values) in sums.iter().zip(values.chunks_exact_mut(scales.len())) {
            for (j, value) in values.iter_mut().enumerate() {
                *value = (sums[j] - compensation[j]) as f32 * scales[j];
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.finish_scalar(row, values) }
    }

    /// Applies the post-ops to contiguous rows of values, and writes them.
    ///
    /// # Safety
    /// As [`Self::write`].
    unsafe fn finish_scalar(&self, row: usize, values: &mut [f32]) {
        let (first, width) = (self.columns.first, self.width());
        let count = values.len() / width;
        debug_assert!(row + count <= self.rows);
        let own = self.post_ops.iter().map(|op| op.from_row(row).from_column(first));
        let own: Vec<PostOp<'_>> = own.collect();
        // SAFETY: the values are contiguous rows, borrowed exclusively; the caller's promise.
        unsafe {
            finish(&own, 0..count, 0..width, width, Slice::new(values));
            for (i, values) in values.chunks_exact(width).enumerate() {
                let at = (row + i) * self.stride + first;
                match self.output {
                    To::F32(to) => values.as_ptr().copy_to_nonoverlapping(to.at(at), width),
                    To::Quantized(to, quantizers) => {
                        quantizers.row(first, values, to.part(at, width));
                    }
                }
            }
        }
    }
}

/// Rows of half a panel that are requantized at a time: eight vectors of AVX-512, as
/// [`PANEL_ROWS`].
const HALF_PANEL_ROWS: usize = 2 * PANEL_ROWS;

/// The same for shorter vectors, of which AVX2 has half as many: eight of AVX2.
const SHORT_PANEL_ROWS: usize = PANEL_ROWS / 2;
const SHORT_HALF_PANEL_ROWS: usize = HALF_PANEL_ROWS / 2;

/// The input of the lane operations.
#[derive(Clone, Copy)]
enum RowInput<'a> {
    Sums(&'a [[i32; WIDTH]]),
    /// Values in contiguous rows.
    Values(Slice<f32>),
}

/// Rows of a panel, and their destination.
#[derive(Clone, Copy)]
struct RequantizeRows<'a> {
    columns: &'a Columns<'a>,
    ops: &'a [LaneOp<'a>],
    /// The first row.
    row: usize,
    count: usize,
    from: RowInput<'a>,
    /// The output, and the first element there.
    to: &'a To<'a>,
    at: usize,
    stride: usize,
}

impl RequantizeRows<'_> {
    /// Writes the rows. Functions that are calls are applied to all rows at once.
    ///
    /// # Safety
    /// As [`Requantizer::write`]; the operations are for these rows. Arguments and results hold
    /// them, and nobody else uses either. The input may be the arguments: each group of rows is
    /// loaded before it is stored, so rows may be rewritten in place.
    unsafe fn write(&self, arguments: Slice<f32>, results: Slice<f32>) {
        let (width, count) = (self.columns.scales.len(), arguments.count());
        debug_assert!(count == self.count * width && results.count() == count);
        let call = |(at, op): (usize, &LaneOp<'_>)| match op {
            LaneOp::Call(function) => Some((at, *function)),
            _ => None,
        };
        if self.ops.iter().enumerate().find_map(call).is_none() {
            // SAFETY: the caller's promise.
            return unsafe { self.write_in_registers() };
        }
        let mut left = *self;
        // SAFETY: the caller's promise; arguments and results are contiguous rows, borrowed only
        // while the function is called.
        unsafe {
            while let Some((at, function)) = left.ops.iter().enumerate().find_map(call) {
                let (before, after) = (&left.ops[..at], &left.ops[at + 1..]);
                let (to, at, stride) = (&To::F32(arguments), 0, width);
                RequantizeRows { ops: before, to, at, stride, ..left }.write_in_registers();
                let mut rows = InOut::separate(arguments.part(0, count), results.part(0, count));
                unary_f32(Threads::single(), function, &mut rows);
                left = RequantizeRows { ops: after, from: RowInput::Values(results), ..left };
            }
            left.write_in_registers();
        }
    }

    /// The same choice by width as in [`AffineRows::write`], but for two widths: 24 columns with
    /// AVX2 have code here, less than a quarter of a panel with AVX-512 there. One choice for both
    /// would compile either for the other too.
    ///
    /// # Safety
    /// As [`Self::write`]; no operation is a call.
    unsafe fn write_in_registers(&self) {
        debug_assert!(!self.ops.iter().any(|op| matches!(op, LaneOp::Call(_))));
        // SAFETY: the caller's promise, and `isa` is what the CPU has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => self.avx512(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.avx2(),
                #[cfg(target_arch = "aarch64")]
                _ => self.all::<Neon, { WIDTH / Neon::LANES }, { HALF / Neon::LANES }>(),
                #[cfg(not(target_arch = "aarch64"))]
                _ => unreachable!("without vectors nothing is done lane by lane"),
            }
        }
    }

    /// # Safety
    /// As [`Self::write_in_registers`], with AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(&self) {
        debug_assert!(Isa::Avx512.is_available());
        // SAFETY: the caller's promise; a CPU with AVX-512 has AVX2.
        unsafe {
            match self.columns.scales.len() {
                QUARTER => self.reached::<Avx2, HALF_PANEL_ROWS, 1, true>(),
                _ => self.all::<Avx512, { WIDTH / Avx512::LANES }, { HALF / Avx512::LANES }>(),
            }
        }
    }

    /// # Safety
    /// As [`Self::write_in_registers`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self) {
        debug_assert!(Isa::Avx2.is_available());
        // SAFETY: the caller's promise.
        unsafe {
            match self.columns.scales.len() {
                QUARTER => self.reached::<Avx2, HALF_PANEL_ROWS, 1, true>(),
                24 => self.reached::<Avx2, SHORT_PANEL_ROWS, 3, true>(),
                _ => self.all::<Avx2, { WIDTH / Avx2::LANES }, { HALF / Avx2::LANES }>(),
            }
        }
    }

    /// # Safety
    /// As [`Self::write_in_registers`], with the instruction set of `V`; a panel is `P` vectors,
    /// half a panel `H`.
    #[inline(always)]
    unsafe fn all<V: Integral, const P: usize, const H: usize>(&self) {
        const { assert!(P * V::LANES == WIDTH && H * V::LANES == HALF) };
        // SAFETY: the caller's promise.
        unsafe {
            match (self.columns.scales.len(), V::LANES < HALF) {
                (WIDTH, false) => self.reached::<V, PANEL_ROWS, P, true>(),
                (HALF, false) => self.reached::<V, HALF_PANEL_ROWS, H, true>(),
                // Panels that are not whole are too few for code of half a width.
                (_, false) => self.reached::<V, PANEL_ROWS, P, false>(),
                (WIDTH, true) => self.reached::<V, SHORT_PANEL_ROWS, P, true>(),
                (HALF, true) => self.reached::<V, SHORT_HALF_PANEL_ROWS, H, true>(),
                (_, true) => self.reached::<V, SHORT_PANEL_ROWS, P, false>(),
            }
        }
    }

    /// `R` rows at a time.
    ///
    /// # Safety
    /// As [`Self::all`]; the panel is `WHOLE`.
    #[inline(always)]
    unsafe fn reached<V: Integral, const R: usize, const P: usize, const WHOLE: bool>(&self) {
        let columns = self.columns.scales.len();
        debug_assert!(if WHOLE { columns == P * V::LANES } else { columns <= P * V::LANES });
        let mut row = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while row + R <= self.count {
                self.some::<V, R, P, WHOLE>(row);
                row += R;
            }
            while row < self.count {
                self.some::<V, 1, P, WHOLE>(row);
                row += 1;
            }
        }
    }

    /// # Safety
    /// As [`Self::reached`], for `R` rows.
    #[inline(always)]
    unsafe fn some<V: Integral, const R: usize, const P: usize, const WHOLE: bool>(
        &self,
        first: usize,
    ) {
        debug_assert!(first + R <= self.count);
        let (compensation, scales) = (self.columns.compensation, self.columns.scales);
        let width = scales.len();
        let reach = Reach::<WHOLE> { columns: width };
        let (compensation, scales) = (compensation[..WIDTH].as_ptr(), scales.as_ptr());
        // SAFETY: the caller's promise; sums and compensation are as wide as a panel.
        unsafe {
            let mut x = [[V::zero(); P]; R];
            match self.from {
                RowInput::Sums(sums) => {
                    let sums = &sums[first..][..R];
                    for i in 0..R {
                        for p in 0..P {
                            let at = p * V::LANES;
                            let sum = sums[i].as_ptr().add(at);
                            let sum = V::load_differences(sum, compensation.add(at));
                            x[i][p] = sum.fma(reach.load(scales, p), V::splat(-0.0));
                        }
                    }
                }
                RowInput::Values(values) => {
                    for i in 0..R {
                        for p in 0..P {
                            x[i][p] = reach.load(values.at((first + i) * width), p);
                        }
                    }
                }
            }
            for op in self.ops {
                op.apply::<V, R, P, WHOLE>(self.row + first, reach, &mut x);
            }
            for i in 0..R {
                let row = self.at + (first + i) * self.stride;
                match self.to {
                    To::F32(to) => {
                        for p in 0..P {
                            reach.store(x[i][p], to.at(row), p);
                        }
                    }
                    // Storing as bytes also rounds.
                    To::Quantized(to, _) => reach.store_bytes(x[i], to.at(row)),
                }
            }
        }
    }
}
