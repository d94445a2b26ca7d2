//! Compressed weights, which MatMuls read as they are stored.

use super::matmul::half_bytes;
use super::{binary, check, constant, numbers, unary};
use infer::Inputs;
use ir::ElementType::{self, F16, F32, I4, I8, I64, U4, U8};
use ir::{Graph, GraphBuilder, OutputRef};
use irrun_runtime::{Activations, Options, Precision, Tensor};

/// The storage of weights with 96 columns and k = 384.
#[derive(Clone, Copy)]
struct Form {
    element_type: ElementType,
    /// The shape of the elements, and that of scales and zero points.
    sizes: &'static [u64],
    factors: &'static [u64],
    /// The type of the zero points, if there are any.
    zeros: Option<ElementType>,
    /// The type in which weights are scaled.
    wide: &'static str,
}

/// Bytes for elements of any type, in which neighbours differ.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| ((i * 2_654_435_761) >> 9) as u8).collect()
}

fn convert(g: &mut GraphBuilder, from: OutputRef, to: &'static str) -> OutputRef {
    let convert = g.layer("Convert", "opset1").attribute("destination_type", to);
    convert.inputs(&[from]).output()
}

impl Form {
    /// The weights as NNCF writes them.
    fn weights(self, g: &mut GraphBuilder, columns_first: bool) -> OutputRef {
        let count = |sizes: &[u64]| sizes.iter().product::<u64>() as usize;
        let bits = |t: ElementType| t.bits().unwrap() as usize;
        let store = |g: &mut GraphBuilder, t: ElementType, sizes: &[u64]| {
            let stored = g.constant(t, sizes, &bytes(count(sizes) * bits(t) / 8));
            convert(g, stored, self.wide)
        };
        let mut wide = store(g, self.element_type, self.sizes);
        if let Some(zeros) = self.zeros {
            let zeros = store(g, zeros, self.factors);
            wide = binary(g, "Subtract", wide, zeros);
        }
        let scale = |i: usize| 0.0011 + (i % 13) as f32 * 0.0004;
        let scales = match self.wide {
            "f16" => {
                let halves = (0..count(self.factors)).flat_map(|i| half_bytes(scale(i)));
                g.constant(F16, self.factors, &halves.collect::<Vec<_>>())
            }
            _ => {
                let scales: Vec<f32> = (0..count(self.factors)).map(scale).collect();
                g.constant_f32(self.factors, &scales)
            }
        };
        wide = binary(g, "Multiply", wide, scales);
        if self.sizes.len() > 2 {
            let sizes: [i64; 2] = if columns_first { [96, 384] } else { [384, 96] };
            let sizes = g.constant(I64, &[2], &sizes.map(i64::to_le_bytes).concat());
            let reshape = g.layer("Reshape", "opset1").attribute("special_zero", "false");
            wide = reshape.inputs(&[wide, sizes]).output();
        }
        if self.wide == "f16" { convert(g, wide, "f32") } else { wide }
    }
}

/// Column by column, with and without groups and zero points, scaled in f16 or f32: one step with
/// the bits of the separate operations, for few rows and for many.
#[test]
fn weights_of_columns_stay_compressed() {
    let form = |element_type, sizes, factors, zeros, wide| Form {
        element_type,
        sizes,
        factors,
        zeros,
        wide,
    };
    let forms = [
        form(U8, &[96, 384], &[96, 1], Some(U8), "f16"),
        form(I8, &[96, 384], &[96, 1], None, "f16"),
        form(I8, &[96, 384], &[1, 1], Some(I8), "f32"),
        form(U4, &[96, 6, 64], &[96, 6, 1], Some(U4), "f16"),
        form(I4, &[96, 3, 128], &[96, 3, 1], None, "f16"),
        form(I4, &[96, 3, 128], &[96, 3, 1], Some(I4), "f32"),
        form(U4, &[96, 384], &[96, 1], Some(U4), "f32"),
    ];
    for (form, rows) in forms.into_iter().flat_map(|form| [1, 3, 8, 20].map(|rows| (form, rows))) {
        let mut g = GraphBuilder::new("columns");
        let x = g.parameter("x", F32, &format!("{rows},384"));
        let weights = form.weights(&mut g, true);
        let bias = constant(&mut g, &[96], 4);
        let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
        let y = y.inputs(&[x, weights]).output();
        let y = binary(&mut g, "Add", y, bias);
        let y = unary(&mut g, "Relu", y);
        g.result("y", y);
        check(&g.finish().unwrap(), &[rows, 384], 0.0, &["matmul"]);
    }
}

