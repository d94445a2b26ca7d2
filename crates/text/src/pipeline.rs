//! The pipeline: prompt to tokens, generation token by token, tokens to text.

use crate::chat::{ChatTemplate, Message};
use crate::config::GenerationConfig;
use crate::decoder::StreamDecoder;
use crate::error::Error;
use crate::language_model::LanguageModel;
use crate::sampler::Sampler;
use crate::stop::StopStrings;
use crate::tokenizer::Tokenizer;
use runtime::Threads;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A language model with its tokenizer.
pub struct Pipeline {
    model: LanguageModel,
    tokenizer: Tokenizer,
    chat: Option<ChatTemplate>,
    config: GenerationConfig,
    notes: Vec<String>,
}

/// The result of a generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The new tokens. A stop token is included, the tokens of a stop string are not.
    pub tokens: Vec<i64>,
    /// Their text.
    pub text: String,
    /// Why generation ended.
    pub finish: Finish,
    /// Time until the first token.
    pub first_token: Duration,
    /// Total time.
    pub total: Duration,
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A stop token or a stop string.
    Stop,
    /// The most new tokens were reached.
    Length,
    /// The caller ended it.
    Cancelled,
}

impl Finish {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// Receives new text as it is generated; `Break` ends generation.
pub type Listener<'l> = &'l mut dyn FnMut(&str) -> ControlFlow<()>;

impl Generated {
    /// Tokens per second, without the first token and its prompt.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let seconds = (self.total - self.first_token).as_secs_f64();
        let more = self.tokens.len().checked_sub(1).filter(|more| *more > 0 && seconds > 0.0);
        more.map(|more| more as f64 / seconds)
    }
}

impl Pipeline {
    /// Opens a directory, with one thread per processor.
    ///
    /// # Errors
    /// When one of its models or files is missing or invalid.
    pub fn open(dir: &Path) -> Result<Pipeline, Error> {
        Pipeline::open_with(dir, &runtime::Options::default(), &Arc::new(Threads::default()))
    }

    /// Opens a directory; the language model is compiled with these options.
    ///
    /// # Errors
    /// As [`Pipeline::open`].
    pub fn open_with(
        dir: &Path,
        options: &runtime::Options,
        threads: &Arc<Threads>,
    ) -> Result<Pipeline, Error> {
        let (mut config, notes) = GenerationConfig::read(dir)?;
        let tokenizer = Tokenizer::open(dir, threads)?;
        if config.stop_token_ids.is_empty() {
            config.stop_token_ids.extend(tokenizer.notes().eos_token_id);
        }
        let chat = ChatTemplate::read(dir, tokenizer.notes().chat_template.as_deref())?;
        let model = LanguageModel::open(dir, options, threads)?;
        Ok(Pipeline { model, tokenizer, chat, config, notes })
    }

    /// The generation settings of the directory.
    pub fn config(&self) -> &GenerationConfig {
        &self.config
    }

    /// Settings of the directory that would change the text but are not implemented.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The tokens of a text; see [`Tokenizer::encode`].
    ///
    /// # Errors
    /// When the tokenizer fails.
    pub fn encode(&mut self, text: &str, add_special_tokens: bool) -> Result<Vec<i64>, Error> {
        self.tokenizer.encode(text, add_special_tokens)
    }

    /// The text of tokens; see [`Tokenizer::decode`].
    ///
    /// # Errors
    /// When the detokenizer fails.
    pub fn decode(&mut self, tokens: &[i64]) -> Result<String, Error> {
        self.tokenizer.decode(tokens)
    }

    /// The tokens of the prompt for a conversation, by the directory's chat template.
    ///
    /// # Errors
    /// When there is no template, or it fails.
    pub fn encode_chat(&mut self, messages: &[Message]) -> Result<Vec<i64>, Error> {
        let missing = || Error::Template("the directory has none".to_owned());
        let prompt = self.chat.as_ref().ok_or_else(missing)?.prompt(messages)?;
        // The template itself writes the special tokens.
        self.tokenizer.encode(&prompt, false)
    }

