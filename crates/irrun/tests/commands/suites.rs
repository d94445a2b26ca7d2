//! `irrun test`: case folders, suite files, digests, and how outcomes are reported.

use crate::support::{Room, f32s, npy, says};

/// A folder with everything of a case.
fn case(room: &Room, dir: &str, expected: &[f32]) {
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("{dir}/{file}"), &room.read(file));
    }
    room.write(&format!("{dir}/input_0.npy"), &room.read("x.npy"));
    room.write(&format!("{dir}/expected_0.npy"), &npy("<f4", false, "(3, 2)", &f32s(expected)));
    room.write(&format!("{dir}/case.json"), br#"{"inputs": [{}], "outputs": [{"rtol": 1e-6}]}"#);
}

#[test]
fn cases_are_chosen_and_reported() {
    let room = Room::new();
    let good = [0., 1., 2., 3., 4., 5.];
    for dir in ["t/a", "t/b", "t/c", "t/deep/d"] {
        case(&room, dir, &good);
    }
    case(&room, "t/bad", &[0., 1.1, 2., 3., 4., 5.]);
    let differs = "FAILED t/bad: output 0: 1 of 6 elements differ; worst at [0, 1]: got 1, \
                   expected 1.1 (difference 0.1, allowed 1.1e-6)";
    says(&room, "test t", 1, &[differs, "4 passed, 1 failed in"]);
    let chosen = ["passed t/a", "passed t/deep/d", "2 passed, 0 failed in"];
    says(&room, "test t --filter a --filter */deep/* --verbose", 0, &chosen);
    says(&room, "test t --filter x*", 2, &["--filter: no case is named x*"]);
    let marked = "::error file=t/bad/case.json,title=irrun test::output 0: 1 of 6";
    says(&room, "test t --github", 1, &[marked]);
    // All parts together are all cases, each once.
    let mut seen: Vec<String> = Vec::new();
    for part in 1..=3 {
        let out = room.irrun(&format!("test t --verbose --shard {part}/3"));
        let is_case = |line: &&str| line.starts_with("passed ") || line.starts_with("FAILED ");
        seen.extend(out.stdout.lines().filter(is_case).map(str::to_owned));
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5, "{seen:?}");
    says(&room, "test t --shard 4/3", 2, &["give a part and the number of parts, as in 1/4"]);
    assert_eq!(room.irrun("test t --junit out.xml").code, 1);
    let xml = String::from_utf8(room.read("out.xml")).unwrap();
    assert!(xml.contains(r#"tests="5" failures="1" skipped="0""#), "{xml}");
    let stopped = room.irrun("test t --fail-fast --threads 1").stdout;
    assert!(stopped.contains("1 failed"), "{stopped}");
    std::fs::remove_file(room.path("t/a/case.json")).unwrap();
    let note = "note: t/a has a model and goldens, but no case.json";
    says(&room, "test t", 1, &[note]);
    assert_eq!(room.irrun("test t t").stderr.matches(note).count(), 1, "it is told once");
    says(&room, "test nosuch.toml", 2, &["there is no file nosuch.toml"]);
    room.write("t/b/case.json", br#"{"inputs": [{}], "outptus": [{}], "rtoll": 1}"#);
    let misspelt =
        ["key \"outptus\"; did you mean \"outputs\"?", "\"rtoll\"; did you mean \"rtol\"?"];
    says(&room, "test t/b", 1, &misspelt);
}

/// What a model gives now is a case, which passes until a golden is another.
#[test]
fn a_case_is_recorded_and_renewed() {
    let room = Room::new();
    let record = "test model.xml --record cases/first --input x.npy";
    says(&room, record, 0, &["recorded cases/first: 1 input, 1 output", "r:0: f32[3,2]"]);
    says(&room, record, 2, &["cases/first has a case.json already", "--update"]);
    says(&room, "test model.xml --record cases/second", 2, &["an input is not given"]);
    room.irrun("test cases").good();
    assert_eq!(room.read("cases/first/input_0.npy"), {
        room.irrun("model.xml -i x.npy -o y.npy").good();
        let same = room.read("cases/first/expected_0.npy") == room.read("y.npy");
        assert!(same, "the golden is what the model gives");
        let again = "cases/first/model.xml -i cases/first/input_0.npy -o z.npy";
        room.irrun(again).good();
        assert_eq!(room.read("z.npy"), room.read("y.npy"));
        room.read("cases/first/input_0.npy")
    });
    let other = npy("<f4", false, "(3, 2)", &f32s(&[0., 1., 2., 3., 4., 6.]));
    room.write("cases/first/expected_0.npy", &other);
    assert_eq!(room.irrun("test cases").code, 1);
    let changed = ["updated cases/first: expected_0.npy: 1 of 6", "0 passed, 0 failed, 1 updated"];
    says(&room, "test cases --update", 0, &changed);
    says(&room, "test cases --update", 0, &["1 passed, 0 failed in"]);
    room.irrun("test cases").good();
}

#[test]
fn digests_pin_outputs_without_goldens() {
    let room = Room::new();
    case(&room, "t/a", &[0.; 6]);
    std::fs::remove_file(room.path("t/a/expected_0.npy")).unwrap();
    says(&room, "test t --digests m.digests", 2, &["--update makes it"]);
    says(&room, "test t --digests m.digests --update", 0, &["updated t/a: added its digests"]);
    let text = String::from_utf8(room.read("m.digests")).unwrap();
    let stats = "\tmin 0.0000e0 max 5.0000e0 mean 2.5000e0 NaN 0\n";
    assert!(text.contains("\nt/a\t0\tf32[3,2]\t") && text.ends_with(stats), "{text}");
    room.irrun("test t --digests m.digests").good();
    room.irrun("test t --digests m.digests --no-optimize --threads 2").good();
    room.write("t/a/input_0.npy", &npy("<f4", false, "(2, 3)", &f32s(&[0., 1., 2., 3., 4., 6.])));
    let differs = ["FAILED t/a: the digest differs: 0 f32[3,2]", "max 5.0000e0"];
    says(&room, "test t --digests m.digests", 1, &differs);
    case(&room, "t/b", &[0.; 6]);
    let report = room.irrun("test t --digests m.digests").stdout;
    assert!(report.contains("t/b: there is no digest of it"), "{report}");
}

#[test]
fn digests_of_layers_name_the_first_that_differs() {
    let room = Room::new();
    case(&room, "t/a", &[0.; 6]);
    room.irrun("test t --digests l.digests --layers --update").good();
    let text = String::from_utf8(room.read("l.digests")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("t/a\t"));
    let names: Vec<_> = rows.filter_map(|row| row.split('\t').next()).collect();
    assert_eq!(names, ["x:0", "r:0"], "{text}");
    room.irrun("test t --digests l.digests --layers").good();
    room.irrun("test t --digests l.digests --layers --no-optimize").good();
    let of_layers = ["FAILED t/a: its digests are those of layers; give --layers"];
    says(&room, "test t --digests l.digests", 1, &of_layers);
    room.irrun("test t --digests o.digests --update").good();
    let of_outputs = ["FAILED t/a: its digests are those of outputs; leave --layers out"];
    says(&room, "test t --digests o.digests --layers", 1, &of_outputs);
    room.write("t/a/input_0.npy", &npy("<f4", false, "(2, 3)", &f32s(&[0., 1., 2., 3., 4., 6.])));
    let differs = "FAILED t/a: the digest differs: x:0 f32[2,3]";
    says(&room, "test t --digests l.digests --layers", 1, &[differs]);
}

const SUITE: &str = r#"
digests = "suite.digests"
rtol = 1e-6

[[model]]
path = "model.xml"
name = "given"
input = ["x=x.npy"]
expect = "given.npz"
tags = ["small", "golden"]

[[model]]
path = "model.xml"
name = "random"
seed = 3
range = ["x=-1:1"]
tags = ["small"]

[[model]]
path = "other"
input = ["../x.npy"]
shape = ["x[2,3]"]
expect = "other.npy"
rtol = ["r:0:0.5"]
"#;

/// A suite in a directory of its own: paths begin there.
fn suite() -> Room {
    let room = Room::new();
    for dir in ["s", "s/other"] {
        for file in ["model.xml", "model.bin"] {
            room.write(&format!("{dir}/{file}"), &room.read(file));
        }
    }
    room.write("s/x.npy", &room.read("x.npy"));
    room.write("s/irrun.toml", SUITE.as_bytes());
    room
}

#[test]
fn a_suite_file_lists_models() {
    let room = suite();
    let missing = ["s/suite.digests cannot be read; --update makes it"];
    says(&room, "test s", 2, &missing);
    let made = [
        "updated s/irrun.toml/given: s/given.npz is new",
        "updated s/irrun.toml/random: added its digests",
        "updated s/irrun.toml/other: s/other.npy is new",
        "0 passed, 0 failed, 3 updated",
    ];
    says(&room, "test s --update", 0, &made);
    says(&room, "test s", 0, &["3 passed, 0 failed in"]);
    says(&room, "test s s/irrun.toml --verbose", 0, &["passed s/irrun.toml/random", "3 passed"]);
    says(&room, "test s/irrun.toml --update", 0, &["3 passed, 0 failed in"]);
    // What a suite pins is what a run gives.
    let ran = "s/model.xml -i s/x.npy --expect s/given.npz";
    room.irrun(ran).good();
    let digest = String::from_utf8(room.read("s/suite.digests")).unwrap();
    assert!(digest.lines().any(|line| line.starts_with("random\t0\tf32[3,2]\t")), "{digest}");

    let other = npy("<f4", false, "(3, 2)", &f32s(&[0., 1., 2., 3., 4., 8.]));
    room.write("s/other.npy", &other);
    says(&room, "test s", 0, &["3 passed, 0 failed in"]);
    room.write("s/other.npy", &npy("<f4", false, "(3, 2)", &f32s(&[0., 1., 2., 3., 4., 12.])));
    let differs = "FAILED s/irrun.toml/other: output 0 (r:0): 1 of 6 elements differ";
    says(&room, "test s", 1, &[differs, "2 passed, 1 failed"]);
    says(&room, "test s --github", 1, &["::error file=s/irrun.toml,title=irrun test::output 0"]);
    says(&room, "test s --tag small", 0, &["2 passed, 0 failed in"]);
    says(&room, "test s --tag small --tag golden --filter given", 0, &["1 passed"]);
    says(
        &room,
        "test s --tag smal",
        2,
        &["no model of a suite file has it; there is golden, small"],
    );
    says(&room, "test s --filter */random", 0, &["1 passed, 0 failed in"]);
}

#[test]
fn what_is_wrong_with_a_suite_file_is_said() {
    let room = suite();
    for (content, code, pieces) in [
        ("", 2, &["s/irrun.toml: it lists no model; each is a table [[model]]"][..]),
        ("[[model]]\npaht = \"a\"\n", 2, &["line 2", "unknown field `paht`"]),
        ("[[model]]\npath = \"model.xml\"\nseed = 1\n", 1, &["nothing says what it must give"]),
        ("[[model]]\npath = \"modle.xml\"\nseed = 1\n", 1, &["did you mean \"s/model.xml\"?"]),
        (
            "[[model]]\npath = \"model.xml\"\nexpect = \"y.npz\"\n",
            1,
            &["FAILED s/irrun.toml/model: an input is not given", "add `input = [\"NAME=FILE\"]`"],
        ),
        (
            "[[model]]\npath = \"model.xml\"\nseed = 1\nrange = [\"x=1\"]\nexpect = \"y.npz\"\n",
            1,
            &["range: give NAME=LO:HI"],
        ),
    ] {
        room.write("s/irrun.toml", content.as_bytes());
        says(&room, "test s", code, pieces);
    }
    room.write("s/irrun.toml", b"[[model]]\npath = \"model.xml\"\nseed = 1\n");
    let first = ["add `expect = \"golden.npz\"` to it", "--update makes them then"];
    says(&room, "test s --update", 1, &first);
    says(&room, "test x.npy", 2, &["x.npy is a file", "or a suite file such as irrun.toml"]);
}

/// Pictures of a suite file and of a recorded case are read as the flags say.
#[test]
fn pictures_of_suites_and_cases() {
    let room = Room::identity("f32", "1,3,1,1");
    let pixel = image::RgbImage::from_pixel(2, 2, image::Rgb([10, 20, 30]));
    pixel.save(room.path("x.png")).unwrap();
    room.write("golden.npy", &npy("<f4", false, "(1, 3, 1, 1)", &f32s(&[7.25, 4.5, 2.0])));
    let list = |keys: &str| {
        let model =
            "[[model]]\npath = \"model.xml\"\ninput = [\"x.png\"]\nexpect = \"golden.npy\"\n";
        room.write("irrun.toml", format!("{model}{keys}").as_bytes());
    };
    list("mean = [1, 2, 2.0]\nscale = 4\nchannels = \"bgr\"\n");
    says(&room, "test irrun.toml", 0, &["1 passed"]);
    list("mean = [1, 2, 2.0]\nscale = 4\n");
    says(&room, "test irrun.toml", 1, &["1 failed"]);
    list("channels = \"brg\"\n");
    says(&room, "test irrun.toml", 2, &["brg"]);
    let flags = "--mean 1,2,2 --scale 4 --channels bgr";
    room.irrun(&format!("test model.xml --record case -i x.png {flags}")).good();
    assert!(room.read("case/input_0.npy").ends_with(&f32s(&[7.25, 4.5, 2.0])));
    says(&room, "test case --mean 1", 2, &["are for --record; a suite file has keys for them"]);
}

#[test]
fn a_golden_overwrites_nothing_that_is_read() {
    let room = suite();
    let before = room.read("s/x.npy");
    let suite = "[[model]]\npath = \"model.xml\"\ninput = [\"x.npy\"]\nexpect = \"x.npy\"\n";
    room.write("s/irrun.toml", suite.as_bytes());
    let refused = "FAILED s/irrun.toml/model: s/x.npy is an input, which would be overwritten";
    says(&room, "test s --update", 1, &[refused]);
    assert_eq!(room.read("s/x.npy"), before);
}
