//! `irrun diff`, `--expect`: what differs, how much, and where.

use crate::support::{Room, f32s, i64s, npy};
use serde_json::Value;
use std::path::Path;

/// Compares what a command prints with the snapshot of this name.
#[track_caller]
fn says(name: &str, room: &Room, args: &str) {
    let outcome = room.irrun(args);
    assert!(!outcome.stderr.contains("panicked"), "{name}: {}", outcome.report());
    insta::with_settings!({ description => format!("irrun {args}"), omit_expression => true }, {
        insta::assert_snapshot!(name, outcome.report());
    });
}

fn array(room: &Room, name: &str, values: &[f32]) {
    let shape = format!("({},)", values.len());
    room.write(name, &npy("<f4", false, &shape, &f32s(values)));
}

/// Two directories with an array that differs, one that does not, and one that is in one alone.
fn two() -> Room {
    let room = Room::new();
    array(&room, "a/logits.npy", &[1.0, 2.5, -3.0, 0.0, f32::NAN, 7.0]);
    array(&room, "b/logits.npy", &[1.0, 2.0, -3.000_001, 1e-9, 4.0, 7.0]);
    room.write("a/ids.npy", &npy("<i8", false, "(2,)", &i64s(&[i64::MAX, 4])));
    room.write("b/ids.npy", &npy("<i8", false, "(2,)", &i64s(&[i64::MAX - 1, 4])));
    array(&room, "a/same.npy", &[1.0]);
    array(&room, "b/same.npy", &[1.0]);
    array(&room, "a/more.npy", &[1.0]);
    room
}

#[test]
fn directories_and_arrays_are_compared() {
    let room = two();
    says("directories", &room, "diff a b --details 3");
    says("one_pair", &room, "diff a/logits.npy b/logits.npy --rtol 1e-3 --worst 2");
    says("a_pattern", &room, "diff a b --only s*");
    says("what_both_have", &room, "diff a b --common --atol 1 --only ids");
    room.write("c.npy", &npy("<f4", false, "(2,3)", &f32s(&[0.; 6])));
    says("another_shape", &room, "diff a/logits.npy c.npy");
    // The only array of an archive or a directory has a name, which has to be the same.
    array(&room, "p/logits.npy", &[1.0]);
    array(&room, "q/boxes.npy", &[1.0]);
    let out = room.irrun("diff p q");
    let said = "p and q have no array in common: the first has \"logits\", the second \"boxes\"";
    assert!(out.code == 2 && out.stderr.contains(said), "{}", out.report());
    room.write("d.npy", &npy("<f8", false, "(1,)", &1.0_f64.to_le_bytes()));
    says("another_type", &room, "diff a/same.npy d.npy");
}

#[test]
fn mistakes_have_a_suggestion() {
    let room = two();
    says("no_such_file", &room, "diff a.npz b");
    says("pattern_of_none", &room, "diff a b --only logit");
    says("bound_of_none", &room, "diff a b --rtol logit:1e-3");
    says("bound_is_no_number", &room, "diff a b --rtol x");
    says("bounds_without_expect", &room, "model.xml -i x.npy --rtol 1");
    says("expects_no_output", &room, "model.xml -i x.npy --expect b");
    says("expects_of_no_output", &room, "model.xml -i x.npy --expect r:1=x.npy");
}

#[test]
fn the_report_for_programs_has_the_numbers() {
    let out = two().irrun("diff a b --json");
    assert_eq!(out.code, 1, "{}", out.report());
    let report: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(report["only_a"], serde_json::json!(["more"]));
    let logits = report["arrays"].as_array().unwrap().iter().find(|a| a["name"] == "logits");
    let difference = &logits.unwrap()["difference"];
    assert_eq!(difference["beyond"], 4);
    assert_eq!(difference["max_abs"], 0.5);
    assert_eq!(difference["max_rel"], 1.0);
    assert_eq!(difference["nan"], serde_json::json!([1, 0]));
    assert_eq!(difference["worst"][0]["index"], serde_json::json!([4]));
}

#[test]
fn outputs_are_judged_by_what_is_expected() {
    let room = Room::new();
    let six = |last: f32| npy("<f4", false, "(3, 2)", &f32s(&[0., 1., 2., 3., 4., last]));
    room.write("good.npy", &six(5.0));
    room.write("bad.npy", &six(5.5));
    room.irrun("model.xml -i x.npy --expect good.npy").good();
    room.irrun("model.xml -i x.npy --expect r:0=bad.npy --atol r:0:0.5").good();
    says("output_differs", &room, "model.xml -i x.npy --expect bad.npy --rtol 1e-3");
    let out = room.irrun("model.xml -i x.npy --expect bad.npy --json");
    let report: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((out.code, &report["expected"][0]["ok"]), (1, &Value::Bool(false)));
    room.irrun("model.xml -i x.npy -o y.npz").good();
    room.irrun("model.xml -i x.npy --expect y.npz").good();
    let out = room.irrun("model.xml -i x.npy --expect good.npy -o good.npy");
    assert_eq!(out.code, 2, "{}", out.report());
}

