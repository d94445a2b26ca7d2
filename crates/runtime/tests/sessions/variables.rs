//! Variables of a session: declared, read, set, kept between runs, reset.

use infer::Inputs;
use ir::{ElementType, Graph, GraphBuilder};
use irrun_runtime::{Session, Tensor};

/// Variables `a` and `b` of two unknown dims: each is read, concatenated with the input along axis
/// 0, and assigned.
fn graph() -> Graph {
    let mut g = GraphBuilder::new("variables");
    let x = g.parameter("x", ElementType::F32, "1,2");
    for id in ["a", "b"] {
        let attributes = [("variable_id", id), ("variable_type", "f32"), ("variable_shape", "?,2")];
        let read = g.layer("ReadValue", "opset6").attributes(&attributes).output();
        let both = g.layer("Concat", "opset1").attribute("axis", "0").inputs(&[read, x]).output();
        g.layer("Assign", "opset6").attribute("variable_id", id).inputs(&[both]).output();
        g.result(id, both);
    }
    g.finish().unwrap()
}

fn session() -> Session {
    let graph = graph();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    irrun_runtime::compile(&graph, &facts).unwrap().session()
}

fn rows(count: usize) -> Tensor {
    Tensor::from_vec(&[count, 2], vec![1f32; 2 * count]).unwrap()
}

fn lengths(tensors: &[Tensor]) -> Vec<usize> {
    tensors.iter().map(|t| t.sizes()[0]).collect()
}

#[test]
fn values_are_kept_set_and_forgotten() {
    let mut session = session();
    assert!(session.variables().unwrap().is_empty());
    assert_eq!(lengths(&session.run(&[rows(1)]).unwrap()), [1, 1]);
    assert_eq!(lengths(&session.run(&[rows(1)]).unwrap()), [2, 2]);
    let kept: Vec<_> =
        session.variables().unwrap().into_iter().map(|(id, t)| (id, t.sizes()[0])).collect();
    assert_eq!(kept, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    // A value of `a` alone and one of `b` alone need different plans, although the shapes are the
    // same.
    for (id, expected) in [("a", [6, 1]), ("b", [1, 6])] {
        session.reset();
        session.set_variable(id, rows(5)).unwrap();
        assert_eq!(lengths(&session.run(&[rows(1)]).unwrap()), expected);
    }
}

/// The beams of a cache in the order of the indices, concatenated with a token each. If they are in
/// order, the tensor is handed over, else copied.
#[test]
fn beams_are_put_in_order() {
    let mut g = GraphBuilder::new("beams");
    let token = g.parameter("token", ElementType::F32, "3,1");
    let order = g.parameter("order", ElementType::I32, "3");
    let variable = [("variable_id", "v"), ("variable_type", "f32"), ("variable_shape", "?,?")];
    let read = g.layer("ReadValue", "opset6").attributes(&variable).output();
    let axis = g.constant(ElementType::I64, &[], &0i64.to_le_bytes());
    let beams = g.layer("Gather", "opset8").attribute("batch_dims", "0");
    let beams = beams.inputs(&[read, order, axis]).output();
    let both = g.layer("Concat", "opset1").attribute("axis", "1").inputs(&[beams, token]).output();
    g.layer("Assign", "opset6").attribute("variable_id", "v").inputs(&[both]).output();
    g.result("both", both);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
    session.set_variable("v", Tensor::from_vec(&[3, 1], vec![0f32, 1., 2.]).unwrap()).unwrap();
    let mut expected: Vec<Vec<f32>> = (0..3).map(|beam| vec![beam as f32]).collect();
    for (step, order) in [[0, 1, 2], [2, 0, 0], [0, 1, 2], [-1, 1, 0]].into_iter().enumerate() {
        let tokens: Vec<f32> = (0..3).map(|beam| (10 * (step + 1) + beam) as f32).collect();
        let with_token = |(beam, token): (&i32, &f32)| {
            let old = &expected[usize::try_from(beam.rem_euclid(3)).unwrap()];
            old.iter().copied().chain([*token]).collect()
        };
        expected = order.iter().zip(&tokens).map(with_token).collect();
        let token = Tensor::from_vec(&[3, 1], tokens).unwrap();
        let order = Tensor::from_vec(&[3], order.to_vec()).unwrap();
        let outputs = session.run(&[token, order]).unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), expected.concat());
    }
}

