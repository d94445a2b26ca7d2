//! What the reader accepts, and every error it reports.

use irrun_ir::{Code, Graph, ReadError, Severity, Weights};
use std::path::Path;
use std::sync::Arc;

fn read(xml: &str) -> Result<Graph, ReadError> {
    irrun_ir::read_bytes(xml.as_bytes(), Path::new("m.xml"), Arc::new(Weights::default()))
}

/// A net with these layers and edges.
fn net(layers: &str, edges: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<net name=\"n\" version=\"11\">\n<layers>\n{layers}\n</layers>\n\
         <edges>\n{edges}\n</edges>\n</net>\n"
    )
}

const PARAMETER: &str = r#"<layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/><output><port id="0" precision="FP32" names="x"><dim>2</dim></port></output></layer>"#;
const RESULT: &str = r#"<layer id="9" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>"#;
const RELU: &str = r#"<layer id="5" name="r" type="ReLU" version="opset1"><input><port id="3"/></input><output><port id="7" precision="FP32"/></output></layer>"#;

fn edge(from: &str, to: &str) -> String {
    let ((fl, fp), (tl, tp)) = (from.split_once(':').unwrap(), to.split_once(':').unwrap());
    format!(r#"<edge from-layer="{fl}" from-port="{fp}" to-layer="{tl}" to-port="{tp}"/>"#)
}

#[test]
fn ports_are_labels_and_order_does_not_matter() {
    let edges = edge("5:7", "9:0") + &edge("0:0", "5:3");
    let graph = read(&net(&[RESULT, RELU, PARAMETER].join("\n"), &edges)).unwrap();
    let names: Vec<&str> = graph.order().iter().map(|&i| &*graph.layers()[i].name).collect();
    assert_eq!(names, ["x", "r", "y"]);
    assert_eq!(graph.parameters(), [2]);
    assert_eq!(graph.inputs_of(1)[0].layer, 2);
}

#[test]
fn every_problem_of_a_file_is_reported_with_its_line() {
    let layers = [
        PARAMETER,
        RELU,
        r#"<layer id="5" name="twin" type="ReLU" version="opset1"><input><port id="0"/></input><output><port id="1" precision="MIXED"/></output></layer>"#,
        r#"<layer name="anonymous" type="ReLU"><output><port id="1" precision="FP32"><dim>x</dim></port></output></layer>"#,
        RESULT,
    ];
    let edges = [
        edge("0:0", "9:0"),
        edge("0:0", "9:0"),
        edge("0:8", "9:0"),
        edge("77:0", "9:0"),
        edge("0:0", "9:4"),
        r#"<edge from-layer="0" from-port="zero" to-layer="9"/>"#.to_owned(),
    ];
    let error = read(&net(&layers.join("\n"), &edges.join("\n"))).unwrap_err();
    let found: Vec<String> = error
        .list()
        .iter()
        .map(|p| format!("{} {}", p.code, error.source_file().line(p.at)))
        .collect();
    let expected = [
        (Code::DuplicateLayer, 6),
        (Code::Unconnected, 6),
        (Code::Malformed, 6),
        (Code::Missing, 7),
        (Code::Malformed, 7),
        (Code::DoubledEdge, 12),
        (Code::UnknownPort, 13),
        (Code::DoubledEdge, 13),
        (Code::UnknownLayer, 14),
        (Code::DoubledEdge, 14),
        (Code::UnknownPort, 15),
        (Code::Malformed, 16),
        (Code::Missing, 16),
    ];
    for (code, line) in expected {
        let wanted = format!("{code} {line}");
        assert!(found.contains(&wanted), "{wanted} is not among {found:#?}\n{error}");
    }
}

#[test]
fn cycles_are_named_by_their_layers() {
    let a = RELU;
    let b = RELU.replace(r#"id="5" name="r""#, r#"id="6" name="s""#);
    let edges = edge("5:7", "6:3") + &edge("6:7", "5:3") + &edge("6:7", "9:0");
    let error = read(&net(&format!("{a}{b}{RESULT}"), &edges)).unwrap_err().to_string();
    assert!(error.contains(r#"in a cycle: "r" -> "s" -> "r""#), "{error}");
}

#[test]
fn broken_layers_that_nothing_needs_are_warnings() {
    let dead = RELU.replace("id=\"5\"", "id=\"6\"");
    let graph = read(&net(&format!("{PARAMETER}{dead}{RESULT}"), &edge("0:0", "9:0"))).unwrap();
    assert_eq!(graph.warnings().len(), 1);
    assert_eq!(graph.warnings()[0].code, Code::Unconnected);
    assert_eq!(graph.order().len(), 2);
}

#[test]
fn documents_that_are_no_ir() {
    let cases = [
        ("", Code::NotIr, "the file is empty"),
        ("\u{feff} \n", Code::NotIr, "the file is empty"),
        ("\u{1}\u{2}binary", Code::NotIr, "not XML"),
        ("<html/>", Code::NotIr, "the root element is <html>"),
        ("<net name='n'/>", Code::Version, "no version"),
        ("<net name='n' version='1'/>", Code::Version, "IR version \"1\""),
        ("<net name='n' version='12'/>", Code::Version, "IR version \"12\""),
        ("<net name='n' version='11.0'/>", Code::Version, "IR version \"11.0\""),
        ("<net version='11'><layers>", Code::Syntax, "cut short"),
        ("<net version='11'><layers></net>", Code::Syntax, "not well-formed"),
        ("<net version='11'><rt_info>&evil;</rt_info></net>", Code::Syntax, "unknown entity"),
        ("<?xml version='1.0'?> head <net version='11'/>", Code::Syntax, "outside the root"),
    ];
    for (xml, code, text) in cases {
        let error = read(xml).unwrap_err();
        assert_eq!(error.list()[0].code, code, "{xml:?}: {error}");
        assert!(error.to_string().contains(text), "{xml:?}: {error}");
    }
    let deep = "<a>".repeat(100_000);
    let error = read(&format!("<net version='11'>{deep}")).unwrap_err();
    assert_eq!(error.list()[0].code, Code::TooDeep);
}

#[test]
fn nothing_follows_the_root_element() {
    let whole = net(&(PARAMETER.to_owned() + RESULT), &edge("0:0", "9:0"));
    let after = whole.lines().count() + 1;
    for (tail, line, text) in [
        ("\nrest", after + 1, "text lies outside the root element"),
        ("<!-- c -->\n<?p?> &amp;", after + 1, "text lies outside the root element"),
        ("<![CDATA[ ]]>", after, "text lies outside the root element"),
        ("\n\n<net name='m' version='11'/>", after + 2, "<net> follows the root element"),
        ("<a>", after, "<a> follows the root element"),
        ("</net>", after, "`</net>` closes nothing that is open"),
        ("<!-- ", after, "cut short"),
    ] {
        let error = read(&format!("{whole}{tail}")).unwrap_err();
        let problem = &error.list()[0];
        assert_eq!(problem.code, Code::Syntax, "{tail:?}: {error}");
        assert_eq!(error.source_file().line(problem.at), line, "{tail:?}: {error}");
        assert!(error.to_string().contains(text), "{tail:?}: {error}");
    }
}

#[test]
fn odd_but_legal_text_is_read() {
    let xml = format!(
        "\u{feff}<!DOCTYPE net><!-- c --><NET name=\"a&#10;b &amp; c\" version=\"11\"><layers>{}</layers>\
         <edges>{}</edges><rt_info><k value=\"v\"/><info name=\"bad name!\" value=\"w\"/></rt_info></NET> \n<!-- tail --><?tail?>\t\r\n",
        PARAMETER.replace("<dim>2</dim>", "<dim><![CDATA[2]]></dim>") + RESULT,
        edge("0:0", "9:0")
    );
    let graph = read(&xml).unwrap();
    assert_eq!(graph.name(), "a\nb & c");
    assert_eq!(graph.layers()[0].outputs[0].dims[0], 2);
    assert_eq!(graph.notes()[0].children[1].attributes[0].1, "bad name!");
}

#[test]
fn port_maps_must_fit_their_bodies() {
    let body = format!(
        "<body><layers>{PARAMETER}{RESULT}</layers><edges>{}</edges></body>",
        edge("0:0", "9:0")
    );
    let layer = |map: &str| {
        let iterator = format!(
            r#"<layer id="5" name="t" type="TensorIterator" version="opset1">{map}<input><port id="3"/></input><output><port id="7" precision="FP32"/></output>{body}</layer>"#
        );
        read(&net(
            &format!("{PARAMETER}{iterator}{RESULT}"),
            &(edge("0:0", "5:3") + &edge("5:7", "9:0")),
        ))
    };
    let good = r#"<port_map><input external_port_id="0" internal_layer_id="0" axis="1"/><output external_port_id="7" internal_layer_id="9"/></port_map><back_edges><edge from-layer="9" to-layer="0"/></back_edges>"#;
    let graph = layer(good).unwrap();
    let body = &graph.layers()[1].bodies[0];
    assert_eq!(body.inputs[0].slice.unwrap().end, -1);
    assert_eq!(body.back_edges, [(9, 0)]);
    for (bad, text) in [
        (good.replace("internal_layer_id=\"9\"", "internal_layer_id=\"0\""), "not a Result"),
        (
            good.replace("external_port_id=\"0\"", "external_port_id=\"1\""),
            "input 1 is mapped, of 1",
        ),
        (good.replace("axis=\"1\"", "axis=\"1\" stride=\"0\""), "stride must not be 0"),
        (good.replace("from-layer=\"9\"", "from-layer=\"0\""), "back edge 0 -> 0"),
        (
            good.replace("<output external_port_id=\"7\" internal_layer_id=\"9\"/>", ""),
            "0 outputs are mapped",
        ),
    ] {
        let error = layer(&bad).unwrap_err().to_string();
        assert!(error.contains(text), "{text}: {error}");
    }
}

#[test]
fn a_bin_that_goes_on_after_the_last_constant() {
    let constant = r#"<layer id="0" name="c" type="Const" version="opset1"><data element_type="u8" shape="2" offset="6" size="2"/><output><port id="0" precision="U8"/></output></layer>"#;
    let xml = net(&[constant, RESULT].join("\n"), &edge("0:0", "9:0"));
    let warnings = |len: usize| {
        let weights = Arc::new(Weights::from_bytes(vec![0; len]));
        let graph = irrun_ir::read_bytes(xml.as_bytes(), Path::new("m.xml"), weights).unwrap();
        graph.warnings().to_vec()
    };
    // Up to a page is padding.
    assert_eq!(warnings(8 + 4096), []);
    let [warning] = &warnings(8 + 4097)[..] else { panic!("one warning") };
    assert_eq!((warning.code, warning.severity), (Code::UnusedWeights, Severity::Warning));
    assert!(warning.message.contains("no constant reaches beyond byte 8; 4097 bytes are unused"));
}

/// The chain of layers from the input `x`: type and data.
fn chain(graph: &Graph) -> Vec<String> {
    let show = |&i: &usize| {
        let layer = &graph.layers()[i];
        let data: Vec<_> = layer.data.iter().map(|(k, v)| format!(" {k}={v}")).collect();
        format!("{}{}", layer.op_type, data.concat())
    };
    graph.order().iter().map(show).collect()
}

#[test]
fn means_are_layers_behind_their_input() {
    let input = |shape: &str, t: &str| {
        format!(
            r#"<layer id="0" name="x" type="Parameter" version="opset1"><data shape="{shape}" element_type="{t}"/><output><port id="4" precision="FP32"/></output></layer>"#
        )
    };
    let model = |shape: &str, t: &str, means: &str| {
        let layers = input(shape, t) + RESULT;
        let net = net(&layers, &edge("0:4", "9:0"));
        read(&net.replace("</net>", &format!("{means}\n</net>")))
    };
    let values = r#"<pre-process reference-layer-name=" x "><channel id="1"><mean value="2"/><scale value="3"/></channel><channel id="0"><mean value="1.5"/></channel></pre-process>"#;
    let graph = model("1,2,3,3", "f16", values).unwrap();
    assert_eq!(
        chain(&graph),
        [
            "Parameter shape=1,2,3,3 element_type=f16",
            "Const element_type=f32 shape=2,1,1 offset=0 size=8",
            "Convert destination_type=f16",
            "Subtract",
            "Result"
        ]
    );
    let constant = graph.layers().iter().find(|l| l.is("Const")).unwrap();
    let bytes = constant.bytes.as_deref().unwrap();
    assert_eq!(bytes, [1.5f32.to_le_bytes(), 2f32.to_le_bytes()].concat());
    assert_eq!(graph.weights_of(constant).bytes(), bytes);
    assert!(graph.warnings().is_empty(), "{:?}", graph.warnings());

    let images = r#"<pre-process><channel><mean offset="16" size="16"/></channel><channel><mean offset="0" size="16"/></channel></pre-process>"#;
    for (shape, image) in [("1,2,2,2", "1,2,2"), ("2,2,2", "1,2,2"), ("1,2,1,2,2", "1,1,2,2")] {
        let found = chain(&model(shape, "f32", images).unwrap());
        let const_of =
            |offset| format!("Const element_type=f32 shape={image} offset={offset} size=16");
        assert_eq!(
            found[1..5],
            [const_of(16), const_of(0), "Concat axis=0".into(), "Subtract".into()]
        );
    }
    let empty = r#"<pre-process reference-layer-name="x"><channel/></pre-process>"#;
    assert_eq!(chain(&model("1,2", "f32", empty).unwrap()).len(), 2);

    for (shape, bad, text) in [
        ("1,2,3,3", values.replace(" x ", "z"), "no input \"z\""),
        ("1,3,3,3", values.to_owned(), "2 of 3 channels have a mean"),
        ("1,1,3,3", values.to_owned(), "channel 1 has a mean, of 1 channels"),
        ("1,2,?,3", values.to_owned(), "input \"x\" has no fixed shape"),
        ("2", values.to_owned(), "has rank 1"),
        ("1,2", values.replace("id=\"1\"", "id=\"0\""), "channel 0 has two means"),
        ("1,2", values.replace("1.5", "a"), "value=\"a\" is not a number"),
        ("1,2", values.replace("value=\"2\"", ""), "neither value nor size"),
        ("1,2", values.replace("value=\"2\"", "size='4' offset='0'"), "others mean images"),
        ("1,2,2,3", images.to_owned(), "the image of channel 0 has 16 bytes, not 24"),
    ] {
        let error = model(shape, "f32", &bad).unwrap_err();
        assert_eq!(error.list()[0].code, Code::PreProcess, "{error}");
        assert!(error.to_string().contains(text), "{text}: {error}");
        assert_eq!(error.source_file().line(error.list()[0].at), 9, "{error}");
    }
}

#[test]
fn elements_that_nothing_reads_are_named_once() {
    let layer = RELU.replace("<input>", "<odd/><rt_info><any/></rt_info><input><odd/>");
    let layer = layer.replace(
        "<port id=\"7\" precision=\"FP32\"/>",
        "<port id=\"7\" precision=\"FP32\"><dims/></port>",
    );
    let layers = [PARAMETER, &layer, &layer.replace("id=\"5\"", "id=\"6\""), RESULT];
    let edges = edge("0:0", "5:3") + &edge("0:0", "6:3") + &edge("5:7", "9:0");
    let text = net(&layers.join("\n"), &(edges + "<vertex/>"));
    let notes =
        "<meta_data><x/></meta_data><statistics/><quantization_parameters/><pre-processing/></net>";
    let graph = read(&text.replace("</net>", notes)).unwrap();
    let found: Vec<String> = graph
        .warnings()
        .iter()
        .filter(|p| p.code == Code::UnknownElement)
        .map(|p| format!("{} {}", graph.source().line(p.at), p.message))
        .collect();
    let tail = "is not known here and is passed over";
    assert_eq!(
        found,
        [
            format!("5 <odd> in <layer> {tail}, 2 times"),
            format!("5 <odd> in <input> {tail}, 2 times"),
            format!("5 <dims> in <port> {tail}, 2 times"),
            format!("10 <vertex> in <edges> {tail}"),
            format!("12 <pre-processing> in <net> {tail}"),
        ]
    );
}

#[test]
fn optional_inputs_may_have_ports_without_edges() {
    let layer =
        RELU.replace("<port id=\"3\"/>", "<port id=\"3\"/><port id=\"4\"/><port id=\"5\"/>");
    let model = |version: &str, into: &str| {
        let edges = edge("0:0", into) + &edge("5:7", "9:0");
        read(
            &net(&[PARAMETER, &layer, RESULT].join("\n"), &edges)
                .replace("version=\"11\"", version),
        )
    };
    let graph = model("version=\"10\"", "5:3").unwrap();
    assert_eq!((graph.layers()[1].inputs.len(), graph.warnings().len()), (1, 0));
    // OpenVINO rejects these in version 11, where no converter wrote them.
    let graph = model("version=\"11\"", "5:3").unwrap();
    assert_eq!((graph.layers()[1].inputs.len(), graph.warnings().len()), (1, 2));
    for version in ["version=\"10\"", "version=\"11\""] {
        let error = model(version, "5:4").unwrap_err();
        assert_eq!(error.list()[0].code, Code::Unconnected, "{error}");
    }
}
