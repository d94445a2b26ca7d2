//! Quantizes lines of f32 into lines of bytes. Most have few columns, of which a compiler makes no
//! vectors.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;
use crate::base::par::Threads;
#[cfg(target_arch = "aarch64")]
use crate::base::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::base::simd::{Avx2, Avx512};
use crate::base::simd::{Integral, Vector};
use crate::math::quantize::{ColumnQuantizers, Quantizer, Quantizers, clamp_quantized, quantize};

/// Elements that are worth a second thread.
const GRAIN: usize = 32 << 10;

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
        quantizers.rows(columns, &values[first * columns..][..part.len()], part);
    });
}

impl Quantizers<'_> {
    /// Quantizes whole rows of `columns` elements.
    pub(crate) fn rows(self, columns: usize, values: &[f32], quantized: &mut [u8]) {
        match self {
            Quantizers::Uniform(to) => quantize(to, values, quantized),
            Quantizers::Columns(_) => self.columns(0, (columns, values), (columns, quantized)),
        }
    }

    /// Quantizes a row of elements, for the columns from `first` on.
    pub(crate) fn row(self, first: usize, values: &[f32], quantized: &mut [u8]) {
        let len = values.len();
        match self {
            Quantizers::Uniform(to) => quantize(to, values, quantized),
            Quantizers::Columns(_) => self.columns(first, (len, values), (len, quantized)),
        }
    }

    /// Quantizes rows of `columns` elements, the columns from `first` on of rows of `stride` bytes.
    pub(crate) fn columns(
        self,
        first: usize,
        (columns, values): (usize, &[f32]),
        (stride, quantized): (usize, &mut [u8]),
    ) {
        let lines = Lines { columns, values, stride, quantized };
        match self {
            Quantizers::Uniform(to) => lines.quantize(to),
            Quantizers::Columns(own) => lines.quantize(own.after(first)),
        }
    }
}

/// Lines of `columns` elements, and lines of `stride` bytes whose first columns they become.
struct Lines<'a> {
    columns: usize,
    values: &'a [f32],
    stride: usize,
    quantized: &'a mut [u8],
}

/// What quantizes elements by their column.
trait ByColumn: Copy {
    /// The quantized values of a vector from `column` on, before they are rounded to integers.
    ///
    /// # Safety
    /// The instruction set of `V` is available, and the columns exist.
    unsafe fn scaled<V: Vector>(&self, x: V, column: usize) -> V;

    /// The quantized value of an element.
    fn byte(&self, x: f32, column: usize) -> u8;

    /// Whether it quantizes so many columns.
    fn has(&self, columns: usize) -> bool;
}

impl ByColumn for Quantizer {
    #[inline(always)]
    unsafe fn scaled<V: Vector>(&self, x: V, _column: usize) -> V {
        Quantizer::scaled(*self, x)
    }

    #[inline(always)]
    fn byte(&self, x: f32, _column: usize) -> u8 {
        Quantizer::byte(*self, x)
    }

    fn has(&self, _columns: usize) -> bool {
        true
    }
}

impl ByColumn for ColumnQuantizers<'_> {
    #[inline(always)]
    unsafe fn scaled<V: Vector>(&self, x: V, column: usize) -> V {
        let [add, factor, ..] = self.parts.map(|part| part.as_ptr().wrapping_add(column));
        debug_assert!(column + V::LANES <= self.columns());
        // SAFETY: the caller's promise.
        let scaled = unsafe { x.add(V::load(add)).fma(V::load(factor), V::splat(-0.0)) };
        clamp_quantized(scaled, self.most)
    }

    #[inline(always)]
    fn byte(&self, x: f32, column: usize) -> u8 {
        let [add, factor, ..] = self.parts;
        ColumnQuantizers::byte(self, x, add[column], factor[column])
    }

    fn has(&self, columns: usize) -> bool {
        self.columns() >= columns
    }
}

