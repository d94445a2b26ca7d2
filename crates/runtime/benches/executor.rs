//! What a run costs besides its kernels: one Reshape of 1 KB, and 200 Reshapes of 64 MB in a chain;
//! JSON on one line.

use infer::Inputs;
use ir::ElementType::F32;
use ir::{Graph, GraphBuilder};
use irrun_runtime::{Options, Session, Tensor, Threads};
use std::sync::Arc;
use std::time::Instant;

const NODES: usize = 200;

fn main() {
    // 256 and 16 Mi numbers: 1 KB and 64 MB.
    let (tiny, _) = measure(1, 256, true);
    let (optimized, in_place) = measure(NODES, 16 << 20, true);
    let (plain, plain_in_place) = measure(NODES, 16 << 20, false);
    let node = |run: f64| run / NODES as f64;
    println!(
        "{{\"tiny_ns\": {tiny}, \"nodes\": {NODES}, \"chain_node_ns\": {}, \
         \"chain_plain_node_ns\": {}, \"in_place\": {}}}",
        node(optimized),
        node(plain),
        in_place && plain_in_place
    );
}

/// Nanoseconds of a run of a chain of Reshapes, and whether its output lies where its input does.
fn measure(nodes: usize, count: usize, optimize: bool) -> (f64, bool) {
    let graph = chain(nodes, count);
    let facts = infer::propagate(&graph, &Inputs::default()).expect("the graph is valid");
    let plan =
        irrun_runtime::compile_with(&graph, &facts, &Options { optimize, ..Options::default() })
            .expect("it compiles");
    let mut session = plan.session_on(Arc::new(Threads::new(2)));
    let input = Tensor::from_vec(&[count], vec![1f32; count]).expect("sizes agree");
    let (runs, outputs) = (2_000, run(&mut session, &input));
    let in_place = outputs[0].bytes().as_ptr() == input.bytes().as_ptr();
    let mut rounds: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..runs {
                run(&mut session, &input);
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(runs)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[rounds.len() / 2], in_place)
}

fn run(session: &mut Session, input: &Tensor) -> Vec<Tensor> {
    session.run(std::slice::from_ref(input)).expect("it runs")
}

/// Each Reshape takes the shape of the one before it apart or together.
fn chain(nodes: usize, count: usize) -> Graph {
    let mut g = GraphBuilder::new("chain");
    let mut y = g.parameter("x", F32, &count.to_string());
    for i in 0..nodes {
        let pattern = g.constant_i64(if i % 2 == 0 { &[16, -1] } else { &[-1] });
        let inputs = [y, pattern];
        y = g
            .layer("Reshape", "opset1")
            .attribute("special_zero", "false")
            .inputs(&inputs)
            .output();
    }
    g.result("y", y);
    g.finish().expect("the graph is valid")
}
