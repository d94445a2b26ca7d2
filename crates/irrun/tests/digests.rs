//! The same bits everywhere: the outputs of all fixtures and models have the digests that
//! `docs/digests/` lists, with each instruction set of the machine, for any number of threads, and
//! as optimised and as written. `make digests` writes them anew: a change of bits is a line of the
//! changelog.

use std::path::Path;
use std::process::{Command, Output};

/// How a run may compute, without any influence on its bits.
const INSTRUCTION_SETS: [&str; 4] = ["portable", "avx2", "avx512", "amx"];
const THREADS: [&str; 4] = ["1", "2", "3", "7"];

fn digests(file: &str, flags: &[&str], isa: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_irrun"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("IRRUN_ISA", isa)
        .args(["test", "models", "fixtures", "--digests", file])
        .args(flags)
        .output()
        .unwrap()
}

fn has(isa: &str) -> bool {
    let output =
        Command::new(env!("CARGO_BIN_EXE_irrun")).env("IRRUN_ISA", isa).arg("ops").output();
    output.unwrap().status.success()
}

fn same_bits_everywhere(file: &str, flags: &[&str]) {
    if std::env::var_os("IRRUN_UPDATE").is_some() {
        let made = digests(file, &[flags, &["--update"]].concat(), "portable");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    }
    assert!(has("portable"));
    for isa in INSTRUCTION_SETS.into_iter().filter(|isa| has(isa)) {
        for threads in THREADS {
            let output = digests(file, &[flags, &["--threads", threads]].concat(), isa);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{isa}, {threads} threads: {text}");
        }
    }
}

#[test]
fn optimised_plans_have_the_same_bits_everywhere() {
    same_bits_everywhere("docs/digests/optimised.txt", &[]);
}

#[test]
fn graphs_as_written_have_the_same_bits_everywhere() {
    same_bits_everywhere("docs/digests/as-written.txt", &["--no-optimize"]);
}
