//! FakeQuantizes that run while the operations before them write.

use super::quantized::{fake_quantized, integers};
use super::{binary, check, constant, unary};
use ir::ElementType::F32;
use ir::{GraphBuilder, OutputRef};

/// A 1×1 convolution that reads quantized values.
fn read(g: &mut GraphBuilder, x: OutputRef, channels: u64) -> OutputRef {
    let filters = integers(g, &[40, channels], 2);
    let transposed = [("transpose_b", "true")];
    g.layer("MatMul", "opset1").attributes(&transposed).inputs(&[x, filters]).output()
}

/// A normalization and an activation behind a Concat, as a dense block has them: the quantizers of
/// the columns absorb both, unless the activation clamps what they do not, or a factor is 0.
#[test]
fn concatenated_rows_are_normalized_while_quantizing() {
    for (low, zero) in [(0.0, false), (-0.5, false), (0.0, true)] {
        let mut g = GraphBuilder::new("dense block");
        let x = g.parameter("x", F32, "6,5,24");
        let other = g.layer("Softmax", "opset8").attribute("axis", "2").inputs(&[x]).output();
        let layer = g.layer("Concat", "opset1").attribute("axis", "2");
        let x = layer.inputs(&[x, other]).output();
        let factors: Vec<f32> =
            (0..48).map(|i| if zero && i == 7 { 0.0 } else { 0.5 + 0.25 * i as f32 }).collect();
        let factors = g.constant_f32(&[1, 1, 48], &factors);
        let shifts = constant(&mut g, &[1, 1, 48], 3);
        let x = binary(&mut g, "Multiply", x, factors);
        let x = binary(&mut g, "Add", x, shifts);
        let x = unary(&mut g, "Relu", x);
        let x = fake_quantized(&mut g, x, low, low + 5.1);
        let y = read(&mut g, x, 48);
        g.result("y", y);
        // Values halfway between two quantized values may round to the other one.
        let steps = ["softmax", "concat", "integers"];
        check(&g.finish().unwrap(), &[6, 5, 24], 0.05, &steps);
    }
}

/// A sum, and a chain that ends with another activation.
#[test]
fn element_wise_results_are_written_quantized() {
    for (activation, kernel) in [("Relu", "quantize"), ("Tanh", "element-wise")] {
        let mut g = GraphBuilder::new("chain");
        let x = g.parameter("x", F32, "6,5,24");
        let shifts = constant(&mut g, &[1, 1, 24], 3);
        let x = binary(&mut g, "Add", x, shifts);
        let x = unary(&mut g, activation, x);
        let x = fake_quantized(&mut g, x, 0.0, 2.55);
        let y = read(&mut g, x, 24);
        g.result("y", y);
        check(&g.finish().unwrap(), &[6, 5, 24], 0.02, &[kernel, "integers"]);
    }
    let mut g = GraphBuilder::new("sum");
    let x = g.parameter("x", F32, "6,5,24");
    let other = g.layer("Softmax", "opset8").attribute("axis", "2").inputs(&[x]).output();
    let x = binary(&mut g, "Add", x, other);
    let x = fake_quantized(&mut g, x, -1.0, 1.55);
    let y = read(&mut g, x, 24);
    g.result("y", y);
    let steps = ["softmax", "element-wise", "integers"];
    check(&g.finish().unwrap(), &[6, 5, 24], 0.02, &steps);
}
