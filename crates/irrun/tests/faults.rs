//! Faults of the system while a command runs: full disks, directories that are gone, too few file
//! descriptors, memory that is refused, kills. Each ends with an exit code of the list and a
//! message, and no file is half written.
//!
//! `FAULTS=1000` kills more often than the tests do (`make faults`).
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{MODEL, Outcome, Room, f32s, i64s, npy};

/// Values of a tensor whose writing takes some milliseconds.
const MANY: usize = 1 << 20;

/// The room's model and input, of many values.
fn large() -> Room {
    let room = Room::new();
    let model = MODEL.replace("2,3", &format!("2,{}", MANY / 2));
    let model =
        model.replace("<dim>2</dim><dim>3</dim>", "").replace("<dim>3</dim><dim>2</dim>", "");
    room.write("model.xml", model.as_bytes());
    room.write("model.bin", &i64s(&[-1, 2]));
    room.write("x.npy", &input(0));
    room
}

/// An input of the large model; another seed, other values.
fn input(seed: usize) -> Vec<u8> {
    let values: Vec<f32> = (0..MANY).map(|i| ((i + seed) % 1021) as f32).collect();
    npy("<f4", false, &format!("(2, {})", MANY / 2), &f32s(&values))
}

/// Runs `irrun` behind commands of a shell.
fn after(room: &Room, prepare: &str, args: &str) -> Outcome {
    let mut command = Command::new("bash");
    let script = format!("{prepare}\nexec \"$0\" {args}");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_irrun")]).current_dir(room.path("."));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Outcome {
        code: output.status.code().unwrap_or_else(|| panic!("{args}: {}", output.status)),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// The command ends with a code, and its message says all of some things.
#[track_caller]
fn refused(room: &Room, prepare: &str, args: &str, code: i32, because: &[&str]) {
    let outcome = after(room, prepare, args);
    assert_eq!(outcome.code, code, "{prepare}; irrun {args}\n{}", outcome.report());
    for piece in because {
        assert!(outcome.stderr.contains(piece), "{args}: {piece} in\n{}", outcome.report());
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.report());
}

/// The files of a room and what they hold, but for temporary ones, which are named as such.
fn files(room: &Room) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(room.path(".")).unwrap().map(Result::unwrap);
    let files = entries.filter(|e| e.file_type().unwrap().is_file());
    let names = files.map(|e| e.file_name().into_string().unwrap());
    names.filter(|n| !n.starts_with(".irrun-")).map(|n| (n.clone(), room.read(&n))).collect()
}

#[test]
fn reports_and_outputs_on_a_full_disk() {
    let room = Room::new();
    let full = ["No space left on device"];
    for args in [
        "model.xml -i x.npy",
        "model.xml -i x.npy --json",
        "check model.xml",
        "inspect model.xml",
        "graph model.xml",
        "diff x.npy x.npy",
        "ops",
        "completions bash",
        "--help",
        "help check",
        "--version",
        "--version --verbose",
    ] {
        refused(&room, "exec > /dev/full", args, 4, &full);
    }
    for output in ["-o /dev/full", "-o y=/dev/full"] {
        let args = format!("model.xml -i x.npy {output}");
        refused(&room, "", &args, 4, &["/dev/full cannot be written", full[0]]);
    }
    // Nobody hears the message, which changes nothing.
    assert_eq!(after(&room, "exec 2> /dev/full", "check model.xml").code, 0);
    assert_eq!(after(&room, "exec 2> /dev/full", "check none.xml").code, 3);
}

