//! `irrun test`: case folders and the models of suite files, divided among threads.

pub mod case;
pub mod case_file;
pub mod digests;
pub mod entry;
pub mod file;
pub mod formats;
pub mod item;
pub mod outcome;
pub mod property;
pub mod record;
pub mod schedule;
pub mod test;

use crate::args::TestArgs;
use crate::exit::{Exit, Failure, OrExit};
use crate::{hint, json, limits, out, print};
use anyhow::{Result, anyhow, ensure};
use digests::DigestFiles;
use item::TestItem;
use outcome::{ItemDigests, Outcome, Report, Tested};
use rayon::prelude::*;
use runtime::{Options, Threads};
use schedule::{Memory, Runner};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use test::Test;

/// Runs the cases, or records one.
///
/// # Errors
/// When a directory cannot be read or holds no case, or a pattern names none.
pub fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let start = Instant::now();
    out::leave_room_for_report(args.json, args.junit.iter().map(PathBuf::as_path))?;
    let options = Options {
        optimize: !args.no_optimize,
        precision: args.precision.into(),
        limits: limits::of_run(),
        ..Options::default()
    };
    if let Some(dir) = &args.record {
        return record::record(args, dir, &options);
    }
    flags_are_needed(args).or_exit(Exit::Usage)?;
    let items = item::all(args).or_exit(Exit::Usage)?;
    let memory = limits::max_memory().map(Memory::new);
    let suite = Suite { args, options, memory };
    let mut files: Vec<PathBuf> = Vec::new();
    for (file, _) in items.iter().filter_map(|item| suite.digests_of(item)) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files_are_apart(args, &items, &files).or_exit(Exit::Usage)?;
    if args.layers && files.is_empty() {
        let error = anyhow!("--layers is for digests; give --digests, or a suite file with some");
        return Err(Failure { exit: Exit::Usage, error });
    }
    let mut known = DigestFiles::read(files.into_iter(), args.update).or_exit(Exit::Usage)?;
    let tested = suite.run_all(&items, &known)?;
    if args.update {
        for (file, name, lines) in tested.iter().filter_map(|tested| tested.digests.as_ref()) {
            known.set(file, name, lines);
        }
        known.write().or_exit(Exit::Input)?;
    }
    let report = Report::new(&tested, start.elapsed());
    if args.json {
        json::print(&report)?;
    } else {
        tell(args, &tested, &report, items.len() - tested.len())?;
    }
    if let Some(path) = &args.junit {
        let write = |out: &mut dyn Write| formats::junit(&tested, out);
        out::write_whole(path, write).or_exit(Exit::Input)?;
    }
    Ok(if report.failed == 0 { Exit::Good } else { Exit::Failed })
}

/// Refuses flags that are for `--record` alone.
fn flags_are_needed(args: &TestArgs) -> Result<()> {
    let keys =
        |flags: &str, file: &str| format!("{flags} are for --record; {file} has keys for them");
    let pictures = || keys("--mean, --scale and --channels", "a suite file");
    ensure!(args.media.is_empty(), pictures());
    ensure!(args.tolerance.is_empty(), keys("--rtol and --atol", "case.json"));
    Ok(())
}

/// Refuses to write reports and digests over what the cases consist of.
fn files_are_apart(args: &TestArgs, items: &[TestItem], digests: &[PathBuf]) -> Result<()> {
    let mut written: Vec<&Path> = args.junit.iter().map(PathBuf::as_path).collect();
    if args.update {
        written.extend(digests.iter().map(PathBuf::as_path));
    }
    if written.is_empty() {
        return Ok(());
    }
    let mut read: Vec<_> = items.iter().flat_map(TestItem::files).collect();
    if !args.update {
        read.extend(digests.iter().map(|file| ("the digests", file.clone())));
    }
    out::keep_apart(&written, &read)
}

/// What is the same for all cases.
struct Suite<'a> {
    args: &'a TestArgs,
    options: Options,
    /// What the items share, where it is limited.
    memory: Option<Memory>,
}

/// Tells people what became of the cases, of which some may not have been run.
fn tell(args: &TestArgs, tested: &[Tested], report: &Report, left: usize) -> Result<(), Failure> {
    for Tested { path, outcome, .. } in tested {
        let path = path.display();
        match outcome {
            Outcome::Failed(message) => print::line(format_args!("FAILED {path}: {message}"))?,
            Outcome::Updated(change) => print::line(format_args!("updated {path}: {change}"))?,
            other if args.verbose => print::line(format_args!("{} {path}", other.name()))?,
            _ => {}
        }
    }
    if args.github {
        print::text(formats::annotations(tested))?;
    }
    let more = [
        (report.updated, "updated"),
        (report.failed_as_expected, "failed as expected"),
        (report.skipped, "skipped as unsupported"),
        (left, "not run"),
    ];
    let more = more.iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!(", {n} {text}"));
    let (more, Report { passed, failed, seconds, .. }) = (more.collect::<String>(), report);
    print::line(format_args!("{passed} passed, {failed} failed{more} in {seconds:.1} s"))
}

