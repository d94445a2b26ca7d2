//! Stateful attention: ReadValue, Gather of the beams, Concat, Assign, the repetition of heads and
//! ScaledDotProductAttention as one step over a KV cache, to which new rows are appended in place.

use crate::graph::net::FusedOp;
use crate::memory::kv_cache::{KvCache, Matrices, NewRows};
use crate::memory::variables::Variables;
use crate::ops::scaled_dot_product_attention::{Heads, MaskAt};
use crate::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A variable that grows along its axis 2.
#[derive(Clone)]
pub(crate) struct Growing {
    pub(crate) id: String,
    /// Batch, heads and columns.
    pub(crate) matrices: [usize; 3],
    /// What it begins with if it has no value: an input, or zeros of these sizes.
    pub(crate) first: First,
}

/// What a variable begins with.
#[derive(Clone)]
pub(crate) enum First {
    Input(usize),
    Zeros(Sizes),
    /// It has a value in every run of the plan.
    EmptyOutput,
}

impl Growing {
    /// What the variable begins with.
    fn first(&self, cx: &RunCx<'_>) -> Result<Tensor, KernelError> {
        match &self.first {
            First::Input(input) => Ok(cx.tensor(*input).clone()),
            First::Zeros(sizes) => {
                Tensor::zeros(ElementType::F32, sizes).map_err(|e| KernelError::new(e.to_string()))
            }
            First::EmptyOutput => {
                Err(KernelError::new(format!("variable \"{}\" is empty", self.id)))
            }
        }
    }

    /// The sizes that it has before the run.
    fn sizes(&self, cx: &RunCx<'_>) -> Result<Sizes, KernelError> {
        match cx.variables().get(&self.id) {
            Some((_, sizes)) => Ok(sizes),
            None => Ok(self.first(cx)?.sizes().into()),
        }
    }
}

/// ScaledDotProductAttention of f32 over two variables. Inputs are the query, new keys and new
/// values, then what the operation has behind these; the others are named here.
#[derive(Clone)]
pub(crate) struct CachedAttention {
    /// Those of the query, and of the new rows for each head of the caches.
    pub(crate) heads: Heads,
    /// Rows that each run appends.
    pub(crate) rows: usize,
    /// Keys and values.
    pub(crate) caches: [Growing; 2],
    /// Sizes of the result.
    pub(crate) sizes: Sizes,
    /// The input with the order of the beams.
    pub(crate) beams: Option<usize>,
    /// Whether input 3 is a mask, and a boolean one.
    pub(crate) mask: Option<bool>,
    /// Whether input 4 is the scale.
    pub(crate) has_scale: bool,
}

impl FusedOp for CachedAttention {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let heads = self.heads.clone().with_precision(cx.precision());
        let group = heads.count().checked_div(heads.at[1].len()).unwrap_or(1).max(1);
        let grouped = heads.grouped(group);
        let own = CachedAttention { heads, ..self.clone() };
        Ok(Box::new(Attend { own, group, grouped, terms: AtomicUsize::new(0) }))
    }

    fn has_effect(&self) -> bool {
        true
    }
}

struct Attend {
    own: CachedAttention,
    /// Heads of the query for each of the caches.
    group: usize,
    /// Those as rows of one.
    grouped: Option<Heads>,
    /// Rows of the caches in the last run.
    terms: AtomicUsize,
}

impl Attend {
    /// The order that beams are put in, unless they stay as they are.
    fn order(&self, cx: &RunCx<'_>) -> Option<Vec<usize>> {
        let beams = cx.wide_ints(self.own.beams?);
        let count = beams.len() as i64;
        let wrap =
            |i: i64| usize::try_from(if i < 0 { i + count } else { i }).unwrap_or(usize::MAX);
        let order: Vec<usize> = beams.iter().copied().map(wrap).collect();
        let same = order.iter().copied().eq(0..order.len());
        (!same).then_some(order)
    }

    /// Appends the new rows.
    fn grow(&self, cx: &RunCx<'_>, variables: &mut Variables) -> Result<(), KernelError> {
        let order = self.order(cx);
        let Heads { at, attention, .. } = &self.own.heads;
        for (i, growing) in (1..).zip(&self.own.caches) {
            let first = || growing.first(cx);
            let cache = variables.cache(&growing.id, first, cx.pool())?;
            if cache.shape() != growing.matrices {
                let (found, wanted) = (cache.shape(), growing.matrices);
                let message = format!(
                    "variable \"{}\" has batch, heads and columns {found:?}, the new rows {wanted:?}",
                    growing.id
                );
                return Err(KernelError::at(i, message));
            }
            let (rows, stride) = (self.own.rows, attention.strides[i]);
            let new = NewRows { values: cx.input(i), at: &at[i], rows, stride };
            cache.grow(&new, order.as_deref(), (cx.threads(), cx.pool()))?;
        }
        Ok(())
    }

