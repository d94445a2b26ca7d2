//! ScaledDotProductAttention-13: f32 in blocks of rows, also for f16 and bf16; f64 head by head.

use crate::kernel::batch::offsets;
use crate::kernel::lanes::Halves;
use crate::prelude::*;
use infer::Op;
use infer::ops::scaled_dot_product_attention::ScaledDotProductAttention as Rule;
use kernels::attention::{Attention, AttentionStrides, Head, Mask};
use kernels::copy::CopyPlan;
use kernels::gemm::{GemmSize, Precision, plain};
use kernels::slices::Slices;
use kernels::softmax::softmax;
use kernels::{InOut, Scratch};
use std::any::Any;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        kernel(Heads::of_rule(self, cx)?, cx)
    }
}

/// As [`Lower::lower`], for keys from a variable: see [`Heads::over_variable`].
pub(crate) fn lower_over_variable(
    op: &dyn Op,
    cx: &LowerCx<'_>,
) -> Result<Box<dyn Kernel>, LowerError> {
    let any: &dyn Any = op;
    match any.downcast_ref::<Rule>() {
        Some(rule) => kernel(Heads::of_rule(rule, cx)?.over_variable(), cx),
        None => Err(LowerError::Unsupported(format!("{op:?} is no attention"))),
    }
}

fn kernel(heads: Heads, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
    let heads = heads.with_precision(cx.precision());
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

/// The layout of the heads in inputs and output.
#[derive(Clone)]
pub(crate) struct Heads {
    pub(crate) attention: Attention,
    /// The offsets of query, key and value of each head.
    pub(crate) at: [Vec<usize>; 3],
    /// The offset of the output of each head.
    pub(crate) to: Vec<usize>,
    /// The scale of each head, unless `attention` has that of all.
    pub(crate) scales: Vec<f32>,
    /// The masks added to the scores: at most one in the operation, three in fused patterns.
    pub(crate) masks: Vec<MaskAt>,
    /// What is added to a score that a boolean mask hides. If infinite, a row that is hidden
    /// completely is NaN, as the specification says; if finite, it is the mean of all values.
    pub(crate) hidden: f32,
    /// Whether input 4 is the scale.
    has_scale: bool,
    /// The sink, a logit without a value: input 5.
    sink: Option<MaskAt>,
}

/// The layout of a mask.
#[derive(Clone, Debug)]
pub(crate) struct MaskAt {
    input: usize,
    /// Its offset for each head.
    at: Vec<usize>,
    /// Its stride along rows; 0 if it broadcasts.
    row: usize,
    /// The same along columns.
    column: usize,
    /// Whether it is boolean (which scores count), not added.
    is_boolean: bool,
}

impl MaskAt {
    /// The same mask, boolean or not.
    pub(crate) fn boolean(self, is_boolean: bool) -> MaskAt {
        MaskAt { is_boolean, ..self }
    }

    /// The same for groups of heads that become rows of one head.
    pub(crate) fn grouped(self, group: usize) -> Option<MaskAt> {
        let (at, row) = even(&self.at, group)?;
        Some(MaskAt { at, row, ..self })
    }

    /// A mask of shape `sizes` for scores with `columns` columns and the batch axes of the result.
    pub(crate) fn new(input: usize, sizes: &[usize], batch: &[usize], columns: usize) -> MaskAt {
        let (own, rows, width) = split(sizes);
        MaskAt {
            input,
            at: offsets(batch, &own, rows * width),
            row: if rows == 1 { 0 } else { width },
            column: usize::from(width == columns),
            is_boolean: false,
        }
    }

    fn of<'a>(&self, head: usize, values: &'a [f32]) -> Mask<'a> {
        Mask { values: &values[self.at[head]..], row: self.row, column: self.column }
    }
}

