//! Simulated quantization: elements are rounded to the values of a narrow type, but keep their own
//! type. f16 and bf16 are computed in f32.

use crate::base::num::{F8E4M3, F8E5M2, Wide};
use crate::base::par::Threads;
use crate::base::scratch::InOut;
use crate::math::broadcast::Broadcast;
use crate::math::real::{Real, StoredReal};
use crate::multiversion;

/// Elements computed together: a loop over vectors, not unrolled.
const LANES: usize = 64;

/// Elements computed together if each has its own limits. Fewer than [`LANES`], since rows of
/// channels are rarely longer.
const VECTORS_AT_ONCE: usize = 8;

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
    vectors if size_of::<T>() <= size_of::<f32>();
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
    vectors if size_of::<T>() <= size_of::<f32>();
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
