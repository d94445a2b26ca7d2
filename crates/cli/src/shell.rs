//! What packages of irrun install beside it: completions for shells and manual pages.

use crate::args::Cli;
use crate::exit::{Exit, Failure, OrExit};
use crate::out;
use crate::print;
use crate::text::nearest;
use anyhow::{Context, bail};
use clap::{Args, Command, CommandFactory};
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
  irrun man check | man -l -
  irrun man --output /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The command whose page it is; that of irrun without it.
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub command: Option<String>,
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

/// A command of irrun as its page calls it.
fn command(name: &str) -> anyhow::Result<Command> {
    let mut whole = Cli::command().disable_help_subcommand(true);
    // Gives each command its whole name, and the flags that all of them have.
    whole.build();
    if let Some(command) = whole.find_subcommand(name) {
        return Ok(command.clone());
    }
    match nearest(name, whole.get_subcommands().map(Command::get_name)) {
        Some(near) => bail!("there is no command {name}; did you mean {near}?"),
        None => bail!("there is no command {name}; `irrun --help` lists them"),
    }
}

/// Prints a manual page, or writes those of all commands.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    match &args.output {
        Some(dir) => {
            let failed = || format!("{} cannot be written", dir.display());
            out::make_dir(dir).or_exit(Exit::Input)?;
            clap_mangen::generate_to(Cli::command(), dir)
                .with_context(failed)
                .or_exit(Exit::Input)?;
        }
        None => {
            let mut page = Vec::new();
            let command = args.command.as_deref().map_or_else(|| Ok(Cli::command()), command);
            let man = clap_mangen::Man::new(command.or_exit(Exit::Usage)?);
            man.render(&mut page).or_exit(Exit::Input)?;
            print::raw(String::from_utf8_lossy(&page))?;
        }
    }
    Ok(Exit::Good)
}
