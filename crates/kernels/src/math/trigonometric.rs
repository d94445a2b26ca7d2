//! Sine and cosine of f32, computed in f64 and rounded once: nearly all are the nearest f32.
//! Without branches and fused products, for vectors on every CPU.

/// Beyond it, the quarter turns are not found exactly.
const LIMIT: f32 = (1 << 20) as f32;

/// π / 2 in two parts: the first has 33 bits, so that its product with an integer below 2^20 is
/// exact.
const HALF_PI: [f64; 2] = [1.570_796_326_734_125_6, 6.077_100_506_506_192e-11];

/// 1.5 · 2^52: adding it rounds to an integer, in the low bits of the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The sine of `x` and some quarter turns, and whether it holds: not for large numbers and NaN.
#[inline(always)]
pub(super) fn sine(x: f32, quarters: u64) -> (f32, bool) {
    let wide = f64::from(x);
    let shifted = wide * std::f64::consts::FRAC_2_PI + ROUND;
    let whole = shifted - ROUND;
    let rest = (wide - whole * HALF_PI[0]) - whole * HALF_PI[1];
    // Taylor series up to the 14th power: the rest is at most π / 4.
    let square = rest * rest;
    let (mut sine, mut cosine) = (1.0, 1.0);
    for n in [6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sine = sine * square * (-1.0 / (2.0 * n * (2.0 * n + 1.0))) + 1.0;
    }
    for n in [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        cosine = cosine * square * (-1.0 / (2.0 * n * (2.0 * n - 1.0))) + 1.0;
    }
    let quarters = shifted.to_bits().wrapping_add(quarters);
    let value = if quarters & 1 == 0 { sine * rest } else { cosine };
    let value = if quarters & 2 == 0 { value } else { -value };
    (value as f32, x.abs() <= LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearly all are the nearest f32, and none is further than the next; all over f32, close to
    /// multiples of π / 2, and at the limit.
    #[test]
    fn sines_are_those_of_libm() {
        let near = (0..650_000).map(|k| (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32);
        let all = (0..u32::MAX).step_by(4001).map(f32::from_bits);
        let mut others = 0;
        for x in near.flat_map(|x| [x, -x]).chain(all).filter(|x| x.abs() <= LIMIT) {
            for (quarters, exact) in [(0, libm::sin as fn(f64) -> f64), (1, libm::cos)] {
                let (expected, (found, holds)) = (exact(x.into()) as f32, sine(x, quarters));
                let distance = found.to_bits().abs_diff(expected.to_bits());
                assert!(holds && distance <= 1, "{x:e}: {found:e}, not {expected:e}");
                others += distance;
            }
        }
        assert!(others < 20, "{others} are not the nearest");
    }

    #[test]
    fn large_numbers_do_not_hold() {
        assert_eq!(sine(-0.0, 0).0.to_bits(), (-0.0f32).to_bits());
        let large = [LIMIT + 1.0, f32::NAN, f32::INFINITY, -1e30];
        assert!(large.iter().all(|x| !sine(*x, 0).1));
    }
}
