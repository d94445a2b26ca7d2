//! Visits a net from inputs to outputs while rewriting it.

use crate::graph::net::{Net, Node, Operation, Value, ValueId};
use crate::tensor::Tensor;
use infer::ops::reshape::Reshape;
use infer::{Fact, PartialShape};
use ir::ElementType;
use smallvec::smallvec;

/// A net that is being rewritten. Nodes are visited in order, and each is kept, changed or dropped.
pub(crate) struct GraphRewriter<'a> {
    pub(crate) net: &'a mut Net,
    /// For each value the value that replaces it; itself if none does.
    alias: Vec<ValueId>,
    kept: Vec<Option<Node>>,
    /// For each value the node of `kept` that makes it.
    producer: Vec<Option<usize>>,
    /// For each value how many inputs and outputs of the net read it.
    uses: Vec<usize>,
    changes: usize,
}

impl<'a> GraphRewriter<'a> {
    /// Visits each node. A node is dropped unless `visit` passes it, or another, to
    /// [`GraphRewriter::keep`]. Returns the number of changes.
    pub(crate) fn over(
        net: &'a mut Net,
        mut visit: impl FnMut(&mut GraphRewriter<'_>, Node),
    ) -> usize {
        GraphRewriter::visiting(net, &mut visit)
    }

    /// Not generic over `visit`, so that it is compiled once for all passes.
    fn visiting(net: &'a mut Net, visit: &mut dyn FnMut(&mut GraphRewriter<'_>, Node)) -> usize {
        let nodes = std::mem::take(&mut net.nodes);
        let count = net.values.len();
        let mut uses = vec![0; count];
        for &value in nodes.iter().flat_map(|n| &n.inputs).chain(&net.outputs) {
            uses[value] += 1;
        }
        let mut rewriter = GraphRewriter {
            alias: (0..count).collect(),
            kept: Vec::with_capacity(nodes.len()),
            producer: vec![None; count],
            uses,
            changes: 0,
            net,
        };
        for mut node in nodes {
            for input in &mut node.inputs {
                *input = rewriter.alias[*input];
            }
            visit(&mut rewriter, node);
        }
        for output in &mut rewriter.net.outputs {
            *output = rewriter.alias[*output];
        }
        rewriter.net.nodes = rewriter.kept.into_iter().flatten().collect();
        rewriter.changes
    }

    /// Replaces each node for which `find` gives another. Returns how many.
    pub(crate) fn replacing(
        net: &'a mut Net,
        mut find: impl FnMut(&mut GraphRewriter<'_>, &Node) -> Option<Node>,
    ) -> usize {
        GraphRewriter::over(net, |rewriter, node| match find(rewriter, &node) {
            Some(other) => {
                rewriter.changed();
                rewriter.keep(other);
            }
            None => rewriter.keep(node),
        })
    }

    /// Keeps each node as `edit` leaves it. Returns how many `edit` has changed.
    pub(crate) fn editing(
        net: &'a mut Net,
        mut edit: impl FnMut(&mut GraphRewriter<'_>, &mut Node) -> Option<()>,
    ) -> usize {
        GraphRewriter::over(net, |rewriter, mut node| {
            if edit(rewriter, &mut node).is_some() {
                rewriter.changed();
            }
            rewriter.keep(node);
        })
    }

    /// Keeps a node at this point of the order.
    pub(crate) fn keep(&mut self, node: Node) {
        for &output in &node.outputs {
            self.producer[output] = Some(self.kept.len());
        }
        self.kept.push(Some(node));
    }

    /// Removes the node that makes `value`, if only the visited node reads `value`.
    pub(crate) fn take(&mut self, value: ValueId) -> Option<Node> {
        let only = self.uses[value] == 1;
        self.kept[self.producer[value].filter(|_| only)?].take()
    }

    /// The node that makes `value`, if only the visited node reads `value`.
    pub(crate) fn only_for(&self, value: ValueId) -> Option<&Node> {
        let only = self.uses[value] == 1;
        self.kept[self.producer[value].filter(|_| only)?].as_ref()
    }

    /// The node that makes `value`.
    pub(crate) fn maker(&self, value: ValueId) -> Option<&Node> {
        self.kept[self.producer[value]?].as_ref()
    }

    /// Replaces the operation of the node that makes `value`. `more` becomes its additional output.
    pub(crate) fn give_more(
        &mut self,
        value: ValueId,
        operation: Operation,
        more: ValueId,
    ) -> Option<()> {
        let at = self.producer[value]?;
        let node = self.kept[at].as_mut()?;
        node.operation = operation;
        node.outputs.push(more);
        self.producer[more] = Some(at);
        self.uses[value] = self.uses[value].saturating_sub(1);
        Some(())
    }

    /// How many inputs and outputs read `value`.
    pub(crate) fn uses(&self, value: ValueId) -> usize {
        self.uses[value]
    }

    /// Adds a value, which nodes kept from now on may make or read.
    pub(crate) fn add(&mut self, value: Value) -> ValueId {
        self.alias.push(self.net.values.len());
        self.producer.push(None);
        self.uses.push(0);
        self.net.add(value)
    }

    /// Adds a value that one node will read.
    pub(crate) fn add_for_one(&mut self, value: Value) -> ValueId {
        let added = self.add(value);
        self.uses[added] = 1;
        added
    }

    /// Adds a constant list, as operations take for axes and sizes.
    pub(crate) fn list(&mut self, values: Vec<i64>) -> Option<ValueId> {
        Some(self.add(Value::known(Tensor::from_vec(&[values.len()], values).ok()?)))
    }

    /// A value of f32 with other sizes: a Reshape of it, unless it has them.
    pub(crate) fn reshaped(
        &mut self,
        value: ValueId,
        sizes: &[usize],
        layer: usize,
    ) -> Option<ValueId> {
        if self.net.sizes(value).as_deref() == Some(sizes) {
            return Some(value);
        }
        let to = sizes.iter().map(|size| i64::try_from(*size).ok()).collect::<Option<_>>()?;
        let inputs = smallvec![value, self.list(to)?];
        let operation = Operation::source(Reshape::to_sizes())?;
        let fact = Fact::new(ElementType::F32, PartialShape::fixed(sizes));
        let output = self.add(Value::of(fact));
        self.keep(Node { operation, inputs, outputs: smallvec![output], layer });
        Some(output)
    }

    /// Replaces `value`, an output of `node`, by `other` in the nodes visited from now on. `node`
    /// is dropped, so that it no longer reads `other`.
    pub(crate) fn replace(&mut self, node: &Node, value: ValueId, other: ValueId) {
        self.alias[value] = other;
        let reads = node.inputs.iter().filter(|input| **input == other).count();
        self.uses[other] = (self.uses[other] + self.uses[value]).saturating_sub(reads);
        self.changes += 1;
    }

    /// Counts the inputs of a node that is not kept as no longer read, and frees the constants that
    /// nothing else reads: what is computed next finds memory that the process has touched, which
    /// costs less than new pages.
    pub(crate) fn release(&mut self, inputs: &[ValueId]) {
        for &input in inputs {
            self.uses[input] = self.uses[input].saturating_sub(1);
            if self.uses[input] == 0 {
                self.net.values[input].constant = None;
            }
        }
    }

    /// Counts a value as read once more.
    pub(crate) fn read_again(&mut self, value: ValueId) {
        self.uses[value] += 1;
    }

    /// Counts a change.
    pub(crate) fn changed(&mut self) {
        self.changes += 1;
    }
}
