//! What is done to a net before it becomes a plan. Each pass is a module of its own; none changes
//! what a model computes but for the rounding that its page in `docs/numerics.md` allows.

mod attention;
mod beams;
mod beside;
mod caches;
mod compose;
mod decompress;
mod einsum;
mod epilogue;
mod fold;
mod gate;
mod gelu;
pub(crate) mod integers;
mod layer_norm;
mod layout;
mod lengths;
mod levels;
mod map;
mod means;
mod padding;
mod pattern;
mod rms;
mod rotary;
mod rounded;
mod rows;
mod sweep;
mod tidy;
mod together;
mod weights;

use crate::engine::Shared;
use crate::net::Net;
use crate::plan::Options;
use infer::{Fact, Facts};
use ir::Graph;
use kernels::par::Threads;
use std::collections::HashMap;
use std::sync::Arc;

/// What passes see besides the net.
pub(crate) struct PassCx<'a> {
    pub(crate) graph: &'a Graph,
    /// The variables that have a value in every run, if that is known.
    pub(crate) variables: Option<&'a HashMap<String, Fact>>,
    pub(crate) shared: Shared,
}

/// A pass: it returns how many nodes it has taken out or rewritten.
type Pass = fn(&mut Net, &PassCx<'_>) -> usize;

/// What every plan needs, optimised or not: where OpenVINO computes something else than the words
/// of the specification, and models depend on it.
const MEANING: &[(&str, Pass)] = &[
    ("decompress in f32", decompress::widen),
    ("attend over variables", attention::cached),
    ("drop what these replace", tidy::drop_dead),
];

/// In the order in which they run.
const PASSES: &[(&str, Pass)] = &[
    ("write sums as products", einsum::products),
    ("notice levels and integers", integers::notice),
    ("fold constants", fold::fold),
    ("gather before decompressing", rows::rows),
    ("drop what does nothing", tidy::drop_idle),
    ("share what is computed twice", tidy::share),
    ("recognise Gelu", gelu::gelu),
    ("drop what nothing needs", tidy::drop_dead),
    ("drop indices that nothing reads", tidy::drop_indices),
    ("grow caches where they lie", caches::caches),
    ("drop what these replace", tidy::drop_dead),
    ("channels last", layout::layout),
    ("multiply integers", integers::multiply),
    ("recognise attention", attention::attention),
    ("recognise normalisation", rms::rms),
    ("recognise layer normalisation", layer_norm::layer_norm),
    ("recognise rotary embedding", rotary::rotary),
    ("drop what these replace", tidy::drop_dead),
    ("read side by side", beside::beside),
    ("compose movements", compose::compose),
    ("finish products in the cache", epilogue::epilogue),
    ("round while reading", levels::round),
    ("drop what these replace", tidy::drop_dead),
    ("keep levels as bytes", levels::keep),
    ("multiply by gates while reading", gate::gate),
    ("average while convolving", means::means),
    ("round for products alone", rounded::round),
    ("multiply weights as they are stored", weights::weights),
    ("drop what these replace", tidy::drop_dead),
    ("decompress once", decompress::once),
    ("drop what is left over", tidy::drop_dead),
    ("multiply the same rows together", together::together),
    ("keep beams where they are", beams::beams),
];

/// Runs the passes that every plan needs, and all others if they are wanted. Returns what each has
/// done, for `--explain`.
pub(crate) fn rewrite(
    net: &mut Net,
    (graph, facts): (&Graph, &Facts),
    options: &Options,
) -> Vec<(&'static str, usize)> {
    let shared = Shared::new(options.clone(), Arc::new(Threads::new(1)), Arc::default());
    let cx = PassCx { graph, variables: facts.variables(), shared };
    let wanted = if options.optimize { PASSES } else { &[] };
    MEANING.iter().chain(wanted).map(|(name, pass)| (*name, pass(net, &cx))).collect()
}
