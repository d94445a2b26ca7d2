//! `irrun extract`, `reduce` and `edit`: models made from others compute what the whole computes.

use crate::support::{Room, f32s, npy};
use runtime::{Options, Tensor};
use std::path::{Path, PathBuf};

const SWIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/swin_block");

fn model() -> String {
    format!("{SWIN}/model.xml")
}

/// All outputs of a model, with the graph as written.
fn run(xml: &Path, inputs: &[Tensor]) -> Vec<Tensor> {
    let graph = ir::read(xml).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { optimize: false, ..Options::default() };
    let plan = cli::run::plan(&graph, inputs, &[], &options).unwrap_or_else(|e| panic!("{e}"));
    plan.session().run(inputs).unwrap()
}

fn input() -> Tensor {
    let case = cli::suite::case::Case::open(&PathBuf::from(SWIN)).unwrap();
    let graph = ir::read(model()).unwrap();
    case.inputs(&graph).unwrap()[0][0].clone()
}

#[test]
fn two_parts_after_each_other_are_the_whole() {
    let room = Room::new();
    let graph = ir::read(model()).unwrap();
    let softmax = graph.layers().iter().find(|l| l.is("Softmax")).expect("attention");
    let name = &softmax.name;
    room.irrun_with(&[], ["extract", &model(), "--to", name, "-o", "first.xml"]).good();
    room.irrun_with(&[], ["extract", &model(), "--from", name, "-o", "second.xml"]).good();
    let x = [input()];
    let whole = run(Path::new(&model()), &x);
    let first = run(&room.path("first.xml"), &x);
    assert_eq!(first.len(), 1);
    let second = ir::read(room.path("second.xml")).unwrap();
    // The softmax itself is in both parts: its input comes in, beside what goes past it.
    let only = room.path("one.xml");
    let args = ["extract", &model(), "--from", name, "--to", name, "-o", "one.xml"];
    room.irrun_with(&[], args).good();
    let one = ir::read(&only).unwrap();
    assert_eq!((one.layers().len(), one.parameters().len(), one.results().len()), (3, 1, 1));
    assert!(second.layers().len() < graph.layers().len());
    let sizes = |path: &str| std::fs::metadata(room.path(path)).unwrap().len();
    let bin = std::fs::metadata(format!("{SWIN}/model.bin")).unwrap().len();
    assert!(sizes("first.bin") < bin && sizes("second.bin") < bin && sizes("one.bin") == 0);
    assert_eq!(whole.len(), graph.results().len());
}

#[test]
fn a_part_computes_what_the_whole_computes() {
    let room = Room::new();
    // Up to the last layer before the Result, which is all of the model.
    let graph = ir::read(model()).unwrap();
    let last = graph.inputs_of(graph.results()[0])[0].layer;
    let name = &graph.layers()[last].name;
    room.irrun_with(&[], ["extract", &model(), "--to", name, "-o", "part.xml"]).good();
    let x = [input()];
    let [whole, part] = [run(Path::new(&model()), &x), run(&room.path("part.xml"), &x)];
    assert_eq!(whole[0].bytes(), part[0].bytes());
}

#[test]
fn mistyped_layers_are_suggested_and_nothing_lies_backwards() {
    let room = Room::new();
    let out = room.irrun("extract model.xml --to rr -o part.xml");
    assert_eq!(out.code, 2, "{}", out.report());
    let out = room.irrun("extract model.xml --to patern -o part.xml");
    assert!(out.stderr.contains("did you mean \"pattern\"?"), "{}", out.stderr);
    let out = room.irrun("extract model.xml --from y --to x -o part.xml");
    assert!(out.code == 2 && out.stderr.contains("no layer lies between"), "{}", out.report());
    let out = room.irrun("extract model.xml --to r -o model.xml");
    assert!(out.code == 2 && out.stderr.contains("would be overwritten"), "{}", out.report());
    assert!(!room.path("part.xml").exists());
}

