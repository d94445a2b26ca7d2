//! f16 promotion: f16 graphs are computed in f32, and outputs are rounded to f16.

use super::{binary, plan, unary};
use ir::{Body, ElementType, Graph, GraphBuilder, OutputRef, PortMap, Role};
use irrun_runtime::Tensor;

/// An f16 constant with these bits.
fn half(g: &mut GraphBuilder, dims: &[u64], bits: &[u16]) -> OutputRef {
    let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    g.constant(ElementType::F16, dims, &bytes)
}

fn finished(mut g: GraphBuilder, y: OutputRef) -> Graph {
    g.result("y", y);
    g.finish().unwrap()
}

/// The bits of the output for one f16 input.
fn run(graph: &Graph, optimize: bool, bits: &[u16]) -> Vec<u16> {
    let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    let input = Tensor::from_bytes(ElementType::F16, &[bits.len()], &bytes).unwrap();
    let outputs = plan(graph, optimize).session().run(&[input]).unwrap();
    assert_eq!(outputs[0].element_type(), ElementType::F16);
    outputs[0].bytes().chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
}

#[test]
fn nothing_overflows_between_operations() {
    let mut g = GraphBuilder::new("square");
    let x = g.parameter("x", ElementType::F16, "2");
    let square = binary(&mut g, "Multiply", x, x);
    let factor = half(&mut g, &[1], &[0x1419]); // 0.001
    let y = binary(&mut g, "Multiply", square, factor);
    let graph = finished(g, y);
    // 300² · 0.001 is 90.06, and 300² exceeds the range of f16; 2² · 0.001 is 0.004.
    assert_eq!(run(&graph, true, &[0x5cb0, 0x4000]), [0x55a1, 0x1c19]);
    assert_eq!(run(&graph, false, &[0x5cb0, 0x4000]), [0x7c00, 0x1c19]);
}

/// A Loop of `iterations` in which x becomes x², followed by a multiplication by 0.001. x is f16;
/// the Parameter of the body has type `parameter`.
fn squares(iterations: i64, parameter: ElementType) -> Graph {
    let mut g = GraphBuilder::new("body");
    let x = g.parameter("x", parameter, "2");
    let square = binary(&mut g, "Multiply", x, x);
    let graph = finished(g, square);
    let id = |layer: usize| graph.layers()[layer].id;
    let (parameter, result) = (id(graph.parameters()[0]), id(graph.results()[0]));
    let entry = |external_port, internal_layer| {
        vec![PortMap { external_port, internal_layer, ..PortMap::default() }]
    };
    let (inputs, outputs) = (entry(2, parameter), entry(3, result));
    let body =
        Body { role: Role::Body, graph, inputs, outputs, back_edges: vec![(result, parameter)] };
    let mut g = GraphBuilder::new("loop");
    let x = g.parameter("x", ElementType::F16, "2");
    let count = g.constant_i64(&[iterations]);
    let always = g.constant(ElementType::Boolean, &[], &[1]);
    let y = g.layer("Loop", "opset5").inputs(&[count, always, x]).body(body).output();
    let narrow = g.layer("Convert", "opset1").attribute("destination_type", "f16");
    let y = narrow.inputs(&[y]).output();
    let factor = half(&mut g, &[1], &[0x1419]); // 0.001
    let y = binary(&mut g, "Multiply", y, factor);
    finished(g, y)
}

#[test]
fn nothing_overflows_where_a_body_begins_or_ends() {
    use ElementType::{F16, F32};
    // 17⁴ · 0.001 is 83.52, and 17⁴ exceeds the range of f16; 2⁴ · 0.001 is 0.016, 2 · 0.001 is
    // 0.002.
    for parameter in [F16, F32] {
        let twice = squares(2, parameter);
        assert_eq!(run(&twice, true, &[0x4c40, 0x4000]), [0x5539, 0x2419], "{parameter}");
        assert_eq!(run(&twice, false, &[0x4c40, 0x4000]), [0x7c00, 0x2419], "{parameter}");
        let never = squares(0, parameter);
        assert_eq!(run(&never, true, &[0x4000, 0x4000]), [0x1819, 0x1819], "{parameter}");
    }
}

#[test]
fn a_range_is_not_rounded() {
    let mut g = GraphBuilder::new("range");
    let x = g.parameter("x", ElementType::F16, "4");
    let [start, stop, step] = [0x6800, 0x6802, 0x3c00].map(|bits| half(&mut g, &[], &[bits]));
    let range = g.layer("Range", "opset4").attribute("output_type", "f16");
    let range = range.inputs(&[start, stop, step]).output();
    let first = half(&mut g, &[], &[0x6800]);
    let distance = binary(&mut g, "Subtract", range, first);
    let y = binary(&mut g, "Add", x, distance);
    let graph = finished(g, y);
    // From 2048 to 2052; f16 cannot represent 2049 and 2051.
    assert_eq!(run(&graph, true, &[0, 0, 0, 0]), [0, 0x3c00, 0x4000, 0x4200]);
    assert_eq!(run(&graph, false, &[0, 0, 0, 0]), [0, 0, 0x4000, 0x4400]);
}

