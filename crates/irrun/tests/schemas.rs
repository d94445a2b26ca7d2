//! What programs read is what `docs/schema/` says. `IRRUN_UPDATE=1 cargo test -p irrun --test
//! schemas` writes the schemas anew.

mod support;

use cli::json::SCHEMAS;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use support::{Room, f32s, npy};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

#[test]
fn schemas_are_those_of_the_types() {
    let mut files = Vec::new();
    for (name, schema) in SCHEMAS {
        let path = dir().join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if std::env::var_os("IRRUN_UPDATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{} is out of date: make schemas", path.display());
        files.push(format!("{name}.json"));
    }
    for entry in std::fs::read_dir(dir()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(files.contains(&name), "docs/schema/{name} is the schema of nothing");
    }
}

/// What a report of the binary has against a schema; so much of JSON Schema as these use.
fn faults(value: &Value, schema: &Value, root: &Value, place: &str, out: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").expect("a definition");
        return faults(value, &root["$defs"][name], root, place, out);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = |schema: &Value| {
            let mut found = Vec::new();
            faults(value, schema, root, place, &mut found);
            found.is_empty()
        };
        if !any.iter().any(fits) {
            out.push(format!("{place} is {value}, which is none of {any:?}"));
        }
        return;
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type of JSON"),
    };
    if !types.iter().any(is) {
        out.push(format!("{place} is {value}, not {types:?}"));
    }
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(object) = value.as_object() {
        out.extend(
            required.filter(|k| !object.contains_key(*k)).map(|k| format!("{place} lacks {k}")),
        );
        for (key, value) in object {
            let place = format!("{place}.{key}");
            match properties.get(key).or(schema.get("additionalProperties")) {
                Some(schema) => faults(value, schema, root, &place, out),
                None => out.push(format!("{place} is in no schema")),
            }
        }
    }
    for (i, value) in value.as_array().into_iter().flatten().enumerate() {
        faults(value, &schema["items"], root, &format!("{place}[{i}]"), out);
    }
}

#[track_caller]
fn fits(name: &str, report: &str) {
    let schema = SCHEMAS.iter().find(|(other, _)| *other == name).expect("a schema").1();
    let schema = schema.to_value();
    let value = serde_json::from_str(report).unwrap_or_else(|e| panic!("{name}: {e}: {report}"));
    let mut found = Vec::new();
    faults(&value, &schema, &schema, name, &mut found);
    assert!(found.is_empty(), "{found:#?} in {report}");
    assert_eq!(value["schema"], 2, "{report}");
}

/// Each report of each command on models with what may be in one: variables, bodies, open shapes.
#[test]
fn reports_are_of_their_schema() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let room = Room::new();
    let out = |args: String| room.irrun(&args).stdout;
    for model in [
        "models/swin_block",
        "fixtures/state",
        "fixtures/condition",
        "fixtures/reshape_by_shape_of",
    ] {
        let model = format!("{root}/{model}");
        fits("check", &out(format!("check {model} --json")));
        fits("inspect", &out(format!("inspect {model} --json")));
        fits("bench", &out(format!("bench {model} --runs 1 --profile --json")));
        fits("test", &out(format!("test {model} --json")));
    }
    let state = format!("{root}/fixtures/state");
    room.write("x.npy", &npy("<f4", false, "(1, 2)", &f32s(&[1., f32::NAN])));
    fits("run", &out(format!("{state} -i x.npy --profile --json")));
    fits("run", &out(format!("{state} -i x.npy --top 1 --json")));
    room.write("in/a.npy", &room.read("x.npy"));
    room.write("in/b.npy", b"");
    fits("batch", &out(format!("{state} --batch-dir in --top 1 --json")));
    let found = r#"<net name="d" version="11"><layers><layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,1,1,7" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer><layer id="2" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer></layers><edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/></edges></net>"#;
    room.write("detector.xml", found.as_bytes());
    image::GrayImage::from_pixel(7, 1, image::Luma([1])).save(room.path("x.png")).unwrap();
    fits("run", &out("detector.xml -i x.png --draw y.png --json".to_owned()));
    fits("ops", &out("ops --json".to_owned()));
    fits("check", &out("check model.xml --shape [7,3] --json".to_owned()));
}

