//! Graphs for another implementation, each with its inputs and irrun's outputs.
//!
//! `fuzz/hunt.py` lets this write them, runs them with OpenVINO and compares.

use super::graphs::{self, Grown};
use super::run::{MEMORY, open, outputs, session};
use infer::{Inputs, PartialShape};
use runtime::{Options, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// More bytes than a graph of 30 operations uses.
const BYTES: u64 = 2400;

/// The bytes of graph `number`, by SplitMix64.
fn bytes(number: u64) -> Vec<u8> {
    let word = |i: u64| {
        let z = (number << 16 | i).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    (0..BYTES / 8).flat_map(word).collect()
}

/// Writes a graph as `NUMBER.xml` and `.bin`, its inputs as `NUMBER.inputs.npz`, and its outputs,
/// optimised and as written, as `NUMBER.outputs.npz`. Returns a line with the number and `ok`,
/// `none` if there is no such graph, `error` if it does not run, or `panic`.
pub fn write(dir: &Path, number: u64) -> String {
    let written = catch_unwind(AssertUnwindSafe(|| files(dir, number)));
    match written {
        Ok(Ok(text)) => format!("{number} {text}"),
        Ok(Err(error)) => format!("{number} error {}", error.replace('\n', " ")),
        Err(_) => format!("{number} panic"),
    }
}

fn files(dir: &Path, number: u64) -> Result<&'static str, String> {
    let Some(grown) = graphs::broad(&bytes(number)) else { return Ok("none") };
    let name = |end: &str| dir.join(format!("{number}.{end}"));
    ir::write(&grown.graph, name("xml")).map_err(|e| e.to_string())?;
    let inputs = grown.inputs.iter().enumerate();
    archive(&name("inputs.npz"), inputs.map(|(i, x)| (format!("x{i}"), x.clone())).collect())?;
    let [planned, written] = both(&grown)?;
    let named = |how: &'static str, list: Vec<Tensor>| {
        list.into_iter().enumerate().map(move |(i, y)| (format!("{how}{i}"), y))
    };
    let all = named("planned", planned).chain(named("written", written));
    archive(&name("outputs.npz"), all.collect())?;
    Ok("ok")
}

/// The outputs of a graph, optimised and as written.
fn both(grown: &Grown) -> Result<[Vec<Tensor>; 2], String> {
    runtime::set_memory_limit(Some(MEMORY));
    let (graph, inputs) = (&grown.graph, &grown.inputs);
    let shapes = inputs.iter().map(|input| PartialShape::fixed(input.sizes()));
    let exact = infer::propagate(graph, &Inputs::shapes(shapes)).map_err(|e| e.to_string())?;
    let facts = open(grown, &exact)?;
    let plain = Options { optimize: false, ..Options::default() };
    let written = outputs(&mut session(graph, &facts, &plain), inputs, "as written")?;
    let planned = outputs(&mut session(graph, &facts, &Options::default()), inputs, "planned")?;
    Ok([planned, written])
}

fn archive(path: &Path, arrays: Vec<(String, Tensor)>) -> Result<(), String> {
    cli::npz::write(path, &arrays).map_err(|e| e.to_string())
}
