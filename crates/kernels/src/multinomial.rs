//! Classes drawn by their probabilities.

/// The probabilities of classes up to a common factor; `None` if there is one that is negative or
/// not finite, or all are 0.
pub fn weights(probabilities: &[f64], logarithms: bool) -> Option<Vec<f64>> {
    let top = probabilities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Relative to the most likely class, so that nothing overflows.
    let weight = |p: &f64| if logarithms { libm::exp(p - top) } else { *p };
    let weights: Vec<f64> = probabilities.iter().map(weight).collect();
    let total: f64 = weights.iter().sum();
    let sound = weights.iter().all(|w| *w >= 0.0) && total.is_finite() && total > 0.0;
    sound.then_some(weights)
}

/// Draws one class for each of `samples`, which are uniform in `0..1`: the first class whose
/// cumulative probability reaches the sample. Without replacement a class that was drawn has
/// probability 0 from then on; when nothing else is left, the first classes not drawn follow.
///
/// # Panics
/// When there are no classes, or without replacement fewer than samples.
pub fn draw(probabilities: &[f64], samples: &[f64], replace: bool) -> Vec<usize> {
    assert!(!probabilities.is_empty() && (replace || samples.len() <= probabilities.len()));
    let mut left = probabilities.to_vec();
    let mut drawn = vec![false; left.len()];
    let mut one = |sample: &f64| {
        let total: f64 = left.iter().sum();
        let mut sum = 0.0;
        let reached = left.iter().position(|p| {
            sum += p;
            // A class of probability 0 is never drawn, not even by a sample of 0.
            *p > 0.0 && *sample <= sum / total
        });
        // Rounding can leave the last sum below 1.
        let reached = reached.or_else(|| left.iter().rposition(|p| *p > 0.0));
        let class = reached.or_else(|| drawn.iter().position(|d| !d)).unwrap_or(0);
        if !replace {
            drawn[class] = true;
            left[class] = 0.0;
        }
        class
    };
    samples.iter().map(&mut one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification, and probabilities of 0.
    #[test]
    fn classes() {
        let p = [0.1, 0.5, 0.4];
        assert_eq!(draw(&p, &[0.2, 0.4, 0.6, 0.8, 1.0], true), [1, 1, 1, 2, 2]);
        assert_eq!(draw(&p, &[0.3, 0.2], false), [1, 0]);
        assert_eq!(draw(&[0.0, 2.0, 0.0], &[0.0, 0.5, 1.0], true), [1; 3]);
        assert_eq!(draw(&[0.0, 2.0, 0.0], &[0.5, 0.5, 0.5], false), [1, 0, 2]);
    }

    #[test]
    fn logarithms_do_not_overflow() {
        let found = weights(&[5000.0, 5000.0 - std::f64::consts::LN_2], true).unwrap();
        assert!((found[1] / found[0] - 0.5).abs() < 1e-9);
        for bad in [&[0.0, 0.0][..], &[1.0, -0.5], &[f64::NAN], &[f64::INFINITY], &[]] {
            assert_eq!(weights(bad, false), None);
        }
    }
}
