//! `--batch-dir`: one run for each file of a directory.

use crate::support::{Room, f32s, header, i64s, npy, says, written};
use image::{GrayImage, Luma};
use serde_json::Value;

/// A model that gives back its input of one row, and a directory with arrays and a picture for it.
fn room() -> Room {
    let room = Room::identity("f32", "1,?");
    for (name, values) in [("b", &[1.0, 2.0][..]), ("a", &[3.0]), ("c", &[4.0, 5.0, 6.0])] {
        let shape = format!("(1, {})", values.len());
        room.write(&format!("in/{name}.npy"), &npy("<f4", false, &shape, &f32s(values)));
    }
    GrayImage::from_pixel(2, 1, Luma([7])).save(room.path("in/d.png")).unwrap();
    room
}

fn names(room: &Room, dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(room.path(dir)).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn each_file_gets_an_output_of_its_name() {
    let room = room();
    let outcome = room.irrun("model.xml --batch-dir in -o out/ --scale 2");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{}", outcome.report());
    assert_eq!(outcome.stderr, "note: made the directory out\n", "there is no bar in a file");
    assert_eq!(names(&room, "out"), ["a.npy", "b.npy", "c.npy", "d.npy"]);
    for (name, values) in
        [("a", &[3.0][..]), ("b", &[1.0, 2.0]), ("c", &[4.0, 5.0, 6.0]), ("d", &[3.5, 3.5])]
    {
        let expected = (header("<f4", &format!("(1, {})", values.len())), f32s(values));
        assert_eq!(written(&room, &format!("out/{name}.npy")), expected, "{name}");
    }
}

#[test]
fn several_outputs_go_into_an_archive() {
    let room = Room::new();
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let second = r#"<layer id="9" name="z" type="Result" version="opset1"><input><port id="0"/></input></layer></layers>"#;
    let edge = r#"<edge from-layer="0" from-port="0" to-layer="9" to-port="0"/></edges>"#;
    let text = text.replace("</layers>", second).replace("</edges>", edge);
    room.write("model.xml", text.as_bytes());
    room.write("in/x.npy", &room.read("x.npy"));
    room.irrun("model.xml --batch-dir in -o out").good();
    assert_eq!(names(&room, "out"), ["x.npz"]);
    room.irrun("model.xml -i x.npy -o one.npz").good();
    room.irrun("diff out/x.npz one.npz").good();
}

#[test]
fn what_is_printed_names_the_file() {
    let room = room();
    let out = room.irrun("model.xml --batch-dir in").good();
    let heads: Vec<&str> = out.lines().filter(|line| line.starts_with("in/")).collect();
    assert_eq!(heads, ["in/a.npy", "in/b.npy", "in/c.npy", "in/d.png"]);
    let single = room.irrun("model.xml -i in/b.npy").good();
    assert!(out.contains(&format!("in/b.npy\n{single}")), "{out}");
    let out = room.irrun("model.xml --batch-dir in --top 1 -o out").good();
    assert!(
        out.contains("in/c.npy\noutput  name  value  index\n0       y     6      2\n"),
        "{out}"
    );
}

/// The others are run, and the worst exit code stays.
#[test]
fn files_that_fail_are_named() {
    let room = room();
    room.write("in/broken.png", b"\x89PNG\r\n\x1a\n");
    room.write("in/old.gif", b"GIF89a");
    room.write("in/wide.npy", &npy("<f4", false, "(2, 2)", &f32s(&[0.0; 4])));
    room.write("in/notes.txt", b"none");
    room.write("in/.hidden.png", b"");
    let outcome = room.irrun("model.xml --batch-dir in -o out");
    assert_eq!(outcome.code, 4, "{}", outcome.report());
    for piece in [
        "note: in holds 1 other file, which is no .npy, .npz, picture or sound",
        "error: input 0 (x, f32[1,?]): in/broken.png: the picture is cut short or damaged",
        "in/old.gif: .gif is not read",
        "error: input 0 (x) takes f32[1,?], but in/wide.npy holds f32[2,2]",
        "error: 3 of 7 files failed",
    ] {
        assert!(outcome.stderr.contains(piece), "{piece}: {}", outcome.report());
    }
    assert_eq!(names(&room, "out"), ["a.npy", "b.npy", "c.npy", "d.npy"]);
    let outcome = room.irrun("model.xml --batch-dir in --json");
    assert_eq!(outcome.code, 4, "{}", outcome.report());
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["failed"], 3);
    let files = report["files"].as_array().unwrap();
    let codes: Vec<_> = files.iter().map(|file| file["error"]["exit_code"].as_u64()).collect();
    assert_eq!(codes, [None, None, Some(4), None, None, Some(4), Some(4)]);
    assert_eq!(files[1]["outputs"][0]["shape"], serde_json::json!([1, 2]));
}

