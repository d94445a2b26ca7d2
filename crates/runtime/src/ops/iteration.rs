//! Loop-5, TensorIterator-1: runs the plan of the body once per iteration.

use crate::prelude::*;
use crate::tensor::convert::with_reals_in;
use crate::tensor::packed_len;
use infer::ops::iteration::{Iteration, Kind, Walk};
use infer::rules::axes;
use infer::rules::bodies::{Feed, Map};
use infer::{Fact, PartialShape, RuleError};
use ir::{Graph, Slice};
use kernels::copy::{CopyPlan, dense_strides};

impl Lower for Iteration {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let graph = cx.bodies()[0].graph.clone();
        let parameters = graph.parameters().iter().filter_map(|&p| graph.layers().get(p));
        let parameter_types = parameters
            .map(|l| l.attribute("element_type").and_then(ElementType::from_attribute))
            .map(|t| t.unwrap_or(ElementType::I64))
            .collect();
        let map = self.map().clone();
        let outputs = cx.output_facts().to_vec();
        Ok(Box::new(IterationKernel { kind: self.kind(), map, graph, parameter_types, outputs }))
    }
}

struct IterationKernel {
    kind: Kind,
    map: Map,
    graph: Graph,
    /// Element types of the Parameters.
    parameter_types: Vec<ElementType>,
    /// The facts of the outputs.
    outputs: Vec<Fact>,
}

/// The results of the iterations so far.
struct Progress {
    /// The next value of each merged Parameter.
    merged: Vec<Option<Tensor>>,
    /// The results of the last iteration.
    last: Vec<Tensor>,
    /// For each sliced output, its parts.
    parts: Vec<Vec<Tensor>>,
}

impl Kernel for IterationKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let merged = |feed: &Feed| match feed {
            Feed::Merged { input, .. } => Some(cx.tensor(*input).clone()),
            _ => None,
        };
        let mut progress = Progress {
            merged: self.map.feeds.iter().map(merged).collect(),
            last: Vec::new(),
            parts: vec![Vec::new(); self.map.outputs.len()],
        };
        let trips = self.trips(cx)?;
        let mut iteration = 0;
        while trips.is_none_or(|t| iteration < t) {
            let inputs = self.inputs(cx, &progress, iteration)?;
            let results = cx.run_body(0, &self.graph, &inputs).map_err(|e| KernelError {
                message: format!("iteration {iteration}: {}", e.message),
                ..e
            })?;
            let go_on = self.step(&mut progress, results);
            iteration += 1;
            if !go_on {
                break;
            }
        }
        self.provide(cx, progress)
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        "loop"
    }
}

impl IterationKernel {
    /// The most iterations; `None` if only the condition ends the loop.
    fn trips(&self, cx: &RunCx<'_>) -> Result<Option<i64>, KernelError> {
        if self.kind == Kind::Loop {
            let begins = cx.tensor(1).truth();
            let count = cx.ints(0).first().copied().unwrap_or(-1);
            if begins && count < 0 && self.map.condition.is_none() {
                return Err(KernelError::at(0, "is negative, and no condition ends the loop"));
            }
            return Ok(if !begins { Some(0) } else { Some(count).filter(|c| *c >= 0) });
        }
        for (parameter, feed) in self.map.feeds.iter().enumerate() {
            if let Feed::Sliced(input, slice) = feed {
                let (walk, _) = self.walk(parameter, (*input, slice), cx.sizes(*input))?;
                return Ok(Some(walk.parts));
            }
        }
        Err(KernelError::new("no input is sliced, so the number of iterations is not known"))
    }

