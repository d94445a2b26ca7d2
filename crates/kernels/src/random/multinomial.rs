//! Multinomial sampling. Rounds as OpenVINO's CPU plugin does, so that the same samples draw the
//! same classes.

/// How sums and quotients are rounded: [`single`], or [`brief`](crate::random::uniform::brief).
pub type Rounding = fn(f32) -> f32;

/// f32: no further rounding.
pub fn single(x: f32) -> f32 {
    x
}

/// Cumulative probabilities of the classes. `None` if a probability is negative or not finite, or
/// all are 0.
pub fn cumulative(probabilities: &[f32], logarithms: bool, round: Rounding) -> Option<Vec<f32>> {
    let top = probabilities.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sound = |p: &f32| if logarithms { !p.is_nan() } else { *p >= 0.0 };
    if !top.is_finite() || !(logarithms || top > 0.0) || !probabilities.iter().all(sound) {
        return None;
    }
    let exp = |x: f32| libm::exp(f64::from(x)) as f32;
    let mut sums = sums(probabilities, round, |p| if logarithms { exp(p) } else { p });
    let total = |sums: &[f32]| sums.last().copied().unwrap_or(0.0);
    if !total(&sums).is_normal() {
        // Relative to the most likely class nothing overflows, and not all probabilities underflow.
        let relative = |p: f32| if logarithms { exp(p - top) } else { p / top };
        sums = self::sums(probabilities, round, relative);
    }
    let total = total(&sums);
    sums.iter_mut().for_each(|sum| *sum = round(*sum / total));
    Some(sums)
}

fn sums(values: &[f32], round: Rounding, weight: impl Fn(f32) -> f32) -> Vec<f32> {
    let mut sum = 0.0;
    let mut next = |p: &f32| {
        sum = round(sum + weight(*p));
        sum
    };
    values.iter().map(&mut next).collect()
}

/// Draws one class for each of `samples`, which are uniform in `0..=1`: the first class whose
/// cumulative probability reaches the sample. Without replacement, a drawn class has probability 0
/// from then on. Rounding may leave it a little, or keep all sums below a sample; then the next
/// possible class that was not drawn is taken, or the next impossible one if no other is left.
///
/// # Panics
/// When there are no classes or, without replacement, fewer than samples.
pub fn draw(cumulative: &[f32], samples: &[f32], replace: bool, round: Rounding) -> Vec<usize> {
    let count = cumulative.len();
    assert!(count > 0 && (replace || samples.len() <= count));
    if replace {
        let class = |sample: &f32| cumulative.partition_point(|sum| sum < sample).min(count - 1);
        return samples.iter().map(class).collect();
    }
    let possible = |i: usize| cumulative[i] > if i > 0 { cumulative[i - 1] } else { 0.0 };
    let mut left = cumulative.to_vec();
    let mut drawn = vec![false; count];
    let mut one = |sample: &f32| {
        let reached = left.iter().position(|sum| sample <= sum).unwrap_or(0);
        let from = || (reached..count).chain(0..reached).filter(|i| !drawn[*i]);
        let usable = !drawn[reached] && *sample <= left[reached];
        let next = || from().find(|i| possible(*i)).or_else(|| from().next());
        let class = if usable { reached } else { next().unwrap_or(reached) };
        drawn[class] = true;
        let share = round(left[class] - if class > 0 { left[class - 1] } else { 0.0 });
        let rest = round(1.0 - share);
        left[class..].iter_mut().for_each(|sum| *sum = round(*sum - share));
        left.iter_mut().for_each(|sum| *sum = round(*sum / rest));
        class
    };
    samples.iter().map(&mut one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::uniform::brief;

    /// The examples of the specification, and probabilities of 0.
    #[test]
    fn classes() {
        let drawn = |p: &[f32], samples: &[f32], replace| {
            draw(&cumulative(p, false, single).unwrap(), samples, replace, single)
        };
        let p = [0.1, 0.5, 0.4];
        assert_eq!(drawn(&p, &[0.2, 0.4, 0.6, 0.8, 1.0], true), [1, 1, 1, 2, 2]);
        assert_eq!(drawn(&p, &[0.3, 0.2], false), [1, 0]);
        assert_eq!(drawn(&[0.0, 2.0, 0.0], &[0.1, 0.5, 1.0], true), [1; 3]);
        assert_eq!(drawn(&[0.0, 2.0, 0.0], &[0.5, 0.5, 0.5], false), [1, 0, 2]);
    }

    /// No class is drawn twice, however sums are rounded.
    #[test]
    fn all_are_drawn_once() {
        let p: Vec<f32> = (0..97).map(|i| brief((i * 37 % 97) as f32)).collect();
        let samples: Vec<f32> = (0..97).map(|i| (i * 61 % 97 + 1) as f32 / 97.0).collect();
        for round in [single as Rounding, brief] {
            let mut all = draw(&cumulative(&p, false, round).unwrap(), &samples, false, round);
            assert_eq!(all.last(), Some(&0), "the impossible class is the last");
            all.sort_unstable();
            assert!(all.into_iter().eq(0..97));
        }
    }

    #[test]
    fn logarithms_do_not_overflow() {
        let second = 5000.0 - std::f32::consts::LN_2;
        let found = cumulative(&[5000.0, second], true, single).unwrap();
        assert!((found[0] - 2.0 / 3.0).abs() < 1e-4);
        assert_eq!(cumulative(&[-5000.0, f32::NEG_INFINITY], true, single), Some(vec![1.0; 2]));
        assert_eq!(cumulative(&[3e38, 3e38], false, single), Some(vec![0.5, 1.0]));
        for bad in [&[0.0, 0.0][..], &[1.0, -0.5], &[f32::NAN, 1.0], &[f32::INFINITY], &[]] {
            assert_eq!(cumulative(bad, false, single), None);
        }
    }
}
