//! What a new user meets first: mistyped paths, other formats, pipes, what goes where.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use support::{Room, f32s, npy};

fn says(name: &str, room: &Room, args: &str) {
    let outcome = room.irrun(args);
    insta::with_settings!({ description => format!("irrun {args}"), omit_expression => true }, {
        insta::assert_snapshot!(name, outcome.report());
    });
}

#[test]
fn mistyped_paths_and_other_formats() {
    let room = Room::new();
    says("model mistyped", &room, "modle.xml -i x.npy");
    says("model mistyped in check", &room, "check ./modle.xml");
    says("input mistyped", &room, "model.xml -i y.npy");
    says("archive mistyped", &room, "model.xml -i x.npz");
    room.write("net.onnx", b"\x08\x07\x12\x07pytorch");
    says("onnx", &room, "net.onnx -i x.npy");
    says("onnx in check", &room, "check net.onnx");
    // A text of another format may be XML as far as it goes.
    room.write("net.pb", b"<other/>");
    says("tensorflow", &room, "inspect net.pb");
}

#[test]
fn flags_of_other_tools() {
    let room = Room::new();
    for (name, args) in [
        ("model flag", "-m model.xml"),
        ("runs of benchmark_app", "bench model.xml -n 10"),
        ("runs of Polygraphy", "bench model.xml --iterations 10"),
        ("inputs of trtexec", "model.xml --loadInputs=x:x.bin"),
        ("precision f16", "model.xml -i x.npy --precision f16"),
    ] {
        says(name, &room, args);
    }
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
    says("json beside an output", &room, "model.xml -i x.npy --json -o -");
    says("parents are made", &room, "model.xml -i x.npy -o deep/er/y.npy");
    assert!(room.path("deep/er/y.npy").exists());
    says("shape against a file", &room, "model.xml -i x.npy --shape [2,4]");
    room.write("nan.npy", &npy("<f4", false, "(2, 3)", &f32s(&[0., f32::NAN, 2., 3., 4., 5.])));
    says("nan in an output", &room, "model.xml -i nan.npy -o y.npy");
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
    says("one value differs", &room, "test t");
    says("filter", &room, "test t --filter a --filter */deep/* --verbose");
    says("filter that matches nothing", &room, "test t --filter x*");
    says("annotations", &room, "test t --github");
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
    says("shard that is none", &room, "test t --shard 4/3");
    assert_eq!(room.irrun("test t --junit out.xml").code, 1);
    let xml = String::from_utf8(room.read("out.xml")).unwrap();
    assert!(xml.contains(r#"tests="5" failures="1" skipped="0""#), "{xml}");
    let stopped = room.irrun("test t --fail-fast --threads 1").stdout;
    assert!(stopped.contains("1 failed"), "{stopped}");
    std::fs::remove_file(room.path("t/a/case.json")).unwrap();
    says("folder without case.json", &room, "test t/a t/b");
    room.write("t/b/case.json", br#"{"inputs": [{}], "outptus": [{}], "rtoll": 1}"#);
    says("misspelt keys", &room, "test t/b");
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
