//! `irrun bench`: what a model costs, from reading its file to the steady state.

use crate::args::{BenchArgs, Precision};
use crate::bind::{self, Declared};
use crate::draw::profiled::ProfilePage;
use crate::exit::{Exit, Failure, OrExit};
use crate::locate;
use crate::memory::peak_memory;
use crate::profile::{self, LayerTime, ms};
use crate::progress::Rounds;
use crate::suite::case::Case;
use crate::table::table;
use crate::{json, limits, out, print, trace};
use anyhow::anyhow;
use ir::Graph;
use runtime::{Options, Plan, Session, StepTime, Tensor, Threads};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Measures a model.
///
/// # Errors
/// As running it.
pub(crate) fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let given = !args.input.is_empty() || !args.common.shape.is_empty();
    let is_case = !given && args.model.join("case.json").is_file();
    files_are_fit(args)?;
    let model = locate::model_file(&args.model);
    let (graph, load) = timed(|| locate::read(&model).or_exit(Exit::Model));
    let graph = graph?;
    let case = is_case.then(|| Case::open(&args.model)).transpose().or_exit(Exit::Input)?;
    files_are_apart(&model, args, (&graph, case.as_ref()))?;
    let steps = if let Some(case) = &case {
        case.inputs(&graph).or_exit(Exit::Input)?
    } else {
        vec![inputs(&graph, args)?]
    };
    let first = steps.first().ok_or_else(|| usage("the case has no steps"))?;
    let (facts, check) = timed(|| crate::run::facts(&graph, first, &[]));
    let facts = facts?;
    let options = Options {
        optimize: !args.no_optimize,
        precision: args.common.precision.into(),
        activations: args.common.activations.into(),
        limits: limits::of_run(),
        ..Options::default()
    };
    let (plan, planning) =
        timed(|| runtime::compile_with(&graph, &facts, &options).or_exit(Exit::Model));
    let plan = plan?;
    let page = args.html.as_ref().map(|path| (path, ProfilePage::new(&graph, &plan)));
    let beside = || runtime::compile_sharing(&plan, &graph, &facts, &options).or_exit(Exit::Model);
    let mut plans = (1..args.streams).map(|_| beside()).collect::<Result<Vec<Plan>, Failure>>()?;
    plans.push(plan);
    let threads = crate::run::threads(args.common.threads).count();
    let streams = streams(plans, (threads / args.streams).max(1), &steps, args)?;
    let precision = args.common.precision;
    let measured = Measured::new([load, check, planning], streams, threads, precision);
    if args.common.json {
        json::print(&measured.report())?;
    } else {
        let listed = if args.profile { &measured.profile[..] } else { &[] };
        print::text(measured.text() + &profile::text(listed, measured.runs()))?;
    }
    if let Some((path, page)) = page {
        let page = page.html(&measured.profile, measured.runs()).or_exit(Exit::Running)?;
        out::write_whole(path, |file| Ok(file.write_all(page.as_bytes())?)).or_exit(Exit::Input)?;
    }
    Ok(Exit::Good)
}

/// Refuses a page that is called like something else, and files on standard output beside a report
/// for programs.
fn files_are_fit(args: &BenchArgs) -> Result<(), Failure> {
    let written = args.trace.iter().chain(&args.html).map(PathBuf::as_path);
    out::leave_room_for_report(args.common.json, written)?;
    let Some(page) = &args.html else { return Ok(()) };
    let ending = page.extension().unwrap_or_default().to_ascii_lowercase();
    if ending == "html" || ending == "htm" || out::is_stream(page) {
        return Ok(());
    }
    Err(usage(&format!("--html {}: it writes a page; call it .html", page.display())))
}

