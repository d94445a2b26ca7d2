//! Commands of pages that name files of the reader. Each runs in a directory with small files of
//! these names, and must end well; what a page shows of its output must be printed.

#![cfg(unix)]

use crate::support::{self, MODEL, Room, f32s, npy};
use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands that are not run, and why.
const NOT_RUN: [(&str, &str); 3] = [
    ("git add cases", "no command of irrun"),
    (
        "docs/tools/dump_openvino.py models/swin_block -i models/swin_block/input_0.npy -o ref.npz",
        "needs Python and OpenVINO; `irrun --dump-all` stands in for it",
    ),
    (
        "irrun graph model.xml | dot -Tsvg > model.svg",
        "needs Graphviz; the test runs `irrun graph`",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A directory with a model, its input, and what commands read from standard input.
fn room() -> Room {
    let room = Room::new();
    room.write("prompt.txt", b"Once upon a time\n");
    room
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// A command, and the lines that the page shows below it.
struct Shown {
    command: String,
    output: Vec<String>,
}

/// The commands of a page, in order: those in its blocks, and those in its sentences that name
/// all that they need.
fn commands(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut block: Option<&str> = None;
    let mut prose = String::new();
    let add = |found: &mut Vec<Shown>, line: &str| {
        // What follows many blanks is a remark.
        let command = line.split("   ").next().unwrap_or_default().trim();
        let command = command.replace("${{ matrix.shard }}", "1");
        found.push(Shown { command, output: Vec::new() });
    };
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
            continue;
        }
        match block {
            Some("console") => match line.strip_prefix("$ ") {
                Some(command) => add(&mut found, command),
                None => found.last_mut().unwrap().output.push(line.to_owned()),
            },
            Some("yaml") => {
                let command = line.trim().strip_prefix("- run: ");
                command.filter(|c| c.starts_with("irrun ")).into_iter().for_each(|c| {
                    add(&mut found, c);
                });
            }
            Some("") if line.starts_with("irrun ") || line.starts_with("docs/tools/") => {
                add(&mut found, line);
            }
            Some(_) => {}
            None => {
                prose.push_str(line);
                prose.push(' ');
            }
        }
    }
    let spans = prose.split('`').skip(1).step_by(2);
    for span in spans.filter(|s| s.starts_with("irrun ") && s.split(' ').count() > 3) {
        add(&mut found, span);
    }
    found
}

/// Runs a line in a shell, where `irrun` is the binary under test. What it prints, and whether it
/// ended well.
fn run(room: &Room, line: &str) -> (String, bool) {
    let dir = Path::new(env!("CARGO_BIN_EXE_irrun")).parent().unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    let shell = Command::new("sh")
        .args(["-c", line])
        .env("PATH", path)
        .current_dir(room.path("."))
        .stdin(File::open(room.path("prompt.txt")).unwrap())
        .output()
        .unwrap();
    let said = [shell.stdout, shell.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), shell.status.success())
}

/// Runs the commands of a page, each after what it needs was put there. How many have run.
fn try_page(name: &str, room: &Room, before: impl Fn(&str)) -> usize {
    let mut count = 0;
    for Shown { command, output } in commands(&page(name)) {
        if NOT_RUN.iter().any(|(line, _)| *line == command) {
            continue;
        }
        before(&command);
        let (said, is_good) = run(room, &command);
        assert!(is_good, "{name}: {command}\n{said}");
        let printed = support::untimed(&said);
        for line in &output {
            let line = support::untimed(&format!("{line}\n"));
            assert!(printed.contains(&line), "{name}: {command}: no {line:?} in\n{said}");
        }
        count += 1;
    }
    count
}

/// A convolution of an image with its rows as a matrix behind it, and a second output.
fn image(input: &str, shape: &str) -> ir::Graph {
    let mut g = ir::GraphBuilder::new("image");
    let x = g.parameter(input, ir::ElementType::F32, shape);
    let filters: Vec<f32> = (0u8..192).map(|i| f32::from(i) / 64.0 - 1.5).collect();
    let filters = g.constant_f32(&[4, 3, 4, 4], &filters);
    let sizes = [("strides", "4,4"), ("dilations", "1,1")];
    let conv = g.layer("Convolution", "opset1").name("conv1").attributes(&sizes);
    let conv = conv.attributes(&[("pads_begin", "3,3"), ("pads_end", "3,3")]);
    let conv = conv.inputs(&[x, filters]).output();
    let relu = g.layer("ReLU", "opset1").name("relu3").inputs(&[conv]).output();
    let order = g.constant_i64(&[0, 2, 3, 1]);
    let turned = g.layer("Transpose", "opset1").inputs(&[relu, order]).output();
    let pattern = g.constant_i64(&[0, -1, 4]);
    let rows = g.layer("Reshape", "opset1").name("encoder/Reshape_3");
    let rows = rows.attribute("special_zero", "true").inputs(&[turned, pattern]).output();
    let weights = g.constant_f32(&[4, 4], &[0.25; 16]);
    let product = g.layer("MatMul", "opset1").name("encoder/attn/MatMul");
    let product = product.inputs(&[rows, weights]).output();
    g.result("y", product);
    g.result("aux", relu);
    g.finish().unwrap()
}

