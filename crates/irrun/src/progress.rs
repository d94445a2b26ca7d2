//! What a long run does, below all that is printed: on a terminal, and nothing elsewhere.

use crate::{limits, print};
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
}
