//! The number of rows of a KV cache, traced through the shape arithmetic of the graph.

use crate::graph::net::{Net, Node, ValueId};
use infer::ops::binary::{Binary, Kind};
use infer::ops::concat::Concat;
use infer::ops::gather::Gather;
use infer::ops::reshape::Reshape;
use infer::ops::shape_of::ShapeOf;
use infer::ops::squeeze::Squeeze;
use infer::ops::variable::Variable;

/// The axis that KV caches grow along.
pub(crate) const AXIS: usize = 2;

/// How many nodes of shape arithmetic are followed.
const DEPTH: usize = 12;

/// The rows of a variable before a run, if `id` is given, plus `more` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length<'n> {
    pub(crate) id: Option<&'n str>,
    pub(crate) more: usize,
}

/// A net with the node that makes each value.
pub(crate) struct Origins<'n> {
    pub(crate) net: &'n Net,
    /// For each value the index of the node that makes it.
    makers: Vec<Option<usize>>,
}

impl<'n> Origins<'n> {
    pub(crate) fn new(net: &'n Net) -> Origins<'n> {
        let mut makers = vec![None; net.values.len()];
        for (index, node) in net.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|output| makers[*output] = Some(index));
        }
        Origins { net, makers }
    }

    /// The node that makes a value, and its index.
    pub(crate) fn maker(&self, value: ValueId) -> Option<(usize, &'n Node)> {
        let index = self.makers[value]?;
        Some((index, &self.net.nodes[index]))
    }

    /// The index of the ReadValue that a value comes from, and the index of the Gather that
    /// reorders its beams, if there is one.
    pub(crate) fn variable(&self, value: ValueId) -> Option<(usize, Option<usize>)> {
        let (index, node) = self.maker(value)?;
        let reads = |node: &Node| node.is::<Variable>().is_some_and(Variable::reads);
        if reads(node) {
            return Some((index, None));
        }
        let gather = node.is::<Gather>()?;
        let &[data, indices, axis] = &node.inputs[..] else { return None };
        let (read, _) = self.maker(data).filter(|(_, node)| reads(node))?;
        let first = self.known(axis)? == [0] && gather.batch_dims(1).ok()? == 0;
        let list = self.net.values[indices].fact.shape.rank()? == 1;
        (first && list).then_some((read, Some(index)))
    }

    fn known(&self, value: ValueId) -> Option<Vec<i64>> {
        self.net.values[value].fact.value.as_deref()?.i64s()
    }

    /// The number of rows that element `index` of a list of sizes stands for.
    pub(crate) fn element(&self, value: ValueId, index: usize) -> Option<Length<'n>> {
        self.element_within(value, index, DEPTH)
    }

    fn element_within(&self, value: ValueId, index: usize, depth: usize) -> Option<Length<'n>> {
        let fact = &self.net.values[value].fact;
        let interval = fact.value.as_deref().and_then(|v| v.intervals()?.get(index)?.value());
        if let Some(more) = interval.and_then(|size| usize::try_from(size).ok()) {
            return Some(Length { id: None, more });
        }
        let (_, node) = self.maker(value).filter(|_| depth > 0)?;
        let &first = node.inputs.first()?;
        let count = |v: ValueId| self.net.sizes(v).map(|s| s.iter().product::<usize>());
        if node.is::<ShapeOf>().is_some() {
            return self.size(first, index, depth - 1);
        }
        if node.is::<Concat>().is_some() && fact.shape.rank() == Some(1) {
            let mut start = 0;
            for &part in &node.inputs {
                let end = start + count(part)?;
                if (start..end).contains(&index) {
                    return self.element_within(part, index - start, depth - 1);
                }
                start = end;
            }
            return None;
        }
        if node.is::<Gather>().is_some() {
            let &[at] = &self.known(*node.inputs.get(1)?)?[..] else { return None };
            let rank = self.net.values[first].fact.shape.rank()?;
            let at = usize::try_from(at).ok().filter(|_| rank == 1)?;
            return self.element_within(first, at, depth - 1);
        }
        if node.is::<Reshape>().is_some() || node.is::<Squeeze>().is_some() {
            return self.element_within(first, index, depth - 1);
        }
        if node.is::<Binary>().is_some_and(|b| b.kind() == Kind::Add) && count(value)? == 1 {
            let &[a, b] = &node.inputs[..] else { return None };
            let part = |v: ValueId| self.element_within(v, 0, depth - 1);
            return part(a)?.plus(part(b)?);
        }
        None
    }

    /// The size of a value along an axis.
    fn size(&self, value: ValueId, axis: usize, depth: usize) -> Option<Length<'n>> {
        let dims = self.net.values[value].fact.shape.dims()?;
        if let Some(more) = dims.get(axis)?.size() {
            return Some(Length { id: None, more });
        }
        if let Some((read, _)) = self.variable(value).filter(|_| axis == AXIS) {
            return Some(Length { id: Some(self.net.nodes[read].is::<Variable>()?.id()), more: 0 });
        }
        let (_, node) = self.maker(value).filter(|_| depth > 0)?;
        if node.is::<Concat>()?.axis(dims.len()).ok()? != axis {
            return None;
        }
        let mut sizes = node.inputs.iter().map(|part| self.size(*part, axis, depth - 1));
        sizes.try_fold(Length { id: None, more: 0 }, |sum, size| sum.plus(size?))
    }
}

impl<'n> Length<'n> {
    fn plus(self, other: Length<'n>) -> Option<Length<'n>> {
        if self.id.is_some() && other.id.is_some() {
            return None;
        }
        Some(Length { id: self.id.or(other.id), more: self.more.checked_add(other.more)? })
    }
}
