//! Every message a user can meet, as the binary prints it: what is wrong, where, what to do.
//!
//! The snapshots hold exit code, standard output and standard error. `INSTA_UPDATE=always cargo
//! test -p irrun --test errors` writes them anew.

mod support;

use std::io::Write;
use support::{Room, f32s, i64s, npy};

/// Runs the binary and compares what it says with the snapshot of this name.
#[track_caller]
fn says(name: &str, room: &Room, args: &str) {
    let outcome = room.irrun(args);
    assert_ne!(outcome.code, 0, "{name}: {}", outcome.report());
    assert!(!outcome.stderr.contains("panicked"), "{name}: {}", outcome.report());
    insta::with_settings!({ description => format!("irrun {args}"), omit_expression => true }, {
        insta::assert_snapshot!(name, outcome.report());
    });
}

const RUN: &str = "model.xml --input x.npy";

#[test]
fn files_that_are_no_ir() {
    let room = Room::new();
    says("model_missing", &room, "modle.xml --input x.npy");
    says("model_is_bin", &room, "model.bin --input x.npy");
    for (name, text) in [
        ("xml_empty", ""),
        ("xml_cut_short", &support::MODEL[..600]),
        ("xml_other_root", "<html><body/></html>"),
        ("xml_wrong_end_tag", "<net name='n' version='11'>\n<layers>\n</edges>\n</net>"),
        ("xml_bad_attribute", "<net\nname=n version='11'>\n</net>"),
        ("xml_unknown_entity", "<net name='n' version='11'>\n<rt_info>&big;</rt_info></net>"),
        ("xml_not_utf8", "<net name='n' version='11'>\n<layers name='\u{fffd}'/></net>"),
    ] {
        let mut bytes = text.as_bytes().to_vec();
        if name == "xml_not_utf8" {
            // A Latin-1 letter.
            let at = bytes.iter().position(|b| *b == 0xef).unwrap();
            bytes.splice(at..at + 3, [0xe9]);
        }
        room.write("model.xml", &bytes);
        says(name, &room, RUN);
    }
    let deep = format!("<net name='n' version='11'>{}", "<a>".repeat(100_000));
    room.write("model.xml", deep.as_bytes());
    says("xml_too_deep", &room, RUN);
}

