//! `irrun explain`, `check --symbolic`, `--range`, `--set`, `--lint`, `--fix`, and what `inspect`
//! says of costs.

use crate::support::{self, MODEL, Room, f32s, npy};
use serde_json::Value;

/// Convolution of an open image, flattened, with a constant that nothing reads.
const IMAGE: &str = r#"<net name="image" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,3,?,?" element_type="f32"/><output><port id="0" precision="FP32" names="x"><dim>-1</dim><dim>3</dim><dim>-1</dim><dim>-1</dim></port></output></layer>
<layer id="1" name="w" type="Const" version="opset1"><data element_type="f32" shape="8,3,4,4" offset="0" size="1536"/><output><port id="0" precision="FP32"><dim>8</dim><dim>3</dim><dim>4</dim><dim>4</dim></port></output></layer>
<layer id="2" name="patch/conv" type="Convolution" version="opset1"><data strides="4,4" dilations="1,1" pads_begin="0,0" pads_end="0,0"/><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"><dim>-1</dim><dim>8</dim><dim>-1</dim><dim>-1</dim></port></output></layer>
<layer id="3" name="pattern" type="Const" version="opset1"><data element_type="i64" shape="3" offset="1536" size="24"/><output><port id="0" precision="I64"><dim>3</dim></port></output></layer>
<layer id="4" name="flat" type="Reshape" version="opset1"><data special_zero="true"/><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"><dim>-1</dim><dim>8</dim><dim>-1</dim></port></output></layer>
<layer id="5" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
<layer id="6" name="copy" type="Const" version="opset1"><data element_type="f32" shape="8,3,4,4" offset="2048" size="1536"/><output><port id="0" precision="FP32"><dim>8</dim><dim>3</dim><dim>4</dim><dim>4</dim></port></output></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/><edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="4" to-port="0"/><edge from-layer="3" from-port="0" to-layer="4" to-port="1"/>
<edge from-layer="4" from-port="2" to-layer="5" to-port="0"/>
</edges></net>"#;

