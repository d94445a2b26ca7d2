//! The state after a failed run.

use infer::Inputs;
use ir::ElementType::{F4E2M1, F32, I4, I64, NF4, U1, U4};
use ir::GraphBuilder;
use irrun_runtime::Tensor;

/// Sizes that depend on the data belong to one run, even if it fails half way.
#[test]
fn the_run_after_a_failure_knows_nothing_of_it() {
    let mut g = GraphBuilder::new("failure");
    let (x, shape) = (g.parameter("x", F32, "4"), g.parameter("shape", I64, "1"));
    let found = g.layer("NonZero", "opset3").attribute("output_type", "i64").inputs(&[x]).output();
    let negated = g.layer("Negative", "opset1").inputs(&[found]).output();
    let reshape = g.layer("Reshape", "opset1").attribute("special_zero", "false");
    let row = reshape.inputs(&[negated, shape]).output();
    g.result("all", negated);
    g.result("row", row);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
    let mut run = |x: [f32; 4], count: i64| {
        let x = Tensor::from_vec(&[4], x.to_vec()).unwrap();
        session.run(&[x, Tensor::from_vec(&[1], vec![count]).unwrap()])
    };
    assert!(run([1.0, 0.0, 1.0, 1.0], 5).is_err(), "three numbers are not zero");
    let outputs = run([0.0, 1.0, 0.0, 1.0], 2).unwrap();
    for output in outputs {
        assert_eq!(output.as_slice::<i64>(), Some(&[-1, -3][..]));
    }
}

/// Squeeze of an axis that may have size 1 is planned as if it had. With another size, the rest of
/// the plan would be wrong.
#[test]
fn a_shape_that_was_not_planned_is_told() {
    let mut g = GraphBuilder::new("squeezed");
    let x = g.parameter("x", F32, "4");
    let found = g.layer("NonZero", "opset3").attribute("output_type", "i64").inputs(&[x]).output();
    let axis = g.constant_i64(&[1]);
    let column = g.layer("Squeeze", "opset1").inputs(&[found, axis]).output();
    g.result("column", column);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
    let mut run = |x: [f32; 4]| session.run(&[Tensor::from_vec(&[4], x.to_vec()).unwrap()]);
    let found = run([0.0, 0.0, 1.0, 0.0]).unwrap();
    assert_eq!((found[0].sizes(), found[0].as_slice()), (&[1][..], Some(&[2i64][..])));
    let problem = run([1.0, 0.0, 1.0, 0.0]).unwrap_err().to_string();
    assert!(problem.contains("output [1,2] does not fit what was planned, [1]"), "{problem}");
}

/// The lengths of a split that only the run knows, in more parts than inference reads at once, or
/// than it ever reads.
#[test]
fn many_lengths_are_read_or_told() {
    let split = |parts: usize| {
        let mut g = GraphBuilder::new("split");
        let (x, lengths) = (g.parameter("x", F32, "?"), g.parameter("lengths", F32, "?"));
        let to_i64 = g.layer("Convert", "opset1").attribute("destination_type", "i64");
        let (lengths, axis) = (to_i64.inputs(&[lengths]).output(), g.constant_i64(&[0]));
        let layer = g.layer("VariadicSplit", "opset1").inputs(&[x, axis, lengths]);
        let outputs = layer.outputs(parts);
        g.result("first", outputs[0]);
        g.result("last", outputs[parts - 1]);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
        let x: Vec<f32> = (0..2 * parts).map(|i| i as f32).collect();
        let lengths = Tensor::from_vec(&[parts], vec![2.0f32; parts]).unwrap();
        session.run(&[Tensor::from_vec(&[2 * parts], x).unwrap(), lengths])
    };
    let parts = split(1000).unwrap();
    assert_eq!(parts[0].as_slice(), Some(&[0.0f32, 1.0][..]));
    assert_eq!(parts[1].as_slice(), Some(&[1998.0f32, 1999.0][..]));
    let problem = split(1500).unwrap_err().to_string();
    assert!(problem.contains("depend on an input of more than 1024 elements"), "{problem}");
}

/// Real numbers may be lengths, as in some files, but not NaN, whose kernel would take 0 for it.
#[test]
fn lengths_that_are_no_numbers_are_told() {
    let mut g = GraphBuilder::new("split");
    let (x, axis) = (g.parameter("x", F32, "3"), g.constant_i64(&[0]));
    let lengths = g.constant_f32(&[2], &[f32::NAN, 3.0]);
    let parts = g.layer("VariadicSplit", "opset1").inputs(&[x, axis, lengths]).outputs(2);
    parts.iter().enumerate().for_each(|(i, part)| g.result(&format!("y{i}"), *part));
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
    let problem = session.run(&[Tensor::from_vec(&[3], vec![1.0f32; 3]).unwrap()]).unwrap_err();
    assert!(problem.to_string().contains("or of numbers beyond i64"), "{problem}");
}

