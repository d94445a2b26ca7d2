//! CTCGreedyDecoder-1, CTCGreedyDecoderSeqLen-6 and CTCLoss-4.

use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::Op;
use infer::ops::ctc::{Ctc, Kind};
use kernels::ctc::{LogitSizes, PathRule, Target, best, decode, loss};
use kernels::num::Stored;
use kernels::real::StoredReal;
use std::marker::PhantomData;

impl Lower for Ctc {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let &[a, b, classes] = cx.sizes(0) else { return Err(LowerError::NeedsShape(0)) };
        let (batch, steps) = if self.kind() == Kind::GreedyDecoder { (b, a) } else { (a, b) };
        let (merges, has_blank) = (self.merges(), cx.input_count() == self.input_names().len());
        let sizes = Sequences { batch, steps, classes };
        let element_type = cx.element_type(0);
        let index = cx.output_type(0);
        let kernel = match self.kind() {
            Kind::GreedyDecoder => with_type!(element_type, float T => {
                Box::new(Masked::<T> { sizes, merges, of: PhantomData }) as Box<dyn Kernel>
            }),
            Kind::GreedyDecoderSeqLen => with_type!(element_type, float T => {
                let wide = [index, cx.output_type(1)].map(|t| t == ElementType::I64);
                Box::new(Counted::<T> { sizes, merges, has_blank, wide, of: PhantomData })
                    as Box<dyn Kernel>
            }),
            Kind::Loss => with_type!(element_type, float T => {
                let (collapses, unique) = (self.collapses(), self.unique());
                Box::new(Loss::<T> { sizes, merges, collapses, unique, has_blank, of: PhantomData })
                    as Box<dyn Kernel>
            }),
        };
        kernel.ok_or_else(|| LowerError::element_type(0, element_type))
    }
}

/// The sizes of the logits, whatever the order of their axes.
#[derive(Clone, Copy)]
struct Sequences {
    batch: usize,
    steps: usize,
    classes: usize,
}

impl Sequences {
    /// The lengths in an input, each at most `most`.
    fn counts(&self, cx: &RunCx<'_>, input: usize, most: usize) -> Result<Vec<usize>, KernelError> {
        let count = |(row, found): (usize, i64)| {
            usize::try_from(found).ok().filter(|n| *n <= most).ok_or_else(|| {
                let message = format!("the length {found} of sequence {row} is not in 0..={most}");
                KernelError::at(input, message)
            })
        };
        cx.ints(input).into_iter().enumerate().map(count).collect()
    }

    /// The blank: an input, or the last class. `None` if it is not a class.
    fn blank(&self, cx: &RunCx<'_>, input: Option<usize>) -> Option<usize> {
        let last = self.classes.checked_sub(1)?;
        let Some(input) = input else { return Some(last) };
        let found = cx.ints(input).first().copied()?;
        usize::try_from(found).ok().filter(|class| *class <= last)
    }
}

/// CTCGreedyDecoder-1.
struct Masked<T> {
    sizes: Sequences,
    merges: bool,
    of: PhantomData<T>,
}

impl<T: StoredReal> Kernel for Masked<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Sequences { batch, steps, classes } = self.sizes;
        let (data, mask) = (cx.input::<T>(0), cx.input::<T>(1));
        let best = best(cx.threads(), data, classes);
        let to = cx.output::<T>(0);
        to.fill(T::from_i64(-1));
        let blank = self.sizes.blank(cx, None);
        for (row, to) in to.chunks_mut(steps.max(1)).enumerate() {
            let is_on = |step: &usize| mask[step * batch + row] != T::default();
            let class = |step: usize| best.get(step * batch + row).copied();
            let path = (0..steps).take_while(is_on).filter_map(class);
            decode(path, (blank, self.merges), |at, class| to[at] = T::from_i64(class as i64));
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "ctc decoder"
    }
}

