//! Simulated quantization: elements are rounded to the values of a narrow type, but keep their own
//! type. f16 and bf16 are computed in f32. Also the quantizers of u8 values.

use crate::base::num::{F8E4M3, F8E5M2, Wide};
use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::base::simd::Vector;
use crate::math::broadcast::Broadcast;
use crate::math::real::{Real, StoredReal};
use crate::multiversion;

/// Elements computed together: a loop over vectors, not unrolled.
const LANES: usize = 64;

/// Elements computed together if each has its own limits. Fewer than [`LANES`], since rows of
/// channels are rarely longer.
const VECTORS_AT_ONCE: usize = 8;

/// Elements that are worth a second thread.
const GRAIN: usize = 32 << 10;

/// How elements that share parameters are rounded.
trait Rounding<R>: Copy {
    fn apply(self, x: R) -> R;
}

/// FakeQuantize: rounds to one of `levels` values of the input range, then maps them to the output
/// range.
#[derive(Clone, Copy)]
struct QuantRange<R> {
    low: R,
    high: R,
    to_low: R,
    to_high: R,
    /// Steps between the limits.
    steps: R,
}

impl<R> QuantRange<R> {
    /// From limits, low and high, of the input and of the output.
    #[inline(always)]
    fn new([low, high, to_low, to_high]: [R; 4], steps: R) -> QuantRange<R> {
        QuantRange { low, high, to_low, to_high, steps }
    }
}

impl<R: Real> Rounding<R> for QuantRange<R> {
    #[inline(always)]
    fn apply(self, x: R) -> R {
        let QuantRange { low, high, to_low, to_high, steps } = self;
        let (least, most) = if high < low { (high, low) } else { (low, high) };
        let quantized = ((x - low) / (high - low) * steps).round_even();
        let inside = quantized / steps * (to_high - to_low) + to_low;
        let below = if x > most { to_high } else { inside };
        if x <= least { to_low } else { below }
    }
}

/// Quantizes f32 to u8. It multiplies by a factor where FakeQuantize divides, so an element halfway
/// between two quantized values may round to the other one. NaN becomes 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantizer {
    pub(crate) low: f32,
    /// The factor of the distance from `low`.
    pub(crate) factor: f32,
    /// The largest quantized value.
    pub(crate) most: f32,
}

impl Quantizer {
    /// Quantizes `low..=high` to `0..levels`. `None` unless `low < high` and `levels` is 2 to 256.
    pub fn new(low: f32, high: f32, levels: usize) -> Option<Quantizer> {
        let most = levels.checked_sub(1).filter(|n| (1..256).contains(n))? as f32;
        let factor = (f64::from(most) / (f64::from(high) - f64::from(low))) as f32;
        (low < high && factor.is_normal()).then_some(Quantizer { low, factor, most })
    }

    /// The quantized value of an element.
    #[inline(always)]
    pub(crate) fn byte(self, x: f32) -> u8 {
        // SAFETY: an integer between 0 and 255.
        unsafe { self.quantized(x).to_int_unchecked::<i32>() as u8 }
    }

    /// Whether clamping the elements to `low..=high` first changes no quantized value.
    pub(crate) fn clamps(self, low: f32, high: f32) -> bool {
        clamps([low, high].map(|x| (x - self.low) * self.factor), self.most)
    }

    /// The quantized value of an element, as f32.
    #[inline(always)]
    pub(crate) fn quantized(self, x: f32) -> f32 {
        // The comparison gives 0 for NaN.
        ((x - self.low) * self.factor).round_ties_even().max(0.0).min(self.most)
    }
}

impl Quantizer {
    /// The quantized values of a vector, before they are rounded to integers.
    #[inline(always)]
    pub(crate) fn scaled<V: Vector>(self, x: V) -> V {
        // SAFETY: a vector is there, and so is its instruction set.
        let scaled =
            unsafe { x.add(V::splat(-self.low)).fma(V::splat(self.factor), V::splat(-0.0)) };
        clamp_quantized(scaled, self.most)
    }
}

