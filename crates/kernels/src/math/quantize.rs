//! Quantizers of u8 values.

use crate::base::simd::Vector;
use crate::multiversion;

/// Steps from 0 to the lowest number of a quantizer that absorbs a scale, at most.
const MAX_STEPS: f64 = (1 << 12) as f64;

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

    /// The quantizer of x for which `x · factor + shift` has the quantized values of this one. The
    /// rounding differs. `None` unless the factor is above 0, and the lowest number so near the
    /// others that its rounding moves a value by less than a thousandth of a step.
    pub fn of_scaled(self, factor: f32, shift: f32) -> Option<Quantizer> {
        let low = (f64::from(self.low) - f64::from(shift)) / f64::from(factor);
        let quantizer = Quantizer { low: low as f32, factor: self.factor * factor, ..self };
        let is_near = f64::from(quantizer.low * quantizer.factor).abs() <= MAX_STEPS;
        (factor > 0.0 && is_near && quantizer.factor.is_normal()).then_some(quantizer)
    }

    /// The factor that scales numbers to quantized values, and the quantizer of numbers that have
    /// been multiplied by it.
    pub fn scaling(self) -> (f32, Quantizer) {
        (self.factor, Quantizer { low: self.low * self.factor, factor: 1.0, ..self })
    }

    /// The lowest number, and the quantizer of numbers that it has been subtracted from.
    pub fn offset(self) -> (f32, Quantizer) {
        (self.low, Quantizer { low: 0.0, ..self })
    }

    /// Whether it only clamps and rounds.
    pub fn is_of_whole_numbers(self) -> bool {
        self.low == 0.0 && self.factor == 1.0
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

/// Adding it to a number from 0 to 2^22 leaves no fractional bits.
pub(crate) const WHOLE_OFFSET: f32 = 1.5 * (1 << 23) as f32;

/// Rounds numbers from 0 to 2^22 to integers, ties to even.
#[inline(always)]
pub(crate) fn whole<V: Vector>(x: V) -> V {
    // SAFETY: a vector is there, and so is its instruction set.
    unsafe { x.add(V::splat(WHOLE_OFFSET)).add(V::splat(-WHOLE_OFFSET)) }
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
    /// Quantizes each element and dequantizes it: `quantized · scale + low`, rounded once.
    pub(crate) fn quantize_dequantize(to: Quantizer, scale: f32, low: f32, values: &mut [f32]) {
        for value in values {
            *value = to.quantized(*value).mul_add(scale, low);
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

    /// The factors that scale numbers to quantized values, and the
    /// [parameters](Self::parameters) for numbers that have been multiplied by them.
    pub fn scaling(&self) -> (&'a [f32], Vec<f32>) {
        let [add, factor, scale, low] = self.parts;
        let add = add.iter().zip(factor).map(|(add, factor)| add * factor);
        let ones = factor.iter().map(|_| 1.0);
        let rest = scale.iter().chain(low).copied();
        (factor, add.chain(ones).chain(rest).collect())
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
    pub(super) fn byte(&self, x: f32, add: f32, factor: f32) -> u8 {
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
    /// Quantizes and dequantizes each element of lines of `len` columns.
    pub(crate) fn quantize_dequantize_columns(of: ColumnQuantizers<'_>, len: usize, lines: &mut [f32]) {
        let [add, factor, scale, low] = of.parts.map(|part| &part[..len]);
        for line in lines.chunks_exact_mut(len.max(1)) {
            for (j, x) in line.iter_mut().enumerate() {
                *x = of.quantized(*x, add[j], factor[j]).mul_add(scale[j], low[j]);
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

/// Scales and shifts of columns that have absorbed quantizers, and what is left of these.
#[derive(Clone, Debug)]
pub struct Requantization {
    /// A factor for each column.
    pub scales: Vec<f32>,
    /// What is added to each column once it is scaled.
    pub shifts: Vec<f32>,
    /// The quantizer of all columns behind it: it clamps and rounds.
    pub to: Quantizer,
}

impl Quantizers<'_> {
    /// The parameters of quantizers of x, and the largest quantized value, for which x times the
    /// scale of its column plus the shift has the quantized values of these. The rounding differs.
    /// `None` unless the lowest number is so near the others that its rounding moves a value by
    /// less than a thousandth of a step.
    pub fn of_scaled(self, scales: &[f64], shifts: &[f64]) -> Option<(Vec<f32>, f32)> {
        let (mut adds, mut factors, mut largest) = (Vec::new(), Vec::new(), 0.0);
        for (column, (scale, shift)) in scales.iter().zip(shifts).enumerate() {
            let (add, factor, most) = self.of_column(column)?;
            let (add, factor) = (shift + f64::from(add), f64::from(factor));
            let is_near = (add * factor).abs() <= MAX_STEPS;
            let (add, factor) = ((add / scale) as f32, (scale * factor) as f32);
            if !is_near || !add.is_finite() || !factor.is_normal() {
                return None;
            }
            adds.push(add);
            factors.push(factor);
            largest = most;
        }
        let rest = [1.0, 0.0].map(|of| vec![of; adds.len()]);
        Some(([adds, factors].into_iter().chain(rest).flatten().collect(), largest))
    }

    /// The offset, the factor and the largest quantized value of a column, if there is such a one.
    fn of_column(&self, column: usize) -> Option<(f32, f32, f32)> {
        match self {
            Quantizers::Uniform(to) => Some((-to.low, to.factor, to.most)),
            Quantizers::Columns(ColumnQuantizers { parts: [add, factor, ..], most }) => {
                Some((*add.get(column)?, *factor.get(column)?, *most))
            }
        }
    }

    /// Scales and shifts of columns that absorb these quantizers. `None` if a number is not finite
    /// or there are fewer quantizers.
    pub fn combined(self, scales: &[f32], shifts: &[f32]) -> Option<Requantization> {
        let to = Quantizer { low: 0.0, factor: 1.0, most: 0.0 };
        let mut combined = Requantization { scales: Vec::new(), shifts: Vec::new(), to };
        for (column, (scale, shift)) in scales.iter().zip(shifts).enumerate() {
            let (add, factor, most) = self.of_column(column)?;
            let scale = (f64::from(*scale) * f64::from(factor)) as f32;
            let shift = ((f64::from(*shift) + f64::from(add)) * f64::from(factor)) as f32;
            if !scale.is_finite() || !shift.is_finite() {
                return None;
            }
            combined.scales.push(scale);
            combined.shifts.push(shift);
            combined.to.most = most;
        }
        Some(combined)
    }

    /// Whether clamping the elements to `low..=high` first changes no quantized value.
    pub fn clamps(self, low: f32, high: f32) -> bool {
        match self {
            Quantizers::Uniform(to) => to.clamps(low, high),
            Quantizers::Columns(columns) => columns.clamps(low, high),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Combined scales and shifts, then clamping and rounding, are the quantizer of scaled values.
    #[test]
    fn quantizers_are_combined_with_scales() {
        let limits = [[-1.0, 3.0, 0.0, 1.0], [0.0, 2.5, 0.0, 1.0], [-4.0, -1.0, 0.0, 1.0]];
        let parameters = ColumnQuantizers::parameters(&limits, 256).unwrap();
        let columns = Quantizers::Columns(ColumnQuantizers::new(&parameters, 255.0));
        let uniform = Quantizers::Uniform(Quantizer::new(-1.0, 3.0, 256).unwrap());
        let (scales, shifts) = ([0.25f32, 0.5, 0.125], [0.1f32, -0.2, -1.5]);
        for (quantizers, limits) in [(columns, limits), (uniform, [limits[0]; 3])] {
            let combined = quantizers.combined(&scales, &shifts).unwrap();
            let Requantization { scales: by, shifts: add, to } = combined;
            assert!(to.is_of_whole_numbers());
            for sum in -40..40 {
                for c in 0..3 {
                    let x = f64::from(sum) * f64::from(scales[c]) + f64::from(shifts[c]);
                    let [low, high, ..] = limits[c].map(f64::from);
                    let level = (x.clamp(low, high) - low) / (high - low) * 255.0;
                    let found = to.byte(sum as f32 * by[c] + add[c]);
                    assert!((f64::from(found) - level).abs() <= 0.5 + 1e-4, "{sum} {c}");
                }
            }
        }
        assert!(uniform.combined(&[f32::MAX], &[0.0]).is_none());
        assert!(columns.combined(&[1.0; 4], &[0.0; 4]).is_none());
    }

    #[test]
    fn quantizers_of_scaled_values() {
        let to = Quantizer::new(-1.0, 1.0, 256).unwrap();
        let scaled = to.of_scaled(0.02, -1.5).unwrap();
        for x in 0..=255 {
            let level = ((f64::from(x) * 0.02 - 1.5).clamp(-1.0, 1.0) + 1.0) * 127.5;
            assert!((f64::from(scaled.byte(x as f32)) - level).abs() <= 0.5 + 1e-4, "{x}");
        }
        for factor in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(to.of_scaled(factor, 0.0).is_none());
        }
        assert!(to.of_scaled(1.0, -1e6).is_none(), "1e6 - 1 in f32 is off by several steps");
    }
}
