//! What each pass does to a graph, and that the numbers stay: the optimised plan against the graph
//! as written, in the first run and in the second, which reads packed weights.

mod bf16;
mod branches;
mod channels_last;
mod concat;
mod einsum;
mod element_wise;
mod exceptions;
mod formulas;
mod half;
mod kv_cache;
mod matmul;
mod quantize_on_write;
mod quantized;
mod requantized;
mod weights;

use infer::Inputs;
use ir::{Graph, GraphBuilder, OutputRef};
use irrun_runtime::{Options, Plan, Tensor};

fn plan(graph: &Graph, optimize: bool) -> Plan {
    let facts = infer::propagate(graph, &Inputs::default()).unwrap();
    irrun_runtime::compile_with(graph, &facts, &Options { optimize, ..Options::default() }).unwrap()
}

/// Different numbers around 0.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

fn constant(g: &mut GraphBuilder, dims: &[u64], seed: usize) -> OutputRef {
    let count: u64 = dims.iter().product();
    g.constant_f32(dims, &numbers(count as usize, seed))
}

fn binary(g: &mut GraphBuilder, kind: &str, a: OutputRef, b: OutputRef) -> OutputRef {
    g.layer(kind, "opset1").inputs(&[a, b]).output()
}

fn unary(g: &mut GraphBuilder, kind: &str, a: OutputRef) -> OutputRef {
    g.layer(kind, "opset1").inputs(&[a]).output()
}

fn with_ints(g: &mut GraphBuilder, kind: &str, a: OutputRef, ints: &[i64]) -> OutputRef {
    let ints = g.constant_i64(ints);
    let flag = if kind == "Reshape" { ("special_zero", "false") } else { ("keep_dims", "true") };
    g.layer(kind, "opset1").attributes(&[flag]).inputs(&[a, ints]).output()
}

/// Checks that a graph of one input gives the same numbers optimised and as written, up to
/// `tolerance`, and that the optimised plan has exactly these steps.
#[track_caller]
fn check(graph: &Graph, sizes: &[usize], tolerance: f32, steps: &[&str]) {
    let plan_of = plan(graph, true);
    let kernel = |line: &String| {
        let (_, rest) = line.split_once("): ")?;
        Some(rest.split([' ', ',']).next()?.to_owned())
    };
    let found: Vec<String> = plan_of.explain().iter().filter_map(kernel).collect();
    assert_eq!(found, steps, "{:#?}", plan_of.explain());
    let input = Tensor::from_vec(sizes, numbers(sizes.iter().product(), 1)).unwrap();
    let input = std::slice::from_ref(&input);
    let written = plan(graph, false).session().run(input).unwrap();
    let mut session = plan_of.session();
    for run in 0..3 {
        let outputs = session.run(input).unwrap();
        for (output, written) in outputs.iter().zip(&written) {
            let [a, b] = [output, written].map(|t| t.as_slice::<f32>().unwrap());
            assert_eq!(output.sizes(), written.sizes());
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                assert!((a - b).abs() <= tolerance, "run {run}, element {i}: {a}, written {b}");
            }
        }
    }
}
