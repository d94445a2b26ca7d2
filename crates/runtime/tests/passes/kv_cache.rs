//! KV caches that grow in place: the values of variables against lists of rows, and results against
//! the graph without optimisation.

use super::numbers;
use infer::Inputs;
use ir::{ElementType, Graph, GraphBuilder, OutputRef};
use irrun_runtime::{Options, Session, Tensor, Threads};
use std::sync::Arc;

const BEAMS: usize = 2;
const HEADS: usize = 2;
/// Columns of keys and values.
const COLUMNS: [usize; 2] = [20, 70];

/// A deviation from the usual model.
#[derive(Clone, Copy, PartialEq)]
enum But {
    EmptyOutput,
    /// The query has as many heads as the caches.
    OneEach,
    /// The variables begin with three rows.
    Begun,
    /// The repetition of heads uses the length of a third variable.
    OtherLength,
    /// The values are also an output.
    Seen,
}

fn part(g: &mut GraphBuilder, shape: OutputRef, axis: i64) -> OutputRef {
    let (axis, first) = (g.constant_i64(&[axis]), g.constant(ElementType::I64, &[], &[0; 8]));
    g.layer("Gather", "opset8").attribute("batch_dims", "0").inputs(&[shape, axis, first]).output()
}

fn shape_of(g: &mut GraphBuilder, value: OutputRef) -> OutputRef {
    g.layer("ShapeOf", "opset3").attribute("output_type", "i64").inputs(&[value]).output()
}

fn read(g: &mut GraphBuilder, id: &str, columns: usize, rows: u64) -> OutputRef {
    let shape = format!("?,{HEADS},?,{columns}");
    let sizes = [BEAMS as u64, HEADS as u64, rows, columns as u64];
    let first = g.constant_f32(&sizes, &numbers(sizes.iter().product::<u64>() as usize, 9));
    let variable = [("variable_id", id), ("variable_type", "f32"), ("variable_shape", &shape)];
    g.layer("ReadValue", "opset6").attributes(&variable).inputs(&[first]).output()
}

/// A variable with new rows appended, repeated for the heads of the query.
fn cache(g: &mut GraphBuilder, id: &str, columns: usize, beams: OutputRef, but: But) -> OutputRef {
    let new = g.parameter(id, ElementType::F32, &format!("?,{HEADS},?,{columns}"));
    let held = read(g, id, columns, if but == But::Begun { 3 } else { 0 });
    let zero = g.constant(ElementType::I64, &[], &[0; 8]);
    let gather = g.layer("Gather", "opset8").attribute("batch_dims", "0");
    let past = gather.inputs(&[held, beams, zero]).output();
    let whole = g.layer("Concat", "opset1").attribute("axis", "-2").inputs(&[past, new]).output();
    g.layer("Assign", "opset6").attribute("variable_id", id).inputs(&[whole]).output();
    if but == But::Seen && id == "values" {
        g.result("seen", whole);
    }
    if but == But::OneEach {
        return whole;
    }
    let (axis, group) = (g.constant_i64(&[2]), g.constant_i64(&[2]));
    let counted = if but == But::OtherLength { read(g, "other", 1, 1) } else { past };
    let (old, more, all) = (shape_of(g, counted), shape_of(g, new), shape_of(g, whole));
    let (old, more) = (part(g, old, 2), part(g, more, 2));
    let rows = g.layer("Add", "opset1").attribute("auto_broadcast", "numpy");
    let rows = rows.inputs(&[old, more]).output();
    let sizes = [part(g, all, 0), part(g, all, 1), group, rows, part(g, all, 3)];
    let sizes = g.layer("Concat", "opset1").attribute("axis", "0").inputs(&sizes).output();
    let apart = g.layer("Unsqueeze", "opset1").inputs(&[whole, axis]).output();
    let repeated = g.layer("Broadcast", "opset3").attribute("mode", "bidirectional");
    let repeated = repeated.inputs(&[apart, sizes]).output();
    let merged = g.constant_i64(&[0, 2 * HEADS as i64, -1, columns as i64]);
    let reshape = g.layer("Reshape", "opset1").attribute("special_zero", "true");
    reshape.inputs(&[repeated, merged]).output()
}

fn model(but: But) -> Graph {
    let mut g = GraphBuilder::new("caches");
    let heads = if but == But::OneEach { HEADS } else { 2 * HEADS };
    let shape = format!("?,{heads},?,{}", COLUMNS[0]);
    let query = g.parameter("query", ElementType::F32, &shape);
    let beams = g.parameter("beams", ElementType::I32, "?");
    let mask = g.parameter("mask", ElementType::Boolean, "?,1,?,?");
    let keys = cache(&mut g, "keys", COLUMNS[0], beams, but);
    let values = cache(&mut g, "values", COLUMNS[1], beams, but);
    let attention = g.layer("ScaledDotProductAttention", "opset13").attribute("causal", "false");
    let y = attention.inputs(&[query, keys, values, mask]).output();
    g.result("y", y);
    g.finish().unwrap()
}