    /// The mask for as many columns.
    fn mask(&self, sizes: &[usize], terms: usize) -> Result<MaskAt, KernelError> {
        let (rank, result) = (self.own.sizes.len(), &self.own.sizes);
        let whole = |i: usize| if i + 1 == rank { terms } else { result[i] };
        let fits = |(i, size): (usize, &usize)| {
            let axis = (rank + i).checked_sub(sizes.len());
            *size == 1 || axis.is_some_and(|axis| *size == whole(axis))
        };
        if sizes.len() < 2 || sizes.len() > rank || !sizes.iter().enumerate().all(fits) {
            let message =
                format!("is {sizes:?}, which does not fit {terms} keys and a result of {result:?}");
            return Err(KernelError::at(3, message));
        }
        Ok(MaskAt::new(3, sizes, &result[..rank - 2], terms))
    }

    /// The heads over grown caches, those that read the same as rows of one where there are enough
    /// for all threads.
    fn heads(
        &self,
        cx: &RunCx<'_>,
        [keys, values]: [Matrices<'_>; 2],
    ) -> Result<Heads, KernelError> {
        let terms = keys.rows;
        let mut mask = match self.own.mask {
            Some(is_boolean) => Some(self.mask(cx.sizes(3), terms)?.boolean(is_boolean)),
            None => None,
        };
        let count = self.own.heads.at[1].len();
        let (mut heads, mut group) = (&self.own.heads, self.group);
        if let Some(grouped) = self.grouped.as_ref().filter(|_| count >= cx.threads().count()) {
            let whole = mask.clone().map(|mask| mask.grouped(group));
            if whole.as_ref().is_none_or(Option::is_some) {
                (heads, group, mask) = (grouped, 1, whole.flatten());
            }
        }
        let starts = |cache: Matrices<'_>| {
            (0..heads.count()).map(|head| head / group * cache.apart).collect()
        };
        Ok(heads.grown(terms, [starts(keys), starts(values)], mask))
    }
}

impl Kernel for Attend {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let CachedAttention { caches, mask, has_scale, .. } = &self.own;
        let mut variables = cx.variables();
        self.grow(cx, &mut variables)?;
        let grown = |i: usize| variables.grown(&caches[i].id).map(KvCache::matrices);
        let (keys, values) = (grown(0)?, grown(1)?);
        let terms = keys.rows;
        if values.rows != terms {
            let message = format!("there are {terms} keys for {} values", values.rows);
            return Err(KernelError::at(2, message));
        }
        self.terms.store(terms, Ordering::Relaxed);
        let heads = self.heads(cx, [keys, values])?;
        let bias = (*mask == Some(true)).then(|| heads.bias(cx, cx.input(3)));
        let masks: &[&[f32]] = match (mask, &bias) {
            (None, _) => &[],
            (Some(_), Some(bias)) => &[&bias[..]],
            (Some(_), None) => &[cx.input(3)],
        };
        let scale = if *has_scale { cx.input::<f32>(4).first().copied() } else { None };
        let output = cx.output(0);
        heads.attend(cx, [cx.input(0), keys.values, values.values, &[]], masks, scale, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        let terms = self.terms.load(Ordering::Relaxed);
        self.own.heads.grown(terms, [Vec::new(), Vec::new()], None).flops()
    }

    fn name(&self) -> &'static str {
        "cached attention"
    }
}

/// ShapeOf a KV cache, before the run appends rows or after it.
#[derive(Clone)]
pub(crate) struct CacheShape {
    pub(crate) cache: Growing,
    /// Rows that have been appended.
    pub(crate) rows: usize,
}

impl FusedOp for CacheShape {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let wide = cx.output_type(0) == ElementType::I64;
        Ok(Box::new(AttentionShape { own: self.clone(), wide }))
    }
}

struct AttentionShape {
    own: CacheShape,
    wide: bool,
}

impl Kernel for AttentionShape {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let mut sizes = self.own.cache.sizes(cx)?;
        if let Some(rows) = sizes.get_mut(2) {
            *rows += self.own.rows;
        }
        crate::ops::shape_of::write(cx, &sizes, self.wide);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "shape"
    }
}