/// The first offset of each group, and the stride within groups, if all strides are equal.
fn even(places: &[usize], group: usize) -> Option<(Vec<usize>, usize)> {
    let apart = places.get(1)?.checked_sub(*places.first()?)?;
    let follows = |pair: &[usize]| matches!(pair, [a, b] if b.checked_sub(*a) == Some(apart));
    let groups = places.chunks(group.max(1));
    let all = groups.clone().all(|own| own.len() == group && own.windows(2).all(follows));
    all.then(|| (groups.filter_map(|own| own.first().copied()).collect(), apart))
}

/// Batch axes, rows and columns.
fn split(sizes: &[usize]) -> (Vec<usize>, usize, usize) {
    match sizes {
        [batch @ .., rows, columns] => (batch.to_vec(), *rows, *columns),
        [columns] => (Vec::new(), 1, *columns),
        [] => (Vec::new(), 1, 1),
    }
}

impl Heads {
    /// The heads of an operation.
    pub(crate) fn of_rule(rule: &Rule, cx: &LowerCx<'_>) -> Result<Heads, LowerError> {
        let sizes = [cx.sizes(0), cx.sizes(1), cx.sizes(2)];
        let mut heads = Heads::new(sizes, cx.output_sizes(0)?);
        heads.attention.causal = rule.causal();
        heads.has_scale = cx.input_count() > 4;
        let (batch, ..) = split(cx.output_sizes(0)?);
        if rule.has_mask(cx.input_count(), Some(cx.sizes(3).len())) {
            let mask = MaskAt::new(3, cx.sizes(3), &batch, heads.attention.keys);
            heads.masks.push(mask.boolean(cx.element_type(3) == ElementType::Boolean));
        }
        heads.sink = (cx.input_count() > 5).then(|| MaskAt::new(5, cx.sizes(5), &batch, 0));
        Ok(heads)
    }

    /// The heads for these shapes of query, key and value, with the default scale.
    pub(crate) fn new(sizes: [&[usize]; 3], output: &[usize]) -> Heads {
        let (batch, rows, width) = split(output);
        let [query, key, value] = sizes.map(split);
        let (depth, keys) = (query.2, key.1);
        let starts = |(own, rows, columns): (Vec<usize>, usize, usize)| {
            offsets(&batch, &own, rows * columns)
        };
        let query_stride = if query.1 == 1 { 0 } else { depth };
        let dense = AttentionStrides::dense(depth, width);
        let strides = AttentionStrides { query: query_stride, ..dense };
        let scale = 1.0 / (depth as f32).sqrt();
        let at = [starts(query), starts(key), starts(value)];
        let (causal, precision) = (false, Precision::F32);
        Heads {
            to: (0..at[0].len()).map(|i| i * rows * width).collect(),
            at,
            attention: Attention { rows, keys, depth, width, scale, causal, strides, precision },
            scales: Vec::new(),
            masks: Vec::new(),
            hidden: f32::NEG_INFINITY,
            has_scale: false,
            sink: None,
        }
    }

    /// The same for keys from a variable: a row that is hidden completely is the mean of all
    /// values.
    pub(crate) fn over_variable(mut self) -> Heads {
        self.hidden = f32::MIN;
        self
    }

    /// The heads of a query over KV caches to which rows of these shapes are appended. The offsets
    /// are those of the new rows, for each head of the caches; [`Heads::grown`] sets the others.
    pub(crate) fn over_caches([query, key, value]: [&[usize]; 3], output: &[usize]) -> Heads {
        let (own, rows) = (split(key).0, |s: &[usize]| split(&s[s.len().saturating_sub(2)..]));
        let matrix = |s: &[usize]| [rows(s).1, rows(s).2];
        let mut heads = Heads::new([query, &matrix(key), &matrix(value)], output).over_variable();
        for (i, [rows, columns]) in [(1, matrix(key)), (2, matrix(value))] {
            let count: usize = own.iter().product();
            heads.at[i] = (0..count).map(|head| head * rows * columns).collect();
        }
        heads
    }

