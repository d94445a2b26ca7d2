//! An output that fits in no memory is an error with the layer's name, before anything is
//! allocated. Weights that are read once do not stay in memory.

use infer::{Inputs, propagate};
use ir::ElementType::F32;
use ir::{GraphBuilder, Severity};
#[cfg(target_os = "linux")]
use irrun_runtime::Options;
use irrun_runtime::Tensor;
use irrun_runtime::compile;

/// A scalar broadcast to one dim.
fn broadcast(size: i64) -> ir::Graph {
    let mut g = GraphBuilder::new("large");
    let x = g.parameter("x", F32, "1");
    let target = g.constant_i64(&[size]);
    let y = g.layer("Broadcast", "opset3").attribute("mode", "numpy").inputs(&[x, target]).output();
    g.result("y", y);
    g.finish().unwrap()
}

#[test]
fn more_than_the_machine_has() {
    let graph = broadcast(1 << 50);
    let facts = propagate(&graph, &Inputs::default()).unwrap();
    let Err(problems) = compile(&graph, &facts) else { panic!("it has been given 4 PB") };
    let [problem] = problems.list() else { panic!("{problems}") };
    assert_eq!(problem.severity, Severity::Error);
    assert!(problem.subject.as_deref().is_some_and(|s| s.starts_with("Broadcast")), "{problem:?}");
    assert!(problem.message.contains("no memory for the output f32[1125899906842624]"));
}

#[test]
fn more_than_any_machine_has() {
    let error = propagate(&broadcast(1 << 60), &Inputs::default()).unwrap_err().to_string();
    assert!(error.contains("would not fit any memory"), "{error}");
}

/// Empty outputs do not build tables over their large axes either.
#[test]
fn nothing_takes_no_memory() {
    let mut g = GraphBuilder::new("nothing");
    let x = g.parameter("x", F32, "1,0,8589934592");
    let pool = g.layer("MaxPool", "opset1").attribute("strides", "1");
    let pool = pool.attribute("kernel", "2").attribute("pads_begin", "0");
    let pooled = pool.attribute("pads_end", "0").attribute("rounding_type", "floor").inputs(&[x]);
    let pooled = pooled.output();
    g.result("y", pooled);
    let graph = g.finish().unwrap();
    let facts = propagate(&graph, &Inputs::default()).unwrap();
    let x = Tensor::from_vec::<f32>(&[1, 0, 1 << 33], Vec::new()).unwrap();
    let outputs = compile(&graph, &facts).unwrap().session().run(&[x]).unwrap();
    assert_eq!(outputs[0].sizes(), [1, 0, (1 << 33) - 1]);
}

/// Bytes of mapped files with this name that are resident.
#[cfg(target_os = "linux")]
fn resident(name: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let own = maps.split_once(name).expect("the file is mapped").1;
    let line = own.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn weights_leave_memory_after_the_only_run_or_once_packed() {
    const SIDE: usize = 512;
    let values = |seed: usize| (0..SIDE * SIDE).map(move |i| ((i * 7 + seed) % 17) as f32 - 8.0);
    let mut g = GraphBuilder::new("chain");
    let x = g.parameter("x", F32, "1,512");
    let mut last = x;
    for seed in 0..8 {
        let weights = g.constant_f32(&[SIDE as u64; 2], &values(seed).collect::<Vec<_>>());
        let product = g.layer("MatMul", "opset1").inputs(&[last, weights]).output();
        last = g.layer("Relu", "opset1").inputs(&[product]).output();
    }
    g.result("y", last);
    let directory = tempfile::tempdir().unwrap();
    let model = directory.path().join("read-once.xml");
    ir::write(&g.finish().unwrap(), &model).unwrap();

    let x = Tensor::from_vec(&[1, SIDE], (0..SIDE).map(|i| (i % 3) as f32).collect()).unwrap();
    let run = |runs_once| {
        let graph = ir::read(&model).unwrap();
        let facts = propagate(&graph, &Inputs::default()).unwrap();
        let options = Options { runs_once, ..Options::default() };
        let mut session = irrun_runtime::compile_with(&graph, &facts, &options).unwrap().session();
        let first = session.run(std::slice::from_ref(&x)).unwrap();
        let left = resident("read-once.bin");
        // A second run gives the same result.
        assert_eq!(session.run(std::slice::from_ref(&x)).unwrap(), first);
        (first, left, resident("read-once.bin"))
    };
    let bytes = std::fs::metadata(model.with_extension("bin")).unwrap().len() as usize;
    let ((kept, all, packed), (given_back, left, _)) = (run(false), run(true));
    assert_eq!(kept, given_back);
    assert!(all > bytes / 2, "{all} of {bytes} bytes, all of which it has read");
    assert!(left < bytes / 4, "{left} of {bytes} bytes are still in memory");
    assert!(packed < bytes / 4, "{packed} of {bytes} bytes are in memory twice");
}

/// The matrices of an LSTM are packed in the first run: 256 × 64 elements each. The products of
/// 80 rows with the first one are scratch.
#[test]
fn plans_count_what_recurrent_layers_pack() {
    let mut g = GraphBuilder::new("lstm");
    let x = g.parameter("x", F32, "2,40,64");
    let state = g.constant_f32(&[2, 1, 64], &[0.0; 128]);
    let lengths = g.constant_i64(&[40, 40]);
    let matrix = g.constant_f32(&[1, 256, 64], &[0.5; 256 * 64]);
    let bias = g.constant_f32(&[1, 256], &[0.0; 256]);
    let lstm = g.layer("LSTMSequence", "opset5").attribute("hidden_size", "64");
    let lstm = lstm.attribute("direction", "forward");
    let outputs = lstm.inputs(&[x, state, state, lengths, matrix, matrix, bias]).outputs(3);
    g.result("y", outputs[0]);
    let graph = g.finish().unwrap();
    let facts = propagate(&graph, &Inputs::default()).unwrap();
    let memory = compile(&graph, &facts).unwrap().memory(1);
    let (packed, products) = (2 * 256 * 64 * 4, 80 * 256 * 4);
    let scratch = 2 * 8 * 64 * 4;
    assert_eq!(memory.kernels, packed + products + scratch, "{memory:?}");
}
