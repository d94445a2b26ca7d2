//! What packages of irrun install beside it: completions for shells and manual pages.

use crate::args::Cli;
use crate::exit::{Exit, Failure, OrExit};
use crate::print;
use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;

/// Printing completions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  irrun completions bash > ~/.local/share/bash-completion/completions/irrun
  irrun completions zsh > ~/.zfunc/_irrun
  irrun completions fish > ~/.config/fish/completions/irrun.fish")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Printing manual pages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  irrun man | man -l -
  irrun man > irrun.1
  irrun man --output /usr/local/share/man/man1")]
pub struct ManArgs {
    /// A directory for a page of each command, in place of the page of irrun alone.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Prints the completions for a shell.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "irrun", &mut script);
    print::raw(String::from_utf8_lossy(&script))?;
    Ok(Exit::Good)
}

/// Prints the manual page, or writes those of all commands.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    match &args.output {
        Some(dir) => {
            let failed = || format!("{} cannot be written", dir.display());
            std::fs::create_dir_all(dir).with_context(failed).or_exit(Exit::Input)?;
            clap_mangen::generate_to(Cli::command(), dir)
                .with_context(failed)
                .or_exit(Exit::Input)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).or_exit(Exit::Input)?;
            print::raw(String::from_utf8_lossy(&page))?;
        }
    }
    Ok(Exit::Good)
}
