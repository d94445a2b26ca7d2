//! Small grammars and forms of text: Python literals, globs, near misses, numbers.

use globset::{GlobBuilder, GlobMatcher};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Text in XML or HTML: markup is escaped, control characters, which XML has not, are blanks.
pub(crate) fn xml(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    quick_xml::escape::escape(&plain).replace('\n', "&#10;")
}

/// A Python dictionary of strings, booleans and tuples, as numpy's headers hold it.
pub(crate) struct PyDict {
    entries: Vec<(String, PyValue)>,
}

#[derive(Clone, Debug, PartialEq)]
enum PyValue {
    Text(String),
    Bool(bool),
    Tuple(Vec<usize>),
    Other,
}

impl PyDict {
    /// Reads `{'key': value, …}`.
    ///
    /// # Errors
    /// What is not of that form.
    pub(crate) fn parse(text: &str) -> Result<PyDict, String> {
        let mut p = PyParser { rest: text };
        let mut entries = Vec::new();
        p.expect('{')?;
        while !p.eat('}') {
            let key = p.string()?;
            p.expect(':')?;
            entries.push((key, p.value()?));
            if !p.eat(',') {
                p.expect('}')?;
                break;
            }
        }
        Ok(PyDict { entries })
    }

    fn get(&self, key: &str) -> Result<&PyValue, String> {
        let entry = self.entries.iter().find(|(k, _)| k == key);
        entry.map(|(_, v)| v).ok_or_else(|| format!("{key} is missing"))
    }

    /// A string.
    ///
    /// # Errors
    /// When it is missing or something else, such as the fields of a structured type.
    pub(crate) fn string(&self, key: &str) -> Result<String, String> {
        match self.get(key)? {
            PyValue::Text(text) => Ok(text.clone()),
            _ => Err(format!("{key} is not a plain type; fields are not read")),
        }
    }

    /// A boolean.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub(crate) fn boolean(&self, key: &str) -> Result<bool, String> {
        match self.get(key)? {
            PyValue::Bool(value) => Ok(*value),
            _ => Err(format!("{key} is not True or False")),
        }
    }

    /// A tuple of sizes.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub(crate) fn sizes(&self, key: &str) -> Result<Vec<usize>, String> {
        match self.get(key)? {
            PyValue::Tuple(sizes) => Ok(sizes.clone()),
            _ => Err(format!("{key} is not a tuple of sizes")),
        }
    }
}

struct PyParser<'a> {
    rest: &'a str,
}

impl PyParser<'_> {
    fn eat(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) {
            return Ok(());
        }
        let found: String = self.rest.chars().take(8).collect();
        Err(format!("expected {c} before \"{found}\""))
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = if self.eat('\'') { '\'' } else { '"' };
        if quote == '"' {
            self.expect('"')?;
        }
        let end = self.rest.find(quote).ok_or("a string does not end")?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(text.to_owned())
    }

    fn value(&mut self) -> Result<PyValue, String> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            Some('\'' | '"') => Ok(PyValue::Text(self.string()?)),
            Some('(') => self.tuple(),
            Some('[') => {
                // The fields of a structured type, which no tensor has.
                let end = self.rest.rfind(']').ok_or("a list does not end")?;
                self.rest = self.rest.get(end + 1..).unwrap_or_default();
                Ok(PyValue::Other)
            }
            _ => self.word(),
        }
    }

    fn tuple(&mut self) -> Result<PyValue, String> {
        self.expect('(')?;
        let mut sizes = Vec::new();
        while !self.eat(')') {
            self.rest = self.rest.trim_start();
            let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(digits);
            let size = number.parse().map_err(|_| {
                let found: String = self.rest.chars().take(8).collect();
                format!("\"{}\" does not begin with a size", found.trim_end())
            });
            sizes.push(size?);
            // Python 2 wrote 3L.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(PyValue::Tuple(sizes))
    }

    fn word(&mut self) -> Result<PyValue, String> {
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(PyValue::Bool(value));
            }
        }
        let found: String = self.rest.chars().take(8).collect();
        Err(format!("\"{found}\" is not a value"))
    }
}