/// The same for sub-byte elements and strings.
#[test]
fn beams_of_any_type_are_put_in_order() {
    let text = |beam: usize| Box::from(["a", "b", "c"][beam]);
    let bytes = |element_type, bytes: &[u8]| Tensor::from_bytes(element_type, &[3, 2], bytes);
    type Beams<'a> = (ElementType, &'a dyn Fn([usize; 3]) -> Tensor);
    let cases: [Beams<'_>; 3] = [
        // Each beam has its number twice; the first of two is in the lower half of a byte.
        (ElementType::U4, &|o| bytes(ElementType::U4, &o.map(|b| 0x11 * b as u8)).unwrap()),
        (ElementType::U8, &|o| bytes(ElementType::U8, &o.map(|b| [b as u8; 2]).concat()).unwrap()),
        (ElementType::String, &|o| {
            Tensor::strings(&[3, 2], o.iter().flat_map(|b| [text(*b), text(*b)]).collect()).unwrap()
        }),
    ];
    for (element_type, beams) in cases {
        let mut g = GraphBuilder::new("beams");
        let order = g.parameter("order", ElementType::I32, "3");
        let name = element_type.to_string();
        let variable =
            [("variable_id", "v"), ("variable_type", &name[..]), ("variable_shape", "3,2")];
        let read = g.layer("ReadValue", "opset6").attributes(&variable).output();
        let axis = g.constant(ElementType::I64, &[], &0i64.to_le_bytes());
        let chosen = g.layer("Gather", "opset8").attribute("batch_dims", "0");
        let chosen = chosen.inputs(&[read, order, axis]).output();
        g.layer("Assign", "opset6").attribute("variable_id", "v").inputs(&[chosen]).output();
        g.result("chosen", chosen);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
        for order in [[0, 1, 2], [2, 0, 1]] {
            session.set_variable("v", beams([0, 1, 2])).unwrap();
            let indices = Tensor::from_vec(&[3], order.map(|beam| beam as i32).to_vec()).unwrap();
            let outputs = session.run(&[indices]).unwrap();
            let expected = beams(order);
            assert_eq!(outputs[0].bytes(), expected.bytes(), "{element_type} {order:?}");
            assert_eq!(outputs[0].as_strings(), expected.as_strings(), "{element_type} {order:?}");
        }
    }
}

#[test]
fn what_is_set_has_to_fit() {
    let mut session = session();
    let declared: Vec<String> =
        session.declared_variables().iter().map(|(id, fact)| format!("{id} {fact}")).collect();
    assert_eq!(declared, ["a f32[?,2]", "b f32[?,2]"]);
    let narrow = Tensor::from_vec(&[1, 1], vec![0f32]).unwrap();
    let doubles = Tensor::from_vec(&[1, 2], vec![0f64; 2]).unwrap();
    for (id, value, message) in [
        ("c", rows(1), "the model has no variable \"c\""),
        ("a", narrow, "variable \"a\" is f32[?,2], but is given f32[1,1]"),
        ("a", doubles, "variable \"a\" is f32[?,2], but is given f64[1,2]"),
    ] {
        assert_eq!(session.set_variable(id, value).unwrap_err().to_string(), message);
    }
    assert!(session.variables().unwrap().is_empty());
}

