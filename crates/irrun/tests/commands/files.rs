//! Where files go: nothing that is no file is replaced, nothing that is read is overwritten, and no
//! output is lost.

use crate::support::{self, Room, f32s, npy};

/// The room's model, and every file that it and its input consist of.
const RUN: &str = "model.xml -i x.npy";
const FILES: [&str; 3] = ["model.xml", "model.bin", "x.npy"];

/// Refused as a mistake of the command line, before anything is written.
#[track_caller]
fn refused(room: &Room, args: &str, because: &str) {
    let list = || {
        let entries = std::fs::read_dir(room.path("")).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
        names.sort_unstable();
        names
    };
    let before = (list(), FILES.map(|file| room.read(file)));
    let outcome = room.irrun(args);
    assert_eq!(outcome.code, 2, "irrun {args}\n{}", outcome.report());
    assert!(outcome.stderr.contains(because), "irrun {args}\n{}", outcome.report());
    assert!(before == (list(), FILES.map(|file| room.read(file))), "irrun {args} wrote something");
}

#[test]
fn what_is_read_is_not_overwritten() {
    let room = Room::new();
    std::fs::create_dir(room.path("d")).unwrap();
    for (args, because) in [
        (
            "graph model.xml --format dot -o model.xml",
            "model.xml is the model, which would be overwritten",
        ),
        ("graph . --format dot -o d/../model.xml", "is the model"),
        ("graph model.xml --format dot -o ./model.bin", "is the weights of the model"),
        (&format!("{RUN} -o x.npy"), "x.npy is an input"),
        (&format!("{RUN} -o d/../x.npy"), "is an input"),
        ("model.xml -i x:0=./x.npy -o y=x.npy", "is an input"),
    ] {
        refused(&room, args, because);
    }
    // A model may be called anything.
    std::fs::copy(room.path("model.xml"), room.path("m.npy")).unwrap();
    std::fs::copy(room.path("model.bin"), room.path("m.bin")).unwrap();
    refused(&room, "m.npy -i x.npy -o m.npy", "m.npy is the model");
}

