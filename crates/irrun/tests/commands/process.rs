//! The command line as a process: real files in a temporary directory, exit codes, both streams.

use crate::support::{MODEL, Room, f32s, header, i64s, npy, written};
use serde_json::Value;
use std::io::{Read, Write};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn without_output_a_summary_is_printed() {
    let room = Room::new();
    let out = room.irrun("model.xml --input x.npy").good();
    for piece in ["r:0", "f32", "[3,2]", "0 1 2 3 4 5", "2.5"] {
        assert!(out.contains(piece), "{piece} in\n{out}");
    }
}

#[test]
fn inputs_by_tensor_name_layer_name_index_and_position() {
    let room = Room::new();
    for input in ["x:0=x.npy", "x=x.npy", "0=x.npy", "x.npy"] {
        let said = room.irrun(&format!("model.xml --input {input} --output y.npy")).good();
        assert_eq!(said, "", "with --output it is silent");
        let (head, data) = written(&room, "y.npy");
        assert_eq!(head, header("<f4", "(3, 2)"));
        assert_eq!(data, f32s(&[0., 1., 2., 3., 4., 5.]));
        std::fs::remove_file(room.path("y.npy")).unwrap();
    }
}

#[test]
fn outputs_to_files_directories_and_archives() {
    let room = Room::new();
    for output in ["y.npy", "r:0=y.npy", "y=y.npy", "0=deep/er/y.npy", "out/", "new.npz"] {
        room.irrun(&format!("model.xml -i x.npy -o {output}")).good();
    }
    let plain = room.read("y.npy");
    assert_eq!(plain, room.read("deep/er/y.npy"));
    assert_eq!(plain, room.read("out/r_0.npy"));
    let mut zip = zip::ZipArchive::new(std::fs::File::open(room.path("new.npz")).unwrap()).unwrap();
    let mut member = Vec::new();
    zip.by_name("r:0.npy").unwrap().read_to_end(&mut member).unwrap();
    assert_eq!(plain, member);
    let left: Vec<_> =
        std::fs::read_dir(room.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|n| !n.to_string_lossy().starts_with(".irrun")), "{left:?}");
}

#[test]
fn archives_as_inputs() {
    let room = Room::new();
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        for name in ["x:0", "x", "arr_0"] {
            let file = std::fs::File::create(room.path("x.npz")).unwrap();
            let mut zip = zip::ZipWriter::new(file);
            let options = zip::write::SimpleFileOptions::default();
            let options = options.compression_method(method).large_file(true);
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(&room.read("x.npy")).unwrap();
            zip.finish().unwrap();
            room.irrun("model.xml -i x.npz -o y.npz").good();
            room.irrun("model.xml -i x=x.npz -o y.npy").good();
            assert_eq!(written(&room, "y.npy").1, f32s(&[0., 1., 2., 3., 4., 5.]));
        }
    }
    // What irrun writes, it reads.
    let same = Room::identity("f32", "?,?");
    same.irrun("model.xml -i x.npy -o a.npz").good();
    same.irrun("model.xml -i x=a.npz -o b.npy").good();
    let data = f32s(&[0., 1., 2., 3., 4., 5.]);
    assert_eq!(written(&same, "b.npy"), (header("<f4", "(2, 3)"), data));
}

#[test]
fn orders_versions_and_byte_orders() {
    let room = Room::identity("f32", "...");
    let rows = f32s(&[0., 1., 2., 3., 4., 5.]);
    let columns = f32s(&[0., 3., 1., 4., 2., 5.]);
    let big: Vec<u8> = [0f32, 1., 2., 3., 4., 5.].iter().flat_map(|v| v.to_be_bytes()).collect();
    let big_columns: Vec<u8> =
        [0f32, 3., 1., 4., 2., 5.].iter().flat_map(|v| v.to_be_bytes()).collect();
    let version = |v: u8| {
        let one = npy("<f4", false, "(2, 3)", &rows);
        let mut file = b"\x93NUMPY".to_vec();
        file.extend([v, 0]);
        file.extend((u32::from(u16::from_le_bytes([one[8], one[9]]))).to_le_bytes());
        file.extend(&one[10..]);
        file
    };
    for file in [
        npy("<f4", false, "(2, 3)", &rows),
        npy("<f4", false, "(2L, 3L)", &rows),
        npy("<f4", true, "(2, 3)", &columns),
        npy(">f4", false, "(2, 3)", &big),
        npy(">f4", true, "(2, 3)", &big_columns),
        version(2),
        version(3),
    ] {
        room.write("x.npy", &file);
        room.irrun("model.xml -i x.npy -o y.npy").good();
        assert_eq!(written(&room, "y.npy"), (header("<f4", "(2, 3)"), rows.clone()));
    }
}