/// Refuses to write over a file that is read.
fn files_are_apart(
    model: &Path,
    args: &BenchArgs,
    (graph, case): (&Graph, Option<&Case>),
) -> Result<(), Failure> {
    let written: Vec<&Path> = args.trace.iter().chain(&args.html).map(PathBuf::as_path).collect();
    if written.is_empty() {
        return Ok(());
    }
    let declared = Declared::new(graph, &args.common.shape)?;
    let mut read = out::of_model(model).to_vec();
    read.extend(bind::input_files(&args.input, &declared).map(|file| ("an input", file)));
    read.extend(case.into_iter().flat_map(Case::files));
    out::keep_apart(&written, &read).or_exit(Exit::Usage)
}

/// What one stream has measured.
struct Stream {
    first: Duration,
    times: Vec<Duration>,
    /// For each step, the times of the first runs.
    laps: Vec<Vec<Duration>>,
    /// When the timed runs began and ended.
    span: (Instant, Instant),
    /// Floating-point operations of the timed runs, as [`Session::flops`] counts them.
    flops: u64,
    profile: Vec<StepTime>,
}

/// Runs a session of each plan, all at the same time. One session stays in this thread.
fn streams(
    mut plans: Vec<Plan>,
    threads: usize,
    steps: &[Vec<Tensor>],
    args: &BenchArgs,
) -> Result<Vec<Stream>, Failure> {
    let start = Barrier::new(plans.len());
    let one = |plan: Plan, shown: Option<Rounds>| {
        let session = plan.session_on(Arc::new(Threads::new(threads)));
        stream(session, steps, args, (&start, shown))
    };
    let own = plans.pop();
    std::thread::scope(|scope| {
        let one = &one;
        let others: Vec<_> =
            plans.into_iter().map(|plan| scope.spawn(move || one(plan, None))).collect();
        let shown = |plan| one(plan, Some(Rounds::new(args.runs, args.seconds)));
        let own = own.into_iter().map(shown).collect::<Vec<_>>();
        let joined = |other: ScopedJoinHandle<'_, _>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        own.into_iter().chain(others.into_iter().map(joined)).collect()
    })
}

/// The first run and those that warm up, then, once all streams are as far, the timed runs. One
/// stream shows how far it is.
fn stream(
    mut session: Session,
    steps: &[Vec<Tensor>],
    args: &BenchArgs,
    (start, mut shown): (&Barrier, Option<Rounds>),
) -> Result<Stream, Failure> {
    let tell = |what| shown.iter().for_each(|shown| shown.tell(what));
    tell("first run");
    let (once, first) = timed(|| run(&mut session, steps, None));
    tell("warming up");
    let warm =
        once.and_then(|()| (0..args.warmup).try_for_each(|_| run(&mut session, steps, None)));
    start.wait();
    warm?;
    if args.profile || args.html.is_some() {
        session.start_profile();
    }
    let (mut times, mut laps) = (Vec::new(), vec![Vec::new(); steps.len()]);
    shown.iter().for_each(Rounds::begin);
    let (begin, flops) = (Instant::now(), session.flops());
    while times.len() < args.runs
        && (times.is_empty() || begin.elapsed().as_secs_f64() < args.seconds)
    {
        let kept = (times.len() < LAPS).then_some(&mut laps[..]);
        let (done, time) = timed(|| run(&mut session, steps, kept));
        done?;
        times.push(time);
        shown.iter_mut().for_each(|shown| shown.done(times.len(), begin.elapsed()));
    }
    let (span, flops) = ((begin, Instant::now()), session.flops() - flops);
    drop(shown);
    let profile = session.profile();
    if let Some(path) = &args.trace {
        session.start_trace();
        run(&mut session, steps, None)?;
        trace::write(path, &args.model, &session.trace()).or_exit(Exit::Input)?;
    }
    Ok(Stream { first, times, laps, span, flops, profile })
}

fn usage(text: &str) -> Failure {
    Failure { exit: Exit::Usage, error: anyhow!("{text}") }
}

fn timed<T>(f: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = f();
    (result, start.elapsed())
}

/// Runs of which the time of each step is kept.
const LAPS: usize = 1000;

