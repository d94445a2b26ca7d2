//! IR versions 2 to 9: the resulting layers, names and bodies. Values are tested by
//! `fixtures/legacy_*`.

use irrun_ir as ir;
use std::path::Path;
use std::sync::Arc;

fn read(text: &str) -> Result<ir::Graph, String> {
    let weights = Arc::new(ir::Weights::from_bytes(vec![0; 64]));
    ir::read_bytes(text.as_bytes(), Path::new("m.xml"), weights).map_err(|e| e.to_string())
}

/// An Input of `[2,4]` and a layer that reads it.
fn with_layer(layer: &str, outputs: &[&str]) -> String {
    let dims =
        |text: &str| -> String { text.split(',').map(|dim| format!("<dim>{dim}</dim>")).collect() };
    let port =
        |(id, text): (usize, &&str)| format!(r#"<port id="{}">{}</port>"#, id + 1, dims(text));
    let outputs: String = outputs.iter().enumerate().map(port).collect();
    let (open, rest) = layer.split_once('|').unwrap_or((layer, ""));
    format!(
        r#"<net name="n" version="6"><layers>
        <layer id="0" name="x" type="Input" precision="FP32">
          <output><port id="0">{x}</port></output></layer>
        <layer id="1" name="y" precision="FP32" {open}>
          <input><port id="0">{x}</port></input><output>{outputs}</output>{rest}</layer>
        </layers><edges>
          <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"#,
        x = dims("2,4"),
    )
}

fn types(graph: &ir::Graph) -> Vec<String> {
    let of = |&i: &usize| graph.layers()[i].op_type.clone();
    graph.order().iter().map(of).collect()
}

#[test]
fn a_layer_keeps_its_name_and_its_id_and_outputs_are_those_that_nothing_takes() {
    let layer = r#"type="Power"|<data power="1" scale="2" shift="3"/>"#;
    let graph = read(&with_layer(layer, &["2,4"])).unwrap();
    assert_eq!(types(&graph), ["Parameter", "Const", "Multiply", "Const", "Add", "Result"]);
    let add = &graph.layers()[graph.find(1).unwrap()];
    assert_eq!((add.name.as_str(), add.op_type.as_str()), ("y", "Add"));
    assert_eq!(add.outputs[0].names, ["y"]);
    assert_eq!(add.outputs[0].dims.as_slice(), [2, 4]);
    assert_eq!((graph.version(), graph.legacy_version()), (ir::Version::V10, Some(6)));

    let split = r#"type="Split"|<data axis="1" num_split="2"/>"#;
    let graph = read(&with_layer(split, &["2,2", "2,2"])).unwrap();
    let split = &graph.layers()[graph.find(1).unwrap()];
    let names: Vec<_> = split.outputs.iter().map(|port| port.names[0].as_str()).collect();
    assert_eq!((names, graph.results().len()), (vec!["y.0", "y.1"], 2));
}

fn values<'a>(layer: &'a ir::Layer, keys: &[&str]) -> Vec<Option<&'a str>> {
    keys.iter().map(|key| layer.attribute(key)).collect()
}

#[test]
fn a_binary_convolution_has_weights_of_one_bit() {
    // 3 x 5 filters of 3 x 3 are 135 bits in 17 bytes.
    let layer = r#"type="BinaryConvolution"|<data input="5" output="3" kernel="3,3" strides="2,1"
        pads_begin="1,0" pads_end="0,1" dilations="1,2" group="1"/>
        <blobs><weights offset="8" size="17" precision="U8"/></blobs>"#;
    let graph = read(&with_layer(layer, &["1,3"])).unwrap();
    assert_eq!(types(&graph), ["Parameter", "Const", "BinaryConvolution", "Result"]);
    let layers: Vec<_> = graph.order().iter().map(|&i| &graph.layers()[i]).collect();
    let weights = values(layers[1], &["element_type", "shape", "offset", "size"]);
    assert_eq!(weights, ["u1", "3,5,3,3", "8", "17"].map(Some));
    let keys = ["strides", "pads_begin", "pads_end", "dilations", "auto_pad", "mode", "pad_value"];
    let expected = ["2,1", "1,0", "0,1", "1,2", "explicit", "xnor-popcount", "0"];
    assert_eq!(values(layers[2], &keys), expected.map(Some));
    assert_eq!((layers[2].name.as_str(), layers[2].version.as_str()), ("y", "opset1"));
}

