//! Uniform random numbers, the same as OpenVINO's for the same seeds: Philox-4x32-10, whose blocks
//! can be computed in any order, or MT19937 seeded as in PyTorch.
//!
//! <https://www.thesalmons.org/john/random123/papers/random123sc11.pdf>

use crate::base::num::{Stored, Wide, bf16, f16};
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};
use crate::random::mt19937::Mt19937;
use std::ops::Sub;

/// Philox-4x32-10: each block of four words is a function of the key and the block's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    /// The key: the global seed.
    pub key: u64,
    /// The high half of a block's index: the operation's seed.
    pub counter: u64,
    /// The low half of the first block's index.
    pub start: u64,
}

impl Philox {
    /// Four random words.
    pub fn block(&self, index: u64) -> [u32; 4] {
        let (low, carry) = self.start.overflowing_add(index);
        let halves = |x: u64| (x as u32, (x >> 32) as u32);
        let (mut n, mut counter) =
            (halves(low), halves(self.counter.wrapping_add(u64::from(carry))));
        let mut key = halves(self.key);
        for _ in 0..10 {
            let a = halves(0xD251_1F53 * u64::from(n.0));
            let b = halves(0xCD9E_8D57 * u64::from(counter.0));
            n = (b.1 ^ n.1 ^ key.0, b.0);
            counter = (a.1 ^ counter.1 ^ key.1, a.0);
            key = (key.0.wrapping_add(0x9E37_79B9), key.1.wrapping_add(0xBB67_AE85));
        }
        [n.0, n.1, counter.0, counter.1]
    }
}

/// The generator and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// As in TensorFlow.
    Philox(Philox),
    /// As in PyTorch.
    Mt19937(u32),
}

/// Types that random words are converted to.
pub trait Uniform: Stored {
    /// Whether a value takes two words.
    fn takes_two(bounds: (Self, Self), generator: Generator) -> bool;

    /// The value in `bounds.0..bounds.1` for words of Philox.
    fn of_philox(words: &[u32], bounds: (Self, Self)) -> Self;

    /// The same for words of MT19937.
    fn of_mt19937(words: &[u32], bounds: (Self, Self)) -> Self;
}

/// Joins words to one number; the first word is the high one.
fn joined(words: &[u32]) -> u64 {
    words.iter().fold(0, |joined, word| joined << 32 | u64::from(*word))
}

/// The low bits of the joined words, as a fraction.
fn fraction(words: &[u32], bits: u32) -> f64 {
    (joined(words) & ((1 << bits) - 1)) as f64 / (1u64 << bits) as f64
}

/// How a float follows from its fraction, the range and the lowest value. The roundings in between
/// are those of OpenVINO.
struct FloatRule<W> {
    /// Binary digits of the type.
    digits: u32,
    philox: fn(W, W, W) -> W,
    mt19937: fn(W, W, W) -> W,
}

/// Floats. Philox gives all digits behind the leading one, MT19937 all digits.
trait UniformFloat: StoredReal + Sub<Output = Self> {
    const RULE: FloatRule<Self::Wide>;
}

impl<T: UniformFloat> Uniform for T {
    fn takes_two(_: (T, T), _: Generator) -> bool {
        T::RULE.digits > 32
    }

    fn of_philox(words: &[u32], (low, high): (T, T)) -> T {
        let fraction = T::Wide::of(fraction(words, T::RULE.digits - 1));
        (T::RULE.philox)(fraction, (high - low).widen(), low.widen()).narrow()
    }

    fn of_mt19937(words: &[u32], (low, high): (T, T)) -> T {
        let fraction = T::Wide::of(fraction(words, T::RULE.digits));
        (T::RULE.mt19937)(fraction, (high - low).widen(), low.widen()).narrow()
    }
}

impl UniformFloat for f16 {
    const RULE: FloatRule<f32> = FloatRule {
        digits: 11,
        philox: |x, range, low| f16::from_f32(x * range).to_f32() + low,
        mt19937: |x, range, low| x * range + low,
    };
}

impl UniformFloat for bf16 {
    const RULE: FloatRule<f32> = FloatRule {
        digits: 8,
        philox: |x, range, low| x * range + low,
        mt19937: |x, range, low| brief(x * range + low),
    };
}

impl UniformFloat for f32 {
    const RULE: FloatRule<f32> =
        FloatRule { digits: 24, philox: f32::mul_add, mt19937: |x, range, low| x * range + low };
}

impl UniformFloat for f64 {
    const RULE: FloatRule<f64> = FloatRule {
        digits: 53,
        philox: |x, range, low| x * range + low,
        mt19937: |x, range, low| x * range + low,
    };
}

/// Rounds to bf16 as OpenVINO does: half a unit and more round up if the last bit kept is 1, else
/// everything rounds down.
pub fn brief(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(bits.wrapping_add(bits >> 1 & 0x8000) & 0xffff_0000)
}

impl Uniform for i32 {
    fn takes_two(_: (i32, i32), _: Generator) -> bool {
        false
    }

    fn of_philox(words: &[u32], (low, high): (i32, i32)) -> i32 {
        let range = high.wrapping_sub(low) as u32;
        (joined(words) as u32 % range.max(1)).wrapping_add(low as u32) as i32
    }

    fn of_mt19937(words: &[u32], bounds: (i32, i32)) -> i32 {
        i32::of_philox(words, bounds)
    }
}

