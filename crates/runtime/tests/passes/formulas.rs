//! Functions that graphs write as formulas: what each form becomes, and that the numbers stay.

use super::{binary, check, constant, unary, with_ints};
use ir::ElementType::F32;
use ir::{GraphBuilder, OutputRef};

fn number(g: &mut GraphBuilder, value: f32) -> OutputRef {
    g.constant_f32(&[1, 1, 1], &[value])
}

/// `half · x · (1 + erf(scale · x))` behind a MatMul; `order` is the order of the multiplications.
fn gelu(order: usize, [half, one, scale]: [f32; 3], is_difference: bool) -> ir::Graph {
    let mut g = GraphBuilder::new("gelu");
    let x = g.parameter("x", F32, "2,9,24");
    let weights = constant(&mut g, &[24, 24], 3);
    let x = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
    let [half, one, scale] = [half, one, scale].map(|value| number(&mut g, value));
    let erf = binary(&mut g, "Multiply", x, scale);
    let erf = unary(&mut g, "Erf", erf);
    let weight = binary(&mut g, if is_difference { "Subtract" } else { "Add" }, one, erf);
    let [a, b, c] = [[x, half, weight], [half, weight, x], [weight, x, half]][order];
    let y = binary(&mut g, "Multiply", a, b);
    let y = binary(&mut g, "Multiply", c, y);
    g.result("y", y);
    g.finish().unwrap()
}

#[test]
fn gelu_joins_the_product() {
    let root = std::f32::consts::FRAC_1_SQRT_2;
    for order in 0..3 {
        check(&gelu(order, [0.5, 1.0, root], false), &[2, 9, 24], 1e-6, &["matmul"]);
        check(&gelu(order, [0.5, 1.0, -root], true), &[2, 9, 24], 1e-6, &["matmul"]);
    }
}

/// The same pattern with other constants is another function.
#[test]
fn what_only_looks_like_gelu_stays() {
    let root = std::f32::consts::FRAC_1_SQRT_2;
    let (sum, difference) = (
        &["matmul", "element-wise", "element-wise"][..],
        &["matmul", "element-wise", "binary", "element-wise"][..],
    );
    for (numbers, is_difference) in [
        ([0.5, 1.0, -root], false),
        ([0.5, 1.0, root], true),
        ([0.5, 1.0, 0.7], false),
        ([0.25, 1.0, root], false),
        ([0.5, 1.5, root], false),
    ] {
        let chains = if is_difference { difference } else { sum };
        check(&gelu(0, numbers, is_difference), &[2, 9, 24], 1e-6, chains);
    }
}

/// HSwish behind a MatMul, its three factors multiplied in an order, with `sum` and `factor` in
/// place of 3 and 1/6; `divides` writes the factor as a division by 6.
fn hard_swish(order: usize, [sum, factor]: [f32; 2], divides: bool) -> ir::Graph {
    let mut g = GraphBuilder::new("hard_swish");
    let x = g.parameter("x", F32, "2,9,24");
    let weights = constant(&mut g, &[24, 24], 3);
    let x = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
    let three = number(&mut g, sum);
    let (kind, by) = if divides { ("Divide", 6.0) } else { ("Multiply", factor) };
    let by = number(&mut g, by);
    let gate = binary(&mut g, "Add", x, three);
    let bounds = [("min", "0"), ("max", "6")];
    let gate = g.layer("Clamp", "opset1").attributes(&bounds).inputs(&[gate]).output();
    let y = if order == 0 {
        let gate = binary(&mut g, kind, gate, by);
        binary(&mut g, "Multiply", x, gate)
    } else {
        let y = binary(&mut g, "Multiply", gate, x);
        binary(&mut g, kind, y, by)
    };
    g.result("y", y);
    g.finish().unwrap()
}

/// The factor may be rounded to f16. The bits stay, unless 6 divides.
#[test]
fn hard_swish_joins_the_product() {
    for order in 0..2 {
        for factor in [1.0 / 6.0, 0.16662598, 1.0] {
            check(&hard_swish(order, [3.0, factor], false), &[2, 9, 24], 0.0, &["matmul"]);
        }
        check(&hard_swish(order, [3.0, 0.0], true), &[2, 9, 24], 1e-6, &["matmul"]);
    }
}

/// The same pattern with another shift is another function.
#[test]
fn what_only_looks_like_hard_swish_stays() {
    let chain = ["matmul", "element-wise"];
    check(&hard_swish(0, [2.5, 0.2], false), &[2, 9, 24], 0.0, &chain);
}