    fn inputs(&self, cx: &RunCx<'_>, now: &Progress, i: i64) -> Result<Vec<Tensor>, KernelError> {
        let input = |(p, feed): (usize, &Feed)| match feed {
            Feed::Input(input) => Ok(cx.tensor(*input).clone()),
            Feed::Merged { input, .. } => {
                Ok(now.merged[p].clone().unwrap_or_else(|| cx.tensor(*input).clone()))
            }
            Feed::Counter => {
                let count = Tensor::from_vec(&[], vec![i])?;
                let count = self.shaped(p, count);
                crate::convert(&count, self.parameter_types[p]).map_err(KernelError::from)
            }
            Feed::Sliced(input, slice) => {
                let tensor = cx.tensor(*input);
                let (walk, axis) = self.walk(p, (*input, slice), tensor.sizes())?;
                let (start, count) = (walk.start(i) as usize, walk.size() as usize);
                let size = tensor.sizes()[axis];
                if start + count > size {
                    let parameter = self.map.parameter(p);
                    return Err(KernelError::at(
                        *input,
                        format!(
                            "iteration {i} takes indices {start}..{} of axis {axis} for {parameter} \
                             of the body, but the axis has {size}",
                            start + count
                        ),
                    ));
                }
                part(cx, tensor, axis, start, count)
            }
            Feed::Nothing => Err(KernelError::new("a Parameter of the body has no input")),
        };
        self.map.feeds.iter().enumerate().map(input).collect()
    }

    /// How an input is sliced for a Parameter, and along which axis.
    fn walk(
        &self,
        parameter: usize,
        (input, slice): (usize, &Slice),
        sizes: &[usize],
    ) -> Result<(Walk, usize), KernelError> {
        let axis = normal(slice.axis, sizes)?;
        let failed = |e: RuleError| {
            let name = self.map.parameter(parameter);
            KernelError::at(input, format!("{} for {name} of the body", e.message))
        };
        Ok((Walk::new(slice, sizes[axis] as i64).map_err(failed)?, axis))
    }

    /// The counter in the shape that the body declares: a scalar, or a list of one element.
    fn shaped(&self, parameter: usize, count: Tensor) -> Tensor {
        let layer =
            self.graph.parameters().get(parameter).and_then(|&p| self.graph.layers().get(p));
        let shape = layer.and_then(|l| l.attribute("shape")).unwrap_or_default();
        match shape.parse::<PartialShape>().ok().and_then(|s| s.rank()) {
            Some(1) => count.part(0, ElementType::I64, &[1]).unwrap_or(count),
            _ => count,
        }
    }

    /// Stores the results of an iteration. Returns whether there is another iteration.
    fn step(&self, progress: &mut Progress, results: Vec<Tensor>) -> bool {
        for (slot, feed) in progress.merged.iter_mut().zip(&self.map.feeds) {
            if let Feed::Merged { result, .. } = feed {
                *slot = results.get(*result).cloned();
            }
        }
        for (parts, source) in progress.parts.iter_mut().zip(&self.map.outputs) {
            if source.slice.is_some() {
                parts.extend(results.get(source.result).cloned());
            }
        }
        let condition = self.map.condition.and_then(|c| results.get(c));
        let go_on = condition.is_none_or(Tensor::truth);
        progress.last = results;
        go_on
    }

    fn provide(&self, cx: &mut RunCx<'_>, progress: Progress) -> Result<(), KernelError> {
        let Progress { merged, last, parts } = progress;
        for (output, (source, mut parts)) in self.map.outputs.iter().zip(parts).enumerate() {
            let tensor = match &source.slice {
                Some(slice) => {
                    if slice.stride < 0 {
                        parts.reverse();
                    }
                    self.whole(cx, output, slice, &parts)?
                }
                None => match last.get(source.result) {
                    Some(tensor) => tensor.clone(),
                    // Without iterations, an output keeps the initial value of the Parameter that
                    // it feeds.
                    None => {
                        let feeds = self.map.feeds.iter();
                        let fed = feeds.zip(&merged).filter(|(feed, _)| {
                            matches!(feed, Feed::Merged { result, .. } if *result == source.result)
                        });
                        match fed.filter_map(|(_, t)| t.clone()).next_back() {
                            // In the element type that the body would give.
                            Some(first) => {
                                let wanted = self.outputs[output].element_type;
                                with_reals_in(&first, wanted)?
                            }
                            None => self.empty(output, None)?,
                        }
                    }
                },
            };
            cx.provide(output, tensor);
        }
        Ok(())
    }

