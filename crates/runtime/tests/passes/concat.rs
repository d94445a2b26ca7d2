//! Concats with element-wise operations before and behind them.

use super::{binary, check, constant, unary};
use ir::ElementType::F32;
use ir::GraphBuilder;

/// CRelu with gates, a residual, and a batch normalization behind it. Operands of few columns, and
/// rows that are longer than a block, are copied by themselves.
#[test]
fn chains_around_a_concat_are_one_step() {
    let fused = &["concat"][..];
    let copied = &["element-wise", "element-wise", "copy", "element-wise"];
    for (columns, steps) in [(16, fused), (21, fused), (1_030, copied)] {
        let mut g = GraphBuilder::new("crelu");
        let x = g.parameter("x", F32, &format!("3,7,{columns}"));
        let gates = constant(&mut g, &[columns], 3);
        let gated = binary(&mut g, "Multiply", x, gates);
        let gated = binary(&mut g, "Add", gated, x);
        let negative = unary(&mut g, "Negative", x);
        let negative = unary(&mut g, "Tanh", negative);
        let concat = g.layer("Concat", "opset1").attributes(&[("axis", "-1")]);
        let y = concat.inputs(&[gated, negative, x]).output();
        let scale = constant(&mut g, &[3 * columns], 5);
        let shift = constant(&mut g, &[3 * columns], 6);
        let y = binary(&mut g, "Multiply", y, scale);
        let y = binary(&mut g, "Add", y, shift);
        let y = unary(&mut g, "Relu", y);
        g.result("y", y);
        check(&g.finish().unwrap(), &[3, 7, columns as usize], 0.0, steps);
    }
}

/// A single operation before or behind a Concat; none; and one that others read, too.
#[test]
fn single_operations_around_a_concat() {
    let one = &["concat"][..];
    for (before, behind, read, steps) in [
        (true, false, false, one),
        (false, true, false, one),
        (true, true, false, one),
        (false, false, false, &["copy"]),
        (true, true, true, &["unary", "concat"]),
    ] {
        let mut g = GraphBuilder::new("single");
        let x = g.parameter("x", F32, "2,5,24");
        let first = if before { unary(&mut g, "Negative", x) } else { x };
        let concat = g.layer("Concat", "opset1").attributes(&[("axis", "2")]);
        let y = concat.inputs(&[first, x]).output();
        let y = if behind { unary(&mut g, "Relu", y) } else { y };
        g.result("y", y);
        if read {
            g.result("first", first);
        }
        check(&g.finish().unwrap(), &[2, 5, 24], 0.0, steps);
    }
}