#[test]
fn files_that_reach_the_limit_of_their_size() {
    let room = large();
    room.irrun("model.xml -i x.npy -o old.npy").good();
    let before = files(&room);
    for (args, file) in [
        ("model.xml -i x.npy -o y.npy", "y.npy"),
        ("model.xml -i x.npy -o old.npy", "old.npy"),
        ("model.xml -i x.npy -o y.npz", "y.npz"),
        ("model.xml -i x.npy -o y.safetensors", "y.safetensors"),
        ("model.xml -i x.npy --dump-all d.npz", "d.npz"),
    ] {
        let because = [&format!("{file} cannot be written")[..], "File too large"];
        refused(&room, "ulimit -f 64", args, 4, &because);
        assert!(before == files(&room), "{args} left something");
    }
    for args in ["edit model.xml --rename x:0=z -o z.xml", "check model.xml --fix -o z.xml"] {
        refused(&room, "ulimit -f 0", args, 4, &["z.bin cannot be written", "File too large"]);
        assert!(before == files(&room), "{args} left something");
    }
    let names = std::fs::read_dir(room.path(".")).unwrap().map(|e| e.unwrap().file_name());
    assert!(names.into_iter().all(|n| !n.to_string_lossy().starts_with(".irrun-")));
}

#[test]
fn directories_that_cannot_be_written() {
    let room = Room::new();
    // Neither can the superuser make a file here.
    for dir in ["/proc", "/proc/self/fdinfo"] {
        let said = format!("{dir}/y.npy cannot be written");
        refused(&room, "", &format!("model.xml -i x.npy -o {dir}/y.npy"), 4, &[&said]);
        let args = format!("edit model.xml --rename x:0=z -o {dir}/z.xml");
        refused(&room, "", &args, 4, &["cannot be written"]);
    }
    refused(&room, "", "model.xml -i x.npy -o x.npy/y.npy", 4, &["x.npy/y.npy", "directory"]);
    let here = room.path(".");
    let here = here.display();
    let gone = "mkdir gone; cd gone; rmdir ../gone";
    let args = format!("{here}/model.xml -i {here}/x.npy -o y.npy");
    refused(&room, gone, &args, 4, &["y.npy cannot be written", "No such file"]);
}

#[test]
fn readers_that_have_gone() {
    let room = large();
    for args in ["ops", "inspect model.xml", "model.xml -i x.npy", "--help"] {
        // The reader goes before anything is written.
        let outcome = after(&room, "exec > >(exec true); sleep 0.05", args);
        assert_eq!((outcome.code, &outcome.stderr[..]), (0, ""), "{args}");
    }
    let args = "model.xml -i x.npy -o /dev/stdout";
    refused(&room, "exec > >(exec true); sleep 0.05", args, 4, &["cannot be written"]);
}

#[test]
fn too_few_file_descriptors() {
    let room = Room::new();
    let wanted = {
        room.irrun("model.xml -i x.npy -o y.npy").good();
        room.read("y.npy")
    };
    for count in 4..=20 {
        let outcome = after(&room, &format!("ulimit -n {count}"), "model.xml -i x.npy -o z.npy");
        match outcome.code {
            0 => assert_eq!(room.read("z.npy"), wanted, "{count}"),
            3 | 4 => {
                assert!(outcome.stderr.contains("Too many open files"), "{}", outcome.report())
            }
            _ => panic!("{count}: {}", outcome.report()),
        }
        let _ = std::fs::remove_file(room.path("z.npy"));
    }
}

/// Tensors and files that do not fit are refused with a message. What small things of the process
/// itself need is asked for by Rust, which ends the process where it is refused.
#[test]
fn refused_memory() {
    let room = large();
    let fill = r#"<layer id="2" name="r" type="Tile" version="opset1">
			<input><port id="0"/><port id="1"/></input>
			<output><port id="2" precision="FP32" names="r:0"/></output>
		</layer>
		<layer id="3""#;
    let (start, rest) = MODEL.split_once("<layer id=\"2\"").unwrap();
    let (_, end) = rest.split_once("<layer id=\"3\"").unwrap();
    room.write("tile.xml", format!("{start}{fill}{end}").as_bytes());
    room.write("tile.bin", &i64s(&[4096, 4096]));
    let small = npy("<f4", false, "(2, 3)", &f32s(&[0., 1., 2., 3., 4., 5.]));
    room.write("small.npy", &small);
    let because = ["Tile \"r\"", "no memory for u8[402653184]"];
    refused(&room, "ulimit -v 300000", "tile.xml -i small.npy -o y.npy", 5, &because);
    assert!(!room.path("y.npy").exists());
    // The file is larger than what can be mapped.
    room.write("big.bin", &[]);
    let file = std::fs::File::create(room.path("tile.bin")).unwrap();
    file.set_len(1 << 30).unwrap();
    refused(&room, "ulimit -v 300000", "tile.xml -i small.npy", 3, &["tile.bin", "memory"]);
}