fn image() -> Room {
    let room = Room::new();
    room.write("model.xml", IMAGE.as_bytes());
    let mut weights = f32s(&(0..384).map(|i| i as f32).collect::<Vec<_>>());
    weights[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
    weights[8..12].copy_from_slice(&1e-40f32.to_le_bytes());
    let mut bin = weights.clone();
    bin.extend([0i64, 8, -1].iter().flat_map(|v| v.to_le_bytes()));
    bin.resize(2048, 0);
    bin.extend(&weights);
    room.write("model.bin", &bin);
    room
}

#[test]
fn a_code_is_explained_by_its_page() {
    let room = Room::new();
    let page = room.irrun("explain IR0502").good();
    assert!(page.starts_with("IR0502 — ") && page.contains("irrun check --shape"), "{page}");
    assert!(!page.contains("IR0503"), "{page}");
    assert_eq!(room.irrun("explain ir0502").good(), page);
    assert_eq!(room.irrun("explain 502").good(), page);
    let out = room.irrun("explain IR0599");
    assert!(out.code == 2 && out.stderr.contains("there is no code IR0599"), "{}", out.report());
    let out = room.irrun("explain model.xml");
    assert!(out.code == 2 && out.stderr.contains("which layer?"), "{}", out.report());
}

#[test]
fn a_size_is_followed_back_to_the_input() {
    let room = image();
    let args = ["explain", "model.xml", "flat:0:2", "--shape", "x[1,3,224,200]"];
    let text = room.irrun_with(&[], args).good();
    for piece in [
        "dim 2 = 2800  Reshape \"flat\" (opset1, layer 4) at model.xml:6: 8 · 56 · 50 / 8, dim 1",
        "dim 2 = 56  Convolution \"patch/conv\" (opset1, layer 2) at model.xml:4: 224/4, dim 2",
        "dim 2 = 224  Parameter \"x\" (opset1, layer 0) at model.xml:2: an input",
        "dim 3 = 50  Convolution \"patch/conv\" (opset1, layer 2) at model.xml:4: 200/4, dim 3",
    ] {
        assert!(text.contains(piece), "{piece} in\n{text}");
    }
    let out = room.irrun("explain model.xml flta");
    assert!(out.code == 2 && out.stderr.contains("did you mean \"flat\"?"), "{}", out.report());
    let out = room.irrun("explain model.xml flat:0:7");
    assert!(out.code == 2 && out.stderr.contains("no dim 7"), "{}", out.report());
}

#[test]
fn shapes_are_expressions_of_the_sizes_of_inputs() {
    let room = image();
    let text = room.irrun("check model.xml --symbolic --all").good();
    for shape in ["f32[N,3,H,W]", "f32[N,8,H/4,W/4]", "f32[N,8,(H/4)·(W/4)]"] {
        assert!(text.contains(shape), "{shape} in\n{text}");
    }
    let text = room.irrun("check model.xml --symbolic --shape x[B,3,S,S]").good();
    assert!(text.contains("f32[B,8,(S/4)²]"), "{text}");
    let report = room.irrun("check model.xml --symbolic --json --shape x[2,3,H,12]").good();
    let refused = &serde_json::from_str::<Value>(&report).unwrap()["refused"];
    assert_eq!(refused.as_array().unwrap().len(), 0, "{refused}");
    let text = room.irrun("check model.xml --shape x[B,3,S,S] --set B=2 --set S=16").good();
    assert!(text.contains("f32[2,8,16]"), "{text}");
    let out = room.irrun("check model.xml --shape x[B,3,S,S] --set B=2");
    assert!(out.code == 2 && out.stderr.contains("give --set S="), "{}", out.report());
}

/// What is wrong whatever the sizes are is told, and other questions are not dropped.
#[test]
fn symbolic_shapes_hide_no_finding() {
    let room = Room::with_model("type=\"Reshape\"", "type=\"Reshap\"");
    support::says(&room, "check model.xml --symbolic", 1, &["IR0601", "did you mean Reshape?"]);
    support::says(&room, "check model.xml --symbolic --json", 1, &["IR0601", "\"layers\":[]"]);
    support::says(&room, "check model.xml --symbolic --shape x[N,3]", 1, &["IR0601"]);
    let room = Room::with_model("<dim>3</dim><dim>2</dim>", "<dim>3</dim><dim>7</dim>");
    support::says(&room, "check model.xml --symbolic", 1, &["warning IR0503", "f32[3,2]"]);
    for flag in ["--sarif a.sarif", "--fix -o a.xml", "--lint", "--weights"] {
        let args = format!("check model.xml --symbolic {flag}");
        support::says(&room, &args, 2, &["cannot be used with"]);
    }
    support::says(&room, "check model.xml --symbolic --shape x[2,4]", 1, &["has 8 elements"]);
}

/// Sizes that broadcasting or a wanted shape keeps equal are followed, not multiplied.
#[test]
fn equal_sizes_are_followed_to_the_input() {
    let room = Room::new();
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let explain = |model: &str, layer: &str| {
        room.irrun(&format!("explain {repository}/{model}/model.xml {layer}")).good()
    };
    let text = explain("models/swin_block", "aten::add/Add:0:1");
    let wanted = "  dim 1 = 16, from dim 1 of Parameter \"x\" (opset1, layer 0)";
    assert!(text.contains(wanted), "{text}");
    let text = explain("fixtures/matmul_batched", "2:0:0");
    assert!(text.contains("dim 0 = 2, from dim 0 of Parameter \"in1\""), "{text}");
    // The wanted shape of a Reshape is computed from sizes of the input.
    let text = explain("models/swin_block", "__module.attn/aten::reshape/Reshape:0:0");
    for piece in
        [" from element 0 of Multiply", " = 4, from element 0 of Divide", "dim 1 of Parameter"]
    {
        assert!(text.contains(piece), "{piece} in\n{text}");
    }
    // Messages name layers by their id, which a tensor may be called like.
    assert!(explain("models/swin_block", "82:0:2").starts_with("MatMul"));
}

#[test]
fn ranges_are_tried_one_by_one() {
    let room = image();
    let text = room.irrun("check model.xml --range x[1..8,3,8..100,32]").good();
    assert!(text.contains("each of the 744 sizes"), "{text}");
    // A dim that is left open is of any size: some of those that work are no proof.
    let out = room.irrun("check model.xml --range x[1..8,3,8..100,?]");
    assert_eq!(out.code, 1, "{}", out.report());
    assert!(out.stdout.contains("with x[1,3,8,1]"), "{}", out.stdout);
    let text = room.irrun("check model.xml --range x[?,3,8,8]").good();
    let note = "is not proven: 64 sizes were tried and work; of each ? up to 64, of a range";
    assert!(text.contains(note), "{text}");
    let out = room.irrun("check model.xml --range x[1,3,1..100,8]");
    assert_eq!(out.code, 1, "{}", out.report());
    assert!(out.stdout.contains("with x[1,3,1,8]"), "{}", out.stdout);
}

#[test]
fn many_sizes_are_all_tried_when_that_is_asked() {
    let room = Room::identity("f32", "?,?");
    // 65,800 sizes, a few more than are tried otherwise.
    let text = room.irrun("check model.xml --range x[1..8225,1..8]").good();
    let note = "is not proven: 65536 of 65800 sizes were tried and work; --range with --exhaustive";
    assert!(text.contains(note), "{text}");
    let text = room.irrun("check model.xml --range x[1..8225,1..8] --exhaustive").good();
    assert!(text.contains("each of the 65800 sizes"), "{text}");
    assert_eq!(room.irrun("check model.xml --exhaustive").code, 2);
}

#[test]
fn what_is_odd_is_a_note_and_can_be_mended() {
    let room = image();
    assert!(!room.irrun("check model.xml").good().contains("note"));
    let text = room.irrun("check model.xml --lint --weights").good();
    for piece in ["IR0209", "IR0402: 488 of 3584 bytes", "IR0405", "IR0404", "1 NaN, 1 subnormal"] {
        assert!(text.contains(piece), "{piece} in\n{text}");
    }
    let out = room.irrun("check model.xml --fix -o fixed.xml");
    let told = out.stderr.strip_prefix("fixed.xml: ").unwrap_or_default();
    let is_told = told.contains("left out") && told.contains("bytes of weights saved");
    assert!(out.code == 0 && is_told, "{}", out.report());
    let again = room.irrun("check fixed.xml --fix -o again.xml").stderr;
    assert_eq!(again, "again.xml: nothing to fix\n");
    let text = room.irrun("check fixed.xml --lint").good();
    assert!(!text.contains("note"), "{text}");
    assert!(room.read("fixed.bin").len() < room.read("model.bin").len());
    assert_eq!(room.irrun("check model.xml --fix").code, 2);
    // A warning that is gone from what was written is no failure.
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let declared = "<dim>8</dim>";
    assert!(text.contains(declared));
    room.write("model.xml", text.replacen(declared, "<dim>9</dim>", 1).as_bytes());
    assert_eq!(room.irrun("check model.xml").code, 1);
    let out = room.irrun("check model.xml --fix -o fixed.xml --json");
    assert!(out.code == 0 && out.stdout.contains(r#""ok":true"#), "{}", out.report());
    assert!(out.stderr.contains("declared anew"), "{}", out.report());
}

#[test]
fn inspect_tells_costs() {
    let room = image();
    let args = ["inspect", "model.xml", "--shape", "x[1,3,8,8]", "--json"];
    let report: Value = serde_json::from_str(&room.irrun_with(&[], args).good()).unwrap();
    assert_eq!(report["cost"]["parameters"], 8 * 3 * 4 * 4);
    assert_eq!(report["cost"]["operations"], 2 * (8 * 2 * 2) * (3 * 4 * 4));
    // The image, and what comes out of the convolution.
    assert_eq!(report["cost"]["peak_bytes"], 4 * (3 * 64 + 8 * 4));
    assert_eq!(report["cost"]["blocks"][0]["name"], "patch");
    assert!(MODEL.contains("Reshape"));
    let text = room.irrun("inspect model.xml --shape x[1,3,8,8]").good();
    for piece in ["parameters  384\n", "operations  3.07 kFLOP a run", "896 B of tensors at most"] {
        assert!(text.contains(piece), "{piece} in\n{text}");
    }
    let note = "<rt_info><Runtime_version value=\"2026.4.1-22982\"/></rt_info></net>";
    let noted = String::from_utf8(room.read("model.xml")).unwrap().replace("</net>", note);
    room.write("noted.xml", noted.as_bytes());
    room.write("noted.bin", &room.read("model.bin"));
    let text = room.irrun("inspect noted.xml").good();
    assert!(text.contains(" layers (1 not needed), by OpenVINO 2026.4.1-22982\n"), "{text}");
}

/// What a run is said to need is what it then takes, within a tenth.
#[test]
#[cfg(target_os = "linux")]
fn the_memory_of_a_run_is_known_before() {
    let room = Room::new();
    let sizes = "<dim>1000</dim><dim>3000</dim>";
    let model = format!(
        r#"<net name="large" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1000,3000" element_type="f32"/><output><port id="0" precision="FP32">{sizes}</port></output></layer>
<layer id="1" name="a" type="SoftMax" version="opset1"><data axis="1"/><input><port id="0"/></input><output><port id="1" precision="FP32">{sizes}</port></output></layer>
<layer id="2" name="b" type="SoftMax" version="opset1"><data axis="0"/><input><port id="0"/></input><output><port id="1" precision="FP32">{sizes}</port></output></layer>
<layer id="3" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/><edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
<edge from-layer="2" from-port="1" to-layer="3" to-port="0"/>
</edges></net>"#
    );
    room.write("model.xml", model.as_bytes());
    room.write("x.npy", &npy("<f4", false, "(1000, 3000)", &vec![0; 12_000_000]));
    let report: Value =
        serde_json::from_str(&room.irrun("check model.xml --memory --json").good()).unwrap();
    let said = report["memory"]["bytes"].as_u64().unwrap();
    assert_eq!(report["memory"]["outputs"], 12_000_000);
    let run = |limit: u64| room.irrun(&format!("model.xml -i x.npy --max-memory {limit}")).code;
    assert_eq!((run(said * 11 / 10), run(said * 9 / 10)), (0, 5), "{report}");
    let text = room.irrun("check model.xml --memory").good();
    assert!(text.contains("a run needs ") && text.contains("outputs 11.4 MiB"), "{text}");
    let open = room.irrun("check model.xml --memory --shape x[?,3000]");
    assert_eq!(open.code, 2, "{}", open.report());
    assert!(open.stderr.contains("give sizes: --shape 'x[1,3000]'"), "{}", open.stderr);
}

/// Filters that Winograd's algorithm transforms before their first use are memory of the run:
/// sixteen elements for each pair of channels.
#[test]
fn check_counts_what_kernels_pack() {
    let room = Room::new();
    let maps = "<dim>1</dim><dim>256</dim><dim>16</dim><dim>16</dim>";
    let filters = "<dim>256</dim><dim>256</dim><dim>3</dim><dim>3</dim>";
    let model = format!(
        r#"<net name="packed" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,256,16,16" element_type="f32"/><output><port id="0" precision="FP32">{maps}</port></output></layer>
<layer id="1" name="f" type="Const" version="opset1"><data element_type="f32" shape="256,256,3,3" offset="0" size="2359296"/><output><port id="0" precision="FP32">{filters}</port></output></layer>
<layer id="2" name="c" type="Convolution" version="opset1"><data strides="1,1" dilations="1,1" pads_begin="1,1" pads_end="1,1" auto_pad="explicit"/><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32">{maps}</port></output></layer>
<layer id="3" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/><edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges></net>"#
    );
    room.write("model.xml", model.as_bytes());
    room.write("model.bin", &vec![0; 2_359_296]);
    let report: Value =
        serde_json::from_str(&room.irrun("check model.xml --memory --json").good()).unwrap();
    let packed = report["memory"]["kernels"].as_u64().unwrap();
    let transformed = 16 * 256 * 256 * 4;
    assert!((transformed..2 * transformed).contains(&packed), "{report}");
}
