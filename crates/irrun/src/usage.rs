//! Command lines, and the mistakes in them that clap explains badly or not at all.

use crate::args::Cli;
use crate::exit::Exit;
use crate::hint;
use crate::media::Kind;
use crate::print;
use crate::text::nearest;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::io::{self, Write};
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
        if error.kind() == ErrorKind::InvalidValue {
            // What is like f16 by its letters is not like it in any other way.
            error.remove(ContextKind::SuggestedValue);
        }
        let flag = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag,
            _ => return error,
        };
        if let Some(tip) = known_elsewhere(flag, args) {
            let tips = vec![StyledStr::from(tip.to_owned())];
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
            error.remove(ContextKind::SuggestedArg);
        }
        error
    })
}

/// Prints the help or the version that a command line asks for, or what is wrong with it.
pub fn tell(error: &clap::Error) -> Exit {
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed {
        _ if error.use_stderr() => Exit::Usage,
        Err(failed) if failed.kind() != io::ErrorKind::BrokenPipe => {
            print::note(format_args!("error: the report cannot be written: {failed}"));
            Exit::Input
        }
        _ => Exit::Good,
    }
}

/// What flags of benchmark_app, Polygraphy, trtexec and the like are called here.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["-m", "--model"], "the model is given by itself: irrun MODEL.xml"),
    (&["-n", "--niter", "--iterations"], "the number of timed runs is --runs N"),
    (&["--nstreams", "--num-streams"], "sessions at the same time are --streams N"),
    (&["--nireq", "--api"], "as many runs at the same time as there are --streams N"),
    (&["-b", "--batch"], "the batch is part of the shape: --shape 'NAME[8,3,224,224]'"),
    (&["-p", "--report-type", "--report_type"], "the report for programs is --json"),
    (&["-w", "--warm-up", "--warmUp"], "runs before those that are timed are --warmup N"),
    (&["-d", "--device", "-hint"], "irrun runs on the CPU alone"),
    (&["--nthreads", "--num-threads", "--numThreads"], "threads are --threads N"),
    (&["-t", "--time", "--duration"], "irrun bench stops after --seconds S"),
    (&["--pc", "--dumpProfile"], "the time of each layer is --profile"),
    (&["--load-inputs", "--loadInputs", "--inputs"], "inputs are --input NAME=FILE"),
    (&["--save-outputs", "--exportOutput", "--outputs"], "outputs are --output NAME=FILE"),
    (&["--mean_values", "--mean-values"], "means of the channels of a picture are --mean M,M,M"),
    (&["--scale_values", "--scale-values"], "what a picture is divided by is --scale S,S,S"),
    (&["--reverse_input_channels"], "blue, green, red of a picture are --channels bgr"),
    (&["--input-shapes", "--shapes", "--data_shape"], "shapes are --shape 'NAME[1,3,224,224]'"),
];

/// What a flag is called here. benchmark_app writes long flags with one dash, which clap reads as
/// the first letter.
fn known_elsewhere(flag: &str, args: &[OsString]) -> Option<&'static str> {
    let bare = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
    let tip = |flag: &str| {
        let row = ELSEWHERE.iter().find(|(flags, _)| flags.contains(&flag));
        row.map(|(_, tip)| *tip)
    };
    let words = args.iter().filter_map(|arg| arg.to_str());
    let is_meant =
        |word: &&str| word.len() > 2 && word.starts_with(flag) && !flag.starts_with("--");
    let whole = words.filter(is_meant).find_map(|word| tip(&format!("-{}", bare(word))));
    whole.or_else(|| tip(&bare(flag)))
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
    let near = nearest(word, commands.iter().map(String::as_str)).map(str::to_owned);
    let near = near.or_else(|| Path::new(&model).exists().then_some(model));
    let hint = match near.or_else(|| hint::path(Path::new(word))) {
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
    let file = Path::new(word);
    let array = word.ends_with(".npy") || word.ends_with(".npz");
    let array = array || Kind::of_name(file).is_ok_and(|kind| kind.is_some());
    Some(match (commands().contains(word), array) {
        (true, _) => format!("the command comes first: irrun {word} MODEL.xml …"),
        (_, true) => format!("\"{word}\" is one too many; an input is given as --input {word}"),
        (_, false) => format!("\"{word}\" is one too many: there is a model already"),
    })
}
