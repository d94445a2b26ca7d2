//! From sums to what they stand for, and what is done to it: a row of a panel at a time, in registers.

use super::tile::{TILE_ROWS, WIDTH};
use crate::base::isa::{Isa, isa};
use crate::base::par::{Slice, Threads};
use crate::base::scratch::InOut;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{Integral, Vector};
use crate::gemm::{Step, finish};
use crate::math::quantize::{ColumnQuantizers, Quantizer, Quantizers, whole, within_levels};
use crate::math::unary::{Unary, unary_f32};

/// Whether every machine that this is compiled for has vectors. Where few lack them, those are not worth
/// much code.
const HAS_VECTORS: bool = cfg!(target_arch = "aarch64");

/// Where results go.
#[derive(Clone, Copy)]
pub(super) enum To<'a> {
    /// As they are.
    F32(Slice<f32>),
    /// As levels.
    Quantized(Slice<u8>, Quantizers<'a>),
}

impl To<'_> {
    /// The part from `offset` on.
    ///
    /// # Safety
    /// `offset` is within the output.
    unsafe fn from(self, offset: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                To::F32(to) => To::F32(to.from(offset)),
                To::Quantized(to, levels) => To::Quantized(to.from(offset), levels),
            }
        }
    }
}

/// The columns of a panel, of which the last may be fewer.
pub(super) struct Columns<'a> {
    /// The first.
    pub(super) first: usize,
    /// What the level of 0 adds to the sums.
    pub(super) compensation: &'a [i32],
    /// What they are multiplied by.
    pub(super) scales: &'a [f32],
}

/// What of a row of a panel there is: all of it, if it is known to be whole.
#[derive(Clone, Copy)]
struct Reach<const WHOLE: bool> {
    columns: usize,
}

impl<const WHOLE: bool> Reach<WHOLE> {
    /// Lanes of vector `p` that there are.
    #[inline(always)]
    fn lanes<V: Vector>(self, p: usize) -> usize {
        self.columns.saturating_sub(p * V::LANES).min(V::LANES)
    }

    /// Vector `p` of a row; lanes that there are not are 0.
    ///
    /// # Safety
    /// The instruction set of `V` is available, and the row is valid memory.
    #[inline(always)]
    unsafe fn load<V: Vector>(self, row: *const f32, p: usize) -> V {
        let from = row.wrapping_add(p * V::LANES);
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { V::load(from) } else { V::load_masked(from, self.lanes::<V>(p)) } }
    }

    /// # Safety
    /// As [`Self::load`].
    #[inline(always)]
    unsafe fn store<V: Vector>(self, x: V, row: *mut f32, p: usize) {
        let to = row.wrapping_add(p * V::LANES);
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { x.store(to) } else { x.store_masked(to, self.lanes::<V>(p)) } }
    }

    /// As [`Self::load`], of bytes.
    ///
    /// # Safety
    /// As [`Self::load`].
    #[inline(always)]
    unsafe fn load_bytes<V: Integral>(self, row: *const u8, p: usize) -> V {
        let from = row.wrapping_add(p * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            match WHOLE {
                true => V::load_bytes(from),
                false => V::load_masked_bytes(from, self.lanes::<V>(p)),
            }
        }
    }

    /// As [`Self::store`], of bytes.
    ///
    /// # Safety
    /// As [`Self::load`].
    #[inline(always)]
    unsafe fn store_bytes<V: Integral>(self, x: V, row: *mut u8, p: usize) {
        let to = row.wrapping_add(p * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            match WHOLE {
                true => x.store_bytes(to),
                false => x.store_masked_bytes(to, self.lanes::<V>(p)),
            }
        }
    }
}

