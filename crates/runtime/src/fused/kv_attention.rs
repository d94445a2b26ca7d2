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
    /// Its initial value, if a run finds none.
    pub(crate) first: First,
}

/// The initial value of a variable.
#[derive(Clone)]
pub(crate) enum First {
    Input(usize),
    Zeros(Sizes),
    /// None: the variable has a value in every run of the plan.
    Unneeded,
}

impl Growing {
    /// The initial value as a tensor.
    fn first(&self, cx: &RunCx<'_>) -> Result<Tensor, KernelError> {
        match &self.first {
            First::Input(input) => Ok(cx.tensor(*input).clone()),
            First::Zeros(sizes) => {
                Tensor::zeros(ElementType::F32, sizes).map_err(KernelError::from)
            }
            First::Unneeded => Err(KernelError::new(format!("variable \"{}\" is empty", self.id))),
        }
    }

    /// The sizes before the run.
    fn sizes(&self, cx: &RunCx<'_>) -> Result<Sizes, KernelError> {
        match cx.variables().get(&self.id) {
            Some((_, sizes)) => Ok(sizes),
            None => Ok(self.first(cx)?.sizes().into()),
        }
    }
}

/// ScaledDotProductAttention of f32 over two variables. Inputs: query, new keys, new values, then
/// the mask and the scale if there are any; the fields name the others.
#[derive(Clone)]
pub(crate) struct CachedAttention {
    /// The heads of the query, and the starts of the new rows for each head of the caches.
    pub(crate) heads: Heads,
    /// How many rows each run appends.
    pub(crate) rows: usize,
    /// Keys and values.
    pub(crate) caches: [Growing; 2],
    /// The sizes of the result.
    pub(crate) sizes: Sizes,
    /// The input with the indices of the beams.
    pub(crate) beams: Option<usize>,
    /// Whether there is a mask as input 3, and whether it is boolean.
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
    /// Heads of the query per head of the caches.
    group: usize,
    /// The same heads, with those of a group as rows of one head.
    grouped: Option<Heads>,
    /// Rows of the caches in the last run.
    terms: AtomicUsize,
}

impl Attend {
    /// The new order of the beams; `None` if they are in order.
    fn order(&self, cx: &RunCx<'_>) -> Option<Vec<usize>> {
        let beams = cx.wide_ints(self.own.beams?);
        let count = beams.len() as i64;
        let wrap =
            |i: i64| usize::try_from(if i < 0 { i + count } else { i }).unwrap_or(usize::MAX);
        let order: Vec<usize> = beams.iter().copied().map(wrap).collect();
        let same = order.iter().copied().eq(0..order.len());
        (!same).then_some(order)
    }

    /// Appends the new rows to both caches.
    fn grow(&self, cx: &RunCx<'_>, variables: &mut Variables) -> Result<(), KernelError> {
        let order = self.order(cx);
        let Heads { at, attention, .. } = &self.own.heads;
        let strides = [attention.strides.key, attention.strides.value];
        for ((i, growing), stride) in (1..).zip(&self.own.caches).zip(strides) {
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
            let rows = self.own.rows;
            let new = NewRows { values: cx.input(i), at: &at[i], rows, stride };
            cache.grow(&new, order.as_deref(), (cx.threads(), cx.pool()))?;
        }
        Ok(())
    }

    /// The mask for `terms` columns.
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

    /// The heads over the grown caches. Heads that read the same keys and values become rows of one
    /// head, if enough are left for all threads.
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

/// The shape of a KV cache, before or after the run appends rows.
#[derive(Clone)]
pub(crate) struct CacheShape {
    pub(crate) cache: Growing,
    /// Rows that were appended.
    pub(crate) rows: usize,
}

impl FusedOp for CacheShape {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let wide = cx.output_type(0) == ElementType::I64;
        Ok(Box::new(CacheShapeKernel { own: self.clone(), wide }))
    }
}

struct CacheShapeKernel {
    own: CacheShape,
    wide: bool,
}

impl Kernel for CacheShapeKernel {
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
