//! Digests of outputs, as text for version control: a hash, the shape, and enough statistics for
//! people to see what became of a value. They pin a model without any golden arrays.

use crate::out;
use anyhow::{Context, Result, bail, ensure};
use infer::PartialShape;
use ir::ElementType;
use runtime::{Observed, Observer, Tensor};
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::{Path, PathBuf};

/// What the file begins with.
const HEAD: &str = "# Digests of irrun test: case, output, type and shape, hash, statistics.\n";

/// The digests of some cases: a line for each output, by the name of the case.
#[derive(Debug, Default, PartialEq)]
pub struct Digests(BTreeMap<String, Vec<String>>);

impl Digests {
    /// Reads a file; nothing if there is none and one is to be made.
    ///
    /// # Errors
    /// When it cannot be read or is not of its form.
    pub fn read(path: &Path, may_be_missing: bool) -> Result<Digests> {
        if may_be_missing && !path.exists() {
            return Ok(Digests::default());
        }
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read; --update makes it", path.display()))?;
        Digests::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Digests> {
        let mut digests = Digests::default();
        let lines = text.lines().enumerate();
        for (i, line) in lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#')) {
            let cut = line.split_once('\t').filter(|(_, rest)| rest.split('\t').count() == 4);
            let (case, rest) = cut.with_context(|| {
                format!("line {}: not case, output, type and shape, hash, statistics", i + 1)
            })?;
            digests.0.entry(case.to_owned()).or_default().push(rest.to_owned());
        }
        Ok(digests)
    }

    /// Puts the digests of a case in place of those there are.
    pub fn set(&mut self, case: &str, lines: Vec<String>) {
        self.0.insert(case.to_owned(), lines);
    }

    /// The file.
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (case, lines) in &self.0 {
            lines.iter().for_each(|line| text.push_str(&format!("{case}\t{line}\n")));
        }
        text
    }

    /// Compares the digests of a case with those that are known.
    ///
    /// # Errors
    /// The first output that is another, as it is and as it was.
    pub fn compare(&self, case: &str, lines: &[String]) -> Result<()> {
        let Some(known) = self.0.get(case) else {
            bail!("there is no digest of it; --update adds what it gives now");
        };
        match (are_of_layers(known), are_of_layers(lines)) {
            (true, false) => {
                bail!("its digests are those of layers; give --layers to compare them")
            }
            (false, true) => bail!(
                "its digests are those of outputs; leave --layers out, or renew them with --update"
            ),
            _ => {}
        }
        for (line, known) in lines.iter().zip(known) {
            if line != known {
                bail!("the digest differs: {}; it was {}", shown(line), shown(known));
            }
        }
        let (now, then) = (lines.len(), known.len());
        ensure!(now == then, "it has {now} values, but digests of {then}");
        Ok(())
    }
}

/// Whether lines are of layers, which have names, and not of outputs, which are counted.
fn are_of_layers(lines: &[String]) -> bool {
    let name = lines.first().and_then(|line| line.split('\t').next()).unwrap_or_default();
    !name.bytes().all(|b| b.is_ascii_digit())
}

fn shown(line: &str) -> String {
    line.replace('\t', " ")
}

/// The digest files of a run.
#[derive(Default)]
pub struct DigestFiles(BTreeMap<PathBuf, Digests>);

impl DigestFiles {
    /// Reads each file once.
    ///
    /// # Errors
    /// When one cannot be read or is not of its form.
    pub fn read(files: impl Iterator<Item = PathBuf>, may_be_missing: bool) -> Result<DigestFiles> {
        let mut read = DigestFiles::default();
        for file in files {
            if let Entry::Vacant(unread) = read.0.entry(file) {
                let digests = Digests::read(unread.key(), may_be_missing)?;
                unread.insert(digests);
            }
        }
        Ok(read)
    }

    /// Whether a file has digests of a case.
    pub fn has(&self, file: &Path, case: &str) -> bool {
        self.0.get(file).is_some_and(|digests| digests.0.contains_key(case))
    }

