//! The language model: tokens to the logits of the next token.

use crate::edit::GraphEdit;
use crate::error::Error;
use crate::model::Model;
use ir::{Diagnostics, ElementType, Graph};
use runtime::{Tensor, Threads};
use std::path::Path;
use std::sync::Arc;

/// The language model of a directory: `openvino_model.xml`.
///
/// A stateful model, as optimum-intel writes it, keeps keys and values of earlier tokens in
/// variables. A stateless model gets all tokens each time.
pub struct LanguageModel {
    model: Model,
    feeds: Vec<Feed>,
    logits: usize,
    is_stateful: bool,
    /// The tokens whose keys and values are in the variables.
    cached: Vec<i64>,
}

/// The purpose of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    InputIds,
    AttentionMask,
    PositionIds,
    TokenTypeIds,
    BeamIdx,
}

impl Feed {
    fn of(name: &str) -> Option<Feed> {
        match name {
            "input_ids" => Some(Feed::InputIds),
            "attention_mask" => Some(Feed::AttentionMask),
            "position_ids" => Some(Feed::PositionIds),
            "token_type_ids" => Some(Feed::TokenTypeIds),
            "beam_idx" => Some(Feed::BeamIdx),
            _ => None,
        }
    }
}

impl LanguageModel {
    /// Opens the model of a directory.
    ///
    /// # Errors
    /// When it is missing or invalid, or has an unknown input.
    pub fn open(
        dir: &Path,
        options: &runtime::Options,
        threads: &Arc<Threads>,
    ) -> Result<LanguageModel, Error> {
        let path = dir.join("openvino_model.xml");
        let graph = ir::read(&path).map_err(Error::Model)?;
        let sliced = with_last_logits(&graph).map_err(Error::Model)?;
        let model = Model::new(&path, &sliced.unwrap_or(graph), options, threads)?;
        let feeds: Result<Vec<Feed>, Error> =
            (0..model.inputs.len()).map(|i| feed(&model, i)).collect();
        let logits = model.output("logits").unwrap_or(0);
        let is_stateful = !model.session.declared_variables().is_empty();
        Ok(LanguageModel { feeds: feeds?, model, logits, is_stateful, cached: Vec::new() })
    }

    /// The logits of the token after `tokens`. If these begin with the tokens of the previous run,
    /// only the new ones are computed.
    ///
    /// # Errors
    /// When the model fails, or has no logits.
    pub fn logits(&mut self, tokens: &[i64]) -> Result<Vec<f32>, Error> {
        let goes_on = self.cached.len() < tokens.len() && tokens.starts_with(&self.cached);
        if !goes_on || !self.is_stateful {
            self.model.session.reset();
            self.cached.clear();
        }
        let inputs: Result<Vec<Tensor>, Error> =
            (0..self.feeds.len()).map(|input| self.input(input, tokens)).collect();
        let logits = self.model.run(&inputs?, self.logits)?;
        self.cached = tokens.to_vec();
        let logits = self.model.converted(&logits, ElementType::F32)?;
        let values = logits.as_slice().unwrap_or_default();
        let count = logits.sizes().last().copied().filter(|count| *count > 0);
        let last = count.and_then(|count| values.rchunks_exact(count).next());
        let missing = || Error::unsuitable(&self.model.path, "it gives no logits");
        last.map(<[f32]>::to_vec).ok_or_else(missing)
    }

    fn input(&self, input: usize, tokens: &[i64]) -> Result<Tensor, Error> {
        let new = &tokens[self.cached.len()..];
        let row = |values: Vec<i64>| self.model.tensor(input, &[1, values.len()], values);
        match self.feeds[input] {
            Feed::InputIds => row(new.to_vec()),
            Feed::AttentionMask => row(vec![1; tokens.len()]),
            Feed::PositionIds => row((0..).take(tokens.len()).skip(self.cached.len()).collect()),
            Feed::TokenTypeIds => row(vec![0; new.len()]),
            Feed::BeamIdx => self.model.tensor(input, &[1], vec![0i32]),
        }
    }
}

fn feed(model: &Model, input: usize) -> Result<Feed, Error> {
    let names = &model.inputs[input];
    let shown = names.first().map_or("", String::as_str);
    let Some(feed) = names.iter().find_map(|name| Feed::of(name)) else {
        let cache = shown.starts_with("past_key_values");
        let advice = if cache {
            "export it as a stateful model (optimum-cli without --disable-stateful)"
        } else {
            "language models take input_ids, attention_mask, position_ids and beam_idx"
        };
        let message = format!("nothing is known to give for its input \"{shown}\"; {advice}");
        return Err(Error::unsuitable(&model.path, message));
    };
    let declared = model.session.declared_inputs().get(input);
    let rank = declared.and_then(|(_, shape)| shape.rank());
    let expected = if feed == Feed::BeamIdx { 1 } else { 2 };
    if rank.is_none_or(|rank| rank == expected) {
        Ok(feed)
    } else {
        let message = format!("its input \"{shown}\" is not of rank {expected}");
        Err(Error::unsuitable(&model.path, message))
    }
}

/// A model that computes the logits of the last token only; those of all tokens of a prompt would
/// be by far the largest tensor. `None` if the MatMul that computes the logits is not recognised.
fn with_last_logits(graph: &Graph) -> Result<Option<Graph>, Diagnostics> {
    let Some(product) = last_product(graph) else { return Ok(None) };
    let mut edit = GraphEdit::new(graph);
    let Some(rows) = edit.source(product, 0) else { return Ok(None) };
    let mut number = |value: i64| edit.constant(ElementType::I64, &[1], &value.to_le_bytes());
    let (start, stop, step, axis) = (number(-1), number(i64::MAX), number(1), number(1));
    let last = edit.layer("Slice", "opset8", &[], &[rows, start, stop, step, axis]);
    edit.connect(product, 0, last);
    edit.finish().map(Some)
}

/// Element-wise operations that may follow this MatMul.
const ELEMENTWISE: [&str; 7] =
    ["Convert", "Add", "Subtract", "Multiply", "Divide", "Tanh", "Clamp"];

/// The MatMul of hidden states and weights that gives the logits: of rank 3, before the Result,
/// with only element-wise operations and constants in between.
fn last_product(graph: &Graph) -> Option<usize> {
    let [result] = graph.results() else { return None };
    let mut at = graph.inputs_of(*result).first()?.layer;
    loop {
        let layer = graph.layers().get(at)?;
        let inputs = graph.inputs_of(at);
        let rank = layer.outputs.first()?.dims.len();
        if layer.is("MatMul") {
            let plain = layer.attribute("transpose_a").is_none_or(|a| a == "false");
            return (rank == 3 && plain).then_some(at);
        }
        let others_are_small = inputs.iter().skip(1).all(|from| is_scalar_or_row(graph, from));
        if !ELEMENTWISE.iter().any(|kind| layer.is(kind)) || !others_are_small {
            return None;
        }
        at = inputs.first()?.layer;
    }
}

/// Whether an output has at most one element along every axis except the last.
fn is_scalar_or_row(graph: &Graph, from: &ir::OutputRef) -> bool {
    let layer = graph.layers().get(from.layer);
    let port = layer.and_then(|layer| layer.outputs.get(from.port));
    port.is_some_and(|port| port.dims.iter().rev().skip(1).all(|size| *size == 1))
}