impl Suite<'_> {
    /// Runs the items on as many threads as flags ask for, each on one thread: there are more
    /// items.
    fn run_all(&self, items: &[TestItem], known: &DigestFiles) -> Result<Vec<Tested>, Failure> {
        let threads = self.args.threads.unwrap_or(0);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.or_exit(Exit::Running)?;
        let stop = AtomicBool::new(false);
        let bar = print::progress(items.len());
        let one = |item: &TestItem| {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            bar.set_message(item.path().display().to_string());
            let tested = self.run(item, known);
            bar.inc(1);
            let is_last = self.args.fail_fast && matches!(tested.outcome, Outcome::Failed(_));
            stop.fetch_or(is_last, Ordering::Relaxed);
            Some(tested)
        };
        let tested = pool.install(|| items.par_iter().with_max_len(1).filter_map(one).collect());
        bar.finish_and_clear();
        Ok(tested)
    }

    fn run(&self, item: &TestItem, known: &DigestFiles) -> Tested {
        let begin = Instant::now();
        let (result, digests) = self.attempt(item, known);
        let must_fail = self.args.expect_failure.iter().any(|pattern| item.is_called(pattern));
        let outcome = match result {
            Ok(Outcome::Passed) if must_fail => Outcome::Failed("passes, but must fail".to_owned()),
            Err(_) if must_fail => Outcome::FailedAsExpected,
            Ok(outcome) => outcome,
            Err(error) => {
                let hint = error.downcast_ref().map(hint::model).unwrap_or_default();
                Outcome::Failed(format!("{error:#}{hint}"))
            }
        };
        let (path, described_in) = (item.path(), item.described_in());
        Tested { path, described_in, outcome, time: begin.elapsed(), digests }
    }

    /// Runs an item, and again alone if it failed for want of memory that others had.
    fn attempt(
        &self,
        item: &TestItem,
        known: &DigestFiles,
    ) -> (Result<Outcome>, Option<ItemDigests>) {
        // Each on one thread: there are more items than threads.
        let (options, threads) = (self.options.clone(), Arc::new(Threads::new(1)));
        let Some(memory) = &self.memory else {
            return self.once(item, known, &Runner::new(options, threads));
        };
        let runner = Runner::with_turn(options.clone(), Arc::clone(&threads), memory.turn());
        let (result, digests) = self.once(item, known, &runner);
        if result.is_ok() || !runner.was_crowded() {
            return (result, digests);
        }
        // It makes room for itself.
        drop(runner);
        let runner = Runner::with_turn(options, threads, memory.turn_alone());
        self.once(item, known, &runner)
    }

    fn once(
        &self,
        item: &TestItem,
        known: &DigestFiles,
        runner: &Runner<'_>,
    ) -> (Result<Outcome>, Option<ItemDigests>) {
        let mut digests = None;
        let result = item.open();
        let result = result.and_then(|test| self.result(item, &*test, known, runner, &mut digests));
        (result, digests)
    }

    fn result(
        &self,
        item: &TestItem,
        test: &dyn Test,
        known: &DigestFiles,
        runner: &Runner<'_>,
        digests: &mut Option<ItemDigests>,
    ) -> Result<Outcome> {
        let args = self.args;
        if args.skip_unsupported && test.is_unsupported()? {
            return Ok(Outcome::Skipped);
        }
        if let Some((file, name)) = self.digests_of(item) {
            let lines = test.digests(runner, args.layers)?;
            let is_new = !known.has(&file, &name);
            let same = known.compare(&file, &name, &lines);
            *digests = Some((file, name, lines));
            return match (same, args.update) {
                (Err(_), true) if is_new => Ok(Outcome::Updated("added its digests".to_owned())),
                (Err(change), true) => Ok(Outcome::Updated(format!("{change:#}"))),
                (same, _) => same.map(|()| Outcome::Passed),
            };
        }
        if !args.update {
            return test.compare(runner).map(|_| Outcome::Passed);
        }
        let changes = test.update(runner)?;
        Ok(if changes.is_empty() { Outcome::Passed } else { Outcome::Updated(changes.join("; ")) })
    }

    /// The digest file an item is compared with, and its name there; none if it has goldens.
    fn digests_of(&self, item: &TestItem) -> Option<(PathBuf, String)> {
        let by_flag = |file: &PathBuf| (file.clone(), digest_name(&item.path()));
        self.args.digests.as_ref().map(by_flag).or_else(|| item.digests())
    }
}

/// What digests are filed under: a path, written alike on every system.
fn digest_name(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
