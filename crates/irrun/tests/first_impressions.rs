//! What a new user meets first: mistyped paths, other formats, pipes, what goes where.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use support::{Room, f32s, npy, says};

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
    assert!(!room.irrun("model.xml -i y.npy").stderr.contains("did you mean"));
    room.write("net.onnx", b"\x08\x07\x12\x07pytorch");
    says(&room, "net.onnx -i x.npy", 3, &["`ovc net.onnx` makes an .xml and a .bin"]);
    says(&room, "check net.onnx", 1, &["`ovc net.onnx` makes an .xml and a .bin"]);
    // A text of another format may be XML as far as it goes.
    room.write("net.pb", b"<other/>");
    says(&room, "inspect net.pb", 3, &["a TensorFlow model: `ovc net.pb`"]);
}

#[test]
fn flags_of_other_tools() {
    let room = Room::new();
    for (args, tip) in [
        ("-m model.xml", "irrun MODEL.xml"),
        ("bench model.xml -n 10", "--runs N"),
        ("bench model.xml --iterations 10", "--runs N"),
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
}

#[test]
fn what_goes_where() {
    let room = Room::new();
    says(&room, "model.xml -i x.npy --json -o -", 2, &["--json prints on standard output"]);
    let made = "note: made the directory deep/er";
    says(&room, "model.xml -i x.npy -o deep/er/y.npy", 0, &[made]);
    assert!(room.path("deep/er/y.npy").exists());
    let asked = "input 0 (x:0) is f32[2,4] because --shape says so, but the file holds f32[2,3]";
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
    room.irrun("man -o man1").good();
    let page = String::from_utf8(room.read("man1/irrun-check.1")).unwrap();
    assert!(page.contains("irrun check"), "{page}");
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
    says(&room, "check net.pth", 1, &["what PyTorch saves: `openvino.convert_model`"]);
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
        ("-nstreams 2", "sessions at the same time are --streams N"),
        ("-niter 5", "the number of timed runs is --runs N"),
        ("-nthreads 2", "threads are --threads N"),
        ("-b 8", "the batch is part of the shape"),
        ("-n 5", "the number of timed runs is --runs N"),
    ] {
        says(&room, &format!("bench model.xml {flag}"), 2, &[tip]);
    }
}
