//! What the `irrun` command does, apart from its flags: files in and out, reports, golden tests.

#![forbid(unsafe_code)]

pub mod args;
pub mod arrays;
pub mod bench;
pub mod bind;
pub mod case;
pub mod case_file;
pub mod check;
pub mod compare;
pub mod cost;
pub mod diff;
pub mod draw;
pub mod edit;
pub mod exit;
pub mod expect;
pub mod explain;
pub mod expression;
pub mod extract;
pub mod finding;
pub mod generate;
pub mod inspect;
pub mod json;
pub mod limits;
pub mod lint;
pub mod look;
pub mod npy;
pub mod npz;
pub mod operations;
pub mod out;
pub mod print;
pub mod profile;
pub mod property;
pub mod ranges;
pub mod reduce;
pub mod run;
pub mod state;
pub mod statistics;
pub mod suite;
pub mod surgery;
pub mod symbolic;
pub mod table;
pub mod text;
pub mod usage;