#[test]
fn scalars_and_empty_arrays() {
    let room = Room::identity("f32", "...");
    for (shape, values) in
        [("()", vec![7.0]), ("(0,)", vec![]), ("(2, 0, 3)", vec![]), ("(1,)", vec![7.0])]
    {
        room.write("x.npy", &npy("<f4", false, shape, &f32s(&values)));
        room.irrun("model.xml -i x.npy -o y.npy").good();
        assert_eq!(written(&room, "y.npy"), (header("<f4", shape), f32s(&values)), "{shape}");
        let summary = room.irrun("model.xml -i x.npy").good();
        assert!(summary.contains("f32"), "{summary}");
        room.irrun("model.xml -i x.npy --json").good();
    }
}

/// Files of raw bytes become what the port says, and types keep numpy's names on the way out.
#[test]
fn element_types() {
    for (element_type, descr_in, data, descr_out) in [
        ("boolean", "|b1", vec![1, 0], "|b1"),
        ("u8", "|u1", vec![1, 255], "|u1"),
        ("i8", "|i1", vec![1, 255], "|i1"),
        ("i16", "<i2", vec![1, 0, 2, 0], "<i2"),
        ("u16", "<u2", vec![1, 0, 2, 0], "<u2"),
        ("f16", "<f2", vec![0, 0x3c, 0, 0xbc], "<f2"),
        ("bf16", "<V2", vec![0x80, 0x3f, 0x80, 0xbf], "<V2"),
        ("bf16", "|V2", vec![0x80, 0x3f, 0x80, 0xbf], "<V2"),
        ("bf16", "<u2", vec![0x80, 0x3f, 0x80, 0xbf], "<V2"),
        ("bf16", "bfloat16", vec![0x80, 0x3f, 0x80, 0xbf], "<V2"),
        ("f8e4m3", "|V1", vec![0x38, 0xb8], "|V1"),
        ("f8e5m2", "<f1", vec![0x3c, 0xbc], "|V1"),
        ("u4", "|u1", vec![1, 15], "|u1"),
        ("i4", "|i1", vec![1, 0xf8], "|i1"),
        ("u1", "|u1", vec![1, 0], "|u1"),
        ("nf4", "|V1", vec![1, 15], "|V1"),
        ("string", "|S2", b"abc\0".to_vec(), "|S2"),
    ] {
        let room = Room::identity(element_type, "2");
        room.write("x.npy", &npy(descr_in, false, "(2,)", &data));
        room.irrun("model.xml -i x.npy -o y.npy").good();
        let expected = (header(descr_out, "(2,)"), data);
        assert_eq!(written(&room, "y.npy"), expected, "{element_type} from {descr_in}");
    }
}

/// A type below a byte would keep the lowest bits of a number that it cannot hold.
#[test]
fn numbers_that_do_not_fit_are_refused() {
    for (element_type, descr, byte, shown) in [
        ("u4", "|u1", 16, "16"),
        ("u1", "|i1", 0xff, "-1"),
        ("i4", "|i1", 9, "9"),
        ("i4", "|u1", 0xf8, "248"),
        ("u3", "|u1", 8, "8"),
    ] {
        let room = Room::identity(element_type, "2");
        room.write("x.npy", &npy(descr, false, "(2,)", &[1, byte]));
        let refused = room.irrun("model.xml -i x.npy -o y.npy");
        assert_eq!(refused.code, 4, "{element_type}");
        let message = format!("it holds {shown}, which a {element_type} cannot");
        assert!(refused.stderr.contains(&message), "{}", refused.stderr);
        assert!(!room.path("y.npy").exists());
        room.irrun("model.xml -i x.npy -o y.npy --cast").good();
    }
}

#[test]
fn a_port_without_type_takes_that_of_the_file() {
    let room = Room::identity("dynamic", "...");
    room.write("x.npy", &npy("<i8", false, "(2,)", &i64s(&[1, -1])));
    room.irrun("model.xml -i x.npy -o y.npy").good();
    assert_eq!(written(&room, "y.npy"), (header("<i8", "(2,)"), i64s(&[1, -1])));
}