    /// The concatenated parts of an output.
    fn whole(
        &self,
        cx: &RunCx<'_>,
        output: usize,
        slice: &Slice,
        parts: &[Tensor],
    ) -> Result<Tensor, KernelError> {
        let Some(first) = parts.first() else { return self.empty(output, Some(slice)) };
        let axis = normal(slice.axis, first.sizes())?;
        let mut sizes = Sizes::from(first.sizes());
        sizes[axis] = parts.iter().map(|p| p.sizes()[axis]).sum();
        let strides = dense_strides(&sizes);
        let mut at = 0;
        let mut copies = Vec::new();
        for (iteration, part) in parts.iter().enumerate() {
            let fits = part.sizes().len() == sizes.len()
                && (0..sizes.len()).all(|i| i == axis || part.sizes()[i] == sizes[i]);
            if !fits {
                let message = format!(
                    "output {output} cannot be put together: iteration {iteration} gives {part:?}, \
                     the first {first:?}"
                );
                return Err(KernelError::new(message));
            }
            let to = at as isize * strides[axis];
            copies.push(CopyPlan::scatter(part.sizes(), &strides, to));
            at += part.sizes()[axis];
        }
        assemble(cx, first.element_type(), &sizes, parts, &copies)
    }

    /// An output without iterations: its known sizes, and 0 for the others.
    fn empty(&self, output: usize, slice: Option<&Slice>) -> Result<Tensor, KernelError> {
        let fact = &self.outputs[output];
        let dims = fact.shape.dims().unwrap_or_default();
        let mut sizes: Sizes = dims.iter().map(|d| d.size().unwrap_or(0)).collect();
        if let Some(slice) = slice {
            let axis = normal(slice.axis, &sizes)?;
            sizes[axis] = 0;
        }
        Tensor::zeros(fact.element_type, &sizes).map_err(KernelError::from)
    }
}

fn normal(axis: i64, sizes: &[usize]) -> Result<usize, KernelError> {
    axes::normalize(axis, sizes.len()).map_err(|e| KernelError::new(e.message))
}

/// A range of indices of an axis: a view along the outermost axis, else a copy.
fn part(
    cx: &RunCx<'_>,
    tensor: &Tensor,
    axis: usize,
    start: usize,
    count: usize,
) -> Result<Tensor, KernelError> {
    let mut sizes = Sizes::from(tensor.sizes());
    let strides = dense_strides(tensor.sizes());
    sizes[axis] = count;
    let from = start as isize * strides[axis];
    let plan = CopyPlan::gather(&sizes, &strides, from);
    if let (Some(first), Some(size)) = (plan.as_run(), tensor.element_type().byte_size()) {
        return tensor.part(first * size, tensor.element_type(), &sizes).map_err(KernelError::from);
    }
    assemble(cx, tensor.element_type(), &sizes, std::slice::from_ref(tensor), &[plan])
}

/// A new tensor that is filled by copies.
fn assemble(
    cx: &RunCx<'_>,
    element_type: ElementType,
    sizes: &[usize],
    parts: &[Tensor],
    copies: &[CopyPlan],
) -> Result<Tensor, KernelError> {
    let size = element_type.byte_size();
    let size = size.ok_or_else(|| KernelError::new(format!("{element_type} cannot be sliced")))?;
    packed_len(element_type, sizes)?;
    let mut whole = Tensor::zeros(element_type, sizes)?;
    let Some(to) = whole.bytes_mut() else { return Ok(whole) };
    for (part, copy) in parts.iter().zip(copies) {
        copy.in_bytes(size).run::<u8>(cx.threads(), part.bytes(), to);
    }
    Ok(whole)
}
