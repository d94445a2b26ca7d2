//! Ranges that `--shape` gives: `1..64` says that each of 64 sizes works. A rule that holds for
//! some of them lets the range pass, so sizes are tried one by one.

use crate::bind::Declared;
use crate::exit::{Exit, Failure, OrExit};
use crate::print;
use infer::{Dim, Inputs, PartialShape};
use ir::{ByteOffset, Code, Diagnostic, Graph, Severity};
use rayon::prelude::*;

/// Sizes that are tried of a range in `--shape`: all, where there are no more.
const TRIED: usize = 64;
/// The same for `--range`, which asks for it. Fuzzing tries more ranges in place of more sizes.
const TRIED_WHEN_ASKED: usize = if cfg!(fuzzing) { 256 } else { 65_536 };
/// Sizes that are tried of a dim that `--range` leaves open, from 1 on.
const TRIED_OF_OPEN: usize = 64;
/// Of threads that try them: as much as a process begins with, since bodies lie in each other.
const STACK: usize = 8 << 20;

/// One dim of an input that is given as a range.
#[derive(Clone, Copy)]
struct Range {
    input: usize,
    axis: usize,
    min: i64,
    count: usize,
    /// Whether there are more sizes than can be tried.
    is_open: bool,
}

/// How ranges are tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// As `--shape` gives them.
    Shape,
    /// As `--range` asks for it.
    Range,
    /// As `--range` asks for it with `--exhaustive`: every size, however many there are.
    Exhaustive,
}

impl Trial {
    /// As the flags say.
    pub fn new(is_asked: bool, is_exhaustive: bool) -> Trial {
        match (is_asked, is_exhaustive) {
            (false, _) => Trial::Shape,
            (true, false) => Trial::Range,
            (true, true) => Trial::Exhaustive,
        }
    }

    /// How many sizes are tried at most.
    fn most(self) -> usize {
        match self {
            Trial::Shape => TRIED,
            Trial::Range => TRIED_WHEN_ASKED,
            Trial::Exhaustive => usize::MAX,
        }
    }

    fn flag(self) -> &'static str {
        if self == Trial::Shape { "--shape" } else { "--range" }
    }

    /// What tries every size of this many.
    fn remedy(self, total: usize) -> &'static str {
        match self {
            Trial::Shape if total <= TRIED_WHEN_ASKED => "--range in place of --shape tries each",
            _ => "--range with --exhaustive tries each",
        }
    }
}

/// Findings about the ranges that were given: the first sizes that fail, or that not all were
/// tried. When each of them works, that is a note if `--range` asked, else nothing.
///
/// # Errors
/// When the threads that try them cannot be started.
pub fn prove(graph: &Graph, declared: &Declared, trial: Trial) -> Result<Vec<Diagnostic>, Failure> {
    let ranges = ranges(declared, trial != Trial::Shape);
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    let total = ranges.iter().fold(1usize, |n, r| n.saturating_mul(r.count));
    let (tried, flag) = (total.min(trial.most()), trial.flag());
    let failing = |at: &Vec<i64>| fails(graph, declared, &shapes(declared, &ranges, at));
    let (failed, first) = failures(&ranges, (total, tried), |at| failing(at).is_some())?;
    let first = first.map(|at| least(&at, &ranges, |at| failing(at).is_some()));
    let first = first.and_then(|at| Some((shapes(declared, &ranges, &at), failing(&at)?)));
    let given = |shapes: &[PartialShape]| {
        let shape = |&i: &usize| format!("{}{}", declared.ports[i].shown(), shapes[i]);
        declared.overridden.iter().map(shape).collect::<Vec<_>>().join(",")
    };
    let range = given(&declared.shapes);
    let note = |message| vec![Diagnostic::note(Code::Unproven, ByteOffset(0), message)];
    Ok(match first {
        Some((shapes, problem)) => {
            let share = format!("{failed} of {tried} sizes tried in {flag} {range} do not work");
            let message = format!("with {}: {}; {share}", given(&shapes), problem.message);
            vec![Diagnostic { message, ..problem }]
        }
        None if tried < total || ranges.iter().any(|range| range.is_open) => {
            let reasons = reasons(&ranges, (total, tried), trial);
            note(format!("{flag} {range} is not proven: {reasons}"))
        }
        None if trial == Trial::Shape => Vec::new(),
        None => note(format!("each of the {total} sizes in {flag} {range} works")),
    })
}