#[test]
fn values_are_converted_on_request_only() {
    let room = Room::new();
    let doubles: Vec<u8> = (0..6).flat_map(|i| f64::from(i).to_le_bytes()).collect();
    for (descr, data) in [("<f8", doubles), ("<i8", i64s(&[0, 1, 2, 3, 4, 5]))] {
        room.write("x.npy", &npy(descr, false, "(2, 3)", &data));
        let refused = room.irrun("model.xml -i x.npy -o y.npy");
        assert_eq!(refused.code, 4);
        assert!(refused.stderr.contains("--cast"), "{}", refused.stderr);
        assert!(!room.path("y.npy").exists());
        room.irrun("model.xml -i x.npy -o y.npy --cast").good();
        assert_eq!(written(&room, "y.npy").1, f32s(&[0., 1., 2., 3., 4., 5.]));
        std::fs::remove_file(room.path("y.npy")).unwrap();
    }
}

#[test]
fn shapes_may_be_overridden() {
    let room = Room::with_model(r#"shape="2,3""#, r#"shape="?,?""#);
    room.irrun("model.xml -i x.npy --shape x[2,3] -o y.npy").good();
    room.irrun("model.xml -i x.npy --shape [1..2,3] -o y.npy").good();
    let refused = room.irrun("model.xml -i x.npy --shape x:0[6,1] -o z.npy");
    assert_eq!(refused.code, 4);
    assert!(refused.stderr.contains("f32[6,1]") && refused.stderr.contains("f32[2,3]"));
}

#[test]
fn an_instruction_set_must_exist() {
    let room = Room::new();
    let out = room.irrun_with(&[("IRRUN_ISA", "avx3")], ["ops"]);
    assert_eq!(out.code, 2, "{}", out.report());
    let expected = "error: IRRUN_ISA is \"avx3\", which is no instruction set; set it to portable";
    assert!(out.stderr.starts_with(expected), "{}", out.report());
    assert_eq!(room.irrun_with(&[("IRRUN_ISA", "")], ["ops"]).code, 0);
}

#[test]
fn results_do_not_depend_on_threads_or_optimisation() {
    let room = Room::new();
    let bytes = |flags: &str| {
        room.irrun(&format!("model.xml -i x.npy -o y.npy {flags}")).good();
        room.read("y.npy")
    };
    let one = bytes("--threads 1");
    assert_eq!(one, bytes("--threads 3"));
    assert_eq!(one, bytes("--no-optimize"));
    let explained = room.irrun("model.xml -i x.npy --explain");
    assert_eq!(explained.code, 0);
    assert!(!explained.stderr.is_empty(), "the plan goes to standard error");
}

#[test]
fn a_directory_stands_for_the_model_in_it() {
    let room = Room::new();
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("small/{file}"), &room.read(file));
    }
    for args in ["DIR -i x.npy", "check DIR", "inspect DIR", "graph DIR", "check DIR --json"] {
        let of = |model: &str| room.irrun(&args.replace("DIR", model)).good();
        assert_eq!(of("small"), of("small/model.xml"), "{args}");
        assert_eq!(of("small/"), of("."), "{args}");
    }
    room.irrun("bench small --runs 1").good();
    room.irrun("bench . --runs 1 -i x.npy").good();
    let none = room.irrun("check small/nothing");
    assert_eq!(none.code, 3, "{}", none.report());
    std::fs::create_dir(room.path("empty")).unwrap();
    for args in ["empty -i x.npy", "check empty", "inspect empty", "graph empty", "bench empty"] {
        let refused = room.irrun(args);
        assert_eq!(refused.code, 3, "{}", refused.report());
        assert!(refused.stderr.contains("empty/model.xml cannot be read"), "{}", refused.report());
    }
}

