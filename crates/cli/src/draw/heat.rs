//! Numbers of layers from a report, as colours.

use super::picture::Picture;
use crate::exit::{Exit, Failure, OrExit};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Colours layers by the times in a report that `--profile --json` has printed. Returns what the
/// colours stand for.
///
/// # Errors
/// When the file is no such report, or one of another model.
pub(super) fn times(picture: &mut Picture, file: &Path) -> Result<String, Failure> {
    let times =
        read_times(file).with_context(|| file.display().to_string()).or_exit(Exit::Input)?;
    color_times(picture, &times).ok_or_else(|| of_another(file))
}

/// Milliseconds of each layer; one with several kernels has the time of all.
#[derive(Default)]
pub(super) struct Times(HashMap<String, f64>);

impl Times {
    /// Adds the time of a kernel to that of its layer, which is named as messages name it.
    pub(super) fn add(&mut self, layer: &str, ms: f64) {
        *self.0.entry(key(layer)).or_default() += ms;
    }
}

/// Colours layers by their times. Returns what the colours stand for; nothing without times.
pub(super) fn color_times(picture: &mut Picture, times: &Times) -> Option<String> {
    let total: f64 = times.0.values().sum();
    let slowest = times.0.values().copied().fold(f64::MIN_POSITIVE, f64::max);
    let heat = |ms: &f64| {
        // Most layers take little of the time of the slowest: a root tells them apart.
        ((ms / slowest).sqrt(), format!("{ms:.3} ms, {:.1} %", 100.0 * ms / total))
    };
    let scale = format!("time of a layer: up to {slowest:.3} ms of {total:.2} ms");
    color(picture, &times.0, heat).then_some(scale)
}

/// Colours layers by how much they differ in a report that `--compare-steps --json` has printed.
/// Returns what the colours stand for.
///
/// # Errors
/// When the file is no such report, or one of another model.
pub(super) fn differences(picture: &mut Picture, file: &Path) -> Result<String, Failure> {
    let read = read_differences(file).with_context(|| file.display().to_string());
    let scale = "difference of a layer from the reference: from none to as large as its values";
    if color(picture, &read.or_exit(Exit::Input)?, RelativeError::heat) {
        Ok(scale.to_owned())
    } else {
        Err(of_another(file))
    }
}

/// How much a layer differs.
struct RelativeError {
    ok: bool,
    /// As a part of the largest value; infinite where that cannot be said.
    relative: f64,
}

/// What rounding alone makes of values, as a power of ten: it has no colour.
const ROUNDING: f64 = -7.0;

impl RelativeError {
    /// Its colour by the power of ten, and its text.
    fn heat(&self) -> (f64, String) {
        let heat = (1.0 - self.relative.log10() / ROUNDING).clamp(0.0, 1.0);
        let verdict = if self.ok { "agrees" } else { "differs" };
        let text = if self.relative.is_finite() {
            format!("{verdict}: {:.1e} of the largest value", self.relative)
        } else {
            format!("{verdict}: values that cannot be compared")
        };
        (heat, text)
    }
}

/// Colours the layers that something is known of, and tells whether there are any.
fn color<T>(
    picture: &mut Picture,
    found: &HashMap<String, T>,
    heat: impl Fn(&T) -> (f64, String),
) -> bool {
    let mut is_any = false;
    for node in &mut picture.nodes {
        let key = format!("\"{}\" ({}, layer {})", node.name, node.version, node.id);
        if let Some(value) = found.get(&key) {
            node.heat = Some(heat(value));
            is_any = true;
        }
    }
    is_any
}

fn of_another(file: &Path) -> Failure {
    let error = anyhow!("{}: none of its layers is in this model", file.display());
    Failure { exit: Exit::Input, error }
}

/// A layer as reports name it, without its types, which say what was fused with it.
fn key(title: &str) -> String {
    title.split_once(' ').map(|(_, key)| key.to_owned()).unwrap_or_default()
}

fn read(file: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
}

fn read_times(file: &Path) -> Result<Times> {
    let report = read(file)?;
    let mut times = Times::default();
    for layer in report["layers"].as_array().into_iter().flatten() {
        if let (Some(title), Some(ms)) = (layer["layer"].as_str(), layer["ms"].as_f64()) {
            times.add(title, ms);
        }
    }
    ensure!(
        !times.0.is_empty(),
        "it holds no times; `irrun MODEL.xml --input … --profile --json > FILE` writes them"
    );
    Ok(times)
}

/// The output of each layer that differs most.
fn read_differences(file: &Path) -> Result<HashMap<String, RelativeError>> {
    let report = read(file)?;
    let mut differences: HashMap<String, RelativeError> = HashMap::new();
    for layer in report["steps"]["layers"].as_array().into_iter().flatten() {
        let (Some(title), Some(ok)) = (layer["layer"].as_str(), layer["ok"].as_bool()) else {
            continue;
        };
        let relative = layer["relative"].as_f64().unwrap_or(f64::INFINITY);
        let most = differences.entry(key(title)).or_insert(RelativeError { ok, relative });
        most.ok &= ok;
        most.relative = most.relative.max(relative);
    }
    ensure!(
        !differences.is_empty(),
        "it holds no differences; `irrun MODEL.xml --input … --compare-steps REF.npz --json > FILE` \
         writes them"
    );
    Ok(differences)
}