/// How often a command is killed.
fn kills() -> u32 {
    std::env::var("FAULTS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}

fn spawn(room: &Room, args: &str) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_irrun"));
    command.current_dir(room.path(".")).args(args.split_whitespace());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a command at moments spread over its time: each file that it writes is the old one or the
/// new one.
#[track_caller]
fn killed(room: &Room, args: &str) {
    let old = files(room);
    let start = Instant::now();
    assert!(spawn(room, args).wait().unwrap().success(), "irrun {args}");
    let time = start.elapsed();
    let new = files(room);
    assert!(old != new, "irrun {args} writes nothing");
    let count = kills();
    for kill in 0..count {
        for name in new.keys() {
            match old.get(name) {
                Some(content) => room.write(name, content),
                None => std::fs::remove_file(room.path(name)).unwrap_or_default(),
            }
        }
        let mut child = spawn(room, args);
        // Most of the writing is near the end.
        let part = f64::from(count - kill) / f64::from(count);
        std::thread::sleep(time.mul_f64(1.05 - part * part));
        child.kill().unwrap();
        child.wait().unwrap();
        for (name, content) in files(room) {
            let known = [&old, &new].iter().any(|files| files.get(&name) == Some(&content));
            assert!(known, "irrun {args}: {name} is half written after kill {kill}");
        }
    }
    remove_temporary(room);
}

fn remove_temporary(room: &Room) {
    for entry in std::fs::read_dir(room.path(".")).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with(".irrun-") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn a_killed_command_leaves_no_half_file() {
    let room = large();
    // Files of the same names with other content, which are replaced.
    room.write("other.npy", &input(1));
    for output in ["y.npy", "y.npz", "y.safetensors"] {
        room.irrun(&format!("model.xml -i other.npy -o {output}")).good();
        killed(&room, &format!("model.xml -i x.npy -o {output}"));
    }
    room.irrun("model.xml -i other.npy --dump-all d.npz").good();
    killed(&room, "model.xml -i x.npy --dump-all d.npz");
    room.irrun("edit model.xml --rename x:0=a -o e.xml").good();
    killed(&room, "edit model.xml --rename x:0=b -o e.xml");
    killed(&room, "check model.xml --fix -o fixed.xml");
}

#[test]
fn a_killed_update_leaves_no_half_golden() {
    let room = large();
    room.write("case.json", br#"{"inputs": [{}], "outputs": [{}]}"#);
    room.write("input_0.npy", &input(0));
    room.irrun("model.xml -i x.npy -o expected_0.npy").good();
    let golden = room.read("expected_0.npy");
    let mut other = golden.clone();
    other.iter_mut().skip(128).for_each(|b| *b ^= 1);
    room.write("expected_0.npy", &other);
    killed(&room, "test . --update");
}

#[test]
fn two_commands_write_one_file() {
    let room = large();
    room.write("other.npy", &input(1));
    let runs = ["x.npy", "other.npy"];
    let wanted = runs.map(|input| {
        room.irrun(&format!("model.xml -i {input} -o y.npy")).good();
        room.read("y.npy")
    });
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let children = runs.map(|input| spawn(&room, &format!("model.xml -i {input} -o y.npy")));
        for mut child in children {
            assert!(child.wait().unwrap().success());
            assert!(wanted.contains(&room.read("y.npy")), "y.npy is a mixture");
        }
    }
}