impl Uniform for i64 {
    /// With Philox, OpenVINO's plugin takes one word if it can compute in i32; its reference takes
    /// two.
    fn takes_two((low, high): (i64, i64), generator: Generator) -> bool {
        match generator {
            Generator::Philox(_) => [low, high].iter().any(|bound| i32::try_from(*bound).is_err()),
            Generator::Mt19937(_) => low.max(high) > i64::from(u32::MAX),
        }
    }

    /// Of two words the first is the low one.
    fn of_philox(words: &[u32], bounds: (i64, i64)) -> i64 {
        match *words {
            [low, high] => i64::of_mt19937(&[high, low], bounds),
            _ => i64::of_mt19937(words, bounds),
        }
    }

    fn of_mt19937(words: &[u32], (low, high): (i64, i64)) -> i64 {
        let range = high.wrapping_sub(low) as u64;
        (joined(words) % range.max(1)).wrapping_add(low as u64) as i64
    }
}

/// Values that are worth a second thread.
const GRAIN: usize = 4 << 10;

/// Fills `out` with random values from `bounds.0` to below `bounds.1`.
pub fn uniform<T: Uniform>(threads: &Threads, generator: Generator, bounds: (T, T), out: &mut [T]) {
    let words = if T::takes_two(bounds, generator) { 2 } else { 1 };
    match generator {
        Generator::Philox(philox) => {
            threads.par_chunks_mut(out, 4 / words, GRAIN, |first, part| {
                for (i, values) in part.chunks_mut(4 / words).enumerate() {
                    let block = philox.block((first + i) as u64);
                    for (value, words) in values.iter_mut().zip(block.chunks_exact(words)) {
                        *value = T::of_philox(words, bounds);
                    }
                }
            });
        }
        Generator::Mt19937(seed) => {
            let mut mt19937 = Mt19937::new(seed);
            for value in out {
                let pair = [mt19937.word(), if words == 2 { mt19937.word() } else { 0 }];
                *value = T::of_mt19937(&pair[..words], bounds);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHILOX: Generator = Generator::Philox(Philox { key: 1, counter: 2, start: 0 });

    fn seven<T: Uniform>(generator: Generator, low: f64, high: f64) -> Vec<T> {
        let mut out = vec![T::default(); 7];
        let bounds = (T::from_f64(low), T::from_f64(high));
        uniform(&Threads::new(2), generator, bounds, &mut out);
        out
    }

    /// The test vectors of the generator's authors: all bits clear, and all set.
    #[test]
    fn philox_known_answers() {
        let clear = Philox { key: 0, counter: 0, start: 0 };
        assert_eq!(clear.block(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let set = Philox { key: u64::MAX, counter: u64::MAX, start: u64::MAX };
        assert_eq!(set.block(0), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(set.block(1), Philox { counter: 0, start: 0, ..set }.block(0));
    }

    /// Values from OpenVINO.
    #[test]
    fn philox_values() {
        let f32s: Vec<f32> = seven(PHILOX, -2.0, 5.0);
        assert_eq!(f32s[..3], [0.844_777_2, 4.003_197, -1.612_229_1]);
        let f16s: Vec<f16> = seven(PHILOX, -2.0, 5.0);
        assert_eq!(f16s[..4], [-0.58496094, 1.1914063, 3.6171875, 1.2617188].map(f16::from_f32));
        let bf16s: Vec<bf16> = seven(PHILOX, -2.0, 5.0);
        assert_eq!(bf16s[..4], [2.3125, 2.53125, 0.953125, 3.09375].map(bf16::from_f32));
        let f64s: Vec<f64> = seven(PHILOX, -2.0, 5.0);
        assert_eq!(f64s[0], -0.24177851341069245);
        assert_eq!(seven::<i32>(PHILOX, -5.0, 50.0), [44, 0, 12, 4, 1, 31, -2]);
        assert_eq!(seven::<i64>(PHILOX, -5.0, 50.0), [44, 0, 12, 4, 1, 31, -2]);
        let wide: Vec<i64> = seven(PHILOX, -5.0, 1_099_511_627_776.0);
        assert_eq!(wide[..2], [910_070_865_905, 950_241_910_848]);
    }

    /// Values from OpenVINO.
    #[test]
    fn twister_values() {
        let mt19937 = Generator::Mt19937(1);
        let f32s: Vec<f32> = seven(mt19937, -2.0, 5.0);
        assert_eq!(f32s[..3], [3.303_421, -0.044_823_885, 0.821_484_8]);
        let f16s: Vec<f16> = seven(mt19937, -2.0, 5.0);
        assert_eq!(f16s[..3], [1.6269531, -1.1972656, 4.6015625].map(f16::from_f32));
        let bf16s: Vec<bf16> = seven(mt19937, -2.0, 5.0);
        assert_eq!(bf16s[..3], [-0.98828125, 4.4375, 1.828125].map(bf16::from_f32));
        let f64s: Vec<f64> = seven(mt19937, -2.0, 5.0);
        assert_eq!(f64s[0], -1.5726270769626347);
        assert_eq!(seven::<i32>(mt19937, -5.0, 50.0), [-5, 9, 44, 28, -2, 18, 11]);
        assert_eq!(seven::<i64>(mt19937, -5.0, 50.0), [-5, 9, 44, 28, -2, 18, 11]);
        let wide: Vec<i64> = seven(mt19937, -5.0, 1_099_511_627_776.0);
        assert_eq!(wide[..2], [163_161_683_746, 605_240_299_608]);
    }
}
