//! What `irrun check` says: one finding for one cause, none for what is no fault.

use crate::support::{Room, f32s, npy};

/// A chain of ReLUs behind a layer of the given text, with ids 1 to 3, each f32[2,3].
fn chain(first: &str) -> Room {
    let port = r#"<output><port id="1" precision="FP32"><dim>2</dim><dim>3</dim></port></output>"#;
    let relu = |id: usize| {
        format!(
            r#"<layer id="{id}" name="relu{id}" type="ReLU" version="opset1">
<input><port id="0"/></input>{port}</layer>
"#
        )
    };
    let edge = |to: usize| {
        let from = to - 1;
        format!(r#"<edge from-layer="{from}" from-port="1" to-layer="{to}" to-port="0"/>"#)
    };
    let layers: String = (2..4).map(relu).collect();
    let edges: String = (1..5).map(edge).collect();
    let x = format!(
        r#"<layer id="0" name="x" type="Parameter" version="opset1">
<data shape="2,3" element_type="f32"/>{port}</layer>"#
    );
    let first = first.replace("PORTS", &format!(r#"<input><port id="0"/></input>{port}"#));
    let text = format!(
        r#"<net name="chain" version="11"><layers>
{x}
{first}
{layers}<layer id="4" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>{edges}</edges></net>"#
    );
    let room = Room::new();
    room.write("chain.xml", text.as_bytes());
    room
}

fn edit(room: &Room, from: &str, to: &str) {
    let text = String::from_utf8(room.read("chain.xml")).unwrap();
    assert!(text.contains(from));
    room.write("chain.xml", text.replace(from, to).as_bytes());
}

fn says(name: &str, room: &Room, args: &str) {
    let outcome = room.irrun(args);
    insta::with_settings!({ description => format!("irrun {args}"), omit_expression => true }, {
        insta::assert_snapshot!(name, outcome.report());
    });
}

#[test]
fn one_cause_is_one_finding() {
    let room = chain(r#"<layer id="1" name="a" type="Frobnicate" version="opset1">PORTS</layer>"#);
    says("unknown operation", &room, "check chain.xml --all");
    let room = chain(r#"<layer id="1" name="a" type="Elu" version="opset1">PORTS</layer>"#);
    says("missing attribute", &room, "check chain.xml");
    let room = Room::new();
    std::fs::remove_file(room.path("model.bin")).unwrap();
    says("missing weights", &room, "check model.xml");
    // A file that is edited at one place differs everywhere behind it.
    let room = chain(r#"<layer id="1" name="a" type="ReLU" version="opset1">PORTS</layer>"#);
    edit(&room, r#"shape="2,3""#, r#"shape="2,4""#);
    says("edited input", &room, "check chain.xml");
}

#[test]
fn relics_of_converters_are_no_findings() {
    let relu = |data: &str| {
        chain(&format!(r#"<layer id="1" name="a" type="Elu" version="opset1">{data}PORTS</layer>"#))
    };
    let room = relu(r#"<data alpha="1" PrimitivesPriority="" cacheable="true"/>"#);
    room.irrun("check chain.xml").good();
    says("misspelt attribute", &relu(r#"<data alpha="1" alhpa="2"/>"#), "check chain.xml");
    let softmax = |attribute: &str| {
        let data = format!(r#"<data {attribute}="1"/>"#);
        chain(&format!(
            r#"<layer id="1" name="a" type="SoftMax" version="opset1">{data}PORTS</layer>"#
        ))
    };
    for (attribute, meant) in [("Axis", true), ("axes", true), ("xais", true), ("along", false)] {
        let said = softmax(attribute).irrun("check chain.xml").stdout;
        let ignored = format!("has no attribute {attribute}; it is ignored");
        assert!(said.contains(&ignored), "{said}");
        assert_eq!(said.contains("ignored; did you mean axis?"), meant, "{attribute}: {said}");
    }
}

/// Quantised files declare f32 for the indices of MaxPool, which nothing reads.
#[test]
fn outputs_that_nobody_reads_may_be_declared_as_anything() {
    let data = r#"<data kernel="1" strides="1" dilations="1" pads_begin="0" pads_end="0"/>"#;
    let indices = r#"<port id="2" precision="FP32"><dim>2</dim><dim>3</dim></port></output>"#;
    let pool =
        format!(r#"<layer id="1" name="a" type="MaxPool" version="opset8">{data}PORTS</layer>"#);
    let room = chain(&pool);
    let output = r#"<dim>3</dim></port></output></layer>
<layer id="2""#;
    edit(&room, output, &output.replace("</output>", indices));
    edit(&room, "<dim>2</dim><dim>3</dim>", "<dim>1</dim><dim>2</dim><dim>3</dim>");
    edit(&room, r#"shape="2,3""#, r#"shape="1,2,3""#);
    room.irrun("check chain.xml").good();
    edit(&room, r#"from-port="1" to-layer="2""#, r#"from-port="2" to-layer="2""#);
    says("indices that are read", &room, "check chain.xml");
}

/// Model Optimizer declared the product of a vector and a matrix as a matrix of one row.
#[test]
fn a_product_of_a_vector_may_be_declared_as_a_row() {
    let parameter = |id: usize, shape: &str| {
        format!(
            r#"<layer id="{id}" name="p{id}" type="Parameter" version="opset1">
<data shape="{shape}" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>"#
        )
    };
    let model = |declared: &str| {
        format!(
            r#"<net name="m" version="10"><layers>{}{}
<layer id="2" name="m" type="MatMul" version="opset1"><data transpose_b="False"/>
<input><port id="0"/><port id="1"/></input>
<output><port id="2" precision="FP32">{declared}</port></output></layer>
<layer id="3" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"#,
            parameter(0, "3"),
            parameter(1, "3,4")
        )
    };
    let room = Room::new();
    room.write("m.xml", model("<dim>1</dim><dim>4</dim>").as_bytes());
    room.irrun("check m.xml").good();
    room.write("m.xml", model("<dim>1</dim><dim>3</dim>").as_bytes());
    assert_eq!(room.irrun("check m.xml").code, 1);
}

/// Each is a warning; what they were meant to be is not asked of so many, which would take hours.
#[test]
fn a_layer_of_many_unknown_attributes() {
    let data: String = (0..20_000).map(|i| format!(" alhpa{i}=\"1\"")).collect();
    let layer = format!(
        r#"<layer id="1" name="a" type="Elu" version="opset1"><data alpha="1"{data}/>PORTS</layer>"#
    );
    let outcome = chain(&layer).irrun("check chain.xml");
    assert!(outcome.stdout.ends_with("5 layers, 0 errors, 20000 warnings\n"), "{}", outcome.code);
    assert!(!outcome.stdout.contains("did you mean"));
}

#[test]
fn ranges_are_tried() {
    let room = Room::new();
    says("range with sizes that fail", &room, "check model.xml --shape x[2..5,3]");
    let room = chain(r#"<layer id="1" name="a" type="ReLU" version="opset1">PORTS</layer>"#);
    room.irrun("check chain.xml --shape x[1..8,1..8]").good();
    says("range that is too large", &room, "check chain.xml --shape x[1..90,1..90]");
}

#[test]
fn structure_is_told_like_types() {
    let room = Room::with_model(r#"to-layer="2" to-port="1""#, r#"to-layer="7" to-port="1""#);
    says("structure", &room, "check model.xml");
    let json = room.irrun("check model.xml --json");
    assert_eq!(json.code, 1);
    assert!(json.stdout.contains(r#""code":"IR0203""#), "{}", json.stdout);
}

#[test]
fn a_model_runs_by_its_directory_and_with_the_word_run() {
    let room = Room::new();
    let plain = room.irrun("model.xml --input x.npy").good();
    assert_eq!(room.irrun("run model.xml --input x.npy").good(), plain);
    room.write("dir/openvino_model.xml", &room.read("model.xml"));
    room.write("dir/openvino_model.bin", &room.read("model.bin"));
    assert_eq!(room.irrun("run dir --input x.npy").good(), plain);
    room.write("dir/openvino_tokenizer.xml", b"the tokenizer of a model of text is not meant");
    assert_eq!(room.irrun("run dir --input x.npy").good(), plain);
    // Of two, irrun does not guess.
    room.write("dir/other.xml", &room.read("model.xml"));
    assert_eq!(room.irrun("run dir --input x.npy").code, 3);
}

#[test]
fn directories_of_cases() {
    let room = Room::new();
    says("no such directory", &room, "test nowhere");
    room.write("cases/a/model.xml", &room.read("model.xml"));
    room.write("cases/a/model.bin", &room.read("model.bin"));
    room.write("cases/a/input_0.npy", &room.read("x.npy"));
    let y = npy("<f4", false, "(3, 2)", &f32s(&[0., 1., 2., 3., 4., 6.]));
    room.write("cases/a/expected_0.npy", &y);
    room.write("cases/a/case.json", br#"{"inputs": [{}], "outputs": [{}]}"#);
    says("one case given twice", &room, "test cases cases/a");
}

/// Two inputs with names that are numbers, in the order of neither: f32[1] and f32[2].
#[test]
fn names_that_are_numbers() {
    let parameter = |id: usize, name: &str, size: usize| {
        format!(
            r#"<layer id="{id}" name="{name}" type="Parameter" version="opset1">
<data shape="{size}" element_type="f32"/><output><port id="0" precision="FP32"><dim>{size}</dim>
</port></output></layer>"#
        )
    };
    let text = format!(
        r#"<net name="n" version="11"><layers>{}{}
<layer id="2" name="sum" type="Add" version="opset1"><input><port id="0"/><port id="1"/></input>
<output><port id="2" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="3" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"#,
        parameter(0, "1", 1),
        parameter(1, "0", 2)
    );
    let room = Room::new();
    room.write("n.xml", text.as_bytes());
    room.write("one.npy", &npy("<f4", false, "(1,)", &f32s(&[1.])));
    room.write("two.npy", &npy("<f4", false, "(2,)", &f32s(&[2., 3.])));
    says("names that are numbers", &room, "n.xml -i 1=one.npy -i 0=two.npy");
    says("indices beside such names", &room, "n.xml -i #0=one.npy -i #1=two.npy");
    says("what is not given", &room, "n.xml -i #0=one.npy");
}

#[test]
fn generate_wants_a_directory() {
    let room = Room::new();
    let outcome = room.irrun("generate model.xml --prompt x");
    assert_eq!(outcome.code, 3);
    let message = "model.xml is no directory; give one that holds openvino_model.xml";
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
}