/// Whether two scaled limits round to 0 and to the largest quantized value.
fn clamps([low, high]: [f32; 2], most: f32) -> bool {
    low <= 0.25 && high >= most - 0.25
}

/// Clamps numbers to 0 and the largest quantized value; NaN becomes 0.
#[inline(always)]
pub(crate) fn clamp_quantized<V: Vector>(scaled: V, most: f32) -> V {
    // SAFETY: a vector is there, and so is its instruction set.
    unsafe { scaled.max(V::zero()).min(V::splat(most)) }
}

/// Rounds numbers from 0 to 2^22 to integers, ties to even.
#[inline(always)]
pub(crate) fn whole<V: Vector>(x: V) -> V {
    /// Adding it to such a number leaves no fractional bits.
    const WHOLE: f32 = 1.5 * (1 << 23) as f32;
    // SAFETY: a vector is there, and so is its instruction set.
    unsafe { x.add(V::splat(WHOLE)).add(V::splat(-WHOLE)) }
}

multiversion! {
    /// Quantizes each element.
    pub(crate) fn quantize(to: Quantizer, values: &[f32], quantized: &mut [u8]) {
        for (value, quantized) in values.iter().zip(quantized) {
            *quantized = to.byte(*value);
        }
    }
}

multiversion! {
    /// Quantizes each element and dequantizes it: `quantized · scale + low`.
    pub(crate) fn quantize_dequantize(to: Quantizer, scale: f32, low: f32, values: &mut [f32]) {
        for value in values {
            *value = to.quantized(*value) * scale + low;
        }
    }
}

/// A [`Quantizer`] per column, with the parameters that dequantize its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnQuantizers<'a> {
    /// For each column: an offset that is added to an element, the factor of the sum, the scale,
    /// and the value that 0 stands for.
    pub(crate) parts: [&'a [f32]; 4],
    /// The largest quantized value.
    pub(crate) most: f32,
}

impl<'a> ColumnQuantizers<'a> {
    /// The parameters of columns with these limits, low and high of the input and of the output,
    /// and `levels` quantized values. `None` if [`Quantizer::new`] gives none.
    pub fn parameters(limits: &[[f32; 4]], levels: usize) -> Option<Vec<f32>> {
        let columns = limits.iter().map(|&[low, high, to_low, to_high]| {
            let to = Quantizer::new(low, high, levels)?;
            let scale = (f64::from(to_high) - f64::from(to_low)) / f64::from(to.most);
            Some([-to.low, to.factor, scale as f32, to_low])
        });
        let columns: Vec<[f32; 4]> = columns.collect::<Option<_>>()?;
        Some((0..4).flat_map(|part| columns.iter().map(move |of| of[part])).collect())
    }

    /// The quantizers with these [`ColumnQuantizers::parameters`], from 0 to `most`.
    ///
    /// # Panics
    /// When `most` does not fit a byte.
    pub fn new(parameters: &'a [f32], most: f32) -> ColumnQuantizers<'a> {
        assert!((0.0..=255.0).contains(&most), "{most} is no byte");
        let mut parts = [&parameters[..0]; 4];
        let columns = parameters.len() / 4;
        for (part, all) in parts.iter_mut().zip(parameters.chunks_exact(columns.max(1))) {
            *part = all;
        }
        ColumnQuantizers { parts, most }
    }

    /// Equal parameters for all columns: quantized values stand for numbers `scale` apart, from
    /// `low` on.
    pub fn alike(to: Quantizer, (scale, low): (f32, f32), columns: usize) -> Vec<f32> {
        let parts = [-to.low, to.factor, scale, low];
        parts.into_iter().flat_map(|of| std::iter::repeat_n(of, columns)).collect()
    }

    /// For each column, the scale and the number that 0 stands for.
    pub fn dequantization(&self) -> impl Iterator<Item = (f32, f32)> + use<'a> {
        let [_, _, scale, low] = self.parts;
        scale.iter().copied().zip(low.iter().copied())
    }

    /// Number of columns with parameters.
    pub(crate) fn columns(&self) -> usize {
        self.parts.iter().map(|part| part.len()).min().unwrap_or_default()
    }

