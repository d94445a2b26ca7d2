//! Broken models: seeded changes of the fixtures' files must lead to an exit code of the list, in
//! time, without a panic or a signal.
//!
//! `MUTATIONS=10000 MUTATION_SEED=7` tries other and more changes of each fixture, and
//! `MUTATION_DIRS` those of other case folders (`make mutations`). `MUTATIONS_KEPT` names a
//! directory for the broken models and how they ended, which `fuzz/mutations.py` gives to OpenVINO.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use support::rng::Rng;

/// Numbers that stand where others stood.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "3",
    "17",
    "255",
    "65536",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551616",
    "1e308",
    "nan",
    "",
];

/// Types that stand where others stood.
const TYPES: &[&str] = &["f32", "f16", "i64", "u8", "boolean", "string", "u1", "nf4", "dynamic"];

/// A model with one thing changed, and what that was.
fn mutate_xml(text: &[u8], rng: &mut Rng) -> (Vec<u8>, &'static str) {
    let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    let (i, k) = (rng.below(lines.len()), rng.below(lines.len()));
    let joined = |lines: Vec<&[u8]>| lines.concat();
    match rng.below(9) {
        0 => {
            let mut bytes = text.to_vec();
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
            (bytes, "flipped bit")
        }
        1 => (text[..rng.below(text.len())].to_vec(), "truncated"),
        2 => (joined([&lines[..i], &lines[i + 1..]].concat()), "deleted line"),
        3 => (joined([&lines[..=i], &lines[i..]].concat()), "doubled line"),
        4 => {
            let mut lines = lines.clone();
            lines.swap(i, k);
            (joined(lines), "swapped lines")
        }
        5 => (with_number(text, rng), "other number"),
        6 => (with_value(text, b"element_type=\"", rng.pick(TYPES), rng), "other element type"),
        7 => (with_value(text, b" id=\"", rng.pick(NUMBERS), rng), "other id"),
        _ => (with_value(text, b" shape=\"", &shape(rng), rng), "other shape"),
    }
}

fn shape(rng: &mut Rng) -> String {
    let dims: Vec<&str> = (0..rng.below(7)).map(|_| rng.pick(NUMBERS)).collect();
    dims.join(",")
}

/// One of the numbers of a text becomes another.
fn with_number(text: &[u8], rng: &mut Rng) -> Vec<u8> {
    let starts = |i: &usize| {
        text[*i].is_ascii_digit() && !i.checked_sub(1).is_some_and(|p| text[p].is_ascii_digit())
    };
    let places: Vec<usize> = (0..text.len()).filter(starts).collect();
    let Some(&start) = places.get(rng.below(places.len())) else { return text.to_vec() };
    let len = text[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    [&text[..start], rng.pick(NUMBERS).as_bytes(), &text[start + len..]].concat()
}

/// One of the values behind a piece of text, up to its quotation mark, becomes another.
fn with_value(text: &[u8], before: &[u8], value: &str, rng: &mut Rng) -> Vec<u8> {
    let windows = text.windows(before.len()).enumerate();
    let places: Vec<usize> = windows.filter(|(_, w)| *w == before).map(|(i, _)| i).collect();
    let Some(&place) = places.get(rng.below(places.len())) else { return text.to_vec() };
    let start = place + before.len();
    let len = text[start..].iter().take_while(|b| **b != b'"').count();
    [&text[..start], value.as_bytes(), &text[start + len..]].concat()
}

fn mutate_bin(bytes: &[u8], rng: &mut Rng) -> (Vec<u8>, &'static str) {
    let mut bytes = bytes.to_vec();
    let at = rng.below(bytes.len());
    match rng.below(3) {
        0 => bytes.truncate(at),
        1 => bytes.iter_mut().skip(at).take(8).for_each(|b| *b = 0xff),
        _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << rng.below(8)),
    }
    (bytes, "changed .bin")
}

