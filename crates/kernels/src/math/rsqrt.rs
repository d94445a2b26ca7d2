//! The reciprocal square root (rsqrt) of f32, from integers and products alone: roots and quotients
//! take several times as long.

/// The bits of 2^-90 and 2^90. Beyond, squares of results lose bits.
const FIRST: u32 = (127 - 90) << 23;
const LAST: u32 = (127 + 90) << 23;

/// `1 / sqrt(x)`, and whether it is the nearest f32 for certain.
#[inline(always)]
pub(super) fn rsqrt(x: f32) -> (f32, bool) {
    // Half the exponent, negative, and a straight line for the rest: 3 % off.
    let mut y = f32::from_bits(0x5f37_5a86_u32.wrapping_sub(x.to_bits() >> 1));
    let half = 0.5 * x;
    // Newton's method: 2e-3, 5e-6, and some units in the last place.
    for _ in 0..3 {
        let rest = (-half * y).mul_add(y, 0.5);
        y = y.mul_add(rest, y);
    }
    // What is missing, from the exact square.
    let square = y * y;
    let error = y.mul_add(y, -square);
    let rest = (-half).mul_add(error, (-half).mul_add(square, 0.5));
    let step = y * rest;
    let margin = y * MARGIN;
    let (low, high) = (y + (step - margin), y + (step + margin));
    let is_inside = x.to_bits().wrapping_sub(FIRST) <= LAST - FIRST;
    (low, low == high && is_inside)
}

/// 2^-39, more than the relative error before the last rounding: what is missing is 2^-20 at most,
/// and its rounding and its square, which is left out, are 2^-40 or less.
const MARGIN: f32 = f32::from_bits((127 - 39) << 23);

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that hold are what f64 gives, over two exponents, which is all bits of results, and
    /// over all arguments; nearly all hold.
    #[test]
    fn results_are_the_nearest() {
        let mantissas = (1f32.to_bits()..4f32.to_bits()).step_by(7);
        let (mut count, mut others) = (0, 0);
        for x in mantissas.chain((0..u32::MAX).step_by(4001)).map(f32::from_bits) {
            let (value, holds) = rsqrt(x);
            let expected = (1.0 / f64::from(x).sqrt()) as f32;
            assert!(!holds || value.to_bits() == expected.to_bits(), "{x}: {value}, {expected}");
            let is_inside = (FIRST..=LAST).contains(&x.to_bits());
            assert!(is_inside || !holds, "{x}");
            (count, others) =
                (count + u32::from(is_inside), others + u32::from(is_inside && !holds));
        }
        assert!(others < count / 10_000, "{others} of {count}");
    }
}