/// A run that fails is worse than a file that cannot be read, whichever comes first.
#[test]
fn the_worst_exit_code_stays() {
    let room = Room::new();
    let model = r#"<net name="g" version="11"><layers>
<layer id="0" name="pattern" type="Parameter" version="opset1"><data shape="2" element_type="i64"/><output><port id="0" precision="I64"/></output></layer>
<layer id="1" name="six" type="Const" version="opset1"><data element_type="i64" shape="6" offset="0" size="48"/><output><port id="0" precision="I64"/></output></layer>
<layer id="2" name="r" type="Reshape" version="opset1"><data special_zero="false"/><input><port id="0" precision="I64"/><port id="1" precision="I64"/></input><output><port id="2" precision="I64"/></output></layer>
<layer id="3" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="1" from-port="0" to-layer="2" to-port="0"/><edge from-layer="0" from-port="0" to-layer="2" to-port="1"/><edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"#;
    room.write("model.xml", model.as_bytes());
    room.write("model.bin", &i64s(&[1, 2, 3, 4, 5, 6]));
    let pattern = |sizes: [i64; 2]| npy("<i8", false, "(2,)", &i64s(&sizes));
    room.write("in/a.npy", &pattern([2, 3]));
    room.write("in/b.npy", b"nothing");
    room.write("in/c.npy", &pattern([6, 1]));
    let outcome = room.irrun("model.xml --batch-dir in");
    assert_eq!(outcome.code, 4, "{}", outcome.report());
    assert!(outcome.stdout.contains("[2,3]") && outcome.stdout.contains("[6,1]"), "{outcome:?}");
    room.write("in/a.npy", &pattern([4, 4]));
    let outcome = room.irrun("model.xml --batch-dir in");
    assert_eq!(outcome.code, 5, "{}", outcome.report());
    assert!(outcome.stderr.contains("error: in/a.npy: Reshape \"r\""), "{}", outcome.report());
    assert!(outcome.stdout.contains("[6,1]"), "{}", outcome.report());
}

/// Each file sees the variables that a first run sees.
#[test]
fn no_file_sees_the_state_of_another() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/state");
    let room = Room::new();
    for name in ["a", "b"] {
        let input = std::fs::read(format!("{model}/input_0.npy")).unwrap();
        room.write(&format!("in/{name}.npy"), &input);
    }
    room.irrun(&format!("{model} --batch-dir in -o out")).good();
    let [a, b] = ["a", "b"]
        .map(|name| names(&room, "out").iter().find(|n| n.starts_with(name)).cloned().unwrap());
    assert_eq!(room.read(&format!("out/{a}")), room.read(&format!("out/{b}")));
}

#[test]
fn mistakes_are_told() {
    let room = room();
    room.write("empty/notes.txt", b"");
    let run = "model.xml --batch-dir";
    says(&room, &format!("{run} nowhere"), 4, &["--batch-dir nowhere: "]);
    says(&room, &format!("{run} empty"), 4, &["empty holds nothing that can be an input"]);
    says(&room, &format!("{run} in -o y.npy"), 2, &["--output y.npy is to be a directory"]);
    says(&room, &format!("{run} in -o a -o b"), 2, &["takes one --output"]);
    says(&room, &format!("{run} in -o ./in/"), 2, &["holds the inputs; give another --output"]);
    says(&room, &format!("{run} in -i in/a.npy"), 2, &["cannot be used with"]);
    std::fs::remove_file(room.path("in/d.png")).unwrap();
    says(&room, &format!("{run} in --mean 1"), 2, &["are for pictures; in has none"]);
    let two = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gathers");
    says(&room, &format!("{two} --batch-dir in"), 2, &["a model with one input; this one has"]);
}

/// What an interrupted run has written is whole.
#[test]
#[cfg(unix)]
fn an_interrupted_run_leaves_no_half_file() {
    use std::process::{Command, Stdio};
    let room = Room::identity("f32", "1,1,400,400");
    std::fs::create_dir(room.path("in")).unwrap();
    let picture = GrayImage::from_pixel(3, 3, Luma([9]));
    (0..200).for_each(|i| picture.save(room.path(&format!("in/{i}.png"))).unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_irrun"));
    command.args(["model.xml", "--batch-dir", "in", "-o", "out"]).current_dir(room.path("."));
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    while !room.path("out/0.npy").exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    for name in names(&room, "out") {
        assert!(name.ends_with(".npy") && !name.starts_with('.'), "{name}");
        let expected = header("<f4", "(1, 1, 400, 400)");
        let (head, data) = written(&room, &format!("out/{name}"));
        assert_eq!((head, data.len()), (expected, 640_000), "{name}");
    }
}
