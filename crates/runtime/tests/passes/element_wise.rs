//! Chains of element-wise operations.

use super::{binary, check, constant, numbers, plan, unary};
use ir::ElementType::{F32, U8};
use ir::GraphBuilder;
use irrun_runtime::Tensor;

/// Sums of gated branches, as chains: each takes the branches before it. What two layers read is
/// stored. Short rows take no operands by column.
#[test]
fn element_wise_operations_are_chains() {
    let chains = &["element-wise", "element-wise", "element-wise"][..];
    let short = &["unary", "binary", "unary", "binary", "element-wise", "element-wise"];
    for (columns, steps) in [(24, chains), (3_000, chains), (4, short)] {
        let mut g = GraphBuilder::new("chains");
        let x = g.parameter("x", F32, &format!("1,7,{columns}"));
        let gates = [3, 5].map(|seed| constant(&mut g, &[columns], seed));
        let [a, b] = ["Tanh", "Sigmoid"].map(|kind| unary(&mut g, kind, x));
        let [a, b] =
            [binary(&mut g, "Multiply", a, gates[0]), binary(&mut g, "Multiply", b, gates[1])];
        let sum = binary(&mut g, "Add", a, b);
        let y = unary(&mut g, "Relu", sum);
        let halved = g.constant_f32(&[1], &[0.5]);
        let z = binary(&mut g, "Multiply", y, halved);
        let z = binary(&mut g, "Add", z, y);
        let z = binary(&mut g, "Add", z, x);
        g.result("y", z);
        check(&g.finish().unwrap(), &[1, 7, columns as usize], 0.0, steps);
    }
}

/// Operands of channels, of constant channels divided, and powers. Short planes take none; nor does
/// a chain whose columns have operands of their own.
#[test]
fn channels_have_operands_in_a_chain() {
    let one = &["element-wise"][..];
    let two = &["element-wise", "element-wise"];
    let short = &["binary", "binary", "element-wise"];
    for (height, by_columns, steps) in
        [(20, false, one), (200, false, one), (20, true, two), (3, false, short)]
    {
        let mut g = GraphBuilder::new("chains");
        let x = g.parameter("x", F32, &format!("2,3,{height},16"));
        let of_channels = |g: &mut GraphBuilder, seed| constant(g, &[1, 3, 1, 1], seed);
        let (mean, scale) = (of_channels(&mut g, 3), of_channels(&mut g, 5));
        let y = binary(&mut g, "Subtract", x, mean);
        let y = if by_columns {
            let y = unary(&mut g, "Tanh", y);
            let columns = constant(&mut g, &[16], 4);
            let y = binary(&mut g, "Multiply", columns, y);
            unary(&mut g, "Relu", y)
        } else {
            binary(&mut g, "Divide", y, scale)
        };
        let two = g.constant_f32(&[1], &[2.0]);
        let y = binary(&mut g, "Power", y, two);
        let y = binary(&mut g, "Add", y, x);
        g.result("y", y);
        check(&g.finish().unwrap(), &[2, 3, height as usize, 16], 0.0, steps);
    }
}

/// An image of bytes, less its mean and divided by its deviation, in one step that reads bytes. Its
/// rows are as short as its pixels, or it is planes.
#[test]
fn images_are_converted_in_a_chain() {
    for (sizes, by, plane) in [("1,20,32,3", [1, 1, 1, 3], 1), ("2,3,40,16", [1, 3, 1, 1], 640)] {
        let mut g = GraphBuilder::new("image");
        let x = g.parameter("x", U8, sizes);
        let real = g.layer("Convert", "opset1").attributes(&[("destination_type", "f32")]);
        let y = real.inputs(&[x]).output();
        let [mean, deviation] = [1, 2].map(|seed| constant(&mut g, &by, seed));
        let y = binary(&mut g, "Subtract", y, mean);
        let y = binary(&mut g, "Divide", y, deviation);
        g.result("y", y);
        let planned = plan(&g.finish().unwrap(), true);
        let steps = planned.explain().iter().filter(|line| line.contains("): ")).count();
        assert_eq!(steps, 1, "{:#?}", planned.explain());
        let sizes: Vec<usize> = sizes.split(',').map(|size| size.parse().unwrap()).collect();
        let bytes: Vec<u8> = (0..sizes.iter().product()).map(|i: usize| (i * 7) as u8).collect();
        let input = [Tensor::from_vec(&sizes, bytes.clone()).unwrap()];
        let found = planned.session().run(&input).unwrap();
        let [mean, deviation] = [1, 2].map(|seed| numbers(3, seed));
        let expected = |(i, byte): (usize, &u8)| {
            let channel = i / plane % 3;
            (f32::from(*byte) - mean[channel]) / deviation[channel]
        };
        let expected: Vec<f32> = bytes.iter().enumerate().map(expected).collect();
        assert_eq!(found[0].as_slice::<f32>(), Some(&expected[..]));
    }
}
