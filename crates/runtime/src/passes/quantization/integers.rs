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
        keeps.then_some(values)
    };
    let product = either_way(node, Kind::Multiply).find_map(|[factor, scale]| {
        let values = values(factor)?;
        let scales = per_channel(net, scale, values.sizes())?;
        // A window of padding alone sums to 0, and 0 times an infinite scale would be NaN.
        let fits = values.element_type() == ElementType::I8 && scales.iter().all(|s| s.is_finite());
        fits.then(|| Integers { values: values.clone(), scales: scales.into() })
    });
    let rescaled = || rescaled(net, node, values(*node.inputs.first()?)?);
    product.or_else(rescaled).or_else(|| reshaped(net, node))
}

/// The integers of a Reshape that keeps the elements of each output channel, as in front of a
/// GroupConvolution.
fn reshaped(net: &Net, node: &Node) -> Option<Integers> {
    let data = *node.is::<Reshape>().and(node.inputs.first())?;
    let Integers { values, scales } = net.values[data].integers.as_deref()?;
    let (from, to) = (values.sizes(), net.sizes(*node.outputs.first()?)?);
    // Groups of output channels, or each channel a group.
    let keeps = to.first() == from.first()
        || to.len() > from.len() && to.get(..2)?.iter().product::<usize>() == *from.first()?;
    let values = values.part(0, values.element_type(), &to).ok().filter(|_| keeps)?;
    Some(Integers { values, scales: scales.clone() })
}

/// The integers that a FakeQuantize moves by a zero point and scales: one integer to each level.
fn rescaled(net: &Net, node: &Node, values: &Tensor) -> Option<Integers> {
    let levels = node.is::<FakeQuantize>()?.levels();
    let &[_, ref limits @ ..] = &node.inputs[..] else { return None };
    let limits: [ValueId; 4] = limits.try_into().ok()?;
    let limits = limits.map(|limit| per_channel(net, limit, values.sizes()).unwrap_or_default());
    let outputs = limits.iter().map(Vec::len).max()?;
    let [from_low, from_high, low, high] =
        limits.map(|limit| repeated(&limit, outputs).unwrap_or_default());
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

/// A constant with one number for each index of the first axes of values with these sizes, one of
/// these axes or more, or one for all.
fn per_channel(net: &Net, constant: ValueId, of: &[usize]) -> Option<Vec<f32>> {
    let constant = net.values[constant].constant.as_ref()?;
    let all = constant.as_slice::<f32>()?;
    let own = constant.sizes();
    let first = own.iter().zip(of).take_while(|(own, of)| own == of).count();
    let is_rest_one = own.iter().skip(first).all(|n| *n == 1);
    (all.len() == 1 || own.len() == of.len() && is_rest_one).then(|| all.to_vec())
}

/// Numbers for `count` channels, each for as many that follow each other.
pub(super) fn repeated(numbers: &[f32], count: usize) -> Option<Vec<f32>> {
    let each = count.checked_div(numbers.len()).filter(|each| each * numbers.len() == count)?;
    Some(numbers.iter().flat_map(|number| std::iter::repeat_n(*number, each)).collect())
}
