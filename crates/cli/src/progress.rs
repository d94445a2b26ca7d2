//! What a long run does, below all that is printed: on a terminal, and nothing elsewhere.

use crate::{limits, print};
use indicatif::ProgressBar;
use runtime::Progress;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A run that takes longer is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// The run of this process, shown until it is dropped.
pub(crate) struct Shown(Option<(Sender<()>, JoinHandle<()>)>);

/// Shows the run that begins now, if it takes long.
pub(crate) fn show_run() -> Shown {
    if !io::stderr().is_terminal() {
        return Shown(None);
    }
    let (end, ended) = mpsc::channel();
    let watch = move || {
        if ended.recv_timeout(SHOWN_AFTER) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let token = limits::token();
        let bar = print::progress(token.progress().steps).with_elapsed(SHOWN_AFTER);
        let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let tell = |progress: &Progress| {
            // Layers that optimisation removed are computed by plans of their own.
            if bar.length() != Some(number(progress.steps)) {
                bar.set_length(number(progress.steps));
                bar.reset_elapsed();
            }
            bar.set_message(message(progress));
            bar.set_position(number(progress.step));
        };
        tell(&token.progress());
        while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            tell(&token.progress());
        }
        bar.finish_and_clear();
    };
    // Without the thread the run is not shown.
    let thread = thread::Builder::new().name("irrun-progress".to_owned()).spawn(watch);
    Shown(thread.ok().map(|thread| (end, thread)))
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// The runs of a benchmark, shown between them: nothing is drawn while one is timed.
pub(crate) struct Rounds {
    bar: ProgressBar,
    most: usize,
    seconds: f64,
    told: Duration,
}

impl Rounds {
    /// Shows runs that end after so many, or after so many seconds.
    pub(crate) fn new(most: usize, seconds: f64) -> Rounds {
        Rounds { bar: print::progress(most), most, seconds, told: Duration::ZERO }
    }

    /// Tells what comes before the timed runs.
    pub(crate) fn tell(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// The timed runs begin.
    pub(crate) fn begin(&self) {
        self.tell("timed runs");
        self.bar.reset_elapsed();
    }

    /// Tells how many timed runs are done, some time after the first began, but not more often
    /// than every [`INTERVAL`]: drawing takes some of the time between short runs.
    pub(crate) fn done(&mut self, runs: usize, elapsed: Duration) {
        if self.bar.is_hidden() || elapsed < self.told + INTERVAL {
            return;
        }
        self.told = elapsed;
        let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let expected = expected(runs, elapsed, self.most, self.seconds);
        self.bar.update(|state| {
            state.set_len(number(expected));
            state.set_pos(number(runs));
        });
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How many runs there will be, at the speed of those that are done.
fn expected(runs: usize, elapsed: Duration, most: usize, seconds: f64) -> usize {
    let in_time = runs as f64 * (seconds / elapsed.as_secs_f64()).max(1.0);
    // What is no number or too large is limited by the conversion and by the most there are.
    (in_time.ceil() as usize).clamp(runs.min(most), most)
}

/// The layer, and how often bodies of the step have begun.
fn message(progress: &Progress) -> String {
    match progress.iterations {
        0 | 1 => progress.layer.clone(),
        iterations => format!("iteration {iterations}, {}", progress.layer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_told_where_there_are_some() {
        let layer = "Add layer \"sum\"".to_owned();
        let once = Progress { layer, step: 3, steps: 9, iterations: 1 };
        assert_eq!(message(&once), "Add layer \"sum\"");
        let often = Progress { iterations: 12, ..once };
        assert_eq!(message(&often), "iteration 12, Add layer \"sum\"");
    }
    #[test]
    fn runs_are_limited_by_number_or_time() {
        let after = |runs, seconds| expected(runs, Duration::from_secs(seconds), 50, 30.0);
        // A run takes 10 seconds, one second, a tenth of one; the time is over.
        assert_eq!([after(1, 10), after(2, 2), after(10, 1), after(3, 60)], [3, 30, 50, 3]);
        assert_eq!(expected(0, Duration::ZERO, 50, 30.0), 0);
        assert_eq!(expected(7, Duration::from_secs(1), 50, f64::MAX), 50);
    }
}
