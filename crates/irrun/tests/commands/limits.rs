//! Limits of a command and its interruption: messages, exit codes, and no file half written.

use crate::support::{Room, i64s, npy};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use zip::write::SimpleFileOptions;

/// A Loop without a count, whose condition is always true.
const ENDLESS: &str = r#"<net name="endless" version="11"><layers>
<layer id="0" name="n" type="Parameter" version="opset1"><data shape="" element_type="i64"/><output><port id="0" precision="I64"/></output></layer>
<layer id="1" name="trips" type="Const" version="opset1"><data element_type="i64" shape="" offset="0" size="8"/><output><port id="0" precision="I64"/></output></layer>
<layer id="2" name="go" type="Const" version="opset1"><data element_type="boolean" shape="" offset="8" size="1"/><output><port id="0" precision="BOOL"/></output></layer>
<layer id="3" name="spin" type="Loop" version="opset5"><data/>
<input><port id="0" precision="I64"/><port id="1" precision="BOOL"/><port id="2" precision="I64"/></input><output><port id="3" precision="I64"/></output>
<port_map><input external_port_id="2" internal_layer_id="0"/><output external_port_id="3" internal_layer_id="2"/><output external_port_id="-1" internal_layer_id="4" purpose="execution_condition"/></port_map>
<back_edges><edge from-layer="2" to-layer="0"/></back_edges>
<body><layers>
<layer id="0" name="i" type="Parameter" version="opset1"><data shape="" element_type="i64"/><output><port id="0" precision="I64"/></output></layer>
<layer id="1" name="negated" type="Negative" version="opset1"><input><port id="0" precision="I64"/></input><output><port id="1" precision="I64"/></output></layer>
<layer id="2" name="next" type="Result" version="opset1"><input><port id="0"/></input></layer>
<layer id="3" name="true" type="Const" version="opset1"><data element_type="boolean" shape="" offset="8" size="1"/><output><port id="0" precision="BOOL"/></output></layer>
<layer id="4" name="again" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/><edge from-layer="1" from-port="1" to-layer="2" to-port="0"/><edge from-layer="3" from-port="0" to-layer="4" to-port="0"/></edges></body></layer>
<layer id="4" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="3" to-port="2"/><edge from-layer="1" from-port="0" to-layer="3" to-port="0"/><edge from-layer="2" from-port="0" to-layer="3" to-port="1"/><edge from-layer="3" from-port="3" to-layer="4" to-port="0"/></edges></net>"#;

/// Numbers from 0 to an input.
const RANGE: &str = r#"<net name="numbers" version="11"><layers>
<layer id="0" name="n" type="Parameter" version="opset1"><data shape="" element_type="i64"/><output><port id="0" precision="I64"/></output></layer>
<layer id="1" name="zero" type="Const" version="opset1"><data element_type="i64" shape="" offset="0" size="8"/><output><port id="0" precision="I64"/></output></layer>
<layer id="2" name="one" type="Const" version="opset1"><data element_type="i64" shape="" offset="8" size="8"/><output><port id="0" precision="I64"/></output></layer>
<layer id="3" name="count" type="Range" version="opset4"><data output_type="i64"/><input><port id="0" precision="I64"/><port id="1" precision="I64"/><port id="2" precision="I64"/></input><output><port id="3" precision="I64"/></output></layer>
<layer id="4" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="1" from-port="0" to-layer="3" to-port="0"/><edge from-layer="0" from-port="0" to-layer="3" to-port="1"/><edge from-layer="2" from-port="0" to-layer="3" to-port="2"/><edge from-layer="3" from-port="3" to-layer="4" to-port="0"/></edges></net>"#;

fn endless() -> Room {
    let room = Room::new();
    room.write("model.xml", ENDLESS.as_bytes());
    room.write("model.bin", &[&i64s(&[-1])[..], &[1]].concat());
    room.write("n.npy", &npy("<i8", false, "()", &i64s(&[7])));
    room
}

#[test]
fn a_loop_without_end_ends_in_time() {
    let room = endless();
    let start = Instant::now();
    let outcome = room.irrun("model.xml --input n.npy --output y.npy --timeout 0.5");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(outcome.code, 5, "{}", outcome.report());
    for piece in ["Loop \"spin\"", "the time limit of 0.5 s is over"] {
        assert!(outcome.stderr.contains(piece), "{piece} in\n{}", outcome.stderr);
    }
    assert!(!room.path("y.npy").exists());
}

