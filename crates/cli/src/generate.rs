//! `irrun generate`: text from a language model.

use crate::args::{Activations, Precision, number, threads, whole};
use crate::exit::{Exit, Failure, OrExit};
use crate::{json, limits, print, run};
use anyhow::{Context, Result, anyhow};
use clap::Args;
use irrun_text::{Error, Generated, GenerationConfig, Message, Pipeline};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{BufRead, IsTerminal, Read, stdin};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Generating text.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  irrun generate model/ --prompt 'Once upon a time'
  irrun generate model/ --prompt - --max-new-tokens 100 < prompt.txt
  irrun generate model/ --interactive --chat")]
pub struct GenerateArgs {
    /// A directory as optimum-intel writes it: openvino_model.xml, openvino_tokenizer.xml,
    /// openvino_detokenizer.xml, generation_config.json.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The text to go on from; `-` is standard input as a whole.
    #[arg(short, long, value_name = "TEXT|-", required_unless_present = "interactive")]
    #[arg(allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Read prompts from standard input, a line each. With --chat they are one conversation.
    #[arg(short, long)]
    pub interactive: bool,
    /// Put the prompt into the chat template of the directory.
    #[arg(long)]
    pub chat: bool,
    /// What the system says before the conversation.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub system: Option<String>,
    /// How tokens are chosen.
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// What the operands of matrix products and attention are rounded to; bf16 is less accurate,
    /// and faster where the machine can multiply it.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub precision: Precision,
    /// What rows are rounded to before they are multiplied by weights of 8 or 4 bits; int8 is
    /// faster, and wrong by up to 1/254 of the largest of each 32 values. OpenVINO does it by
    /// default.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub activations: Activations,
    /// Threads; the tokens do not depend on it.
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Print a JSON object for each prompt: text, tokens, times.
    #[arg(long)]
    pub json: bool,
}

/// How tokens are chosen; what is not given is as generation_config.json says.
#[derive(Debug, Args)]
pub struct ChoiceArgs {
    /// New tokens at most; 256 if neither this nor generation_config.json says so.
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub max_new_tokens: Option<usize>,
    /// Take the most probable token each time.
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "seed"])]
    pub greedy: bool,
    /// Draw tokens, from logits divided by this; 0 takes the most probable one.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    #[arg(value_parser = number::<f32>)]
    pub temperature: Option<f32>,
    /// Draw from the K most probable tokens; 0 for all.
    #[arg(long, value_name = "K", value_parser = whole::<usize>)]
    pub top_k: Option<usize>,
    /// Draw from the most probable tokens that have the probability P together.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    #[arg(value_parser = number::<f32>)]
    pub top_p: Option<f32>,
    /// Seed of sampling; the same seed gives the same tokens on every machine.
    #[arg(long, value_name = "N", value_parser = whole::<u64>)]
    pub seed: Option<u64>,
    /// Divide the logits of tokens that have been by this; above 1 they repeat less.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    #[arg(value_parser = number::<f32>)]
    pub repetition_penalty: Option<f32>,
    /// End before this text; may be given again.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// End at this token; may be given again.
    #[arg(long, value_name = "ID")]
    pub stop_id: Vec<i64>,
}

impl ChoiceArgs {
    /// The settings of a directory, and what flags say in their place.
    fn over(&self, mut config: GenerationConfig) -> Result<GenerationConfig> {
        let draws = self.temperature.is_some() || self.top_k.is_some() || self.top_p.is_some();
        let draws = draws || self.seed.is_some();
        config.do_sample = !self.greedy && (draws || config.do_sample);
        config.max_new_tokens = self.max_new_tokens.or(config.max_new_tokens);
        config.temperature = self.temperature.unwrap_or(config.temperature);
        config.top_k = self.top_k.unwrap_or(config.top_k);
        config.top_p = self.top_p.unwrap_or(config.top_p);
        config.seed = self.seed.unwrap_or(config.seed);
        let penalty = self.repetition_penalty;
        config.repetition_penalty = penalty.unwrap_or(config.repetition_penalty);
        config.stop_token_ids.extend(&self.stop_id);
        config.stop_strings.extend(self.stop.iter().cloned());
        config.check().map_err(|message| anyhow!("--{}", message.replacen('_', "-", 1)))?;
        Ok(config)
    }
}

/// Tells a directory from what is none, such as a file in it.
fn expect_directory(dir: &Path) -> Result<()> {
    anyhow::ensure!(
        dir.is_dir(),
        "{} is no directory; give one that holds openvino_model.xml, openvino_tokenizer.xml and \
         openvino_detokenizer.xml",
        dir.display()
    );
    Ok(())
}

