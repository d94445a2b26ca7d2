//! What a new user meets first: mistyped paths, other formats, pipes, what goes where.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use support::{Room, f32s, npy};

/// Runs the binary and looks for what it must say and how it must end.
#[track_caller]
fn says(room: &Room, args: &str, code: i32, pieces: &[&str]) {
    let outcome = room.irrun(args);
    assert_eq!(outcome.code, code, "irrun {args}: {}", outcome.report());
    for piece in pieces {
        assert!(
            outcome.report().contains(piece),
            "{piece:?} in irrun {args}: {}",
            outcome.report()
        );
    }
}

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

/// A folder with everything of a case.
fn case(room: &Room, dir: &str, expected: &[f32]) {
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("{dir}/{file}"), &room.read(file));
    }
    room.write(&format!("{dir}/input_0.npy"), &room.read("x.npy"));
    room.write(&format!("{dir}/expected_0.npy"), &npy("<f4", false, "(3, 2)", &f32s(expected)));
    room.write(&format!("{dir}/case.json"), br#"{"inputs": [{}], "outputs": [{"rtol": 1e-6}]}"#);
}

#[test]
fn cases_are_chosen_and_reported() {
    let room = Room::new();
    let good = [0., 1., 2., 3., 4., 5.];
    for dir in ["t/a", "t/b", "t/c", "t/deep/d"] {
        case(&room, dir, &good);
    }
    case(&room, "t/bad", &[0., 1.1, 2., 3., 4., 5.]);
    let differs = "FAILED t/bad: output 0: 1 of 6 elements differ; worst at [0, 1]: got 1, \
                   expected 1.1 (difference 0.1, allowed 1.1e-6)";
    says(&room, "test t", 1, &[differs, "4 passed, 1 failed in"]);
    let chosen = ["passed t/a", "passed t/deep/d", "2 passed, 0 failed in"];
    says(&room, "test t --filter a --filter */deep/* --verbose", 0, &chosen);
    says(&room, "test t --filter x*", 2, &["--filter: no case is named x*"]);
    let marked = "::error file=t/bad/case.json,title=irrun test::output 0: 1 of 6";
    says(&room, "test t --github", 1, &[marked]);
    // All parts together are all cases, each once.
    let mut seen: Vec<String> = Vec::new();
    for part in 1..=3 {
        let out = room.irrun(&format!("test t --verbose --shard {part}/3"));
        let is_case = |line: &&str| line.starts_with("passed ") || line.starts_with("FAILED ");
        seen.extend(out.stdout.lines().filter(is_case).map(str::to_owned));
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5, "{seen:?}");
    says(&room, "test t --shard 4/3", 2, &["give a part and the number of parts, as in 1/4"]);
    assert_eq!(room.irrun("test t --junit out.xml").code, 1);
    let xml = String::from_utf8(room.read("out.xml")).unwrap();
    assert!(xml.contains(r#"tests="5" failures="1" skipped="0""#), "{xml}");
    let stopped = room.irrun("test t --fail-fast --threads 1").stdout;
    assert!(stopped.contains("1 failed"), "{stopped}");
    std::fs::remove_file(room.path("t/a/case.json")).unwrap();
    says(&room, "test t", 1, &["note: t/a has a model and goldens, but no case.json"]);
    room.write("t/b/case.json", br#"{"inputs": [{}], "outptus": [{}], "rtoll": 1}"#);
    let misspelt =
        ["key \"outptus\"; did you mean \"outputs\"?", "\"rtoll\"; did you mean \"rtol\"?"];
    says(&room, "test t/b", 1, &misspelt);
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

/// What a model gives now is a case, which passes until a golden is another.
#[test]
fn a_case_is_recorded_and_renewed() {
    let room = Room::new();
    let record = "test model.xml --record cases/first --input x.npy";
    says(&room, record, 0, &["recorded cases/first: 1 input, 1 output", "r:0: f32[3,2]"]);
    says(&room, record, 2, &["cases/first has a case.json already", "--update"]);
    says(&room, "test model.xml --record cases/second", 2, &["an input is not given"]);
    room.irrun("test cases").good();
    assert_eq!(room.read("cases/first/input_0.npy"), {
        room.irrun("model.xml -i x.npy -o y.npy").good();
        let same = room.read("cases/first/expected_0.npy") == room.read("y.npy");
        assert!(same, "the golden is what the model gives");
        let again = "cases/first/model.xml -i cases/first/input_0.npy -o z.npy";
        room.irrun(again).good();
        assert_eq!(room.read("z.npy"), room.read("y.npy"));
        room.read("cases/first/input_0.npy")
    });
    let other = npy("<f4", false, "(3, 2)", &f32s(&[0., 1., 2., 3., 4., 6.]));
    room.write("cases/first/expected_0.npy", &other);
    assert_eq!(room.irrun("test cases").code, 1);
    let changed = ["updated cases/first: expected_0.npy: 1 of 6", "0 passed, 0 failed, 1 updated"];
    says(&room, "test cases --update", 0, &changed);
    says(&room, "test cases --update", 0, &["1 passed, 0 failed in"]);
    room.irrun("test cases").good();
}

#[test]
fn digests_pin_outputs_without_goldens() {
    let room = Room::new();
    case(&room, "t/a", &[0.; 6]);
    std::fs::remove_file(room.path("t/a/expected_0.npy")).unwrap();
    says(&room, "test t --digests m.digests", 2, &["--update makes it"]);
    says(&room, "test t --digests m.digests --update", 0, &["updated t/a: there is no digest"]);
    let text = String::from_utf8(room.read("m.digests")).unwrap();
    let stats = "\tmin 0.0000e0 max 5.0000e0 mean 2.5000e0 NaN 0\n";
    assert!(text.contains("\nt/a\t0\tf32[3,2]\t") && text.ends_with(stats), "{text}");
    room.irrun("test t --digests m.digests").good();
    room.irrun("test t --digests m.digests --no-optimize --threads 2").good();
    room.write("t/a/input_0.npy", &npy("<f4", false, "(2, 3)", &f32s(&[0., 1., 2., 3., 4., 6.])));
    let differs = ["FAILED t/a: the digest differs: 0 f32[3,2]", "max 5.0000e0"];
    says(&room, "test t --digests m.digests", 1, &differs);
    case(&room, "t/b", &[0.; 6]);
    let report = room.irrun("test t --digests m.digests").stdout;
    assert!(report.contains("t/b: there is no digest of it"), "{report}");
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
