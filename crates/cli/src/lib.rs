//! What the `irrun` command does: flags, files in and out, reports, golden tests. Public is the
//! command, and what its tests and fuzz targets call.

#![forbid(unsafe_code)]

pub mod args;
mod arrays;
mod attribute;
mod batch;
mod bench;
pub mod bind;
mod check;
mod color;
mod command;
mod compare;
mod cost;
mod diff;
mod draw;
mod edit;
pub mod exit;
mod expect;
mod explain;
mod expression;
mod extract;
mod finding;
mod generate;
mod hint;
mod inspect;
pub mod json;
mod limits;
mod lint;
mod locate;
mod look;
pub mod media;
mod memory;
pub mod npy;
pub mod npz;
mod operations;
mod out;
pub mod print;
mod profile;
mod progress;
mod random;
pub mod ranges;
mod reduce;
mod report;
mod repro;
pub mod run;
mod safetensors;
mod sarif;
mod semantics;
mod shell;
mod state;
mod statistics;
mod stream;
pub mod suite;
mod summary;
mod surgery;
pub mod symbolic;
mod table;
mod text;
mod top;
mod trace;
pub mod usage;
mod version;

pub use command::command;
