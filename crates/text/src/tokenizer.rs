//! Tokenizer: text to tokens and back, by two models from OpenVINO Tokenizers.

use crate::edit::GraphEdit;
use crate::error::Error;
use crate::model::Model;
use ir::{Diagnostics, ElementType, Graph};
use runtime::{Tensor, Threads};
use std::path::Path;
use std::sync::Arc;

/// The tokenizer of a directory: `openvino_tokenizer.xml` and `openvino_detokenizer.xml`.
pub struct Tokenizer {
    encoder: Model,
    decoder: Model,
    /// Whether special tokens are added, once determined; `None` if they cannot be left out.
    adds_special: Option<bool>,
    notes: Notes,
}

/// The variable that enables special tokens.
const ADD_SPECIAL: &str = "add_special_tokens";

impl Tokenizer {
    /// Opens the tokenizer of a directory.
    ///
    /// # Errors
    /// When one of its models is missing or invalid.
    pub fn open(dir: &Path, threads: &Arc<Threads>) -> Result<Tokenizer, Error> {
        let options = runtime::Options::default();
        let path = dir.join("openvino_tokenizer.xml");
        let graph = ir::read(&path).map_err(Error::Model)?;
        let notes = Notes::of(&graph);
        let switched = with_special_tokens_switch(&graph).map_err(Error::Model)?;
        let adds_special = switched.as_ref().map(|_| true);
        let encoder = Model::new(&path, &switched.unwrap_or(graph), &options, threads)?;
        if encoder.inputs.len() != 1 {
            let message = format!("it takes {} texts, not one", encoder.inputs.len());
            return Err(Error::unsuitable(path, message));
        }
        let path = dir.join("openvino_detokenizer.xml");
        let graph = ir::read(&path).map_err(Error::Model)?;
        let decoder = Model::new(&path, &graph, &options, threads)?;
        Ok(Tokenizer { encoder, decoder, adds_special, notes })
    }

    /// The notes of the converter in the tokenizer.
    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The tokens of a text, with or without the special tokens that the tokenizer adds.
    ///
    /// # Errors
    /// When the model fails, or is no tokenizer.
    pub fn encode(&mut self, text: &str, add_special_tokens: bool) -> Result<Vec<i64>, Error> {
        let model = &mut self.encoder;
        if self.adds_special.is_some_and(|adds| adds != add_special_tokens) {
            let value = Tensor::from_bytes(ElementType::Boolean, &[], &[add_special_tokens.into()]);
            let value = value.map_err(|e| model.tensor_error(&e))?;
            let set = model.session.set_variable(ADD_SPECIAL, value);
            set.map_err(|e| model.tensor_error(&e))?;
            self.adds_special = Some(add_special_tokens);
        }
        let text = Tensor::strings(&[1], vec![text.into()]).map_err(|e| model.tensor_error(&e))?;
        let output = model.output("input_ids").unwrap_or(0);
        let ids = model.run(&[text], output)?;
        let ids = model.converted(&ids, ElementType::I64)?;
        Ok(ids.as_slice().unwrap_or_default().to_vec())
    }

    /// The text of tokens, without special tokens.
    ///
    /// # Errors
    /// When the model fails, or is no detokenizer.
    pub fn decode(&mut self, tokens: &[i64]) -> Result<String, Error> {
        if tokens.is_empty() {
            return Ok(String::new());
        }
        let model = &mut self.decoder;
        let ids = model.tensor(0, &[1, tokens.len()], tokens.to_vec())?;
        let text = model.run(&[ids], 0)?;
        let text = text.as_strings().and_then(<[_]>::first).map(|text| text.to_string());
        text.ok_or_else(|| Error::unsuitable(&model.path, "it gives no string"))
    }
}

/// A tokenizer with a variable that enables special tokens. `None` if it adds none.
fn with_special_tokens_switch(graph: &Graph) -> Result<Option<Graph>, Diagnostics> {
    let layers = graph.layers();
    let last = graph.order().iter().rfind(|i| layers.get(**i).is_some_and(is_combination));
    let Some(&combination) = last else { return Ok(None) };
    let inputs = graph.inputs_of(combination);
    let is_constant = |from: &ir::OutputRef| layers.get(from.layer).is_some_and(|l| l.is("Const"));
    // Begins, ends and elements for each segment, then one input for all.
    let segments = inputs.as_chunks::<3>().0.iter().enumerate();
    let special = segments.filter(|(_, segment)| segment.iter().all(is_constant));
    let special: Vec<usize> = special.map(|(i, _)| 3 * i + 1).collect();
    if special.is_empty() {
        return Ok(None);
    }
    let mut edit = GraphEdit::new(graph);
    let default = edit.constant(ElementType::Boolean, &[], &[1]);
    let id = ("variable_id", ADD_SPECIAL);
    let data = [id, ("variable_type", "boolean"), ("variable_shape", "")];
    let adds = edit.layer("ReadValue", "opset6", &data, &[default]);
    edit.layer("Assign", "opset6", &[id], &[adds]);
    let none = edit.constant(ElementType::I32, &[], &0i32.to_le_bytes());
    for ends in special {
        let Some(own) = edit.source(combination, ends) else { continue };
        let broadcast = [("auto_broadcast", "numpy")];
        let chosen = edit.layer("Select", "opset1", &broadcast, &[adds, own, none]);
        edit.connect(combination, ends, chosen);
    }
    edit.finish().map(Some)
}

fn is_combination(layer: &ir::Layer) -> bool {
    layer.is("CombineSegments")
}

/// `rt_info` of a tokenizer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notes {
    pub(crate) chat_template: Option<String>,
    pub(crate) eos_token_id: Option<i64>,
}

impl Notes {
    fn of(graph: &Graph) -> Notes {
        let notes = graph.notes().iter().filter(|note| note.name == "rt_info");
        let entries = notes.flat_map(|note| &note.children);
        let value = |key: &str| {
            let entry = entries.clone().find(|entry| {
                entry.name == key || entry.attribute("name").is_some_and(|name| name == key)
            });
            entry?.attribute("value").map(str::to_owned)
        };
        Notes {
            chat_template: value("chat_template"),
            eos_token_id: value("eos_token_id").and_then(|id| id.parse().ok()),
        }
    }
}
