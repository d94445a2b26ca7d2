//! `irrun graph` on the models of the repository: every format, parts of a model, times as colours.

use crate::support::{self, Room, f32s, npy};
use serde_json::Value;
use std::collections::HashSet;

const SWIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/swin_block/model.xml");
const LOOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/loop_with_scan/model.xml");

/// What the script of a page reads.
fn data(page: &str) -> Value {
    let start = page.find("id=\"data\">").expect("the data") + 10;
    let end = start + page[start..].find("</script>").expect("its end");
    serde_json::from_str(&page[start..end]).expect("JSON")
}

#[test]
fn the_ending_of_the_file_decides_the_format() {
    let room = Room::new();
    for (file, begins) in [
        ("g.svg", "<svg "),
        ("g.html", "<!doctype html>"),
        ("g.dot", "digraph "),
        ("g.gv", "digraph "),
        ("g.mmd", "flowchart TD"),
    ] {
        room.irrun(&format!("graph model.xml -o {file}")).good();
        assert!(room.read(file).starts_with(begins.as_bytes()), "{file}");
    }
    let svg = room.irrun("graph model.xml --format svg").good();
    assert_eq!(svg.as_bytes(), room.read("g.svg"));
    let out = room.irrun("graph model.xml -o g.png");
    assert_eq!(out.code, 2, "{}", out.report());
    assert!(out.stderr.contains("call it .html, .svg, .dot or .mmd"), "{}", out.stderr);
    assert!(!room.path("g.png").exists());
    let out = room.irrun("graph model.xml -o model.xml --format svg");
    assert_eq!(out.code, 2, "{}", out.report());
}

#[test]
fn a_page_shows_every_layer_once() {
    let room = Room::new();
    room.irrun(&format!("graph {SWIN} -o g.html")).good();
    let data = data(&String::from_utf8(room.read("g.html")).unwrap());
    let nodes = data["nodes"].as_array().unwrap();
    let blocks = data["views"][0]["blocks"].as_array().unwrap();
    let mut drawn = HashSet::new();
    for place in blocks.iter().flat_map(|block| block["places"].as_array().unwrap()) {
        if place[0] == "n" {
            assert!(drawn.insert(place[1].as_u64().unwrap()), "drawn twice: {place}");
        }
    }
    for (n, node) in nodes.iter().enumerate() {
        let is_data = node["r"] == "data";
        assert_eq!(drawn.contains(&(n as u64)), is_data, "{node}");
    }
    let weights = nodes.iter().find(|node| node["s"]["elements"].as_u64() > Some(100)).unwrap();
    let bars = weights["s"]["histogram"].as_array().unwrap();
    let sum: u64 = bars.iter().map(|bar| bar.as_u64().unwrap()).sum();
    assert_eq!(Some(sum), weights["s"]["elements"].as_u64());
}

#[test]
fn bodies_are_blocks() {
    let room = Room::new();
    let dot = room.irrun(&format!("graph {LOOP}")).good();
    assert!(dot.contains("subgraph cluster_0") && dot.contains("next iteration"), "{dot}");
    let page = room.irrun(&format!("graph {LOOP} --format html")).good();
    let data = data(&page);
    let blocks = data["views"][0]["blocks"].as_array().unwrap();
    let body = blocks.iter().find(|b| b["t"].as_str().unwrap().starts_with("Body of")).unwrap();
    assert!(body["layers"].as_u64() > Some(1), "{body}");
}

#[test]
fn a_name_cannot_leave_its_place() {
    let room = Room::new();
    let model = support::MODEL.replace("name=\"r\"", "name=\"&lt;/script>&lt;b>&amp;\"");
    room.write("model.xml", model.as_bytes());
    let page = room.irrun("graph model.xml --format html").good();
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<b>"));
    let svg = room.irrun("graph model.xml --format svg").good();
    assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"), "{svg}");
    let text = room.irrun("graph model.xml --format mermaid").good();
    assert!(!text.contains("<b>"), "{text}");
}

#[test]
fn what_is_around_a_layer() {
    let room = Room::new();
    let layers =
        |dot: &str| dot.lines().filter(|l| l.contains("[label=") && !l.contains("->")).count();
    let near = room.irrun("graph model.xml --around r --depth 1").good();
    assert_eq!(layers(&near), 4, "{near}");
    // The constant of a layer belongs to it.
    let one = room.irrun("graph model.xml --around 2 --depth 0").good();
    assert_eq!(layers(&one), 2, "{one}");
    let out = room.irrun("graph model.xml --around pattrn");
    assert_eq!(out.code, 2, "{}", out.report());
    assert!(out.stderr.contains("did you mean \"pattern\"?"), "{}", out.stderr);
}