#[test]
fn streams_of_a_benchmark_run_at_the_same_time() {
    let room = Room::new();
    let report = room.irrun("bench . --streams 3 --runs 4 --seconds 60 --json -i x.npy").good();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["streams"], &report["runs"]), (&3.into(), &12.into()), "{report}");
    assert!(report["runs_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{report}");
    for streams in ["0", "257", "18446744073709551616"] {
        let refused = room.irrun(&format!("bench . --streams {streams}"));
        assert_eq!(refused.code, 2, "{}", refused.report());
    }
    assert_eq!(room.irrun("bench . --streams 2 --profile").code, 2);
    // One stream fails as the others would, and none waits for it.
    assert_eq!(room.irrun("bench . --streams 2 --runs 1 --max-memory 1").code, 5);
}

#[test]
fn bench_of_a_case_takes_its_inputs_unless_others_are_given() {
    let room = Room::new();
    room.write("case.json", br#"{"inputs": [{}], "outputs": []}"#);
    let refused = room.irrun("bench . --runs 1");
    assert!(refused.stderr.contains("input_0.npy"), "{}", refused.report());
    room.irrun("bench . --runs 1 -i x.npy").good();
    room.irrun("bench . --runs 1 --shape [2,3]").good();
    let doubles: Vec<u8> = (0..6).flat_map(|i| f64::from(i).to_le_bytes()).collect();
    room.write("x.npy", &npy("<f8", false, "(2, 3)", &doubles));
    assert_eq!(room.irrun("bench . --runs 1 -i x.npy").code, 4);
    room.irrun("bench . --runs 1 -i x.npy --cast").good();
}

#[test]
fn bench_tells_the_steps_of_a_case() {
    let room = Room::new();
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/state");
    let report = json(&room.irrun(&format!("bench {case} --runs 3 --json")).good());
    let steps = report["steps_ms"].as_array().unwrap();
    assert_eq!(steps.len(), 3, "{report}");
    let sum: f64 = steps.iter().filter_map(Value::as_f64).sum();
    assert!(sum > 0.0 && sum <= report["p90_ms"].as_f64().unwrap() * 3.0, "{report}");
}

/// A trace is of one run, whatever the number of those that are timed.
#[test]
fn bench_writes_a_trace() {
    let room = Room::new();
    let page = room.irrun("bench model.xml --runs 1 --html b.svg");
    let refused = "--html b.svg: it writes a page; call it .html";
    assert!(page.code == 2 && page.stderr.contains(refused), "{}", page.report());
    assert!(!room.path("b.svg").exists());
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/loop_with_scan");
    room.irrun(&format!("bench {case} --runs 3 --trace trace.json")).good();
    let trace = json(&String::from_utf8(room.read("trace.json")).unwrap());
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |name: &str| events.iter().filter(|e| e["name"] == name).collect::<Vec<_>>();
    let (whole, inner) = (of("Loop"), of("Multiply"));
    assert!(!whole.is_empty() && inner.len() >= whole.len(), "{trace}");
    let end = |e: &Value| e["ts"].as_f64().unwrap() + e["dur"].as_f64().unwrap();
    for event in inner {
        assert_eq!((&event["ph"], &event["cat"]), (&"X".into(), &"binary".into()));
        let around = |w: &&&Value| w["ts"].as_f64() <= event["ts"].as_f64() && end(event) <= end(w);
        assert_eq!(whole.iter().filter(around).count(), 1, "{event} in {trace}");
        assert!(event["args"]["name"].as_str().unwrap().starts_with("Multiply \""), "{event}");
    }
    for (args, said) in [
        ("--trace ./x.npy -i x:0=x.npy", "x.npy is an input"),
        ("--trace ./model.bin", "is the weights of the model"),
        ("--trace t.json --streams 2", "cannot be used with"),
    ] {
        let refused = room.irrun(&format!("bench . --runs 1 {args}"));
        assert_eq!(refused.code, 2, "{}", refused.report());
        assert!(refused.stderr.contains(said), "{}", refused.report());
    }
}

#[test]
fn bench_json() {
    let room = Room::new();
    let flags = "--runs 4 --warmup 0 --threads 1 --json";
    let report = json(&room.irrun(&format!("bench model.xml {flags}")).good());
    let times =
        ["load_ms", "check_ms", "plan_ms", "first_ms", "median_ms", "p10_ms", "p90_ms", "gflops"];
    for key in times {
        assert!(report[key].as_f64().is_some_and(|v| v >= 0.0), "{key} in {report}");
    }
    let [low, middle, high] = ["p10_ms", "median_ms", "p90_ms"].map(|k| report[k].as_f64());
    assert!(low <= middle && middle <= high, "{report}");
    for (key, value) in [("schema", 2), ("runs", 4), ("threads", 1)] {
        assert_eq!(report[key], value, "{key}");
    }
    assert_eq!(report["layers"], serde_json::json!([]), "nothing is profiled");
    assert_eq!(report["steps_ms"], serde_json::json!([]), "there is one step");
    if cfg!(target_os = "linux") {
        assert!(report["peak_rss_bytes"].as_u64() > Some(1 << 20), "{report}");
    }
}

#[test]
fn bench_reports_the_precision() {
    let room = Room::new();
    for (flags, precision) in [("", "f32"), ("--precision bf16", "bf16")] {
        let out = room.irrun(&format!("bench model.xml --runs 1 --warmup 0 --json {flags}"));
        assert_eq!(out.code, 0, "{}", out.report());
        let report: Value = serde_json::from_str(&out.stdout).unwrap();
        assert_eq!(report["precision"], precision);
    }
}

#[test]
fn run_json() {
    let room = Room::new();
    let report = json(&room.irrun("model.xml -i x.npy -o y.npy -o all.npz --json").good());
    assert_eq!(report["schema"], 2);
    let output = &report["outputs"][0];
    assert_eq!(output["name"], "r:0");
    assert_eq!(output["type"], "f32");
    assert_eq!(output["shape"], serde_json::json!([3, 2]));
    assert_eq!(output["min"], 0.0);
    assert_eq!(output["max"], 5.0);
    assert_eq!(output["mean"], 2.5);
    assert_eq!(output["files"], serde_json::json!(["y.npy", "all.npz"]));
    // JSON has no NaN.
    let room = Room::identity("f32", "2");
    room.write("x.npy", &npy("<f4", false, "(2,)", &f32s(&[f32::NAN, f32::INFINITY])));
    let report = json(&room.irrun("model.xml -i x.npy --json").good());
    assert_eq!(report["outputs"][0]["nan"], 1);
    assert_eq!(report["outputs"][0]["max"], Value::Null);
    assert_eq!(report["outputs"][0]["first"], serde_json::json!(["NaN", "inf"]));
}

/// Values have numbers in a plan, which say nothing to people.
#[test]
fn explain_names_no_numbers_of_values() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/swin_block");
    let explained = Room::new().irrun(&format!("{fixture} --random --explain")).stderr;
    assert!(explained.contains(" in memory of another value"), "{explained}");
    assert!(!explained.contains(" at byte "), "{explained}");
}

