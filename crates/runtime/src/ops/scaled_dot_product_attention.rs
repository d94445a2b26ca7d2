//! ScaledDotProductAttention-13: f32 some rows at a time; f16 and bf16 in f32; f64 head by head.

use crate::batch::offsets;
use crate::ops::convert::Halves;
use crate::prelude::*;
use infer::ops::scaled_dot_product_attention::ScaledDotProductAttention as Rule;
use kernels::attention::{Attention, Head, Mask};
use kernels::copy::CopyPlan;
use kernels::gemm::plain;
use kernels::slices::Slices;
use kernels::softmax::softmax;
use kernels::{InOut, Scratch};

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let heads = Heads::new(self, cx)?;
        let element_type = cx.element_type(0);
        match element_type {
            ElementType::F32 => Ok(Box::new(Float { heads, halves: None })),
            ElementType::F64 => Ok(Box::new(Double { heads })),
            _ => match Halves::of(element_type) {
                Some(halves) => Ok(Box::new(Float { heads, halves: Some(halves) })),
                None => Err(LowerError::element_type(0, element_type)),
            },
        }
    }
}

/// How the heads lie in the inputs and the output.
#[derive(Clone)]
pub(crate) struct Heads {
    pub(crate) attention: Attention,
    /// Where query, key, value, mask and sink of each head begin.
    pub(crate) at: [Vec<usize>; 5],
    /// Where the output of each head begins.
    pub(crate) to: Vec<usize>,
    /// Distance between rows and columns of the mask, if there is one.
    mask: Option<(usize, usize)>,
    /// Whether it says which scores count, instead of being added.
    mask_is_boolean: bool,
    has_scale: bool,
    /// Distance between rows of the sink, if there is one.
    sink: Option<usize>,
}

impl Heads {
    pub(crate) fn new(rule: &Rule, cx: &LowerCx<'_>) -> Result<Heads, LowerError> {
        let split = |sizes: &[usize]| -> (Vec<usize>, usize, usize) {
            match sizes {
                [batch @ .., rows, columns] => (batch.to_vec(), *rows, *columns),
                [columns] => (Vec::new(), 1, *columns),
                [] => (Vec::new(), 1, 1),
            }
        };
        let (output, rows, width) = split(cx.output_sizes(0)?);
        let inputs: Vec<_> = [0, 1, 2, 3, 5].map(|i| split(cx.sizes(i))).into();
        let (own_rows, depth, terms) = (inputs[0].1, inputs[0].2, inputs[1].1);
        let has_mask = rule.has_mask(cx.input_count(), Some(cx.sizes(3).len()));
        let starts = |i: usize, there: bool| match there {
            true => offsets(&output, &inputs[i].0, inputs[i].1 * inputs[i].2),
            false => Vec::new(),
        };
        let has_sink = cx.input_count() > 5;
        let strides = [if own_rows == 1 { 0 } else { depth }, depth, width, width];
        let causal = rule.causal();
        let scale = 1.0 / (depth as f32).sqrt();
        let apart = |i: usize, columns: usize| {
            let (_, rows, own) = inputs[i];
            (if rows == 1 { 0 } else { own }, usize::from(own == columns))
        };
        let at_query = starts(0, true);
        Ok(Heads {
            to: (0..at_query.len()).map(|i| i * rows * width).collect(),
            attention: Attention { rows, terms, depth, width, scale, causal, strides },
            at: [
                at_query,
                starts(1, true),
                starts(2, true),
                starts(3, has_mask),
                starts(4, has_sink),
            ],
            mask: has_mask.then(|| apart(3, terms)),
            mask_is_boolean: cx.element_type(3) == ElementType::Boolean,
            has_scale: cx.input_count() > 4,
            sink: has_sink.then(|| apart(4, 1).0),
        })
    }

    fn count(&self) -> usize {
        self.at[0].len()
    }

    /// The attention with the scale that an input gives.
    fn scaled(&self, scale: Option<f32>) -> Attention {
        let mut attention = self.attention.clone();
        attention.scale = scale.unwrap_or(attention.scale);
        attention
    }

    fn head<'a>(&self, i: usize, [query, key, value, mask, sink]: [&'a [f32]; 5]) -> Head<'a> {
        let mask_of = |(row, column)| Mask { values: &mask[self.at[3][i]..], row, column };
        let sink_of = |row| Mask { values: &sink[self.at[4][i]..], row, column: 0 };
        Head {
            query: &query[self.at[0][i]..],
            key: &key[self.at[1][i]..],
            value: &value[self.at[2][i]..],
            mask: self.mask.map(mask_of),
            sink: self.sink.map(sink_of),
        }
    }
}

/// An input in f32, converted if need be.
enum Wide<'r> {
    Own(Scratch<'r, f32>),
    Input(&'r [f32]),
}

impl Wide<'_> {
    fn values(&self) -> &[f32] {
        match self {
            Wide::Own(values) => values,
            Wide::Input(values) => values,
        }
    }
}

/// f32, and f16 and bf16 by way of it.
pub(crate) struct Float {
    pub(crate) heads: Heads,
    pub(crate) halves: Option<Halves>,
}