#[test]
fn versions_that_are_not_read() {
    let version = r#"version="11""#;
    for (name, text) in [
        ("version_1", r#"version="1""#),
        ("version_12", r#"version="12""#),
        ("version_text", r#"version="eleven""#),
        ("version_missing", ""),
    ] {
        says(name, &Room::with_model(version, text), RUN);
    }
}

#[test]
fn structure() {
    let edge = r#"<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>"#;
    let last = r#"<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>"#;
    for (name, from, to) in [
        ("duplicate_layer_id", r#"<layer id="1""#, r#"<layer id="0""#),
        ("duplicate_port_id", r#"<port id="0"/><port id="1"/>"#, r#"<port id="0"/><port id="0"/>"#),
        ("dangling_edge", edge, &edge.replace(r#"from-layer="0""#, r#"from-layer="77""#)),
        ("unknown_port", edge, &edge.replace(r#"from-port="0""#, r#"from-port="5""#)),
        ("doubled_edge", edge, &format!("{edge}{edge}")),
        ("unconnected_port", edge, ""),
        ("cycle", edge, &last.replace("\"3\"", "\"2\"")),
        ("layer_without_type", r#" type="Reshape""#, ""),
        ("id_is_no_number", r#"<layer id="2""#, r#"<layer id="two""#),
        ("dim_is_no_number", "<dim>3</dim><dim>2</dim>", "<dim>3</dim><dim>?</dim>"),
        ("unknown_precision", r#"precision="I64""#, r#"precision="INT64""#),
    ] {
        says(name, &Room::with_model(from, to), RUN);
    }
    let room = Room::with_model(edge, "");
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    room.write("model.xml", text.replace(r#"<layer id="1""#, r#"<layer id="9""#).as_bytes());
    says("several_problems", &room, RUN);
}

#[test]
fn operations_and_attributes() {
    let reshape = r#"type="Reshape" version="opset1""#;
    for (name, from, to) in [
        ("unknown_operation", reshape, r#"type="Reshap" version="opset1""#),
        ("operation_not_in_opset", reshape, r#"type="Roll" version="opset1""#),
        ("unknown_opset", reshape, r#"type="Reshape" version="opset99""#),
        ("attribute_missing", r#" shape="2" offset"#, " offset"),
        ("attribute_is_no_number", r#"offset="0""#, r#"offset="zero""#),
        ("unknown_element_type", r#"element_type="i64""#, r#"element_type="int64""#),
        ("parameter_shape", r#"shape="2,3""#, r#"shape="2,,3""#),
        ("rule_of_shapes", r#"shape="2,3""#, r#"shape="7""#),
        ("rule_of_types", r#"element_type="i64" shape="2""#, r#"element_type="f64" shape="2""#),
        (
            "too_few_inputs",
            r#"<input><port id="0"/><port id="1"/></input>"#,
            r#"<input><port id="0"/></input>"#,
        ),
    ] {
        let room = Room::with_model(from, to);
        if name == "too_few_inputs" {
            let text = String::from_utf8(room.read("model.xml")).unwrap();
            let edge = r#"<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>"#;
            room.write("model.xml", text.replace(edge, "").as_bytes());
        }
        if name == "rule_of_shapes" {
            room.write("x.npy", &npy("<f4", false, "(7,)", &f32s(&[0.0; 7])));
        }
        says(name, &room, RUN);
    }
    let room = Room::with_model(reshape, r#"type="GatherElements" version="opset6""#);
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let text = text.replace(r#"special_zero="true""#, r#"axis="2""#);
    room.write("model.xml", text.as_bytes());
    says("rule_of_an_attribute", &room, RUN);
    let room = Room::with_model(reshape, r#"type="Foo" version="opset1""#);
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let text =
        text.replace(r#"type="Const" version="opset1""#, r#"type="Bar" version="extension""#);
    room.write("model.xml", text.as_bytes());
    says("all_unsupported_operations_together", &room, RUN);
}

#[test]
fn weights() {
    let room = Room::new();
    std::fs::remove_file(room.path("model.bin")).unwrap();
    says("bin_missing", &room, RUN);
    for (name, bytes) in [
        ("bin_empty", Vec::new()),
        ("bin_short", i64s(&[3])),
        (
            "bin_lfs_pointer",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n".to_vec(),
        ),
    ] {
        room.write("model.bin", &bytes);
        says(name, &room, RUN);
    }
    // Another constant, which nothing needs but the second output.
    let more = r#"<layer id="8" name="more" type="Const" version="opset1"><data element_type="u8" shape="9" offset="16" size="9"/><output><port id="0" precision="U8"/></output></layer>
        <layer id="9" name="z" type="Result" version="opset1"><input><port id="0"/></input></layer>
    </layers>"#;
    let two = Room::with_model("</layers>", more);
    let edge = r#"<edge from-layer="8" from-port="0" to-layer="9" to-port="0"/></edges>"#;
    let text = String::from_utf8(two.read("model.xml")).unwrap().replace("</edges>", edge);
    two.write("model.xml", text.as_bytes());
    says("bin_short_by_one_constant", &two, RUN);
    two.write("model.bin", &i64s(&[3]));
    says("bin_short_by_two_constants", &two, RUN);
    says("bin_short_by_two_constants_json", &two, "check model.xml --json");
    std::fs::remove_file(room.path("model.bin")).unwrap();
    std::fs::create_dir(room.path("model.bin")).unwrap();
    says("bin_is_a_directory", &room, RUN);
    says("size_below_shape", &Room::with_model(r#"size="16""#, r#"size="8""#), RUN);
    let huge = Room::with_model(r#"offset="0""#, r#"offset="18446744073709551615""#);
    says("offset_beyond_64_bits", &huge, RUN);
}

#[test]
fn inputs_that_do_not_fit() {
    let room = Room::new();
    says("input_missing", &room, "model.xml");
    says("input_name_mistyped", &room, "model.xml --input x:1=x.npy");
    says("input_name_unknown", &room, "model.xml --input temperature=x.npy");
    says("input_index_too_large", &room, "model.xml --input 3=x.npy");
    says("input_twice", &room, "model.xml --input x=x.npy --input 0=x.npy");
    says("input_one_too_many", &room, "model.xml --input x.npy --input x.npy");
    says("input_file_missing", &room, "model.xml --input z.npy");
    says("input_is_a_directory", &room, "model.xml --input .");
    says("input_names_no_file", &room, "model.xml --input x=");
    let zeros = [0; 48];
    for (name, bytes) in [
        ("npy_other_file", b"PK\x03\x04".to_vec()),
        ("npy_wrong_type", npy("<i8", false, "(2, 3)", &zeros)),
        ("npy_wrong_shape", npy("<f4", false, "(3, 2)", &zeros[..24])),
        ("npy_wrong_rank", npy("<f4", false, "(6,)", &zeros[..24])),
        ("npy_cut_short", npy("<f4", false, "(2, 3)", &zeros[..20])),
        ("npy_header_cut_short", b"\x93NUMPY\x01\x00\xff\x00{'descr'".to_vec()),
        ("npy_header_no_dict", npy("<f4", false, "(2, x)", &zeros)),
        ("npy_version_9", b"\x93NUMPY\x09\x00\x00\x00".to_vec()),
        ("npy_structured", structured()),
        ("npy_complex", npy("<c8", false, "(2, 3)", &zeros)),
        ("npy_size_overflows", npy("<f4", false, "(9999999999, 9999999999, 4)", &zeros)),
        ("npy_strings_without_size", npy("|S0", false, "(999999999999,)", &[])),
    ] {
        room.write("x.npy", &bytes);
        says(name, &room, RUN);
    }
    let cast = "model.xml --input x.npy --cast";
    says("npy_strings_without_size_cast", &room, cast);
    room.write("x.npy", &npy("|S1", false, "(2, 3)", b"012345"));
    says("npy_cast_impossible", &room, cast);
}

/// The header of an array with fields.
fn structured() -> Vec<u8> {
    let fields = b"'[(a, <f4)]'";
    let mut file = npy("[(a, <f4)]", false, "(2, 3)", &[0; 48]);
    let at = file.windows(fields.len()).position(|w| w == fields).unwrap();
    file[at] = b' ';
    file[at + fields.len() - 1] = b' ';
    file
}

#[test]
fn archives_that_do_not_fit() {
    let room = Room::new();
    room.write("x.npz", b"not a zip");
    says("npz_no_archive", &room, "model.xml --input x.npz");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(room.path("x.npz")).unwrap());
    let stored = zip::write::SimpleFileOptions::default();
    for name in ["a", "b"] {
        zip.start_file(format!("{name}.npy"), stored).unwrap();
        zip.write_all(&room.read("x.npy")).unwrap();
    }
    zip.finish().unwrap();
    says("npz_unknown_array", &room, "model.xml --input x.npz");
    says("npz_no_array_of_that_name", &room, "model.xml --input x=x.npz");
}

#[test]
fn outputs_that_cannot_be_written() {
    let room = Room::new();
    for (name, args) in [
        ("output_below_a_file", "--output model.xml/y.npy"),
        ("output_other_extension", "--output y.txt"),
        ("output_name_mistyped", "--output r:1=y.npy"),
        ("output_one_too_many", "--output y.npy --output z.npy"),
        ("output_twice", "--output y.npy --output 0=y.npy"),
        ("output_names_no_file", "--output y="),
        ("save_state_twice", "--save-state s.npz --save-state t.npz"),
        ("save_state_is_no_npz", "--save-state s.npy"),
    ] {
        says(name, &room, &format!("{RUN} {args}"));
    }
    says(
        "save_state_without_variables",
        &room,
        &format!("{RUN} --output y.npy --save-state s.npz"),
    );
    says("drawing_is_a_directory", &room, "graph model.xml --output .");
    assert!(!room.path("y.npy").exists());
    // A directory in which nobody can make a file.
    if cfg!(target_os = "linux") {
        let path = "/proc/y.npy cannot be written: ";
        for args in ["model.xml --input x.npy --output", "graph model.xml --format dot --output"] {
            let outcome = room.irrun(&format!("{args} /proc/y.npy"));
            assert_eq!(outcome.code, 4, "{}", outcome.report());
            let reason = outcome.stderr.strip_prefix(&format!("error: {path}"));
            assert!(reason.is_some_and(|r| !r.contains('/')), "{}", outcome.report());
        }
    }
}

#[test]
fn commands() {
    let room = Room::new();
    for (name, args) in [
        ("command_mistyped", "chekc model.xml"),
        ("command_mistyped_with_flags", "Bnech model.xml --runs 3"),
        ("command_mistyped_without_model", "chekc"),
        ("command_unknown", "execute model.xml"),
        ("command_is_a_model_without_extension", "model --input x.npy"),
        ("command_after_the_model", "model.xml check"),
        ("command_mistyped_after_a_flag", "--json chekc model.xml"),
        ("input_without_flag", "model.xml x.npy"),
        ("unknown_flag_like_no_other", "model.xml --print"),
    ] {
        says(name, &room, args);
    }
}

#[test]
fn numbers() {
    let room = Room::new();
    for (name, args) in [
        ("threads_0", "model.xml --input x.npy --threads 0"),
        ("threads_below_0", "bench model.xml --threads -1"),
        ("threads_0_of_test", "test . --threads 0"),
        ("threads_too_many", "bench model.xml --threads 18446744073709551615"),
        ("runs_0", "bench model.xml --runs 0"),
        ("runs_no_whole_number", "bench model.xml --runs 1.5"),
        ("warmup_below_0", "bench model.xml --warmup -1"),
        ("seconds_0", "bench model.xml --seconds 0"),
        ("seconds_below_0", "bench model.xml --seconds -1"),
        ("seconds_nan", "bench model.xml --seconds nan"),
        ("bench_shape_beyond_memory", "bench model.xml --shape x[99999999,99999999]"),
        ("bench_shape_overflows", "bench model.xml --shape x[99999999999,99999999999]"),
    ] {
        says(name, &room, args);
    }
    room.irrun("bench model.xml --warmup 0 --runs 1 --seconds 0.1 --threads 3").good();
}

#[test]
fn names_that_match_nothing() {
    let room = Room::new();
    says("graph_only_nothing", &room, "graph model.xml --only z*");
    says("ops_name_mistyped", &room, "ops Rol");
    says("ops_only_nothing", &room, "ops Nothing*");
    says("check_only_nothing", &room, "check model.xml --only z*");
}

#[test]
fn flags() {
    let room = Room::new();
    says("no_arguments", &room, "");
    says("unknown_flag", &room, &format!("{RUN} --ouput y.npy"));
    says("unknown_flag_of_check", &room, "check model.xml --shapes x[2,3]");
    says("threads_is_no_number", &room, &format!("{RUN} --threads many"));
    says("precision_is_no_precision", &room, &format!("{RUN} --precision f16"));
    for (name, shape) in [
        ("shape_name_mistyped", "x:O[2,3]"),
        ("shape_without_brackets", "x"),
        ("shape_without_end", "x[2,3"),
        ("shape_is_no_shape", "x[2,three]"),
        ("shape_bounds_swapped", "x[5..2,3]"),
        ("shape_contradicts_the_file", "x[1,6]"),
        ("shape_twice", "x[2,3] --shape [2,3]"),
    ] {
        says(name, &room, &format!("{RUN} --shape {shape}"));
    }
}

#[test]
fn check_reports_everything() {
    let room = Room::new();
    says("check_override_breaks_a_rule", &room, "check model.xml --shape x[1,7]");
    says("check_model_missing", &room, "check modle.xml");
    let declared = "<dim>3</dim><dim>2</dim>";
    let room = Room::with_model(declared, "<dim>3</dim><dim>4</dim>");
    says("check_declared_shape_differs", &room, "check model.xml");
    let room = Room::with_model(r#"special_zero="true""#, r#"special_zero="true" speciel="1""#);
    says("check_unknown_attribute", &room, "check model.xml");
    let room = Room::new();
    room.write("model.bin", &[0; 10_000]);
    says("check_unused_weights", &room, "check model.xml --shape x[0,3]");
    let version = Room::with_model(r#"version="11""#, r#"version="1""#);
    says("check_version_1", &version, "check model.xml");
    says("check_version_1_json", &version, "check model.xml --json");
}

/// Layers of old versions are named as the file has them.
#[test]
fn old_versions() {
    let room = Room::new();
    let ports = r#"<output><port id="0"><dim>1</dim><dim>2</dim></port></output>"#;
    let layer = |rest: &str| {
        format!(
            r#"<net name="n" version="6"><layers>
            <layer id="0" name="x" type="Input" precision="FP32">{ports}</layer>
            <layer id="1" name="y" {rest}<input><port id="0"><dim>1</dim><dim>2</dim></port></input>
            {}</layer></layers>
            <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"#,
            ports.replace("id=\"0\"", "id=\"1\"")
        )
    };
    for (name, rest) in [
        ("old_version_unknown_type", r#"type="SpatialTransformer" precision="FP32">"#),
        ("old_version_missing_attribute", r#"type="Tile" precision="FP32"><data axis="1"/>"#),
        ("old_version_without_weights", r#"type="FullyConnected"><data out-size="2"/>"#),
        ("old_version_attribute_is_no_number", r#"type="Tile"><data axis="1" tiles="two"/>"#),
    ] {
        room.write("model.xml", layer(rest).as_bytes());
        says(name, &room, "check model.xml");
    }
}

#[test]
fn while_running() {
    // Gather with an index that is an input: the data decides.
    let gather = r#"<?xml version="1.0"?>
<net name="late" version="11">
<layers>
<layer id="0" name="data" type="Parameter" version="opset1"><data shape="4" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="1" name="indices" type="Parameter" version="opset1"><data shape="1" element_type="i64"/><output><port id="0" precision="I64"/></output></layer>
<layer id="2" name="axis" type="Const" version="opset1"><data element_type="i64" shape="" offset="0" size="8"/><output><port id="0" precision="I64"/></output></layer>
<layer id="3" name="pick" type="Reshape" version="opset1"><data special_zero="false"/><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"/></output></layer>
<layer id="4" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="3" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="3" to-port="1"/>
<edge from-layer="3" from-port="2" to-layer="4" to-port="0"/>
</edges>
</net>"#;
    let room = Room::new();
    room.write("model.xml", gather.as_bytes());
    room.write("data.npy", &npy("<f4", false, "(4,)", &f32s(&[1., 2., 3., 4.])));
    room.write("pattern.npy", &npy("<i8", false, "(1,)", &i64s(&[3])));
    says("pattern_from_an_input_does_not_fit", &room, "model.xml -i data.npy -i pattern.npy");
}

#[test]
fn case_folders() {
    let room = Room::new();
    says("test_without_cases", &room, "test .");
    says("test_of_no_directory", &room, "test nowhere");
    says("test_of_a_file", &room, "test model.xml");
    room.write("cases/broken/case.json", b"{\"inputs\": [");
    says("test_broken_case", &room, "test cases");
    room.write(
        "cases/broken/case.json",
        br#"{"inputs": [{}], "outputs": [{"rtol": 0, "atol": 0.5}]}"#,
    );
    says("test_case_without_model", &room, "test cases");
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("cases/broken/{file}"), &room.read(file));
    }
    room.write("cases/broken/input_0.npy", &room.read("x.npy"));
    let wrong = f32s(&[0., 1., 2.4, 3., 4., 9.]);
    room.write("cases/broken/expected_0.npy", &npy("<f4", false, "(3, 2)", &wrong));
    says("test_values_differ", &room, "test cases");
    says(
        "test_expects_failure_of_none",
        &room,
        "test cases --expect-failure brokn --expect-failure b* --expect-failure z?",
    );
    room.write("cases/broken/expected_0.npy", &room.read("x.npy"));
    says("test_shape_differs", &room, "test cases");
}

/// A room with the files of a case, but for its `case.json`.
fn room_of_a_case(expected: &[f32]) -> Room {
    let room = Room::new();
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("cases/c/{file}"), &room.read(file));
    }
    room.write("cases/c/input_0.npy", &room.read("x.npy"));
    room.write("cases/c/expected_0.npy", &npy("<f4", false, "(3, 2)", &f32s(expected)));
    room
}

/// What would pass because nothing, or not all, is compared.
#[test]
fn case_files_that_compare_too_little() {
    let room = room_of_a_case(&[0., 1., 2., 3., 4., 5.]);
    let step = |entries: &str| {
        format!(
            r#"{{"runs": [{{"steps": [{{"inputs": ["input_0.npy"], "expected": [{entries}]}}]}}]}}"#
        )
    };
    let golden = r#"{"file": "expected_0.npy", "rtol": 0}"#;
    for (name, json) in [
        ("case_runs_empty", r#"{"runs": []}"#.to_owned()),
        ("case_runs_no_list", r#"{"inputs": [{}], "outputs": [{}], "runs": {}}"#.to_owned()),
        ("case_steps_empty", r#"{"runs": [{"steps": []}]}"#.to_owned()),
        ("case_expected_empty", step("")),
        ("case_expected_too_many", step(&format!("{golden}, {golden}"))),
        ("case_tolerance_of_a_step_is_text", step(&golden.replace("0}", "\"0\"}"))),
        ("case_outputs_missing", r#"{"inputs": [{}]}"#.to_owned()),
        ("case_outputs_no_list", r#"{"inputs": [{}], "outputs": 1}"#.to_owned()),
        ("case_inputs_too_many", r#"{"inputs": [{}, {}], "outputs": [{}]}"#.to_owned()),
        ("case_tolerance_is_text", r#"{"inputs": [{}], "outputs": [{"atol": "1"}]}"#.to_owned()),
        ("case_tolerance_null", r#"{"inputs": [{}], "outputs": [{}], "rtol": null}"#.to_owned()),
    ] {
        room.write("cases/c/case.json", json.as_bytes());
        says(name, &room, "test cases");
    }
    room.write("cases/c/case.json", step(golden).as_bytes());
    room.irrun("test cases").good();
}

#[test]
fn properties_that_do_not_fit() {
    let room = room_of_a_case(&[1., 0., 2., 3., 5., 4.]);
    let property = |text: &str| {
        let json = r#"{"inputs": [{}], "outputs": [{}], "check": "property", "property": {P}}"#;
        room.write("cases/c/case.json", json.replace("{P}", text).as_bytes());
    };
    for (name, text) in [
        ("property_axis_beyond_rank", r#"{"property": "topk_set", "axis": 99}"#),
        ("property_axis_before_the_first", r#"{"property": "topk_set", "axis": -3}"#),
        ("property_axis_smallest", r#"{"property": "topk_set", "axis": -9223372036854775808}"#),
        ("property_other_elements", r#"{"property": "topk_set", "axis": 0}"#),
        ("property_unknown", r#"{"kind": "topk_set"}"#),
    ] {
        property(text);
        says(name, &room, "test cases");
    }
    for axis in ["1", "-1"] {
        property(&format!(r#"{{"property": "topk_set", "axis": {axis}}}"#));
        room.irrun("test cases").good();
    }
}

/// Every code has its place in `docs/errors.md`.
#[test]
fn every_code_is_documented() {
    let page = include_str!("../../../docs/errors.md");
    for (code, _) in ir::Code::ALL {
        assert!(page.contains(&format!("## {code} ")), "docs/errors.md does not explain {code}");
    }
}