/// `x · s + (β - mean · s)` with `s = γ / sqrt(variance + ε)`, in the forms that occur.
fn layer_norm(g: &mut GraphBuilder, x: OutputRef, form: usize, of: OutputRef) -> OutputRef {
    let [gamma, beta] = [4, 5].map(|seed| constant(g, &[24], seed));
    let [eps, by, one] = [1e-3, -0.5, 1.0].map(|value| number(g, value));
    let mean = with_ints(g, "ReduceMean", of, &[-1]);
    let squares = binary(g, "SquaredDifference", x, mean);
    let variance = with_ints(g, "ReduceMean", squares, &[2]);
    let sum = binary(g, "Add", variance, eps);
    let inverse = match form {
        0 | 2 => binary(g, "Power", sum, by),
        _ => {
            let root = unary(g, "Sqrt", sum);
            binary(g, "Divide", one, root)
        }
    };
    let scale = if form < 2 { binary(g, "Multiply", inverse, gamma) } else { inverse };
    let scaled = binary(g, "Multiply", x, scale);
    let minus = number(g, -1.0);
    let shift = match form {
        0 | 3 => {
            let moved = binary(g, "Multiply", mean, scale);
            binary(g, "Subtract", beta, moved)
        }
        1 => {
            let negative = binary(g, "Multiply", mean, minus);
            let moved = binary(g, "Multiply", scale, negative);
            binary(g, "Add", moved, beta)
        }
        _ => {
            let negative = unary(g, "Negative", mean);
            binary(g, "Multiply", negative, scale)
        }
    };
    binary(g, "Add", shift, scaled)
}

#[test]
fn layer_normalisation_is_one_step() {
    for form in 0..4 {
        let mut g = GraphBuilder::new("norm");
        let x = g.parameter("x", F32, "2,9,24");
        let y = layer_norm(&mut g, x, form, x);
        g.result("y", y);
        check(&g.finish().unwrap(), &[2, 9, 24], 2e-6, &["normalize"]);
    }
}

/// Subtracting the mean of another tensor is no normalization.
#[test]
fn rows_less_the_mean_of_others_are_not_normalised() {
    let mut g = GraphBuilder::new("norm");
    let x = g.parameter("x", F32, "2,9,24");
    let other = unary(&mut g, "Tanh", x);
    let y = layer_norm(&mut g, x, 0, other);
    g.result("y", y);
    let moments = ["unary", "reduce", "binary", "reduce", "element-wise"];
    let rest = ["binary", "binary", "binary", "element-wise"];
    check(&g.finish().unwrap(), &[2, 9, 24], 0.0, &[&moments[..], &rest].concat());
}

#[test]
fn a_root_mean_square_may_be_a_power() {
    let mut g = GraphBuilder::new("rms");
    let x = g.parameter("x", F32, "2,9,24");
    let [two, eps, by] = [2.0, 1e-5, -0.5].map(|value| number(&mut g, value));
    let squares = binary(&mut g, "Power", x, two);
    let mean = with_ints(&mut g, "ReduceMean", squares, &[-1]);
    let sum = binary(&mut g, "Add", eps, mean);
    let factor = binary(&mut g, "Power", sum, by);
    let y = binary(&mut g, "Multiply", x, factor);
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 9, 24], 1e-6, &["normalize"]);
}

/// γ and β need not be rows, if the Multiply and the Add that apply them do not broadcast the data.
#[test]
fn factors_of_each_element_follow_the_normalisation() {
    let mut g = GraphBuilder::new("norm");
    let x = g.parameter("x", F32, "2,9,24");
    let [gamma, beta] = [4, 5].map(|seed| constant(&mut g, &[9, 24], seed));
    let [eps, by] = [1e-3, -0.5].map(|value| number(&mut g, value));
    let mean = with_ints(&mut g, "ReduceMean", x, &[-1]);
    let squares = binary(&mut g, "SquaredDifference", x, mean);
    let variance = with_ints(&mut g, "ReduceMean", squares, &[-1]);
    let sum = binary(&mut g, "Add", variance, eps);
    let inverse = binary(&mut g, "Power", sum, by);
    let scale = binary(&mut g, "Multiply", inverse, gamma);
    let moved = binary(&mut g, "Multiply", mean, scale);
    let shift = binary(&mut g, "Subtract", beta, moved);
    let mut alike = |kind: &str, a: OutputRef, b: OutputRef| {
        let node = g.layer(kind, "opset1").attribute("auto_broadcast", "none");
        node.inputs(&[a, b]).output()
    };
    let scaled = alike("Multiply", x, scale);
    let y = alike("Add", scaled, shift);
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 9, 24], 2e-6, &["normalize", "binary", "binary"]);
}