    /// Generates text after the tokens of a prompt. If the prompt begins with the previous prompt
    /// and its answer, these are not computed again.
    ///
    /// # Errors
    /// When the prompt is empty or a model fails.
    pub fn generate(
        &mut self,
        prompt: &[i64],
        config: &GenerationConfig,
        listener: Listener<'_>,
    ) -> Result<Generated, Error> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let start = Instant::now();
        let mut first_token = None;
        let mut tokens = prompt.to_vec();
        let most = prompt.len().saturating_add(config.most_new_tokens(prompt.len()));
        let mut sampler = Sampler::new(config, prompt);
        let mut telling = Telling::new(config, &mut self.tokenizer, listener);
        let mut finish = None;
        while finish.is_none() && tokens.len() < most {
            let mut logits = self.model.logits(&tokens)?;
            let token = sampler.next(&mut logits, tokens.len() - prompt.len());
            first_token.get_or_insert_with(|| start.elapsed());
            tokens.push(token);
            finish = telling.token(token)?;
            if config.stop_token_ids.contains(&token) {
                finish = Some(Finish::Stop);
            }
        }
        let mut tokens = tokens.split_off(prompt.len());
        let text = telling.finish(&mut tokens)?;
        let first_token = first_token.unwrap_or_default();
        let finish = finish.unwrap_or(Finish::Length);
        Ok(Generated { tokens, text, finish, first_token, total: start.elapsed() })
    }
}

/// Passes new text to the listener.
struct Telling<'t> {
    tokenizer: &'t mut Tokenizer,
    decoder: StreamDecoder,
    stops: StopStrings<'t>,
    listener: Listener<'t>,
    text: String,
    stopped: bool,
}

impl<'t> Telling<'t> {
    fn new(
        config: &'t GenerationConfig,
        tokenizer: &'t mut Tokenizer,
        listener: Listener<'t>,
    ) -> Telling<'t> {
        let (decoder, stops) = (StreamDecoder::default(), StopStrings::new(&config.stop_strings));
        Telling { tokenizer, decoder, stops, listener, text: String::new(), stopped: false }
    }

    fn token(&mut self, token: i64) -> Result<Option<Finish>, Error> {
        let piece = self.decoder.push(token, &mut |tokens| self.tokenizer.decode(tokens))?;
        Ok(self.piece(&piece))
    }

    fn piece(&mut self, piece: &str) -> Option<Finish> {
        let begin = self.text.len();
        self.stopped = self.stops.push(piece, &mut self.text);
        let new = &self.text[begin..];
        let heard = if new.is_empty() { ControlFlow::Continue(()) } else { (self.listener)(new) };
        match (self.stopped, heard) {
            (true, _) => Some(Finish::Stop),
            (false, ControlFlow::Break(())) => Some(Finish::Cancelled),
            (false, ControlFlow::Continue(())) => None,
        }
    }

    /// Passes on the text that was held back, and drops the tokens of a stop string.
    fn finish(mut self, tokens: &mut Vec<i64>) -> Result<String, Error> {
        if !self.stopped {
            let rest = self.decoder.rest(&mut |tokens| self.tokenizer.decode(tokens))?;
            self.piece(&rest);
        }
        if self.stopped {
            self.drop_stop_string(tokens)?;
            return Ok(self.text);
        }
        let rest = self.stops.rest();
        if !rest.is_empty() {
            self.text.push_str(&rest);
            let _ = (self.listener)(&rest);
        }
        Ok(self.text)
    }

    /// Keeps the fewest tokens that give the text, except for blanks at its end.
    fn drop_stop_string(&mut self, tokens: &mut Vec<i64>) -> Result<(), Error> {
        let text = self.text.trim_end_matches([' ', '\n']);
        while let Some((_, fewer)) = tokens.split_last() {
            if !self.tokenizer.decode(fewer)?.starts_with(text) {
                break;
            }
            tokens.pop();
        }
        Ok(())
    }
}
