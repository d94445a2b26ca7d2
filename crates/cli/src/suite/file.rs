//! `irrun.toml`: a suite of models, as it is written (`docs/formats.md`, `docs/schema/suite.json`).

use crate::compare::tolerance::{Bound, ToleranceArgs};
use crate::media::picture::{Channels, PerChannel, PictureArgs};
use anyhow::{Context, Result, anyhow, bail, ensure};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A suite file that has been read. Keys are called as the flags are.
pub struct SuiteFile {
    /// Where it lies; paths in it begin at its directory.
    pub path: PathBuf,
    content: Content,
}

/// Models to run, and what they must give.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Suite")]
pub struct Content {
    /// The relative tolerance of models that have none of their own; 0 without any.
    rtol: Option<Bounds>,
    /// The absolute tolerance of models that have none of their own; 0 without any.
    atol: Option<Bounds>,
    /// The digests of the models that have no goldens.
    digests: Option<PathBuf>,
    /// The models.
    #[serde(default, rename = "model")]
    models: Vec<Model>,
}

/// A model, its inputs, and what it must give.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The model: an `.xml`, or a directory that holds one.
    pub path: PathBuf,
    /// Its name in reports; its path without one.
    #[serde(default)]
    pub name: String,
    /// Groups that `--tag` chooses by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Inputs, as `--input` takes them: `NAME=FILE`, `FILE`.
    #[serde(default)]
    pub input: Vec<String>,
    /// Inputs of strings, as `--text` takes them.
    #[serde(default)]
    pub text: Vec<String>,
    /// Shapes, as `--shape` takes them.
    #[serde(default)]
    pub shape: Vec<String>,
    /// Inputs that are not given are random values of this seed, as with `--random --seed`.
    pub seed: Option<u64>,
    /// Bounds of random values, as `--range` takes them: `NAME=LO:HI`.
    #[serde(default)]
    pub range: Vec<String>,
    /// Whether inputs of another type than the model takes are converted.
    #[serde(default)]
    pub cast: bool,
    /// What is subtracted from the values of a picture: a number, or one for each channel.
    mean: Option<Numbers>,
    /// What they are divided by then.
    scale: Option<Numbers>,
    /// The order in which the input takes the channels of a picture.
    channels: Option<Channels>,
    /// The goldens, as `--expect` takes them: an archive, an array or a directory of arrays.
    pub expect: Option<PathBuf>,
    /// The relative tolerance: a number, or a list such as `["1e-4", "logits:1e-3"]`.
    rtol: Option<Bounds>,
    /// The absolute tolerance.
    atol: Option<Bounds>,
}

/// Numbers as `--mean` takes them.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "give a number, or a list such as [123.7, 116.3, 103.5]")]
enum Numbers {
    /// Of all channels.
    One(f32),
    /// Of each.
    Each(Vec<f32>),
}

impl Numbers {
    fn per_channel(&self) -> Result<PerChannel> {
        let numbers = match self {
            Numbers::One(number) => vec![*number],
            Numbers::Each(numbers) => numbers.clone(),
        };
        PerChannel::of_numbers(numbers).map_err(|message| anyhow!(message))
    }
}

/// Tolerances as `--rtol` takes them.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "give a number, or a list such as [\"1e-4\", \"logits:1e-3\"]")]
enum Bounds {
    /// Of all outputs.
    Number(f64),
    /// `X` or `NAME:X`.
    List(Vec<String>),
}

impl Bounds {
    fn parse(&self) -> Result<Vec<Bound>> {
        let parse = |text: &str| text.parse().map_err(|e: String| anyhow!("{text}: {e}"));
        match self {
            Bounds::Number(number) => Ok(vec![parse(&number.to_string())?]),
            Bounds::List(list) => list.iter().map(|text| parse(text)).collect(),
        }
    }
}

impl SuiteFile {
    /// What such a file is called where a directory is searched.
    pub const NAME: &str = "irrun.toml";

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is not of its form, with the line.
    pub fn read(path: &Path) -> Result<SuiteFile> {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(shown)?;
        SuiteFile::parse(path, &text)
    }

    /// Reads the text of a file that lies at a path.
    ///
    /// # Errors
    /// When it is not of its form, with the line.
    pub fn parse(path: &Path, text: &str) -> Result<SuiteFile> {
        let content = Content::parse(text).with_context(|| path.display().to_string())?;
        Ok(SuiteFile { path: path.to_owned(), content })
    }

    /// The models in it.
    pub fn models(&self) -> &[Model] {
        &self.content.models
    }