fn session(graph: &Graph, optimize: bool, threads: usize) -> Session {
    let facts = infer::propagate(graph, &Inputs::default()).unwrap();
    let options = Options { optimize, ..Options::default() };
    let plan = irrun_runtime::compile_with(graph, &facts, &options).unwrap();
    plan.session_on(Arc::new(Threads::new(threads)))
}

/// Inputs of a step: new rows, the indices of the beams, and a mask with `columns` columns.
fn step(but: But, index: usize, rows: usize, order: [i32; BEAMS], columns: usize) -> Vec<Tensor> {
    let heads = if but == But::OneEach { HEADS } else { 2 * HEADS };
    let tensor = |sizes: [usize; 4], seed: usize| {
        Tensor::from_vec(&sizes, numbers(sizes.iter().product(), seed)).unwrap()
    };
    // The mask hides the last column of every third row, and the whole first row of step 5.
    let seen =
        |i: usize| u8::from(!(i + 1).is_multiple_of(3 * columns) && (index != 5 || i >= columns));
    let mask = (0..BEAMS * rows * columns).map(seen).collect();
    vec![
        tensor([BEAMS, heads, rows, COLUMNS[0]], 3 * index),
        Tensor::from_vec(&[BEAMS], order.to_vec()).unwrap(),
        Tensor::from_vec_as(ElementType::Boolean, &[BEAMS, 1, rows, columns], mask).unwrap(),
        tensor([BEAMS, HEADS, rows, COLUMNS[0]], 3 * index + 1),
        tensor([BEAMS, HEADS, rows, COLUMNS[1]], 3 * index + 2),
    ]
}

/// The rows of one head of one beam.
type Rows = Vec<f32>;

/// The rows of a cache after a step, by beams and heads.
fn grown(held: &[Rows], order: [i32; BEAMS], new: &Tensor) -> Vec<Rows> {
    let &[_, _, rows, columns] = new.sizes() else { panic!("new rows have four axes") };
    let values = new.as_slice::<f32>().unwrap();
    let matrix = |i: usize| {
        let beam = order[i / HEADS];
        let beam = usize::try_from(if beam < 0 { beam + BEAMS as i32 } else { beam }).unwrap();
        let old = if beam < BEAMS {
            held[beam * HEADS + i % HEADS].clone()
        } else {
            vec![0.0; held[i].len()]
        };
        let own = &values[i * rows * columns..][..rows * columns];
        old.into_iter().chain(own.iter().copied()).collect()
    };
    (0..BEAMS * HEADS).map(matrix).collect()
}

fn held(session: &Session, id: &str) -> Vec<Rows> {
    let variables = session.variables().unwrap();
    let (_, tensor) = variables.iter().find(|(known, _)| known == id).unwrap();
    let values = tensor.as_slice::<f32>().unwrap();
    values.chunks_exact(values.len() / (BEAMS * HEADS)).map(<[f32]>::to_vec).collect()
}

fn kernels(session: &Session) -> Vec<&'static str> {
    session.profile().iter().map(|step| step.kernel).collect()
}

const STEPS: [(usize, [i32; BEAMS]); 14] = [
    (5, [0, 1]),
    (1, [0, 1]),
    (1, [1, 1]),
    (1, [0, 1]),
    (1, [-1, 0]),
    (1, [0, 1]),
    (1, [0, 7]),
    (3, [0, 1]),
    (1, [1, 0]),
    (1, [0, 1]),
    (9, [0, 1]),
    (1, [0, 1]),
    (1, [0, 1]),
    (40, [1, 1]),
];

/// Runs steps and compares variables with lists of rows, and results with those of the graph
/// without optimisation.
fn compare(but: But, threads: usize) -> Session {
    let graph = model(but);
    let (mut written, mut session) = (session(&graph, false, 1), session(&graph, true, threads));
    session.start_profile();
    let first = if but == But::Begun { 3 } else { 0 };
    let begin = |columns: usize| -> Vec<Rows> {
        let all = numbers(BEAMS * HEADS * first * columns, 9);
        (0..BEAMS * HEADS).map(|i| all[i * first * columns..][..first * columns].to_vec()).collect()
    };
    let mut caches = COLUMNS.map(begin);
    let mut length = first;
    for (index, (rows, order)) in STEPS.into_iter().enumerate() {
        length += rows;
        let inputs = step(but, index, rows, order, length);
        let outputs = session.run(&inputs).unwrap();
        let expected = written.run(&inputs).unwrap();
        for (found, expected) in outputs.iter().zip(&expected) {
            assert_eq!(found.as_slice::<f32>(), expected.as_slice::<f32>(), "step {index}");
        }
        for (i, id) in ["keys", "values"].into_iter().enumerate() {
            caches[i] = grown(&caches[i], order, &inputs[3 + i]);
            // Reading a variable must not change it.
            if index % 2 == 0 {
                assert!(held(&session, id) == caches[i], "{id} after step {index}");
            }
        }
    }
    session
}

