//! Every row of `cases.json`: the shape rules of the reshape and roll operations, collected from
//! tests, documents and sources of OpenVINO, oneDNN Graph, MXNet and Caffe.

mod support;

use ir::ElementType::{self, F16, F32, I32, I64};
use ir::OutputRef;
use irrun_infer::{Interval, PartialShape};
use serde_json::Value;
use support::Model;

#[test]
fn every_row() {
    let file: Value = serde_json::from_str(include_str!("cases.json")).unwrap();
    let rows = file["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for row in rows {
        let found = infer(row, false);
        if !agrees(row, &found) {
            wrong.push(format!("{row}\n    found: {found:?}"));
        }
        if row["pattern_origin"].is_string() {
            let found = infer(row, true);
            if !agrees(row, &found) {
                wrong.push(format!("{row}\n    through its sub-graph: {found:?}"));
            }
        }
    }
    assert!(rows.len() > 200, "rows are missing");
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} of {} rows:\n{}", rows.len(), wrong.join("\n"));
}

/// Whether a result is the one of the row, or that of the release it names.
fn agrees(row: &Value, found: &Result<String, String>) -> bool {
    let expected = ["expected_shape", "expected_shape_2026_4_1"];
    expected.iter().filter_map(|key| row.get(*key)).any(|expected| match found {
        Err(_) => expected == "error",
        Ok(_) if expected == "error" => false,
        Ok(found) => found == &format!("{}{}", data_type(row), shape(expected)),
    })
}

fn data_type(row: &Value) -> ElementType {
    match row["dtype"].as_str() {
        Some("f16") => F16,
        _ => F32,
    }
}

/// Infers the shape of a row. Its pattern is a constant, or computed by the sub-graph that its
/// `pattern_origin` describes.
fn infer(row: &Value, by_sub_graph: bool) -> Result<String, String> {
    let mut model = Model::new();
    let data = model.input(data_type(row), &shape(&row["input_shape"]).to_string());
    let mut inputs = vec![data];
    let version = match (row["system"].as_str().unwrap(), row["op"].as_str().unwrap()) {
        ("openvino", "Reshape") => {
            inputs.push(match row["pattern_origin"].as_str().filter(|_| by_sub_graph) {
                Some(origin) => sub_graph(&mut model, data, origin),
                None => values(&mut model, &row["pattern"], row["pattern_type"].as_str()),
            });
            "opset1"
        }
        ("openvino", "Roll") => {
            inputs.push(values(&mut model, &row["shift"], row["shift_type"].as_str()));
            inputs.push(values(&mut model, &row["axes"], None));
            "opset7"
        }
        (system, _) => system,
    };
    let attributes: Vec<(&str, String)> =
        row["attrs"].as_object().unwrap().iter().map(|(k, v)| (k.as_str(), attribute(v))).collect();
    let attributes: Vec<_> = attributes.iter().map(|(k, v)| (*k, v.as_str())).collect();
    model.infer(row["op"].as_str().unwrap(), version, &attributes, &inputs)
}