/// CTCGreedyDecoderSeqLen-6.
struct Counted<T> {
    sizes: Sequences,
    merges: bool,
    has_blank: bool,
    /// Whether each output is i64 rather than i32.
    wide: [bool; 2],
    of: PhantomData<T>,
}

impl<T: StoredReal> Counted<T> {
    fn decode<I: Stored>(&self, cx: &RunCx<'_>, to: &mut [I]) -> Result<Vec<usize>, KernelError> {
        let Sequences { steps, classes, .. } = self.sizes;
        let lengths = self.sizes.counts(cx, 1, steps)?;
        let blank = self.sizes.blank(cx, self.has_blank.then_some(2));
        let best = best(cx.threads(), cx.input::<T>(0), classes);
        to.fill(I::from_i64(-1));
        let row = |(row, length): (usize, usize)| {
            let class = |step: usize| best.get(row * steps + step).copied();
            let path = (0..length).filter_map(class);
            let to = &mut to[row * steps..][..steps];
            decode(path, (blank, self.merges), |at, class| to[at] = I::from_i64(class as i64))
        };
        Ok(lengths.into_iter().enumerate().map(row).collect())
    }
}

fn store<I: Stored>(counts: &[usize], to: &mut [I]) {
    for (to, count) in to.iter_mut().zip(counts) {
        *to = I::from_i64(*count as i64);
    }
}

impl<T: StoredReal> Kernel for Counted<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let counts = if self.wide[0] {
            let to = cx.output::<i64>(0);
            self.decode(cx, to)?
        } else {
            let to = cx.output::<i32>(0);
            self.decode(cx, to)?
        };
        if self.wide[1] {
            store(&counts, cx.output::<i64>(1))
        } else {
            store(&counts, cx.output::<i32>(1))
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "ctc decoder"
    }
}

/// CTCLoss-4.
struct Loss<T> {
    sizes: Sequences,
    merges: bool,
    collapses: bool,
    unique: bool,
    has_blank: bool,
    of: PhantomData<T>,
}

impl<T: StoredReal> Loss<T> {
    /// The labels that a path must decode to.
    fn labels(&self, found: &[i64]) -> Result<Vec<usize>, KernelError> {
        let class = |label: &i64| {
            let class = usize::try_from(*label).ok().filter(|c| *c < self.sizes.classes);
            let classes = self.sizes.classes;
            let message = || format!("label {label} is none of {classes} classes");
            class.ok_or_else(|| KernelError::at(2, message()))
        };
        let mut labels: Vec<usize> = found.iter().map(class).collect::<Result<_, _>>()?;
        if self.unique {
            let mut seen = vec![false; self.sizes.classes];
            labels.retain(|label| !std::mem::replace(&mut seen[*label], true));
        } else if self.collapses {
            labels.dedup();
        }
        Ok(labels)
    }
}

impl<T: StoredReal> Kernel for Loss<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Sequences { steps, classes, .. } = self.sizes;
        let lengths = self.sizes.counts(cx, 1, steps)?;
        let counts = self.sizes.counts(cx, 3, steps)?;
        let blank = self.sizes.blank(cx, self.has_blank.then_some(4));
        let blank = blank.ok_or_else(|| KernelError::new("the blank is none of the classes"))?;
        let labels = cx.ints(2);
        let target = |(row, (steps, count)): (usize, (usize, usize))| {
            let message = || format!("sequence {row} has {count} labels and only {steps} steps");
            if count > steps {
                return Err(KernelError::at(3, message()));
            }
            let own = &labels[row * self.sizes.steps..][..count];
            Ok(Target { steps, labels: self.labels(own)? })
        };
        let targets = lengths.into_iter().zip(counts).enumerate().map(target);
        let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
        let (logits, to) = (cx.input::<T>(0), cx.output::<T>(0));
        let rule = PathRule { blank, merges: self.merges };
        loss(cx.threads(), LogitSizes { steps, classes }, logits, &targets, rule, to);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "ctc loss"
    }
}