#[test]
fn times_colour_layers() {
    let room = Room::new();
    let input = SWIN.replace("model.xml", "input_0.npy");
    let report = room.irrun(&format!("{SWIN} -i {input} --profile --json")).good();
    room.write("times.json", report.as_bytes());
    let page = room.irrun(&format!("graph {SWIN} --format html --times times.json")).good();
    let data = data(&page);
    let hot = data["nodes"].as_array().unwrap().iter().find(|n| n["heat"].is_array());
    assert!(hot.is_some_and(|n| n["heat"][1].as_str().unwrap().contains(" ms, ")), "{data}");
    room.write("none.json", b"{}");
    let out = room.irrun("graph model.xml --times none.json");
    assert_eq!(out.code, 4, "{}", out.report());
    assert!(out.stderr.contains("it holds no times"), "{}", out.stderr);
}

#[test]
fn a_plan_is_drawn_as_its_steps() {
    let room = Room::new();
    room.irrun(&format!("graph {SWIN} --plan -o g.html")).good();
    let page = data(&String::from_utf8(room.read("g.html")).unwrap());
    let nodes = page["nodes"].as_array().unwrap();
    let types: Vec<&str> = nodes.iter().filter_map(|node| node["t"].as_str()).collect();
    for fused in ["MVN+Multiply+Add", "MatMul+Add", "MatMul+Add+Gelu", "Parameter", "Result"] {
        assert!(types.contains(&fused), "{fused} in {types:?}");
    }
    // What a plan explains is what is drawn.
    let input = SWIN.replace("model.xml", "input_0.npy");
    let explained = room.irrun(&format!("{SWIN} -i {input} --explain")).stderr;
    let steps = explained.lines().filter(|line| line.contains(" -> ")).count();
    assert_eq!(types.len(), steps + 2, "{types:?}");
    let times = room.irrun(&format!("{SWIN} -i {input} --profile --json")).good();
    room.write("times.json", times.as_bytes());
    room.irrun(&format!("graph {SWIN} --plan -o t.svg --times times.json")).good();
    let both = room.irrun("graph model.xml --plan --around r");
    assert_eq!(both.code, 2, "{}", both.report());
}

#[test]
fn differences_colour_layers() {
    let room = Room::new();
    let input = SWIN.replace("model.xml", "input_0.npy");
    room.irrun(&format!("{SWIN} -i {input} --dump-all ref.npz")).good();
    let compare = format!("{SWIN} -i {input} --compare-steps ref.npz --json");
    room.write("same.json", room.irrun(&compare).good().as_bytes());
    let heat = |file: &str| {
        let graph = room.irrun(&format!("graph {SWIN} --format html --differences {file}"));
        let nodes = data(&graph.good())["nodes"].as_array().unwrap().clone();
        let of = |node: &Value| Some((node["n"].as_str()?.to_owned(), node["heat"][1].clone()));
        let all: Vec<_> =
            nodes.iter().filter_map(of).filter(|(_, heat)| heat.is_string()).collect();
        all
    };
    let same = heat("same.json");
    assert!(
        same.len() > 20
            && same.iter().all(|(_, text)| text == "agrees: 0.0e0 of the largest value")
    );
    // Another input: everything behind it differs.
    let other = npy("<f4", false, "(1, 16, 16, 32)", &f32s(&vec![0.25; 16 * 16 * 32]));
    room.write("other.npy", &other);
    let compared = room.irrun(&compare.replace(&input, "other.npy"));
    assert_eq!(compared.code, 1, "{}", compared.report());
    room.write("other.json", compared.stdout.as_bytes());
    let differing = heat("other.json");
    assert!(differing.iter().any(|(_, text)| text.as_str().unwrap().starts_with("differs: ")));
    room.write("none.json", b"{}");
    let out = room.irrun("graph model.xml --differences none.json");
    assert!(out.code == 4 && out.stderr.contains("it holds no differences"), "{}", out.report());
}

#[test]
fn a_benchmark_is_drawn_as_a_page() {
    let room = Room::new();
    let input = SWIN.replace("model.xml", "input_0.npy");
    let text = room.irrun(&format!("bench {SWIN} -i {input} --runs 2 --html bench.html")).good();
    assert!(!text.contains("MatMul"), "the profile is in the page: {text}");
    let page = data(&String::from_utf8(room.read("bench.html")).unwrap());
    let nodes = page["nodes"].as_array().unwrap();
    let timed =
        nodes.iter().filter(|node| node["heat"][1].as_str().is_some_and(|t| t.contains(" ms, ")));
    assert_eq!(timed.count(), nodes.len() - 2, "all but the input and the output");
    let over = room.irrun(&format!("bench {SWIN} -i x.npy --html x.npy"));
    assert_eq!(over.code, 2, "{}", over.report());
}