    /// A path of the file as it is from here.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// The digest file, if the suite has one.
    pub fn digests(&self) -> Option<PathBuf> {
        self.content.digests.as_deref().map(|path| self.resolve(path))
    }

    /// How far outputs of a model may be from its goldens.
    ///
    /// # Errors
    /// When a tolerance is none, which no file has that has been read.
    pub fn tolerance(&self, model: &Model) -> Result<ToleranceArgs> {
        self.content.tolerance(model)
    }
}

impl Content {
    fn parse(text: &str) -> Result<Content> {
        let mut content: Content = toml::from_str(text)?;
        ensure!(!content.models.is_empty(), "it lists no model; each is a table [[model]]");
        let mut seen = HashSet::new();
        for model in &mut content.models {
            if model.name.is_empty() {
                model.name = model.path.with_extension("").display().to_string();
            }
            if !seen.insert(&model.name) {
                bail!("two models are called \"{}\"; give one of them another name", model.name);
            }
            ensure!(
                model.seed.is_some() || model.range.is_empty(),
                "model \"{}\": range is for random values; give a seed too",
                model.name
            );
        }
        for model in &content.models {
            let whose = || format!("model \"{}\"", model.name);
            content.tolerance(model).with_context(whose)?;
            model.pictures().with_context(whose)?;
        }
        Ok(content)
    }

    fn tolerance(&self, model: &Model) -> Result<ToleranceArgs> {
        let bounds = |own: &Option<Bounds>, of_all: &Option<Bounds>| {
            own.as_ref().or(of_all.as_ref()).map_or(Ok(Vec::new()), Bounds::parse)
        };
        Ok(ToleranceArgs {
            rtol: bounds(&model.rtol, &self.rtol).context("rtol")?,
            atol: bounds(&model.atol, &self.atol).context("atol")?,
        })
    }
}

impl Model {
    /// How its pictures are read.
    ///
    /// # Errors
    /// When a number is none, which no file has that has been read.
    pub fn pictures(&self) -> Result<PictureArgs> {
        let numbers =
            |numbers: &Option<Numbers>| numbers.as_ref().map(Numbers::per_channel).transpose();
        let scale = numbers(&self.scale).context("scale")?.map(PerChannel::without_zero);
        let scale = scale.transpose().map_err(|message| anyhow!("scale: {message}"))?;
        let mean = numbers(&self.mean).context("mean")?;
        Ok(PictureArgs { mean, scale, channels: self.channels })
    }

    /// Whether it is compared with arrays.
    pub fn has_goldens(&self) -> bool {
        self.expect.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Content::parse(text).err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert!(error("").contains("lists no model"));
        let said = error("[[model]]\npath = \"a.xml\"\nexpected = \"b.npz\"\n");
        assert!(said.contains("line 3") && said.contains("unknown field `expected`"), "{said}");
        let said = error("rtol = \"x\"\n[[model]]\npath = \"a.xml\"\n");
        assert!(said.contains("line 1") && said.contains("give a number, or a list"), "{said}");
        let said = error("rtol = -1\n[[model]]\npath = \"a.xml\"\n");
        assert!(said.contains("give a number from 0 on, or NAME:NUMBER"), "{said}");
        let twice = "[[model]]\npath = \"a.xml\"\n[[model]]\npath = \"a.xml\"\n";
        assert!(error(twice).contains("two models are called \"a\""));
        let scale = "[[model]]\npath = \"a.xml\"\nscale = [1, 0]\n";
        assert!(error(scale).contains("model \"a\": scale: 0 divides nothing"));
        let mean = "[[model]]\npath = \"a.xml\"\nmean = []\n";
        assert!(error(mean).contains("mean: give a number, or one for each channel"));
        let range = "[[model]]\npath = \"a.xml\"\nrange = [\"x=0:1\"]\n";
        assert!(error(range).contains("give a seed too"));
    }

    #[test]
    fn tolerances_of_a_model_go_before_those_of_all() {
        let text = "rtol = 1e-3\natol = 2\n[[model]]\npath = \"m/a.xml\"\nrtol = [\"y:1e-5\"]\n";
        let file =
            SuiteFile { path: "s/irrun.toml".into(), content: Content::parse(text).unwrap() };
        let model = &file.models()[0];
        assert_eq!(model.name, Path::new("m/a").display().to_string());
        let tolerance = file.tolerance(model).unwrap();
        assert_eq!(tolerance.rtol, ["y:1e-5".parse::<Bound>().unwrap()]);
        assert_eq!(tolerance.atol, ["2".parse::<Bound>().unwrap()]);
        assert_eq!(file.resolve(&model.path), Path::new("s/m/a.xml"));
    }
}
