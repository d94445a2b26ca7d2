//! Command lines, and the mistakes in them that clap explains badly or not at all.

use crate::args::Cli;
use crate::text::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::path::Path;

/// Parses a command line, the name of the program first.
///
/// # Errors
/// What is wrong with it, or the help or version that it asks for.
pub fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let parsed = Cli::try_parse_from(args);
    // What is no text is a file: commands are called otherwise.
    let first = args.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    let message = match &parsed {
        Ok(cli) if cli.command.is_some() => None,
        Ok(_) => no_such_command(first),
        Err(error) if !error.use_stderr() => None,
        Err(error) => no_such_command(first).or_else(|| one_too_many(error)),
    };
    if let Some(message) = message {
        return Err(Cli::command().error(ErrorKind::InvalidSubcommand, message));
    }
    parsed.map_err(|mut error| {
        if error.kind() == ErrorKind::UnknownArgument {
            // To write it after `--`: but no file of anybody is called so.
            error.remove(ContextKind::Suggested);
        }
        error
    })
}

/// Whether a command line, understood or not, asks for a report for programs.
pub fn wants_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

fn commands() -> Vec<String> {
    let mut names = vec!["help".to_owned()];
    names.extend(Cli::command().get_subcommands().map(|c| c.get_name().to_owned()));
    names
}

/// A word that could be a command, but is none, nor the model.
fn no_such_command(word: &str) -> Option<String> {
    let like_a_command =
        !word.is_empty() && !word.starts_with('-') && !word.contains(['.', '/', '\\']);
    if !like_a_command || Path::new(word).exists() {
        return None;
    }
    let commands = commands();
    if commands.iter().any(|c| c == word) {
        return None;
    }
    let model = format!("{word}.xml");
    let near = nearest(word, commands.iter().map(String::as_str));
    let hint = match near.or(Path::new(&model).exists().then_some(&*model)) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("a model runs without a command; there are {}", commands.join(", ")),
    };
    Some(format!("there is no command and no file \"{word}\"; {hint}"))
}

/// What clap takes for a second command, after the model or a flag.
fn one_too_many(error: &clap::Error) -> Option<String> {
    let word = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::ArgumentConflict, Some(ContextValue::String(word))) => word,
        _ => return None,
    };
    let array = word.ends_with(".npy") || word.ends_with(".npz");
    Some(match (commands().contains(word), array) {
        (true, _) => format!("the command comes first: irrun {word} MODEL.xml …"),
        (_, true) => format!("\"{word}\" is one too many; an input is given as --input {word}"),
        (_, false) => format!("\"{word}\" is one too many: there is a model already"),
    })
}
