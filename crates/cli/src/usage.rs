//! Command lines, and the mistakes in them that clap explains badly or not at all.

use crate::args::Cli;
use crate::exit::Exit;
use crate::hint;
use crate::media::Kind;
use crate::print;
use crate::table::table;
use crate::text::nearest;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use ir::ElementType;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// Parses a command line, the name of the program first.
///
/// # Errors
/// What is wrong with it, or the help or version that it asks for.
pub fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let parsed = Cli::try_parse_from(args);
    if args.len() < 2 {
        return Err(Cli::command().error(ErrorKind::MissingRequiredArgument, nothing_given()));
    }
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
    parsed.map_err(|error| with_tips(error, args))
}

/// What a command line without a word is told.
fn nothing_given() -> String {
    let cli = Cli::command();
    let row = |command: &clap::Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        vec![format!("  {}", command.get_name()), about]
    };
    let rows: Vec<Vec<String>> = cli.get_subcommands().map(row).collect();
    format!("give a MODEL.xml to run, or a command:\n{}", table(&rows).trim_end())
}

/// The error with tips of our own in place of those that clap gives.
fn with_tips(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidValue => {
            error.remove(ContextKind::SuggestedValue);
            if let Some(near) = near_value(&error) {
                error.insert(ContextKind::SuggestedValue, ContextValue::String(near));
            }
        }
        ErrorKind::UnknownArgument => {
            // To write it after `--`: but no file of anybody is called so.
            error.remove(ContextKind::Suggested);
            let flag = text_of(&error, ContextKind::InvalidArg).to_owned();
            if let Some(tip) = tip_for(&flag, args) {
                let tips = vec![StyledStr::from(tip)];
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
            } else if is_near(&flag, text_of(&error, ContextKind::SuggestedArg)) {
                return error;
            }
            error.remove(ContextKind::SuggestedArg);
            // That of clap has the flag that it would have suggested.
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(args)));
        }
        ErrorKind::DisplayHelp => return not_help(args).unwrap_or(error),
        _ => {}
    }
    error
}

/// How the command is used that a command line calls.
fn usage(args: &[OsString]) -> StyledStr {
    let mut cli = Cli::command();
    cli.build();
    let word = args.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    match cli.find_subcommand_mut(word) {
        Some(command) => command.render_usage(),
        None => cli.render_usage(),
    }
}

fn text_of(error: &clap::Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text,
        _ => "",
    }
}

/// The value of a flag that was probably meant. A type that is not taken is no slip of the pen:
/// what is like f16 by its letters is not like it in any other way.
fn near_value(error: &clap::Error) -> Option<String> {
    let value = text_of(error, ContextKind::InvalidValue);
    let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    let near = nearest(value, known.iter().map(String::as_str));
    near.filter(|_| ElementType::from_attribute(value).is_none()).map(str::to_owned)
}

/// Whether a flag is like another, or begins as it does.
fn is_near(flag: &str, other: &str) -> bool {
    let bare = |flag: &'_ str| bare(flag).trim_start_matches('-').to_owned();
    let (flag, other) = (bare(flag), bare(other));
    !flag.is_empty() && (nearest(&flag, [&*other]).is_some() || other.starts_with(&flag))
}

