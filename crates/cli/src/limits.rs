//! `--timeout`, `--max-memory` and interruption: the command ends in time, says at which layer, and
//! leaves no temporary file.

use crate::memory::own_memory;
use crate::print;
use clap::Args;
use runtime::{CancellationToken, Limits};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Limits of a command, and how it reads files.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// End after so many seconds, with exit code 5.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    #[arg(allow_negative_numbers = true, help_heading = "Limits")]
    pub timeout: Option<Duration>,
    /// End when more memory is needed, with exit code 5: bytes, or a number with K, M or G (of
    /// 1024).
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    #[arg(allow_negative_numbers = true, help_heading = "Limits")]
    pub max_memory: Option<u64>,
    /// Read weights and arrays instead of mapping them, so that a file that another process cuts
    /// short cannot stop the command.
    #[arg(long, global = true, help_heading = "Limits")]
    pub no_mmap: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = || "give a number of seconds above 0, such as 2.5".to_owned();
    let seconds = text.parse().ok().filter(|s| *s > 0.0).ok_or_else(wanted)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| wanted())
}

fn size(text: &str) -> Result<u64, String> {
    let wanted = || "give a number of bytes, or one with K, M or G, such as 512M".to_owned();
    let upper = text.to_ascii_uppercase();
    let bare = upper.trim_end_matches('B').trim_end_matches('I');
    let units = [("K", 1u64 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40), ("", 1)];
    let unit = units.into_iter().find_map(|(unit, bytes)| Some((bare.strip_suffix(unit)?, bytes)));
    let (number, unit) = unit.ok_or_else(wanted)?;
    let number: f64 = number.parse().ok().filter(|n| *n > 0.0).ok_or_else(wanted)?;
    Ok((number * unit as f64) as u64)
}

/// What ended the command early, and the exit code that it leads to.
struct Stop {
    reason: String,
    code: u8,
}

static TOKEN: OnceLock<CancellationToken> = OnceLock::new();
static STOP: OnceLock<Stop> = OnceLock::new();
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static MAX_MEMORY: OnceLock<u64> = OnceLock::new();
/// The runs that end one by one when memory is exceeded, in place of the command.
static ITEMS: Mutex<Vec<(u64, CancellationToken)>> = Mutex::new(Vec::new());
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// How long a run may take to stop by itself: it then names the layer with its shapes.
const GRACE: Duration = Duration::from_millis(50);

/// How long items may take to give memory back: a layer is not interrupted.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// How often time and memory are looked at.
const INTERVAL: Duration = Duration::from_millis(5);

/// The token that ends the runs of this process.
pub(crate) fn token() -> CancellationToken {
    TOKEN.get_or_init(CancellationToken::default).clone()
}

/// Limits of a run: it ends when the command does.
pub(crate) fn of_run() -> Limits {
    Limits { cancellation: Some(token()), ..Limits::default() }
}

/// The bytes that `--max-memory` allows.
pub(crate) fn max_memory() -> Option<u64> {
    MAX_MEMORY.get().copied()
}

/// One of several runs of a command, which a limit of memory ends by itself.
pub(crate) struct Item {
    number: u64,
    token: CancellationToken,
}

/// A run that begins while others run.
pub(crate) fn item() -> Item {
    let item = Item { number: BEGUN.fetch_add(1, Relaxed), token: CancellationToken::default() };
    items().push((item.number, item.token()));
    item
}

impl Item {
    /// What ends it.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Whether it was to end early.
    pub(crate) fn was_ended(&self) -> bool {
        self.token.reason().is_some()
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        items().retain(|(number, _)| *number != self.number);
    }
}

fn items() -> MutexGuard<'static, Vec<(u64, CancellationToken)>> {
    ITEMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The exit code of a command that a limit or a signal has ended.
pub(crate) fn exit_code() -> Option<u8> {
    STOP.get().map(|stop| stop.code)
}

/// Begins to watch the limits, and to wait for signals.
pub(crate) fn watch(limits: &LimitArgs) {
    runtime::set_memory_limit(limits.max_memory);
    if let Some(limit) = limits.max_memory {
        MAX_MEMORY.get_or_init(|| limit);
    }
    if limits.no_mmap {
        ir::disable_mmap();
    }
    wait_for_signals();
    let start = Instant::now();
    let (timeout, max_memory) = (limits.timeout, limits.max_memory);
    if timeout.is_none() && max_memory.is_none() {
        return;
    }
    let exceeded_limit = move || max_memory.filter(|limit| own_memory() > Some(*limit));
    let memory = |limit: u64| format!("the memory limit of {limit} bytes is exceeded");
    // A short command may be done before the thread looks.
    if let Some(limit) = exceeded_limit() {
        stop(memory(limit), 5);
    }
    let watch = move || {
        let mut exceeded = None;
        loop {
            if let Some(limit) = timeout.filter(|limit| start.elapsed() >= *limit) {
                let seconds = limit.as_secs_f64();
                stop(format!("the time limit of {seconds} s is over"), 5);
            }
            match exceeded_limit() {
                Some(limit) => {
                    let since = *exceeded.get_or_insert_with(Instant::now);
                    let reason = memory(limit);
                    if !end_items(&reason, since) {
                        stop(reason, 5);
                    }
                }
                None => exceeded = None,
            }
            thread::sleep(INTERVAL);
        }
    };
    // Without the thread the limits are looked at between layers alone.
    let _ = thread::Builder::new().name("irrun-limits".to_owned()).spawn(watch);
}

/// Ends the items that run, unless there are none or they have not given memory back.
fn end_items(reason: &str, since: Instant) -> bool {
    let items = items();
    items.iter().for_each(|(_, token)| token.cancel(reason));
    !items.is_empty() && since.elapsed() < GRACE_PERIOD
}

/// Ends the command: first the run itself may do it, then it is ended.
fn stop(reason: String, code: u8) {
    let stop = STOP.get_or_init(|| Stop { reason, code });
    token().cancel(stop.reason.clone());
    thread::sleep(GRACE);
    let layer = || items().iter().find_map(|(_, token)| token.layer());
    let during = token().layer().or_else(layer);
    let during = during.map_or_else(String::new, |layer| format!(" at {layer}"));
    print::note(format!("error: {}{during}", stop.reason));
    for file in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // It may be gone.
        let _ = std::fs::remove_file(file);
    }
    std::process::exit(stop.code.into());
}

/// A temporary file that is removed when the command is ended while the file is written.
pub(crate) struct Unfinished(PathBuf);

impl Unfinished {
    /// Notes the file.
    pub(crate) fn new(path: &Path) -> Unfinished {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        Unfinished(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut files = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| *file != self.0);
    }
}

#[cfg(unix)]
fn wait_for_signals() {
    use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    // With anybody to hear it, a write beyond `ulimit -f` is an error and does not end the process.
    let _ = signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default());
    // Without it a signal ends the process as it always does.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let wait = move || {
        for signal in signals.forever() {
            let name = if signal == SIGINT { "interrupted" } else { "terminated" };
            stop(name.to_owned(), 128 + u8::try_from(signal).unwrap_or(0));
        }
    };
    let _ = thread::Builder::new().name("irrun-signals".to_owned()).spawn(wait);
}

#[cfg(not(unix))]
fn wait_for_signals() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("2K"), Ok(2048));
        assert_eq!(size("1.5g"), Ok(3 << 29));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert!(size("-1").is_err());
        assert!(size("much").is_err());
        assert!(size("").is_err());
    }

    #[test]
    fn times() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("0").is_err());
        assert!(seconds("inf").is_err());
        assert!(seconds("1e300").is_err());
    }
}
