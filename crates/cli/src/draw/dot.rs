//! A picture as [Graphviz](https://graphviz.org/doc/info/lang.html) text. Layers are boxes,
//! constants too; tensors are edges with type and shape, bodies are clusters.

use super::kind::Kind;
use super::picture::{Edge, Node, Picture, Port};
use std::fmt::Write;

/// Writes a picture.
pub(super) fn dot(picture: &Picture) -> String {
    let mut nodes = String::new();
    write_nodes(picture, None, 1, &mut nodes);
    let mut edges = String::new();
    for edge in &picture.edges {
        let [from, to] = [edge.from, edge.to].map(|n| &picture.nodes[n].key);
        let label = quoted(&edge_label(picture, edge));
        let _ = writeln!(edges, "  n{from} -> n{to} [label={label}];");
    }
    for body in &picture.bodies {
        let owner = &picture.nodes[body.node].key;
        for (node, port) in &body.ports {
            let inner = &picture.nodes[*node].key;
            let _ = match port {
                Port::Input => writeln!(edges, "  n{owner} -> n{inner} [style=dashed];"),
                Port::Output => writeln!(edges, "  n{inner} -> n{owner} [style=dashed];"),
            };
        }
        for (from, to) in &body.back_edges {
            let [from, to] = [from, to].map(|n| &picture.nodes[*n].key);
            let label = "style=dotted, label=\"next iteration\"";
            let _ = writeln!(edges, "  n{from} -> n{to} [{label}];");
        }
    }
    format!(
        "digraph {} {{\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, \
         fontname=Helvetica];\n  edge [fontname=Helvetica, fontsize=10];\n{nodes}{edges}}}\n",
        quoted(&picture.name),
    )
}

fn write_nodes(picture: &Picture, body: Option<usize>, depth: usize, text: &mut String) {
    let indent = 2 * depth;
    for (n, node) in picture.nodes.iter().enumerate() {
        if node.body == body {
            let (label, color) = (quoted(&label(node)), color(node.kind));
            let _ = writeln!(
                text,
                "{:indent$}n{} [label={label}, fillcolor=\"{color}\"];",
                "", node.key
            );
        }
        for (b, inner) in picture.bodies.iter().enumerate().filter(|(_, b)| b.node == n) {
            if node.body == body {
                let _ = writeln!(text, "{:indent$}subgraph cluster_{b} {{", "");
                let _ = writeln!(text, "{:indent$}  label={};", "", quoted(&inner.title));
                write_nodes(picture, Some(b), depth + 1, text);
                let _ = writeln!(text, "{:indent$}}}", "");
            }
        }
    }
}

/// Type and name, and for a constant what it is.
fn label(node: &Node) -> String {
    let constant = node.constant.as_ref().map(|c| format!("\n{c}")).unwrap_or_default();
    format!("{}\n{}{constant}", node.op_type, node.name)
}

/// Type and shape, and which input it is where there are several.
pub(super) fn edge_label(picture: &Picture, edge: &Edge) -> String {
    match picture.nodes[edge.to].inputs.len() {
        0 | 1 => edge.fact.clone(),
        _ => format!("{}: {}", edge.to_port, edge.fact),
    }
}

fn color(kind: Kind) -> &'static str {
    match kind {
        Kind::Interface => "#cfe8cf",
        Kind::Constant => "#eeeeee",
        Kind::Compute => "#cfdcf5",
        Kind::Activation => "#f7d4c4",
        Kind::Normalize => "#e3d5f2",
        Kind::Reduce => "#d0ecec",
        Kind::Convert => "#f2d9e6",
        Kind::Control => "#fbe3b5",
        Kind::State => "#fff2c2",
        Kind::Elementwise | Kind::Move | Kind::Other => "white",
    }
}

/// Text as Graphviz reads it back: quotes and backslashes escaped, lines broken, no other
/// control characters.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(quoted("a\"b\\c\nd\te"), r#""a\"b\\c\nd e""#);
    }
}