/// The first values are numbers with all the digits of their type.
#[test]
fn first_values_are_numbers() {
    let beyond_f64 = (1u64 << 62) + 1;
    for (element_type, descr, bytes, first) in [
        ("f32", "<f4", f32s(&[0.1, 16_777_217.0]), serde_json::json!([0.1, 16_777_216.0])),
        ("f64", "<f8", (1.0f64 / 3.0).to_le_bytes().to_vec(), serde_json::json!([1.0 / 3.0])),
        ("i64", "<i8", beyond_f64.to_le_bytes().to_vec(), serde_json::json!([beyond_f64])),
        ("u64", "<u8", u64::MAX.to_le_bytes().to_vec(), serde_json::json!([u64::MAX])),
        ("i8", "|i1", vec![0xff, 3], serde_json::json!([-1, 3])),
        ("boolean", "|b1", vec![0, 1], serde_json::json!([false, true])),
    ] {
        let size = first.as_array().unwrap().len();
        let room = Room::identity(element_type, &size.to_string());
        room.write("x.npy", &npy(descr, false, &format!("({size},)"), &bytes));
        let report = json(&room.irrun("model.xml -i x.npy --json").good());
        assert_eq!(report["outputs"][0]["first"], first, "{element_type}");
    }
}

#[test]
fn check_tables() {
    let room = Room::new();
    let brief = room.irrun("check model.xml").good();
    assert!(brief.contains("Parameter") && !brief.contains("Const"), "{brief}");
    assert!(brief.contains("0 errors, 0 warnings"), "{brief}");
    let all = room.irrun("check model.xml --all").good();
    assert!(all.contains("Const") && all.contains("i64[2] = {3, 2}"), "{all}");
    let only = room.irrun("check model.xml --only r*").good();
    assert!(only.contains("Reshape") && !only.contains("Parameter"), "{only}");
    // Nothing is executed, and data weights are not needed; here they decide a shape.
    std::fs::remove_file(room.path("model.bin")).unwrap();
    assert_eq!(room.irrun("check model.xml").code, 1);
}