#[test]
fn a_convert_to_f32_reads_what_is_not_rounded() {
    let mut g = GraphBuilder::new("wide");
    let x = g.parameter("x", ElementType::F16, "2");
    let square = binary(&mut g, "Multiply", x, x);
    let wide = g.layer("Convert", "opset1").attribute("destination_type", "f32");
    let wide = wide.inputs(&[square]).output();
    let factor = g.constant_f32(&[1], &[0.001]);
    let product = binary(&mut g, "Multiply", wide, factor);
    let narrow = g.layer("Convert", "opset1").attribute("destination_type", "f16");
    let y = narrow.inputs(&[product]).output();
    let graph = finished(g, y);
    // 300² · 0.001 is 90, and 300² exceeds the range of f16.
    assert_eq!(run(&graph, true, &[0x5cb0, 0x4000]), [0x55a0, 0x1c19]);
    assert_eq!(run(&graph, false, &[0x5cb0, 0x4000]), [0x7c00, 0x1c19]);
}

#[test]
fn a_convert_to_f16_rounds_nothing_but_an_output() {
    let mut g = GraphBuilder::new("convert");
    let x = g.parameter("x", ElementType::F16, "1");
    let wide = g.layer("Convert", "opset1").attribute("destination_type", "f32");
    let wide = wide.inputs(&[x]).output();
    let third = g.constant_f32(&[1], &[3.0]);
    let third = binary(&mut g, "Divide", wide, third);
    let narrow = g.layer("Convert", "opset1").attribute("destination_type", "f16");
    let narrow = narrow.inputs(&[third]).output();
    let three = half(&mut g, &[1], &[0x4200]);
    let y = binary(&mut g, "Multiply", narrow, three);
    let graph = finished(g, y);
    // 0x3e01 / 3 is rounded up in f16, and three times that is the next f16.
    assert_eq!(run(&graph, true, &[0x3e01]), [0x3e01]);
    assert_eq!(run(&graph, false, &[0x3e01]), [0x3e02]);
}

#[test]
fn what_is_fused_in_f32_is_fused_in_f16() {
    let mut g = GraphBuilder::new("product");
    let x = g.parameter("x", ElementType::F16, "4");
    let row = g.constant_i64(&[1, 4]);
    let flag = ("special_zero", "false");
    let x = g.layer("Reshape", "opset1").attributes(&[flag]).inputs(&[x, row]).output();
    let weights: Vec<u16> = (0..32).map(|i| 0x3800 + i).collect();
    let weights = half(&mut g, &[4, 8], &weights);
    let y = g.layer("MatMul", "opset1").inputs(&[x, weights]).output();
    let bias = half(&mut g, &[1, 8], &[0x3c00; 8]);
    let y = binary(&mut g, "Add", y, bias);
    let y = unary(&mut g, "ReLU", y);
    let graph = finished(g, y);
    let explained = plan(&graph, true).explain();
    let steps = explained.iter().filter(|line| !line.starts_with("pass")).count();
    // Convert, the MatMul with bias and activation, Convert.
    assert_eq!(steps, 3, "{explained:#?}");
}

#[test]
fn quantised_models_of_f16_are_multiplied_in_integers() {
    let mut g = GraphBuilder::new("quantised");
    let input = g.parameter("x", ElementType::F16, "1,32,8,8");
    // -2.0625 and 2.046875: 0 is the quantized value 127.985.
    let [low, high] = [0xc020, 0x4018].map(|bits| half(&mut g, &[], &[bits]));
    let x = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
    let x = x.inputs(&[input, low, high, low, high]).output();
    let bytes: Vec<u8> = (0..32 * 32).map(|i| (i * 37 % 251) as u8).collect();
    let filters = g.constant(ElementType::I8, &[32, 32, 1, 1], &bytes);
    let filters =
        g.layer("Convert", "opset1").attribute("destination_type", "f16").inputs(&[filters]);
    let filters = filters.output();
    let zero_points = half(&mut g, &[32, 1, 1, 1], &[0x00a8; 32]); // 1e-5
    let filters = binary(&mut g, "Subtract", filters, zero_points);
    let scales = half(&mut g, &[32, 1, 1, 1], &[0x1c00; 32]);
    let filters = binary(&mut g, "Multiply", filters, scales);
    let window =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
    let y = g.layer("Convolution", "opset1").attributes(&window).inputs(&[x, filters]).output();
    let graph = finished(g, y);
    let explained = plan(&graph, true).explain();
    assert!(explained.iter().any(|line| line.contains(": integers")), "{explained:#?}");
}

/// The number of elements is known only at run time, so the kernel is deferred.
#[test]
fn a_conversion_like_f16_takes_any_shape() {
    let mut g = GraphBuilder::new("like");
    let x = g.parameter("x", ElementType::F16, "3");
    let found = g.layer("NonZero", "opset3").attribute("output_type", "i64").inputs(&[x]).output();
    let y = g.layer("ConvertLike", "opset1").inputs(&[found, x]).output();
    let graph = finished(g, y);
    for optimize in [true, false] {
        assert_eq!(run(&graph, optimize, &[0x3c00, 0, 0x3c00]), [0, 0x4000]);
    }
}
