//! `--draw`: boxes of a detector on its input picture.

use crate::support::{Room, f32s, says};
use image::{Rgb, RgbImage};
use serde_json::{Value, json};

/// A model that finds the same in each picture: rows of image, label, confidence and edges.
fn detector(rows: &[[f32; 7]]) -> Room {
    let room = Room::new();
    let (count, size) = (rows.len(), rows.len() * 28);
    let model = format!(
        r#"<net name="detector" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,3,8,8" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="1" name="found" type="Const" version="opset1"><data element_type="f32" shape="1,1,{count},7" offset="0" size="{size}"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="2" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="1" from-port="0" to-layer="2" to-port="0"/></edges></net>"#
    );
    room.write("model.xml", model.as_bytes());
    room.write("model.bin", &f32s(&rows.concat()));
    RgbImage::from_pixel(20, 10, Rgb([9; 3])).save(room.path("x.png")).unwrap();
    room
}

const ROWS: [[f32; 7]; 5] = [
    [0.0, 1.0, 0.9, 0.1, 0.2, 0.5, 0.8],
    [0.0, 2.0, 0.4, 0.0, 0.0, 0.2, 0.2],
    [0.0, 3.0, 0.75, 0.5, -1.0, 2.0, 0.5],
    [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0],
];

/// The picture with the outlines of two boxes, by their first and last columns and rows.
fn expected() -> RgbImage {
    let outline = |[left, upper, right, lower]: [u32; 4], x: u32, y: u32| {
        let inside = (left..=right).contains(&x) && (upper..=lower).contains(&y);
        inside && (x == left || x == right || y == upper || y == lower)
    };
    RgbImage::from_fn(20, 10, |x, y| {
        if outline([2, 2, 9, 7], x, y) {
            Rgb([60, 180, 75])
        } else if outline([10, 0, 19, 4], x, y) {
            Rgb([255, 225, 25])
        } else {
            Rgb([9; 3])
        }
    })
}

#[test]
fn boxes_are_drawn_where_they_are() {
    let room = detector(&ROWS);
    let out = room.irrun("model.xml -i x.png --draw out.png").good();
    let table = "label  confidence  left    upper    right   lower\n\
                 1      0.9000      0.1000  0.2000   0.5000  0.8000\n\
                 3      0.7500      0.5000  -1.0000  2.0000  0.5000\n";
    assert_eq!(out, table);
    let drawn = image::open(room.path("out.png")).unwrap().into_rgb8();
    assert!(drawn == expected());
    assert!(room.read("x.png") != room.read("out.png"));
    room.irrun("model.xml -i x.png --draw out.jpg -o y.npy").good();
    assert_eq!(image::open(room.path("out.jpg")).unwrap().width(), 20);
}

/// Three outputs with edges in pixels of the input, which is 8 by 8: as detectors of torchvision
/// have them.
#[test]
fn boxes_in_pixels_are_drawn_too() {
    let room = detector(&ROWS);
    let port = |i: usize, element_type: &str, shape: &str, offset: usize, size: usize| {
        format!(
            r#"<layer id="{i}" name="c{i}" type="Const" version="opset1"><data element_type="{element_type}" shape="{shape}" offset="{offset}" size="{size}"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="{}" name="y{i}" type="Result" version="opset1"><input><port id="0"/></input></layer>"#,
            i + 3
        )
    };
    let edge = |i: usize| {
        format!(r#"<edge from-layer="{i}" from-port="0" to-layer="{}" to-port="0"/>"#, i + 3)
    };
    let model = format!(
        r#"<net name="detector" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,3,8,8" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>
{}{}{}</layers><edges>{}{}{}</edges></net>"#,
        port(1, "f32", "2,4", 0, 32),
        port(2, "f32", "2", 32, 8),
        port(3, "i64", "2", 40, 16),
        edge(1),
        edge(2),
        edge(3)
    );
    room.write("model.xml", model.as_bytes());
    let mut bin = f32s(&[0.8, 1.6, 4.0, 6.4, 4.0, -8.0, 16.0, 4.0, 0.9, 0.75]);
    bin.extend([1_i64, 3].iter().flat_map(|label| label.to_le_bytes()));
    room.write("model.bin", &bin);
    room.irrun("model.xml -i x.png --draw out.png").good();
    assert!(image::open(room.path("out.png")).unwrap().into_rgb8() == expected());
}

#[test]
fn the_threshold_and_labels() {
    let room = detector(&ROWS);
    room.write("labels.txt", b"none\ncat\nbig dog\n");
    let run = "model.xml -i x.png --draw out.png --labels labels.txt --threshold";
    let out = room.irrun(&format!("{run} 0.4")).good();
    assert!(out.contains("2      big dog  0.4000") && out.contains("1      cat "), "{out}");
    let out = room.irrun(&format!("{run} 2"));
    assert_eq!((out.code, &*out.stdout), (0, ""), "{}", out.report());
    assert!(out.stderr.contains("nothing is found with that confidence"), "{}", out.report());
    let plain = image::open(room.path("out.png")).unwrap().into_rgb8();
    assert!(plain == image::open(room.path("x.png")).unwrap().into_rgb8());
    let report = room.irrun(&format!("{run} 0.8 --json")).good();
    let report: Value = serde_json::from_str(&report).unwrap();
    let found = &report["boxes"][0];
    assert_eq!((&found["label"], &found["name"]), (&json!(1), &json!("cat")));
    assert!((found["box"][3].as_f64().unwrap() - 0.8).abs() < 1e-6, "{report}");
    assert_eq!(report["boxes"].as_array().unwrap().len(), 1);
}

/// Numbers that are none, and boxes that are nowhere, are not drawn.
#[test]
fn boxes_of_every_kind() {
    let room = detector(&[
        [0.0, 1.0, f32::NAN, 0.0, 0.0, 1.0, 1.0],
        [0.0, 1.0, 0.9, f32::NAN, 0.0, 1.0, 1.0],
        [0.0, 1.0, 0.9, 0.0, 0.0, f32::INFINITY, 1.0],
        [0.0, -7.0, 0.9, 3.0, 3.0, 4.0, 4.0],
        [0.0, f32::NAN, 0.9, 0.9, 0.9, 0.1, 0.1],
        [f32::NAN, 1.0, 0.9, 0.0, 0.0, 1.0, 1.0],
    ]);
    room.irrun("model.xml -i x.png --draw out.png").good();
    let plain = image::open(room.path("out.png")).unwrap().into_rgb8();
    assert!(plain == image::open(room.path("x.png")).unwrap().into_rgb8());
}

#[test]
fn mistakes_are_told() {
    let room = detector(&ROWS);
    let run = "model.xml --draw";
    says(
        &room,
        &format!("{run} x.png -i x.png"),
        2,
        &["x.png is an input, which would be overwritten"],
    );
    says(&room, &format!("{run} out.gif -i x.png"), 2, &["give the name of a .png or .jpg"]);
    says(&room, &format!("{run} out.png --random"), 2, &["no --input is one"]);
    says(&room, "model.xml -i x.png --threshold 0.1", 2, &["--draw"]);
    says(&room, "model.xml -i x.png --labels x.txt", 2, &["--top K or --draw FILE.png; give one"]);
    let same = Room::identity("f32", "1,3,?,?");
    same.write("x.png", &room.read("x.png"));
    let form = "--draw understands the output of DetectionOutput, [1,1,N,7]";
    says(&same, &format!("{run} out.png -i x.png"), 4, &[form, "the model gives f32[1,3,10,20]"]);
    assert!(!same.path("out.png").exists());
}