/// Steps of which every lane of a row is computed alike.
#[derive(Clone, Copy)]
enum Lanes<'a> {
    Add(&'a [f32]),
    Multiply(&'a [f32]),
    AddNumber(f32),
    MultiplyBy(f32),
    AddMatrix(&'a [f32], usize),
    AddLevels(&'a [u8], usize, f32, f32),
    MultiplyMatrix(&'a [f32], usize),
    Clamp(f32, f32),
    Relu,
    Apply(Unary),
    /// To levels, not rounded yet.
    Scale(Quantizer),
    ScaleColumns(ColumnQuantizers<'a>),
    /// To whole levels.
    Round,
}

impl<'a> Lanes<'a> {
    /// Appends a step for some columns from one on and so many rows; `None` where it is another.
    fn append(
        all: &mut Vec<Lanes<'a>>,
        step: &Step<'a>,
        (first, columns): (usize, usize),
        rows: usize,
    ) -> Option<()> {
        let lanes = |v: &'a [f32]| v.get(first..first + columns);
        let end = |stride: usize| rows.saturating_sub(1) * stride + columns;
        let matrix = |v: &'a [f32], stride| v.get(first..).filter(|v| v.len() >= end(stride));
        let bytes = |v: &'a [u8], stride| v.get(first..).filter(|v| v.len() >= end(stride));
        let last = match *step {
            Step::AddColumns(v) => Lanes::Add(lanes(v)?),
            Step::ScaleColumns(v) => Lanes::Multiply(lanes(v)?),
            Step::Add(number) => Lanes::AddNumber(number),
            Step::Scale(number) => Lanes::MultiplyBy(number),
            Step::AddMatrix { values, stride } => Lanes::AddMatrix(matrix(values, stride)?, stride),
            Step::AddLevels { levels, stride, scale, low } => {
                Lanes::AddLevels(bytes(levels, stride)?, stride, scale, low)
            }
            Step::MultiplyMatrix { values, stride } => {
                Lanes::MultiplyMatrix(matrix(values, stride)?, stride)
            }
            Step::Apply(Unary::Relu {}) => Lanes::Relu,
            Step::Apply(Unary::Clamp { low, high }) => Lanes::Clamp(low as f32, high as f32),
            Step::Apply(function) => Lanes::Apply(function),
            Step::Quantize { to, scale, low } => {
                Lanes::quantize(all, Quantizers::Uniform(to), (first, columns))?;
                all.extend([Lanes::Round, Lanes::MultiplyBy(scale)]);
                Lanes::AddNumber(low)
            }
            Step::QuantizeColumns(levels) => {
                let [_, _, scale, low] = levels.some(first, columns)?.parts;
                Lanes::quantize(all, Quantizers::Columns(levels), (first, columns))?;
                all.extend([Lanes::Round, Lanes::Multiply(scale)]);
                Lanes::Add(low)
            }
            Step::AddRows(_) => return None,
        };
        all.push(last);
        Some(())
    }

    /// Appends what makes levels, which are not rounded yet, in place of a function that only clamps
    /// what they clamp anyway.
    fn quantize(
        all: &mut Vec<Lanes<'a>>,
        levels: Quantizers<'a>,
        (first, columns): (usize, usize),
    ) -> Option<()> {
        let levels = match levels {
            Quantizers::Uniform(to) => Lanes::Scale(to),
            Quantizers::Columns(levels) => Lanes::ScaleColumns(levels.some(first, columns)?),
        };
        let clamped = match all.last() {
            Some(Lanes::Relu) => Some((0.0, f32::INFINITY)),
            Some(Lanes::Clamp(low, high)) => Some((*low, *high)),
            _ => None,
        };
        let clamps = clamped.is_some_and(|(low, high)| match levels {
            Lanes::Scale(to) => to.clamps(low, high),
            Lanes::ScaleColumns(columns) => columns.clamps(low, high),
            _ => false,
        });
        if clamps {
            all.pop();
        }
        all.push(levels);
        Some(())
    }

    /// Applies the step to rows from one on.
    ///
    /// # Safety
    /// The instruction set of `V` is available; a matrix has been checked to have the rows.
    #[inline(always)]
    unsafe fn apply<
        V: Integral,
        const R: usize,
        const P: usize,
        const WHOLE: bool,
        const CALLS: bool,
    >(
        self,
        row: usize,
        reach: Reach<WHOLE>,
        x: &mut [[V; P]; R],
    ) {
        macro_rules! each {
            ($i:ident, $p:ident => $value:expr) => {
                for $i in 0..R {
                    for $p in 0..P {
                        x[$i][$p] = $value;
                    }
                }
            };
        }
        // SAFETY: the caller's promise; rows of columns and matrices reach as far as the panel.
        unsafe {
            // What a product is added to: it leaves all of them as they are.
            let nothing = V::splat(-0.0);
            let lane = |v: *const f32, p: usize| reach.load::<V>(v, p);
            match self {
                Lanes::Add(v) => each!(i, p => x[i][p].add(lane(v.as_ptr(), p))),
                Lanes::Multiply(v) => each!(i, p => x[i][p].fma(lane(v.as_ptr(), p), nothing)),
                Lanes::AddNumber(v) => each!(i, p => x[i][p].add(V::splat(v))),
                Lanes::MultiplyBy(v) => each!(i, p => x[i][p].fma(V::splat(v), nothing)),
                Lanes::AddMatrix(v, stride) => {
                    let at = |i: usize| v.as_ptr().add((row + i) * stride);
                    each!(i, p => x[i][p].add(lane(at(i), p)));
                }
                Lanes::AddLevels(v, stride, scale, low) => {
                    let (scale, low) = (V::splat(scale), V::splat(low));
                    let level = |i: usize, p: usize| {
                        reach.load_bytes::<V>(v.as_ptr().add((row + i) * stride), p)
                    };
                    each!(i, p => x[i][p].add(level(i, p).fma(scale, nothing).add(low)));
                }
                Lanes::MultiplyMatrix(v, stride) => {
                    let at = |i: usize| v.as_ptr().add((row + i) * stride);
                    each!(i, p => x[i][p].fma(lane(at(i), p), nothing));
                }
                Lanes::Relu => each!(i, p => x[i][p].max(V::zero())),
                Lanes::Clamp(low, high) => {
                    let (low, high) = (V::splat(low), V::splat(high));
                    each!(i, p => high.min(low.max(x[i][p])));
                }
                Lanes::Apply(function) if CALLS => {
                    let mut rows = [[0f32; WIDTH]; R];
                    each!(i, p => {
                        x[i][p].store(rows[i].as_mut_ptr().add(p * V::LANES));
                        x[i][p]
                    });
                    let all = &InOut::in_place(rows.as_flattened_mut());
                    unary_f32(Threads::single(), function, all);
                    each!(i, p => V::load(rows[i].as_ptr().add(p * V::LANES)));
                }
                // The caller has said that there are none.
                Lanes::Apply(_) => {}
                Lanes::Scale(to) => each!(i, p => to.scaled(x[i][p])),
                Lanes::ScaleColumns(ColumnQuantizers { parts: [add, factor, ..], most }) => {
                    for p in 0..P {
                        let (add, factor) = (lane(add.as_ptr(), p), lane(factor.as_ptr(), p));
                        for i in 0..R {
                            x[i][p] = within_levels(x[i][p].add(add).fma(factor, nothing), most);
                        }
                    }
                }
                Lanes::Round => each!(i, p => whole(x[i][p])),
            }
        }
    }
}

/// What is done to the sums of a panel.
pub(super) struct Requantizer<'a> {
    columns: Columns<'a>,
    steps: &'a [Step<'a>],
    /// The steps, if they are all of this kind and there are vectors to apply them to.
    lanes: Option<Vec<Lanes<'a>>>,
    output: To<'a>,
    /// Elements of a row of the output.
    stride: usize,
}

impl<'a> Requantizer<'a> {
    /// For an output of `rows` rows of `stride` elements.
    pub(super) fn new(
        columns: Columns<'a>,
        steps: &'a [Step<'a>],
        output: To<'a>,
        (rows, stride): (usize, usize),
    ) -> Requantizer<'a> {
        let own = (columns.first, columns.scales.len());
        let lanes = || {
            let mut all = Vec::with_capacity(steps.len() + 3);
            steps.iter().try_for_each(|step| Lanes::append(&mut all, step, own, rows))?;
            if let To::Quantized(_, levels) = output {
                Lanes::quantize(&mut all, levels, own)?;
            }
            Some(all)
        };
        Requantizer {
            lanes: if HAS_VECTORS || isa() > Isa::Portable { lanes() } else { None },
            columns,
            steps,
            output,
            stride,
        }
    }

    /// Writes the rows from one on.
    ///
    /// # Safety
    /// The output has the rows, and no other task uses these columns of them.
    pub(super) unsafe fn write(&self, sums: &[[i32; WIDTH]], row: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let to = self.output.from(row * self.stride + self.columns.first);
            match &self.lanes {
                Some(steps) => {
                    let (columns, stride) = (&self.columns, self.stride);
                    Rows { columns, steps, row, sums, to, stride }.write();
                }
                None => self.one_by_one(row, sums, to),
            }
        }
    }

    /// # Safety
    /// As [`Self::write`].
    unsafe fn one_by_one(&self, row: usize, sums: &[[i32; WIDTH]], to: To<'_>) {
        let Columns { first, compensation, scales } = self.columns;
        let width = scales.len();
        let count = sums.len();
        let mut values = [0f32; TILE_ROWS * WIDTH];
        let values = &mut values[..count * width];
        for (sums, values) in sums.iter().zip(values.chunks_exact_mut(width)) {
            for (j, value) in values.iter_mut().enumerate() {
                *value = (sums[j] - compensation[j]) as f32 * scales[j];
            }
        }
        let own = self.steps.iter().map(|s| s.from_row(row).from_column(first));
        let own: Vec<Step<'_>> = own.collect();
        // SAFETY: the values are rows without gaps, borrowed exclusively; the caller's promise.
        unsafe {
            finish(&own, 0..count, 0..width, width, Slice::new(values));
            for (i, row) in values.chunks_exact(width).enumerate() {
                match to {
                    To::F32(to) => {
                        row.as_ptr().copy_to_nonoverlapping(to.at(i * self.stride), width);
                    }
                    To::Quantized(to, levels) => {
                        let to = std::slice::from_raw_parts_mut(to.at(i * self.stride), width);
                        levels.row(first, row, to);
                    }
                }
            }
        }
    }
}

