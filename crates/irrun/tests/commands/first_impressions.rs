//! What a new user meets first: mistyped paths, other formats, pipes, what goes where.

use crate::support::{Room, f32s, npy, says};
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn mistyped_paths_and_other_formats() {
    let room = Room::new();
    says(&room, "modle.xml -i x.npy", 3, &["; did you mean \"model.xml\"?"]);
    says(&room, "check ./modle.xml", 3, &["; did you mean \"./model.xml\"?"]);
    room.write("nets/small/model.xml", b"");
    says(&room, "check netz/small", 3, &["; did you mean \"nets/small\"?"]);
    room.write("image.npy", &room.read("x.npy"));
    says(&room, "model.xml -i imgae.npy", 4, &["(did you mean \"image.npy\"?)"]);
    says(&room, "model.xml -i image.npz", 4, &["(did you mean \"image.npy\"?)"]);
    // Of several files, none is like y.npy; the only one of a kind is meant.
    assert!(!room.irrun("model.xml -i y.npy").stderr.contains("did you mean"));
    says(&Room::new(), "model.xml -i y.npy", 4, &["(did you mean \"x.npy\"?)"]);
    room.write("golden.npz", b"");
    let only = ["nofile.npz", "(did you mean \"golden.npz\"?)"];
    says(&room, "model.xml -i x.npy --expect nofile.npz", 4, &only);
    room.write("net.onnx", b"\x08\x07\x12\x07pytorch\xff\0");
    let meant = ["an ONNX model by its name, not an IR; `ovc net.onnx` makes an .xml and a .bin"];
    says(&room, "net.onnx -i x.npy", 3, &meant);
    says(&room, "check net.onnx", 1, &meant);
    for args in ["net.onnx", "check net.onnx", "check net.onnx --json"] {
        let said = room.irrun(args).report();
        assert!(!said.contains("pytorch") && !said.contains("UTF-8"), "no excerpt: {said}");
    }
    // A text of another format may be XML as far as it goes.
    room.write("net.pb", b"<other/>");
    says(&room, "inspect net.pb", 3, &["a TensorFlow model by its name, not an IR; `ovc net.pb`"]);
    for (name, bytes, said) in [
        ("model.bin", &b"\xff\0\x80"[..], "these are the weights of a model; give model.xml"),
        ("other.bin", b"\xff\0", "by its name weights, not an IR; give the .xml"),
        ("net.blob", b"\xff\0", "a compiled model, which only the OpenVINO that has made it loads"),
        ("cache", b"<?xml version=\"1.0\"?><compiled_blob/>\n\xff\0", "a compiled model"),
        ("net.xml", b"\x7fELF\0\xff", "binary, not XML; a model is an .xml"),
    ] {
        room.write(name, bytes);
        says(&room, &format!("inspect {name}"), 3, &[said]);
    }
    says(&room, "check -", 3, &["standard input cannot be one; give the name of the .xml"]);
}

