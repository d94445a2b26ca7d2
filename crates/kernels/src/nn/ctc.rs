//! Connectionist temporal classification (CTC): decoding of the best path, and the likelihood of
//! all paths that decode to a target.

use crate::base::num::Stored;
use crate::base::par::Threads;
use crate::math::real::{Real, StoredReal};

/// Elements that are worth a second thread.
const GRAIN: usize = 8 << 10;

/// The first maximum. NaN is never larger.
fn largest<T: Stored>(values: &[T]) -> Option<usize>
where
    T::Wide: PartialOrd,
{
    let larger =
        |best: usize, i: usize| if values[i].widen() > values[best].widen() { i } else { best };
    (0..values.len()).reduce(larger)
}

/// The best class of each step of all sequences; empty without classes.
pub fn best<T: Stored>(threads: &Threads, logits: &[T], classes: usize) -> Vec<usize>
where
    T::Wide: PartialOrd,
{
    let steps = logits.len().checked_div(classes).unwrap_or(0);
    let mut found = vec![0; steps];
    threads.par_chunks_mut(&mut found, 1, GRAIN.div_ceil(classes + 1), |first, part| {
        for (slot, logits) in part.iter_mut().zip(logits[first * classes..].chunks(classes)) {
            *slot = largest(logits).unwrap_or(0);
        }
    });
    found
}

/// Removes blanks from a path and, if it `merges`, repetitions. Passes each remaining class to
/// `emit`, and returns their number.
pub fn decode(
    path: impl Iterator<Item = usize>,
    (blank, merges): (Option<usize>, bool),
    mut emit: impl FnMut(usize, usize),
) -> usize {
    let (mut count, mut previous) = (0, None);
    for class in path {
        if Some(class) != blank && !(merges && previous == Some(class)) {
            emit(count, class);
            count += 1;
        }
        previous = Some(class);
    }
    count
}

/// A sequence, and the labels that it should decode to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Steps of the sequence.
    pub steps: usize,
    /// Classes other than the blank.
    pub labels: Vec<usize>,
}

/// Sizes of the logits of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogitSizes {
    /// Steps of the longest sequence.
    pub steps: usize,
    /// Classes, the blank among them.
    pub classes: usize,
}

/// How a path of classes is read as labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// The class that stands for no label.
    pub blank: usize,
    /// Whether repetitions of a class are one label.
    pub merges: bool,
}

/// The negative logarithm of the likelihood of each target, given logits
/// `[targets, steps, classes]`.
///
/// # Panics
/// When a slice is too short, or a label or the blank is not a class.
pub fn loss<T: StoredReal>(
    threads: &Threads,
    LogitSizes { steps, classes }: LogitSizes,
    logits: &[T],
    targets: &[Target],
    rule: PathRule,
    out: &mut [T],
) {
    let grain = GRAIN.div_ceil(steps * classes + 1);
    threads.par_chunks_mut(out, 1, grain, |first, part| {
        for (i, to) in part.iter_mut().enumerate() {
            let logits = &logits[(first + i) * steps * classes..][..steps * classes];
            let likelihood = likelihood(classes, logits, &targets[first + i], rule);
            *to = crate::base::num::Wide::narrow(T::Wide::default() - likelihood);
        }
    });
}

/// The logarithm of the likelihood of a target. State `2 i` is a blank after `i` labels, state
/// `2 i + 1` is label `i`; a path starts in state 0, before its first step.
fn likelihood<T: StoredReal>(
    classes: usize,
    logits: &[T],
    target: &Target,
    PathRule { blank, merges }: PathRule,
) -> T::Wide {
    let labels = &target.labels;
    let never = T::Wide::of(f64::NEG_INFINITY);
    let mut now = vec![never; 2 * labels.len() + 1];
    now[0] = T::Wide::default();
    let mut before = now.clone();
    for logits in logits.chunks_exact(classes.max(1)).take(target.steps) {
        std::mem::swap(&mut now, &mut before);
        let total = log_sum(logits.iter().map(|x| x.widen()));
        for (state, to) in now.iter_mut().enumerate() {
            let (label, is_label) = (state / 2, state % 2 == 1);
            // Staying in a label is one label only if repetitions merge; then two equal labels need
            // a blank between them.
            let repeats = is_label && label > 0 && labels[label] == labels[label - 1];
            let stays = (!is_label || merges).then_some(state);
            let follows = state.checked_sub(1);
            let skips = state.checked_sub(2).filter(|_| is_label && !(merges && repeats));
            let ways = [stays, follows, skips].into_iter().flatten().map(|from| before[from]);
            let class = if is_label { labels[label] } else { blank };
            *to = log_sum(ways) + (logits[class].widen() - total);
        }
    }
    log_sum(now.iter().rev().take(2).copied())
}