/// A token that a mask hides from everything, as padding, gives the mean of the values in the
/// cache, with a plan for one length and with the plan for all.
#[test]
fn hidden_rows_over_a_cache_are_its_mean() {
    let mut g = GraphBuilder::new("cache");
    let token = g.parameter("token", ElementType::F32, "1,1,2");
    let mask = g.parameter("mask", ElementType::Boolean, "1,?");
    let variable = [("variable_id", "v"), ("variable_type", "f32"), ("variable_shape", "1,?,2")];
    let read = g.layer("ReadValue", "opset6").attributes(&variable).output();
    let cache = g.layer("Concat", "opset1").attribute("axis", "1").inputs(&[read, token]).output();
    g.layer("Assign", "opset6").attribute("variable_id", "v").inputs(&[cache]).output();
    let attention = g.layer("ScaledDotProductAttention", "opset13").attribute("causal", "false");
    let y = attention.inputs(&[token, cache, cache, mask]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    for optimize in [true, false] {
        let options = irrun_runtime::Options { optimize, ..irrun_runtime::Options::default() };
        let mut session = irrun_runtime::compile_with(&graph, &facts, &options).unwrap().session();
        let mut sum = [0f32; 2];
        for length in 1..=20u8 {
            let row = [f32::from(length), f32::from(length % 3)];
            sum = [sum[0] + row[0], sum[1] + row[1]];
            let token = Tensor::from_vec(&[1, 1, 2], row.to_vec()).unwrap();
            let nothing = vec![0u8; length.into()];
            let mask =
                Tensor::from_vec_as(ElementType::Boolean, &[1, length.into()], nothing).unwrap();
            let outputs = session.run(&[token, mask]).unwrap();
            let found = outputs[0].as_slice::<f32>().unwrap();
            for (found, sum) in found.iter().zip(sum) {
                let mean = sum / f32::from(length);
                assert!((found - mean).abs() < 1e-5, "{length} tokens: {found}, not {mean}");
            }
        }
    }
}

/// Bytes of a program, from the second on: unaligned.
struct Stray(Vec<u8>);

impl AsRef<[u8]> for Stray {
    fn as_ref(&self) -> &[u8] {
        let odd = usize::from(self.0.as_ptr().addr().is_multiple_of(2));
        &self.0[odd..]
    }
}

/// Inputs and values of variables from a program may be unaligned.
#[test]
fn tensors_of_programs_lie_anywhere() {
    let values = [1f32, 2.0, 3.0, 4.0];
    let stray = || {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes());
        let mut own = vec![0u8; 17];
        let odd = usize::from(own.as_ptr().addr().is_multiple_of(2));
        own.iter_mut().skip(odd).zip(bytes).for_each(|(to, byte)| *to = byte);
        Tensor::from_shared(ElementType::F32, &[2, 2], Stray(own)).unwrap()
    };
    assert!(!stray().is_aligned());
    let mut g = GraphBuilder::new("stray");
    let x = g.parameter("x", ElementType::F32, "?,2");
    let y = g.layer("Relu", "opset1").inputs(&[x]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut relu = irrun_runtime::compile(&graph, &facts).unwrap().session();
    let outputs = relu.run(&[stray()]).unwrap();
    assert_eq!(outputs[0].as_slice::<f32>(), Some(&values[..]));
    let mut session = session();
    session.set_variable("a", stray()).unwrap();
    let outputs = session.run(&[rows(1)]).unwrap();
    assert_eq!(outputs[0].as_slice::<f32>(), Some(&[1f32, 2., 3., 4., 1., 1.][..]));
}

/// A variable without declaration takes the type and rank of its assignment.
#[test]
fn variables_may_be_of_any_type_and_rank() {
    let attributes = [("variable_type", "dynamic"), ("variable_shape", "...")];
    for declared in [&attributes[..], &[]] {
        let mut g = GraphBuilder::new("open");
        let x = g.parameter("x", ElementType::F32, "?,2");
        let read =
            g.layer("ReadValue", "opset6").attribute("variable_id", "v").attributes(declared);
        let read = read.inputs(&[x]).output();
        let both = g.layer("Concat", "opset1").attribute("axis", "0").inputs(&[read, x]).output();
        g.layer("Assign", "opset6").attribute("variable_id", "v").inputs(&[both]).output();
        g.result("both", both);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
        let runs = [1, 1, 3].map(|count| lengths(&session.run(&[rows(count)]).unwrap())[0]);
        assert_eq!(runs, [2, 3, 6], "{declared:?}");
    }
}

#[test]
fn an_assign_of_another_shape_than_its_variable_is_named() {
    let mut g = GraphBuilder::new("assigned");
    let x = g.parameter("x", ElementType::F32, "4");
    let found = g.layer("NonZero", "opset3").attribute("output_type", "i64").inputs(&[x]).output();
    let attributes = [("variable_id", "v"), ("variable_type", "i64"), ("variable_shape", "1,2")];
    let read = g.layer("ReadValue", "opset6").attributes(&attributes).output();
    g.layer("Assign", "opset6").attribute("variable_id", "v").inputs(&[found]).output();
    g.result("read", read);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let mut session = irrun_runtime::compile(&graph, &facts).unwrap().session();
    let mut run = |x: [f32; 4]| session.run(&[Tensor::from_vec(&[4], x.to_vec()).unwrap()]);
    run([1.0, 0.0, 1.0, 0.0]).unwrap();
    let problem = run([1.0, 1.0, 1.0, 0.0]).unwrap_err().to_string();
    assert!(problem.starts_with("Assign ") && problem.contains("variable \"v\""), "{problem}");
}
