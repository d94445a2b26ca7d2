//! `irrun diff A B`: how two arrays, archives or directories differ.

use crate::args::whole;
use crate::arrays::Arrays;
use crate::compare::comparison::Comparison;
use crate::compare::show;
use crate::compare::tolerance::ToleranceArgs;
use crate::exit::{Exit, Failure, OrExit};
use crate::text::{Glob, plural};
use crate::{json, print, stream};
use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use ir::ElementType;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Comparing arrays.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  irrun diff got.npy expected.npy
  irrun diff ours.npz theirs.npz --rtol 1e-4 --atol 1e-5,logits:1e-3
  irrun diff ours/ theirs/ --only 'layer4*' --json")]
pub struct DiffArgs {
    /// What is judged: an .npy, an .npz, a directory of .npy files, or - for standard input.
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// What it is judged by.
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// How far values may be apart; not at all without it.
    #[command(flatten)]
    pub tolerance: ToleranceArgs,
    /// Compare the arrays whose name matches, with * and ?.
    #[arg(long, value_name = "GLOB")]
    pub only: Option<Glob>,
    /// Compare what is in both; without it, an array that one of them lacks is a difference.
    #[arg(long)]
    pub common: bool,
    /// Elements listed of each array that differs.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<usize>)]
    pub worst: usize,
    /// Arrays whose worst elements and histogram are printed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<usize>)]
    pub details: usize,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Whether everything agrees.
    pub ok: bool,
    /// Arrays that only A has.
    pub only_a: Vec<String>,
    /// Arrays that only B has.
    pub only_b: Vec<String>,
    /// The arrays that both have.
    pub arrays: Vec<Comparison>,
}

/// The names of two sources, sorted into pairs.
struct Pairs {
    /// Positions in A and in B.
    both: Vec<(usize, usize)>,
    only_a: Vec<String>,
    only_b: Vec<String>,
}

/// Compares.
///
/// # Errors
/// When something cannot be read, or there is nothing to compare.
pub(crate) fn diff(args: &DiffArgs) -> Result<Exit, Failure> {
    if stream::is_standard_input(&args.a) && stream::is_standard_input(&args.b) {
        let error = anyhow!("- and -: standard input is read once; name a file for one of them");
        return Err(Failure { exit: Exit::Usage, error });
    }
    let mut a = Arrays::open(&args.a).or_exit(Exit::Input)?;
    let mut b = Arrays::open(&args.b).or_exit(Exit::Input)?;
    let pairs = pairs(&a, &b, args.only.as_ref()).or_exit(Exit::Usage)?;
    let names = pairs.both.iter().map(|(i, _)| a.names()[*i].as_str());
    args.tolerance.all_name_one_of(names).or_exit(Exit::Usage)?;
    let mut arrays = Vec::new();
    for &(i, j) in &pairs.both {
        let name = a.names()[i].clone();
        let first = a.read(i, ElementType::Dynamic).or_exit(Exit::Input)?;
        let second = b.read(j, first.element_type()).or_exit(Exit::Input)?;
        let tolerance = args.tolerance.of(|other| other == name);
        arrays.push(Comparison::of(&name, &first, &second, tolerance, args.worst));
    }
    let complete = args.common || pairs.only_a.is_empty() && pairs.only_b.is_empty();
    let ok = complete && arrays.iter().all(|c| c.ok);
    let Pairs { only_a, only_b, .. } = pairs;
    let report = Report { ok, only_a, only_b, arrays };
    if args.json {
        json::print(&report)?
    } else {
        print::text(text(&report, args))?
    }
    Ok(if ok { Exit::Good } else { Exit::Failed })
}

/// Which arrays of A and B are called the same. Two files of one array are a pair: their names say
/// nothing.
fn pairs(a: &Arrays, b: &Arrays, only: Option<&Glob>) -> Result<Pairs> {
    if a.is_one_file() && b.is_one_file() {
        return Ok(Pairs { both: vec![(0, 0)], only_a: Vec::new(), only_b: Vec::new() });
    }
    let wanted = |name: &String| only.is_none_or(|pattern| pattern.matches(name));
    let mut both = Vec::new();
    let mut only_a = Vec::new();
    for (i, name) in a.names().iter().enumerate().filter(|(_, name)| wanted(name)) {
        match b.find(name) {
            Some(j) => both.push((i, j)),
            None => only_a.push(name.clone()),
        }
    }
    let is_paired = |j: usize| both.iter().any(|(_, other)| *other == j);
    let unpaired = b.names().iter().enumerate().filter(|(j, name)| wanted(name) && !is_paired(*j));
    let only_b: Vec<String> = unpaired.map(|(_, name)| name.clone()).collect();
    let (first, second) = (a.path().display(), b.path().display());
    if both.is_empty() && only_a.is_empty() && only_b.is_empty() {
        let pattern = only.map(Glob::as_str).unwrap_or_default();
        let near = a.nearest(pattern).or_else(|| b.nearest(pattern));
        match near {
            Some(near) => {
                bail!("--only {pattern}: no array is called so; did you mean \"{near}\"?")
            }
            None => {
                bail!("--only {pattern}: neither {first} nor {second} has an array of such a name")
            }
        }
    }
    ensure!(
        !both.is_empty(),
        "{first} and {second} have no array in common: the first has {}, the second {}",
        listed(a.names()),
        listed(b.names())
    );
    Ok(Pairs { both, only_a, only_b })
}

/// Some names, and how many more there are.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("\"{name}\"")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn text(report: &Report, args: &DiffArgs) -> String {
    let mut text = show::text(&report.arrays, ["A", "B"], args.details);
    for (side, names) in [("A", &report.only_a), ("B", &report.only_b)] {
        if !names.is_empty() {
            text.push_str(&format!("only in {side}: {}\n", listed(names)));
        }
    }
    let differing = report.arrays.iter().filter(|c| !c.ok).count();
    if report.arrays.len() > 1 {
        let count = plural(report.arrays.len(), "array");
        text.push_str(&format!("{differing} of {count} differ\n"));
    }
    text
}
