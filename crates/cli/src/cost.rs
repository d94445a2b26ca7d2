//! What a layer costs: floating-point operations, as far as its rule tells.

use infer::{Fact, Facts};
use ir::{Graph, Layer};

/// Multiplications and additions of a layer, two for each pair; `None` where they cannot be told,
/// such as for open shapes. Copies count nothing, other layers one for each element they give.
pub(crate) fn operations(graph: &Graph, facts: &Facts, position: usize) -> Option<u64> {
    let layer = graph.layers().get(position)?;
    let module = infer::find(&layer.op_type, &layer.version).ok()?.module;
    let output = facts.node(position)?.outputs.first()?;
    let input = |i: usize| facts.output(*graph.inputs_of(position).get(i)?);
    let out = volume(output)?;
    match module {
        module if MOVES.split(' ').any(|name| name == module) => Some(0),
        "convolution" => convolution(layer, input(0)?, input(1)?, out),
        "matmul" => out.checked_mul(depth(layer, input(0)?)?)?.checked_mul(2),
        "scaled_dot_product_attention" => {
            let keys = size(input(1)?, 2)?;
            let width = size(input(0)?, 1)?;
            let scores = volume(input(0)?)?.checked_div(width)?.checked_mul(keys)?;
            scores
                .checked_mul(width)?
                .checked_mul(2)?
                .checked_add(out.checked_mul(keys)?.checked_mul(2)?)
        }
        "recurrent" => {
            // Every weight is used once for each row and step.
            let weights = volume(input(4)?)?.checked_add(volume(input(5)?)?)?;
            let steps = volume(input(0)?)?.checked_div(size(input(0)?, 1)?)?;
            weights.checked_mul(steps)?.checked_mul(2)
        }
        _ => Some(out),
    }
}

/// Rule modules of operations that only say where values are, or copy them.
const MOVES: &str = "broadcast caffe_reshape concat constant convert convert_promote_types \
                     extract_image_patches gather gather_elements gather_nd mxnet_reshape pad \
                     parameter reorg_yolo reshape result reverse reverse_sequence roll \
                     scatter_elements_update scatter_nd_update scatter_update select shape_of \
                     shuffle_channels slice slice_scatter space_to_batch space_to_depth split \
                     squeeze static_reshape strided_slice transpose variable";

/// The filters run over the result, or backwards over the image: one position for each of them.
fn convolution(layer: &Layer, data: &Fact, filters: &Fact, out: u64) -> Option<u64> {
    let grouped = layer.op_type.to_ascii_lowercase().starts_with("group");
    let groups = if grouped { size_at(filters, 0)? } else { 1 };
    let backward = layer.op_type.to_ascii_lowercase().contains("backprop");
    let first = size_at(filters, usize::from(grouped))?;
    let each = volume(filters)?.checked_div(groups)?.checked_div(first.max(1))?;
    let positions = if backward { volume(data)? } else { out };
    positions.checked_mul(each)?.checked_mul(2)
}

fn depth(layer: &Layer, left: &Fact) -> Option<u64> {
    let turned = layer.attribute("transpose_a").is_some_and(|t| t == "true" || t == "1");
    let rank = left.shape.rank()?;
    size(left, if turned && rank > 1 { 2 } else { 1 })
}

/// The size of a dim, counted from the last, which is 1.
fn size(fact: &Fact, from_end: usize) -> Option<u64> {
    let rank = fact.shape.rank()?;
    size_at(fact, rank.checked_sub(from_end)?)
}

fn size_at(fact: &Fact, axis: usize) -> Option<u64> {
    u64::try_from(fact.shape.dims()?.get(axis)?.value()?).ok()
}

fn volume(fact: &Fact) -> Option<u64> {
    u64::try_from(fact.shape.volume().value()?).ok()
}

/// For each output of a graph, the terms that are added up on the longest way to it from an input:
/// a rounding each. Layers whose shapes are open count as one.
pub(crate) fn longest_sums(graph: &Graph, facts: &Facts) -> Vec<u64> {
    let mut sums = vec![0u64; graph.layers().len()];
    for &position in graph.order() {
        let before = graph.inputs_of(position).iter().map(|source| sums[source.layer]);
        let before = before.max().unwrap_or(0);
        sums[position] = before.saturating_add(terms(graph, facts, position).unwrap_or(1));
    }
    graph.results().iter().map(|position| sums[*position]).collect()
}

/// The terms of each sum that a layer computes; 1 for what is no sum.
fn terms(graph: &Graph, facts: &Facts, position: usize) -> Option<u64> {
    let layer = graph.layers().get(position)?;
    let module = infer::find(&layer.op_type, &layer.version).ok()?.module;
    let out = volume(facts.node(position)?.outputs.first()?)?.max(1);
    let data = || facts.output(*graph.inputs_of(position).first()?);
    match module {
        "reduce" => volume(data()?)?.checked_div(out),
        "softmax" | "normalize" => size(data()?, 1),
        _ => Some(operations(graph, facts, position)?.div_ceil(out.checked_mul(2)?)),
    }
}

