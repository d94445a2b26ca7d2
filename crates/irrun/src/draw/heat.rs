//! Numbers of layers from a report, as colours.

use super::picture::Picture;
use crate::exit::{Exit, Failure, OrExit};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Colours layers by the times in a report that `--profile --json` has printed. Returns what the
/// colours stand for.
///
/// # Errors
/// When the file is no such report, or one of another model.
pub fn times(picture: &mut Picture, file: &Path) -> Result<String, Failure> {
    let times = read(file).with_context(|| file.display().to_string()).or_exit(Exit::Input)?;
    let total: f64 = times.values().sum();
    let key = |node: &super::picture::Node| {
        format!("\"{}\" ({}, layer {})", node.name, node.version, node.id)
    };
    let mut slowest = 0f64;
    for node in &mut picture.nodes {
        if let Some(ms) = times.get(&key(node)) {
            node.heat = Some((*ms, format!("{ms:.3} ms, {:.1} %", 100.0 * ms / total)));
            slowest = slowest.max(*ms);
        }
    }
    for node in &mut picture.nodes {
        if let Some((heat, _)) = &mut node.heat {
            // Most layers take little of the time of the slowest: a root tells them apart.
            *heat = (*heat / slowest.max(f64::MIN_POSITIVE)).sqrt();
        }
    }
    if slowest == 0.0 {
        let error = anyhow::anyhow!("{}: none of its layers is in this model", file.display());
        return Err(Failure { exit: Exit::Input, error });
    }
    Ok(format!("time of a layer: up to {slowest:.3} ms of {total:.2} ms"))
}

/// Milliseconds by title of the layer without its types, which say what was fused with it; a layer with several kernels has the time of all.
fn read(file: &Path) -> anyhow::Result<HashMap<String, f64>> {
    let text = std::fs::read_to_string(file)?;
    let report: Value = serde_json::from_str(&text)?;
    let mut times: HashMap<String, f64> = HashMap::new();
    for layer in report["layers"].as_array().into_iter().flatten() {
        if let (Some(title), Some(ms)) = (layer["layer"].as_str(), layer["ms"].as_f64()) {
            let (_, key) = title.split_once(' ').unwrap_or_default();
            *times.entry(key.to_owned()).or_default() += ms;
        }
    }
    ensure!(
        !times.is_empty(),
        "it holds no times; `irrun MODEL.xml --input … --profile --json > FILE` writes them"
    );
    Ok(times)
}
