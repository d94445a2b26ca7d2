//! Reports on standard output, which may be a pipe that is read no further than it pleases.

use crate::color::{colored, has_color};
use crate::exit::{Exit, Failure, OrExit};
use crate::text::escaped;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// A bar below all that is printed, with what is done of some files, models or steps, how many a
/// second, and how long the rest may take: on a terminal, and nothing elsewhere. A command has one.
pub fn progress(count: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {rate} {rest} {wide_msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    // What cannot be written is left out.
    let rate = |state: &ProgressState, to: &mut dyn fmt::Write| {
        let _ = write!(to, "{:.1}/s", per_second(state));
    };
    let rest = |state: &ProgressState, to: &mut dyn fmt::Write| {
        let left = state.len().unwrap_or_default().saturating_sub(state.pos());
        if state.pos() > 0 {
            let _ = write!(to, "{:.0}s", left as f64 / per_second(state));
        }
    };
    let bar = ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX));
    let bar = bar.with_style(style.with_key("rate", rate).with_key("rest", rest));
    let _ = BAR.set(bar.clone());
    bar
}

/// What was done in a second on average since the beginning: the rates of single moments say little
/// of layers, which take very different times.
fn per_second(state: &ProgressState) -> f64 {
    state.pos() as f64 / state.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Prints while the bar is away, if there is one.
fn above_bar<T>(print: impl FnOnce() -> T) -> T {
    match BAR.get() {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// Prints a text for people, whose control characters are shown and not obeyed.
///
/// # Errors
/// When it cannot be written, as on a full disk.
pub fn text(text: impl Display) -> Result<(), Failure> {
    let text = text.to_string();
    if has_color(io::stdout().is_terminal()) {
        raw(colored(&lines(&text)))
    } else {
        raw(lines(&text))
    }
}

/// Prints a text for programs as it is. A reader that has gone, such as `head`, has had what it
/// wanted.
///
/// # Errors
/// As [`text()`].
pub fn raw(text: impl Display) -> Result<(), Failure> {
    let print = || {
        let mut out = io::stdout().lock();
        write!(out, "{text}").and_then(|()| out.flush())
    };
    match above_bar(print) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("the report cannot be written").or_exit(Exit::Input)
        }
        _ => Ok(()),
    }
}

/// Prints a text and ends the line.
///
/// # Errors
/// As [`text()`].
pub fn line(line: impl Display) -> Result<(), Failure> {
    text(format_args!("{line}\n"))
}

/// Prints a piece of a longer text at once: as it is, but for a terminal without what that would
/// obey. Whether anybody still reads.
///
/// # Errors
/// As [`text()`].
pub fn piece(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    let shown = if out.is_terminal() {
        escaped(text, |c| matches!(c, '\n' | '\t'))
    } else {
        Cow::Borrowed(text)
    };
    match out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("the text cannot be written").or_exit(Exit::Input),
    }
}

/// Tells something on standard error, if anybody listens.
pub fn note(line: impl Display) {
    let line = line.to_string();
    let _ = above_bar(|| {
        if has_color(io::stderr().is_terminal()) {
            writeln!(io::stderr(), "{}", colored(&lines(&line)))
        } else {
            writeln!(io::stderr(), "{}", lines(&line))
        }
    });
}

/// A text with nothing that a terminal obeys but the ends of its lines.
fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n')
}
