//! `--top` and `--labels`: the largest values of outputs.

use crate::support::{Room, f32s, npy, says};
use serde_json::{Value, json};

/// A model that gives back rows of four, and `x.npy` with two of them.
fn room() -> Room {
    let room = Room::identity("f32", "?,?");
    let values = [0.125, 0.5, 0.25, f32::NAN, 1.0, -3.0, 1.0, 0.0];
    room.write("x.npy", &npy("<f4", false, "(2, 4)", &f32s(&values)));
    room.write("one.npy", &npy("<f4", false, "(1, 4)", &f32s(&values[4..])));
    room.write("labels.txt", b"cat\r\ndog\nbig bird\nfish\n");
    room
}

#[test]
fn the_largest_of_one_row() {
    let room = room();
    let out = room.irrun("model.xml -i one.npy --top 3").good();
    let expected = "output  name  value  index\n\
                    0       y     1      0\n\
                    0       y     1      2\n\
                    0       y     0      3\n";
    assert_eq!(out, expected);
    let out = room.irrun("model.xml -i one.npy --top 2 --labels labels.txt").good();
    let expected = "output  name  value  index  label\n\
                    0       y     1      0      cat\n\
                    0       y     1      2      big bird\n";
    assert_eq!(out, expected);
}

#[test]
fn the_largest_of_each_row() {
    let room = room();
    let out = room.irrun("model.xml -i x.npy --top 9").good();
    let expected = "output  name  row  value  index\n\
                    0       y     [0]  0.5    1\n\
                    0       y     [0]  0.25   2\n\
                    0       y     [0]  0.125  0\n\
                    0       y     [1]  1      0\n\
                    0       y     [1]  1      2\n\
                    0       y     [1]  0      3\n\
                    0       y     [1]  -3     1\n";
    assert_eq!(out, expected);
    let many: Vec<f32> = (0..40).map(|i| i as f32).collect();
    room.write("many.npy", &npy("<f4", false, "(20, 2)", &f32s(&many)));
    let out = room.irrun("model.xml -i many.npy --top 1").good();
    assert_eq!(out.lines().count(), 18, "{out}");
    assert!(out.contains("… and 4 more"), "{out}");
}

#[test]
fn json_has_them_too() {
    let room = room();
    let report = room.irrun("model.xml -i x.npy --top 1 --labels labels.txt --json").good();
    let report: Value = serde_json::from_str(&report).unwrap();
    let expected = json!([
        {"at": [0], "values": [{"index": 1, "value": 0.5, "label": "dog"}]},
        {"at": [1], "values": [{"index": 0, "value": 1.0, "label": "cat"}]},
    ]);
    assert_eq!(report["outputs"][0]["top"], expected);
    let report = room.irrun("model.xml -i x.npy --json").good();
    assert!(!report.contains("\"top\""), "{report}");
}

/// A row of one value has no largest: the output is summarised as without the flag.
#[test]
fn outputs_without_rows_are_summarised() {
    let room = room();
    room.write("column.npy", &npy("<f4", false, "(4, 1)", &f32s(&[1., 2., 3., 4.])));
    let plain = room.irrun("model.xml -i column.npy").good();
    assert_eq!(room.irrun("model.xml -i column.npy --top 5").good(), plain);
    let text = Room::identity("string", "?");
    let plain = text.irrun("model.xml --text ab").good();
    assert_eq!(plain, "ab\n");
    assert!(text.irrun("model.xml --text ab --top 5").good().contains("string"));
}

#[test]
fn outputs_that_are_written_are_shown_all_the_same() {
    let room = room();
    let out = room.irrun("model.xml -i one.npy --top 1 -o y.npy").good();
    assert!(out.contains("value") && room.path("y.npy").exists(), "{out}");
}

#[test]
fn labels_of_the_model() {
    let room = room();
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let info = r#"<rt_info><model_info><labels value="cat dog big_bird fish"/></model_info></rt_info></net>"#;
    room.write("model.xml", text.replace("</net>", info).as_bytes());
    let out = room.irrun("model.xml -i one.npy --top 2").good();
    assert!(out.ends_with("big bird\n"), "{out}");
    room.write("other.txt", b"a\nb\nc\nd");
    let out = room.irrun("model.xml -i one.npy --top 2 --labels other.txt").good();
    assert!(out.ends_with("c\n"), "{out}");
}

#[test]
fn mistakes_are_told() {
    let room = room();
    room.write("short.txt", b"cat\n");
    let run = "model.xml -i one.npy";
    room.write("l.npy", b"a\nb\nc\nd\n");
    let over = "l.npy is the labels, which would be overwritten";
    says(&room, &format!("{run} --top 1 --labels l.npy -o l.npy"), 2, &[over]);
    says(&room, &format!("{run} --top 0"), 2, &["give a whole number from 1 on"]);
    says(&room, &format!("{run} --labels labels.txt"), 2, &["--top"]);
    says(
        &room,
        &format!("{run} --top 1 --labels label.txt"),
        4,
        &["label.txt cannot be read", "did you mean \"labels.txt\"?"],
    );
    says(&room, &format!("{run} --top 1 --labels model.xml --labels x"), 2, &["--labels"]);
    says(
        &room,
        &format!("{run} --top 1 --labels short.txt"),
        0,
        &["note: y has 4 values in a row, but 1 label"],
    );
}