/// With `--activations int8`, rows are quantized in groups of 32 along k. The error against the
/// model as written is bounded by the largest value of each group of `x`, times its weights,
/// divided by 254. The first run, which packs the weights, has the bits of the second.
#[test]
fn rows_are_quantized_where_that_is_asked_for() {
    let form = |element_type, sizes, factors| Form {
        element_type,
        sizes,
        factors,
        zeros: Some(element_type),
        wide: "f32",
    };
    let forms = [
        form(U8, &[96, 384], &[96, 1]),
        form(U4, &[96, 6, 64], &[96, 6, 1]),
        form(I4, &[96, 3, 128], &[96, 3, 1]),
    ];
    for (form, rows) in forms.into_iter().flat_map(|form| [1, 3, 20].map(|rows| (form, rows))) {
        let mut g = GraphBuilder::new("dynamic");
        let x = g.parameter("x", F32, &format!("{rows},384"));
        let weights = form.weights(&mut g, true);
        let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
        let y = y.inputs(&[x, weights]).output();
        g.result("w", weights);
        g.result("y", y);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let values = numbers(rows * 384, 1);
        let input = [Tensor::from_vec(&[rows, 384], values.clone()).unwrap()];
        let run = |options: &Options| {
            let plan = irrun_runtime::compile_with(&graph, &facts, options).unwrap();
            let explained = plan.explain().contains(&"pass dynamic quantization: 1".to_owned());
            assert_eq!(explained, options.optimize, "{:#?}", plan.explain());
            let mut session = plan.session();
            let outputs = session.run(&input).unwrap();
            assert_eq!(session.run(&input).unwrap(), outputs);
            outputs
        };
        let written = run(&Options { optimize: false, ..Options::default() });
        let quantized = run(&Options { activations: Activations::Int8, ..Options::default() });
        let [w, expected] = [0, 1].map(|i| written[i].as_slice::<f32>().unwrap());
        let found = quantized[1].as_slice::<f32>().unwrap();
        assert_ne!(found, expected);
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let (row, column) = (&values[at / 96 * 384..][..384], &w[at % 96 * 384..][..384]);
            let allowed = row.chunks(32).zip(column.chunks(32)).map(|(x, w)| {
                let largest = x.iter().fold(0f32, |most, x| most.max(x.abs()));
                largest * w.iter().map(|w| w.abs()).sum::<f32>() / 254.0
            });
            let allowed = 1.001 * allowed.sum::<f32>();
            assert!((found - expected).abs() <= allowed, "{found} {expected} {allowed}");
        }
    }
}

/// The same row by row.
#[test]
fn weights_of_rows_stay_compressed() {
    let form = |element_type, sizes, factors, zeros| Form {
        element_type,
        sizes,
        factors,
        zeros,
        wide: "f16",
    };
    let forms = [
        form(U8, &[384, 96], &[1, 96], Some(U8)),
        form(I8, &[384, 96], &[96], None),
        form(I4, &[3, 128, 96], &[3, 1, 96], None),
        form(U4, &[6, 64, 96], &[6, 1, 96], Some(U4)),
    ];
    for (form, rows) in forms.into_iter().flat_map(|form| [1, 20].map(|rows| (form, rows))) {
        let mut g = GraphBuilder::new("rows");
        let x = g.parameter("x", F32, &format!("{rows},384"));
        let weights = form.weights(&mut g, false);
        let y = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
        g.result("y", y);
        check(&g.finish().unwrap(), &[rows, 384], 0.0, &["matmul"]);
    }
}

/// Weights in f16, for few rows and for many.
#[test]
fn weights_in_f16_stay_so() {
    let halves: Vec<u8> =
        (0..96 * 1024).flat_map(|i| half_bytes((i % 211) as f32 / 97.0 - 1.0)).collect();
    for (rows, by_columns) in [1, 9].into_iter().flat_map(|rows| [(rows, true), (rows, false)]) {
        let mut g = GraphBuilder::new("halves");
        let x = g.parameter("x", F32, &format!("{rows},1024"));
        let sizes = if by_columns { [96, 1024] } else { [1024, 96] };
        let weights = g.constant(F16, &sizes, &halves);
        let weights = convert(&mut g, weights, "f32");
        let transposed = if by_columns { "true" } else { "false" };
        let y = g.layer("MatMul", "opset1").attribute("transpose_b", transposed);
        let y = y.inputs(&[x, weights]).output();
        g.result("y", y);
        check(&g.finish().unwrap(), &[rows, 1024], 0.0, &["matmul"]);
    }
}