#[test]
fn a_case_folder_is_what_a_real_model_should_give() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/swin_block");
    let dir = model.display();
    let run = format!("{dir}/model.xml -i {dir}/input_0.npy --expect {dir}");
    Room::new().irrun(&format!("{run} --rtol 1e-4 --atol 1e-5")).good();
    let out = Room::new().irrun(&format!("{run} --rtol 1e-12"));
    assert_eq!(out.code, 1, "{}", out.report());
    assert!(out.stdout.contains("DIFFERS") && out.stdout.contains("worst"), "{}", out.report());
}

/// The paths of an archive.
fn names(room: &Room, file: &str) -> Vec<String> {
    let archive = zip::ZipArchive::new(std::fs::File::open(room.path(file)).unwrap()).unwrap();
    let mut names: Vec<_> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    names.sort_unstable();
    names
}

fn fixture(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    format!("{0}/model.xml -i {0}/input_0.npy", dir.display())
}

#[test]
fn values_of_layers_are_written_by_name_type_and_pattern() {
    let room = Room::new();
    let swin = fixture("models/swin_block");
    room.irrun(&format!("{swin} --dump-all all.npz")).good();
    room.irrun(&format!("{swin} --dump op:MatMul --dump-to some.npz")).good();
    let (all, some) = (names(&room, "all.npz"), names(&room, "some.npz"));
    assert!(!some.is_empty() && some.iter().all(|name| all.contains(name)), "{some:?}");
    assert!(all.len() > 2 * some.len(), "{all:?}");
    let out = room.irrun("diff some.npz all.npz --common").good();
    assert!(out.contains("0 of"), "{out}");
    says("values_are_summarised", &room, "model.xml -i x.npy --dump r");
    says("dump_of_no_layer", &room, "model.xml -i x.npy --dump pattrn");
    says("dump_of_no_type", &room, "model.xml -i x.npy --dump op:Reshap");
    says("dump_to_no_archive", &room, "model.xml -i x.npy --dump-all y.npy");
}

#[test]
fn the_first_layer_that_differs_is_told_with_its_inputs() {
    let room = Room::new();
    room.irrun("model.xml -i x.npy --dump-all all.npz").good();
    says("layers_agree", &room, "model.xml -i x.npy --compare-steps all.npz");
    let own = room.irrun("model.xml -i x.npy --compare-steps all.npz --tol auto").good();
    assert!(own.contains("2 outputs of layers agree with the reference, within 6.10e-5"), "{own}");
    let given = "model.xml -i x.npy --compare-steps all.npz --rtol 1e-3 --atol 1e-5,r:1";
    let given = room.irrun(given).good();
    assert!(given.contains("the reference, within rtol 1e-3, atol 1e-5,r:1e0"), "{given}");
    let six = |descr: &str, shape: &str, last: f32| {
        npy(descr, false, shape, &f32s(&[0., 1., 2., 3., 4., last]))
    };
    room.write("ref/x_0.npy", &six("<f4", "(2, 3)", 5.0));
    room.write("ref/r_0.npy", &six("<f4", "(3, 2)", 7.0));
    says("a_layer_differs", &room, "model.xml -i x.npy --compare-steps ref");
    let out = room.irrun("model.xml -i x.npy --compare-steps ref --json");
    let report: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((out.code, &report["steps"]["differing"]), (1, &serde_json::json!(1)));
    assert_eq!(report["steps"]["first"]["output"]["name"], "r:0");
    assert_eq!(report["steps"]["first"]["inputs"][1]["from"], "pattern:0 (constant)");
    room.write("other.npy", &room.read("x.npy"));
    says("no_layer_in_common", &room, "model.xml -i x.npy --compare-steps other.npy");
}

/// x / x, of which 0 / 0 is the first NaN, then its negative.
const DIVIDES: &str = r#"<net name="n" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/><output><port id="0" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="1" name="quotient" type="Divide" version="opset1"><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="2" name="negative" type="Negative" version="opset1"><input><port id="0"/></input><output><port id="1" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="3" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/><edge from-layer="0" from-port="0" to-layer="1" to-port="1"/>
<edge from-layer="1" from-port="2" to-layer="2" to-port="0"/><edge from-layer="2" from-port="1" to-layer="3" to-port="0"/>
</edges></net>"#;

#[test]
fn the_first_layer_that_makes_a_nan_is_named() {
    let room = Room::new();
    room.write("model.xml", DIVIDES.as_bytes());
    array(&room, "good.npy", &[1.0, 2.0]);
    array(&room, "zero.npy", &[1.0, 0.0]);
    array(&room, "nan.npy", &[1.0, f32::NAN]);
    room.irrun("model.xml -i good.npy --nan-check").good();
    // What is given is nobody's fault.
    let given = room.irrun("model.xml -i nan.npy --nan-check");
    let told = "note: --nan-check: input \"x\" holds 1 NaN among 2 elements";
    assert!(given.code == 0 && given.stderr.contains(told), "{}", given.report());
    let report = room.irrun("model.xml -i zero.npy --nan-check --json").stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let inputs = &report["error"]["findings"][0]["inputs"];
    assert_eq!(inputs, &serde_json::json!(["f32[2]", "f32[2]"]));
    says("a_layer_makes_a_nan", &room, "model.xml -i zero.npy --nan-check");
}

