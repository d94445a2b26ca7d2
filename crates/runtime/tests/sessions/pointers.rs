//! Reshape of every dialect, Squeeze and Unsqueeze are views: the output is the memory of the
//! input, for inputs, for constants in the mapped file, and through chains.

use infer::Inputs;
use ir::ElementType::{self, BF16, Boolean, F8E4M3, F32, F64, I4, I16, I64, NF4, U1, U8};
use ir::{Graph, GraphBuilder, OutputRef};
use irrun_runtime::{Options, Session, Tensor};

/// A layer that only changes the shape: type, version, attributes, and its pattern or axes.
#[derive(Debug)]
struct Renaming(
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [i64],
);

/// The first four take [2,3,4] to [6,4].
const RENAMINGS: &[Renaming] = &[
    Renaming("Reshape", "opset1", &[("special_zero", "true")], &[-1, 4]),
    Renaming("Reshape", "mxnet", &[("shape", "(-3,-2)")], &[]),
    Renaming("Reshape", "caffe", &[("dim", "-1"), ("axis", "0"), ("num_axes", "2")], &[]),
    Renaming("StaticReshape", "onednn", &[("shape", "6,-1"), ("special_zero", "false")], &[]),
    Renaming("Unsqueeze", "opset1", &[], &[0]),
    Renaming("Squeeze", "opset1", &[], &[0]),
    Renaming("Squeeze", "opset15", &[("allow_axis_skip", "true")], &[0, 1]),
];

impl Renaming {
    fn add(&self, g: &mut GraphBuilder, from: OutputRef) -> OutputRef {
        let mut inputs = vec![from];
        if !self.3.is_empty() {
            inputs.push(g.constant_i64(self.3));
        }
        g.layer(self.0, self.1).attributes(self.2).inputs(&inputs).output()
    }

    /// The shape of its input.
    fn sizes(&self) -> &'static [usize] {
        if self.0 == "Squeeze" { &[1, 2, 3, 4] } else { &[2, 3, 4] }
    }
}

fn session(graph: &Graph, optimize: bool) -> Session {
    let facts = infer::propagate(graph, &Inputs::default()).unwrap();
    irrun_runtime::compile_with(graph, &facts, &Options { optimize, ..Options::default() })
        .unwrap()
        .session()
}

fn numbers(sizes: &[usize]) -> Tensor {
    let count: usize = sizes.iter().product();
    Tensor::from_vec(sizes, (0..count).map(|i| i as f32).collect()).unwrap()
}

/// Runs a graph of one input and checks that its only output is the memory of that input, reshaped.
#[track_caller]
fn same_place(graph: &Graph, input: &Tensor, expected: &[usize]) {
    for optimize in [true, false] {
        let mut session = session(graph, optimize);
        let outputs = session.run(std::slice::from_ref(input)).unwrap();
        assert_eq!(outputs[0].sizes(), expected, "optimize: {optimize}");
        let (from, to) = (input.bytes(), outputs[0].bytes());
        assert_eq!(from.as_ptr(), to.as_ptr(), "the bytes have moved; optimize: {optimize}");
        assert_eq!(from.len(), to.len());
    }
}

#[test]
fn every_renaming_over_an_input() {
    for renaming in RENAMINGS {
        let mut g = GraphBuilder::new("renaming");
        let sizes = renaming.sizes();
        let shape: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let x = g.parameter("x", F32, &shape.join(","));
        let y = renaming.add(&mut g, x);
        g.result("y", y);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let expected = facts.output(y).unwrap().shape.sizes().unwrap();
        same_place(&graph, &numbers(sizes), &expected);
    }
}

#[test]
fn every_element_type() {
    for element_type in [Boolean, U1, I4, U8, I16, BF16, F32, F64, NF4, F8E4M3] {
        let mut g = GraphBuilder::new("types");
        let x = g.parameter("x", element_type, "2,3,4");
        let y = RENAMINGS[0].add(&mut g, x);
        g.result("y", y);
        let input = Tensor::zeros(element_type, &[2, 3, 4]).unwrap();
        same_place(&g.finish().unwrap(), &input, &[6, 4]);
    }
}

#[test]
fn strings_are_shared() {
    let mut g = GraphBuilder::new("strings");
    let x = g.parameter("x", ElementType::String, "2");
    let pattern = g.constant_i64(&[2, 1]);
    let y = g.layer("Reshape", "opset1").inputs(&[x, pattern]).output();
    g.result("y", y);
    let input = Tensor::strings(&[2], vec!["a".into(), "b".into()]).unwrap();
    let graph = g.finish().unwrap();
    let output = session(&graph, true).run(std::slice::from_ref(&input)).unwrap().remove(0);
    assert_eq!(output.sizes(), [2, 1]);
    assert_eq!(output.as_strings().unwrap().as_ptr(), input.as_strings().unwrap().as_ptr());
}

