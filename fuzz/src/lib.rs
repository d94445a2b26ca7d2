//! Fuzz targets of irrun: each takes any bytes, and panics if a promise does not hold.
//!
//! `make fuzz TARGET=run MINUTES=5` runs one with libFuzzer. `crates/irrun/tests/fuzz_corpus.rs`
//! includes this file, and runs each target on the inputs below `fuzz/corpus` and on some more.

mod bodies;
mod choices;
mod graphs;
mod noise;
mod table;

pub mod bin;
pub mod case;
pub mod hunt;
pub mod media;
pub mod npy;
pub mod propagate;
pub mod run;
pub mod shapes;
pub mod xml;

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Target); 8] = [
    ("bin", bin::bin),
    ("case", case::case),
    ("media", media::media),
    ("npy", npy::npy),
    ("propagate", propagate::propagate),
    ("run", run::run),
    ("shapes", shapes::shapes),
    ("xml", xml::xml),
];
