//! Generation settings, and the file that holds them.

use crate::error::Error;
use serde_json::Value;
use std::path::Path;

/// Generation settings, named as in `generation_config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationConfig {
    /// The most new tokens. `None` means `max_length`, or else 256.
    pub max_new_tokens: Option<usize>,
    /// The most tokens, including those of the prompt.
    pub max_length: Option<usize>,
    /// The least number of new tokens; no stop token is chosen before.
    pub min_new_tokens: usize,
    /// Whether to sample; otherwise each token is the most probable one.
    pub do_sample: bool,
    /// Logits are divided by this before sampling; 0 takes the most probable token.
    pub temperature: f32,
    /// Sample from this many most probable tokens; 0 for all.
    pub top_k: usize,
    /// Sample from the fewest most probable tokens with this total probability.
    pub top_p: f32,
    /// Logits of earlier tokens are divided by this if positive, else multiplied.
    pub repetition_penalty: f32,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Tokens that end the text and are included in its tokens.
    pub stop_token_ids: Vec<i64>,
    /// Strings that end the text and are not part of it.
    pub stop_strings: Vec<String>,
}

/// The most new tokens if no setting says otherwise.
const DEFAULT_NEW_TOKENS: usize = 256;

impl Default for GenerationConfig {
    fn default() -> GenerationConfig {
        GenerationConfig {
            max_new_tokens: None,
            max_length: None,
            min_new_tokens: 0,
            do_sample: false,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            repetition_penalty: 1.0,
            seed: 0,
            stop_token_ids: Vec::new(),
            stop_strings: Vec::new(),
        }
    }
}

/// Settings that would change the text and are not implemented, with the value that has no effect.
const NOT_IMPLEMENTED: [(&str, f64); 12] = [
    ("num_beams", 1.0),
    ("no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("presence_penalty", 0.0),
    ("frequency_penalty", 0.0),
    ("penalty_alpha", 0.0),
    ("guidance_scale", 1.0),
    ("min_p", 0.0),
    ("typical_p", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("top_h", 0.0),
];

/// The same for lists.
const LISTS_NOT_IMPLEMENTED: [&str; 5] = [
    "bad_words_ids",
    "suppress_tokens",
    "begin_suppress_tokens",
    "sequence_bias",
    "forced_bos_token_id",
];

impl GenerationConfig {
    /// Reads the settings of a directory: `generation_config.json`, and `eos_token_id` of
    /// `config.json` if the former has none. The second part of the result lists settings that
    /// would change the text but are not implemented.
    ///
    /// # Errors
    /// When a file is not valid JSON, or a setting has the wrong type.
    pub fn read(dir: &Path) -> Result<(GenerationConfig, Vec<String>), Error> {
        let path = dir.join("generation_config.json");
        let file = read_json(&path)?.unwrap_or_default();
        let settings = Settings { path: &path, file: &file };
        let mut config = GenerationConfig::default();
        config.max_new_tokens = settings.count("max_new_tokens")?;
        config.max_length = settings.count("max_length")?;
        config.min_new_tokens = settings.count("min_new_tokens")?.unwrap_or(0);
        config.do_sample = settings.flag("do_sample")?.unwrap_or(config.do_sample);
        config.temperature = settings.number("temperature")?.unwrap_or(config.temperature);
        config.top_k = settings.count("top_k")?.unwrap_or(config.top_k);
        config.top_p = settings.number("top_p")?.unwrap_or(config.top_p);
        let penalty = settings.number("repetition_penalty")?;
        config.repetition_penalty = penalty.unwrap_or(config.repetition_penalty);
        config.stop_token_ids = ids(&file, "eos_token_id");
        config.stop_token_ids.extend(ids(&file, "stop_token_ids"));
        if config.stop_token_ids.is_empty() {
            let model = read_json(&dir.join("config.json"))?.unwrap_or_default();
            config.stop_token_ids = ids(&model, "eos_token_id");
        }
        config.stop_strings = settings.strings("stop_strings")?;
        config.check().map_err(|message| settings.wrong(message))?;
        Ok((config, settings.not_implemented()))
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid setting, and its allowed values.
    pub fn check(&self) -> Result<(), String> {
        let GenerationConfig { temperature, top_p, repetition_penalty, .. } = self;
        let finite = |value: f32, from: f32| value.is_finite() && value >= from;
        if !finite(*temperature, 0.0) {
            return Err(format!("temperature is {temperature}; give a number from 0 on"));
        }
        if !(*top_p > 0.0 && *top_p <= 1.0) {
            return Err(format!("top_p is {top_p}; give a number above 0, up to 1"));
        }
        if !finite(*repetition_penalty, f32::MIN_POSITIVE) {
            let message = "give a number above 0";
            return Err(format!("repetition_penalty is {repetition_penalty}; {message}"));
        }
        Ok(())
    }

    /// The most new tokens after a prompt of `prompt` tokens.
    pub fn most_new_tokens(&self, prompt: usize) -> usize {
        let rest = |total: usize| total.saturating_sub(prompt);
        self.max_new_tokens.or(self.max_length.map(rest)).unwrap_or(DEFAULT_NEW_TOKENS)
    }
}

/// The settings of a file.
struct Settings<'a> {
    path: &'a Path,
    file: &'a Value,
}

impl Settings<'_> {
    fn wrong(&self, message: impl Into<String>) -> Error {
        Error::File { path: self.path.to_owned(), message: message.into() }
    }

    /// A setting, parsed by `read`; `null` counts as absent.
    fn get<T>(
        &self,
        key: &str,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.file.get(key).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let wrong = || self.wrong(format!("{key} is {value}, not {what}"));
        read(value).map(Some).ok_or_else(wrong)
    }

    fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        let read = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        self.get(key, "a whole number from 0 on", read)
    }

    fn number(&self, key: &str) -> Result<Option<f32>, Error> {
        self.get(key, "a number", |value| value.as_f64().map(|n| n as f32))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.get(key, "true or false", Value::as_bool)
    }

    /// A string or a list of strings.
    fn strings(&self, key: &str) -> Result<Vec<String>, Error> {
        let own = |value: &Value| value.as_str().map(str::to_owned);
        let read = |value: &Value| match value {
            Value::Array(all) => all.iter().map(own).collect(),
            one => own(one).map(|one| vec![one]),
        };
        self.get(key, "a list of strings", read).map(Option::unwrap_or_default)
    }

    fn not_implemented(&self) -> Vec<String> {
        let changes = |(key, neutral): &&(&str, f64)| {
            let own = self.file.get(key).and_then(Value::as_f64);
            own.is_some_and(|own| own != *neutral)
        };
        let numbers = NOT_IMPLEMENTED.iter().filter(changes).map(|(key, _)| *key);
        let given = |key: &&str| self.file.get(key).is_some_and(|value| !value.is_null());
        let lists = LISTS_NOT_IMPLEMENTED.into_iter().filter(given);
        let note = |key| format!("{}: {key} is not implemented", self.path.display());
        numbers.chain(lists).map(note).collect()
    }
}