    /// Whether clamping the elements to `low..=high` first changes no quantized value.
    pub(crate) fn clamps(&self, low: f32, high: f32) -> bool {
        let [add, factor, ..] = self.parts;
        let scaled = |i: usize| [low, high].map(|x| (x + add[i]) * factor[i]);
        (0..self.columns()).all(|i| clamps(scaled(i), self.most))
    }

    /// The quantized value of an element of a column, as f32.
    #[inline(always)]
    fn quantized(&self, x: f32, add: f32, factor: f32) -> f32 {
        ((x + add) * factor).round_ties_even().max(0.0).min(self.most)
    }

    /// The quantized value of an element of a column.
    #[inline(always)]
    fn byte(&self, x: f32, add: f32, factor: f32) -> u8 {
        debug_assert!((0.0..=255.0).contains(&self.most));
        // SAFETY: an integer between 0 and 255, since `new` has tested the largest.
        unsafe { self.quantized(x, add, factor).to_int_unchecked::<i32>() as u8 }
    }

    /// The quantizers of the columns from `first` on.
    pub(crate) fn after(self, first: usize) -> ColumnQuantizers<'a> {
        ColumnQuantizers { parts: self.parts.map(|part| &part[first..]), ..self }
    }

    /// The quantizers of `columns` columns from `first` on; `None` if there are fewer.
    pub(crate) fn some(self, first: usize, columns: usize) -> Option<ColumnQuantizers<'a>> {
        let has_all = self.columns() >= first + columns;
        let part = |part: &'a [f32]| &part[first..first + columns];
        has_all.then(|| ColumnQuantizers { parts: self.parts.map(part), ..self })
    }
}

multiversion! {
    /// Quantizes each element of a row of columns.
    fn quantize_columns(of: ColumnQuantizers<'_>, values: &[f32], quantized: &mut [u8]) {
        let [add, factor, ..] = of.parts;
        let pairs = values.iter().zip(quantized);
        for ((value, quantized), (add, factor)) in pairs.zip(add.iter().zip(factor)) {
            *quantized = of.byte(*value, *add, *factor);
        }
    }
}

multiversion! {
    /// Quantizes and dequantizes each element of lines of `len` columns.
    pub(crate) fn quantize_dequantize_columns(of: ColumnQuantizers<'_>, len: usize, lines: &mut [f32]) {
        let [add, factor, scale, low] = of.parts.map(|part| &part[..len]);
        for line in lines.chunks_exact_mut(len.max(1)) {
            for (j, x) in line.iter_mut().enumerate() {
                *x = of.quantized(*x, add[j], factor[j]) * scale[j] + low[j];
            }
        }
    }
}

/// The quantizer of a tensor, or those of its columns.
#[derive(Clone, Copy, Debug)]
pub enum Quantizers<'a> {
    /// One for all elements.
    Uniform(Quantizer),
    /// One for each column.
    Columns(ColumnQuantizers<'a>),
}

impl Quantizers<'_> {
    /// Quantizes a row of elements, for the columns from `first` on.
    pub(crate) fn row(self, first: usize, values: &[f32], quantized: &mut [u8]) {
        match self {
            Quantizers::Uniform(to) => quantize(to, values, quantized),
            Quantizers::Columns(columns) => {
                quantize_columns(columns.after(first), values, quantized);
            }
        }
    }
}

/// Quantizes rows of `columns` elements.
///
/// # Panics
/// When there are fewer values than bytes, or fewer quantizers than columns.
pub fn quantize_rows(
    threads: &Threads,
    quantizers: Quantizers<'_>,
    columns: usize,
    values: &[f32],
    quantized: &mut [u8],
) {
    threads.par_chunks_mut(quantized, columns, GRAIN, |first, part| {
        let values = &values[first * columns..][..part.len()];
        match quantizers {
            Quantizers::Uniform(to) => quantize(to, values, part),
            Quantizers::Columns(own) => {
                let rows = values.chunks(columns).zip(part.chunks_mut(columns));
                rows.for_each(|(values, quantized)| quantize_columns(own, values, quantized));
            }
        }
    });
}