#[test]
fn a_pattern_that_is_known_only_when_running() {
    let mut g = GraphBuilder::new("late");
    let x = g.parameter("x", F32, "...");
    let pattern = g.parameter("pattern", I64, "?");
    let y = g.layer("Reshape", "opset1").inputs(&[x, pattern]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let cases: [(&[usize], &[i64]); 3] = [(&[2, 3, 4], &[-1]), (&[5], &[5, 1]), (&[1], &[])];
    for optimize in [true, false] {
        let mut session = session(&graph, optimize);
        for (sizes, pattern) in cases {
            let input = numbers(sizes);
            let pattern = Tensor::from_vec(&[pattern.len()], pattern.to_vec()).unwrap();
            let output = session.run(&[input.clone(), pattern]).unwrap().remove(0);
            assert_eq!(output.bytes().as_ptr(), input.bytes().as_ptr(), "optimize: {optimize}");
        }
    }
}

#[test]
fn a_chain_of_200() {
    let mut g = GraphBuilder::new("chain");
    let mut last = g.parameter("x", F32, "2,3,4");
    for i in 0..50 {
        // To [6,4] by each dialect in turn, through Unsqueeze and Squeeze, and back.
        for renaming in [&RENAMINGS[i % 4], &RENAMINGS[4], &RENAMINGS[5]] {
            last = renaming.add(&mut g, last);
        }
        let pattern = g.constant_i64(&[2, 3, 4]);
        last = g.layer("Reshape", "opset1").inputs(&[last, pattern]).output();
    }
    g.result("y", last);
    same_place(&g.finish().unwrap(), &numbers(&[2, 3, 4]), &[2, 3, 4]);
}

#[test]
fn several_outputs_of_one_input() {
    let mut g = GraphBuilder::new("both");
    let x = g.parameter("x", F32, "2,3,4");
    for (i, renaming) in [&RENAMINGS[0], &RENAMINGS[4]].into_iter().enumerate() {
        let y = renaming.add(&mut g, x);
        g.result(&format!("y{i}"), y);
    }
    g.result("same", x);
    let graph = g.finish().unwrap();
    let input = numbers(&[2, 3, 4]);
    for optimize in [true, false] {
        for output in session(&graph, optimize).run(std::slice::from_ref(&input)).unwrap() {
            assert_eq!(output.bytes().as_ptr(), input.bytes().as_ptr());
        }
    }
}

#[test]
fn constants_stay_in_the_mapped_file() {
    let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
    for (i, renaming) in RENAMINGS.iter().enumerate() {
        let mut g = GraphBuilder::new("constant");
        let dims: Vec<u64> = renaming.sizes().iter().map(|&s| s as u64).collect();
        let constant = g.constant_f32(&dims, &values);
        let once = renaming.add(&mut g, constant);
        let pattern = g.constant_i64(&[4, 6]);
        let y = g.layer("Reshape", "opset1").inputs(&[once, pattern]).output();
        g.result("y", y);
        let path = format!("{}/pointers_{i}.xml", env!("CARGO_TARGET_TMPDIR"));
        ir::write(&g.finish().unwrap(), &path).unwrap();

        let graph = ir::read(&path).unwrap();
        let place = graph.weights().bytes().as_ptr();
        for optimize in [true, false] {
            let mut session = session(&graph, optimize);
            for _ in 0..2 {
                let output = session.run(&[]).unwrap().remove(0);
                assert_eq!(output.sizes(), [4, 6]);
                assert_eq!(output.bytes().as_ptr(), place, "{renaming:?}, optimize: {optimize}");
            }
        }
    }
}

/// Kernels read aligned elements, so floats at an odd offset are copied once, at compile time.
#[test]
fn unaligned_constants_are_copied_once() {
    let mut g = GraphBuilder::new("odd");
    g.constant(U8, &[1], &[7]);
    let constant = g.constant_f32(&[2, 3, 4], &[0.5; 24]);
    let y = RENAMINGS[0].add(&mut g, constant);
    g.result("y", y);
    let graph = g.finish().unwrap();
    let mut session = session(&graph, true);
    let [first, second] = [(), ()].map(|()| session.run(&[]).unwrap().remove(0));
    assert_eq!(first.as_slice::<f32>().unwrap(), [0.5; 24]);
    assert_eq!(first.bytes().as_ptr(), second.bytes().as_ptr());
}

#[test]
fn computed_tensors_are_shared_too() {
    let mut g = GraphBuilder::new("between");
    let x = g.parameter("x", F32, "2,3,4");
    let one = g.constant_f32(&[], &[1.0]);
    let sum = g.layer("Add", "opset1").inputs(&[x, one]).output();
    let renamed = RENAMINGS[0].add(&mut g, sum);
    g.result("sum", sum);
    g.result("renamed", renamed);
    let graph = g.finish().unwrap();
    for optimize in [true, false] {
        let outputs = session(&graph, optimize).run(&[numbers(&[2, 3, 4])]).unwrap();
        assert_eq!(outputs[0].bytes().as_ptr(), outputs[1].bytes().as_ptr());
        assert_eq!(outputs[1].sizes(), [6, 4]);
        assert_eq!(outputs[1].as_slice::<f32>().unwrap()[23], 24.0);
    }
}