#[test]
fn rows_are_put_behind_those_that_there_are() {
    for but in [But::EmptyOutput, But::OneEach, But::Begun] {
        for threads in [1, 2, 3] {
            let session = compare(but, threads);
            assert!(kernels(&session).contains(&"cached attention"));
        }
    }
}

#[test]
fn tokens_one_by_one_copy_nothing() {
    let mut session = session(&model(But::EmptyOutput), true, 1);
    session.start_profile();
    for index in 0..20 {
        session.run(&step(But::EmptyOutput, index, 1, [0, 1], index + 1)).unwrap();
    }
    let kernels = kernels(&session);
    let copies = |k: &&str| k.ends_with("variable") || ["gather", "copy", "attention"].contains(k);
    assert!(kernels.contains(&"cached attention") && !kernels.iter().any(copies), "{kernels:?}");
}

/// If the graph does not prove that heads are repeated to the length of their cache, or other nodes
/// read the cache, nothing is fused.
#[test]
fn what_others_see_is_copied() {
    let session = compare(But::Seen, 2);
    assert!(!kernels(&session).contains(&"cached attention"));
    let graph = model(But::OtherLength);
    let mut session = session_with_other(&graph);
    for (index, length) in (1..9).enumerate() {
        session.run(&step(But::OtherLength, index, 1, [0, 1], length)).unwrap();
        let other = Tensor::zeros(ElementType::F32, &[BEAMS, HEADS, length, 1]).unwrap();
        session.set_variable("other", other).unwrap();
    }
    let kernels = kernels(&session);
    assert!(kernels.contains(&"attention"), "{kernels:?}");
    // Plans for fixed lengths see that the lengths agree; the plan for all lengths does not.
    let other = Tensor::zeros(ElementType::F32, &[BEAMS, HEADS, 3, 1]).unwrap();
    session.set_variable("other", other).unwrap();
    let error = session.run(&step(But::OtherLength, 8, 1, [0, 1], 9)).unwrap_err().to_string();
    assert!(error.contains("Broadcast"), "{error}");
}

fn session_with_other(graph: &Graph) -> Session {
    let mut session = session(graph, true, 1);
    session.start_profile();
    let other = Tensor::zeros(ElementType::F32, &[BEAMS, HEADS, 0, 1]).unwrap();
    session.set_variable("other", other).unwrap();
    session
}

/// A run that fails after rows were appended leaves the variables unchanged, also if it reordered
/// beams; so does the very first run.
#[test]
fn a_run_that_fails_adds_nothing() {
    let but = But::EmptyOutput;
    let mut session = session(&model(but), true, 1);
    for index in 0..6 {
        session.run(&step(but, index, 1, [0, 1], index + 1)).unwrap();
    }
    let before = held(&session, "keys");
    for (order, columns) in [([0, 1], 4), ([1, 0], 3)] {
        let error = session.run(&step(but, 6, 1, order, columns)).unwrap_err().to_string();
        assert!(error.contains("does not fit 7 keys"), "{error}");
        assert!(held(&session, "keys") == before);
    }
    let inputs = step(but, 6, 1, [1, 1], 7);
    session.run(&inputs).unwrap();
    assert!(held(&session, "keys") == grown(&before, [1, 1], &inputs[3]));
    session.reset();
    assert!(session.variables().unwrap().is_empty());
    session.run(&step(but, 0, 1, [0, 1], 4)).unwrap_err();
    assert!(session.variables().unwrap().is_empty());
}

/// A value that is set replaces the grown cache, and grows in turn.
#[test]
fn a_cache_that_is_set_grows_on() {
    let but = But::EmptyOutput;
    let mut session = session(&model(but), true, 2);
    for index in 0..4 {
        session.run(&step(but, index, 1, [0, 1], index + 1)).unwrap();
    }
    for (id, columns) in ["keys", "values"].into_iter().zip(COLUMNS) {
        let sizes = [BEAMS, HEADS, 10, columns];
        let rows = numbers(sizes.iter().product(), 4);
        session.set_variable(id, Tensor::from_vec(&sizes, rows).unwrap()).unwrap();
    }
    let before = held(&session, "values");
    let inputs = step(but, 4, 1, [0, 1], 11);
    session.run(&inputs).unwrap();
    assert!(held(&session, "values") == grown(&before, [0, 1], &inputs[4]));
    // Keys alone: there are fewer keys than values.
    let keys = Tensor::zeros(ElementType::F32, &[BEAMS, HEADS, 2, COLUMNS[0]]).unwrap();
    session.set_variable("keys", keys).unwrap();
    session.run(&step(but, 5, 1, [0, 1], 3)).unwrap_err();
}
