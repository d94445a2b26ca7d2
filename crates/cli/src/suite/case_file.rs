//! `case.json`, as it is written (`docs/formats.md`, `docs/schema/case.json`).

use crate::text::nearest;
use anyhow::{Context, Result, ensure};
use schemars::{JsonSchema, Schema};
use serde::de::{Error, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A case: what a model is given and what it must give. Keys that begin with `_` are for people.
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = closed)]
pub struct CaseFile {
    /// An entry for each input, in order; `input_<k>.npy` holds it.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// An entry for each output, in order; `expected_<k>.npy` is what it must be.
    #[serde(default)]
    pub outputs: Vec<Output>,
    /// The relative tolerance of outputs that have none of their own.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "f64")]
    pub rtol: Option<f64>,
    /// The absolute tolerance of outputs that have none of their own.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "f64")]
    pub atol: Option<f64>,
    /// How outputs are compared.
    #[serde(default)]
    pub check: Check,
    /// What values must satisfy that are implementation defined.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Property")]
    pub property: Option<Property>,
    /// Runs in place of the plain file names; each begins with fresh variables.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Vec<Run>")]
    pub runs: Option<Vec<Run>>,
    #[serde(flatten)]
    #[schemars(skip)]
    rest: Rest,
}

/// How outputs are compared.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Within the tolerances.
    #[default]
    Allclose,
    /// By the property given.
    Property,
}

/// An input as people know it; nothing is compared with it.
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = closed)]
pub struct Input {
    #[serde(flatten)]
    #[schemars(skip)]
    rest: Rest,
}

/// How far an output may be from what is expected.
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = closed)]
pub struct Output {
    /// Relative to the expected value.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "f64")]
    pub rtol: Option<f64>,
    /// Absolute.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "f64")]
    pub atol: Option<f64>,
    #[serde(flatten)]
    #[schemars(skip)]
    rest: Rest,
}

/// Steps that share a session and its variables.
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = closed)]
pub struct Run {
    /// Calls of the model, one after the other.
    pub steps: Vec<Step>,
    #[serde(flatten)]
    #[schemars(skip)]
    rest: Rest,
}

/// One call of the model.
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = closed)]
pub struct Step {
    /// The files of the inputs, in order.
    #[serde(default)]
    pub inputs: Vec<StepFile>,
    /// The files of what the outputs must be, in order.
    #[serde(default)]
    pub expected: Vec<StepFile>,
    #[serde(flatten)]
    #[schemars(skip)]
    rest: Rest,
}

/// A file of a step: its path from the folder of the case, or an object with that path.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum StepFile {
    /// The path alone.
    Path(String),
    /// The path and the tolerances.
    Entry(StepEntry),
}

/// A file of a step with its tolerances.
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = closed)]
pub struct StepEntry {
    /// The path from the folder of the case.
    pub file: String,
    /// Relative to the expected value.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "f64")]
    pub rtol: Option<f64>,
    /// Absolute.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "f64")]
    pub atol: Option<f64>,
    #[serde(flatten)]
    #[schemars(skip)]
    rest: Rest,
}

/// What values must satisfy that are implementation defined.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = closed)]
pub struct Property {
    /// Which property it is.
    pub property: PropertyName,
    /// Of `uniform`: the least value, 0 by default.
    pub low: Option<f64>,
    /// Of `uniform`: what all values lie below, 1 by default.
    pub high: Option<f64>,
    /// Of `distribution`: what all classes lie below.
    pub classes: Option<f64>,
    /// Of `topk_set`: the axis, the last by default.
    pub axis: Option<i64>,
    #[serde(flatten)]
    #[schemars(skip)]
    rest: Rest,
}

/// The properties there are.
#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum PropertyName {
    /// The first output lies from `low` up to `high`, and not all its values are the same.
    Uniform,
    /// The first output lies from 0 up to `classes`.
    Distribution,
    /// Along `axis`, the outputs together are a permutation of what is expected.
    TopkSet,
}

/// Keys that are no part of the form.
type Rest = BTreeMap<String, IgnoredAny>;

/// Keys with which the makers of cases say where they come from. They change nothing.
const NOTES: &[&str] = &[
    "absmax",
    "bin_bytes",
    "constant_elements",
    "covers",
    "dtype",
    "expected_from",
    "file",
    "gen",
    "independent",
    "index",
    "kind",
    "latency_is",
    "log_probs",
    "name",
    "nodes",
    "noise",
    "note",
    "openvino",
    "openvino_f32_2threads_min_ms",
    "openvino_f32_2threads_ms",
    "ops",
    "problems",
    "seed",
    "shape",
    "source",
    "stateful",
    "std",
    "tags",
    "tolerance",
    "type",
    "with_replacement",
];

/// No other keys than those of the form and those for people.
fn closed(schema: &mut Schema) {
    let notes = NOTES.join("|");
    schema.insert("patternProperties".to_owned(), json!({ format!("^(_.*|{notes})$"): true }));
    schema.insert("additionalProperties".to_owned(), json!(false));
}