impl Float {
    fn input<'r>(&self, cx: &RunCx<'r>, input: usize, there: bool) -> Wide<'r> {
        match &self.halves {
            _ if !there => Wide::Input(&[]),
            Some(halves) => Wide::Own(halves.widen(cx, input)),
            None => Wide::Input(cx.input(input)),
        }
    }

    /// The mask as what is added to the scores.
    fn mask<'r>(&self, cx: &RunCx<'r>) -> Wide<'r> {
        if self.heads.mask.is_none() || !self.heads.mask_is_boolean {
            return self.input(cx, 3, self.heads.mask.is_some());
        }
        let counts = cx.input::<u8>(3);
        let mut bias = cx.scratch::<f32>(counts.len());
        for (to, counts) in bias.iter_mut().zip(counts) {
            *to = if *counts != 0 { 0.0 } else { f32::NEG_INFINITY };
        }
        Wide::Own(bias)
    }
}

impl Kernel for Float {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let heads = &self.heads;
        let scale = self.input(cx, 4, heads.has_scale);
        let inputs = [
            self.input(cx, 0, true),
            self.input(cx, 1, true),
            self.input(cx, 2, true),
            self.mask(cx),
            self.input(cx, 5, heads.sink.is_some()),
        ];
        let values = [0, 1, 2, 3, 4].map(|i: usize| inputs[i].values());
        let attention = heads.scaled(scale.values().first().copied());
        let run = |cx: &RunCx<'_>, output: &mut [f32]| {
            let (threads, scratch) = (cx.threads(), cx.scratch_pool());
            let head = |i: usize| heads.head(i, values);
            attention.run(threads, scratch, heads.count(), head, |i| heads.to[i], output);
        };
        match &self.halves {
            None => {
                let output = cx.output(0);
                run(cx, output);
            }
            Some(halves) => {
                let to = cx.output_bytes(0);
                let mut output = cx.scratch::<f32>(to.len() / 2);
                run(cx, &mut output);
                halves.narrow(cx.threads(), &output, to);
            }
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "attention"
    }
}

/// f64, as the definition says.
struct Double {
    heads: Heads,
}

impl Double {
    /// Adds mask and causality to the scores of a head.
    fn bias(&self, cx: &RunCx<'_>, head: usize, scores: &mut [f64]) {
        let Attention { terms, causal, .. } = self.heads.attention;
        for (i, line) in scores.chunks_mut(terms.max(1)).enumerate() {
            for (j, score) in line.iter_mut().enumerate() {
                let place = self.heads.mask.map(|(r, c)| self.heads.at[3][head] + i * r + j * c);
                *score += match place {
                    None if causal && j > i => f64::NEG_INFINITY,
                    Some(at) if self.heads.mask_is_boolean && cx.input::<u8>(3)[at] == 0 => {
                        f64::NEG_INFINITY
                    }
                    Some(at) if !self.heads.mask_is_boolean => cx.input::<f64>(3)[at],
                    _ => 0.0,
                };
            }
        }
    }
}

impl Kernel for Double {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Attention { rows, terms, depth, width, strides, .. } = self.heads.attention;
        let scale = match self.heads.has_scale {
            true => cx.input::<f64>(4)[0],
            false => 1.0 / (depth as f64).sqrt(),
        };
        let output = cx.output::<f64>(0);
        let threads = cx.threads();
        let turn = CopyPlan::transpose(&[terms, depth], &[1, 0]);
        let spread = CopyPlan::gather(&[rows, depth], &[strides[0] as isize, 1], 0);
        let columns = terms + usize::from(self.heads.sink.is_some());
        let mut query = cx.scratch::<f64>(rows * depth);
        let mut keys = cx.scratch::<f64>(terms * depth);
        let mut scores = cx.scratch::<f64>(rows * terms);
        let mut weights = cx.scratch::<f64>(rows * columns);
        for (i, out) in output.chunks_mut((rows * width).max(1)).enumerate() {
            spread.run(threads, &cx.input::<f64>(0)[self.heads.at[0][i]..], &mut query);
            turn.run(
                threads,
                &cx.input::<f64>(1)[self.heads.at[1][i]..][..terms * depth],
                &mut keys,
            );
            plain(threads, (rows, terms, depth), &query, &keys, &mut scores);
            scores.iter_mut().for_each(|s| *s *= scale);
            self.bias(cx, i, &mut scores);
            for (r, line) in weights.chunks_mut(columns.max(1)).enumerate() {
                line[..terms].copy_from_slice(&scores[r * terms..][..terms]);
                if let Some(row) = self.heads.sink {
                    line[terms] = cx.input::<f64>(5)[self.heads.at[4][i] + r * row];
                }
            }
            let slices = Slices::new(&[rows, columns], &[1]);
            softmax(threads, &slices, &InOut::in_place(&mut weights));
            for (r, line) in weights.chunks(columns.max(1)).enumerate() {
                scores[r * terms..][..terms].copy_from_slice(&line[..terms]);
            }
            let values = &cx.input::<f64>(2)[self.heads.at[2][i]..][..terms * width];
            plain(threads, (rows, width, terms), &scores, values, out);
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "attention"
    }
}