#[test]
fn check_says_why_a_dim_is_unknown() {
    let room = Room::with_model(r#"shape="2,3""#, r#"shape="?,3""#);
    room.write("model.bin", &i64s(&[0, -1]));
    let said = room.irrun("check model.xml");
    assert!(said.stdout.contains("unknown because"), "{}", said.stdout);
    let narrowed = room.irrun("check model.xml --shape x[2..4,3] --only r");
    assert!(narrowed.stdout.contains("f32[2..4,3]"), "{}", narrowed.stdout);
}

#[test]
fn check_json() {
    let room = Room::new();
    let report = json(&room.irrun("check model.xml --json").good());
    assert_eq!(report["schema"], 2);
    assert_eq!(report["ok"], true);
    assert_eq!(report["findings"], serde_json::json!([]));
    let layer = &report["layers"][2];
    assert_eq!((&layer["id"], &layer["type"]), (&serde_json::json!(2), &"Reshape".into()));
    assert_eq!(
        layer["outputs"],
        serde_json::json!([{"type": "f32", "shape": "[3,2]", "declared": "[3,2]"}])
    );
    let wrong = room.irrun("check model.xml --json --shape x[7]");
    assert_eq!(wrong.code, 1);
    let report = json(&wrong.stdout);
    assert_eq!(report["ok"], false);
    let finding = &report["findings"][0];
    assert_eq!(finding["code"], "IR0502");
    assert_eq!(finding["severity"], "error");
    assert_eq!(
        (&finding["layer"], &finding["line"]),
        (&serde_json::json!(2), &serde_json::json!(12))
    );
    // A file that is no graph is reported in the same form.
    room.write("model.xml", MODEL.replace("version=\"11\"", "version=\"1\"").as_bytes());
    let unread = room.irrun("check model.xml --json");
    assert_eq!(unread.code, 1);
    assert_eq!(json(&unread.stdout)["findings"][0]["code"], "IR0103");
}

#[test]
fn test_runs_case_folders() {
    let room = Room::new();
    for case in ["good", "bad"] {
        for file in ["model.xml", "model.bin"] {
            room.write(&format!("cases/{case}/{file}"), &room.read(file));
        }
        let description = br#"{"inputs": [{}], "outputs": [{"rtol": 0, "atol": 0.5}]}"#;
        room.write(&format!("cases/{case}/case.json"), description);
        room.write(&format!("cases/{case}/input_0.npy"), &room.read("x.npy"));
        let last = if case == "good" { 5.4 } else { 6.0 };
        let expected = f32s(&[0., 1., 2., 3., 4., last]);
        room.write(
            &format!("cases/{case}/expected_0.npy"),
            &npy("<f4", false, "(3, 2)", &expected),
        );
    }
    let passed = room.irrun("test cases/good").good();
    assert!(passed.starts_with("1 passed, 0 failed in "), "{passed}");
    let failed = room.irrun("test cases");
    assert_eq!(failed.code, 1);
    assert!(failed.stdout.contains("\n1 passed, 1 failed in "), "{}", failed.stdout);
    assert!(failed.stdout.contains("worst at [2, 1]: got 5, expected 6"), "{}", failed.stdout);
    let forgiven = room.irrun("test cases --expect-failure b*").good();
    let wanted = "1 passed, 0 failed, 1 failed as expected in ";
    assert!(forgiven.starts_with(wanted), "{forgiven}");
    assert_eq!(room.irrun("test cases --expect-failure *").code, 1, "a case that passes");
    let report = json(&room.irrun("test cases --json").stdout);
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &1.into()));
    #[cfg(unix)]
    std::os::unix::fs::symlink(room.path("cases"), room.path("cases/good/circle")).unwrap();
    let plain = room.irrun("test cases --no-optimize --threads 1 --verbose");
    assert!(plain.stdout.contains("\n1 passed, 1 failed in "), "{}", plain.stdout);
    assert!(plain.stdout.contains("passed cases/good"), "{}", plain.stdout);
}