/// Names of operations, values of flags, files: what is near is suggested, and nothing else.
#[test]
fn suggestions_are_near() {
    let misnamed = Room::with_model(r#"type="Reshape""#, r#"type="MVNN""#);
    says(&misnamed, "model.xml -i x.npy", 3, &["there is no operation MVNN", "did you mean MVN?"]);
    says(&misnamed, "check model.xml", 1, &["MVNN: did you mean MVN?", "inputs: f32[2,3]"]);
    let report = misnamed.irrun("check model.xml --json").stdout;
    assert!(report.contains(r#""inputs":["f32[2,3]","i64[2] = {3, 2}"]"#), "{report}");
    let room = Room::new();
    for (args, value) in [
        ("--precision bf61", "bf16"),
        ("--expect x.npy --tol atuo", "auto"),
        ("--color allways", "always"),
    ] {
        let near = format!("a similar value exists: '{value}'");
        says(&room, &format!("model.xml -i x.npy {args}"), 2, &[&near]);
    }
    for args in ["explain IR9999", "ops Nope", "model.xml --semantics x", "model.xml --html x"] {
        let out = room.irrun(args);
        assert_eq!(out.code, 2, "{}", out.report());
        let said = out.stderr;
        assert!(!said.contains("did you mean") && !said.contains("similar"), "{args}: {said}");
    }
    says(&room, "explain IR0503x", 2, &["there is no code IR0503x"]);
    says(&room, "ops Reshap", 2, &["did you mean Reshape?"]);
    assert_eq!(room.irrun("ops reduce*").good(), room.irrun("ops Reduce*").good());
    says(&room, "model.xml --semantics openvino-cpu", 2, &["irrun check has --semantics"]);
    says(&room, "model.xml --html p.html", 2, &["irrun bench has --html"]);
    let usage = "Usage: irrun run [OPTIONS] <MODEL.xml>";
    says(&room, "run model.xml --semantics x", 2, &["irrun check has --semantics", usage]);
    let both = "there is no input or output \"yy\"; the inputs are x:0, the outputs r:0";
    says(&room, "edit model.xml --rename yy=image -o e.xml", 2, &[both]);
    let range = ["--range: there is no input \"yy\""];
    says(&room, "check model.xml --range yy[1..2]", 2, &range);
}

#[test]
fn flags_of_other_tools() {
    let room = Room::new();
    for (args, tip) in [
        ("-m model.xml", "irrun MODEL.xml"),
        ("bench model.xml -n 10", "--runs N"),
        ("bench model.xml --iterations 10", "--runs N"),
        ("model.xml --iterations 10", "irrun bench MODEL.xml --runs N"),
        ("model.xml -shape x[2,3]", "shapes are --shape"),
        ("bench model.xml -hint latency", "irrun bench MODEL.xml --streams N"),
        ("model.xml -hint=latency", "unexpected argument '-hint' found"),
        ("model.xml --val-range [0,1]", "--random --range NAME=LOW:HIGH"),
        ("model.xml --loglevel 3", "there is no log; --explain"),
        ("graph model.xml --compare-steps r.npz", "by --differences FILE.json, which irrun"),
        ("model.xml --loadInputs=x:x.bin", "--input NAME=FILE"),
        ("model.xml -i x.npy --precision f16", "possible values: f32, bf16"),
    ] {
        says(&room, args, 2, &[tip]);
    }
    let refused = room.irrun("model.xml -i x.npy --precision f16").stderr;
    assert!(!refused.contains("similar"), "{refused}");
}

/// Runs `irrun` with something on standard input.
fn piped(room: &Room, args: &str, bytes: &[u8]) -> (i32, Vec<u8>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_irrun"))
        .current_dir(room.path(""))
        .args(args.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let code = output.status.code().unwrap();
    (code, output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn arrays_come_through_pipes() {
    let room = Room::new();
    room.irrun("model.xml -i x.npy -o y.npy").good();
    let x = room.read("x.npy");
    for args in ["model.xml -i -", "model.xml -i x=-", "model.xml -i /dev/stdin"] {
        let (code, y, said) = piped(&room, &format!("{args} -o -"), &x);
        assert_eq!((code, y == room.read("y.npy")), (0, true), "{args}: {said}");
    }
    room.irrun("model.xml -i x.npy -o x.npz").good();
    let (code, _, said) = piped(&room, "model.xml -i -", &room.read("x.npz"));
    assert_eq!(code, 4, "the archive has another array: {said}");
    assert!(said.contains("r:0"), "{said}");
    let (code, _, said) = piped(&room, "model.xml -i -", b"no array");
    assert_eq!(code, 4);
    assert!(said.contains("not a .npy file"), "{said}");
    let (code, _, said) = piped(&room, "model.xml -i -", b"");
    assert_eq!(code, 4);
    assert!(said.contains("standard input is empty"), "{said}");
    for (args, bytes) in [("diff y.npy -", "y.npy"), ("diff - x.npz", "x.npz")] {
        let (code, _, said) = piped(&room, args, &room.read(bytes));
        assert_eq!(code, 0, "{args}: {said}");
    }
    let (code, _, said) = piped(&room, "diff x.npy -", b"");
    assert!(code == 4 && said.contains("standard input is empty"), "{said}");
    let (code, _, said) = piped(&room, "diff - -", &x);
    assert!(code == 2 && said.contains("standard input is read once"), "{said}");
}

#[test]
fn what_goes_where() {
    let room = Room::new();
    says(&room, "model.xml -i x.npy --json -o -", 2, &["--json prints on standard output"]);
    let made = "note: made the directory deep/er";
    says(&room, "model.xml -i x.npy -o deep/er/y.npy", 0, &[made]);
    assert!(room.path("deep/er/y.npy").exists());
    let places = |dir: &str| format!("note: made the directory {dir}");
    for (args, dir) in [
        ("extract model.xml --to r -o a/part.xml", "a"),
        ("edit model.xml --rename x:0=image -o b/c/e.xml", "b/c"),
        ("check model.xml --fix -o d/fixed.xml", "d"),
        ("repro model.xml --layer r -i x.npy -o e/report", "e"),
        ("graph model.xml -o f/g.svg", "f"),
        ("man -o g", "g"),
        ("test model.xml --record h/case -i x.npy", "h/case"),
    ] {
        says(&room, args, 0, &[&places(dir)]);
    }
    let drawn = room.irrun("graph model.xml --format svg").good();
    assert_eq!(room.irrun("graph model.xml --format svg -o -").good(), drawn);
    for args in ["graph model.xml -o - --json", "check model.xml --sarif - --json"] {
        says(&room, args, 2, &["--json prints on standard output"]);
    }
    says(&room, "edit model.xml --weights f16 -o -", 2, &["a model is two files"]);
    assert!(!room.path("-").exists());
    let asked = "input 0 (x:0) is f32[2,4] because --shape says so, but x.npy holds f32[2,3]";
    says(&room, "model.xml -i x.npy --shape [2,4]", 4, &[asked]);
    room.write("nan.npy", &npy("<f4", false, "(2, 3)", &f32s(&[0., f32::NAN, 2., 3., 4., 5.])));
    let told = "note: output 0 (r:0): 1 of 6 elements are NaN";
    says(&room, "model.xml -i nan.npy -o y.npy", 0, &[told]);
    let tenths = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7];
    room.write("x.npy", &npy("<f4", false, "(2, 3)", &f32s(&tenths)));
    let report = room.irrun("model.xml -i x.npy --json").good();
    assert!(report.contains(r#""min":0.1,"max":0.7,"#), "{report}");
    let explained = room.irrun("model.xml -i x.npy --explain").stderr;
    assert!(!explained.contains(": 0\n"), "{explained}");
}

#[test]
fn colors() {
    let room = Room::new();
    std::fs::remove_file(room.path("model.bin")).unwrap();
    let always = room.irrun("check model.xml --color always").stdout;
    assert!(always.contains("\x1b[1;31merror IR0401\x1b[0m: "), "{always:?}");
    for args in ["check model.xml", "check model.xml --color never"] {
        assert!(!room.irrun(args).stdout.contains('\x1b'), "{args}");
    }
    // Names of a model cannot give colours of their own.
    let shown = Room::with_model("name=\"r\"", "name=\"&#27;[31m\"");
    let shown = shown.irrun("check model.xml --all --color always").stdout;
    assert!(!shown.contains('\x1b') && shown.contains("\\u{1b}[31m"), "{shown:?}");
}

/// The help of each command ends with three examples, which begin as commands do.
#[test]
fn help_ends_with_examples() {
    let room = Room::new();
    let help = room.irrun("--help").good();
    let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in names.filter(|name| !name.is_empty() && *name != "help") {
        let help = room.irrun(&format!("{name} --help")).good();
        let examples = help.split_once("Examples:\n").map_or("", |(_, examples)| examples);
        let lines: Vec<&str> = examples.trim_end().lines().collect();
        let start = format!("  irrun {name}");
        let good = lines.len() >= 3 && lines.iter().all(|line| line.starts_with(&start));
        assert!(good, "irrun {name} --help: {examples:?}");
    }
}

#[test]
fn completions_and_manual_pages() {
    let room = Room::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = room.irrun(&format!("completions {shell}")).good();
        assert!(script.contains("expect-failure"), "{shell}");
    }
    let other = room.irrun("completions csh");
    assert_eq!(other.code, 2, "{}", other.report());
    let page = room.irrun("man").good();
    assert!(page.contains(".TH irrun 1") && page.contains("Exit codes"), "{page}");
    assert!(page.contains(".SH EXAMPLES") && !page.contains("help(1)"), "{page}");
    room.irrun("man -o man1").good();
    let page = String::from_utf8(room.read("man1/irrun-check.1")).unwrap();
    assert!(page.contains("irrun check"), "{page}");
    assert_eq!(room.irrun("man check").good(), page);
    says(&room, "man chekc", 2, &["there is no command chekc; did you mean check?"]);
}

#[test]
fn the_version_tells_what_a_report_of_a_bug_needs() {
    let room = Room::new();
    let text = room.irrun("--version --verbose").good();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split("  ").next()).collect();
    let all = ["irrun", "system", "build", "threads", "CPU", "features", "IRRUN_ISA"];
    assert_eq!(names, all, "{text}");
    assert_eq!(room.irrun("--version").good(), format!("irrun {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn findings_as_sarif() {
    let room = Room::with_model(r#"shape="2,3""#, r#"shape="7""#);
    assert_eq!(room.irrun("check model.xml --sarif out.sarif").code, 1);
    let log: serde_json::Value = serde_json::from_slice(&room.read("out.sarif")).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let results = run["results"].as_array().unwrap();
    let is_of_a_shape = |result: &&serde_json::Value| result["ruleId"] == "IR0502";
    let result = results.iter().find(is_of_a_shape).unwrap();
    assert_eq!(result["level"], "error");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "model.xml");
    let reported = room.irrun("check model.xml --json").stdout;
    let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
    assert_eq!(
        place["region"]["startLine"],
        reported["findings"][results.iter().position(|r| r == result).unwrap()]["line"]
    );
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == "IR0502"), "each result has its rule");
    // What is no graph is told as well.
    let room = Room::with_model(r#"to-layer="2" to-port="1""#, r#"to-layer="7" to-port="1""#);
    assert_eq!(room.irrun("check model.xml --sarif out.sarif").code, 1);
    assert!(String::from_utf8(room.read("out.sarif")).unwrap().contains("IR0203"));
}

#[test]
fn inputs_are_not_saved_over_what_is_read() {
    let room = Room::new();
    room.irrun("model.xml -i x.npy --random --save-inputs in.npz").good();
    let before = room.read("in.npz");
    let refused = ["in.npz is an input, which would be overwritten"];
    says(&room, "model.xml -i in.npz --random --save-inputs in.npz", 2, &refused);
    assert_eq!(room.read("in.npz"), before);
}

/// Whatever is mistyped or of another kind, the message says what was probably meant.
#[test]
fn what_was_meant_is_told() {
    let room = Room::new();
    room.write("cases/one/model.xml", &room.read("model.xml"));
    room.write("cases/one/case.json", b"{}");
    room.write("two/b.xml", &room.read("model.xml"));
    room.write("two/a.xml", &room.read("model.xml"));
    std::fs::create_dir(room.path("none")).unwrap();
    room.write("net.pth", b"");
    let both = "two/model.xml cannot be read";
    says(&room, "check two", 3, &[both, "; two holds a.xml, b.xml: name one of them"]);
    says(&room, "check none", 3, &["; none holds no .xml"]);
    says(&room, "check net.pth", 1, &["what PyTorch saves, not an IR; `openvino.convert_model`"]);
    says(
        &room,
        "casse",
        2,
        &["there is no command and no file \"casse\"; did you mean \"cases\"?"],
    );
    says(&room, "test casse", 2, &["there is no directory casse (did you mean \"cases\"?)"]);
    says(&room, "test cases/one/case.json", 2, &["a directory of case folders, here cases/one,"]);
    room.write("first.npy", &room.read("x.npy"));
    says(&room, "diff frist.npy x.npy", 4, &["does not exist (did you mean \"first.npy\"?)"]);
    says(&room, "model.xml --batch-dir none", 4, &["none is empty; put arrays"]);
    for (flag, tip) in [
        ("-nstreams 2", "sessions at the same time are irrun bench MODEL.xml --streams N"),
        ("-niter 5", "runs are timed by irrun bench MODEL.xml --runs N"),
        ("-nthreads 2", "threads are --threads N"),
        ("-b 8", "the batch is part of the shape"),
        ("-n 5", "runs are timed by irrun bench MODEL.xml --runs N"),
    ] {
        says(&room, &format!("bench model.xml {flag}"), 2, &[tip]);
    }
}