/// Case folders of the repository, or those that a variable names.
fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let default = || vec![root.join("fixtures")];
    let dirs = std::env::var_os("MUTATION_DIRS")
        .map_or_else(default, |dirs| std::env::split_paths(&dirs).collect());
    let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let folders = entries.map(|e| e.unwrap().path()).filter(|p| p.join("model.xml").exists());
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort();
    folders
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a command of `irrun` on a model; what is wrong with how it ended, or its exit code.
fn ended(command: &str, model: &Path) -> Result<i32, String> {
    let mut irrun = Command::new(env!("CARGO_BIN_EXE_irrun"));
    irrun.arg(command).arg(model);
    irrun.args(["--timeout", "10", "--max-memory", "1G"]);
    if command == "bench" {
        irrun.args(["--runs", "1", "--warmup", "0", "--threads", "1"]);
    }
    let output = irrun.output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(code @ 0..=5) if !said.contains("panicked at") => Ok(code),
        code => Err(format!("{command} ended with {code:?} ({})\n{said}", output.status)),
    }
}

/// How the commands ended, by command and exit code.
type Ends = Vec<(&'static str, i32)>;

/// Tries one change of a case.
fn attempt(case: &Path, seed: u64, dir: &Path) -> Result<Ends, String> {
    let mut rng = Rng(seed);
    let read = |name: &str| fs::read(case.join(name)).unwrap_or_default();
    let (mut xml, mut bin) = (read("model.xml"), read("model.bin"));
    let what = if !bin.is_empty() && rng.below(5) == 0 {
        let (changed, what) = mutate_bin(&bin, &mut rng);
        bin = changed;
        what
    } else {
        let (changed, what) = mutate_xml(&xml, &mut rng);
        xml = changed;
        what
    };
    let model = dir.join("model.xml");
    fs::write(&model, xml).unwrap();
    fs::write(dir.join("model.bin"), bin).unwrap();
    let commands = ["check", "bench"];
    let ends = commands.map(|command| Ok((command, ended(command, &model)?)));
    let ends: Result<Ends, String> = ends.into_iter().collect();
    if let Some(kept) = std::env::var_os("MUTATIONS_KEPT") {
        keep(dir, Path::new(&kept), &format!("{seed:x}"), what, &ends);
    }
    ends.map_err(|e| format!("{}, seed {seed} ({what}): {e}", case.display()))
}

/// Copies a broken model to where it is kept, with a line of what was changed and how it ended.
fn keep(dir: &Path, kept: &Path, name: &str, what: &str, ends: &Result<Ends, String>) {
    for file in ["xml", "bin"] {
        let to = kept.join(name).with_extension(file);
        fs::copy(dir.join("model").with_extension(file), to).unwrap();
    }
    let ends = ends.as_ref().map_or(String::from("fault"), |ends| {
        ends.iter().map(|(_, code)| code.to_string()).collect::<Vec<_>>().join(",")
    });
    fs::write(kept.join(name).with_extension("txt"), format!("{ends} {what}")).unwrap();
}

#[test]
fn broken_models_end_as_promised() {
    let (count, seed) = (number("MUTATIONS", 3), number("MUTATION_SEED", 1));
    let cases = cases();
    let next = AtomicUsize::new(0);
    let ends: Mutex<BTreeMap<(&str, i32), usize>> = Mutex::default();
    let failures: Mutex<Vec<String>> = Mutex::default();
    let work = || {
        let dir = tempfile::tempdir().unwrap();
        while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
            for i in 0..count {
                let name = case.file_name().unwrap().to_string_lossy();
                let hash = name.bytes().fold(seed, |h, b| h.wrapping_mul(31) ^ u64::from(b));
                match attempt(case, hash.wrapping_add(i << 32), dir.path()) {
                    Ok(list) => {
                        let mut ends = ends.lock().unwrap();
                        list.into_iter().for_each(|end| *ends.entry(end).or_default() += 1);
                    }
                    Err(message) => failures.lock().unwrap().push(message),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let failures = failures.into_inner().unwrap();
    println!("{} cases, {count} changes each; ends: {:?}", cases.len(), ends.into_inner().unwrap());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// What a body is fed from is no optional input.
#[test]
fn inputs_of_bodies_need_an_edge() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/if_scalar_or_list");
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(case.join("model.xml")).unwrap();
    let edge = r#"<edge from-layer="1" from-port="0" to-layer="2" to-port="1" />"#;
    assert!(text.contains(edge));
    fs::write(dir.path().join("model.xml"), text.replace(edge, "")).unwrap();
    fs::copy(case.join("model.bin"), dir.path().join("model.bin")).unwrap();
    let mut irrun = Command::new(env!("CARGO_BIN_EXE_irrun"));
    let output = irrun.arg("check").arg(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no edge leads into input 1\n"), "{said}");
}
