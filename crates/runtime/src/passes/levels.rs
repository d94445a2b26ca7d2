//! Data of convolutions in integers are rounded where they are read, unless a convolution has rounded
//! them among its steps: then they stay bytes, if all that reads them takes levels. That are such
//! convolutions, what is added to their sums, and the largest of a window.

use super::PassCx;
use super::integers::rounding;
use super::sweep::Sweep;
use crate::fused::integers::{IntegerConvolution, Reads};
use crate::fused::pool::PoolLast;
use crate::fused::then::{Operand, Then};
use crate::net::{Made, Net, Node, Operation, ValueId};
use infer::Fact;
use ir::ElementType;
use std::sync::Arc;

/// Data that are rounded for a convolution alone are rounded while it reads them.
pub(super) fn round(net: &mut Net, _: &PassCx<'_>) -> usize {
    Sweep::replacing(net, |sweep, node| {
        let conv = node.made::<IntegerConvolution>()?;
        let Reads::Values { channels_first, .. } = conv.reads else { return None };
        let maker = sweep.only_for(*node.inputs.first()?)?;
        let level = rounding(sweep.net, maker)?.to;
        let reads = Reads::Values { level, channels_first };
        let operation = Operation::Made(Arc::new(IntegerConvolution { reads, ..conv.clone() }));
        let mut node = Node { operation, ..node.clone() };
        node.inputs[0] = *maker.inputs.first()?;
        Some(node)
    })
}

/// Keeps what convolutions round as bytes.
pub(super) fn keep(net: &mut Net, _: &PassCx<'_>) -> usize {
    let mut readers = vec![Vec::new(); net.values.len()];
    for (i, node) in net.nodes.iter().enumerate() {
        node.inputs.iter().for_each(|v| readers[*v].push(i));
    }
    let mut found = 0;
    for i in 0..net.nodes.len() {
        let Some((conv, values)) = writing(net, &readers, &net.nodes[i]) else { continue };
        net.nodes[i].operation = Operation::Made(Arc::new(conv));
        store(net, &readers, net.nodes[i].outputs[0], values);
        found += 1;
    }
    found
}

/// A convolution that writes levels, if its readers take them, with the distance between their values
/// and the first of those.
fn writing(
    net: &Net,
    readers: &[Vec<usize>],
    node: &Node,
) -> Option<(IntegerConvolution, (f32, f32))> {
    let mut conv = node.made::<IntegerConvolution>()?.clone();
    let Some(Then::Quantize(to, scale, low)) = conv.then.pop() else { return None };
    conv.writes = Some(to);
    is_taken(net, readers, *node.outputs.first()?, POOLS).then_some((conv, (scale, low)))
}

/// Pools one behind the other that levels pass through, at most: a file may hold any number, and each is
/// a call inside that of the one before.
const POOLS: usize = 8;

/// Whether all that reads a value takes levels, behind so many pools at most.
fn is_taken(net: &Net, readers: &[Vec<usize>], value: ValueId, pools: usize) -> bool {
    let takes = |node: &Node| match node.made::<IntegerConvolution>() {
        Some(conv) => {
            // Levels of another FakeQuantize are found from values.
            let is_data = |i: usize| i == 0 && conv.reads_levels(net.values[value].levels);
            let is_added = |i| conv.then.contains(&Then::Add(Operand::Matrix(i)));
            let mut places = node.inputs.iter().enumerate().filter(|(_, v)| **v == value);
            places.all(|(i, _)| is_data(i) || is_added(i))
        }
        None => {
            let levels = |v: ValueId| net.values[v].levels;
            let keeps = levels(value).is_some() && levels(node.outputs[0]) == levels(value);
            let passes = node.made::<PoolLast>().is_some() && keeps && pools > 0;
            passes && is_taken(net, readers, node.outputs[0], pools - 1)
        }
    };
    !net.outputs.contains(&value) && readers[value].iter().all(|i| takes(&net.nodes[*i]))
}

/// Makes a value levels that [`is_taken`], and what reads it read those.
fn store(net: &mut Net, readers: &[Vec<usize>], value: ValueId, (scale, low): (f32, f32)) {
    let shape = net.values[value].fact.shape.clone();
    net.values[value].fact = Fact::new(ElementType::U8, shape);
    for &i in &readers[value] {
        let node = &net.nodes[i];
        let made: Arc<dyn Made> = match (node.made::<IntegerConvolution>(), node.made::<PoolLast>())
        {
            (Some(conv), _) => {
                let mut conv = conv.clone();
                if node.inputs[0] == value {
                    conv.reads = Reads::Levels;
                }
                for then in &mut conv.then {
                    match *then {
                        Then::Add(Operand::Matrix(at)) if node.inputs[at] == value => {
                            *then = Then::AddLevels(at, scale, low);
                        }
                        _ => {}
                    }
                }
                Arc::new(conv)
            }
            (None, Some(pool)) => Arc::new(PoolLast { of_levels: true, ..pool.clone() }),
            (None, None) => continue,
        };
        let pooled = node.made::<PoolLast>().map(|_| node.outputs[0]);
        net.nodes[i].operation = Operation::Made(made);
        if let Some(output) = pooled {
            store(net, readers, output, (scale, low));
        }
    }
}
