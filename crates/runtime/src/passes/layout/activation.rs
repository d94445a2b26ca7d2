//! Activation hoisting. An activation or FakeQuantize behind movements, as behind the pixel shuffle
//! of a super-resolution model, runs before them instead. There it becomes a post-op of the
//! convolution or MatMul that makes the data, or has fewer elements. The bits stay, except for
//! numbers halfway between two quantized values.

use crate::fused::hard_swish::HardSwish;
use crate::graph::net::{Net, Node, Value, ValueId};
use crate::graph::pattern::{number, seen};
use crate::graph::rewriter::GraphRewriter;
use crate::ops::unary::function;
use crate::passes::context::PassCx;
use crate::passes::fusion::post_ops::takes_post_ops;
use crate::passes::layout::movement::{is_movement, is_nearest};
use crate::passes::quantization::lowering::rounding;
use crate::tensor::Tensor;
use infer::ops::binary::Binary;
use infer::ops::unary::Unary;
use smallvec::smallvec;

pub(crate) fn hoist(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, node| match movements(rewriter, &node) {
        Some(chain) => hoisted(rewriter, node, &chain),
        None => rewriter.keep(node),
    })
}

/// The results of the movements that a node may run before, the last first. Nothing else reads
/// them. They begin at a convolution or MatMul that takes the node as a post-op, or they repeat
/// elements.
fn movements(rewriter: &GraphRewriter<'_>, node: &Node) -> Option<Vec<ValueId>> {
    let net = &*rewriter.net;
    let quantizes = rounding(net, node).is_some();
    if !quantizes && !is_activation(net, node) {
        return None;
    }
    let count = |value: ValueId| Some(net.sizes(value)?.iter().product::<usize>());
    let mut value = *node.inputs.first()?;
    let mut chain = Vec::new();
    loop {
        if !chain.is_empty() && is_product(rewriter, value) {
            return Some(chain);
        }
        let next = rewriter.only_for(value).filter(|maker| {
            let moves = is_movement(net, maker) || quantizes && is_nearest(net, maker);
            moves && maker.outputs.len() == 1
        });
        let source = next.and_then(|maker| maker.inputs.first().copied());
        // A part of the data is less work.
        let Some(source) = source.filter(|source| count(*source) <= count(value)) else {
            let repeats = chain.first().is_some_and(|last| count(value) < count(*last));
            return repeats.then_some(chain);
        };
        chain.push(value);
        value = source;
    }
}

/// Whether a node applies a function that a post-op may be.
fn is_activation(net: &Net, node: &Node) -> bool {
    let is_function = |unary: &Unary| seen(net, node, |cx| function(unary, cx)).is_ok();
    let is_activation =
        node.is::<Unary>().is_some_and(is_function) || node.fused::<HardSwish>().is_some();
    is_activation && node.outputs.first().is_some_and(|v| net.is_f32(*v))
}

/// Whether a value is made by a convolution or MatMul, perhaps with constants added or multiplied,
/// and an activation.
fn is_product(rewriter: &GraphRewriter<'_>, mut value: ValueId) -> bool {
    let net = &*rewriter.net;
    let is_constant = |v: &ValueId| net.values[*v].constant.is_some();
    loop {
        let Some(maker) = rewriter.only_for(value) else { return false };
        if takes_post_ops(net, maker) {
            return true;
        }
        match &maker.inputs[..] {
            [data, ..] if is_activation(net, maker) => value = *data,
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
    let first = chain.last().and_then(|value| rewriter.maker(*value));
    let Some(&source) = first.and_then(|first| first.inputs.first()) else {
        return rewriter.keep(node);
    };
    let mut movements: Vec<Node> = chain.iter().filter_map(|v| rewriter.take(*v)).collect();
    let (last, layer) = (std::mem::take(&mut node.outputs), node.layer);
    node.inputs[0] = source;
    // Limits may have more axes than the data have here.
    for limit in node.inputs.iter_mut().skip(1) {
        let scalar = number(rewriter.net, *limit).map(|limit| Tensor::from_vec(&[], vec![limit]));
        if let Some(Ok(scalar)) = scalar {
            *limit = rewriter.add(Value::known(scalar));
        }
    }
    let quant_params = last.first().and_then(|v| rewriter.net.values[*v].quant_params);
    let like = |rewriter: &mut GraphRewriter<'_>, value: ValueId| {
        let fact = rewriter.net.values[value].fact.clone();
        rewriter.add_for_one(Value { quant_params, ..Value::of(fact) })
    };
    let mut moved = like(rewriter, source);
    node.outputs = smallvec![moved];
    rewriter.keep(node);
    while let Some(mut movement) = movements.pop() {
        // Messages about both name the activation, whose value the file has.
        movement.layer = layer;
        movement.inputs[0] = moved;
        if movements.is_empty() {
            movement.outputs = last.clone();
        } else {
            movement.outputs = smallvec![like(rewriter, movement.outputs[0])];
        }
        moved = movement.outputs[0];
        rewriter.keep(movement);
    }
    rewriter.changed();
}
