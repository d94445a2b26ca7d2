//! Classes of real numbers (IsFinite, IsInf, IsNaN), which their bits tell.

use crate::base::num::Bits;
use crate::base::par::Threads;
use crate::multiversion;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// A class of real numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Neither infinite nor NaN.
    Finite,
    /// Not a number.
    Nan,
    /// The infinities of these signs.
    Infinite {
        /// Whether -∞ counts.
        negative: bool,
        /// Whether +∞ counts.
        positive: bool,
    },
}

/// The bits of a class: those from `first` to `last` once masked.
#[derive(Clone, Copy, Debug)]
pub struct Patterns<B> {
    mask: B,
    first: B,
    last: B,
}

impl<B: Bits> Patterns<B> {
    /// The bits of a class in a type as wide as `B`, whose +∞ has the bits `infinity`.
    pub fn of(class: Class, infinity: i64) -> Patterns<B> {
        let (zero, all, magnitude) = (B::all_if(false), B::all_if(true), B::MAGNITUDE);
        // Finite numbers come before infinity, NaN behind it.
        let [before, infinity, behind] = [infinity - 1, infinity, infinity + 1].map(B::from_i64);
        let (mask, first, last) = match class {
            Class::Finite => (magnitude, zero, before),
            Class::Nan => (magnitude, behind, magnitude),
            Class::Infinite { negative: true, positive: true } => (magnitude, infinity, infinity),
            Class::Infinite { negative: false, positive: true } => (all, infinity, infinity),
            Class::Infinite { negative: true, positive: false } => {
                let negative = infinity | !magnitude;
                (all, negative, negative)
            }
            // An empty range.
            Class::Infinite { negative: false, positive: false } => (all, all, zero),
        };
        Patterns { mask, first, last }
    }
}

/// Writes whether each number, given as its bits, is of a class.
pub fn classify<B: Bits>(threads: &Threads, class: Patterns<B>, from: &[B], to: &mut [u8]) {
    threads.par_chunks_mut(to, 1, GRAIN, |first, part| within(class, &from[first..], part));
}

multiversion! {
    fn within<B: Bits>(
        class: Patterns<B>,
        from: &[B],
        to: &mut [u8],
    ) {
        for (to, bits) in to.iter_mut().zip(from) {
            let bits = *bits & class.mask;
            *to = u8::from((class.first <= bits) & (bits <= class.last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    const CLASSES: [Class; 6] = [
        Class::Finite,
        Class::Nan,
        Class::Infinite { negative: true, positive: true },
        Class::Infinite { negative: false, positive: true },
        Class::Infinite { negative: true, positive: false },
        Class::Infinite { negative: false, positive: false },
    ];

    fn is(class: Class, x: f64) -> bool {
        match class {
            Class::Finite => x.is_finite(),
            Class::Nan => x.is_nan(),
            Class::Infinite { negative, positive } => {
                positive && x == f64::INFINITY || negative && x == f64::NEG_INFINITY
            }
        }
    }

    /// Compares with the definition, for these bits and what they stand for.
    fn agree<B: Bits>(infinity: i64, all: &[B], value: impl Fn(B) -> f64) {
        for class in CLASSES {
            let mut found = vec![2; all.len()];
            classify(&Threads::new(2), Patterns::of(class, infinity), all, &mut found);
            let expected = all.iter().map(|bits| u8::from(is(class, value(*bits))));
            assert!(found.into_iter().eq(expected), "{class:?}");
        }
    }

    #[test]
    fn all_numbers_of_two_bytes() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        agree(f16::INFINITY.to_bits().into(), &all, |bits| f16::from_bits(bits).to_f64());
        agree(bf16::INFINITY.to_bits().into(), &all, |bits| bf16::from_bits(bits).to_f64());
    }

    #[test]
    fn numbers_at_the_bounds() {
        let f32s = [0.0, 1.0, f32::MIN_POSITIVE, f32::MAX, f32::INFINITY, f32::NAN];
        let mut bits: Vec<u32> = f32s.iter().flat_map(|x| [x.to_bits(), (-x).to_bits()]).collect();
        bits.extend([0x7f80_0001, 0xff80_0001, u32::MAX]);
        agree(f32::INFINITY.to_bits().into(), &bits, |bits| f32::from_bits(bits).into());
        let f64s = [0.0, 1.0, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NAN];
        let mut bits: Vec<u64> = f64s.iter().flat_map(|x| [x.to_bits(), (-x).to_bits()]).collect();
        bits.extend([0x7ff0_0000_0000_0001, 0xfff0_0000_0000_0001, u64::MAX]);
        agree(0x7ff0 << 48, &bits, f64::from_bits);
    }
}
