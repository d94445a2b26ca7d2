//! `--expect`: the outputs of a run beside what they should be.

use crate::args::whole;
use crate::arrays::Arrays;
use crate::bind::{self, Port};
use crate::compare::Tolerance;
use crate::compare::comparison::Comparison;
use crate::compare::show::short;
use crate::compare::tolerance::{Tol, ToleranceArgs, auto};
use crate::exit::{Exit, Failure, OrExit};
use crate::print;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use ir::ElementType;
use runtime::Tensor;
use std::ffi::OsString;
use std::path::PathBuf;

/// The flags.
#[derive(Debug, Default, Args)]
pub struct ExpectArgs {
    /// What the outputs should be: an .npz with an array for each output, a directory with an .npy
    /// for each, or an .npy for one. The exit code is 1 if they differ.
    #[arg(long, value_name = "[NAME|INDEX=]FILE|DIR")]
    pub expect: Vec<OsString>,
    /// How far values may be apart; not at all without it.
    #[command(flatten)]
    pub tolerance: ToleranceArgs,
    /// Choose the tolerance from the element type and the number of summed terms, and print it.
    /// --compare-steps always uses the element type alone.
    #[arg(long, value_name = "auto", conflicts_with_all = ["rtol", "atol"])]
    pub tol: Option<Tol>,
    /// Elements listed of each output that differs.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "expect")]
    #[arg(value_parser = whole::<usize>)]
    pub worst: usize,
}

/// What is expected of the outputs.
pub(crate) struct Expected {
    /// Where the array of each output is, by position of the output.
    arrays: Vec<Option<(usize, usize)>>,
    sources: Vec<Arrays>,
}

impl Expected {
    /// Opens the files, and finds in them what each output should be.
    ///
    /// # Errors
    /// When an array is for no output, or two are for one.
    pub(crate) fn open(
        args: &ExpectArgs,
        ports: &[Port],
        compares_steps: bool,
    ) -> Result<Expected, Failure> {
        let known = ports.iter().flat_map(|p| p.names.iter().chain([&p.friendly]));
        if !compares_steps {
            args.tolerance.all_name_one_of(known.map(String::as_str)).or_exit(Exit::Usage)?;
        }
        let has_tolerance = !args.tolerance.is_empty() || args.tol.is_some();
        if args.expect.is_empty() && has_tolerance && !compares_steps {
            let error = anyhow!(
                "--rtol, --atol and --tol say how values are compared; give --expect or \
                 --compare-steps too"
            );
            return Err(Failure { exit: Exit::Usage, error });
        }
        let mut expected = Expected { arrays: vec![None; ports.len()], sources: Vec::new() };
        for arg in &args.expect {
            let (key, path) = bind::split(arg, ports);
            let key = key.map(|key| bind::find(ports, key, "output")).transpose();
            let key = key.context("--expect").or_exit(Exit::Usage)?;
            let arrays = Arrays::open(path).context("--expect").or_exit(Exit::Input)?;
            expected.add(arrays, key, ports).context("--expect").or_exit(Exit::Input)?;
        }
        Ok(expected)
    }

    /// The files that are read.
    pub(crate) fn files(args: &ExpectArgs, ports: &[Port]) -> impl Iterator<Item = PathBuf> {
        args.expect.iter().map(|arg| bind::split(arg, ports).1.to_owned())
    }

    /// What an output should be, if there is an array for it.
    ///
    /// # Errors
    /// When the array cannot be read.
    pub(crate) fn read(
        &mut self,
        output: usize,
        element_type: ElementType,
    ) -> Result<Option<Tensor>> {
        let Some((source, array)) = self.arrays[output] else { return Ok(None) };
        self.sources[source].read(array, element_type).map(Some)
    }

    fn add(&mut self, arrays: Arrays, key: Option<usize>, ports: &[Port]) -> Result<()> {
        let shown = arrays.path().display().to_string();
        let source = self.sources.len();
        let mut found = Vec::new();
        match key {
            Some(output) if arrays.names().len() == 1 => found.push((output, 0)),
            Some(output) => {
                let array = array_of(output, ports, &arrays);
                let name = ports[output].shown();
                let array = array.with_context(|| {
                    format!("none of the arrays in {shown} is called \"{name}\"")
                })?;
                found.push((output, array));
            }
            None if arrays.is_one_file() => {
                let output = self.arrays.iter().position(Option::is_none);
                let output = output.with_context(|| format!("{shown} is one file too many"))?;
                found.push((output, 0));
            }
            None => {
                let output = |output| Some((output, array_of(output, ports, &arrays)?));
                found.extend((0..ports.len()).filter_map(output));
                all_are_outputs(&arrays, &found, ports)?;
            }
        }
        for (output, array) in found {
            if self.arrays[output].is_some() {
                bail!("output {output} ({}) is given twice", ports[output].shown());
            }
            self.arrays[output] = Some((source, array));
        }
        self.sources.push(arrays);
        Ok(())
    }