#[test]
fn ops_lists_the_table() {
    let room = Room::new();
    let all = room.irrun("ops").good();
    assert!(all.contains("Roll") && all.contains("StaticReshape"), "{all}");
    let some = room.irrun("ops Re*pe").good();
    assert!(
        some.lines().all(|line| line.starts_with("Reshape") || line.ends_with("rows")),
        "{some}"
    );
    let report = json(&room.irrun("ops Roll --json").good());
    let roll = serde_json::json!({"type": "Roll", "version": "opset7", "last": "opset16"});
    assert_eq!(report["operations"], serde_json::json!([roll]));
}

/// Escape sequences in a file reach no terminal; programs are told names as they are.
#[test]
fn control_characters_of_names_are_shown() {
    let hostile = "&#27;]0;t&#7;&#27;[2J&#155;31m&#10;x";
    let room = Room::with_model(r#"name="x""#, &format!(r#"name="{hostile}""#));
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let text = text.replace(r#"names="r:0""#, &format!(r#"names="{hostile}""#));
    room.write("model.xml", text.replace(r#"name="small""#, "name=\"&#27;c\"").as_bytes());
    for args in [
        "model.xml -i x.npy",
        "model.xml -i x.npy --explain",
        "model.xml -i x.npy --profile",
        "model.xml",
        "model.xml -i wrong=x.npy",
        "check model.xml --all",
        "check model.xml --shape [7]",
        "inspect model.xml",
        "graph model.xml",
        "bench model.xml --runs 1 --warmup 0 --profile",
    ] {
        let said = room.irrun(args).report();
        let obeyed = said.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(obeyed, None, "irrun {args}\n{said:?}");
    }
    let all = room.irrun("check model.xml --all").good();
    assert!(all.contains(r"\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}31m\nx"), "{all}");
    let report = json(&room.irrun("check model.xml --json").good());
    assert_eq!(report["layers"][0]["name"], "\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}31m\nx");
}

/// As in `irrun ops | head -1`, and on a full disk.
#[cfg(target_os = "linux")]
#[test]
fn standard_output_may_be_closed_or_full() {
    use std::process::{Command, Stdio};
    let room = Room::new();
    let irrun = |args: &[&str], out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_irrun"));
        command.current_dir(room.path("")).args(args).stdout(out).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for args in [&["ops"][..], &["check", "model.xml"], &["ops", "--json"], &["graph", "model.xml"]]
    {
        let mut child = irrun(args, Stdio::piped());
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        assert_eq!((done.status.code(), done.stderr), (Some(0), vec![]), "{args:?}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let done = irrun(args, full.into()).wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(4), "{args:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.starts_with("error: the report cannot be written: "), "{said}");
    }
}

#[test]
fn exit_codes() {
    let room = Room::new();
    for (code, args) in [
        (0, "model.xml -i x.npy"),
        (0, "--help"),
        (0, "--version"),
        (0, "check --help"),
        (1, "check model.xml --shape x[7]"),
        (2, "model.xml"),
        (2, "model.xml -i x.npy --nonsense"),
        (2, "model.xml -i z=x.npy"),
        (3, "model.bin -i x.npy"),
        (4, "model.xml -i model.xml"),
        (4, "model.xml -i x.npy -o model.xml/y.npy"),
    ] {
        let outcome = room.irrun(args);
        assert_eq!(outcome.code, code, "irrun {args}\n{}", outcome.report());
    }
}

/// A run leaves two rows in the variable, with which the next one would not fit `y`.
#[test]
fn bench_begins_each_run_from_the_reset_state() {
    let room = Room::new();
    let mut g = ir::GraphBuilder::new("state");
    let [x, y] = ["x", "y"].map(|name| g.parameter(name, ir::ElementType::F32, "2,3"));
    let variable = [("variable_id", "v"), ("variable_type", "f32"), ("variable_shape", "?,3")];
    let read = g.layer("ReadValue", "opset6").attributes(&variable).output();
    let both = g.layer("Concat", "opset1").attribute("axis", "0").inputs(&[read, x]).output();
    g.layer("Assign", "opset6").attribute("variable_id", "v").inputs(&[both]).output();
    let sum = g.layer("Add", "opset1").inputs(&[both, y]).output();
    g.result("sum", sum);
    ir::write(&g.finish().unwrap(), room.path("state.xml")).unwrap();
    let report = json(&room.irrun("bench state.xml --warmup 1 --runs 3 --json").good());
    assert_eq!(report["runs"], 3);
}
