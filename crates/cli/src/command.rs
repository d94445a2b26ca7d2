//! Parses the arguments, calls what they ask for, prints why it failed.

use crate::args::{Command, RunArgs};
use crate::exit::{Exit, Failure};
use crate::{
    batch, bench, check, color, diff, draw, edit, explain, extract, generate, inspect, json,
    limits, operations, print, reduce, repro, run, shell, suite, usage, version,
};
use std::process::ExitCode;

/// Does what the arguments of the process say, and tells how it ended.
pub fn command() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if version::is_wanted(&args) {
        let failed = version::print().err();
        failed.iter().for_each(print::note);
        return ExitCode::from(failed.map_or(Exit::Good, |failure| failure.exit).code());
    }
    let wants_json = usage::wants_json(&args);
    let cli = match usage::parse(&args) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && wants_json {
                json::print_usage_error(&error.to_string());
            }
            return ExitCode::from(usage::tell(&error).code());
        }
    };
    color::set(cli.color);
    if let Err(message) = runtime::instruction_set_asked_for() {
        print::note(format!("error: {message}"));
        if wants_json {
            json::print_usage_error(&message);
        }
        return ExitCode::from(Exit::Usage.code());
    }
    limits::watch(&cli.limits);
    let outcome = match &cli.command {
        None => run_once_or_by_files(&cli.run),
        Some(Command::Run(args)) => run_once_or_by_files(args),
        Some(Command::Check(args)) => check::check(args),
        Some(Command::Generate(args)) => generate::generate(args),
        Some(Command::Test(args)) => suite::test(args),
        Some(Command::Bench(args)) => bench::bench(args),
        Some(Command::Inspect(args)) => inspect::inspect(args),
        Some(Command::Graph(args)) => draw::draw(args),
        Some(Command::Diff(args)) => diff::diff(args),
        Some(Command::Explain(args)) => explain::explain(args),
        Some(Command::Extract(args)) => extract::extract(args),
        Some(Command::Repro(args)) => repro::repro(args),
        Some(Command::Reduce(args)) => reduce::reduce(args),
        Some(Command::Edit(args)) => edit::edit(args),
        Some(Command::Ops(args)) => operations::ops(args),
        Some(Command::Completions(args)) => shell::completions(args),
        Some(Command::Man(args)) => shell::man(args),
    };
    let exit = outcome.unwrap_or_else(|failure| {
        print::note(&failure);
        if wants_json {
            json::print_failure(&failure);
        }
        failure.exit
    });
    ExitCode::from(limits::exit_code().unwrap_or(exit.code()))
}

/// Runs a model once, or once for each file of a directory.
fn run_once_or_by_files(args: &RunArgs) -> Result<Exit, Failure> {
    match &args.batch.batch_dir {
        Some(dir) => batch::run(args, dir),
        None => run::run(args),
    }
}
