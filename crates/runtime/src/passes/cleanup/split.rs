//! Split and Concat elimination. A Split of what was concatenated and a Concat of what was split
//! cancel. Detectors have many of both.

use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::rewriter::GraphRewriter;
use crate::passes::context::PassCx;
use crate::tensor::Sizes;
use infer::ops::concat::Concat;
use infer::ops::reshape::Reshape;
use infer::ops::split::Split;
use smallvec::{SmallVec, smallvec};

pub(crate) fn eliminate(net: &mut Net, _: &PassCx<'_>) -> usize {
    GraphRewriter::over(net, |rewriter, mut node| {
        if joined_again(rewriter, &mut node).is_some() {
            rewriter.changed();
        }
        match (&node.inputs[..], node.is::<Concat>().is_some()) {
            (&[input], true) => rewriter.replace(&node, node.outputs[0], input),
            _ => match divided_again(rewriter, &node) {
                Some(_) => rewriter.changed(),
                None => rewriter.keep(node),
            },
        }
    })
}

/// Lets a Concat read what a Split has divided, if it concatenates all parts in their order. Only
/// of quantized values: convolutions in f32 read the inputs of a Concat, if they are equally long.
fn joined_again(rewriter: &GraphRewriter<'_>, node: &mut Node) -> Option<()> {
    let net = &*rewriter.net;
    let &[output] = &node.outputs[..] else { return None };
    net.values[output].quant_params?;
    let axis = node.is::<Concat>()?.axis(net.sizes(output)?.len()).ok()?;
    let whole = |inputs: &[ValueId]| {
        let split = rewriter.maker(*inputs.first()?).filter(|n| n.is::<Split>().is_some())?;
        let source = *split.inputs.first()?;
        let is_along = net.sizes(source)?.get(axis) != net.sizes(inputs[0])?.get(axis);
        (inputs.starts_with(&split.outputs) && is_along).then_some((source, split.outputs.len()))
    };
    let mut inputs = SmallVec::new();
    let mut at = 0;
    while at < node.inputs.len() {
        let (input, count) = whole(&node.inputs[at..]).unwrap_or((node.inputs[at], 1));
        inputs.push(input);
        at += count;
    }
    let changes = inputs.len() < node.inputs.len();
    node.inputs = inputs;
    changes.then_some(())
}

/// Writes a Split as a Concat for each part, if it divides a Concat along another axis into what
/// was concatenated to make each input. Reshapes behind that axis may lie between.
fn divided_again(rewriter: &mut GraphRewriter<'_>, node: &Node) -> Option<()> {
    node.is::<Split>()?;
    let net = &*rewriter.net;
    let (data, output) = (*node.inputs.first()?, *node.outputs.first()?);
    let all = net.sizes(data).filter(|_| net.is_f32(data))?;
    let own: Vec<Sizes> = node.outputs.iter().map(|v| net.sizes(*v)).collect::<Option<_>>()?;
    let axis = all.iter().zip(&*net.sizes(output)?).position(|(all, part)| all != part)?;
    let concat = rewriter.only_for(data)?;
    let other = concat.is::<Concat>()?.axis(all.len()).ok().filter(|other| *other > axis)?;
    let inputs: Vec<Input> = concat
        .inputs
        .iter()
        .map(|&input| Input::of(rewriter, input, (axis, &own)))
        .collect::<Option<_>>()?;
    for (part, &output) in node.outputs.iter().enumerate() {
        let mut parts = SmallVec::new();
        for Input { sizes, inputs } in &inputs {
            let mut to = sizes.clone();
            to[axis] = own[part][axis];
            parts.push(rewriter.reshaped(inputs[part], &to, node.layer)?);
        }
        let operation = Operation::source(Concat::along(other))?;
        let outputs = smallvec![output];
        rewriter.keep(Node { operation, inputs: parts, outputs, layer: node.layer });
    }
    Some(())
}

/// An input of a Concat that is a Concat itself, perhaps reshaped.
struct Input {
    sizes: Sizes,
    inputs: SmallVec<[ValueId; 4]>,
}

impl Input {
    /// An input, if it was concatenated along `axis` of parts as long as `parts` are.
    fn of(
        rewriter: &GraphRewriter<'_>,
        input: ValueId,
        (axis, parts): (usize, &[Sizes]),
    ) -> Option<Input> {
        let net = &*rewriter.net;
        let sizes = net.sizes(input)?;
        let mut maker = rewriter.only_for(input)?;
        if maker.is::<Reshape>().is_some() {
            let from = *maker.inputs.first()?;
            // Then only axes behind `axis` differ.
            net.sizes(from).filter(|from| from.get(..=axis) == sizes.get(..=axis))?;
            maker = rewriter.only_for(from)?;
        }
        let value = *maker.outputs.first()?;
        maker.is::<Concat>()?.axis(net.sizes(value)?.len()).ok().filter(|own| *own == axis)?;
        let length = |v: &ValueId| net.sizes(*v)?.get(axis).copied();
        let same = maker.inputs.iter().map(length).eq(parts.iter().map(|s| s.get(axis).copied()));
        same.then(|| Input { sizes, inputs: maker.inputs.clone() })
    }
}
