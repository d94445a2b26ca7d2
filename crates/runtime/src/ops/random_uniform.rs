//! RandomUniform and Multinomial.

use crate::prelude::*;
use crate::tensor::convert::convert_tensor;
use crate::tensor::dispatch::with_type;
use infer::ops::random_uniform::{Multinomial, RandomUniform, Seeds};
use kernels::num::{Stored, bf16, f16};
use kernels::random::mt19937::Mt19937;
use kernels::random::multinomial::{Rounding, cumulative, draw, single};
use kernels::random::uniform::{Generator, Philox, Uniform, brief, uniform};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;

/// Blocks of the Philox sequence that a run of RandomUniform advances per value, as in OpenVINO and
/// TensorFlow.
const SKIP: u64 = 256;

impl Lower for RandomUniform {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        cx.output_sizes(0)?;
        let (seeds, mt19937) = (self.seeds(), self.mt19937());
        Ok(match cx.output_type(0) {
            ElementType::F16 => kernel::<f16>(seeds, mt19937),
            ElementType::BF16 => kernel::<bf16>(seeds, mt19937),
            ElementType::F32 => kernel::<f32>(seeds, mt19937),
            ElementType::F64 => kernel::<f64>(seeds, mt19937),
            ElementType::I32 => kernel::<i32>(seeds, mt19937),
            _ => kernel::<i64>(seeds, mt19937),
        })
    }
}

fn kernel<T: Uniform + PartialOrd>(seeds: Seeds, mt19937: bool) -> Box<dyn Kernel> {
    Box::new(RandomKernel::<T> { seeds, mt19937, of: PhantomData })
}

/// The seeds to use; random if both are 0.
fn chosen(seeds: Seeds) -> Seeds {
    let other = || RandomState::new().build_hasher().finish();
    match seeds {
        Seeds { global: 0, op: 0 } => Seeds { global: other(), op: 0 },
        _ => seeds,
    }
}

/// The start of the Philox sequence of these seeds.
fn philox(seeds: Seeds) -> Philox {
    let Seeds { global, op } = chosen(seeds);
    Philox { key: global, counter: op, start: 0 }
}

struct RandomKernel<T> {
    seeds: Seeds,
    mt19937: bool,
    of: PhantomData<T>,
}

impl<T: Uniform + PartialOrd> Kernel for RandomKernel<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (low, high) = (cx.input::<T>(1)[0], cx.input::<T>(2)[0]);
        // Written this way round so that a NaN bound is also an error.
        if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) {
            return Err(KernelError::at(2, format!("{high:?} is not above minval, {low:?}")));
        }
        let out = cx.output::<T>(0);
        let count = out.len() as u64;
        let next = |philox: &mut Philox| {
            let (now, (start, carry)) =
                (*philox, philox.start.overflowing_add(count.wrapping_mul(SKIP)));
            let counter = philox.counter.wrapping_add(u64::from(carry));
            *philox = Philox { start, counter, ..*philox };
            now
        };
        let now = cx.state(|| philox(self.seeds), next);
        // The sequence of PyTorch restarts in every run.
        let generator =
            if self.mt19937 { Generator::Mt19937(now.key as u32) } else { Generator::Philox(now) };
        uniform(cx.threads(), generator, (low, high), out);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "random uniform"
    }
}

impl Lower for Multinomial {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let samples = cx.output_sizes(0)?.last().copied().unwrap_or(0);
        let classes = cx.sizes(0).last().copied().unwrap_or(0);
        if classes == 0 && samples > 0 {
            return Err(RuleError::at(0, "has no classes to draw").into());
        }
        let (replace, logs) = (self.with_replacement(), self.log_probs());
        let round = if cx.element_type(0) == ElementType::BF16 { brief } else { single };
        let draw = Draw { classes, samples, replace, logs, round, seeds: self.seeds() };
        with_type!(cx.output_type(0), index I => {
            Box::new(MultinomialKernel::<I> { draw, of: PhantomData }) as Box<dyn Kernel>
        })
        .ok_or_else(|| LowerError::element_type(0, cx.output_type(0)))
    }
}

struct Draw {
    classes: usize,
    samples: usize,
    replace: bool,
    /// Whether the probabilities are logarithms.
    logs: bool,
    round: Rounding,
    seeds: Seeds,
}

impl Draw {
    /// `count` random numbers, the same in each run.
    fn random(&self, count: usize) -> Vec<f32> {
        let Seeds { global, op } = chosen(self.seeds);
        // OpenVINO passes the lower halves to `std::seed_seq`.
        let mut mt19937 = Mt19937::of_seeds(&[global as u32, op as u32]);
        let mut next = || (self.round)(mt19937.word() as f32 / (1u64 << 32) as f32);
        (0..count).map(|_| next()).collect()
    }
}

struct MultinomialKernel<I> {
    draw: Draw,
    of: PhantomData<I>,
}

impl<I: Stored> Kernel for MultinomialKernel<I> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Draw { classes, samples, replace, logs, round, .. } = self.draw;
        let probabilities = convert_tensor(cx.tensor(0), ElementType::F32)
            .map_err(|e| KernelError::at(0, e.to_string()))?;
        let rows = probabilities.as_slice::<f32>().unwrap_or_default();
        let out = cx.output::<I>(0);
        if out.is_empty() {
            return Ok(());
        }
        let random = self.draw.random(out.len());
        let batches = rows.chunks_exact(classes).zip(random.chunks_exact(samples));
        for ((row, random), out) in batches.zip(out.chunks_exact_mut(samples)) {
            let cumulative = cumulative(row, logs, round).ok_or_else(|| {
                KernelError::at(0, "probabilities must be finite, not negative and not all 0")
            })?;
            let drawn = draw(&cumulative, random, replace, round);
            for (slot, class) in out.iter_mut().zip(drawn) {
                *slot = I::from_i64(class as i64);
            }
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "multinomial"
    }
}