/// A report of a layer runs by itself, with the bits that the layer has in its model.
#[test]
fn a_layer_is_packed_for_a_report() {
    let room = Room::new();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/swin_block");
    for file in ["model.xml", "model.bin", "input_0.npy"] {
        room.write(file, &std::fs::read(model.join(file)).unwrap());
    }
    room.irrun("model.xml -i input_0.npy --no-optimize --dump-all ref.npz").good();
    let packed =
        room.irrun("repro model.xml --layer 355 -i input_0.npy --reference ref.npz -o report");
    assert_eq!(packed.code, 0, "{}", packed.report());
    room.irrun("report -i report/input_0.npy -i report/input_1.npy -o y.npy").good();
    for golden in ["report/irrun_0.npy", "report/reference_0.npy"] {
        assert_eq!(room.read("y.npy"), room.read(golden), "{golden}");
    }
    let text = String::from_utf8(room.read("report/README.md")).unwrap();
    let whole = "One layer of the model \"Model0\" (model.xml), MatMul of opset1.";
    for piece in [whole, "from ref.npz", "equal", "run_openvino.py", "features"] {
        assert!(text.contains(piece), "{piece} in\n{text}");
    }
    let zip = room.irrun("repro model.xml --layer 355 -i input_0.npy -o report.zip");
    let refused = "report.zip is to be a directory; call it report";
    assert!(zip.code == 2 && zip.stderr.contains(refused), "{}", zip.report());
    room.irrun("repro model.xml --layer 355 -i input_0.npy -o own").good();
    assert_eq!(room.read("own/irrun_0.npy"), room.read("y.npy"));
    says("report_is_there", &room, "repro model.xml --layer 355 -i input_0.npy -o own");
    says(
        "report_of_no_layer",
        &room,
        "repro model.xml --layer aten::matmul/MatMul -i input_0.npy -o no",
    );
    says("report_of_an_input", &room, "repro model.xml --layer x -i input_0.npy -o no");
    says(
        "report_without_reference",
        &room,
        "repro model.xml --layer 355 -i input_0.npy --reference y.npy -o no",
    );
}

/// What differs by rounding alone was compared exactly, which is said.
#[test]
fn an_exact_comparison_is_told() {
    let room = Room::new();
    let six = |last: f32| npy("<f4", false, "(3, 2)", &f32s(&[0., 1., 2., 3., 4., last]));
    let of = |last: f32, flags: &str| {
        room.write("golden.npy", &six(last));
        room.irrun(&format!("model.xml -i x.npy --expect golden.npy {flags}"))
    };
    let exact = "note: compared exactly, as no tolerance is given; --tol auto";
    let little = of(5.000_001, "");
    assert!(little.code == 1 && little.stderr.contains(exact), "{}", little.report());
    assert!(!of(7.0, "").stderr.contains(exact), "that is no rounding");
    let near_zero = npy("<f4", false, "(3, 2)", &f32s(&[1e-9, 1., 2., 3., 4., 5.]));
    room.write("golden.npy", &near_zero);
    let said = room.irrun("model.xml -i x.npy --expect golden.npy").stderr;
    assert!(said.contains(exact), "{said}");
    assert!(!of(5.001, "--rtol 1e-6").stderr.contains(exact), "a tolerance is given");
    of(5.000_001, "--tol auto").good();
    let alone = room.irrun("model.xml -i x.npy --tol auto");
    assert!(alone.stderr.contains("give --expect or --compare-steps too"), "{}", alone.report());
}

/// What OpenVINO gives for the models of the repository passes, and a hundredth part more does not.
#[test]
fn a_tolerance_follows_from_the_sums() {
    let room = Room::new();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/swin_block");
    for file in ["model.xml", "model.bin", "input_0.npy", "expected_0.npy"] {
        room.write(file, &std::fs::read(model.join(file)).unwrap());
    }
    let of = |golden: &str| {
        room.irrun(&format!("model.xml -i input_0.npy --expect {golden} --tol auto"))
    };
    let passed = of("expected_0.npy");
    assert_eq!(passed.code, 0, "{}", passed.report());
    assert!(passed.stderr.contains("terms are added up"), "{}", passed.report());
    let mut golden = room.read("expected_0.npy");
    let end = golden.len();
    let last = f32::from_le_bytes(golden[end - 4..].try_into().unwrap());
    golden[end - 4..].copy_from_slice(&(last * 1.01 + 0.01).to_le_bytes());
    room.write("other.npy", &golden);
    assert_eq!(of("other.npy").code, 1);
    says("tol_is_auto", &room, "model.xml -i input_0.npy --expect expected_0.npy --tol 1e-3");
    says(
        "tol_or_rtol",
        &room,
        "model.xml -i input_0.npy --expect expected_0.npy --tol auto --rtol 1",
    );
}