    /// Compares the outputs; nothing if nothing is expected. `sums` are the terms that are added up
    /// on the longest way to each, for `--tol auto`.
    ///
    /// # Errors
    /// When an array cannot be read.
    pub(crate) fn compare(
        mut self,
        outputs: &[Tensor],
        ports: &[Port],
        args: &ExpectArgs,
        sums: &[u64],
    ) -> Result<Vec<Comparison>, Failure> {
        let mut comparisons = Vec::new();
        for (i, (port, got)) in ports.iter().zip(outputs).enumerate() {
            let expected = self.read(i, got.element_type());
            let Some(expected) = expected.context("--expect").or_exit(Exit::Input)? else {
                if !self.sources.is_empty() {
                    let name = port.shown();
                    print::note(format_args!(
                        "note: output {i} ({name}) is not compared: --expect has no array for it"
                    ));
                }
                continue;
            };
            let tolerance = match (args.tol, sums.get(i)) {
                (Some(Tol::Auto), Some(&sums)) => {
                    told(auto(&expected, sums), &expected, sums, port)
                }
                _ => args.tolerance.of(|name| port.is(name)),
            };
            comparisons.push(Comparison::of(port.shown(), got, &expected, tolerance, args.worst));
        }
        Ok(comparisons)
    }
}

/// Says so when real numbers differ by little that were compared without any tolerance.
pub(crate) fn tell_of_exactness(compared: &[Comparison]) {
    let is_exact = |c: &&Comparison| c.tolerance == Tolerance::default() && c.mismatch.is_none();
    let near_one = |part: Option<f64>| part.is_some_and(|part| (part - 1.0).abs() < LITTLE);
    // As a whole: of values near 0, small differences are large parts.
    let is_little = |c: &Comparison| {
        let known = c.difference.as_ref().filter(|d| d.incomparable == 0 && d.max_ulp.is_some());
        known.is_some_and(|d| near_one(d.cosine) && near_one(d.magnitude_ratio))
    };
    if compared.iter().filter(|c| !c.ok).filter(is_exact).any(is_little) {
        print::note(
            "note: compared exactly, as no tolerance is given; --tol auto allows what another order \
             of sums makes",
        );
    }
}

/// How far direction and length of all values may be from the same by rounding.
const LITTLE: f64 = 1e-3;

/// Says what a tolerance follows from.
fn told(tolerance: Tolerance, expected: &Tensor, sums: u64, port: &Port) -> Tolerance {
    let (name, element_type) = (port.shown(), expected.element_type());
    let Tolerance { rtol, atol } = tolerance;
    if rtol == 0.0 {
        print::note(format_args!("--tol auto: output \"{name}\" is {element_type}: equal"));
    } else {
        print::note(format_args!(
            "--tol auto: output \"{name}\" is {element_type}, and {sums} terms are added up on the \
             longest way to it: rtol {}, atol {}",
            short(rtol),
            short(atol)
        ));
    }
    tolerance
}

/// The array of an output: by any of its names, else `expected_2`, `arr_2` or `2`.
fn array_of(output: usize, ports: &[Port], arrays: &Arrays) -> Option<usize> {
    let port = &ports[output];
    let mut names = port.names.iter().chain([&port.friendly]);
    let numbered = || {
        let plain = ["expected_", "arr_", ""].map(|prefix| format!("{prefix}{output}"));
        plain.iter().find_map(|name| arrays.names().iter().position(|own| own == name))
    };
    names.find_map(|name| arrays.find(name)).or_else(numbered)
}

/// An array that is for no output is a mistake; in a directory, files are there for other reasons.
fn all_are_outputs(arrays: &Arrays, found: &[(usize, usize)], ports: &[Port]) -> Result<()> {
    let is_found = |array: usize| found.iter().any(|(_, other)| *other == array);
    let stray = (0..arrays.names().len()).find(|array| !is_found(*array));
    let Some(stray) = stray.filter(|_| found.is_empty() || !arrays.path().is_dir()) else {
        return Ok(());
    };
    let name = &arrays.names()[stray];
    let shown = arrays.path().display();
    let outputs = ports.iter().map(Port::shown);
    match crate::text::nearest(name, outputs.clone()) {
        Some(near) => bail!("{shown}: array \"{name}\" is no output; did you mean \"{near}\"?"),
        None => bail!(
            "{shown}: array \"{name}\" is no output; the model has {}",
            outputs.collect::<Vec<_>>().join(", ")
        ),
    }
}
