//! Where OpenVINO's plugin deviates from the specification, so that its outputs cannot be expected
//! values: rows of the table in `docs/numerics.md`.

use infer::Inputs;
use ir::ElementType::{self, F32};
use ir::GraphBuilder;
use irrun_runtime::Tensor;

/// The outputs of a layer for f32 inputs, given by shape and values.
fn run(
    (kind, version): (&str, &str),
    attributes: &[(&str, &str)],
    inputs: &[(&[usize], &[f32])],
    outputs: usize,
) -> Vec<Tensor> {
    let mut g = GraphBuilder::new(kind);
    let mut ports = Vec::new();
    for (i, (sizes, _)) in inputs.iter().enumerate() {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        ports.push(g.parameter(&format!("x{i}"), F32, &sizes.join(",")));
    }
    let layer = g.layer(kind, version).attributes(attributes).inputs(&ports);
    for (i, port) in layer.outputs(outputs).into_iter().enumerate() {
        g.result(&format!("y{i}"), port);
    }
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let tensor = |(sizes, values): &(&[usize], &[f32])| Tensor::from_vec(sizes, values.to_vec());
    let tensors: Vec<Tensor> = inputs.iter().map(|input| tensor(input).unwrap()).collect();
    irrun_runtime::compile(&graph, &facts).unwrap().session().run(&tensors).unwrap()
}

#[test]
fn subnormal_numbers_are_finite() {
    let x: [f32; 5] = [1e-40, -1e-45, 0.0, f32::INFINITY, f32::NAN];
    let finite = run(("IsFinite", "opset10"), &[], &[(&[5], &x)], 1);
    assert_eq!(finite[0].bytes(), [1, 1, 1, 0, 0]);
}

#[test]
fn what_lies_behind_the_last_proposal_is_zero() {
    let attributes = [
        ("base_size", "16"),
        ("pre_nms_topn", "3"),
        ("post_nms_topn", "3"),
        ("nms_thresh", "0.5"),
        ("feat_stride", "16"),
        ("min_size", "1"),
        ("ratio", "1"),
        ("scale", "1"),
    ];
    let scores = (&[1, 2, 1, 2][..], &[0.1, 0.2, 0.9, 0.7][..]);
    // The second box becomes equal to the first.
    let deltas = (&[1, 4, 1, 2][..], &[0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0][..]);
    let image = (&[3][..], &[32.0, 32.0, 1.0][..]);
    let found = run(("Proposal", "opset4"), &attributes, &[scores, deltas, image], 2);
    let boxes = [0., 0., 0., 16., 16., -1., 0., 0., 0., 0., 0., 0., 0., 0., 0.];
    assert_eq!(found[0].as_slice::<f32>(), Some(&boxes[..]));
    assert_eq!(found[1].as_slice::<f32>(), Some(&[0.9, 0.0, 0.0][..]));
}

/// Prior boxes in pixels give the same result as the same boxes relative to the image.
#[test]
fn refined_boxes_are_divided_by_the_image_once() {
    let detect = |priors: (&[usize], &[f32]), of_image: &[(&str, &str)]| {
        let mut attributes = vec![
            ("keep_top_k", "1"),
            ("nms_threshold", "0.5"),
            ("confidence_threshold", "0.1"),
            ("variance_encoded_in_target", "true"),
            ("objectness_score", "0.5"),
        ];
        attributes.extend(of_image);
        let boxes = (&[1, 4][..], &[0.1, -0.1, 0.2, 0.1][..]);
        let scores = (&[1, 2][..], &[0.1, 0.9][..]);
        let objects = (&[1, 2][..], &[0.2, 0.8][..]);
        let earlier = (&[1, 4][..], &[-0.1, 0.1, 0.1, 0.1][..]);
        let inputs = [boxes, scores, priors, objects, earlier];
        run(("DetectionOutput", "opset8"), &attributes, &inputs, 1)[0].as_slice().unwrap().to_vec()
    };
    let relative: Vec<f32> =
        detect((&[1, 1, 4], &[0.25, 0.25, 0.5, 0.75]), &[("normalized", "true")]);
    let pixels = [("normalized", "false"), ("input_width", "64"), ("input_height", "32")];
    assert_eq!(relative, detect((&[1, 1, 5], &[0.0, 16.0, 8.0, 32.0, 24.0]), &pixels));
    assert_eq!(relative[..3], [0.0, 1.0, 0.9]);
}

/// The maximum and minimum over no integers are the lowest and highest value of the type.
#[test]
fn the_largest_of_no_integers_is_the_lowest_of_their_type() {
    let reduced = |kind: &str, element_type: ElementType| {
        let mut g = GraphBuilder::new(kind);
        let x = g.parameter("x", element_type, "2,0");
        let axis = g.constant(ElementType::I64, &[1], &1i64.to_le_bytes());
        let y = g.layer(kind, "opset1").attribute("keep_dims", "false").inputs(&[x, axis]).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let input = Tensor::from_vec_as(element_type, &[2, 0], Vec::<u8>::new()).unwrap();
        let outputs = irrun_runtime::compile(&graph, &facts).unwrap().session().run(&[input]);
        outputs.unwrap()[0].bytes().to_vec()
    };
    for (element_type, low, high) in [
        (ElementType::I8, &i8::MIN.to_le_bytes()[..], &i8::MAX.to_le_bytes()[..]),
        (ElementType::U8, &u8::MIN.to_le_bytes(), &u8::MAX.to_le_bytes()),
        (ElementType::I16, &i16::MIN.to_le_bytes(), &i16::MAX.to_le_bytes()),
        (ElementType::U16, &u16::MIN.to_le_bytes(), &u16::MAX.to_le_bytes()),
        (ElementType::I32, &i32::MIN.to_le_bytes(), &i32::MAX.to_le_bytes()),
        (ElementType::U32, &u32::MIN.to_le_bytes(), &u32::MAX.to_le_bytes()),
        (ElementType::I64, &i64::MIN.to_le_bytes(), &i64::MAX.to_le_bytes()),
        (ElementType::U64, &u64::MIN.to_le_bytes(), &u64::MAX.to_le_bytes()),
    ] {
        assert_eq!(reduced("ReduceMax", element_type), [low, low].concat());
        assert_eq!(reduced("ReduceMin", element_type), [high, high].concat());
    }
}
