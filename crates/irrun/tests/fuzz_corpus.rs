//! The fuzz targets, each tried on its corpus (`fuzz/corpus`), on changes of it and on bytes from a
//! seed, without libFuzzer.
//!
//! `FUZZ_COUNT=10000 FUZZ_SEED=7` tries more and others. A file that libFuzzer has found something
//! with belongs into the corpus, where it is tried first.

#[allow(unreachable_pub, reason = "a crate of its own for libFuzzer")]
#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;
mod support;

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use support::rng::Rng;

/// Some bytes of one input are flipped, cut, doubled, or replaced by those of another.
fn change(inputs: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let pick = rng.below(inputs.len());
    let mut bytes = inputs[pick].clone();
    for _ in 0..1 + rng.below(4) {
        let (at, len) = (rng.below(bytes.len()), 1 + rng.below(16));
        let end = bytes.len().min(at + len);
        match rng.below(5) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << rng.below(8)),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            3 => bytes.iter_mut().skip(at).take(len).for_each(|b| *b = rng.next().to_le_bytes()[0]),
            _ => {
                let other = &inputs[rng.below(inputs.len())];
                let from = rng.below(other.len());
                let part = other.iter().copied().skip(from).take(4 * len);
                bytes.splice(at..end, part.collect::<Vec<u8>>());
            }
        }
    }
    bytes
}

/// The kept inputs of a target, sorted by name.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let read = |path: std::path::PathBuf| (path.display().to_string(), fs::read(&path).unwrap());
    let mut files: Vec<_> = entries.map(|entry| read(entry.unwrap().path())).collect();
    files.sort();
    files
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Tries a target on its corpus, on so many changes of it, and on as many strings of bytes.
fn holds(name: &str, count: u64) {
    let (_, target) = fuzz::TARGETS.into_iter().find(|(own, _)| *own == name).unwrap();
    let mut failures = Vec::new();
    let mut attempt = |what: &str, bytes: &[u8]| {
        if catch_unwind(|| target(bytes)).is_err() {
            let text = match name {
                "propagate" => fuzz::propagate::text(bytes),
                "run" => fuzz::run::text(bytes),
                _ => bytes.escape_ascii().to_string(),
            };
            failures.push(format!("{what}:\n{text}"));
        }
    };
    let kept = corpus(name);
    kept.iter().for_each(|(path, bytes)| attempt(path, bytes));
    let kept: Vec<Vec<u8>> = kept.into_iter().map(|(_, bytes)| bytes).collect();
    let seed = number("FUZZ_SEED", 1);
    for i in 0..number("FUZZ_COUNT", count) {
        let mut rng = Rng((seed << 32) + i);
        attempt(&format!("change {i} of seed {seed}"), &change(&kept, &mut rng));
        attempt(&format!("bytes {i} of seed {seed}"), &rng.bytes(400));
    }
    assert!(failures.is_empty(), "{name}, {} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn bin() {
    holds("bin", 400);
}

#[test]
fn case() {
    holds("case", 400);
}

#[test]
fn media() {
    holds("media", 200);
}

#[test]
fn npy() {
    holds("npy", 400);
}

#[test]
fn propagate() {
    holds("propagate", 400);
}

#[test]
fn run() {
    holds("run", 150);
}

#[test]
fn shapes() {
    holds("shapes", 100);
}

#[test]
fn xml() {
    holds("xml", 400);
}

/// Graphs are written for other implementations: `HUNT_DIR` says where, `HUNT_SEED` is the number
/// of the first, `HUNT_COUNT` how many there are (`make hunt`). Nothing panics.
#[test]
fn hunt() {
    let own = tempfile::tempdir().unwrap();
    let dir = std::env::var_os("HUNT_DIR").map_or(own.path().to_path_buf(), Into::into);
    let first = number("HUNT_SEED", 1);
    let lines: Vec<String> = (first..first + number("HUNT_COUNT", 40))
        .map(|number| fuzz::hunt::write(&dir, number) + "\n")
        .collect();
    fs::write(dir.join("graphs.txt"), lines.concat()).unwrap();
    let is = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert!(is(" ok") * 2 > lines.len(), "{}", lines.concat());
    assert!(is(" panic") == 0 || std::env::var_os("HUNT_DIR").is_some(), "{}", lines.concat());
}

/// A clone stays small, and each target has something to begin with.
#[test]
fn the_corpus_is_small() {
    let sizes = fuzz::TARGETS.map(|(name, _)| {
        let files = corpus(name);
        assert!(!files.is_empty(), "{name}");
        files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    });
    assert!(sizes.iter().sum::<usize>() <= 300_000, "{sizes:?}");
}