/// Bytes of a tensor.
pub(crate) fn bytes(fact: &Fact) -> Option<u64> {
    fact.element_type.packed_len(volume(fact)?)
}

/// The most bytes of tensors that are needed at the same time, when layers run in the order of the
/// graph and each tensor goes when its last reader is done. Constants do not count.
pub(crate) fn peak(graph: &Graph, facts: &Facts) -> Option<u64> {
    let mut last = vec![0usize; graph.layers().len()];
    for (step, &position) in graph.order().iter().enumerate() {
        graph.inputs_of(position).iter().for_each(|source| last[source.layer] = step);
    }
    let mut ends: Vec<Vec<u64>> = vec![Vec::new(); graph.order().len()];
    let (mut now, mut most) = (0u64, 0u64);
    for (step, &position) in graph.order().iter().enumerate() {
        let layer = graph.layers().get(position)?;
        if !layer.is("Const") {
            let outputs = facts.node(position)?.outputs.iter().map(bytes);
            let own = outputs.sum::<Option<u64>>()?;
            now = now.checked_add(own)?;
            ends.get_mut(last[position].max(step))?.push(own);
        }
        most = most.max(now);
        now -= ends.get(step)?.iter().sum::<u64>();
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{ElementType, GraphBuilder, OutputRef};

    fn cost(g: GraphBuilder, of: OutputRef) -> u64 {
        let graph = g.finish().unwrap();
        let facts = infer::analyse(&graph, &infer::Inputs::default()).facts;
        operations(&graph, &facts, of.layer).unwrap()
    }

    #[test]
    fn products_and_convolutions() {
        let mut g = GraphBuilder::new("g");
        let a = g.parameter("a", ElementType::F32, "2,5,3");
        let b = g.parameter("b", ElementType::F32, "2,3,7");
        let y = g.layer("MatMul", "opset1").inputs(&[a, b]).output();
        g.result("y", y);
        assert_eq!(cost(g, y), 2 * (2 * 5 * 7) * 3);

        let mut g = GraphBuilder::new("g");
        let x = g.parameter("x", ElementType::F32, "1,8,10,10");
        let w = g.parameter("w", ElementType::F32, "4,1,2,3,3");
        let strides = [("strides", "1,1"), ("dilations", "1,1")];
        let pads = [("pads_begin", "1,1"), ("pads_end", "1,1")];
        let y = g.layer("GroupConvolution", "opset1").attributes(&strides).attributes(&pads);
        let y = y.inputs(&[x, w]).output();
        g.result("y", y);
        // Four channels, each from the two channels of its group, through 3 by 3.
        assert_eq!(cost(g, y), 2 * (4 * 10 * 10) * (2 * 9));
    }

    #[test]
    fn what_moves_values_computes_nothing() {
        let mut g = GraphBuilder::new("g");
        let x = g.parameter("x", ElementType::F32, "2,5,3");
        let axes = g.constant_i64(&[2, 0, 1]);
        let y = g.layer("Transpose", "opset1").inputs(&[x, axes]).output();
        g.result("y", y);
        assert_eq!(cost(g, y), 0);
        let known = |name: &str| infer::ROWS.iter().any(|row| row.module == name);
        assert!(MOVES.split(' ').all(known));
    }

    #[test]
    fn sums_add_up_along_the_longest_way() {
        let mut g = GraphBuilder::new("g");
        let x = g.parameter("x", ElementType::F32, "2,30");
        let w = g.parameter("w", ElementType::F32, "30,50");
        let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
        let axis = g.constant_i64(&[1]);
        let sum = g.layer("ReduceSum", "opset1").attributes(&[("keep_dims", "true")]);
        let sum = sum.inputs(&[y, axis]).output();
        let z = g.layer("Add", "opset1").inputs(&[y, sum]).output();
        g.result("z", z);
        g.result("w", w);
        let graph = g.finish().unwrap();
        let facts = infer::analyse(&graph, &infer::Inputs::default()).facts;
        // 30 of the product, 50 of the sum, one addition.
        assert_eq!(longest_sums(&graph, &facts), [81, 0]);
    }

    #[test]
    fn the_peak_is_what_lives_together() {
        let mut g = GraphBuilder::new("g");
        let x = g.parameter("x", ElementType::F32, "10");
        let a = g.layer("Relu", "opset1").inputs(&[x]).output();
        let b = g.layer("Exp", "opset1").inputs(&[a]).output();
        let c = g.layer("Add", "opset1").inputs(&[b, b]).output();
        g.result("y", c);
        let graph = g.finish().unwrap();
        let facts = infer::analyse(&graph, &infer::Inputs::default()).facts;
        assert_eq!(peak(&graph, &facts), Some(2 * 40));
    }
}