impl Lines<'_> {
    /// Quantizes the elements.
    ///
    /// # Panics
    /// When a line of bytes is too short, or there are fewer quantizers than columns.
    fn quantize(self, to: impl ByColumn) {
        let Lines { columns, values, stride, ref quantized } = self;
        let lines = values.len() / columns.max(1);
        let end = lines.saturating_sub(1) * stride + columns;
        assert!((lines == 0 || end <= quantized.len()) && columns <= stride && to.has(columns));
        // SAFETY: `isa` is what the CPU has; lines and quantizers have been checked.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx if columns >= Avx512::LANES => self.avx512(to),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 | Isa::Amx => self.avx2(to),
                #[cfg(target_arch = "aarch64")]
                _ => self.each::<Neon, _>(to),
                #[cfg(not(target_arch = "aarch64"))]
                _ => self.scalar(to),
            }
        }
    }

    /// # Safety
    /// As [`Self::each`], with AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn avx512(self, to: impl ByColumn) {
        debug_assert!(Isa::Avx512.is_available());
        // SAFETY: the caller's promise.
        unsafe { self.each::<Avx512, _>(to) }
    }

    /// # Safety
    /// As [`Self::each`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(self, to: impl ByColumn) {
        debug_assert!(Isa::Avx2.is_available());
        // SAFETY: the caller's promise.
        unsafe { self.each::<Avx2, _>(to) }
    }

    /// Quantizes one vector after another. The last of a line may cover columns again.
    ///
    /// # Safety
    /// The instruction set of `V` is available; the bytes hold each line, and there are quantizers
    /// for the columns.
    #[inline(always)]
    unsafe fn each<V: Integral, Q: ByColumn>(self, to: Q) {
        let Lines { columns, values, stride, quantized } = self;
        debug_assert!(to.has(columns));
        if columns < V::LANES {
            return Lines { columns, values, stride, quantized }.scalar(to);
        }
        for (i, line) in values.chunks_exact(columns).enumerate() {
            let bytes = quantized.as_mut_ptr().wrapping_add(i * stride);
            let mut column = 0;
            while column < columns {
                let at = column.min(columns - V::LANES);
                // SAFETY: the caller's promise; a vector from `at` on is within the line.
                unsafe {
                    let x = V::load(line.as_ptr().add(at));
                    to.scaled(x, at).store_bytes(bytes.add(at));
                }
                column += V::LANES;
            }
        }
    }

    /// Quantizes one element after another.
    #[inline(always)]
    fn scalar(self, to: impl ByColumn) {
        let Lines { columns, values, stride, quantized } = self;
        let lines = values.chunks_exact(columns.max(1)).zip(quantized.chunks_mut(stride.max(1)));
        for (line, quantized) in lines {
            for (column, (x, quantized)) in line.iter().zip(quantized).enumerate() {
                *quantized = to.byte(*x, column);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of all lengths, with what is not finite, and numbers halfway between two values.
    #[test]
    fn vectors_quantize_as_elements_do() {
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e30, 0.125, 0.375];
        let uniform = Quantizer::new(-1.0, 62.75, 256).unwrap();
        for columns in 1..70 {
            let stride = columns + 3;
            let value = |i: usize| match i % 11 {
                k if k < special.len() => special[k],
                _ => (i * 37 % 101) as f32 * 0.125 - 3.0,
            };
            let values: Vec<f32> = (0..3 * columns).map(value).collect();
            let limits: Vec<[f32; 4]> =
                (0..columns).map(|j| [-1.0 - j as f32, 9.0, 0.0, 1.0]).collect();
            let parameters = ColumnQuantizers::parameters(&limits, 200).unwrap();
            let own = ColumnQuantizers::new(&parameters, 199.0);
            let mut found = [vec![7; 3 * stride], vec![7; 3 * stride]];
            let [first, second] = &mut found;
            Lines { columns, values: &values, stride, quantized: first }.quantize(uniform);
            Lines { columns, values: &values, stride, quantized: second }.quantize(own);
            for (i, j) in (0..3).flat_map(|i| (0..stride).map(move |j| (i, j))) {
                let expected = match values.get(i * columns + j).filter(|_| j < columns) {
                    Some(x) => [
                        ((x + 1.0) * 4.0).round_ties_even().clamp(0.0, 255.0) as u8,
                        ByColumn::byte(&own, *x, j),
                    ],
                    None => [7, 7],
                };
                assert_eq!([found[0][i * stride + j], found[1][i * stride + j]], expected);
            }
        }
    }
}
