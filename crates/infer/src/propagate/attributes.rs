//! Reads the attributes of a layer. What is wrong with one is told where it is in the XML.

use crate::propagate::relics;
use crate::rule::attrs::Attrs;
use crate::rule::op::Op;
use crate::table::{Row, has_type};
use ir::{AttributeOffsets, Code, Diagnostic, Graph, Layer, Severity};
use std::sync::Arc;

/// The operation of a layer, and what is wrong with its attributes.
pub(super) fn parse(
    graph: &Graph,
    layer: &Layer,
    row: &Row,
) -> (Option<Arc<dyn Op>>, Vec<Diagnostic>) {
    let weights = graph.weights_of(layer);
    let mut attrs = Attrs::new(layer, &weights);
    let (op, found) = match (row.parse)(&mut attrs) {
        Ok(op) => (Some(op), warnings(row, attrs)),
        Err(error) => {
            let text = error.to_string();
            (None, vec![(Severity::Error, Code::Attribute, error.name, text)])
        }
    };
    if found.is_empty() {
        return (op, Vec::new());
    }
    let offsets = AttributeOffsets::new(graph.source(), layer.at);
    let diagnostic = |(severity, code, name, message): Found| {
        let at = offsets.of_data(&name).unwrap_or(layer.at);
        Diagnostic { severity, ..Diagnostic::error(code, at, message).of(layer) }
    };
    (op, found.into_iter().map(diagnostic).collect())
}

/// What is wrong with the attribute of a name.
type Found = (Severity, Code, String, String);

fn warnings(row: &Row, attrs: Attrs<'_>) -> Vec<Found> {
    let (unread, ignored) = attrs.finish();
    let unknown = unread.into_iter().filter(|name| !relics::is_relic(row.op_type, name));
    let unknown = unknown.map(|name| {
        let message = format!("{} has no attribute {name}; it is ignored", row.op_type);
        (Severity::Warning, Code::UnknownAttribute, name, message)
    });
    let ignored = ignored
        .into_iter()
        .map(|(name, message)| (Severity::Warning, Code::Attribute, name, message));
    unknown.chain(ignored).collect()
}

/// The error for a layer without a rule: its version is wrong, or its type.
pub(super) fn unsupported(graph: &Graph, layer: &Layer, message: String) -> Diagnostic {
    let offsets = AttributeOffsets::new(graph.source(), layer.at);
    let wrong = if has_type(&layer.op_type) { "version" } else { "type" };
    let at = offsets.of_layer(wrong).unwrap_or(layer.at);
    Diagnostic::error(Code::Unsupported, at, message).of(layer)
}
