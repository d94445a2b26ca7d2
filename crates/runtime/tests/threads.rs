//! Sessions that run at the same time on many threads and share packed weights: with threads of
//! their own, with shared threads, and with the default. The bits are those of a single session.
//! `make races` runs it under ThreadSanitizer.

use infer::Inputs;
use ir::ElementType::F32;
use ir::{Graph, GraphBuilder};
use irrun_runtime::{Options, Plan, Tensor, Threads, compile_sharing, compile_with};
use std::sync::Arc;

/// A Winograd convolution, a depthwise one, a MatMul whose weights are packed in the second run,
/// and a Softmax.
fn graph() -> Graph {
    let mut g = GraphBuilder::new("threads");
    let x = g.parameter("x", F32, "1,32,16,16");
    let bytes = |count: usize| -> Vec<u8> {
        (0..count).flat_map(|i| ((i * 7 % 23) as f32 / 40.0 - 0.25).to_le_bytes()).collect()
    };
    let padded =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];
    let filters = g.constant(F32, &[32, 32, 3, 3], &bytes(32 * 32 * 9));
    let maps = g.layer("Convolution", "opset1").attributes(&padded).inputs(&[x, filters]).output();
    let maps = g.layer("ReLU", "opset1").inputs(&[maps]).output();
    let filters = g.constant(F32, &[32, 1, 1, 3, 3], &bytes(32 * 9));
    let layer = g.layer("GroupConvolution", "opset1").attributes(&padded);
    let maps = layer.inputs(&[maps, filters]).output();
    let matrix = g.constant(F32, &[16, 48], &bytes(16 * 48));
    let rows = g.layer("MatMul", "opset1").inputs(&[maps, matrix]).output();
    let rows = g.layer("SoftMax", "opset8").attribute("axis", "-1").inputs(&[rows]).output();
    g.result("y", rows);
    g.finish().unwrap()
}

fn input(seed: usize) -> Tensor {
    let values = (0..32 * 256).map(|i| ((i * 31 + seed * 17) % 103) as f32 / 60.0 - 0.8).collect();
    Tensor::from_vec(&[1, 32, 16, 16], values).unwrap()
}

/// The outputs of some runs of a session.
fn bits(plan: Plan, threads: Option<Arc<Threads>>, first: usize) -> Vec<Vec<u8>> {
    let mut session = match threads {
        Some(threads) => plan.session_on(threads),
        None => plan.session(),
    };
    let run = |seed| session.run(&[input(seed)]).unwrap()[0].bytes().to_vec();
    (first..first + 4).map(run).collect()
}

#[test]
fn sessions_beside_each_other_have_the_bits_of_one() {
    let graph = graph();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let options = Options::default();
    let alone = |i| {
        let plan = compile_with(&graph, &facts, &options).unwrap();
        bits(plan, Some(Arc::new(Threads::new(1))), i)
    };
    let expected: Vec<_> = (0..4).map(alone).collect();
    let first = compile_with(&graph, &facts, &options).unwrap();
    let shared = Arc::new(Threads::new(2));
    std::thread::scope(|scope| {
        let run = |i: usize| {
            let threads = match i % 3 {
                0 => Some(Arc::clone(&shared)),
                1 => Some(Arc::new(Threads::new(2))),
                _ => None,
            };
            let plan = compile_sharing(&first, &graph, &facts, &options).unwrap();
            scope.spawn(move || bits(plan, threads, i % 4))
        };
        let all: Vec<_> = (0..12).map(run).collect();
        for (i, one) in all.into_iter().enumerate() {
            assert!(one.join().unwrap() == expected[i % 4], "session {i}");
        }
    });
}
