//! Chat templates in Jinja, as Hugging Face tokenizers have them.

use crate::config::read_json;
use crate::error::Error;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The speaker: `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of a conversation.
    pub fn new(role: &str, content: &str) -> Message {
        Message { role: role.to_owned(), content: content.to_owned() }
    }
}

/// A template that turns a conversation into a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatTemplate {
    source: String,
    /// Special tokens such as `bos_token`.
    tokens: BTreeMap<&'static str, String>,
}

/// The most steps of a template.
const FUEL: u64 = 10_000_000;

const TOKENS: [&str; 5] = ["bos_token", "eos_token", "pad_token", "unk_token", "sep_token"];

impl ChatTemplate {
    /// The template of a directory: from `chat_template.jinja`, `chat_template.json` or
    /// `tokenizer_config.json`, else `fallback`.
    ///
    /// # Errors
    /// When a file exists but cannot be read.
    pub fn read(dir: &Path, fallback: Option<&str>) -> Result<Option<ChatTemplate>, Error> {
        let config = read_json(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
        let special = read_json(&dir.join("special_tokens_map.json"))?.unwrap_or_default();
        let own = read_json(&dir.join("chat_template.json"))?.unwrap_or_default();
        let jinja = match std::fs::read_to_string(dir.join("chat_template.jinja")) {
            Ok(text) => Some(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::Template(e.to_string())),
        };
        let source = jinja.or_else(|| template_of(&own)).or_else(|| template_of(&config));
        let Some(source) = source.or_else(|| fallback.map(str::to_owned)) else { return Ok(None) };
        let token = |key| Some((key, token(&config, key).or_else(|| token(&special, key))?));
        Ok(Some(ChatTemplate { source, tokens: TOKENS.into_iter().filter_map(token).collect() }))
    }

    /// The prompt for the next answer in a conversation.
    ///
    /// # Errors
    /// When the template is wrong, or rejects the conversation.
    pub fn prompt(&self, messages: &[Message]) -> Result<String, Error> {
        let failed = |e: minijinja::Error| Error::Template(format!("{e:#}"));
        let environment = environment().map_err(failed)?;
        let template = environment.template_from_str(&self.source).map_err(failed)?;
        let message = |m: &Message| {
            let entry = |key, text: &str| (key, Value::from(text));
            let entries = [entry("role", &m.role), entry("content", &m.content)];
            Value::from(BTreeMap::<&str, Value>::from(entries))
        };
        let mut values: BTreeMap<&str, Value> =
            self.tokens.iter().map(|(key, token)| (*key, Value::from(token.as_str()))).collect();
        values.insert("messages", messages.iter().map(message).collect());
        values.insert("add_generation_prompt", Value::from(true));
        values.insert("tools", Value::from(()));
        values.insert("documents", Value::from(()));
        template.render(Value::from(values)).map_err(failed)
    }
}

/// Jinja with the settings of transformers.
fn environment<'s>() -> Result<Environment<'s>, minijinja::Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |text: String| -> Result<Value, _> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
    });
    Ok(environment)
}

/// The template of a settings file: a string, or the one named `default`.
fn template_of(file: &Json) -> Option<String> {
    match file.get("chat_template")? {
        Json::String(text) => Some(text.clone()),
        Json::Array(all) => {
            let is_default = |t: &&Json| t.get("name").and_then(Json::as_str) == Some("default");
            Some(all.iter().find(is_default)?.get("template")?.as_str()?.to_owned())
        }
        _ => None,
    }
}

/// A special token: a string, or an object with it.
fn token(file: &Json, key: &str) -> Option<String> {
    let own = file.get(key)?;
    own.as_str().or_else(|| own.get("content")?.as_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(source: &str, messages: &[Message]) -> Result<String, String> {
        let tokens = BTreeMap::from([("bos_token", "<s>".to_owned())]);
        let template = ChatTemplate { source: source.to_owned(), tokens };
        template.prompt(messages).map_err(|e| e.to_string())
    }

    #[test]
    fn a_conversation() {
        let source = "{{ bos_token }}\n{%- for m in messages %}\n    {%- if m['role'] == 'user' and \
            not m.content.startswith('!') %}\n[U] {{ m.content | trim }}\n    {% else %}\n\
            [{{ m.role }}] {{ m['content'].strip() }}\n    {% endif %}\n{% endfor %}\n\
            {% if add_generation_prompt and tools is none %}[A]{% endif %}";
        let messages = [Message::new("user", " hi <b> "), Message::new("assistant", " yo\n")];
        let expected = "<s>[U] hi <b>\n[assistant] yo\n[A]";
        assert_eq!(prompt(source, &messages).unwrap(), expected);
    }

    #[test]
    fn what_fails() {
        let text = prompt("{{ raise_exception('roles must alternate') }}", &[]).unwrap_err();
        assert!(text.contains("roles must alternate"), "{text}");
        assert!(prompt("{% for %}", &[]).is_err());
        let endless =
            "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        assert!(prompt(endless, &[]).is_err());
    }
}
