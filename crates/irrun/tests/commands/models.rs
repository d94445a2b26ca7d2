//! The command line on models as a whole: variables, reports, drawings.

use crate::support::{Room, f32s, i64s, npy};
use serde_json::Value;
use std::io::{Read, Write};

/// `y = x + v`, then `v = y`, with `v` = 0 at first.
const SUM: &str = r#"<net name="sum" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/><output><port id="0" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="1" name="read" type="ReadValue" version="opset6"><data variable_id="past/v" variable_type="f32" variable_shape="2"/><output><port id="0" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="2" name="add &quot;it&quot;" type="Add" version="opset1"><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="3" name="assign" type="Assign" version="opset6"><data variable_id="past/v"/><input><port id="0"/></input><output><port id="1" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="4" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
<edge from-layer="2" from-port="2" to-layer="4" to-port="0"/>
</edges><rt_info><conversion_parameters><framework value="none"/></conversion_parameters></rt_info></net>"#;

fn sum() -> Room {
    let room = Room::new();
    room.write("model.xml", SUM.as_bytes());
    std::fs::remove_file(room.path("model.bin")).unwrap();
    room.write("x.npy", &npy("<f4", false, "(2,)", &f32s(&[1., 2.])));
    room
}

fn archive(room: &Room, name: &str, member: &str, file: &[u8]) {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(room.path(name)).unwrap());
    zip.start_file(format!("{member}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(file).unwrap();
    zip.finish().unwrap();
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn state_goes_from_one_process_to_the_next() {
    let room = sum();
    room.irrun("model.xml -i x.npy --save-state deep/s.npz").good();
    for _ in 0..2 {
        room.irrun("model.xml -i x.npy --state deep/s.npz --save-state deep/s.npz").good();
    }
    let out = room.irrun("model.xml -i x.npy --state deep/s.npz --json").good();
    assert_eq!(json(&out)["outputs"][0]["first"], serde_json::json!([4.0, 8.0]));
    assert_eq!(json(&out)["variables"][0]["id"], "past/v");
    let mut zip =
        zip::ZipArchive::new(std::fs::File::open(room.path("deep/s.npz")).unwrap()).unwrap();
    let mut member = Vec::new();
    zip.by_name("past/v.npy").unwrap().read_to_end(&mut member).unwrap();
    assert!(member.ends_with(&f32s(&[3., 6.])));
}

#[test]
fn a_state_that_does_not_fit_names_the_variable() {
    let room = sum();
    let two = npy("<f4", false, "(2,)", &f32s(&[1., 2.]));
    for (member, file, words) in [
        ("past/u", &two, "no variable \"past/u\"; did you mean \"past/v\"?"),
        ("past/v", &npy("<f4", false, "(1,)", &f32s(&[1.])), "f32[2], but the file holds f32[1]"),
        (
            "past/v",
            &npy("<i8", false, "(2,)", &i64s(&[1, 2])),
            "variable \"past/v\" is f32[2]: array \"past/v\": it holds i64 (numpy type i8), not \
             f32; save it as f32\n",
        ),
    ] {
        archive(&room, "s.npz", member, file);
        let out = room.irrun("model.xml -i x.npy --state s.npz --save-state t.npz -o y.npy");
        assert_eq!(out.code, 4, "{}", out.report());
        assert!(out.stderr.contains(words) && out.stderr.contains("s.npz"), "{}", out.stderr);
        assert!(!room.path("t.npz").exists() && !room.path("y.npy").exists());
    }
    let out = Room::new().irrun("model.xml -i x.npy --state none.npz");
    assert_eq!(out.code, 4, "{}", out.report());
}

#[test]
fn inspect_lists_what_a_model_consists_of() {
    let room = sum();
    let text = room.irrun("inspect model.xml").good();
    for piece in ["sum: IR version 11, 5 layers", "variable  past/v  f32[2]", "none"] {
        assert!(text.contains(piece), "{piece} in\n{text}");
    }
    let report = json(&room.irrun("inspect model.xml --json").good());
    assert_eq!(report["inputs"][0]["shape"], "[2]");
    assert_eq!(report["notes"]["rt_info/conversion_parameters/framework"], "none");
    let report = json(&Room::new().irrun("inspect model.xml --json").good());
    let weights = serde_json::json!([{ "type": "i64", "constants": 1, "bytes": 16 }]);
    assert_eq!(report["weights"], weights);
    assert_eq!(report["outputs"][0]["name"], "r:0");
}

#[test]
fn graph_draws_layers_and_edges() {
    let room = sum();
    let all = room.irrun("graph model.xml").good();
    assert!(all.contains(r#"n2 [label="Add\nadd \"it\"", fillcolor="white"];"#), "{all}");
    assert!(all.contains(r#"n1 -> n2 [label="1: f32[2]"];"#), "{all}");
    let some = room.irrun("graph model.xml --only a*").good();
    assert!(some.contains("n2 -> n3") && !some.contains("n0"), "{some}");
    room.irrun("graph model.xml -o out/g.dot").good();
    assert_eq!(room.read("out/g.dot"), all.as_bytes());
}

#[test]
fn profile_tells_the_time_of_each_layer() {
    let room = sum();
    let text = room.irrun("model.xml -i x.npy --profile").good();
    assert!(text.contains("1 x Add") && text.contains(" ms"), "{text}");
    let report = json(&room.irrun("model.xml -i x.npy --profile --json").good());
    let layers = report["layers"].as_array().unwrap();
    assert!(layers.iter().any(|l| l["type"] == "Add" && l["ms"].is_number()), "{report}");
}