/// The destination of results.
#[derive(Debug)]
pub enum Output<'a> {
    /// f32 values.
    F32(&'a mut [f32]),
    /// Quantized values, after all post-ops.
    Quantized(&'a mut [u8], Quantizers<'a>),
}

impl Output<'_> {
    /// Elements that fit.
    pub(crate) fn len(&self) -> usize {
        match self {
            Output::F32(to) => to.len(),
            Output::Quantized(to, _) => to.len(),
        }
    }
}

/// The limits of FakeQuantize, each broadcast to the shape of the elements.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a, T> {
    /// Limits of the input, low and high.
    pub input: [&'a [T]; 2],
    /// Limits of the output, low and high.
    pub output: [&'a [T]; 2],
}

/// FakeQuantize: rounds elements to `levels` values. `plan` broadcasts the four limits.
///
/// # Panics
/// When the limits or the elements do not fit the plan.
pub fn fake_quantize<T: StoredReal>(
    threads: &Threads,
    plan: &Broadcast<4>,
    levels: usize,
    limits: Limits<'_, T>,
    io: &mut InOut<'_, T>,
) {
    let steps = T::Wide::of(levels.saturating_sub(1) as f64);
    let Limits { input: [low, high], output: [to_low, to_high] } = limits;
    let limits = [low, high, to_low, to_high];
    if plan.steps() == [0; 4] {
        return rows(threads, plan, limits, io, |limits| QuantRange::new(limits, steps));
    }
    assert_eq!(io.len(), plan.count(), "the elements are not those of the plan");
    plan.rows(threads, |first, len, at| {
        let own = std::array::from_fn(|k| &limits[k][at[k]..]);
        // SAFETY: rows are disjoint.
        let io = unsafe { io.part(first..first + len) };
        round_each(io, own, plan.steps().map(|step| step == 1), steps);
    });
}

/// Rounds an element by the limits at index `at`.
#[inline(always)]
fn round_one<T: StoredReal>(
    x: T,
    limits: &[[T; VECTORS_AT_ONCE]; 4],
    at: usize,
    steps: T::Wide,
) -> T {
    let [low, high, to_low, to_high] = limits;
    let own = [low[at].widen(), high[at].widen(), to_low[at].widen(), to_high[at].widen()];
    QuantRange::new(own, steps).apply(x.widen()).narrow()
}

multiversion! {
    /// Rounds elements by limits; `of_each` says which limits each element has of its own.
    fn round_each<T: StoredReal>(
        io: InOut<'_, T>,
        limits: [&[T]; 4],
        of_each: [bool; 4],
        steps: T::Wide,
    ) {
        let mut io = io;
        let (len, mut at) = (io.len(), 0);
        // Loops, not closures: what is not inlined here is not compiled for the instruction set.
        let mut own = [[limits[0][0]; VECTORS_AT_ONCE]; 4];
        for k in 0..4 {
            own[k] = [limits[k][0]; VECTORS_AT_ONCE];
        }
        while at < len {
            let count = VECTORS_AT_ONCE.min(len - at);
            for k in 0..4 {
                if of_each[k] {
                    own[k][..count].copy_from_slice(&limits[k][at..][..count]);
                }
            }
            if count == VECTORS_AT_ONCE {
                let mut x: [T; VECTORS_AT_ONCE] = io.load(at);
                for j in 0..VECTORS_AT_ONCE {
                    x[j] = round_one(x[j], &own, j, steps);
                }
                io.store(at, x);
            } else {
                for j in 0..count {
                    let [x]: [T; 1] = io.load(at + j);
                    io.store(at + j, [round_one(x, &own, j, steps)]);
                }
            }
            at += count;
        }
    }
}

/// An 8-bit floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float8 {
    /// 4 exponent and 3 mantissa bits.
    E4M3,
    /// 5 exponent and 2 mantissa bits.
    E5M2,
}

/// Rounds to a value of a type, after scaling and shifting, which are undone.
#[derive(Clone, Copy)]
struct Scaled<R> {
    to: Float8,
    scale: R,
    shift: R,
}