/// A mapped file that shrinks may stop a process with a signal; one that was read cannot.
#[test]
fn files_that_are_read_may_shrink() {
    let room = endless();
    let flags = ["model.xml", "--input", "n.npy", "--no-mmap", "--timeout", "2"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_irrun"));
    let command = command.current_dir(room.path(".")).args(flags).stderr(Stdio::piped());
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    room.write("model.bin", b"");
    room.write("n.npy", b"");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("Loop \"spin\"") && said.contains("time limit"), "{said}");
    let cut = room.irrun("check model.xml --no-mmap");
    assert!(cut.stdout.contains("bytes"), "{}", cut.report());
    assert_eq!(cut.code, room.irrun("check model.xml").code);
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_names_its_layer() {
    let room = endless();
    for (signal, name, code) in [("INT", "interrupted", 130), ("TERM", "terminated", 143)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_irrun"));
        command.args(["model.xml", "--input", "n.npy", "--output", "y.npy"]);
        let command =
            command.current_dir(room.path(".")).stderr(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        // It has begun by then, or its signals end it as those of any process: then it fails below.
        std::thread::sleep(Duration::from_secs(1));
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(name) && said.contains("Loop \"spin\""), "{said}");
        let files = std::fs::read_dir(room.path(".")).unwrap();
        let names: Vec<_> = files.map(|f| f.unwrap().file_name()).collect();
        assert!(names.iter().all(|n| !n.to_string_lossy().starts_with(".irrun-")), "{names:?}");
        assert!(!room.path("y.npy").exists());
    }
}

#[test]
fn memory_is_refused_before_it_is_taken() {
    let room = Room::new();
    room.write("model.xml", RANGE.as_bytes());
    room.write("model.bin", &i64s(&[0, 1]));
    room.write("n.npy", &npy("<i8", false, "()", &i64s(&[1 << 27])));
    let outcome = room.irrun("model.xml --input n.npy --max-memory 256M");
    assert_eq!(outcome.code, 5, "{}", outcome.report());
    for piece in ["Range \"count\"", "it needs 1073741824 bytes", "of the 268435456 bytes"] {
        assert!(outcome.stderr.contains(piece), "{piece} in\n{}", outcome.stderr);
    }
    room.write("n.npy", &npy("<i8", false, "()", &i64s(&[1 << 20])));
    room.irrun("model.xml --input n.npy --max-memory 256M").good();
}

#[test]
fn an_archive_that_inflates_is_refused() {
    let room = Room::new();
    let mut zip = zip::ZipWriter::new(std::fs::File::create(room.path("x.npz")).unwrap());
    zip.start_file("x.npy", SimpleFileOptions::default()).unwrap();
    zip.write_all(&npy("<f4", false, "(16777216,)", &vec![0; 1 << 26])).unwrap();
    zip.finish().unwrap();
    assert!(std::fs::metadata(room.path("x.npz")).unwrap().len() < 1 << 20);
    let outcome = room.irrun("model.xml --input x.npz --max-memory 32M");
    assert_eq!(outcome.code, 4, "{}", outcome.report());
    let piece = "array \"x\": it takes 67108939 bytes, more than the memory limit leaves";
    assert!(outcome.stderr.contains(piece), "{}", outcome.stderr);
}

#[test]
fn limits_must_be_numbers() {
    let room = Room::new();
    for (flag, wanted) in [("--timeout 0", "such as 2.5"), ("--max-memory 3X", "such as 512M")] {
        let outcome = room.irrun(&format!("check model.xml {flag}"));
        assert_eq!(outcome.code, 2, "{}", outcome.report());
        assert!(outcome.stderr.contains(wanted), "{}", outcome.stderr);
    }
}

/// A limit below what any model takes is a message too, and not the end of the process.
#[test]
fn the_smallest_limits_are_refused_with_a_message() {
    let room = Room::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/swin_block");
    for limit in ["1K", "4K", "16K", "100K"] {
        let input = format!("{model}/input_0.npy");
        let outcome = room.irrun(&format!("{model} -i {input} --max-memory {limit}"));
        assert_eq!(outcome.code, 5, "{limit}: {}", outcome.report());
        assert!(outcome.stderr.contains("the memory limit"), "{}", outcome.stderr);
    }
}

/// A sum over inputs of some rows of 4 MiB.
const SUM: &str = r#"<net name="sum" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,1024,1024" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="1" name="sine" type="Sin" version="opset1"><input><port id="0"/></input><output><port id="1" precision="FP32"/></output></layer>
<layer id="2" name="axes" type="Const" version="opset1"><data element_type="i64" shape="2" offset="0" size="16"/><output><port id="0" precision="I64"/></output></layer>
<layer id="3" name="all" type="ReduceSum" version="opset1"><data keep_dims="false"/><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"/></output></layer>
<layer id="4" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/><edge from-layer="1" from-port="1" to-layer="3" to-port="0"/><edge from-layer="2" from-port="0" to-layer="3" to-port="1"/><edge from-layer="3" from-port="2" to-layer="4" to-port="0"/></edges></net>"#;

/// Eight at a time would need 256 MiB: they wait for one another. One that alone needs more than
/// there is fails by itself, and says so.
#[test]
fn models_of_a_suite_share_the_memory_there_is() {
    let room = Room::new();
    room.write("sum.xml", SUM.as_bytes());
    room.write("sum.bin", &i64s(&[1, 2]));
    let model = |i: usize, rows: usize| {
        let (path, shape) = ("path = \"sum.xml\"", format!("shape = [\"x[{rows},1024,1024]\"]"));
        format!("[[model]]\nname = \"m{i}\"\n{path}\nseed = {i}\n{shape}\n")
    };
    let many: String = (0..12).map(|i| model(i, 4)).collect();
    let head = "digests = \"m.digests\"\n";
    room.write("irrun.toml", format!("{head}{many}").as_bytes());
    let update = "test irrun.toml --update --threads 8 --max-memory 120M";
    let outcome = room.irrun(update);
    assert_eq!(outcome.code, 0, "{}", outcome.report());
    assert!(outcome.stdout.contains("12 updated"), "{}", outcome.stdout);
    let same = room.irrun("test irrun.toml --threads 8 --max-memory 120M").good();
    assert!(same.contains("12 passed, 0 failed"), "{same}");
    let large = model(12, 100);
    room.write("irrun.toml", format!("{head}{many}{large}").as_bytes());
    let outcome = room.irrun("test irrun.toml --threads 8 --max-memory 120M");
    assert_eq!(outcome.code, 1, "{}", outcome.report());
    let said = &outcome.stdout;
    assert!(said.contains("12 passed, 1 failed"), "{said}");
    assert!(said.contains("FAILED irrun.toml/m12: ") && said.contains("memory limit"), "{said}");
}
