//! What somebody met who tried the commands without knowing them: flags that were ignored, advice
//! that led nowhere, and words of libraries.

use crate::support::{self, Room, npy, says};

/// A fixture or model of the repository.
fn model(name: &str) -> String {
    format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn flags_that_do_nothing_are_refused() {
    let room = Room::new();
    for (args, because) in [
        ("test . --rtol 1e-3", "--rtol and --atol are for --record; case.json has keys for them"),
        ("test . --atol 1e-3", "are for --record"),
        ("model.xml -i x.npy --worst 3", "--expect"),
        ("graph model.xml --blocks x", "give a whole number from 0 on"),
        ("model.xml -i x.npy --expect x.npy --rtol -1", "give a number from 0 on, or NAME:NUMBER"),
    ] {
        says(&room, args, 2, &[because]);
    }
    room.write("case/case.json", br#"{"inputs": [], "outputs": [{}]}"#);
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("case/{file}"), &room.read(file));
    }
    says(&room, "test case --layers", 2, &["--layers is for digests"]);
    says(&room, "test case", 1, &["case.json lists 0 inputs, but the model has 1"]);
    says(&room, "test --help", 0, &["With --record: how far", "With --record: what is"]);
    says(&room, "", 2, &["give a MODEL.xml to run, or a command", "check", "generate"]);
}

#[test]
fn open_shapes_are_told_with_sizes_that_work() {
    let room = Room::new();
    let llama = model("models/tiny_llama");
    let sizes = "input_ids[1,8],attention_mask[1,8],position_ids[1,8],beam_idx[1]";
    for args in ["run MODEL --random", "check MODEL --memory", "bench MODEL --runs 1"] {
        let args = args.replace("MODEL", &llama);
        says(&room, &args, 2, &[&format!("give sizes: --shape '{sizes}'")]);
        room.irrun(&format!("{args} --shape {sizes}")).good();
    }
    // Of those that are given, nothing is said.
    room.write("ids.npy", &npy("<i8", false, "(1, 2)", &[0; 16]));
    let args = format!("{llama} -i input_ids=ids.npy --random");
    says(&room, &args, 2, &["--shape 'attention_mask[1,8]"]);
}

/// The model works with what it declares, so what was given is at fault.
#[test]
fn inputs_that_do_not_fit_each_other_are_named() {
    let room = Room::new();
    let shapes = "input_ids[1,4],attention_mask[1,4],position_ids[1,3],beam_idx[1]";
    let args = format!("{} --random --shape {shapes}", model("models/tiny_llama"));
    says(&room, &args, 4, &["\"position_ids\" is i64[1,3]", "error: "]);
}

#[test]
fn reasons_name_the_flag_that_leaves_a_size_open() {
    let room = Room::identity("f32", "?,3");
    let reason = "layer 0): --range leaves it open";
    says(&room, "check model.xml --all --range x[1..2,3]", 0, &[reason]);
    says(&room, "check model.xml --shape x[?,3]", 0, &["--shape leaves it open"]);
    says(&room, "check model.xml", 0, &["the model leaves it open"]);
}

#[test]
fn layers_are_listed_by_tensor_name_and_id() {
    let room = Room::new();
    says(&room, "check model.xml", 0, &["x:0 (x)", "r:0 (y)"]);
    for only in ["r", "r:0", "r:*", "2"] {
        let shown = room.irrun(&format!("check model.xml --only {only}")).good();
        assert!(shown.contains("Reshape-opset1") && !shown.contains("Const"), "{only}: {shown}");
        let drawn = room.irrun(&format!("graph model.xml --only {only}")).good();
        assert!(drawn.contains("Reshape"), "{only}: {drawn}");
    }
    for command in ["check", "graph"] {
        let args = format!("{command} model.xml --only rr:0");
        says(&room, &args, 2, &["--only rr:0: no layer is called so; did you mean \"r:0\"?"]);
    }
}

/// Version 10 shows other types than the graph has.
#[test]
fn inputs_and_outputs_have_the_types_that_callers_see() {
    let text = support::MODEL.replace("version=\"11\"", "version=\"10\"");
    let text = text.replace("element_type=\"f32\"", "element_type=\"f16\"").replace("FP32", "FP16");
    let room = Room::new();
    room.write("model.xml", text.as_bytes());
    says(&room, "check model.xml", 0, &["f32[2,3] (f16 in the graph)", "f32[3,2] (f16 in"]);
}