#[test]
fn reports_overwrite_nothing_that_is_read() {
    let room = Room::new();
    for file in ["model.xml", "model.bin"] {
        room.write(&format!("case/{file}"), &room.read(file));
    }
    room.write("case/input_0.npy", &room.read("x.npy"));
    room.irrun(&format!("{RUN} -o case/expected_0.npy --dump-all steps.npz")).good();
    room.write("case/case.json", br#"{"inputs": [{}], "outputs": [{}]}"#);
    room.irrun("test case --junit report.xml").good();
    for (args, because) in [
        ("check model.xml --sarif ./model.xml", "./model.xml is the model, which would be"),
        ("check model.xml --sarif model.bin", "is the weights of the model"),
        ("check model.xml --fix -o a.xml --sarif a.bin", "would be written twice"),
        ("test case --junit case/case.json", "is the description of a case"),
        ("test case --junit case/input_0.npy", "is an input"),
        ("test case --junit case/expected_0.npy", "is what is expected"),
        ("test case --update --digests case/model.xml", "is the model"),
        ("repro model.xml --layer r --random --save-inputs model.xml -o rep", "is the model"),
        ("repro model.xml --layer r -i x.npy --save-inputs x.npy -o rep", "is an input"),
        ("bench case --trace case/input_0.npy", "is an input"),
        ("bench model.xml --html model.html --trace model.bin", "is the weights of the model"),
        ("model.xml -i x.npy --compare-steps steps.npz --dump-all steps.npz", "is the reference"),
        ("model.xml -i x.npy --save-inputs x.npy", "is an input"),
        ("model.xml -i x.npy --expect case -o case/expected_0.npy", "is what is expected"),
    ] {
        refused(&room, args, because);
    }
    let case =
        ["case.json", "input_0.npy", "expected_0.npy"].map(|f| room.read(&format!("case/{f}")));
    assert!(case[0].starts_with(b"{") && case[1..].iter().all(|f| f.starts_with(b"\x93NUMPY")));
    // What another model lies in is no place for a case of this one.
    std::fs::remove_file(room.path("case/case.json")).unwrap();
    refused(
        &room,
        "test model.xml --record case -i x.npy",
        "case/model.xml is the model of another",
    );
    room.irrun("model.xml -i x.npy --save-inputs in.npz").good();
    room.irrun("model.xml -i in.npz").good();
}

#[test]
fn no_file_is_written_twice() {
    let room = Room::new();
    std::fs::create_dir(room.path("d")).unwrap();
    for args in [
        "-o y.npy -o 0=./y.npy",
        "-o y.npy -o 0=d/../y.npy",
        "-o new/y.npy -o 0=new/deep/../y.npy",
        "-o d/ -o d/r_0.npy",
        "-o a.npz -o ./a.npz",
    ] {
        refused(&room, &format!("{RUN} {args}"), "would be written twice");
    }
    room.irrun(&format!("{RUN} -o y.npy -o 0=d/y.npy -o a.npz")).good();
}

#[test]
fn the_state_is_written_once_and_may_go_on() {
    let room = Room::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/state");
    let run = format!("{model} -i {model}/input_0.npy");
    for args in ["-o s.npz --save-state s.npz", "-o 0=./s.npz --save-state s.npz"] {
        refused(&room, &format!("{run} {args}"), "would be written twice");
    }
    room.irrun(&format!("{run} --save-state s.npz")).good();
    room.irrun(&format!("{run} --state s.npz --save-state ./s.npz -o y.npy")).good();
    refused(&room, &format!("{run} --state s.npz -o ./s.npz"), "./s.npz is the state");
    refused(
        &room,
        &format!("{run} --state s.npz --save-state s.npz -o s.npz"),
        "would be written twice",
    );
}

#[cfg(target_os = "linux")]
mod what_is_no_file {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::process::Command;

    /// A room with a pipe `p.npy`.
    fn with_pipe() -> Room {
        let room = Room::new();
        assert!(Command::new("mkfifo").arg(room.path("p.npy")).status().unwrap().success());
        room
    }

    #[test]
    fn a_pipe_is_written_to() {
        let room = with_pipe();
        room.irrun(&format!("{RUN} -o y.npy")).good();
        let pipe = room.path("p.npy");
        let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
        room.irrun(&format!("{RUN} -o p.npy")).good();
        assert_eq!(reader.join().unwrap(), room.read("y.npy"));
        assert!(std::fs::metadata(room.path("p.npy")).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_socket_is_refused_and_stays() {
        let room = Room::new();
        let _listener = std::os::unix::net::UnixListener::bind(room.path("s.npy")).unwrap();
        let outcome = room.irrun(&format!("{RUN} -o s.npy"));
        assert_eq!(outcome.code, 4, "{}", outcome.report());
        assert!(outcome.stderr.contains("s.npy cannot be written"), "{}", outcome.report());
        assert!(std::fs::metadata(room.path("s.npy")).unwrap().file_type().is_socket());
    }

    /// Devices, by links in a directory where a rename could replace them.
    #[test]
    fn a_device_is_written_to() {
        let room = Room::new();
        for (name, device) in [("null", "/dev/null"), ("full", "/dev/full")] {
            symlink(device, room.path(name)).unwrap();
        }
        room.irrun("graph model.xml -o null").good();
        room.irrun(&format!("{RUN} -o null")).good();
        let full = room.irrun("graph model.xml -o full");
        assert_eq!(full.code, 4, "{}", full.report());
        assert!(full.stderr.contains("full cannot be written"), "{}", full.report());
        assert!(room.path("null").is_symlink() && room.path("full").is_symlink());
    }

    #[test]
    fn standard_output_is_written_to_whatever_it_is() {
        let room = Room::new();
        symlink("/proc/self/fd/1", room.path("out")).unwrap();
        let drawing = room.irrun("graph model.xml").good();
        for name in ["out", "/dev/stdout", "/dev/fd/1"] {
            assert_eq!(room.irrun(&format!("graph model.xml -o {name}")).good(), drawing, "{name}");
        }
        for name in ["out", "/dev/stdout", "/dev/fd/1"] {
            room.write("file", b"before\n");
            let file = std::fs::File::options().append(true).open(room.path("file")).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_irrun"));
            command.current_dir(room.path("")).args(["graph", "model.xml", "-o", name]);
            assert!(command.stdout(file).status().unwrap().success());
            let text = String::from_utf8(room.read("file")).unwrap();
            assert_eq!(text.strip_prefix("before\n"), Some(&*drawing), "{name}");
        }
        assert!(room.path("out").is_symlink());
    }

    #[test]
    fn a_link_stays_a_link_and_its_file_is_written() {
        let room = Room::new();
        room.write("there.npy", b"old");
        symlink("there.npy", room.path("y.npy")).unwrap();
        room.irrun(&format!("{RUN} -o y.npy")).good();
        assert!(room.path("y.npy").is_symlink());
        assert_eq!(room.read("there.npy")[..6], *b"\x93NUMPY");
        refused(&room, &format!("{RUN} -o y.npy -o 0=there.npy"), "would be written twice");
        symlink("model.xml", room.path("m.dot")).unwrap();
        refused(&room, "graph model.xml -o m.dot", "m.dot is the model");
        symlink(".", room.path("here")).unwrap();
        refused(&room, &format!("{RUN} -o here/x.npy"), "is an input");
    }
}

/// A result whose name is longer than the system allows for a file.
#[test]
fn long_names_are_cut_to_what_a_file_may_be_called() {
    let room = Room::new();
    let long = "n".repeat(5000);
    let model = support::MODEL.replace(r#"names="r:0""#, &format!(r#"names="{long}""#));
    room.write("model.xml", model.as_bytes());
    room.irrun(&format!("{RUN} -o d/ -o {long}=y.npy")).good();
    let entries = std::fs::read_dir(room.path("d")).unwrap();
    let names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, [format!("0_{}.npy", "n".repeat(200))]);
    assert_eq!(room.read(&format!("d/{}", names[0])), room.read("y.npy"));
}

/// File names that are no text, as Linux allows them.
#[cfg(target_os = "linux")]
#[test]
fn files_may_have_any_name() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;
    let room = Room::new();
    let odd = OsStr::from_bytes(b"n\xff");
    let named = |before: &str, after: &str| -> OsString {
        [OsStr::new(before), odd, OsStr::new(after)].into_iter().collect()
    };
    let beside = |name: &OsStr| room.path("").join(name);
    std::fs::create_dir(beside(odd)).unwrap();
    for (from, to) in
        [("model.xml", named("", "/model.xml")), ("model.bin", named("", "/model.bin"))]
    {
        std::fs::copy(room.path(from), beside(&to)).unwrap();
    }
    std::fs::copy(room.path("x.npy"), beside(&named("", ".npy"))).unwrap();
    for (model, input, output) in [
        (named("", ""), named("", ".npy"), named("y", ".npy")),
        (named("", "/model.xml"), named("x:0=", ".npy"), named("r:0=y", ".npy")),
        ("model.xml".into(), named("0=", ".npy"), named("y", "/")),
    ] {
        let args = [&*model, OsStr::new("-i"), &*input, OsStr::new("-o"), &*output];
        room.irrun_with(&[], args).good();
    }
    let written = std::fs::read(beside(&named("y", ".npy"))).unwrap();
    assert_eq!(written, std::fs::read(beside(&named("y", "/r_0.npy"))).unwrap());
    let missing = room.irrun_with(&[], [&*named("", ".xml")]);
    assert_eq!(missing.code, 3, "{}", missing.report());
    assert!(missing.stderr.contains(".xml cannot be read"), "{}", missing.report());
    let absent = room.irrun_with(&[], [odd, OsStr::new("-i"), &*named("x:0=z", ".npy")]);
    assert_eq!(absent.code, 4, "{}", absent.report());
}

/// A `.safetensors` file by hand: the length of the header, the header, the bytes.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let len = u64::try_from(header.len()).unwrap();
    [&len.to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn safetensors_are_read_and_written() {
    let room = Room::new();
    let values: Vec<f32> = (0..6).map(|i| i as f32 - 2.5).collect();
    let header = r#"{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;
    room.write("in.safetensors", &safetensors(header, &f32s(&values)));
    room.write("in.npy", &npy("<f4", false, "(2, 3)", &f32s(&values)));
    room.irrun("model.xml -i in.safetensors -o out.safetensors").good();
    room.irrun("model.xml -i in.npy -o out.npy").good();
    let (written, expected) = (room.read("out.safetensors"), room.read("out.npy"));
    assert!(written.ends_with(&f32s(&values)) && expected.ends_with(&f32s(&values)));
    let end = 8 + usize::try_from(u64::from_le_bytes(written[..8].try_into().unwrap())).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&written[8..end]).unwrap();
    let tensor = header.as_object().unwrap().values().next().unwrap();
    assert_eq!(tensor["dtype"], "F32");
    room.irrun("model.xml -i in.npy --expect out.safetensors").good();
    room.irrun("diff out.safetensors out.safetensors").good();
    let wide = r#"{"x":{"dtype":"F64","shape":[2,3],"data_offsets":[0,48]}}"#;
    room.write("wide.safetensors", &safetensors(wide, &[0; 48]));
    let refused = room.irrun("model.xml -i wide.safetensors");
    assert!(refused.stderr.contains("give --cast to convert"), "{}", refused.report());
    room.irrun("model.xml -i wide.safetensors --cast").good();
}

#[test]
fn broken_safetensors_are_refused() {
    let room = Room::new();
    let headers = [
        r#"{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,28]}}"#,
        r#"{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[24,0]}}"#,
        r#"{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,24]}}"#,
        r#"{"x":{"dtype":"F99","shape":[2,3],"data_offsets":[0,24]}}"#,
        r#"{"y":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#,
        "{",
        "",
    ];
    for header in headers {
        room.write("x.safetensors", &safetensors(header, &[0; 24]));
        let refused = room.irrun("model.xml -i x.safetensors");
        assert!(matches!(refused.code, 2 | 4), "{header}: {}", refused.report());
        assert!(!refused.stderr.contains("panicked"), "{header}: {}", refused.report());
    }
    for bytes in [&b""[..], &[255; 8], &[255; 64]] {
        room.write("x.safetensors", bytes);
        assert_eq!(room.irrun("model.xml -i x.safetensors").code, 4, "{bytes:?}");
    }
}