#[cfg(unix)]
#[test]
fn reduce_finds_the_layer_that_fails() {
    let room = Room::new();
    // It "fails" while there is a Softmax in the file.
    let test = "! grep -qi 'type=.softmax' {}";
    let args = ["reduce", &model(), "--test", test, "-o", "small.xml"];
    room.irrun_with(&[], args).good();
    let small = ir::read(room.path("small.xml")).unwrap();
    assert_eq!(small.layers().len(), 3, "Parameter, Softmax, Result");
    assert!(small.layers().iter().any(|l| l.is("Softmax")));
    let shape = small.layers().iter().find_map(|l| l.attribute("shape")).unwrap();
    assert!(shape.split(',').all(|dim| dim == "1"), "{shape}");
    let out = room.irrun_with(&[], ["reduce", "model.xml", "--test", "true {}", "-o", "small.xml"]);
    assert!(out.code == 2 && out.stderr.contains("does not fail"), "{}", out.report());
    let out = room.irrun_with(&[], ["reduce", "model.xml", "--test", "false", "-o", "small.xml"]);
    assert!(out.code == 2 && out.stderr.contains("write {}"), "{}", out.report());
    let args = ["reduce", "model.xml", "--test", "irrun-not-there {}", "-o", "small.xml"];
    let out = room.irrun_with(&[], args);
    let refused = "is not found (exit code 127)";
    assert!(out.code == 2 && out.stderr.contains(refused), "{}", out.report());
}

#[test]
fn edit_renames_reshapes_and_drops() {
    let room = Room::new();
    let out = room.irrun("edit model.xml --rename x:0=image --rename r:0=out -o e.xml");
    let told = "input \"x:0\" is called \"image\" now\noutput \"r:0\" is called \"out\" now\n\
                e.xml: 4 layers of 4, 1 input, 1 output\n";
    assert_eq!((out.code, &*out.stderr), (0, told), "{}", out.report());
    room.irrun("e.xml -i image=x.npy -o out=y.npy").good();
    let out = room.irrun("edit model.xml --rename image=x -o e.xml");
    assert!(out.code == 2 && out.stderr.contains("there is no"), "{}", out.report());
    let out = room.irrun("edit model.xml --drop-output y -o e.xml");
    assert!(out.code == 2 && out.stderr.contains("no output would be left"), "{}", out.report());
    let out = room.irrun("edit model.xml --shape x[2,4] -o e.xml");
    assert_eq!(out.code, 3, "the pattern wants six elements: {}", out.report());
    let six = room.irrun("edit model.xml --shape x[6] -o six.xml").stderr;
    assert!(six.starts_with("\"x:0\" is [6] now\nsix.xml: "), "{six}");
    room.write("six.npy", &npy("<f4", false, "(6,)", &f32s(&[0.; 6])));
    room.irrun("six.xml -i six.npy").good();
    assert_eq!(room.irrun("edit model.xml -o e.xml").code, 2);
}

#[test]
fn f16_weights_are_half_as_large_and_near() {
    let room = Room::new();
    let args = |to| ["edit", "model.xml", "--weights", "f16", "-o", to];
    let refused = room.irrun_with(&[], args("model.xml")).stderr;
    assert!(refused.starts_with("error: model.xml is the model, "), "nothing is done: {refused}");
    room.irrun_with(&[], ["edit", &model(), "--weights", "f16", "-o", "half.xml"]).good();
    let bin = std::fs::metadata(format!("{SWIN}/model.bin")).unwrap().len();
    let half = std::fs::metadata(room.path("half.bin")).unwrap().len();
    assert!(half * 10 < bin * 6, "{half} of {bin}");
    let x = [input()];
    let [whole, part] = [run(Path::new(&model()), &x), run(&room.path("half.xml"), &x)];
    let (a, b) = (whole[0].as_slice::<f32>().unwrap(), part[0].as_slice::<f32>().unwrap());
    let scale = a.iter().fold(0f32, |m, v| m.max(v.abs()));
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.01 * scale));
    assert_ne!(whole[0].bytes(), part[0].bytes());
}