/// Columns up to which half a panel is computed.
const HALF: usize = WIDTH / 2;

/// Rows that pass the steps together.
const TOGETHER: usize = 4;

/// Writes rows of some sums.
struct Rows<'a> {
    columns: &'a Columns<'a>,
    steps: &'a [Lanes<'a>],
    /// The first.
    row: usize,
    sums: &'a [[i32; WIDTH]],
    to: To<'a>,
    stride: usize,
}

impl Rows<'_> {
    /// # Safety
    /// As [`Requantizer::write`]; the steps are for the rows.
    unsafe fn write(&self) {
        // SAFETY: the caller's promise, and `isa` tells what there is.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => self.avx512(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.avx2(),
                #[cfg(target_arch = "aarch64")]
                _ => self.all::<Neon, { WIDTH / Neon::LANES }, { HALF / Neon::LANES }>(),
                #[cfg(not(target_arch = "aarch64"))]
                _ => unreachable!("there are no steps in lanes without vectors"),
            }
        }
    }

    /// # Safety
    /// As [`Self::write`], with AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.all::<Avx512, { WIDTH / Avx512::LANES }, { HALF / Avx512::LANES }>() }
    }

    /// # Safety
    /// As [`Self::write`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.all::<Avx2, { WIDTH / Avx2::LANES }, { HALF / Avx2::LANES }>() }
    }

    /// # Safety
    /// As [`Self::write`], with the instruction set of `V`; `P` vectors are a panel, `H` half of it.
    #[inline(always)]
    unsafe fn all<V: Integral, const P: usize, const H: usize>(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            let columns = self.columns.scales.len();
            let calls = self.steps.iter().any(|step| matches!(step, Lanes::Apply(_)));
            match (columns, calls) {
                (WIDTH, false) => self.reached::<V, P, true, false>(),
                (WIDTH, true) => self.reached::<V, P, true, true>(),
                (..=HALF, false) => self.reached::<V, H, false, false>(),
                (_, false) => self.reached::<V, P, false, false>(),
                (_, true) => self.reached::<V, P, false, true>(),
            }
        }
    }

    /// # Safety
    /// As [`Self::all`]; the panel is whole where that is said. Functions are among the steps where
    /// that is said: code that may call them is slower for all others.
    #[inline(always)]
    unsafe fn reached<V: Integral, const P: usize, const WHOLE: bool, const CALLS: bool>(&self) {
        let mut row = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while row + TOGETHER <= self.sums.len() {
                self.some::<V, TOGETHER, P, WHOLE, CALLS>(row);
                row += TOGETHER;
            }
            while row < self.sums.len() {
                self.some::<V, 1, P, WHOLE, CALLS>(row);
                row += 1;
            }
        }
    }

    /// # Safety
    /// As [`Self::reached`], for `R` rows from one on.
    #[inline(always)]
    unsafe fn some<
        V: Integral,
        const R: usize,
        const P: usize,
        const WHOLE: bool,
        const CALLS: bool,
    >(
        &self,
        first: usize,
    ) {
        let sums = &self.sums[first..][..R];
        let (compensation, scales) = (self.columns.compensation, self.columns.scales);
        let reach = Reach::<WHOLE> { columns: scales.len() };
        let (compensation, scales) = (compensation[..WIDTH].as_ptr(), scales.as_ptr());
        // SAFETY: the caller's promise; sums and compensation are as wide as a panel.
        unsafe {
            let mut x = [[V::zero(); P]; R];
            for i in 0..R {
                for p in 0..P {
                    let at = p * V::LANES;
                    let sum = V::load_differences(sums[i].as_ptr().add(at), compensation.add(at));
                    x[i][p] = sum.fma(reach.load(scales, p), V::splat(-0.0));
                }
            }
            for step in self.steps {
                step.apply::<V, R, P, WHOLE, CALLS>(self.row + first, reach, &mut x);
            }
            for i in 0..R {
                let row = (first + i) * self.stride;
                for p in 0..P {
                    match self.to {
                        To::F32(to) => reach.store(x[i][p], to.at(row), p),
                        // They are rounded on the way.
                        To::Quantized(to, _) => reach.store_bytes(x[i][p], to.at(row), p),
                    }
                }
            }
        }
    }
}