/// `ln(e^a + e^b + …)`.
fn log_sum<R: Real>(values: impl Iterator<Item = R> + Clone) -> R {
    let never = R::of(f64::NEG_INFINITY);
    let top = values.clone().fold(never, |a, b| if b > a || b.is_nan() { b } else { a });
    if top == never || top.is_nan() {
        return top;
    }
    top + values.map(|x| (x - top).exp()).fold(R::default(), |a, b| a + b).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes() {
        let run = |path: &[usize], merges| {
            let mut out = Vec::new();
            let path = path.iter().copied();
            let count = decode(path, (Some(2), merges), |at, class| {
                assert_eq!(at, out.len());
                out.push(class);
            });
            assert_eq!(count, out.len());
            out
        };
        assert_eq!(run(&[0, 1, 1, 2, 1, 2, 1], true), [0, 1, 1, 1]);
        assert_eq!(run(&[0, 1, 1, 2, 1, 2, 1], false), [0, 1, 1, 1, 1]);
        assert_eq!(largest(&[1.0f32, 3.0, f32::NAN, 3.0]), Some(1));
        assert_eq!(largest::<f32>(&[]), None);
        let logits: Vec<f32> = (0..60_000).map(|i| (i * 7919 % 1009) as f32).collect();
        let one: Vec<usize> = logits.chunks(6).filter_map(largest).collect();
        assert_eq!(best(&Threads::new(2), &logits, 6), one);
        assert!(best(Threads::single(), &logits[..0], 0).is_empty());
    }

    /// The likelihood over all paths, each decoded.
    fn by_hand(logits: &[f64], classes: usize, target: &Target, blank: usize, merges: bool) -> f64 {
        let steps = target.steps;
        let mut sum = 0.0;
        for number in 0..classes.pow(steps as u32) {
            let path: Vec<usize> =
                (0..steps).map(|t| number / classes.pow(t as u32) % classes).collect();
            let mut decoded = Vec::new();
            decode(path.iter().copied(), (Some(blank), merges), |_, class| decoded.push(class));
            if decoded == target.labels {
                let p = |(t, class): (usize, &usize)| {
                    let row = &logits[t * classes..][..classes];
                    row[*class].exp() / row.iter().map(|x| x.exp()).sum::<f64>()
                };
                sum += path.iter().enumerate().map(p).product::<f64>();
            }
        }
        -sum.ln()
    }

    #[test]
    fn loss_sums_all_paths() {
        let (steps, classes) = (5, 3);
        let target = |steps, labels: &[usize]| Target { steps, labels: labels.to_vec() };
        let targets = [
            target(5, &[0, 0, 2]),
            target(4, &[2, 0]),
            target(3, &[]),
            target(0, &[]),
            target(3, &[0, 0, 0]),
        ];
        let logits: Vec<f64> =
            (0..targets.len() * steps * classes).map(|i| (i * 37 % 23) as f64 * 0.2).collect();
        for merges in [false, true] {
            let mut out = vec![f64::NAN; targets.len()];
            let rule = PathRule { blank: 1, merges };
            let sizes = LogitSizes { steps, classes };
            loss(&Threads::new(2), sizes, &logits, &targets, rule, &mut out);
            for ((i, target), found) in targets.iter().enumerate().zip(&out) {
                let own = &logits[i * steps * classes..];
                let exact = by_hand(own, classes, target, 1, merges);
                assert!((found - exact).abs() < 1e-12 || *found == exact, "{found} {exact}");
            }
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let target = Target { steps: 1, labels: vec![1] };
        let mut out = [0f32];
        let (sizes, rule) =
            (LogitSizes { steps: 1, classes: 2 }, PathRule { blank: 0, merges: true });
        loss(Threads::single(), sizes, &[1000f32, 900.0], &[target], rule, &mut out);
        assert_eq!(out, [100.0]);
    }
}