/// A flag of benchmark_app that begins as `-h` does, such as `-hint`: it asks for no help.
fn not_help(args: &[OsString]) -> Option<clap::Error> {
    let words = args.iter().take_while(|arg| *arg != "--").filter_map(|arg| arg.to_str());
    let flag = words.into_iter().find(|word| word.starts_with("-h") && word.len() > 2)?;
    let tip = tip_for(flag, args).map(|tip| format!("\n\n  tip: {tip}")).unwrap_or_default();
    let message = format!("unexpected argument '{}' found{tip}", bare(flag));
    Some(Cli::command().error(ErrorKind::UnknownArgument, message))
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
    (&["-n", "--niter", "--iterations"], "runs are timed by irrun bench MODEL.xml --runs N"),
    (
        &["--nstreams", "--num-streams", "--nireq", "--api", "--hint"],
        "sessions at the same time are irrun bench MODEL.xml --streams N",
    ),
    (&["-b", "--batch"], "the batch is part of the shape: --shape 'NAME[8,3,224,224]'"),
    (&["-p", "--report-type", "--report_type"], "the report for programs is --json"),
    (
        &["-w", "--warm-up", "--warmUp"],
        "runs before those that are timed are irrun bench MODEL.xml --warmup N",
    ),
    (&["-d", "--device"], "irrun runs on the CPU alone"),
    (&["--nthreads", "--num-threads", "--numThreads"], "threads are --threads N"),
    (&["-t", "--time", "--duration"], "irrun bench MODEL.xml stops after --seconds S"),
    (&["--pc", "--dumpProfile"], "the time of each layer is --profile"),
    (&["--load-inputs", "--loadInputs", "--inputs"], "inputs are --input NAME=FILE"),
    (&["--save-outputs", "--exportOutput", "--outputs"], "outputs are --output NAME=FILE"),
    (&["--mean_values", "--mean-values"], "means of the channels of a picture are --mean M,M,M"),
    (&["--scale_values", "--scale-values"], "what a picture is divided by is --scale S,S,S"),
    (&["--reverse_input_channels"], "blue, green, red of a picture are --channels bgr"),
    (
        &["-shape", "--input-shapes", "--shapes", "--data_shape"],
        "shapes are --shape 'NAME[1,3,224,224]'",
    ),
    (&["--val-range"], "the range of made up inputs is --random --range NAME=LOW:HIGH"),
    (
        &["-v", "--verbose", "--verbosity", "--loglevel", "--log-level"],
        "there is no log; --explain tells the steps of a run, --profile their times",
    ),
];

/// What a flag is called here, or which command has it.
fn tip_for(flag: &str, args: &[OsString]) -> Option<String> {
    let command = args.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if (command, flag) == ("graph", "--compare-steps") {
        let report = "irrun MODEL.xml --compare-steps REF.npz --json";
        return Some(format!(
            "layers are coloured by --differences FILE.json, which {report} gives"
        ));
    }
    known_elsewhere(flag, args).map(str::to_owned).or_else(|| has_it(flag))
}

/// What a flag of another tool is called here. benchmark_app writes long flags with one dash, which
/// clap reads as the first letter.
fn known_elsewhere(flag: &str, args: &[OsString]) -> Option<&'static str> {
    let tip = |flag: &str| {
        let row = ELSEWHERE.iter().find(|(flags, _)| flags.contains(&flag));
        row.map(|(_, tip)| *tip)
    };
    let words = args.iter().filter_map(|arg| arg.to_str());
    let is_meant =
        |word: &&str| word.len() > 2 && word.starts_with(flag) && !flag.starts_with("--");
    let whole = words.filter(is_meant).map(bare);
    let whole = whole.into_iter().find_map(|w| tip(w).or_else(|| tip(&format!("-{w}"))));
    whole.or_else(|| tip(bare(flag)))
}

/// A flag without its value.
fn bare(flag: &str) -> &str {
    flag.split_once('=').map_or(flag, |(flag, _)| flag)
}

/// The commands that have a flag, if any has.
fn has_it(flag: &str) -> Option<String> {
    let name = bare(flag).strip_prefix("--")?;
    let cli = Cli::command();
    let has =
        |command: &&clap::Command| command.get_arguments().any(|a| a.get_long() == Some(name));
    let commands = cli.get_subcommands().filter(has);
    let names: Vec<String> = commands.map(|c| format!("irrun {}", c.get_name())).collect();
    match &names[..] {
        [] => None,
        [only] => Some(format!("{only} has --{name}")),
        [others @ .., last] => Some(format!("{} and {last} have --{name}", others.join(", "))),
    }
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
