//! Profiles: what ran, how often, and that no time counts twice.

use infer::Inputs;
use ir::ElementType::F32;
use irrun_runtime::{Session, Tensor};
use std::path::Path;
use std::time::{Duration, Instant};

/// A Loop of five iterations with a Multiply in its body, and its input.
fn looping() -> (Session, [Tensor; 1]) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/loop_with_scan/model.xml");
    let graph = ir::read(&path).unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let session = irrun_runtime::compile(&graph, &facts).unwrap().session();
    (session, [Tensor::zeros(F32, &[1, 3]).unwrap()])
}

#[test]
fn layers_of_bodies_have_times_of_their_own() {
    let (mut session, input) = looping();
    session.run(&input).unwrap();
    session.start_profile();
    let start = Instant::now();
    for _ in 0..3 {
        session.run(&input).unwrap();
    }
    let wall = start.elapsed();
    let steps = session.profile();
    let times = |op_type: &str| {
        let of_type = steps.iter().filter(|s| s.op_type == op_type);
        of_type.map(|s| (s.kernel, s.times)).collect::<Vec<_>>()
    };
    assert_eq!(times("Loop"), [("loop", 3)]);
    assert_eq!(times("Multiply"), [("binary", 3 * 5)]);
    let sum: Duration = steps.iter().map(|s| s.time).sum();
    assert!(sum <= wall, "{sum:?} of {wall:?}");
}

/// The steps of a body lie within the time of the layer around them, one after the other.
#[test]
fn a_trace_says_when_each_step_ran() {
    let (mut session, input) = looping();
    session.start_profile();
    session.run(&input).unwrap();
    assert!(session.trace().is_empty(), "a profile keeps no trace");
    session.start_trace();
    session.run(&input).unwrap();
    let spans = session.trace();
    let of = |op_type: &str| spans.iter().filter(|s| s.op_type == op_type).collect::<Vec<_>>();
    let ([whole], inner) = (&of("Loop")[..], of("Multiply")) else { panic!("{spans:?}") };
    assert_eq!(inner.len(), 5);
    assert!(inner.iter().all(|span| span.start >= whole.start));
    assert!(inner.iter().all(|span| span.start + span.time <= whole.start + whole.time));
    assert!(inner.windows(2).all(|two| two[0].start + two[0].time <= two[1].start));
    assert!(spans.iter().all(|span| session.profile().iter().any(|step| step.layer == span.layer)));
}

/// The kernel of a deferred step has a name once it has run.
#[test]
fn kernels_that_are_chosen_late_have_their_names() {
    let mut g = ir::GraphBuilder::new("late");
    let x = g.parameter("x", F32, "4");
    let y =
        g.layer("NonZero", "opset3").attributes(&[("output_type", "i64")]).inputs(&[x]).output();
    let to = [("destination_type", "f32")];
    let y = g.layer("Convert", "opset1").attributes(&to).inputs(&[y]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
    session.start_profile();
    session.run(&[Tensor::from_vec(&[4], vec![1f32, 0.0, 2.0, 0.0]).unwrap()]).unwrap();
    let kernels: Vec<_> = session.profile().iter().map(|s| (s.op_type.clone(), s.kernel)).collect();
    let expected = [("NonZero", "non zero"), ("Convert", "convert")];
    assert_eq!(kernels, expected.map(|(op_type, kernel)| (op_type.to_owned(), kernel)));
}