/// Generates text for a prompt, or for each line of standard input.
///
/// # Errors
/// With the exit code that tells whose fault it is.
pub(crate) fn generate(args: &GenerateArgs) -> Result<Exit, Failure> {
    let start = Instant::now();
    let threads = Arc::new(run::threads(args.threads));
    let options = runtime::Options {
        precision: args.precision.into(),
        activations: args.activations.into(),
        limits: limits::of_run(),
        ..runtime::Options::default()
    };
    expect_directory(&args.dir).or_exit(Exit::Model)?;
    let pipeline = Pipeline::open_with(&args.dir, &options, &threads).map_err(failure)?;
    pipeline.notes().iter().for_each(|note| print::note(format_args!("note: {note}")));
    let config = args.choice.over(pipeline.config().clone()).or_exit(Exit::Usage)?;
    let system = args.system.iter().map(|text| Message::new("system", text)).collect();
    let load = start.elapsed();
    let mut session = Session { args, pipeline, config, conversation: system, load };
    match args.prompt.as_deref() {
        Some("-") => {
            let mut text = String::new();
            let read = stdin().read_to_string(&mut text).context("standard input");
            read.or_exit(Exit::Input)?;
            session.answer(&text)?;
        }
        Some(text) => session.answer(text)?,
        None => {}
    }
    if args.interactive {
        session.answer_lines()?;
    }
    Ok(Exit::Good)
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Model(found) => Failure { exit: Exit::Model, error: found.into() },
        Error::Run(found) => Failure { exit: Exit::Running, error: found.into() },
        Error::File { .. } | Error::Unsuitable { .. } => {
            Failure { exit: Exit::Model, error: error.into() }
        }
        Error::Template(_) | Error::EmptyPrompt => {
            Failure { exit: Exit::Input, error: error.into() }
        }
    }
}

/// The prompts of one call.
struct Session<'a> {
    args: &'a GenerateArgs,
    pipeline: Pipeline,
    config: GenerationConfig,
    /// What has been said, with --chat.
    conversation: Vec<Message>,
    load: Duration,
}

impl Session<'_> {
    fn answer_lines(&mut self) -> Result<(), Failure> {
        let asks = stdin().is_terminal() && !self.args.json;
        let mut lines = stdin().lock().lines();
        loop {
            if asks {
                print::piece("> ")?;
            }
            let Some(line) = lines.next() else { return Ok(()) };
            let line = line.context("standard input").or_exit(Exit::Input)?;
            if !line.trim().is_empty() {
                self.answer(&line)?;
            }
        }
    }

    fn answer(&mut self, prompt: &str) -> Result<(), Failure> {
        let start = Instant::now();
        let tokens = if self.args.chat {
            self.conversation.push(Message::new("user", prompt));
            self.pipeline.encode_chat(&self.conversation)
        } else {
            self.pipeline.encode(prompt, true)
        };
        let tokens = tokens.map_err(failure)?;
        let tokenize = start.elapsed();
        let mut written = Ok(());
        let mut tell = |text: &str| {
            if self.args.json {
                return ControlFlow::Continue(());
            }
            match print::piece(text) {
                Ok(true) => ControlFlow::Continue(()),
                // A reader that has gone has had what it wanted.
                Ok(false) => ControlFlow::Break(()),
                Err(error) => {
                    written = Err(error);
                    ControlFlow::Break(())
                }
            }
        };
        let generated = self.pipeline.generate(&tokens, &self.config, &mut tell);
        let generated = generated.map_err(failure)?;
        written?;
        if self.args.chat {
            self.conversation.push(Message::new("assistant", &generated.text));
        }
        if self.args.json {
            json::print(&self.report(&tokens, generated, tokenize))
        } else {
            print::text("\n")
        }
    }

    fn report(&self, prompt: &[i64], generated: Generated, tokenize: Duration) -> Report {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Report {
            finish: generated.finish.name(),
            times_ms: Times {
                load: ms(self.load),
                tokenize: ms(tokenize),
                first_token: ms(generated.first_token),
                total: ms(generated.total),
            },
            tokens_per_second: generated.tokens_per_second(),
            text: generated.text,
            tokens: generated.tokens,
            prompt_tokens: prompt.to_vec(),
        }
    }
}

/// What `--json` prints for a prompt.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    text: String,
    /// The new tokens.
    tokens: Vec<i64>,
    /// The tokens of the prompt.
    prompt_tokens: Vec<i64>,
    /// Why it ended: `stop`, `length` or `cancelled`.
    finish: &'static str,
    times_ms: Times,
    /// New tokens per second, the first not counted.
    tokens_per_second: Option<f64>,
}

/// Times in milliseconds.
#[derive(Serialize, JsonSchema)]
struct Times {
    /// Reading and planning the models.
    load: f64,
    tokenize: f64,
    /// From the tokens of the prompt to the first new one.
    first_token: f64,
    /// From the tokens of the prompt to the last new one.
    total: f64,
}
