//! Looking into a run: values of layers into an archive, beside a reference, checked for NaN.

pub(crate) mod dump;
pub(crate) mod finite;
pub(crate) mod steps;

use crate::exit::{Exit, Failure, OrExit};
use anyhow::anyhow;
use clap::Args;
use dump::Dump;
use finite::Finite;
use ir::Graph;
use runtime::{Observed, Observer};
use std::path::PathBuf;
use steps::Steps;

/// The flags.
#[derive(Debug, Default, Args)]
pub struct LookArgs {
    /// Layers whose values are written, or summarised without --dump-to: by layer or tensor name
    /// with * and ?, or by type as op:MatMul.
    #[arg(long, value_name = "NAME|GLOB|op:TYPE")]
    pub dump: Vec<String>,
    /// Where the values of --dump go, an array for each output: `LAYER:PORT`, and
    /// `LOOP[2]/LAYER:PORT` in the third iteration of a body.
    #[arg(long, value_name = "FILE.npz", requires = "dump")]
    pub dump_to: Option<PathBuf>,
    /// Write the values of all layers except constants.
    #[arg(long, value_name = "FILE.npz", conflicts_with = "dump_to")]
    pub dump_all: Option<PathBuf>,
    /// Values of layers from elsewhere, as --dump-all and docs/tools/dump_openvino.py write them:
    /// the first layer that differs is told. The exit code is 1 if one does.
    #[arg(long, value_name = "REF.npz|DIR")]
    pub compare_steps: Option<PathBuf>,
    /// Stop at the first layer that makes a NaN or an infinity of finite inputs; exit code 5.
    #[arg(long)]
    pub nan_check: bool,
}

impl LookArgs {
    /// Whether any value of a layer is looked at.
    pub fn is_empty(&self) -> bool {
        let nothing_to_dump = self.dump.is_empty() && self.dump_all.is_none();
        nothing_to_dump && self.compare_steps.is_none() && !self.nan_check
    }

    /// The files that are written.
    pub fn written(&self) -> impl Iterator<Item = &PathBuf> {
        self.dump_to.iter().chain(&self.dump_all)
    }
}

/// All that looks at a run.
pub(crate) struct Look {
    /// The values to be written.
    pub dump: Option<Dump>,
    /// The values beside a reference.
    pub steps: Option<Steps>,
    /// Which values are finite.
    pub finite: Option<Finite>,
}

impl Look {
    /// What the flags ask for.
    ///
    /// # Errors
    /// When a pattern names no layer, or the reference cannot be opened.
    pub(crate) fn new(
        args: &LookArgs,
        tolerance: &crate::compare::tolerance::ToleranceArgs,
        graph: &Graph,
    ) -> Result<Look, Failure> {
        if let Some(path) = args.written().find(|path| !crate::npz::is_named(path)) {
            let error = anyhow!("{}: values of layers go into an .npz", path.display());
            return Err(Failure { exit: Exit::Usage, error });
        }
        let dumps = args.dump_all.is_some() || !args.dump.is_empty();
        let dump = dumps.then(|| Dump::new(args, graph)).transpose().or_exit(Exit::Usage)?;
        let steps = args.compare_steps.as_ref();
        let steps = steps.map(|path| Steps::open(path, tolerance.clone())).transpose();
        let finite = args.nan_check.then(Finite::default);
        Ok(Look { dump, steps: steps.or_exit(Exit::Input)?, finite })
    }
}

impl Observer for Look {
    fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
        self.dump.iter_mut().try_for_each(|dump| dump.value(value))?;
        self.steps.iter_mut().try_for_each(|steps| steps.value(value))?;
        self.finite.iter_mut().try_for_each(|finite| finite.value(value))
    }
}
