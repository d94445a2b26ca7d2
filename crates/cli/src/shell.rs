//! What packages of irrun install beside it: completions for shells and manual pages.

use crate::args::Cli;
use crate::exit::{Exit, Failure, OrExit};
use crate::out;
use crate::print;
use crate::text::nearest;
use anyhow::bail;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use std::io::Write;
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

/// All commands as their pages call them.
fn whole() -> Command {
    let mut whole = Cli::command().disable_help_subcommand(true);
    // Gives each command its whole name, and the flags that all of them have.
    whole.build();
    whole
}

/// A command of irrun as its page calls it.
fn command(whole: &Command, name: &str) -> anyhow::Result<Command> {
    if let Some(command) = whole.find_subcommand(name) {
        return Ok(command.clone());
    }
    match nearest(name, whole.get_subcommands().map(Command::get_name)) {
        Some(near) => bail!("there is no command {name}; did you mean {near}?"),
        None => bail!("there is no command {name}; `irrun --help` lists them"),
    }
}

/// A page, with headings as manual pages have them.
fn page(command: &Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA", ".SH EXAMPLES");
    let version = env!("CARGO_PKG_VERSION");
    Ok(page.replace(&format!("\nv{version}"), &format!("\nirrun {version}")))
}

/// Prints a manual page, or writes those of all commands.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let whole = whole();
    let Some(dir) = &args.output else {
        let named = args.command.as_deref().map(|name| command(&whole, name));
        let command = named.transpose().or_exit(Exit::Usage)?.unwrap_or(whole);
        print::raw(page(&command).or_exit(Exit::Input)?)?;
        return Ok(Exit::Good);
    };
    out::make_dir(dir).or_exit(Exit::Input)?;
    for command in std::iter::once(&whole).chain(whole.get_subcommands()) {
        let path = dir.join(format!("{}.1", command.get_display_name().unwrap_or("irrun")));
        let page = page(command).or_exit(Exit::Input)?;
        let write = |file: &mut dyn Write| Ok(file.write_all(page.as_bytes())?);
        out::write_whole(&path, write).or_exit(Exit::Input)?;
    }
    Ok(Exit::Good)
}
