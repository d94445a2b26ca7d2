//! The program of the README in a project of its own, where the profiles of this workspace do not
//! count: kernels are not optimised there, and have larger frames.

use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = r#"
[package]
name = "outside"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
"#;

/// The program on a thread with as little stack as those of tests have.
const SMALL_STACK: &str = r#"
mod readme {
    include!("../main.rs");
    pub fn call() {
        main().unwrap();
    }
}

fn main() {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(readme::call).unwrap().join().unwrap();
}
"#;

#[test]
fn the_program_of_the_readme_runs_where_nothing_is_optimised() {
    run(&build(&[]).join("debug"));
}

/// By `make embedding` alone: it takes minutes to build.
#[test]
#[ignore = "takes minutes to build"]
fn the_program_of_the_readme_runs_in_release() {
    run(&build(&["--release"]).join("release"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of the README's block of code in a language.
fn block(language: &str) -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Builds the project in the workspace's target directory, which has some of the packages it needs,
/// and keeps it for the next time. Returns that directory.
fn build(flags: &[&str]) -> PathBuf {
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    std::fs::create_dir_all(project.join("src/bin")).unwrap();
    let crates = format!("path = \"{}/crates/", root().canonicalize().unwrap().display());
    let dependencies = block("toml").replace("[dependencies]\n", "");
    let dependencies = dependencies.replace("path = \"irrun/crates/", &crates);
    write(&project.join("Cargo.toml"), &format!("{MANIFEST}{dependencies}"));
    write(&project.join("src/main.rs"), &block("rust,no_run"));
    write(&project.join("src/bin/small_stack.rs"), SMALL_STACK);
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    std::fs::write(project.join("Cargo.lock"), lock).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet"]).args(flags).current_dir(&project);
    // Lines for debuggers and optimisation across parts change no frame; without, as in the
    // workspace, packages are those it has.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_PROFILE_DEV_LTO", "off");
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.env("CARGO_TARGET_DIR", &target);
    assert!(cargo.status().unwrap().success());
    target
}

/// Writes what has changed alone, since cargo looks at the time.
fn write(file: &Path, text: &str) {
    if std::fs::read_to_string(file).ok().as_deref() != Some(text) {
        std::fs::write(file, text).unwrap();
    }
}

fn run(programs: &Path) {
    for program in ["outside", "small_stack"] {
        for isa in ["portable", "avx2", "avx512", "amx"] {
            let mut command = Command::new(programs.join(program));
            let done = command.env("IRRUN_ISA", isa).current_dir(root()).output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{program}, {isa}: {done:?}");
            assert!(text.starts_with("[1, 16, 16, 32] [-0.2146977"), "{program}, {isa}: {text}");
        }
    }
}