/// Commands that write a file say with `--json` what they have written, and `explain` what it has
/// found.
#[test]
fn reports_of_what_was_written() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let room = Room::new();
    let block = format!("{root}/models/swin_block");
    let reshape = format!("{root}/fixtures/reshape_by_shape_of/model.xml");
    let norm = "__module.norm1/aten::layer_norm/MVN";
    for args in [
        format!("extract {block} --to {norm} -o part.xml --json"),
        format!("edit {block} --rename x=image -o edited.xml --json"),
        format!("reduce {reshape} --test false<{{}} -o small.xml --json"),
        format!("repro {block} --layer {norm} -i {block}/input_0.npy -o report --json"),
    ] {
        let outcome = room.irrun(&args);
        assert_eq!(outcome.code, 0, "{args}: {}", outcome.report());
        fits("written", &outcome.stdout);
    }
    let part: Value = serde_json::from_str(&room.irrun("inspect part.xml --json").stdout).unwrap();
    assert_eq!(part["layers"], 4, "{part}");
    let out = |args: String| room.irrun(&args).good();
    fits("graph", &out(format!("graph {block} -o x.svg --json")));
    fits("explain", &out("explain IR0502 --json".to_owned()));
    let why = out(format!("explain {reshape} out1 --shape in0[2,6,4] --json"));
    fits("explain", &why);
    let why: Value = serde_json::from_str(&why).unwrap();
    let steps = why["steps"].as_array().unwrap();
    assert!(steps.iter().any(|s| s["number"] == "dim 1" && s["value"] == 12), "{why}");
    let symbolic = out(format!("check {reshape} --symbolic --shape in0[N,M,4] --json"));
    fits("symbolic", &symbolic);
    assert!(symbolic.contains(r#""outputs":["f32[N,4·M]"]"#), "{symbolic}");
}

/// A program that asks for JSON gets JSON, whatever happens, and the exit code it would get anyway.
#[test]
fn failures_are_json_too() {
    let room = Room::new();
    for (args, code) in [
        ("model.xml --json", 2),
        ("model.xml --jsn --json", 2),
        ("nowhere.xml --json -i x.npy", 3),
        ("check nowhere.xml --json", 3),
        ("inspect nowhere.xml --json", 3),
        ("bench nowhere.xml --json", 3),
        ("test nowhere --json", 2),
        ("ops Nothing --json", 2),
        ("model.xml --json -i 0=model.bin", 4),
        ("chekc model.xml --json", 2),
        ("extract nowhere.xml --to y -o part.xml --json", 3),
        ("edit nowhere.xml --rename a=b -o part.xml --json", 3),
        ("repro nowhere.xml --layer y -o report --json", 3),
        ("reduce model.xml --test true -o part.xml --json", 2),
        ("graph nowhere.xml -o x.svg --json", 3),
        ("explain IR9999 --json", 2),
        ("diff a.npy b.npy --json", 4),
        ("check model.xml --symbolic --shape q[N] --json", 2),
    ] {
        let outcome = room.irrun(args);
        assert_eq!(outcome.code, code, "{args}: {}", outcome.report());
        fits("error", &outcome.stdout);
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["error"]["exit_code"], code, "{args}");
        assert_eq!(report["ok"], json!(false));
        let message = report["error"]["message"].as_str().unwrap();
        assert!(outcome.stderr.contains(message.lines().next().unwrap()), "{}", outcome.report());
    }
    // Findings come with it where a model is at fault.
    let broken = Room::with_model(r#"shape="2,3""#, r#"shape="7""#);
    broken.write("x.npy", &npy("<f4", false, "(7,)", &f32s(&[0.0; 7])));
    let report: Value =
        serde_json::from_str(&broken.irrun("model.xml -i x.npy --json").stdout).unwrap();
    assert_eq!(report["error"]["findings"][0]["code"], "IR0502", "{report}");
}