#[test]
fn dumped_values_are_in_the_report_for_programs() {
    let room = Room::new();
    let report = room.irrun("model.xml -i x.npy --dump op:Reshape --json").good();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let value = &report["dump"][0];
    assert_eq!(
        (&value["output"], &value["shape"]),
        (&"r:0".into(), &[3, 2][..].into()),
        "{report}"
    );
    assert_eq!(value["max"], 5.0);
    let args = "model.xml -i x.npy --dump op:Reshape --dump-to d.npz --json";
    assert!(!room.irrun(args).good().contains("\"dump\""));
}

#[test]
fn strings_come_from_standard_input_and_advice_leads_to_them() {
    let room = Room::identity("string", "?");
    says(&room, "model.xml", 2, &["give --text 0=\"…\""]);
    says(&room, "model.xml --random --shape x[2]", 2, &["no random strings; give --text"]);
    says(&room, "model.xml -i x.npy", 4, &["takes strings; give --text", ".astype(str)"]);
    says(&room, "model.xml -i x.npy --cast", 4, &["takes strings; give --text"]);
    room.write("o.npy", &npy("|O", false, "(1,)", b"abcdefgh"));
    says(&room, "model.xml -i o.npy", 4, &["objects of Python; save it with .astype(str)"]);
    room.write("lines.txt", b"one\ntwo\n");
    assert_eq!(room.irrun("model.xml --text @lines.txt").good(), "one\ntwo\n");
    for text in ["-", "@-", "x=-"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_irrun"));
        let lines = std::fs::File::open(room.path("lines.txt")).unwrap();
        command.current_dir(room.path("")).args(["model.xml", "--text", text]).stdin(lines);
        let out = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "one\ntwo\n", "{text}: {out:?}");
    }
}

#[test]
fn broken_files_are_told_in_words_of_their_own() {
    let room = Room::new();
    room.write("e.npy", b"");
    room.write("e.npz", b"");
    room.write("cut.npz", b"PK\x03\x04");
    room.write("n.npz", b"no");
    room.write("wrong.npy", &npy("<f4", false, "(1,)", &[0; 4]));
    for (file, because) in [
        ("e.npy", "e.npy: the file is empty"),
        ("e.npz", "e.npz: the file is empty"),
        ("cut.npz", "cut.npz: the archive is cut short or damaged"),
        ("n.npz", "n.npz: not an .npz archive, as numpy.savez writes it"),
        ("wrong.npy", "but wrong.npy holds f32[1]"),
    ] {
        says(&room, &format!("model.xml -i {file}"), 4, &[because]);
    }
    for (text, because) in [("", "the file is empty"), ("{\"inputs\": [", "the file is cut short")]
    {
        room.write("case/case.json", text.as_bytes());
        says(&room, "test case", 1, &["case/case.json: ", because]);
    }
    let image = Room::identity("f32", "1,3,8,8");
    image.write("cut.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF");
    says(&image, "model.xml -i cut.jpg", 4, &["cut.jpg: the picture is cut short or damaged"]);
}

#[test]
fn sizes_are_explained_from_dim_to_dim() {
    let room = Room::new();
    says(&room, "explain model.xml r:7", 2, &["r\" (opset1, layer 2) has 1 output"]);
    let llama = model("models/tiny_llama");
    let out = room.irrun(&format!("explain {llama} logits --shape input_ids[1,4]")).good();
    assert!(out.contains("dim 2 = 400, from dim 0 of Const \"self.lm_head.weight\""), "{out}");
    assert!(out.contains(" through MatMul: a constant"), "{out}");
}

/// A file that is missing from a case is no other file of it.
#[test]
fn files_of_cases_are_not_suggested_for_each_other() {
    let room = Room::new();
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("case/{file}"), &room.read(file));
    }
    room.write("case/expected_0.npy", &room.read("x.npy"));
    room.write("case/case.json", br#"{"inputs": [{}], "outputs": [{}]}"#);
    let out = room.irrun("test case");
    assert!(out.code == 1 && !out.report().contains("did you mean"), "{}", out.report());
    room.write("case/input_0.npy", &room.read("x.npy"));
    let added = "updated case: added its digests";
    says(&room, "test case --digests d --update", 0, &[added]);
    says(&room, "ops roll", 0, &["opset16\n1 row"]);
    let between = "no layer lies between the inputs and --to pattern";
    says(&room, "extract model.xml --to pattern -o p.xml", 2, &[between]);
}
