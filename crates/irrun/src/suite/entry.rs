//! A model of a suite file: read, run, compared.

use super::case::has_unknown_operation;
use super::digests::{self, LayerDigests};
use super::file::{Model, SuiteFile};
use super::test::Test;
use crate::bind::{self, Declared, Given, Port};
use crate::compare::compare;
use crate::exit::{Exit, Failure, OrExit};
use crate::expect::{ExpectArgs, Expected};
use crate::random::{self, RandomArgs};
use crate::{locate, run};
use anyhow::{Context, Result, anyhow, ensure};
use ir::Graph;
use runtime::{Options, Session, Tensor, Threads};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

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
    ports: Vec<Port>,
    session: Session,
}

impl Entry<'_> {
    fn read(&self) -> Result<Graph> {
        Ok(ir::read(locate::model_file(&self.file.resolve(&self.entry.path)))?)
    }

    fn ready(&self, options: &Options, threads: &Arc<Threads>) -> Result<Ready> {
        let graph = self.read()?;
        let inputs = self.inputs(&graph).map_err(|failure| failure.error)?;
        let plan = run::plan(&graph, &inputs, &[], options).map_err(|failure| failure.error)?;
        let session = plan.session_on(Arc::clone(threads));
        Ok(Ready { inputs, ports: bind::outputs(&graph), session })
    }

    fn inputs(&self, graph: &Graph) -> Result<Vec<Tensor>, Failure> {
        let Model { input, text, shape, seed, range, cast, .. } = self.entry;
        let declared = Declared::new(graph, shape)?;
        let files: Vec<_> = input.iter().map(|arg| self.argument(arg, &declared.ports)).collect();
        let media = self.entry.pictures().or_exit(Exit::Usage)?;
        let given = Given { files: &files, texts: text, cast: *cast, media: &media };
        let mut given = bind::given_inputs(&given, &declared)?;
        if let Some(seed) = *seed {
            let range = range.iter().map(|text| text.parse()).collect::<Result<_, String>>();
            let range =
                range.map_err(|message| anyhow!("range: {message}")).or_exit(Exit::Usage)?;
            let args = RandomArgs { random: true, seed, range, save_inputs: None };
            random::fill(&args, &mut given, &declared)?;
        }
        bind::complete(given, &declared).or_exit(Exit::Usage)
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

    /// Where the goldens are.
    fn goldens(&self) -> Result<OsString> {
        let path = self.entry.expect.as_ref().context(
            "nothing says what it must give; add `expect = \"golden.npz\"` to it, or `digests = \
             \"FILE\"` at the top of the file, and make them with --update",
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
        Ok(has_unknown_operation(&self.read()?))
    }

    fn compare(&self, options: &Options, threads: &Arc<Threads>) -> Result<Vec<Tensor>> {
        let mut ready = self.ready(options, threads)?;
        let outputs = ready.session.run(&ready.inputs)?;
        let differences = self.differences(&outputs, &ready.ports)?;
        ensure!(differences.is_empty(), "{}", differences.join("; "));
        Ok(outputs)
    }

    fn digests(
        &self,
        options: &Options,
        threads: &Arc<Threads>,
        of_layers: bool,
    ) -> Result<Vec<String>> {
        let Ready { inputs, mut session, .. } = self.ready(options, threads)?;
        if !of_layers {
            return Ok(digests::of(&session.run(&inputs)?));
        }
        let (outputs, seen) = session.run_observed(&inputs, LayerDigests::default());
        outputs?;
        Ok(seen.into_lines())
    }

    fn update(&self, options: &Options, threads: &Arc<Threads>) -> Result<Vec<String>> {
        let mut ready = self.ready(options, threads)?;
        let outputs = ready.session.run(&ready.inputs)?;
        let golden = self.goldens()?;
        let changes = match self.differences(&outputs, &ready.ports) {
            Ok(none) if none.is_empty() => return Ok(none),
            Ok(changes) => changes,
            Err(_) if !Path::new(&golden).exists() => vec![format!("{} is new", golden.display())],
            Err(error) => vec![format!("{error:#}")],
        };
        let targets = bind::targets(&[golden], &ready.ports)?;
        run::write(&targets, &ready.ports, &outputs).map_err(|failure| failure.error)?;
        Ok(changes)
    }
}
