//! RoPE fusion: `x · cos + concat(-upper half of x, lower half of x) · sin` becomes one node that
//! computes the same numbers.

use crate::fused::rope::RotaryEmbedding;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::pattern::{either_way, lowered, number};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::passes::layout::index_map::Map;
use infer::ops::binary::Kind;
use infer::ops::concat::Concat;
use infer::ops::unary::{self, Unary};
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) fn rotary(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::replacing(net, |rewriter, node| embedding(rewriter, node))
}

/// The rotary embedding that ends in this Add.
fn embedding(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Node> {
    let (x, cos, sin) = either_way(node, Kind::Add).find_map(|[straight, crossed]| {
        let (x, sin) = either_way(rewriter.only_for(crossed)?, Kind::Multiply)
            .find_map(|[halves, sin]| Some((exchanged(rewriter, halves)?, sin)))?;
        let mut factors = either_way(rewriter.only_for(straight)?, Kind::Multiply);
        factors.find(|[data, _]| *data == x).map(|[_, cos]| (x, cos, sin))
    })?;
    let net = &*rewriter.net;
    let sizes = net.sizes(x).filter(|_| [x, cos, sin].iter().all(|v| net.is_f32(*v)))?;
    let (&columns, outer) = sizes.split_last()?;
    let fits = |v: ValueId| net.sizes(v).is_some_and(|s| s.last() == Some(&columns));
    let rows: usize = outer.iter().product();
    if !fits(cos) || !fits(sin) || rows > RotaryEmbedding::ROWS {
        return None;
    }
    // Otherwise the factors broadcast the data.
    if net.sizes(*node.outputs.first()?)? != sizes {
        return None;
    }
    let made = RotaryEmbedding { sizes, through: None };
    let operation = Operation::Fused(Arc::new(made));
    Some(Node { operation, inputs: smallvec![x, cos, sin], ..node.clone() })
}

/// The value of which `value` holds the upper half of each row, negated, and then the lower half.
fn exchanged(rewriter: &GraphRewriter<'_>, value: ValueId) -> Option<ValueId> {
    let net = &*rewriter.net;
    let concat = rewriter.only_for(value)?;
    let &[negated, lower] = &concat.inputs[..] else { return None };
    let rank = net.sizes(value)?.len();
    concat.is::<Concat>()?.axis(rank).ok().filter(|axis| axis + 1 == rank)?;
    let upper = opposite(net, rewriter.only_for(negated)?)?;
    let x = half(rewriter, upper, 1)?;
    (half(rewriter, lower, 0)? == x).then_some(x)
}

/// The value that a node negates.
fn opposite(net: &Net, node: &Node) -> Option<ValueId> {
    if node.is::<Unary>().is_some_and(|u| u.kind() == unary::Kind::Negative) {
        return node.inputs.first().copied();
    }
    either_way(node, Kind::Multiply).find_map(|[x, by]| (number(net, by)? == -1.0).then_some(x))
}

/// The value of whose rows `value` is a half: the first for `which` 0, the second for 1.
fn half(rewriter: &GraphRewriter<'_>, value: ValueId, which: u32) -> Option<ValueId> {
    let net = &*rewriter.net;
    let node = rewriter.maker(value)?;
    let output = node.outputs.iter().position(|v| *v == value)?;
    let &x = node.inputs.first().filter(|x| net.is_f32(**x) && net.is_f32(value))?;
    let (whole, part) = (net.sizes(x)?, net.sizes(value)?);
    let columns = *part.last().filter(|n| whole.last() == Some(&(**n * 2)))?;
    let count: usize = part.iter().product();
    let kernel = lowered(net, node).filter(|_| count > 0)?;
    let map = Map::whole(x, 2 * count).moved_by(&*kernel, output, count)?.in_runs(columns)?;
    map.runs.iter().zip(0..).all(|(run, row)| *run == 2 * row + which).then_some(x)
}