    /// As [`Digests::compare`], with those of a file.
    ///
    /// # Errors
    /// The first line that is another.
    pub fn compare(&self, file: &Path, case: &str, lines: &[String]) -> Result<()> {
        self.0.get(file).context("its digest file has not been read")?.compare(case, lines)
    }

    /// Puts the digests of a case in place of those in a file.
    pub fn set(&mut self, file: &Path, case: &str, lines: &[String]) {
        if let Some(digests) = self.0.get_mut(file) {
            digests.set(case, lines.to_vec());
        }
    }

    /// Writes the files.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(&self) -> Result<()> {
        for (path, digests) in &self.0 {
            let text = digests.text();
            out::write_whole(path, |file| Ok(file.write_all(text.as_bytes())?))?;
        }
        Ok(())
    }
}

/// A line for each output.
pub fn of(outputs: &[Tensor]) -> Vec<String> {
    outputs.iter().enumerate().map(|(i, tensor)| line(&i.to_string(), tensor)).collect()
}

/// A line for each output of each layer of a run but constants, in the order in which they are
/// computed: the first that is another is where values begin to differ.
#[derive(Default)]
pub struct LayerDigests {
    /// What paths begin with.
    around: String,
    lines: Vec<String>,
    /// Where in the list each of them is, by its path.
    places: HashMap<String, usize>,
}

impl LayerDigests {
    /// Of a run whose values are told from those of others by what their paths begin with.
    pub fn new(around: String) -> LayerDigests {
        LayerDigests { around, ..LayerDigests::default() }
    }

    /// The lines.
    pub fn into_lines(self) -> Vec<String> {
        self.lines
    }
}

impl Observer for LayerDigests {
    /// What the plan has computed replaces what was computed as written.
    fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
        if value.layer.is("Const") {
            return Ok(());
        }
        let path = format!("{}{}", self.around, value.path());
        let line = line(&path, &value.tensor().map_err(|e| e.to_string())?);
        match self.places.get(&path) {
            Some(&place) => self.lines[place] = line,
            None => {
                self.places.insert(path, self.lines.len());
                self.lines.push(line);
            }
        }
        Ok(())
    }
}

fn line(name: &str, tensor: &Tensor) -> String {
    let hash = match tensor.as_strings() {
        Some(strings) => farmhash::fingerprint64(strings.join("\0").as_bytes()),
        None => farmhash::fingerprint64(tensor.bytes()),
    };
    let shape = PartialShape::fixed(tensor.sizes());
    let stats = statistics(tensor);
    // Names may hold what separates columns.
    let name = name.replace(['\t', '\n'], " ");
    format!("{name}\t{}{shape}\t{hash:016x}\t{stats}", tensor.element_type())
}

/// Least, greatest and mean value, and how many are NaN.
fn statistics(tensor: &Tensor) -> String {
    let wide = runtime::convert(tensor, ElementType::F64);
    let values = wide.as_ref().ok().and_then(|t| t.as_slice::<f64>()).unwrap_or_default();
    let numbers: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    if numbers.is_empty() {
        return format!("{} NaN", values.len());
    }
    let min = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let max = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let nans = values.len() - numbers.len();
    format!("min {min:.4e} max {max:.4e} mean {mean:.4e} NaN {nans}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_as_they_are_written() {
        let tensor = Tensor::from_vec(&[2], vec![1f32, f32::NAN]).unwrap();
        let other = Tensor::from_vec(&[2], vec![1f32, -0.5]).unwrap();
        let mut digests = Digests::default();
        digests.set("cases/a b", of(std::slice::from_ref(&tensor)));
        let read = Digests::parse(&digests.text()).unwrap();
        assert_eq!(read, digests);
        assert!(read.compare("cases/a b", &of(std::slice::from_ref(&tensor))).is_ok());
        let said = read.compare("cases/a b", &of(&[other])).unwrap_err().to_string();
        assert!(said.contains("mean 2.5000e-1") && said.contains("NaN 1"), "{said}");
        assert!(read.compare("cases/a b", &of(&[tensor.clone(), tensor])).is_err());
        assert!(read.compare("cases/c", &[]).unwrap_err().to_string().contains("--update"));
        assert!(Digests::parse("a\tb\n").is_err());
    }
}
