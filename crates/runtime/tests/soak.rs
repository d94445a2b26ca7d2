//! A session that runs many times with changing shapes does not grow.
//!
//! `SOAK=100000` sets the number of runs (`make soak`). The test is a process of its own, so that
//! its memory is its own.
#![cfg(target_os = "linux")]

use infer::Inputs;
use ir::ElementType::F32;
use ir::{Graph, GraphBuilder};
use irrun_runtime::{Tensor, compile};

/// Runs if `SOAK` is not set.
const RUNS: usize = 3000;
/// Memory that runs may add once plans of many shapes exist: what allocators keep.
const MOST: usize = 8 << 20;

/// A convolution, a multiplication by a value computed from its own shape, and a sum over
/// positions. The sizes are dynamic.
fn graph() -> Graph {
    let mut g = GraphBuilder::new("soak");
    let x = g.parameter("x", F32, "?,3,?,?");
    let bytes = |count: usize| -> Vec<u8> {
        (0..count).flat_map(|i| ((i % 13) as f32 / 7.0 - 0.9).to_le_bytes()).collect()
    };
    let filters = g.constant(F32, &[16, 3, 3, 3], &bytes(16 * 27));
    let layer = g.layer("Convolution", "opset1").attributes(&[
        ("strides", "1,1"),
        ("dilations", "1,1"),
        ("pads_begin", "1,1"),
        ("pads_end", "1,1"),
    ]);
    let maps = layer.inputs(&[x, filters]).output();
    let maps = g.layer("ReLU", "opset1").inputs(&[maps]).output();
    let order = g.constant_i64(&[0, 2, 3, 1]);
    let rows = g.layer("Transpose", "opset1").inputs(&[maps, order]).output();
    let matrix = g.constant(F32, &[16, 24], &bytes(16 * 24));
    let rows = g.layer("MatMul", "opset1").inputs(&[rows, matrix]).output();
    let rows = g.layer("SoftMax", "opset8").attribute("axis", "-1").inputs(&[rows]).output();
    let axes = g.constant_i64(&[1, 2]);
    let sums = g.layer("ReduceSum", "opset1").inputs(&[rows, axes]).output();
    let places = g.layer("NonZero", "opset3").attribute("output_type", "i64").inputs(&[x]).output();
    g.result("y", sums);
    g.result("places", places);
    g.finish().unwrap()
}

/// Anonymous memory of the process, in bytes.
fn own_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

#[test]
fn memory_stays_flat_over_many_runs_of_changing_shapes() {
    let runs = std::env::var("SOAK").ok().map_or(RUNS, |runs| runs.parse().unwrap());
    let graph = graph();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut session = compile(&graph, &facts).unwrap().session();
    let (mut seed, mut after_some) = (1u64, 0);
    for run in 0..runs {
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1 + (seed >> 33) % n
        };
        let sizes = [below(3), 3, below(40), below(40)].map(|n| n as usize);
        let values: Vec<f32> =
            (0..sizes.iter().product()).map(|i| ((i + run) % 17) as f32 / 8.0 - 1.0).collect();
        let counted = values.iter().filter(|v| **v != 0.0).count();
        let outputs = session.run(&[Tensor::from_vec(&sizes, values).unwrap()]).unwrap();
        // A softmax adds up to 1 at each position.
        let all: f32 = outputs[0].as_slice::<f32>().unwrap().iter().sum();
        let positions = (sizes[0] * sizes[2] * sizes[3]) as f32;
        assert!((all - positions).abs() < positions * 1e-4, "{all} at {positions} in run {run}");
        assert_eq!(outputs[1].sizes(), [4, counted]);
        if run == runs / 2 {
            after_some = own_memory();
        }
    }
    let end = own_memory();
    println!("{runs} runs: {after_some} bytes after half of them, {end} at the end");
    assert!(end <= after_some + MOST, "{after_some} bytes have become {end}");
}