/// Token ids, alone or in a list.
fn ids(file: &Value, key: &str) -> Vec<i64> {
    match file.get(key) {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_i64).collect(),
        Some(id) => id.as_i64().into_iter().collect(),
        None => Vec::new(),
    }
}

/// A JSON file, if it exists.
pub(crate) fn read_json(path: &Path) -> Result<Option<Value>, Error> {
    let wrong = |message: String| Error::File { path: path.to_owned(), message };
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| wrong(e.to_string())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(wrong(e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(file: &Value) -> Settings<'_> {
        Settings { path: Path::new("f.json"), file }
    }

    #[test]
    fn settings_of_other_types_are_errors() {
        let file =
            json!({ "top_k": -1, "top_p": "x", "stop_strings": ["a", 1], "do_sample": null });
        let settings = settings(&file);
        let text = |e: Error| e.to_string();
        let expected = "f.json: top_k is -1, not a whole number from 0 on";
        assert_eq!(text(settings.count("top_k").unwrap_err()), expected);
        assert!(settings.number("top_p").is_err() && settings.strings("stop_strings").is_err());
        assert_eq!(settings.flag("do_sample").unwrap(), None);
    }

    #[test]
    fn what_is_not_implemented_is_named() {
        let file = json!({ "num_beams": 4, "min_p": 0, "typical_p": 1.0, "bad_words_ids": [[1]] });
        let notes = settings(&file).not_implemented();
        let expected = ["num_beams", "bad_words_ids"];
        assert_eq!(notes, expected.map(|key| format!("f.json: {key} is not implemented")));
    }

    #[test]
    fn limits() {
        let config = GenerationConfig { max_length: Some(10), ..GenerationConfig::default() };
        assert_eq!(config.most_new_tokens(4), 6);
        assert_eq!(config.most_new_tokens(40), 0);
        let config = GenerationConfig { max_new_tokens: Some(3), ..config };
        assert_eq!(config.most_new_tokens(4), 3);
        for bad in [
            GenerationConfig { temperature: -1.0, ..config.clone() },
            GenerationConfig { temperature: f32::NAN, ..config.clone() },
            GenerationConfig { top_p: 0.0, ..config.clone() },
            GenerationConfig { top_p: 1.5, ..config.clone() },
            GenerationConfig { repetition_penalty: 0.0, ..config.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        assert_eq!(config.check(), Ok(()));
    }
}
