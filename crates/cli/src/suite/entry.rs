//! A model of a suite file: read, run, compared.

use super::case::has_unknown_operation;
use super::digests::{self, LayerDigests};
use super::file::{Model, SuiteFile};
use super::schedule::Runner;
use super::test::Test;
use crate::bind::{self, Declared, Given, Port};
use crate::compare::compare;
use crate::exit::{Exit, Failure, OrExit};
use crate::expect::{ExpectArgs, Expected};
use crate::random::{self, RandomArgs};
use crate::{locate, out, run};
use anyhow::{Context, Result, anyhow, ensure};
use runtime::{Session, Tensor};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A model and the file that lists it.
pub struct Entry<'a> {
    /// The suite.
    pub file: &'a SuiteFile,
    /// The model.
    pub entry: &'a Model,
}

/// A model that is ready to run.
struct Ready {
    inputs: Vec<Tensor>,
    /// The files that it was made of, which no golden may overwrite.
    read: Vec<(&'static str, PathBuf)>,
    ports: Vec<Port>,
    session: Session,
}

impl Entry<'_> {
    fn model(&self) -> PathBuf {
        locate::model_file(&self.file.resolve(&self.entry.path))
    }

    /// The files that are read for it, as far as they are known without the model.
    pub fn files(&self) -> Vec<out::Read> {
        let mut files = out::of_model(&self.model()).to_vec();
        let inputs = self.entry.input.iter().map(|arg| bind::split(arg.as_ref(), &[]).1);
        files.extend(inputs.map(|file| ("an input", self.file.resolve(file))));
        files.extend(bind::text_files(&self.entry.text).map(|file| ("an input", file)));
        let golden = self.entry.expect.iter().map(|file| self.file.resolve(file));
        files.extend(golden.map(|file| ("what is expected", file)));
        files
    }

    fn ready(&self, runner: &Runner<'_>) -> Result<Ready> {
        let model = self.model();
        let graph = locate::read(&model)?;
        let declared = Declared::new(&graph, &self.entry.shape).map_err(|failure| failure.error)?;
        let argument = |arg: &String| self.argument(arg, &declared.ports);
        let files: Vec<OsString> = self.entry.input.iter().map(argument).collect();
        let mut read = out::of_model(&model).to_vec();
        read.extend(bind::input_files(&files, &declared).map(|file| ("an input", file)));
        let inputs = self.inputs(&files, &declared).map_err(|failure| failure.error)?;
        let session = runner.session(&graph, &inputs, true)?;
        Ok(Ready { inputs, read, ports: bind::outputs(&graph), session })
    }

    fn inputs(&self, files: &[OsString], declared: &Declared) -> Result<Vec<Tensor>, Failure> {
        let Model { text, seed, range, cast, .. } = self.entry;
        let media = self.entry.pictures().or_exit(Exit::Usage)?;
        let given = Given { files, texts: text, cast: *cast, media: &media };
        let mut given = bind::given_inputs(&given, declared)?;
        if let Some(seed) = *seed {
            let range = range.iter().map(|text| text.parse()).collect::<Result<_, String>>();
            let range =
                range.map_err(|message| anyhow!("range: {message}")).or_exit(Exit::Usage)?;
            let args = RandomArgs { random: true, seed, range, save_inputs: None };
            random::fill(&args, &mut given, declared)?;
        }
        if let Some(missing) = bind::missing(&given, declared) {
            let error = anyhow!(
                "{missing}\nadd `input = [\"NAME=FILE\"]` to it, or `seed = 1` for random values"
            );
            return Err(Failure { exit: Exit::Usage, error });
        }
        bind::complete(given, declared).or_exit(Exit::Usage)
    }

    /// `NAME=FILE` with the file as it is from here.
    fn argument(&self, arg: &str, ports: &[Port]) -> OsString {
        let (key, path) = bind::split(arg.as_ref(), ports);
        let path = self.file.resolve(path).into_os_string();
        match key {
            Some(key) => {
                let mut arg = OsString::from(format!("{key}="));
                arg.push(path);
                arg
            }
            None => path,
        }
    }

    /// Where the goldens are, or are to be.
    fn goldens(&self) -> Result<OsString> {
        let path = self.entry.expect.as_ref().context(
            "nothing says what it must give; add `expect = \"golden.npz\"` to it, or `digests = \
             \"FILE\"` at the top of the file; --update makes them then",
        )?;
        Ok(self.file.resolve(path).into_os_string())
    }

    /// What differs: nothing, or a line for each output.
    fn differences(&self, outputs: &[Tensor], ports: &[Port]) -> Result<Vec<String>> {
        let tolerance = self.file.tolerance(self.entry)?;
        let expect = vec![self.goldens()?];
        let args = ExpectArgs { expect, tolerance: tolerance.clone(), ..ExpectArgs::default() };
        let goldens = Expected::open(&args, ports, false);
        let mut goldens = goldens.map_err(|failure| failure.error)?;
        let mut found = Vec::new();
        for (i, (got, port)) in outputs.iter().zip(ports).enumerate() {
            let name = port.shown();
            let golden = goldens.read(i, got.element_type())?;
            let golden = golden.with_context(|| format!("the goldens have no array for {name}"))?;
            if let Err(error) = compare(got, &golden, tolerance.of(|name| port.is(name))) {
                found.push(format!("output {i} ({name}): {error:#}"));
            }
        }
        Ok(found)
    }
}

impl Test for Entry<'_> {
    fn is_unsupported(&self) -> Result<bool> {
        Ok(has_unknown_operation(&locate::read(&self.model())?))
    }

    fn compare(&self, runner: &Runner<'_>) -> Result<Vec<Tensor>> {
        let mut ready = self.ready(runner)?;
        let outputs = ready.session.run(&ready.inputs)?;
        let differences = self.differences(&outputs, &ready.ports)?;
        ensure!(differences.is_empty(), "{}", differences.join("; "));
        Ok(outputs)
    }

    fn digests(&self, runner: &Runner<'_>, of_layers: bool) -> Result<Vec<String>> {
        let Ready { inputs, mut session, .. } = self.ready(runner)?;
        if !of_layers {
            return Ok(digests::of(&session.run(&inputs)?));
        }
        let (outputs, seen) = session.run_observed(&inputs, LayerDigests::default());
        outputs?;
        Ok(seen.into_lines())
    }

    fn update(&self, runner: &Runner<'_>) -> Result<Vec<String>> {
        let mut ready = self.ready(runner)?;
        let outputs = ready.session.run(&ready.inputs)?;
        let golden = self.goldens()?;
        let changes = match self.differences(&outputs, &ready.ports) {
            Ok(none) if none.is_empty() => return Ok(none),
            Ok(changes) => changes,
            Err(_) if !Path::new(&golden).exists() => vec![format!("{} is new", golden.display())],
            Err(error) => vec![format!("{error:#}")],
        };
        let targets = bind::targets(&[golden], &ready.ports)?;
        let written: Vec<&Path> = targets.iter().map(|t| t.path().as_path()).collect();
        out::keep_apart(&written, &ready.read)?;
        run::write(&targets, &ready.ports, &outputs).map_err(|failure| failure.error)?;
        Ok(changes)
    }
}
