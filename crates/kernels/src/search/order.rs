//! A total order of values, for sorting and searching, where comparisons must be consistent.

use crate::base::num::Wide;
use std::ops::Not;

/// Wide types with a total order.
pub trait Order: Wide {
    /// A number that compares as the value does.
    type Rank: Copy + Ord + Into<u64> + Not<Output = Self::Rank>;

    /// A number that is larger for larger values. -0 equals 0, and NaN is above everything.
    fn rank(self) -> Self::Rank;
}

/// The rank of a float.
macro_rules! float_order {
    ($t:ty, $rank:ty) => {
        impl Order for $t {
            type Rank = $rank;

            #[inline(always)]
            fn rank(self) -> $rank {
                const SIGN: $rank = !(<$rank>::MAX >> 1);
                // Adding 0 turns -0 into 0.
                let bits = (self + 0.0).to_bits();
                let rank = if bits & SIGN != 0 { !bits } else { bits | SIGN };
                if self.is_nan() { <$rank>::MAX } else { rank }
            }
        }
    };
}

float_order!(f32, u32);
float_order!(f64, u64);

impl Order for i64 {
    type Rank = u64;

    #[inline(always)]
    fn rank(self) -> u64 {
        (self as u64) ^ 1 << 63
    }
}

impl Order for u64 {
    type Rank = u64;

    #[inline(always)]
    fn rank(self) -> u64 {
        self
    }
}

/// The positions in `(number, position)` pairs in the order of the numbers; equal ones by position.
pub fn sorted<R: Into<u64>>(pairs: impl Iterator<Item = (R, usize)>) -> Vec<usize> {
    let mut keys: Vec<u128> =
        pairs.map(|(number, position)| key(number.into(), position)).collect();
    keys.sort_unstable();
    keys.into_iter().map(position).collect()
}

/// A pair as one number with the same order, which is compared without a branch.
#[inline(always)]
pub fn key(number: u64, position: usize) -> u128 {
    u128::from(number) << 64 | position as u128
}

/// The position in a [`key`].
#[inline(always)]
pub fn position(key: u128) -> usize {
    key as u64 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_rise_with_values() {
        fn rising<R: Ord>(ranks: &[R]) -> bool {
            ranks.windows(2).all(|w| w[0] < w[1])
        }
        let inf = f64::INFINITY;
        assert!(rising(&[-inf, -2.0, -1e-300, 0.0, 1e-300, 3.0, inf, f64::NAN].map(Order::rank)));
        let inf = f32::INFINITY;
        assert!(rising(&[-inf, -2.0, -1e-40, 0.0, 1e-40, 3.0, inf, -f32::NAN].map(Order::rank)));
        assert!(rising(&[i64::MIN, -1, 0, 1, i64::MAX].map(Order::rank)));
        assert!(rising(&[0, 1, u64::MAX].map(Order::rank)));
        assert_eq!((-0.0f32).rank(), 0.0f32.rank());
    }

    #[test]
    fn equal_numbers_are_ordered_by_position() {
        let pairs = [(7, 4), (u64::MAX, 0), (7, 1), (0, 9)];
        assert_eq!(sorted(pairs.into_iter()), [9, 1, 4, 0]);
    }
}