/// A pattern of names, in which `*` is any text, `?` any character, `[ab]` one of some and `{x,y}`
/// either of two; a name matches itself whatever is in it.
#[derive(Clone, Debug)]
pub struct Glob {
    text: String,
    matcher: GlobMatcher,
}

impl FromStr for Glob {
    type Err = globset::Error;

    fn from_str(text: &str) -> Result<Glob, globset::Error> {
        // A slash is a character like others in names of layers.
        let glob = GlobBuilder::new(text).literal_separator(false).build()?;
        Ok(Glob { text: text.to_owned(), matcher: glob.compile_matcher() })
    }
}

impl Glob {
    /// The pattern itself.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.text == name || self.matcher.is_match(name)
    }

    /// The same pattern for names in any letter case.
    pub fn in_any_case(&self) -> Glob {
        let mut glob = GlobBuilder::new(&self.text);
        let glob = glob.literal_separator(false).case_insensitive(true).build();
        let matcher = glob.map_or_else(|_| self.matcher.clone(), |glob| glob.compile_matcher());
        Glob { text: self.text.clone(), matcher }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The known word nearest to a mistyped one, if any is near: a third of its letters may be wrong,
/// where two that are exchanged count as one.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // Of a word of one letter nothing is left to resemble.
    let limit = (length / 3).max(1).min(length.saturating_sub(1));
    let lower = word.to_lowercase();
    let distance = |k: &str| strsim::osa_distance(&lower, &k.to_lowercase());
    let candidates = known.into_iter().map(|k| (distance(k), k));
    candidates.filter(|(d, _)| *d <= limit).min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// Text with its control characters, but those that are to stay, as Rust writes them: `\u{1b}`.
/// Names in a model may hold escape sequences, which a terminal would obey.
pub(crate) fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && !stays(c);
    if !text.contains(obeyed) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if obeyed(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.into()
}

/// `1 layer`, `3 layers`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("plain é – ☃ \"quoted\" \\", "plain é – ☃ \"quoted\" \\"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("\u{9b}31m\u{7f}\0\r\t", "\\u{9b}31m\\u{7f}\\u{0}\\r\\t"),
            ("two\nlines", "two\nlines"),
        ] {
            assert_eq!(escaped(text, |c| c == '\n'), shown);
        }
        assert_eq!(escaped("two\nlines", |_| false), "two\\nlines");
    }

    #[test]
    fn dictionaries() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4), }   \n";
        let dict = PyDict::parse(text).unwrap();
        assert_eq!(dict.string("descr").unwrap(), "<f4");
        assert_eq!(dict.sizes("shape").unwrap(), [3, 4]);
        assert!(!dict.boolean("fortran_order").unwrap());
        let scalar = PyDict::parse("{\"shape\": ()}").unwrap();
        assert!(scalar.sizes("shape").unwrap().is_empty());
        assert!(
            PyDict::parse("{'descr': [('a', '<f4')], 'x': True}").unwrap().string("descr").is_err()
        );
        for bad in ["", "{", "{'a': 1}", "{'a' True}", "{'a': (1", "{'a': (-1,)}"] {
            assert!(PyDict::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn globs() {
        let glob = |pattern: &str, name: &str| pattern.parse::<Glob>().unwrap().matches(name);
        assert!(glob("*", "") && glob("a*c", "ab/bc") && glob("?b*", "abc") && glob("a**", "a"));
        assert!(!glob("a*c", "abd") && !glob("?", "") && !glob("", "a"));
        assert!(glob("{a,b}[0-3]", "b2") && glob("x[0]", "x[0]") && glob("../*", "../.."));
    }

    #[test]
    fn near_misses() {
        let known = ["input_ids", "attention_mask", "x"];
        assert_eq!(nearest("input_id", known), Some("input_ids"));
        assert_eq!(nearest("Attention-mask", known), Some("attention_mask"));
        assert_eq!(nearest("pixel_values", known), None);
        assert_eq!(nearest("y", known), None);
        assert_eq!(nearest("Nope", ["TopK"]), None);
        assert_eq!(nearest("bf61", ["f32", "bf16"]), Some("bf16"));
    }
}