/// A value that is there, so that null is not taken for none.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl<'de> Deserialize<'de> for StepFile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<StepFile, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = StepFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file name or an object with \"file\"")
            }
            fn visit_str<E: Error>(self, path: &str) -> Result<StepFile, E> {
                Ok(StepFile::Path(path.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StepFile, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(StepFile::Entry)
            }
        }
        from.deserialize_any(Either)
    }
}

impl StepFile {
    /// The path from the folder of the case.
    pub fn path(&self) -> &str {
        match self {
            StepFile::Path(path) => path,
            StepFile::Entry(entry) => &entry.file,
        }
    }

    /// Its own tolerances, relative and absolute.
    pub fn tolerances(&self) -> (Option<f64>, Option<f64>) {
        match self {
            StepFile::Path(_) => (None, None),
            StepFile::Entry(entry) => (entry.rtol, entry.atol),
        }
    }
}

impl CaseFile {
    /// Reads `case.json` in a folder.
    ///
    /// # Errors
    /// When it cannot be read or is not of its form; unknown keys are named, all of them.
    pub fn read(dir: &Path) -> Result<CaseFile> {
        let path = dir.join("case.json");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        CaseFile::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads the text of a `case.json`.
    ///
    /// # Errors
    /// When it is not of its form.
    pub fn parse(text: &str) -> Result<CaseFile> {
        let mut json = serde_json::Deserializer::from_str(text);
        ensure!(!text.trim().is_empty(), "the file is empty");
        let file: Result<CaseFile, _> = serde_path_to_error::deserialize(&mut json);
        let is_cut = file.as_ref().is_err_and(|error| error.inner().is_eof());
        ensure!(!is_cut, "the file is cut short: its JSON does not end");
        let file = file?;
        json.end()?;
        let unknown = file.unknown();
        ensure!(unknown.is_empty(), "{}; keys for people begin with \"_\"", unknown.join("; "));
        Ok(file)
    }

    /// What is wrong with each key that is no part of the form.
    fn unknown(&self) -> Vec<String> {
        let mut found = Unknown(Vec::new());
        let own = ["inputs", "outputs", "rtol", "atol", "check", "property", "runs"];
        found.look("", &self.rest, &own);
        for (i, input) in self.inputs.iter().enumerate() {
            found.look(&format!("inputs[{i}]"), &input.rest, &[]);
        }
        for (i, output) in self.outputs.iter().enumerate() {
            found.look(&format!("outputs[{i}]"), &output.rest, &["rtol", "atol"]);
        }
        if let Some(property) = &self.property {
            let own = ["property", "low", "high", "classes", "axis"];
            found.look("property", &property.rest, &own);
        }
        for (r, run) in self.runs.iter().flatten().enumerate() {
            found.look(&format!("runs[{r}]"), &run.rest, &["steps"]);
            for (s, step) in run.steps.iter().enumerate() {
                let place = format!("runs[{r}].steps[{s}]");
                found.look(&place, &step.rest, &["inputs", "expected"]);
                for (name, files) in [("inputs", &step.inputs), ("expected", &step.expected)] {
                    for (i, file) in files.iter().enumerate() {
                        let StepFile::Entry(entry) = file else { continue };
                        let place = format!("{place}.{name}[{i}]");
                        found.look(&place, &entry.rest, &["file", "rtol", "atol"]);
                    }
                }
            }
        }
        found.0
    }
}

/// What is wrong with keys.
struct Unknown(Vec<String>);

impl Unknown {
    fn look(&mut self, place: &str, rest: &Rest, own: &[&str]) {
        let strange = |key: &&String| !key.starts_with('_') && !NOTES.contains(&key.as_str());
        for key in rest.keys().filter(strange) {
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            let near = nearest(key, own.iter().chain(NOTES).copied());
            let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            self.0.push(format!("{place}there is no key \"{key}\"{hint}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        match CaseFile::parse(text) {
            Ok(_) => String::new(),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn keys_that_are_unknown_are_named_with_their_place() {
        let said = error(
            r#"{"otuputs": [], "inputs": [{"rtol": 1}], "runs": [{"steps": [{"input": []}]}]}"#,
        );
        for piece in [
            r#"there is no key "otuputs"; did you mean "outputs"?"#,
            r#"inputs[0]: there is no key "rtol""#,
            r#"runs[0].steps[0]: there is no key "input"; did you mean "inputs"?"#,
        ] {
            assert!(said.contains(piece), "{piece} in {said}");
        }
        assert_eq!(error(r#"{"_made_by": "me", "note": "", "inputs": [{"_x": 1}]}"#), "");
    }

    #[test]
    fn values_of_another_type_are_told_with_their_place() {
        let said = error(r#"{"outputs": [{}, {"rtol": "1"}]}"#);
        assert!(said.starts_with("outputs[1].rtol: invalid type: string \"1\""), "{said}");
        assert!(error(r#"{"rtol": null}"#).starts_with("rtol: invalid type: null"));
        assert!(error(r#"{} {}"#).contains("trailing characters"));
    }
}