/// Token ids with their mask beside them.
fn tokens() -> ir::Graph {
    let mut g = ir::GraphBuilder::new("tokens");
    let ids = g.parameter("ids", ir::ElementType::I64, "?,?");
    let mask = g.parameter("mask", ir::ElementType::I64, "?,?");
    let both = g.layer("Concat", "opset1").attribute("axis", "1").inputs(&[ids, mask]).output();
    g.result("y", both);
    g.finish().unwrap()
}

/// An image of 8 × 8 for `x`.
fn small_image() -> Vec<u8> {
    let values: Vec<f32> = (0u8..192).map(f32::from).collect();
    npy("<f4", false, "(1, 3, 8, 8)", &f32s(&values))
}

#[test]
fn models_in_ci() {
    let room = room();
    room.write("detector/model.xml", MODEL.as_bytes());
    room.write("detector/model.bin", &room.read("model.bin"));
    // The suite file is the page's own.
    let text = page("ci.md");
    let suite = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    room.write("irrun.toml", suite.unwrap().as_bytes());
    assert_eq!(try_page("ci.md", &room, |_| {}), 9);
}

#[test]
fn text() {
    let room = room();
    let llama = root().join("models/tiny_llama");
    symlink(&llama, room.path("llama")).unwrap();
    for name in ["openvino_tokenizer", "openvino_detokenizer"] {
        for ending in ["xml", "bin"] {
            let file = Path::new(name).with_extension(ending);
            symlink(llama.join(&file), room.path(".").join(&file)).unwrap();
        }
    }
    assert_eq!(try_page("text.md", &room, |_| {}), 6);
}

#[test]
fn looking_at_models() {
    let room = room();
    room.write("x.npy", &small_image());
    room.write("differs.sh", b"#!/bin/sh\n! grep -q 'type=\"ReLU\"' \"$1\"\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(room.path("differs.sh"), executable).unwrap();
    // Every command names `model.xml`, but they are about different models.
    let put = |command: &str| {
        let model = match command {
            c if c.contains("ids[") => tokens(),
            c if c.contains("--rename x.1=") => image("x.1", "?,3,?,?"),
            c if c.starts_with("irrun bench") => image("x", "1,3,8,8"),
            _ => image("x", "?,3,?,?"),
        };
        ir::write(&model, room.path("model.xml")).unwrap();
    };
    put("");
    let (said, is_good) = run(&room, "irrun model.xml -i x.npy --dump-all ref.npz");
    assert!(is_good, "{said}");
    assert_eq!(try_page("tools.md", &room, put), 23);
    // The part of irrun in a pipe that ends elsewhere.
    put("");
    let (said, is_good) = run(&room, "irrun graph model.xml");
    assert!(is_good && said.starts_with("digraph"), "{said}");
}

#[test]
fn results_that_differ() {
    let room = room();
    symlink(root().join("models"), room.path("models")).unwrap();
    let swin = "models/swin_block -i models/swin_block/input_0.npy";
    let (said, is_good) = run(&room, &format!("irrun {swin} --dump-all ref.npz"));
    assert!(is_good, "{said}");
    room.write("MODEL.xml", MODEL.replace("name=\"r\"", "name=\"NAME\"").as_bytes());
    room.write("MODEL.bin", &room.read("model.bin"));
    for dir in ["A", "B"] {
        room.write(&format!("{dir}/x.npy"), &room.read("x.npy"));
    }
    assert_eq!(try_page("debugging.md", &room, |_| {}), 4);
}

/// A command that is not run must be there, and be the only one of its kind.
#[test]
fn what_is_not_run_is_on_a_page() {
    let pages = ["ci.md", "text.md", "tools.md", "debugging.md"].map(page);
    let shown: Vec<Shown> = pages.iter().flat_map(|page| commands(page)).collect();
    for (line, reason) in NOT_RUN {
        assert!(shown.iter().any(|s| s.command == line), "{line}: {reason}");
    }
}