/// Why sizes that all work prove nothing of the others, and how to have those tried.
fn reasons(ranges: &[Range], (total, tried): (usize, usize), trial: Trial) -> String {
    let mut reasons = Vec::new();
    if tried < total {
        let remedy = trial.remedy(total);
        reasons.push(format!("{tried} of {total} sizes were tried and work; {remedy}"));
    } else {
        reasons.push(format!("{tried} sizes were tried and work"));
    }
    if ranges.iter().any(|range| range.is_open) {
        reasons.push(format!("of each ? up to {TRIED_OF_OPEN}, of a range such as 1..512 all"));
    }
    reasons.join("; ")
}

/// How many of the sizes that are tried fail, and the first of them.
fn failures(
    ranges: &[Range],
    (total, tried): (usize, usize),
    fails: impl Fn(&Vec<i64>) -> bool + Sync,
) -> Result<(usize, Option<Vec<i64>>), Failure> {
    let pool = rayon::ThreadPoolBuilder::new().stack_size(STACK).build().or_exit(Exit::Running)?;
    let bar = print::progress(tried);
    let chosen = (0..tried).into_par_iter().map(|k| sizes(ranges, k, (total, tried)));
    let failed = chosen.inspect(|_| bar.inc(1)).filter(|at| fails(at)).map(|at| (1, Some(at)));
    let first = |a: Option<Vec<i64>>, b: Option<Vec<i64>>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let both = |(n, a): (usize, _), (m, b): (usize, _)| (n.saturating_add(m), first(a, b));
    let found = pool.install(|| failed.reduce(|| (0, None), both));
    bar.finish_and_clear();
    Ok(found)
}

/// The ranges that were given. A dim that was left open is one where that was `asked`: of any size.
fn ranges(declared: &Declared, asked: bool) -> Vec<Range> {
    let mut found = Vec::new();
    for &input in &declared.overridden {
        for (axis, dim) in declared.shapes[input].dims().unwrap_or_default().iter().enumerate() {
            let is_open = !dim.is_bounded();
            if dim.is_static() || is_open && !asked {
                continue;
            }
            let (min, count) = if is_open {
                (dim.min().max(1), TRIED_OF_OPEN)
            } else {
                let count = usize::try_from(dim.max() - dim.min() + 1);
                (dim.min(), count.unwrap_or(usize::MAX))
            };
            found.push(Range { input, axis, min, count, is_open });
        }
    }
    found
}

/// One of the sizes that are tried, for each range: each in turn, or, of too many, the least, the
/// greatest, and others that are spread over all ranges.
fn sizes(ranges: &[Range], k: usize, (total, most): (usize, usize)) -> Vec<i64> {
    let mut rest = k;
    let size = |(i, range): (usize, &Range)| {
        let step = if total <= most {
            let step = rest % range.count;
            rest /= range.count;
            step
        } else if k < 2 {
            k * (range.count - 1)
        } else {
            // Multiples of one number, an odd one for each range, meet all residues. Of ranges
            // beyond all memory they wrap, to other sizes.
            (k * (2 * i + 1)).wrapping_mul(range.count.div_ceil(most)) % range.count
        };
        range.min.saturating_add(i64::try_from(step).unwrap_or(i64::MAX))
    };
    ranges.iter().enumerate().map(size).collect()
}

/// Sizes that fail, each as small as it can be while the others stay, among the first of its range.
fn least(at: &[i64], ranges: &[Range], fails: impl Fn(&Vec<i64>) -> bool) -> Vec<i64> {
    let mut at = at.to_vec();
    for (i, range) in ranges.iter().enumerate() {
        let smaller = (range.min..at[i]).take(TRIED).map(|size| {
            let mut other = at.clone();
            other[i] = size;
            other
        });
        let found = smaller.into_iter().find(&fails);
        at = found.unwrap_or(at);
    }
    at
}

/// The shapes of all inputs with some sizes, one for each range.
fn shapes(declared: &Declared, ranges: &[Range], at: &[i64]) -> Vec<PartialShape> {
    let mut shapes = declared.shapes.clone();
    for (range, size) in ranges.iter().zip(at) {
        let shape = std::mem::replace(&mut shapes[range.input], PartialShape::scalar());
        shapes[range.input] = shape.with_dim(range.axis, Dim::fixed(*size));
    }
    shapes
}

/// The first error of a graph whose inputs have these shapes.
fn fails(graph: &Graph, declared: &Declared, shapes: &[PartialShape]) -> Option<Diagnostic> {
    let mut inputs = declared.given();
    for (given, shape) in inputs.parameters.iter_mut().zip(shapes) {
        given.shape = Some(shape.clone());
    }
    let analysis = infer::analyse(graph, &Inputs { nominal: true, ..inputs });
    analysis.findings.into_iter().find(|p| p.severity == Severity::Error)
}
