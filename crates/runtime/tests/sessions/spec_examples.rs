//! The worked examples of the specification that show values; each test is named after its
//! document. Rules about shapes are in the tests of the same name in `infer`.

use infer::Inputs;
use ir::ElementType::{F32, I64};
use ir::{GraphBuilder, OutputRef};
use irrun_runtime::Tensor;

/// Runs a graph of one f32 input and one layer.
fn run(
    sizes: &[usize],
    values: Vec<f32>,
    layer: impl FnOnce(&mut GraphBuilder, OutputRef) -> OutputRef,
) -> Vec<f32> {
    let mut g = GraphBuilder::new("example");
    let shape: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let x = g.parameter("x", F32, &shape.join(","));
    let y = layer(&mut g, x);
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let input = Tensor::from_vec(sizes, values).unwrap();
    let output = irrun_runtime::compile(&graph, &facts).unwrap().session().run(&[input]).unwrap();
    output[0].as_slice().unwrap().to_vec()
}

/// An i64 constant of rank 0 or 1.
#[derive(Clone, Copy)]
enum Ints<'a> {
    Scalar(i64),
    List(&'a [i64]),
}

use Ints::{List, Scalar};

impl Ints<'_> {
    fn add(self, g: &mut GraphBuilder) -> OutputRef {
        match self {
            Scalar(value) => g.constant(I64, &[], &value.to_le_bytes()),
            List(values) => g.constant_i64(values),
        }
    }
}

/// Roll-7 of the numbers from 1 in the shape [4,3], as in the document's examples.
fn roll(shift: Ints<'_>, axes: Ints<'_>) -> Vec<u32> {
    let rolled = run(&[4, 3], (1..=12).map(|i| i as f32).collect(), |g, x| {
        let inputs = [x, shift.add(g), axes.add(g)];
        g.layer("Roll", "opset7").inputs(&inputs).output()
    });
    rolled.into_iter().map(|v| v as u32).collect()
}

#[test]
fn openvino_roll_7_example_1_shift_1_axis_0() {
    let expected = [10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    assert_eq!(roll(Scalar(1), Scalar(0)), expected);
    assert_eq!(roll(List(&[1]), List(&[0])), expected);
}

#[test]
fn openvino_roll_7_example_2_two_axes_both_signs() {
    let expected = [5, 6, 4, 8, 9, 7, 11, 12, 10, 2, 3, 1];
    assert_eq!(roll(List(&[-1, 2]), List(&[0, 1])), expected);
}

#[test]
fn openvino_roll_7_example_3_shifts_of_a_repeated_axis_add_up() {
    let expected = [8, 9, 7, 11, 12, 10, 2, 3, 1, 5, 6, 4];
    assert_eq!(roll(List(&[1, 2, 1]), List(&[0, 1, 0])), expected);
}

#[test]
fn openvino_roll_7_scalar_shift_serves_all_axes() {
    assert_eq!(roll(Scalar(2), List(&[0, 1])), roll(List(&[2, 2]), List(&[0, 1])));
}

#[test]
fn openvino_roll_7_negative_axes_count_from_the_end() {
    assert_eq!(roll(List(&[1, 2]), List(&[-1, -2])), roll(List(&[1, 2]), List(&[1, 0])));
}

#[test]
fn openvino_roll_7_shifts_wrap_beyond_the_size() {
    // 2^62 is 1 modulo 3; OpenVINO's CPU plugin saturates it to 32 bits.
    assert_eq!(roll(Scalar(1 << 62), List(&[1])), roll(Scalar(1), List(&[1])));
    assert_eq!(roll(Scalar(-7), List(&[0])), roll(Scalar(1), List(&[0])));
    assert_eq!(roll(List(&[i64::MIN, i64::MAX]), List(&[0, 0])), roll(Scalar(-1), List(&[0])));
}

#[test]
fn openvino_roll_7_no_axes_and_no_elements() {
    let same: Vec<u32> = (1..=12).collect();
    assert_eq!(roll(List(&[]), List(&[])), same);
    assert_eq!(roll(Scalar(1), List(&[])), same);
    let empty = run(&[0, 3], Vec::new(), |g, x| {
        let inputs = [x, Scalar(1).add(g), Scalar(0).add(g)];
        g.layer("Roll", "opset7").inputs(&inputs).output()
    });
    assert!(empty.is_empty());
}

#[test]
fn mxnet_reshape_example_keeps_the_order() {
    let values = run(&[4], vec![1.0, 2.0, 3.0, 4.0], |g, x| {
        g.layer("Reshape", "mxnet").attribute("shape", "(2,2)").inputs(&[x]).output()
    });
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
}