/// `-1` is unknown, a string is an interval, null is an unknown rank.
fn shape(dims: &Value) -> PartialShape {
    let Some(dims) = dims.as_array() else { return PartialShape::unranked() };
    let dims: Vec<String> = dims.iter().map(text).collect();
    dims.join(",").parse().unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn attribute(value: &Value) -> String {
    match value.as_array() {
        Some(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        None => text(value),
    }
}

/// A small integer input: a constant if all values are known, else their bounds.
fn values(model: &mut Model, values: &Value, element_type: Option<&str>) -> OutputRef {
    let element_type = element_type.map_or(I64, |t| ElementType::from_attribute(t).unwrap());
    if let Some(unknown) = values.get("unknown_values_shape") {
        return model.input(element_type, &shape(unknown).to_string());
    }
    if let Some(value) = values.get("scalar") {
        return model.ints(element_type, &[], &[value.as_i64().unwrap()]);
    }
    if let Some(rows) = values.get("nested").and_then(Value::as_array) {
        let flat: Vec<i64> = rows.iter().flat_map(ints).collect();
        let dims = [rows.len() as u64, (flat.len() / rows.len()) as u64];
        return model.ints(element_type, &dims, &flat);
    }
    let list = values.as_array().unwrap();
    if list.iter().any(Value::is_string) {
        return model.bounds(element_type, list.iter().map(interval).collect());
    }
    model.ints(element_type, &[list.len() as u64], &ints(values))
}

fn ints(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect()
}

fn interval(value: &Value) -> Interval {
    let Some((lo, hi)) = value.as_str().and_then(|text| text.split_once("..")) else {
        return Interval::exact(value.as_i64().unwrap());
    };
    Interval::between(lo.parse().unwrap(), hi.parse().unwrap_or(Interval::INF))
}

/// The sub-graph that computes a pattern from the shape of the data, as in the test of its origin.
fn sub_graph(model: &mut Model, data: OutputRef, origin: &str) -> OutputRef {
    let index = if origin.contains("i32") { I32 } else { I64 };
    let shape = layer(model, "ShapeOf", "opset3", &[("output_type", index.name())], &[data]);
    let ints = |m: &mut Model, values: &[i64]| m.ints(I64, &[values.len() as u64], values);
    let gather = |m: &mut Model, from: OutputRef, indices: &[i64]| {
        let (indices, axis) = (ints(m, indices), m.ints(I64, &[], &[0]));
        layer(m, "Gather", "opset1", &[], &[from, indices, axis])
    };
    let binary = |m: &mut Model, kind: &str, a, b| layer(m, kind, "opset1", &[], &[a, b]);
    let doubled = |m: &mut Model| {
        let two = m.ints(I64, &[], &[2]);
        binary(m, "Multiply", shape, two)
    };
    match origin {
        "ShapeOf(data)" => shape,
        "Gather(Gather(ShapeOf))" => {
            let once = gather(model, shape, &[2, 1, 0]);
            gather(model, once, &[1, 2, 0])
        }
        "Concat of Gathers, one via Reshape+Squeeze" => {
            let [a, b, c] = [2, 1, 0].map(|i| gather(model, shape, &[i]));
            let (pattern, axes) = (ints(model, &[1, -1]), ints(model, &[0]));
            let b = binary(model, "Reshape", b, pattern);
            let b = binary(model, "Squeeze", b, axes);
            layer(model, "Concat", "opset1", &[("axis", "0")], &[a, b, c])
        }
        "Convert/Multiply/Divide of ShapeOf" => {
            let to = |t: &'static str| [("destination_type", t)];
            let real = layer(model, "Convert", "opset1", &to("f32"), &[shape]);
            let two = model.graph.constant_f32(&[], &[2.0]);
            let twice = binary(model, "Multiply", real, two);
            let same = binary(model, "Divide", twice, two);
            layer(model, "Convert", "opset1", &to("i64"), &[same])
        }
        "Divide(const,Multiply(2,ShapeOf)); divisor interval includes 0" => {
            let (over, under) = (ints(model, &[10, 16, 12]), doubled(model));
            binary(model, "Divide", over, under)
        }
        "(2*ShapeOf)/[2,1,3]" => {
            let (over, under) = (doubled(model), ints(model, &[2, 1, 3]));
            binary(model, "Divide", over, under)
        }
        "192/(2*ShapeOf)" => {
            let (over, under) = (model.ints(I64, &[], &[192]), doubled(model));
            binary(model, "Divide", over, under)
        }
        "ReduceProd(ShapeOf(data))" => {
            let axes = ints(model, &[0]);
            layer(model, "ReduceProd", "opset1", &[("keep_dims", "true")], &[shape, axes])
        }
        "Gather(ShapeOf i32,[1,2,0])" => gather(model, shape, &[1, 2, 0]),
        other => panic!("no sub-graph for {other}"),
    }
}

fn layer(
    model: &mut Model,
    kind: &str,
    version: &str,
    attributes: &[(&str, &str)],
    inputs: &[OutputRef],
) -> OutputRef {
    model.graph.layer(kind, version).attributes(attributes).inputs(inputs).output()
}