    /// Groups of single-row heads with the same keys and values become the rows of one head, so
    /// that keys and values are read once.
    pub(crate) fn grouped(&self, group: usize) -> Option<Heads> {
        let has_scales = !self.scales.is_empty();
        if self.attention.rows != 1 || self.attention.causal || has_scales || group < 2 {
            return None;
        }
        let ((query, from), (output, to)) = (even(&self.at[0], group)?, even(&self.to, group)?);
        let mut heads = self.clone();
        heads.attention.rows = group;
        heads.attention.strides.query = from;
        heads.attention.strides.output = to;
        (heads.at[0], heads.to) = (query, output);
        Some(heads)
    }

    /// The same over all rows of grown caches, with the offset of each head.
    pub(crate) fn grown(
        &self,
        count: usize,
        [keys, values]: [Vec<usize>; 2],
        mask: Option<MaskAt>,
    ) -> Heads {
        let mut heads = self.clone();
        heads.attention.keys = count;
        heads.attention.strides.key = heads.attention.depth;
        heads.attention.strides.value = heads.attention.width;
        (heads.at[1], heads.at[2]) = (keys, values);
        heads.masks.extend(mask);
        heads
    }

    /// The same in a precision.
    pub(crate) fn with_precision(mut self, precision: Precision) -> Heads {
        self.attention.precision = precision;
        self
    }

    /// Floating-point operations of both GEMMs.
    pub(crate) fn flops(&self) -> u64 {
        let Attention { rows, keys, depth, width, .. } = self.attention;
        [2, self.count(), rows, keys, depth + width].iter().map(|n| *n as u64).product()
    }

    pub(crate) fn count(&self) -> usize {
        self.at[0].len()
    }

    /// The attention with the scale of an input, if there is one.
    fn scaled(&self, scale: Option<f32>) -> Attention {
        let mut attention = self.attention.clone();
        attention.scale = scale.unwrap_or(attention.scale);
        attention
    }

    /// Computes all heads from query, key, value and sink, with additive masks.
    pub(crate) fn attend(
        &self,
        cx: &RunCx<'_>,
        operands: [&[f32]; 4],
        masks: &[&[f32]],
        scale: Option<f32>,
        output: &mut [f32],
    ) {
        let (threads, scratch) = (cx.threads(), cx.scratch_pool());
        let head = |i: usize| self.head(i, operands, masks);
        let attention = self.scaled(scale);
        attention.run(threads, scratch, self.count(), head, |i| self.to[i], output);
    }

    /// A boolean mask as an additive mask.
    pub(crate) fn bias<'r>(&self, cx: &RunCx<'r>, counts: &[u8]) -> Scratch<'r, f32> {
        let mut bias = cx.scratch::<f32>(counts.len());
        for (to, counts) in bias.iter_mut().zip(counts) {
            *to = if *counts != 0 { 0.0 } else { self.hidden };
        }
        bias
    }

    fn head<'a>(
        &self,
        i: usize,
        [query, key, value, sink]: [&'a [f32]; 4],
        masks: &[&'a [f32]],
    ) -> Head<'a> {
        let mask = |k: usize| Some(self.masks.get(k)?.of(i, masks.get(k)?));
        Head {
            query: &query[self.at[0][i]..],
            key: &key[self.at[1][i]..],
            value: &value[self.at[2][i]..],
            scale: self.scales.get(i).copied(),
            masks: std::array::from_fn(mask),
            sink: self.sink.as_ref().map(|own| own.of(i, sink)),
        }
    }
}

/// An input in f32, borrowed or converted.
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

