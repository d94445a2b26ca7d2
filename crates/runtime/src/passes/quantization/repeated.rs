//! Repeated quantization. A FakeQuantize of values that a FakeQuantize with the same limits has
//! made, moved or repeated since, changes nothing: converters put one behind each Interpolate.

use crate::graph::net::{Net, Node, ValueId};
use crate::graph::pattern::number;
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::passes::layout::movement::{is_movement, is_nearest};
use infer::ops::fake_quantize::FakeQuantize;

/// The most movements between two of them, since a file may hold any number.
const MOST_MOVEMENTS: usize = 16;

pub(crate) fn eliminate(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| {
        match (is_repeated(rewriter, &node), &node.outputs[..]) {
            (true, [output]) => {
                rewriter.release(&node.inputs[1..]);
                rewriter.replace(&node, *output, node.inputs[0]);
            }
            _ => rewriter.keep(node),
        }
    })
}

fn is_repeated(rewriter: &GraphRewriter<'_>, node: &Node) -> bool {
    let net = &*rewriter.net;
    let Some(own) = limits(net, node) else { return false };
    let mut value = node.inputs[0];
    for _ in 0..MOST_MOVEMENTS {
        let Some(maker) = rewriter.maker(value) else { return false };
        if let Some(limits) = limits(net, maker) {
            return limits == own;
        }
        if !is_movement(net, maker) && !is_nearest(net, maker) {
            return false;
        }
        value = maker.inputs[0];
    }
    false
}

/// The levels and limits of a FakeQuantize that leaves its own results as they are: its input
/// limits are its output limits. They are constants of one number each.
fn limits(net: &Net, node: &Node) -> Option<(usize, f32, f32)> {
    let levels = node.is::<FakeQuantize>()?.levels();
    let &[data, from_low, from_high, low, high] = &node.inputs[..] else { return None };
    let [from_low, from_high, low, high] =
        [from_low, from_high, low, high].map(|limit: ValueId| number(net, limit));
    let keeps = from_low? == low? && from_high? == high? && net.is_f32(data);
    keeps.then_some((levels, low?, high?))
}