/// Runs all steps from the reset state, and adds the time of each to its laps.
fn run(
    session: &mut Session,
    steps: &[Vec<Tensor>],
    laps: Option<&mut [Vec<Duration>]>,
) -> Result<(), Failure> {
    session.reset();
    if let [only] = steps {
        return session.run(only).or_exit(Exit::Running).map(drop);
    }
    let mut laps = laps.into_iter().flatten();
    for step in steps {
        let (done, time) = timed(|| session.run(step).or_exit(Exit::Running));
        done?;
        laps.next().into_iter().for_each(|laps| laps.push(time));
    }
    Ok(())
}

/// The median, if there is one.
fn middle(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// The inputs that are given, and made up ones for a model of static shapes.
fn inputs(graph: &Graph, args: &BenchArgs) -> Result<Vec<Tensor>, Failure> {
    let declared = Declared::new(graph, &args.common.shape)?;
    if !args.input.is_empty() || !args.media.is_empty() {
        return bind::read_inputs(&args.given(), &declared);
    }
    declared.have_sizes(|_| true).or_exit(Exit::Usage)?;
    let each = declared.ports.iter().zip(&declared.types).zip(&declared.shapes);
    let made = each.map(|((port, element_type), shape)| {
        let sizes = shape.sizes().unwrap_or_default();
        let full = || format!("no memory for input \"{}\" of shape {shape}", port.shown());
        let values = made_up(&sizes).ok_or_else(|| usage(&full()))?;
        runtime::convert(&values, *element_type).map_err(|_| {
            usage(&format!(
                "give a file with --input for input \"{}\" of type {element_type}",
                port.shown()
            ))
        })
    });
    made.collect()
}

/// Numbers between 0 and 1, which become zeros in an integer; `None` without memory for them.
fn made_up(sizes: &[usize]) -> Option<Tensor> {
    let count = sizes.iter().try_fold(1usize, |n, size| n.checked_mul(*size))?;
    let mut values: Vec<f32> = Vec::new();
    values.try_reserve_exact(count).ok()?;
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    values.extend((0..count).map(|_| next()));
    Tensor::from_vec(sizes, values).ok()
}

/// What `irrun bench --json` prints. Times are in milliseconds.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report<'a> {
    /// Reading the file.
    load_ms: f64,
    /// Inferring types and shapes.
    check_ms: f64,
    /// Choosing kernels and placing tensors.
    plan_ms: f64,
    /// The first run.
    first_ms: f64,
    /// Half of the timed runs took less.
    median_ms: f64,
    /// A tenth of them took less.
    p10_ms: f64,
    /// Nine tenths of them took less.
    p90_ms: f64,
    /// The median of each step of a case that has several.
    steps_ms: Vec<f64>,
    /// Billions of floating-point operations in a second.
    gflops: f64,
    /// Timed runs, of all streams.
    runs: usize,
    /// Runs of all streams in a second.
    runs_per_second: f64,
    threads: usize,
    /// Sessions that ran at the same time.
    streams: usize,
    /// What operands of products are rounded to.
    precision: &'a str,
    /// Memory that the process has had at most; null where the system does not tell.
    peak_rss_bytes: Option<u64>,
    /// With `--profile`: the mean time of each layer.
    layers: Vec<LayerTime>,
}

struct Measured {
    load: Duration,
    check: Duration,
    planning: Duration,
    first: Duration,
    /// Of the timed runs, shortest first.
    times: Vec<Duration>,
    /// The median of each step, where there are several.
    steps: Vec<Duration>,
    /// Floating-point operations of a run, as [`Session::flops`] counts them.
    flops: f64,
    /// From the first start of a timed run to the last end.
    span: Duration,
    threads: usize,
    streams: usize,
    precision: Precision,
    profile: Vec<StepTime>,
}

