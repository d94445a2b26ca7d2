//! Activation hoisting. An activation behind movements, as behind the pixel shuffle of a
//! super-resolution model, runs before them instead. There it becomes a post-op of the convolution
//! or MatMul that makes the data. The bits stay.

use crate::fused::hard_swish::HardSwish;
use crate::graph::net::{Net, Node, Value, ValueId};
use crate::graph::pattern::seen;
use crate::graph::rewriter::GraphRewriter;
use crate::ops::unary::function;
use crate::passes::context::PassCx;
use crate::passes::fusion::post_ops::takes_post_ops;
use crate::passes::layout::movement::is_movement;
use infer::ops::binary::Binary;
use infer::ops::unary::Unary;
use smallvec::smallvec;

pub(crate) fn hoist(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| match movements(rewriter, &node) {
        Some(chain) => hoisted(rewriter, node, &chain),
        None => rewriter.keep(node),
    })
}

/// The results of the movements between a node and the convolution or MatMul that takes it as a
/// post-op, the last first. Nothing else reads them.
fn movements(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Vec<ValueId>> {
    let net = &*rewriter.net;
    let unary =
        node.is::<Unary>().filter(|unary| seen(net, node, |cx| function(unary, cx)).is_ok());
    if unary.is_none() && node.fused::<HardSwish>().is_none() {
        return None;
    }
    let count = |value: ValueId| Some(net.sizes(value)?.iter().product::<usize>());
    let mut value = *node.inputs.first()?;
    let mut chain = Vec::new();
    loop {
        let maker = rewriter.only_for(value)?;
        if !chain.is_empty() && is_product(rewriter, value) {
            return Some(chain);
        }
        let source = *maker.inputs.first()?;
        // A part of the data is less work.
        let moves_all = is_movement(net, maker) && count(source)? == count(value)?;
        if !moves_all || maker.outputs.len() != 1 {
            return None;
        }
        chain.push(value);
        value = source;
    }
}

/// Whether a value is made by a convolution or MatMul, perhaps with constants added or multiplied.
fn is_product(rewriter: &GraphRewriter<'_>, mut value: ValueId) -> bool {
    let net = &*rewriter.net;
    let is_constant = |v: &ValueId| net.values[*v].constant.is_some();
    loop {
        let Some(maker) = rewriter.only_for(value) else { return false };
        if takes_post_ops(net, maker) {
            return true;
        }
        match &maker.inputs[..] {
            [data, constant] | [constant, data]
                if maker.is::<Binary>().is_some() && is_constant(constant) =>
            {
                value = *data;
            }
            _ => return false,
        }
    }
}

/// Keeps an activation before a chain of movements, which then moves its results.
fn hoisted(rewriter: &mut GraphRewriter<'_>, mut node: Node, chain: &[ValueId]) {
    let mut movements: Vec<Node> = chain.iter().filter_map(|v| rewriter.take(*v)).collect();
    let (last, layer) = (std::mem::take(&mut node.outputs), node.layer);
    let Some(source) = movements.last().and_then(|first| first.inputs.first().copied()) else {
        return;
    };
    node.inputs[0] = source;
    let mut moved = rewriter.add(Value::of(rewriter.net.values[source].fact.clone()));
    node.outputs = smallvec![moved];
    rewriter.keep(node);
    while let Some(mut movement) = movements.pop() {
        // Messages about both name the activation, whose value the file has.
        movement.layer = layer;
        movement.inputs[0] = moved;
        if movements.is_empty() {
            movement.outputs = last.clone();
        } else {
            let fact = rewriter.net.values[movement.outputs[0]].fact.clone();
            movement.outputs = smallvec![rewriter.add(Value::of(fact))];
        }
        moved = movement.outputs[0];
        rewriter.keep(movement);
    }
    rewriter.changed();
}