/// f32; f16 and bf16 through f32.
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

    /// A mask as an additive mask.
    fn mask<'r>(&self, cx: &RunCx<'r>, mask: &MaskAt) -> Wide<'r> {
        if !mask.is_boolean {
            return self.input(cx, mask.input, true);
        }
        Wide::Own(self.heads.bias(cx, cx.input(mask.input)))
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
            self.input(cx, 5, heads.sink.is_some()),
        ];
        let values = [0, 1, 2, 3].map(|i: usize| inputs[i].values());
        let masks: Vec<Wide<'_>> = heads.masks.iter().map(|m| self.mask(cx, m)).collect();
        let masks: Vec<&[f32]> = masks.iter().map(Wide::values).collect();
        let scale = scale.values().first().copied();
        match &self.halves {
            None => {
                let output = cx.output(0);
                heads.attend(cx, values, &masks, scale, output);
            }
            Some(halves) => {
                let to = cx.output_bytes(0);
                let mut output = cx.scratch::<f32>(to.len() / 2);
                heads.attend(cx, values, &masks, scale, &mut output);
                halves.narrow(cx.threads(), &output, to);
            }
        }
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.heads.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        KernelMemory { kept: 0, passing: self.heads.attention.scratch_bytes(threads) }
    }

    fn name(&self) -> &'static str {
        "attention"
    }
}

/// f64, as the specification defines.
struct Double {
    heads: Heads,
}

impl Double {
    /// Adds masks and causality to the scores of a head.
    fn bias(&self, cx: &RunCx<'_>, head: usize, scores: &mut [f64]) {
        let Attention { keys, causal, .. } = self.heads.attention;
        for (i, line) in scores.chunks_mut(keys.max(1)).enumerate() {
            for (j, score) in line.iter_mut().enumerate() {
                let place = |m: &MaskAt| m.at[head] + i * m.row + j * m.column;
                *score += match self.heads.masks.first() {
                    None if causal && j > i => f64::NEG_INFINITY,
                    Some(m) if m.is_boolean && cx.input::<u8>(m.input)[place(m)] == 0 => {
                        f64::NEG_INFINITY
                    }
                    Some(m) if !m.is_boolean => cx.input::<f64>(m.input)[place(m)],
                    _ => 0.0,
                };
            }
        }
    }
}

impl Kernel for Double {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Attention { rows, keys, depth, width, strides, .. } = self.heads.attention;
        let scale =
            if self.heads.has_scale { cx.input::<f64>(4)[0] } else { 1.0 / (depth as f64).sqrt() };
        let output = cx.output::<f64>(0);
        let threads = cx.threads();
        let transpose = CopyPlan::transpose(&[keys, depth], &[1, 0]);
        let spread = CopyPlan::gather(&[rows, depth], &[strides.query as isize, 1], 0);
        let columns = keys + usize::from(self.heads.sink.is_some());
        let mut query = cx.scratch::<f64>(rows * depth);
        let mut transposed = cx.scratch::<f64>(keys * depth);
        let mut scores = cx.scratch::<f64>(rows * keys);
        let mut weights = cx.scratch::<f64>(rows * columns);
        for (i, out) in output.chunks_mut((rows * width).max(1)).enumerate() {
            spread.run(threads, &cx.input::<f64>(0)[self.heads.at[0][i]..], &mut query);
            transpose.run(
                threads,
                &cx.input::<f64>(1)[self.heads.at[1][i]..][..keys * depth],
                &mut transposed,
            );
            let size = GemmSize { m: rows, n: keys, k: depth };
            plain(threads, size, &query, &transposed, &mut scores);
            scores.iter_mut().for_each(|s| *s *= scale);
            self.bias(cx, i, &mut scores);
            for (r, line) in weights.chunks_mut(columns.max(1)).enumerate() {
                line[..keys].copy_from_slice(&scores[r * keys..][..keys]);
                if let Some(sink) = &self.heads.sink {
                    line[keys] = cx.input::<f64>(sink.input)[sink.at[i] + r * sink.row];
                }
            }
            let slices = Slices::new(&[rows, columns], &[1]);
            softmax(threads, &slices, &mut InOut::in_place(&mut weights));
            for (r, line) in weights.chunks(columns.max(1)).enumerate() {
                scores[r * keys..][..keys].copy_from_slice(&line[..keys]);
            }
            let values = &cx.input::<f64>(2)[self.heads.at[2][i]..][..keys * width];
            plain(threads, GemmSize { m: rows, n: width, k: keys }, &scores, values, out);
        }
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.heads.flops()
    }

    fn name(&self) -> &'static str {
        "attention"
    }
}
