//! A temporary directory with a small model, and the `irrun` binary run in it.
#![allow(dead_code)]

pub(crate) mod rng;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Reshape of f32[2,3] to [3,2]. The pattern lies in `model.bin`.
pub(crate) const MODEL: &str = r#"<?xml version="1.0"?>
<net name="small" version="11">
	<layers>
		<layer id="0" name="x" type="Parameter" version="opset1">
			<data shape="2,3" element_type="f32"/>
			<output><port id="0" precision="FP32" names="x:0"><dim>2</dim><dim>3</dim></port></output>
		</layer>
		<layer id="1" name="pattern" type="Const" version="opset1">
			<data element_type="i64" shape="2" offset="0" size="16"/>
			<output><port id="0" precision="I64"><dim>2</dim></port></output>
		</layer>
		<layer id="2" name="r" type="Reshape" version="opset1">
			<data special_zero="true"/>
			<input><port id="0"/><port id="1"/></input>
			<output><port id="2" precision="FP32" names="r:0"><dim>3</dim><dim>2</dim></port></output>
		</layer>
		<layer id="3" name="y" type="Result" version="opset1">
			<input><port id="0"/></input>
		</layer>
	</layers>
	<edges>
		<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
		<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
		<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
	</edges>
</net>
"#;

/// What a run of the binary gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Exit code and everything printed, for a snapshot.
    pub(crate) fn report(&self) -> String {
        let part = |name: &str, text: &str| match text.trim_end() {
            "" => String::new(),
            text => format!("\n--- {name}\n{text}"),
        };
        let (out, err) = (part("stdout", &self.stdout), part("stderr", &self.stderr));
        format!("exit code {}{out}{err}", self.code)
    }

    /// Standard output, of a run that must have gone well.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, 0, "{}", self.report());
        self.stdout
    }
}

/// A directory for one test, in which the binary runs.
pub(crate) struct Room(TempDir);

impl Room {
    /// With the model, its weights, and `x.npy` = 0 to 5.
    pub(crate) fn new() -> Room {
        let room = Room(tempfile::tempdir().unwrap());
        room.write("model.xml", MODEL.as_bytes());
        room.write("model.bin", &i64s(&[3, 2]));
        room.write("x.npy", &npy("<f4", false, "(2, 3)", &f32s(&[0., 1., 2., 3., 4., 5.])));
        room
    }

    /// The model with a piece of its text replaced.
    pub(crate) fn with_model(from: &str, to: &str) -> Room {
        let room = Room::new();
        assert!(MODEL.contains(from), "the model has no {from}");
        room.write("model.xml", MODEL.replacen(from, to, 1).as_bytes());
        room
    }

    /// With a Parameter that is also the output, to see what becomes of files.
    pub(crate) fn identity(element_type: &str, shape: &str) -> Room {
        let room = Room::new();
        let model = format!(
            r#"<net name="same" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="{shape}" element_type="{element_type}"/><output><port id="0" precision="UNSPECIFIED"/></output></layer>
<layer id="1" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"#
        );
        room.write("model.xml", model.as_bytes());
        std::fs::remove_file(room.path("model.bin")).unwrap();
        room
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Runs `irrun` with some arguments, divided at blanks.
    pub(crate) fn irrun(&self, args: &str) -> Outcome {
        self.irrun_with(&[], args.split_whitespace())
    }

    /// Runs it with some variables of the environment.
    pub(crate) fn irrun_with<'a, A: AsRef<OsStr> + ?Sized + 'a>(
        &self,
        environment: &[(&str, &str)],
        args: impl IntoIterator<Item = &'a A>,
    ) -> Outcome {
        let mut command = Command::new(env!("CARGO_BIN_EXE_irrun"));
        command.envs(environment.iter().copied());
        let output = command.current_dir(self.0.path()).args(args).output();
        let output = output.unwrap();
        let here = self.0.path().to_string_lossy().into_owned();
        let text = |bytes| untimed(&String::from_utf8_lossy(bytes).replace(&here, "DIR"));
        Outcome {
            code: output.status.code().expect("it ends by itself"),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// A text in which the time that tests took is always the same.
pub(crate) fn untimed(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" in ") {
        Some((start, time)) if start.contains(" passed, ") && time.ends_with(" s\n") => {
            format!("{start} in 0.0 s\n")
        }
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// An `.npy` file of version 1.
pub(crate) fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(dict.len()).unwrap().to_le_bytes());
    file.extend(dict.as_bytes());
    file.extend(data);
    file
}

pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub(crate) fn i64s(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Runs the binary and looks for what it must say and how it must end.
#[track_caller]
pub(crate) fn says(room: &Room, args: &str, code: i32, pieces: &[&str]) {
    let outcome = room.irrun(args);
    assert_eq!(outcome.code, code, "irrun {args}: {}", outcome.report());
    for piece in pieces {
        assert!(
            outcome.report().contains(piece),
            "{piece:?} in irrun {args}: {}",
            outcome.report()
        );
    }
}

/// Header text and data of an `.npy` that irrun wrote, which must begin at a multiple of 64.
pub(crate) fn written(room: &Room, name: &str) -> (String, Vec<u8>) {
    let file = room.read(name);
    assert!(file.starts_with(b"\x93NUMPY\x01\x00"));
    let end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    assert_eq!(end % 64, 0, "numpy aligns the data");
    let header = std::str::from_utf8(&file[10..end]).unwrap();
    assert!(header.ends_with('\n'));
    (header.trim_end().to_owned(), file[end..].to_vec())
}

/// The header that numpy writes.
pub(crate) fn header(descr: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}")
}