/// Sub-byte element types, which LogicalNot, IsNaN and IsInf have no kernel for, are rejected at
/// compile time.
#[test]
fn tests_of_packed_elements_are_refused() {
    for (kind, opset) in [("LogicalNot", "opset1"), ("IsNaN", "opset10"), ("IsInf", "opset10")] {
        for element_type in [U1, U4, I4, NF4, F4E2M1] {
            let mut g = GraphBuilder::new("packed");
            let x = g.parameter("x", element_type, "2");
            let y = g.layer(kind, opset).inputs(&[x]).output();
            g.result("y", y);
            let graph = g.finish().unwrap();
            let Ok(facts) = infer::propagate(&graph, &Inputs::default()) else { continue };
            let Err(problem) = irrun_runtime::compile(&graph, &facts) else {
                panic!("{kind} of {element_type} is planned");
            };
            assert!(problem.to_string().contains(&element_type.to_string()), "{problem}");
        }
    }
}

/// A run that another thread cancels, or that takes too long, ends before its next layer.
#[test]
fn limits_end_a_run() {
    use irrun_runtime::{CancellationToken, Limits, Options, compile_with};
    let mut g = GraphBuilder::new("limits");
    let x = g.parameter("x", F32, "4");
    let y = g.layer("Negative", "opset1").inputs(&[x]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let run = |limits: Limits| {
        let options = Options { limits, ..Options::default() };
        let mut session = compile_with(&graph, &facts, &options).unwrap().session();
        let x = Tensor::from_vec(&[4], vec![1f32; 4]).unwrap();
        session.run(&[x]).map(|_| ()).map_err(|e| e.to_string())
    };
    let token = CancellationToken::default();
    let limits = Limits { cancellation: Some(token.clone()), ..Limits::default() };
    assert_eq!(run(limits.clone()), Ok(()));
    assert!(token.layer().unwrap().contains("Negative"), "{:?}", token.layer());
    token.cancel("the user left");
    assert!(run(limits).unwrap_err().contains("the user left"));
    let none = Limits { time: Some(std::time::Duration::ZERO), ..Limits::default() };
    assert!(run(none).unwrap_err().contains("more than its limit of 0 s"));
}

/// Progress counts the steps of the model, and the bodies started within a step.
#[test]
fn a_token_tells_how_far_a_run_is() {
    use irrun_runtime::{CancellationToken, Limits, Options, Progress, compile_with};
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/loop_with_scan");
    let graph = ir::read(std::path::Path::new(fixture).join("model.xml")).unwrap();
    let token = CancellationToken::default();
    let limits = Limits { cancellation: Some(token.clone()), ..Limits::default() };
    assert_eq!(token.progress(), Progress::default());
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let plan = compile_with(&graph, &facts, &Options { limits, ..Options::default() }).unwrap();
    let steps = plan.steps().len();
    let x = Tensor::from_vec(&[1, 3], vec![1f32; 3]).unwrap();
    let outputs = plan.session().run(&[x]).unwrap();
    let Progress { layer, step, steps: all, iterations } = token.progress();
    assert_eq!((step + 1, all), (steps, steps), "{layer}");
    // The output that collects iterations has one row per iteration.
    assert_eq!(iterations, outputs[1].sizes()[0] as u64, "{layer}");
}

/// A shape that is known only after constant folding, and that its rule rejects, is an error of the
/// run: the plan has no kernel for the layer.
#[test]
fn a_shape_that_turns_out_not_to_fit_is_told() {
    let products = [("transpose_a", "false"), ("transpose_b", "true")];
    for (kind, attributes, message) in [
        ("Add", &[][..], "shapes [1,3] and [2] do not fit: 3 and 2 differ"),
        ("MatMul", &products[..], "[1,3] has rows of 3, [2] has columns of 2"),
    ] {
        let mut g = GraphBuilder::new("unique");
        let x = g.parameter("x", F32, "1,3");
        let numbers = g.constant_f32(&[4], &[0.0, 2.0, 2.0, 2.0]);
        let types = [("index_element_type", "i64"), ("count_element_type", "i64")];
        let unique = g.layer("Unique", "opset10").attributes(&types).inputs(&[numbers]).outputs(4);
        let y = g.layer(kind, "opset1").attributes(attributes).inputs(&[x, unique[0]]).output();
        let y = g.layer("Negative", "opset1").inputs(&[y]).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
        let x = Tensor::from_vec(&[1, 3], vec![1f32; 3]).unwrap();
        let problem = session.run(&[x]).unwrap_err().to_string();
        assert!(problem.contains(message), "{problem}");
    }
}
