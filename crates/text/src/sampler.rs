//! Sampling of the next token from the logits.

use crate::config::GenerationConfig;
use kernels::random::uniform::Philox;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

/// Chooses tokens. Its choice depends only on logits and seed: exponentials are computed in
/// software, sums have a fixed order, and ties go to the smaller id.
pub(crate) struct Sampler<'c> {
    config: &'c GenerationConfig,
    random: Philox,
    drawn: u64,
    seen: BTreeSet<usize>,
}

impl<'c> Sampler<'c> {
    pub(crate) fn new(config: &'c GenerationConfig, prompt: &[i64]) -> Sampler<'c> {
        let random = Philox { key: config.seed, counter: 0, start: 0 };
        let mut sampler = Sampler { config, random, drawn: 0, seen: BTreeSet::new() };
        prompt.iter().for_each(|token| sampler.accept(*token));
        sampler
    }

    /// Notes a token for the repetition penalty.
    fn accept(&mut self, token: i64) {
        if self.config.repetition_penalty != 1.0 {
            self.seen.extend(usize::try_from(token).ok());
        }
    }

    /// The next token, after `generated` new ones.
    pub(crate) fn next(&mut self, logits: &mut [f32], generated: usize) -> i64 {
        self.penalize(logits);
        if generated < self.config.min_new_tokens {
            for id in &self.config.stop_token_ids {
                let logit = usize::try_from(*id).ok().and_then(|id| logits.get_mut(id));
                logit.into_iter().for_each(|logit| *logit = f32::NEG_INFINITY);
            }
        }
        let greedy = !self.config.do_sample || self.config.temperature == 0.0;
        let token = if greedy { most_probable(logits) } else { self.draw(logits) };
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        self.accept(token);
        token
    }

    fn penalize(&self, logits: &mut [f32]) {
        let penalty = self.config.repetition_penalty;
        for token in &self.seen {
            if let Some(logit) = logits.get_mut(*token) {
                *logit = if *logit >= 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    fn draw(&mut self, logits: &[f32]) -> usize {
        let scale = 1.0 / f64::from(self.config.temperature);
        let most = f64::from(logits[most_probable(logits)]);
        let weight = |(token, logit): (usize, &f32)| {
            let weight = libm::exp((f64::from(*logit) - most) * scale);
            Candidate { token, weight: if weight.is_nan() { 0.0 } else { weight } }
        };
        let mut candidates: Vec<Candidate> = logits.iter().enumerate().map(weight).collect();
        let top_k = self.config.top_k;
        if top_k > 0 && top_k < candidates.len() {
            candidates.select_nth_unstable_by(top_k - 1, |a, b| b.cmp(a));
            candidates.truncate(top_k);
            candidates.sort_unstable_by_key(|candidate| candidate.token);
        }
        if self.config.top_p < 1.0 {
            candidates = nucleus(candidates, self.config.top_p);
        }
        pick(&candidates, self.uniform())
    }

    /// The next random number in [0, 1).
    fn uniform(&mut self) -> f64 {
        let [high, low, ..] = self.random.block(self.drawn);
        self.drawn += 1;
        let bits = u64::from(high) << 21 | u64::from(low) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }
}

/// A token that may be sampled. Ordered by probability, then by smaller id.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: usize,
    weight: f64,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        self.weight.total_cmp(&other.weight).then(other.token.cmp(&self.token))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The fewest most probable candidates with the total probability `top_p`.
fn nucleus(candidates: Vec<Candidate>, top_p: f32) -> Vec<Candidate> {
    let enough = f64::from(top_p) * candidates.iter().map(|c| c.weight).sum::<f64>();
    let mut heap = BinaryHeap::from(candidates);
    let (mut kept, mut sum) = (Vec::new(), 0.0);
    while let Some(candidate) = heap.pop().filter(|_| sum <= enough) {
        sum += candidate.weight;
        kept.push(candidate);
    }
    kept
}

/// The candidate at this fraction of the total weight.
fn pick(candidates: &[Candidate], fraction: f64) -> usize {
    let mut rest = fraction * candidates.iter().map(|c| c.weight).sum::<f64>();
    let drawn = candidates.iter().find(|candidate| {
        rest -= candidate.weight;
        rest < 0.0
    });
    // Rounding may leave a remainder after the last candidate.
    let last = || candidates.iter().rfind(|c| c.weight > 0.0);
    drawn.or_else(last).map_or(0, |candidate| candidate.token)
}

/// The first token with the largest logit.
fn most_probable(logits: &[f32]) -> usize {
    let larger = |best: usize, token: usize| {
        if logits[token] > logits[best] || logits[best].is_nan() { token } else { best }
    };
    (0..logits.len()).reduce(larger).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> GenerationConfig {
        GenerationConfig { do_sample: true, ..GenerationConfig::default() }
    }

    fn draws(logits: &[f32], config: &GenerationConfig, count: usize) -> Vec<i64> {
        let mut sampler = Sampler::new(config, &[]);
        (0..count).map(|i| sampler.next(&mut logits.to_vec(), i)).collect()
    }

    #[test]
    fn the_most_probable() {
        let config = GenerationConfig::default();
        assert_eq!(draws(&[0.0, 2.0, 2.0], &config, 1), [1]);
        assert_eq!(draws(&[f32::NAN, 2.0, 3.0], &config, 1), [2]);
        let config = GenerationConfig { stop_token_ids: vec![1, 99], min_new_tokens: 1, ..config };
        assert_eq!(draws(&[0.0, 2.0, -1.0], &config, 2), [0, 1]);
    }

    #[test]
    fn repeated_tokens_are_penalized_once() {
        let config = GenerationConfig { repetition_penalty: 2.0, ..GenerationConfig::default() };
        let mut sampler = Sampler::new(&config, &[1, 1, -5]);
        let logits = [1.5, 2.9, -1.0];
        assert_eq!(sampler.next(&mut logits.to_vec(), 0), 0);
        // Now 0.75, 1.45 and -1.
        assert_eq!(sampler.next(&mut logits.to_vec(), 1), 1);
    }

    #[test]
    fn draws_have_the_frequencies_of_softmax() {
        let logits = [0.5f32, -1.0, 2.0, 0.0];
        let config = GenerationConfig { temperature: 2.0, ..sample() };
        let weights: Vec<f64> = logits.iter().map(|l| (f64::from(*l) / 2.0).exp()).collect();
        let drawn = draws(&logits, &config, 20_000);
        for (token, weight) in (0..).zip(&weights) {
            let expected = weight / weights.iter().sum::<f64>();
            let share = drawn.iter().filter(|t| **t == token).count() as f64 / 20_000.0;
            assert!((share - expected).abs() < 0.012, "{token}: {share}, not {expected}");
        }
    }

    #[test]
    fn draws_keep_to_the_limits_and_the_seed() {
        let logits = [0.0, 0.1, 0.2, -9.0, 0.1];
        let two = GenerationConfig { top_k: 2, ..sample() };
        let drawn = draws(&logits, &two, 100);
        // Of two equal tokens the first is kept.
        assert!(drawn.contains(&1) && drawn.contains(&2));
        assert!(drawn.iter().all(|t| [1, 2].contains(t)));
        assert_ne!(drawn, draws(&logits, &GenerationConfig { seed: 1, ..two.clone() }, 100));
        let narrow = GenerationConfig { top_p: 0.1, ..two };
        assert_eq!(draws(&logits, &narrow, 20), [2; 20]);
        let cold = GenerationConfig { temperature: 0.0, ..sample() };
        assert_eq!(draws(&logits, &cold, 20), [2; 20]);
    }

    #[test]
    fn draws_are_the_same_forever() {
        let logits: Vec<f32> = (0..50u16).map(|i| f32::from(i * 7 % 13) / 4.0).collect();
        let config = GenerationConfig { top_k: 20, top_p: 0.9, seed: 42, ..sample() };
        // Expected values computed in Python by the same rules.
        assert_eq!(draws(&logits, &config, 8), [20, 16, 18, 46, 9, 9, 37, 22]);
    }
}