impl Measured {
    fn new(
        [load, check, planning]: [Duration; 3],
        streams: Vec<Stream>,
        threads: usize,
        precision: Precision,
    ) -> Measured {
        let count = streams.len();
        let first = streams.iter().map(|s| s.first).max().unwrap_or_default();
        let begin = streams.iter().map(|s| s.span.0).min();
        let end = streams.iter().map(|s| s.span.1).max();
        let span = begin.zip(end).map_or(Duration::ZERO, |(begin, end)| end - begin);
        let flops: u64 = streams.iter().map(|s| s.flops).sum();
        let (mut times, mut laps, mut profile) = (Vec::new(), Vec::new(), Vec::new());
        for stream in streams {
            times.extend(stream.times);
            laps.resize_with(stream.laps.len(), Vec::new);
            laps.iter_mut()
                .zip(stream.laps)
                .for_each(|(all, own): (&mut Vec<_>, _)| all.extend(own));
            profile.extend(stream.profile);
        }
        times.sort_unstable();
        let flops = flops as f64 / times.len().max(1) as f64;
        let steps = laps.into_iter().filter_map(middle).collect();
        Measured {
            load,
            check,
            planning,
            first,
            times,
            steps,
            flops,
            span,
            threads,
            streams: count,
            precision,
            profile,
        }
    }

    fn percentile(&self, percent: usize) -> f64 {
        let at = self.times.len().saturating_sub(1) * percent / 100;
        self.times.get(at).copied().map_or(f64::NAN, ms)
    }

    fn runs(&self) -> u32 {
        u32::try_from(self.times.len()).unwrap_or(u32::MAX)
    }

    /// Billions of floating-point operations in a second, of all streams: those of a run by the
    /// throughput.
    fn gflops(&self) -> f64 {
        (self.flops * self.runs_per_second() / 1e6).round() / 1e3
    }

    fn runs_per_second(&self) -> f64 {
        self.times.len() as f64 / self.span.as_secs_f64()
    }

    fn report(&self) -> Report<'static> {
        Report {
            load_ms: ms(self.load),
            check_ms: ms(self.check),
            plan_ms: ms(self.planning),
            first_ms: ms(self.first),
            median_ms: self.percentile(50),
            p10_ms: self.percentile(10),
            p90_ms: self.percentile(90),
            steps_ms: self.steps.iter().copied().map(ms).collect(),
            gflops: self.gflops(),
            runs: self.times.len(),
            runs_per_second: self.runs_per_second(),
            threads: self.threads,
            streams: self.streams,
            precision: self.precision.name(),
            peak_rss_bytes: peak_memory(),
            layers: profile::report(&self.profile, self.runs()),
        }
    }

    fn text(&self) -> String {
        let line = |name: &str, value: f64| vec![name.to_owned(), format!("{value:.3} ms")];
        let mut rows = vec![
            line("load", ms(self.load)),
            line("check", ms(self.check)),
            line("plan", ms(self.planning)),
            line("first run", ms(self.first)),
            line("median", self.percentile(50)),
            line("10 %", self.percentile(10)),
            line("90 %", self.percentile(90)),
        ];
        if let Some((first, others)) = self.steps.split_first() {
            rows.push(line("first step", ms(*first)));
            rows.extend(middle(others.to_vec()).map(|time| line("other steps", ms(time))));
        }
        rows.push(vec!["speed".to_owned(), format!("{:.3} GFLOP/s", self.gflops())]);
        rows.push(vec!["runs".to_owned(), self.times.len().to_string()]);
        rows.push(vec!["throughput".to_owned(), format!("{:.1} runs/s", self.runs_per_second())]);
        rows.push(vec!["threads".to_owned(), self.threads.to_string()]);
        if self.streams > 1 {
            rows.push(vec!["streams".to_owned(), self.streams.to_string()]);
        }
        rows.push(vec!["precision".to_owned(), self.precision.name().to_owned()]);
        if let Some(bytes) = peak_memory() {
            rows.push(vec!["peak memory".to_owned(), format!("{} MiB", bytes >> 20)]);
        }
        table(&rows)
    }
}