#[test]
fn a_reshape_has_the_declared_dims_if_its_pattern_gives_others() {
    for (dim, declared, expected) in [
        // [2,4] by this pattern is [2,4]; the file says [1,8].
        ("0,-1", "1,8", vec![1, 8]),
        // Patterns that do not fit 8 elements.
        ("3,-1", "8", vec![8]),
        ("0,0,0", "2,2,2", vec![2, 2, 2]),
        // Patterns that give the declared dims stay, and follow other shapes of the input.
        ("0,-1", "2,4", vec![0, -1]),
        ("4,-1", "4,2", vec![4, -1]),
        ("-1", "8", vec![-1]),
        // No reshape of 8 elements gives what the file says.
        ("0,-1", "3,3", vec![0, -1]),
    ] {
        let layer = format!(r#"type="Reshape"|<data axis="0" dim="{dim}" num_axes="-1"/>"#);
        let graph = read(&with_layer(&layer, &[declared])).unwrap();
        let pattern = graph.layers().iter().find_map(|layer| layer.bytes.clone()).unwrap();
        let bytes: Vec<u8> = expected.iter().copied().flat_map(i64::to_le_bytes).collect();
        assert_eq!(*pattern, *bytes, "dim={dim}, declared {declared}");
    }
}

#[test]
fn the_masks_of_a_strided_slice_have_one_length() {
    let text = |masks: &str| {
        let input = |id: usize, precision: &str, dims: &str| {
            format!(
                r#"<layer id="{id}" name="x{id}" type="Input" precision="{precision}">
                <output><port id="0">{dims}</port></output></layer>"#
            )
        };
        let (data, bounds) = ("<dim>4</dim><dim>6</dim>", "<dim>2</dim>");
        format!(
            r#"<net name="n" version="7"><layers>{}{}{}
            <layer id="3" name="y" type="StridedSlice" precision="FP32"><data {masks}/>
              <input><port id="0">{data}</port><port id="1">{bounds}</port>
                <port id="2">{bounds}</port></input>
              <output><port id="3"><dim>4</dim></port></output></layer></layers><edges>
            <edge from-layer="0" from-port="0" to-layer="3" to-port="0"/>
            <edge from-layer="1" from-port="0" to-layer="3" to-port="1"/>
            <edge from-layer="2" from-port="0" to-layer="3" to-port="2"/></edges></net>"#,
            input(0, "FP32", data),
            input(1, "I32", bounds),
            input(2, "I32", bounds),
        )
    };
    let keys = ["begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask"];
    for (masks, expected) in [
        ("", ["0,0", "0,0", "0,0", "0,0", "0,0"]),
        (r#"begin_mask="0" shrink_axis_mask="1""#, ["1,0", "0,0", "0,0", "1,0", "0,0"]),
        (r#"end_mask="0,1" new_axis_mask="0,0,1""#, ["0,0,0", "1,0,0", "0,0,1", "0,0,0", "0,0,0"]),
    ] {
        let graph = read(&text(masks)).unwrap();
        let layer = &graph.layers()[graph.find(3).unwrap()];
        let compact = |value: Option<&str>| value.map(|text| text.replace(' ', ""));
        let found: Vec<_> = values(layer, &keys).into_iter().map(compact).collect();
        assert_eq!(found, expected.map(|mask| Some(mask.to_owned())), "{masks}");
    }
}

#[test]
fn a_type_without_a_rule_stays_as_it_is() {
    let graph = read(&with_layer(r#"type="Fancy"|<data a="1"/>"#, &["2,4"])).unwrap();
    let layer = &graph.layers()[graph.find(1).unwrap()];
    assert_eq!(layer.title(), "Fancy \"y\" (IR version 6, layer 1)");
    assert_eq!(layer.attribute("a"), Some("1"));
}

#[test]
fn what_is_wrong_names_the_layer_and_the_version() {
    for (layer, message) in [
        (r#"type="Tile"|<data axis="1"/>"#, "it has no tiles"),
        (r#"type="Tile"|<data axis="2" tiles="3"/>"#, "axis 2 is out of range for rank 2"),
        (r#"type="FullyConnected"|<data out-size="2"/>"#, "it has no weights"),
        (
            r#"type="FullyConnected"|<data out-size="3"/><weights offset="0" size="32"/>"#,
            "weights hold 8 elements",
        ),
        (r#"type="Eltwise"|<data operation="xyz"/>"#, "operation=\"xyz\" is not known"),
        (r#"type="Gather"|<data axis="0"/>"#, "it has no input 1"),
        (r#"type="Clamp"|<data min="a" max="1"/>"#, "min=\"a\" is not a number"),
        (r#"type="TensorIterator"|"#, "it has no body"),
        (
            r#"type="BinaryConvolution"|<data input="4" output="2" kernel="1,1"/>
               <weights offset="0" size="8"/>"#,
            "weights hold 8 bytes, which is not [2, 4, 1, 1] bits",
        ),
        (
            r#"type="BinaryConvolution"|<data input="4" output="2" kernel="1,1" mode="and"/>"#,
            "mode=\"and\" is not known",
        ),
        (
            r#"type="BinaryConvolution"|<data input="4" output="2" kernel="1,1" group="2"/>"#,
            "group=\"2\" is not known",
        ),
    ] {
        let error = read(&with_layer(layer, &["2,4"])).unwrap_err();
        assert!(error.contains(message) && error.contains("(IR version 6, layer 1)"), "{error}");
    }
}

/// Whatever is removed from a file, reading gives a graph or an error.
#[test]
fn no_file_stops_the_reader() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|path| path.to_string_lossy().contains("legacy_")) {
        let text = std::fs::read_to_string(folder.join("model.xml")).unwrap();
        let quoted: Vec<&str> = text.split('"').collect();
        let others = ["", "-1", "99999999999999999999", "x", "9223372036854775807,0,-5"];
        for (i, other) in (1..quoted.len()).step_by(6).zip(others.iter().cycle()) {
            let mut parts = quoted.clone();
            parts[i] = other;
            let _ = read(&parts.join("\""));
        }
    }
}
