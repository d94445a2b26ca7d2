//! Operations on indices in random order, against the definition, element by element.

use infer::Inputs;
use ir::ElementType::{self, I32, I64};
use ir::GraphBuilder;
use irrun_runtime::{Tensor, compile};

const ROWS: usize = 40;
const COLUMNS: usize = 60;

/// Indices of both signs in range.
fn shuffled(count: usize, size: usize) -> Vec<i64> {
    (0..count).map(|i| (i * 7919 % size) as i64 - (i % 2 * size) as i64).collect()
}

fn positive(index: i64, size: usize) -> usize {
    index.rem_euclid(size as i64) as usize
}

/// Indices as a tensor of one type or the other.
fn tensor(sizes: &[usize], indices: &[i64], element_type: ElementType) -> Tensor {
    match element_type {
        I32 => Tensor::from_vec(sizes, indices.iter().map(|i| *i as i32).collect()),
        _ => Tensor::from_vec(sizes, indices.to_vec()),
    }
    .unwrap()
}

/// The result, or the error, of an operation on f32, indices and perhaps updates.
fn run(
    (op, version, attributes): (&str, &str, &[(&str, &str)]),
    axis: Option<i64>,
    inputs: &[Tensor],
) -> Result<Vec<f32>, String> {
    let mut g = GraphBuilder::new("indices");
    let mut ports: Vec<_> = (0..)
        .zip(inputs)
        .map(|(i, tensor)| {
            let shape: Vec<String> = tensor.sizes().iter().map(usize::to_string).collect();
            g.parameter(&format!("p{i}"), tensor.element_type(), &shape.join(","))
        })
        .collect();
    ports.extend(axis.map(|axis| g.constant_i64(&[axis])));
    let layer = g.layer(op, version);
    let layer = attributes.iter().fold(layer, |layer, (name, value)| layer.attribute(name, value));
    let y = layer.inputs(&ports).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let outputs = compile(&graph, &facts).unwrap().session().run(inputs);
    outputs.map(|out| out[0].as_slice().unwrap().to_vec()).map_err(|e| e.to_string())
}

fn numbers(count: usize, factor: f32) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 101) as f32 * factor).collect()
}

#[test]
fn elements_are_scattered() {
    let data = numbers(ROWS * COLUMNS, 0.3);
    for (axis, sizes) in [(0, [90, 50]), (1, [30, 80])] {
        let count = sizes[0] * sizes[1];
        let (size, updates) = ([ROWS, COLUMNS][axis], numbers(count, 0.7));
        let indices = shuffled(count, size);
        let (mut last, mut sums) = (data.clone(), data.clone());
        for (i, update) in updates.iter().enumerate() {
            let mut at = [i / sizes[1], i % sizes[1]];
            at[axis] = positive(indices[i], size);
            last[at[0] * COLUMNS + at[1]] = *update;
            sums[at[0] * COLUMNS + at[1]] += update;
        }
        for element_type in [I32, I64] {
            let inputs = [
                Tensor::from_vec(&[ROWS, COLUMNS], data.clone()).unwrap(),
                tensor(&sizes, &indices, element_type),
                Tensor::from_vec(&sizes, updates.clone()).unwrap(),
            ];
            for (reduction, expected) in [("none", &last), ("sum", &sums)] {
                let op = ("ScatterElementsUpdate", "opset12", &[("reduction", reduction)][..]);
                let found = run(op, Some(axis as i64), &inputs);
                assert_eq!(found.as_ref(), Ok(expected), "{reduction} {axis}");
            }
        }
    }
}

#[test]
fn tuples_name_elements() {
    let data = numbers(ROWS * COLUMNS, 0.3);
    let pairs = shuffled(500, ROWS).into_iter().zip(shuffled(500, COLUMNS));
    let indices: Vec<i64> = pairs.flat_map(|(a, b)| [a, b]).collect();
    let updates = numbers(500, 0.7);
    let places = indices.as_chunks::<2>().0.iter();
    let places: Vec<usize> =
        places.map(|[a, b]| positive(*a, ROWS) * COLUMNS + positive(*b, COLUMNS)).collect();
    let mut written = data.clone();
    places.iter().zip(&updates).for_each(|(at, update)| written[*at] = *update);
    let read: Vec<f32> = places.iter().map(|at| data[*at]).collect();
    for element_type in [I32, I64] {
        let all = [
            Tensor::from_vec(&[ROWS, COLUMNS], data.clone()).unwrap(),
            tensor(&[500, 2], &indices, element_type),
            Tensor::from_vec(&[500], updates.clone()).unwrap(),
        ];
        assert_eq!(run(("GatherND", "opset8", &[]), None, &all[..2]).as_ref(), Ok(&read));
        assert_eq!(run(("ScatterNDUpdate", "opset4", &[]), None, &all).as_ref(), Ok(&written));
    }
}

/// Whatever reads the indices names the first that is wrong.
#[test]
fn wrong_indices_are_named() {
    let data = Tensor::from_vec(&[ROWS, COLUMNS], numbers(ROWS * COLUMNS, 0.3)).unwrap();
    let mut indices = shuffled(200, ROWS);
    (indices[150], indices[160]) = (ROWS as i64, -1000);
    let list = |sizes: &[usize]| tensor(sizes, &indices, I64);
    let updates = |sizes: &[usize]| Tensor::from_vec(sizes, numbers(200, 1.0)).unwrap();
    let scatter = [data.clone(), list(&[4, 50]), updates(&[4, 50])];
    let found = run(("ScatterElementsUpdate", "opset3", &[]), Some(0), &scatter).unwrap_err();
    assert!(found.contains("index 40 is out of range for an axis of 40"), "{found}");
    let found = run(("GatherND", "opset8", &[]), None, &[data, list(&[100, 2])]).unwrap_err();
    assert!(found.contains("index 40 is out of range for an axis of 40"), "{found}");
}

/// Indices of no elements, along each axis.
#[test]
fn no_indices_change_nothing() {
    let data = numbers(ROWS * COLUMNS, 0.3);
    for (axis, sizes) in [(0, [0, 50]), (0, [30, 0]), (1, [0, 9]), (1, [9, 0])] {
        let inputs = [
            Tensor::from_vec(&[ROWS, COLUMNS], data.clone()).unwrap(),
            tensor(&sizes, &[], I64),
            Tensor::from_vec(&sizes, Vec::<f32>::new()).unwrap(),
        ];
        let found = run(("ScatterElementsUpdate", "opset3", &[]), Some(axis), &inputs);
        assert_eq!(found.as_ref(), Ok(&data));
    }
}