impl<R: Real + Wide> Rounding<R> for Scaled<R> {
    #[inline(always)]
    fn apply(self, x: R) -> R {
        let value: f32 = (x * self.scale - self.shift).narrow();
        let rounded = match self.to {
            Float8::E4M3 => F8E4M3::new(value.clamp(-448.0, 448.0)).to_f32(),
            Float8::E5M2 => F8E5M2::new(value.clamp(-57344.0, 57344.0)).to_f32(),
        };
        (R::of(rounded.into()) + self.shift) / self.scale
    }
}

/// FakeConvert: rounds `x * scale - shift` to the nearest value of a type, then undoes shift and
/// scale. Values that are too large become the largest finite one. `plan` broadcasts scale and
/// shift; a missing shift is 0.
///
/// # Panics
/// When scale, shift or the elements do not fit the plan.
pub fn fake_convert<T: StoredReal>(
    threads: &Threads,
    plan: &Broadcast<2>,
    to: Float8,
    (scale, shift): (&[T], Option<&[T]>),
    io: &mut InOut<'_, T>,
) {
    let params = [scale, shift.unwrap_or(scale)];
    rows(threads, plan, params, io, |[scale, own]| {
        let shift = if shift.is_some() { own } else { T::Wide::of(0.0) };
        Scaled { to, scale, shift }
    });
}

/// Rounds every row. Parameters that the whole row shares are widened once.
fn rows<T: StoredReal, F: Rounding<T::Wide>, const P: usize>(
    threads: &Threads,
    plan: &Broadcast<P>,
    params: [&[T]; P],
    io: &mut InOut<'_, T>,
    rounding: impl Fn([T::Wide; P]) -> F + Sync,
) {
    assert_eq!(io.len(), plan.count(), "the elements are not those of the plan");
    let steps = plan.steps();
    plan.rows(threads, |first, len, at| {
        let width = if steps == [0; P] { len } else { 1 };
        for i in (0..len).step_by(width.max(1)) {
            let own = std::array::from_fn(|k| params[k][at[k] + i * steps[k]].widen());
            // SAFETY: rows are disjoint.
            round(unsafe { io.part(first + i..first + i + width) }, rounding(own));
        }
    });
}

