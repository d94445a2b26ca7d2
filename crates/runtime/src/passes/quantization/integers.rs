//! Filters that are integers times a scale per output channel, however a tool writes them: Convert,
//! perhaps Subtract of zero points, and Multiply; or, in files of 2020, Convert and FakeQuantize.

use crate::graph::net::{Integers, Net, Node, ValueId};
use crate::graph::pattern::{either_way, operands};
use crate::tensor::Tensor;
use infer::ops::binary::Kind;
use infer::ops::fake_quantize::FakeQuantize;
use infer::ops::reshape::Reshape;
use ir::ElementType;
use std::collections::HashMap;

/// Zero points of filters that count as integers differ from them by no more, as a fraction of the
/// distance between two integers. Tools of 2020 and 2021 wrote zero points in f16.
const TOLERANCE: f64 = 1e-4;

/// The input of a Subtract of zero points that are 0 or negligibly small.
pub(super) fn without_zero_points(net: &Net, node: &Node) -> Option<ValueId> {
    let [data, zeros] = operands(node, Kind::Subtract)?;
    let zeros = net.values[zeros].constant.as_ref()?.as_slice::<f32>()?;
    let keeps = net.sizes(data)? == net.sizes(*node.outputs.first()?)?;
    (keeps && zeros.iter().all(|zero| f64::from(zero.abs()) <= TOLERANCE)).then_some(data)
}

/// The integers times scales that a node makes of integers that were `converted`, or reshapes.
pub(super) fn integers(
    net: &Net,
    converted: &HashMap<ValueId, ValueId>,
    node: &Node,
) -> Option<Integers> {
    let values = |factor: ValueId| {
        let values = net.values[*converted.get(&factor)?].constant.as_ref()?;
        let keeps = net.sizes(*node.outputs.first()?)?[..] == *values.sizes();
        values.sizes().first().filter(|_| keeps).map(|outputs| (values, *outputs))
    };
    let product = either_way(node, Kind::Multiply).find_map(|[factor, scale]| {
        let (values, outputs) = values(factor)?;
        let scales = per_channel(net, scale, (outputs, values.sizes().len()))?;
        // A window of padding alone sums to 0, and 0 times an infinite scale would be NaN.
        let fits = values.element_type() == ElementType::I8 && scales.iter().all(|s| s.is_finite());
        fits.then(|| Integers { values: values.clone(), scales: scales.into() })
    });
    let rescaled = || {
        let (values, outputs) = values(*node.inputs.first()?)?;
        rescaled(net, node, values, outputs)
    };
    product.or_else(rescaled).or_else(|| reshaped(net, node))
}

/// The integers of a Reshape that keeps the output channels, as in front of a GroupConvolution.
fn reshaped(net: &Net, node: &Node) -> Option<Integers> {
    let data = *node.is::<Reshape>().and(node.inputs.first())?;
    let Integers { values, scales } = net.values[data].integers.as_deref()?;
    let sizes = net.sizes(*node.outputs.first()?).filter(|to| to.first() == values.sizes().first());
    let values = values.part(0, values.element_type(), &sizes?).ok()?;
    Some(Integers { values, scales: scales.clone() })
}

/// The integers that a FakeQuantize moves by a zero point and scales: one integer to each level.
fn rescaled(net: &Net, node: &Node, values: &Tensor, outputs: usize) -> Option<Integers> {
    let levels = node.is::<FakeQuantize>()?.levels();
    let &[_, ref limits @ ..] = &node.inputs[..] else { return None };
    let limits: [ValueId; 4] = limits.try_into().ok()?;
    let shape = (outputs, values.sizes().len());
    let [from_low, from_high, low, high] =
        limits.map(|limit| per_channel(net, limit, shape).unwrap_or_default());
    let given: Vec<i32> = match values.element_type() {
        ElementType::U8 => values.as_slice::<u8>()?.iter().map(|q| i32::from(*q)).collect(),
        ElementType::I8 => values.as_slice::<i8>()?.iter().map(|q| i32::from(*q)).collect(),
        _ => return None,
    };
    let of_one = given.len().checked_div(outputs).filter(|len| *len > 0)?;
    let (mut moved, mut scales) = (Vec::with_capacity(given.len()), Vec::new());
    for (channel, own) in given.chunks_exact(of_one).enumerate() {
        let limit = |limits: &[f32]| limits.get(channel).map(|x| f64::from(*x));
        let (from, to) = (limit(&from_low)?..limit(&from_high)?, limit(&low)?..limit(&high)?);
        let steps = levels.checked_sub(1).filter(|steps| *steps > 0)? as f64;
        let scale = (to.end - to.start) / steps;
        let zero = from.start - to.start / scale;
        let is_integer = |x: f64| (x - x.round()).abs() <= TOLERANCE;
        if from.end - from.start != steps || !is_integer(zero) || !is_integer(from.start) {
            return None;
        }
        let bounds = (from.start - zero.round(), from.end - zero.round());
        let fits = scale.is_finite() && bounds.0 >= -128.0 && bounds.1 <= 127.0;
        for q in own.iter().map(|q| f64::from(*q) - zero.round()) {
            moved.push(fits.then(|| q.clamp(bounds.0, bounds.1).round() as i8)?);
        }
        scales.push(scale as f32);
    }
    let values = Tensor::from_vec(values.sizes(), moved).ok()?;
    Some(Integers { values, scales: scales.into() })
}

/// A constant with one number for each output channel, which come first, or one for all.
fn per_channel(net: &Net, constant: ValueId, (outputs, rank): (usize, usize)) -> Option<Vec<f32>> {
    let constant = net.values[constant].constant.as_ref()?;
    match (constant.as_slice::<f32>()?, constant.sizes()) {
        ([one], _) => Some(vec![*one; outputs]),
        (all, [own, rest @ ..]) => {
            let of_channels = *own == outputs && rest.len() + 1 == rank;
            (of_channels && rest.iter().all(|n| *n == 1)).then(|| all.to_vec())
        }
        _ => None,
    }
}
