//! Gather from a compressed table. The rows are gathered first, and only they are converted and
//! scaled.
//!
//! An out-of-range index gives a row of zeros, and dequantizing after the Gather must keep it zero.
//! So zero points are gathered too, and scales are gathered or positive.

use crate::graph::net::{Net, Node, Value, ValueId};
use crate::graph::pattern::kind;
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::tensor::Sizes;
use crate::tensor::convert::convert_tensor;
use infer::ops::binary::Kind;
use infer::ops::convert::Convert;
use infer::ops::gather::Gather;
use infer::{Fact, PartialShape};
use ir::ElementType;
use smallvec::smallvec;

pub(crate) fn rows(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| match first(rewriter, &node) {
        Some(nodes) => {
            rewriter.changed();
            nodes.into_iter().for_each(|node| rewriter.keep(node));
        }
        None => rewriter.keep(node),
    })
}

/// The nodes that replace a Gather from a computed table.
fn first(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<Vec<Node>> {
    let (net, rule) = (&*rewriter.net, node.is::<Gather>()?);
    let [table, indices] = [0, 1].map(|i| net.sizes(node.inputs[i]));
    let (table, indices) = (table?, indices?);
    let batch = rule.batch_dims(indices.len()).ok()?;
    let axis = net.values[node.inputs[2]].constant.as_ref()?;
    let axis = convert_tensor(axis, ElementType::I64).ok()?;
    let outermost = axis.as_slice::<i64>()?.first() == Some(&0);
    let fewer = indices.iter().product::<usize>() < *table.first()?;
    // Factors that all rows share are broadcast from the right, after the axes of the indices.
    if !outermost || batch != 0 || !fewer || indices.is_empty() || is_constant(net, node.inputs[0])
    {
        return None;
    }
    let mut rows = TableRows { gather: node, table, indices, made: Vec::new() };
    rows.of(rewriter, node.inputs[0], DEPTH)?;
    let mut made = rows.made;
    made.last_mut()?.outputs = node.outputs.clone();
    Some(made)
}

/// The most operations that compute a table from constants, one behind the other.
const DEPTH: usize = 16;

fn is_constant(net: &Net, value: ValueId) -> bool {
    net.values[value].constant.is_some()
}

struct TableRows<'n> {
    gather: &'n Node,
    table: Sizes,
    indices: Sizes,
    /// The nodes that compute the rows.
    made: Vec<Node>,
}

impl TableRows<'_> {
    /// The gathered rows of a value that has as many rows as the table.
    fn of(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        value: ValueId,
        depth: usize,
    ) -> Option<ValueId> {
        if is_constant(rewriter.net, value) {
            let mut node = self.gather.clone();
            node.inputs[0] = value;
            let packed = rewriter.net.values[value].fact.element_type.is_packed();
            return (!packed).then(|| self.make(rewriter, node, value)).flatten();
        }
        let mut node = rewriter.only_for(value).filter(|_| depth > 0)?.clone();
        let kind = kind(&node);
        if node.is::<Convert>().is_some() {
            node.inputs[0] = self.of(rewriter, node.inputs[0], depth - 1)?;
        } else if matches!(kind, Some(Kind::Multiply | Kind::Subtract)) {
            for input in &mut node.inputs {
                let scales = kind == Some(Kind::Multiply) && self.is_factor(rewriter.net, *input);
                if !scales {
                    *input = self.of(rewriter, *input, depth - 1)?;
                }
            }
        } else {
            return None;
        }
        self.make(rewriter, node, value)
    }

    /// Whether a constant is the same for all rows and finite and positive, so that zeros stay
    /// zero.
    fn is_factor(&self, net: &Net, value: ValueId) -> bool {
        let Some(factor) = &net.values[value].constant else { return false };
        let sizes = factor.sizes();
        let own = sizes.len() < self.table.len() || sizes[0] == 1;
        let positive = |x: &f32| x.is_finite() && *x > 0.0;
        let all = || {
            convert_tensor(factor, ElementType::F32)
                .ok()?
                .as_slice()
                .map(|s| s.iter().all(positive))
        };
        own && all() == Some(true)
    }

    /// Keeps a copy of a node that computes only the gathered rows of `value`.
    fn make(
        &mut self,
        rewriter: &mut GraphRewriter<'_>,
        node: Node,
        value: ValueId,
    ) -> Option<ValueId> {
        let sizes = rewriter.net.sizes(value)?;
        let whole = sizes.len() == self.table.len() && sizes[0] == self.table[0];
        let shape: Vec<usize> = self.indices.iter().chain(sizes.get(1..)?).copied().collect();
        let element_type = rewriter.net.values[value].fact.element_type;
        let output = rewriter.add(Value::of(Fact::new(element_type, PartialShape::fixed(&shape))));
        self.made.push(Node { outputs: smallvec![output], ..node });
        whole.then_some(output)
    }
}