multiversion! {
    fn round<T: StoredReal, F: Rounding<T::Wide>>(io: InOut<'_, T>, f: F) {
        let mut io = io;
        let (len, mut at) = (io.len(), 0);
        while at + LANES <= len {
            let mut x: [T; LANES] = io.load(at);
            for x in &mut x {
                *x = f.apply(x.widen()).narrow();
            }
            io.store(at, x);
            at += LANES;
        }
        while at < len {
            let [x]: [T; 1] = io.load(at);
            io.store(at, [f.apply(x.widen()).narrow()]);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantized(x: &[f32], sizes: &[usize], limits: [&[f32]; 4], shape: &[usize]) -> Vec<f32> {
        let mut to = vec![0.0; x.len()];
        let plan = Broadcast::new(sizes, [shape; 4]);
        let [a, b, c, d] = limits;
        let limits = Limits { input: [a, b], output: [c, d] };
        fake_quantize(&Threads::new(2), &plan, 5, limits, &mut InOut::separate(x, &mut to));
        to
    }

    #[test]
    fn levels() {
        let x = [-3.0, -1.0, -0.9, -0.25, 0.0, 0.26, 0.25, 0.75, 1.0, 1.1, f32::INFINITY];
        let expected = [10.0, 10.0, 10.0, 14.0, 14.0, 16.0, 14.0, 18.0, 18.0, 18.0, 18.0];
        assert_eq!(quantized(&x, &[11], [&[-1.0], &[1.0], &[10.0], &[18.0]], &[1]), expected);
        // Swapped limits, and equal limits.
        assert_eq!(
            quantized(&[-0.5, 3.0], &[2], [&[1.0], &[-1.0], &[0.0], &[4.0]], &[]),
            [3.0, 4.0]
        );
        assert_eq!(
            quantized(&[0.5, 0.6], &[2], [&[0.5], &[0.5], &[0.0], &[1.0]], &[1]),
            [0.0, 1.0]
        );
        assert!(quantized(&[f32::NAN], &[1], [&[0.0], &[1.0], &[0.0], &[1.0]], &[])[0].is_nan());
    }

    #[test]
    fn limits_of_channels() {
        let x = vec![0.6; 2 * 3 * 40];
        let (low, high) = ([0.0; 3], [1.0, 2.0, 4.0]);
        let limits: [&[f32]; 4] = [&low, &high, &low, &high];
        for (sizes, shape, inner) in [([2, 3, 40], &[3, 1][..], 40), ([2, 40, 3], &[3][..], 1)] {
            for (i, y) in quantized(&x, &sizes, limits, shape).iter().enumerate() {
                assert_eq!(*y, [0.5, 0.5, 1.0][i / inner % 3]);
            }
        }
    }

    /// The definition, one by one, for rows longer than what is computed together.
    #[test]
    fn limits_of_columns() {
        let low: Vec<f32> = (0..21).map(|j| -0.3 - j as f32).collect();
        let high: Vec<f32> = (0..21).map(|j| 0.7 + 2.0 * j as f32).collect();
        let x: Vec<f32> = (0..4 * 21).map(|i| (i * 29 % 101) as f32 * 0.7 - 30.0).collect();
        let found = quantized(&x, &[4, 21], [&low, &high, &high, &low], &[21]);
        for (i, x) in x.iter().enumerate() {
            let (low, high) = (low[i % 21], high[i % 21]);
            let level = |x: f32| ((x - low) / (high - low) * 4.0).round_ties_even() / 4.0;
            let level = level(x.clamp(low, high));
            assert!((found[i] - (level * (low - high) + high)).abs() < 1e-5, "{x}");
        }
    }

    /// Each column has its own range; columns with equal limits cannot be quantized by a factor.
    #[test]
    fn levels_of_columns() {
        let limits: Vec<[f32; 4]> =
            (0..37).map(|j| [-1.0 - j as f32, 3.0, -0.5, j as f32 + 1.0]).collect();
        let parameters = ColumnQuantizers::parameters(&limits, 16).unwrap();
        let x: Vec<f32> = (0..3 * 37).map(|i| (i * 29 % 101) as f32 * 0.7 - 41.0).collect();
        let mut found = x.clone();
        quantize_dequantize_columns(ColumnQuantizers::new(&parameters, 15.0), 37, &mut found);
        for (i, (found, x)) in found.iter().zip(x).enumerate() {
            let [low, high, to_low, to_high] = limits[i % 37].map(f64::from);
            let level = (f64::from(x).clamp(low, high) - low) / (high - low) * 15.0;
            let exact = level.round_ties_even() / 15.0 * (to_high - to_low) + to_low;
            assert!((f64::from(*found) - exact).abs() < 1e-5, "{x}: {found} {exact}");
        }
        assert!(ColumnQuantizers::parameters(&[[1.0, 1.0, 0.0, 1.0]], 16).is_none());
        assert!(ColumnQuantizers::parameters(&limits, 1).is_none());
    }

    #[test]
    fn narrow_floats() {
        let x = [1.0f32, 1.0625, 1.07, 1000.0, -1e6, 1e-9];
        for (to, scale, shift, expected) in [
            (Float8::E4M3, 1.0, None, [1.0, 1.0, 1.125, 448.0, -448.0, 0.0]),
            (Float8::E5M2, 1.0, None, [1.0, 1.0, 1.0, 1024.0, -57344.0, 0.0]),
            (Float8::E4M3, 2.0, Some(1.0), [1.0, 1.0625, 1.0625, 224.5, -223.5, 0.0]),
        ] {
            let mut found = x;
            let (plan, mut io) = (Broadcast::new(&[6], [&[1], &[1]]), InOut::in_place(&mut found));
            let shift = shift.map(|s| [s]);
            let params = (&[scale][..], shift.as_ref().map(|s| &s[..]));
            fake_convert(Threads::single(), &plan, to, params, &mut io);
            assert_eq!(found, expected);
        }
    }
}
