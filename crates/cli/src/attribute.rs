//! What a misspelt attribute was probably meant to be. Rules keep no lists of their attributes:
//! they are asked whether they read a name that is like it.

use crate::finding;
use infer::Attrs;
use ir::{Code, Diagnostic, Graph, Layer, Weights};
use std::sync::Arc;

/// Adds to each finding of an attribute that an operation does not have the one it was meant to be.
pub(crate) fn suggest(problems: &mut [Diagnostic], graph: &Graph) {
    for problem in problems.iter_mut().filter(|p| p.code == Code::UnknownAttribute) {
        if let Some(near) = meant(problem, graph) {
            problem.message.push_str(&format!("; did you mean {near}?"));
        }
    }
}

fn meant(problem: &Diagnostic, graph: &Graph) -> Option<String> {
    let layer = graph.layers().get(finding::layer_of(problem, graph)?)?;
    if layer.data.len() > MAX_ATTRIBUTES {
        return None;
    }
    let is_named = |name: &&String| problem.message.contains(&format!("has no attribute {name};"));
    let name = layer.data.iter().map(|(key, _)| key).find(is_named)?;
    let row = infer::find(&layer.op_type, &layer.version).ok()?;
    let weights = graph.weights_of(layer);
    // Operations with bodies are large, and have few attributes.
    let is_small = layer.bodies.is_empty() && name.len() <= MAX_NAME_BYTES;
    let mut near = near(name).into_iter().filter(|_| is_small);
    near.find(|other| layer.attribute(other).is_none() && reads(row, layer, &weights, name, other))
}

/// A layer with more attributes is none that a converter or a person wrote: each name that is tried
/// is compared with all of them.
const MAX_ATTRIBUTES: usize = 64;

/// Bytes of the longest name that is looked at: of the attributes that there are, the longest has
/// 29.
const MAX_NAME_BYTES: usize = 40;

/// Whether a rule reads an attribute where the layer has it under another name.
fn reads(row: &infer::Row, layer: &Layer, weights: &Arc<Weights>, name: &str, other: &str) -> bool {
    let mut renamed = layer.clone();
    let keys = renamed.data.iter_mut().map(|(key, _)| key).filter(|key| *key == name);
    keys.for_each(|key| other.clone_into(key));
    let mut attributes = Attrs::new(&renamed, weights);
    // That its value is wrong does not matter: it has been read then.
    let _ = (row.parse)(&mut attributes);
    !attributes.finish().0.iter().any(|unread| unread == other)
}

/// The name in small letters, and what is one letter away from it: two exchanged, one missing, one
/// too many, or another.
fn near(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    let joined = |before: &[char], between: &[char], after: &[char]| {
        [before, between, after].concat().into_iter().collect::<String>()
    };
    let alphabet = || ('a'..='z').chain(['_']);
    let mut names = vec![joined(&letters, &[], &[])];
    for at in 0..=letters.len() {
        let (before, after) = letters.split_at(at);
        names.extend(alphabet().map(|letter| joined(before, &[letter], after)));
        if let [first, rest @ ..] = after {
            names.push(joined(before, &[], rest));
            names.extend(alphabet().map(|letter| joined(before, &[letter], rest)));
            if let [second, rest @ ..] = rest {
                names.push(joined(before, &[*second, *first], rest));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_one_letter_away() {
        for misspelt in ["transpose_A", "transposea", "transpsoe_a", "transpose__a", "transpose_z"]
        {
            assert!(near(misspelt).iter().any(|name| name == "transpose_a"), "{misspelt}");
        }
        assert!(!near("transpose").iter().any(|name| name == "transpose_a"));
    }
}