/// Scales per element of k, and zero points outside of the element type: computed once, as written.
#[test]
fn other_weights_are_decompressed() {
    let mut g = GraphBuilder::new("others");
    let x = g.parameter("x", F32, "2,384");
    let of_terms =
        Form { element_type: U8, sizes: &[192, 384], factors: &[1, 384], zeros: None, wide: "f32" };
    let weights = of_terms.weights(&mut g, true);
    let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
    let first = y.inputs(&[x, weights]).output();
    let stored = g.constant(U8, &[192, 384], &bytes(192 * 384));
    let wide = convert(&mut g, stored, "f32");
    let zero = g.constant_f32(&[1, 1], &[7.5]);
    let wide = binary(&mut g, "Subtract", wide, zero);
    let scale = g.constant_f32(&[1, 1], &[0.01]);
    let wide = binary(&mut g, "Multiply", wide, scale);
    let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
    let second = y.inputs(&[x, wide]).output();
    let y = binary(&mut g, "Subtract", first, second);
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 384], 0.0, &["once", "once", "matmul", "binary"]);
}

/// Scales that are aligned at the first axis, which is k.
#[test]
fn scales_that_are_aligned_elsewhere_are_computed_once() {
    let mut g = GraphBuilder::new("pdpd");
    let x = g.parameter("x", F32, "2,384");
    let stored = g.constant(U8, &[384, 384], &bytes(384 * 384));
    let wide = convert(&mut g, stored, "f32");
    let scales: Vec<f32> = (0..384).map(|i| 0.001 + i as f32 * 0.0001).collect();
    let scales = g.constant_f32(&[384], &scales);
    let scaled =
        g.layer("Multiply", "opset1").attributes(&[("auto_broadcast", "pdpd"), ("axis", "0")]);
    let weights = scaled.inputs(&[wide, scales]).output();
    let y = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
    g.result("y", y);
    check(&g.finish().unwrap(), &[2, 384], 0.0, &["once", "matmul"]);
}

/// The outputs of a graph of one f32 input, in two runs.
fn outputs(
    graph: &Graph,
    sizes: &[usize],
    values: Vec<f32>,
    precision: Precision,
) -> [Vec<f32>; 2] {
    let facts = infer::propagate(graph, &Inputs::default()).unwrap();
    let options = Options { precision, ..Options::default() };
    let mut session = irrun_runtime::compile_with(graph, &facts, &options).unwrap().session();
    let input = [Tensor::from_vec(sizes, values).unwrap()];
    [(); 2].map(|_| session.run(&input).unwrap()[0].as_slice().unwrap().to_vec())
}

/// In bf16, compressed weights give the bits of f32 weights that are converted to bf16. Few rows
/// are computed in f32.
#[test]
fn stored_weights_can_be_rounded() {
    let form = |element_type, sizes, factors, zeros| Form {
        element_type,
        sizes,
        factors,
        zeros,
        wide: "f32",
    };
    let forms = [
        form(U8, &[96, 384], &[96, 1], Some(U8)),
        form(I8, &[96, 384], &[96, 1], None),
        form(I4, &[96, 3, 128], &[96, 3, 1], None),
    ];
    for form in forms {
        let stored = |rows: usize| {
            let mut g = GraphBuilder::new("stored");
            let x = g.parameter("x", F32, &format!("{rows},384"));
            let weights = form.weights(&mut g, true);
            let y = g.layer("MatMul", "opset1").attribute("transpose_b", "true");
            let y = y.inputs(&[x, weights]).output();
            g.result("y", y);
            g.finish().unwrap()
        };
        let unit = (0..384 * 384).map(|i| if i % 385 == 0 { 1.0 } else { 0.0 }).collect();
        let [values, _] = outputs(&stored(384), &[384, 384], unit, Precision::F32);
        for (rows, precision) in
            [(1, Precision::F32), (8, Precision::F32), (9, Precision::Bf16), (40, Precision::Bf16)]
        {
            let mut g = GraphBuilder::new("wide");
            let x = g.parameter("x", F32, &format!("{rows},384"));
            let weights = g.constant_f32(&[384, 96], &values);
            let y = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
            g.result("y", y);
            let (wide, sizes) = (g.finish().unwrap(), [rows, 384]);
            let x = numbers(rows * 384, 3);
            let [expected, _] = outputs(&wide, &sizes, x.clone(), precision);
            let found = outputs(&stored(rows), &sizes, x, Precision::Bf16);
            assert!(
                found.iter().all(|found| *found == expected),
                "{:?}, {rows}",
                form.element_type
            );
        }
    }
}
