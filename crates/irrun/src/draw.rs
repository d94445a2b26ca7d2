//! `irrun graph`: a model as [Graphviz](https://graphviz.org/doc/info/lang.html) text. Layers are
//! boxes, tensors are edges with type and shape, bodies are clusters beside their layer.

use crate::args::GraphArgs;
use crate::bind::{self, Declared};
use crate::exit::{Exit, Failure, OrExit};
use crate::text::Glob;
use crate::{out, print};
use anyhow::anyhow;
use infer::{Fact, Facts};
use ir::{Body, Graph, Layer};
use std::fmt::Write;

/// Draws a model.
///
/// # Errors
/// When the file is no graph, a flag is wrong, or the drawing cannot be written.
pub fn draw(args: &GraphArgs) -> Result<Exit, Failure> {
    let model = bind::model_file(&args.model);
    let graph = ir::read(&model).or_exit(Exit::Model)?;
    if let Some(path) = &args.output {
        out::keep_apart(&[path], &out::of_model(&model)).or_exit(Exit::Usage)?;
    }
    if let Some(pattern) = args.only.as_ref().filter(|pattern| !any_named(&graph, pattern)) {
        let error = anyhow!("no layer has a name like {pattern}");
        return Err(Failure { exit: Exit::Usage, error });
    }
    let declared = Declared::new(&graph, &args.shape)?;
    let facts = infer::analyse(&graph, &declared.given()).facts;
    let text = dot(&graph, &facts, args.only.as_ref());
    match &args.output {
        Some(path) => {
            let write = |file: &mut dyn std::io::Write| Ok(file.write_all(text.as_bytes())?);
            out::write_whole(path, write).or_exit(Exit::Input)?;
        }
        None => print::text(text)?,
    }
    Ok(Exit::Good)
}

fn any_named(graph: &Graph, pattern: &Glob) -> bool {
    let named = |l: &Layer| {
        pattern.matches(&l.name) || l.bodies.iter().any(|b| any_named(&b.graph, pattern))
    };
    graph.layers().iter().any(named)
}

/// The layers of a graph whose name matches `only`, and the edges between them.
pub fn dot(graph: &Graph, facts: &Facts, only: Option<&Glob>) -> String {
    let mut drawing = Drawing { only, nodes: String::new(), edges: String::new(), clusters: 0 };
    drawing.graph(graph, Some(facts), "n", 1);
    format!(
        "digraph {} {{\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=Helvetica];\n  \
         edge [fontname=Helvetica, fontsize=10];\n{}{}}}\n",
        quoted(graph.name()),
        drawing.nodes,
        drawing.edges
    )
}

struct Drawing<'a> {
    only: Option<&'a Glob>,
    nodes: String,
    edges: String,
    clusters: usize,
}

impl Drawing<'_> {
    fn shows(&self, layer: &Layer) -> bool {
        self.only.is_none_or(|pattern| pattern.matches(&layer.name))
    }

    /// Nodes are called `prefix`, then the id of their layer.
    fn graph(&mut self, graph: &Graph, facts: Option<&Facts>, prefix: &str, depth: usize) {
        let fact = |layer, port| facts?.node(layer)?.outputs.get(port);
        for (position, layer) in graph.layers().iter().enumerate() {
            let node = format!("{prefix}{}", layer.id);
            if self.shows(layer) {
                let value = fact(position, 0).filter(|_| layer.is("Const"));
                let label = label(layer, value);
                let color = color(layer);
                self.node(depth, &format!("{node} [label={label}, fillcolor=\"{color}\"]"));
                for (input, source) in graph.inputs_of(position).iter().enumerate() {
                    let Some(from) = graph.layers().get(source.layer) else { continue };
                    if self.shows(from) {
                        let fact = fact(source.layer, source.port);
                        let label = edge_label(layer, input, fact);
                        let _ = writeln!(self.edges, "  {prefix}{} -> {node}{label};", from.id);
                    }
                }
            }
            for (i, body) in layer.bodies.iter().enumerate() {
                let facts = facts.and_then(|f| f.node(position)?.bodies.get(i));
                self.body(layer, body, facts, &format!("{node}_{i}_"), depth);
                if self.shows(layer) {
                    self.ports(&node, body, &format!("{node}_{i}_"));
                }
            }
        }
    }

    fn node(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.nodes, "{:depth$}{text};", "", depth = 2 * depth);
    }

    fn body(
        &mut self,
        layer: &Layer,
        body: &Body,
        facts: Option<&Facts>,
        prefix: &str,
        depth: usize,
    ) {
        let head = format!("{:1$}subgraph cluster_{2} {{", "", 2 * depth, self.clusters);
        let title = format!("{:?} of {}", body.role, layer.name);
        self.clusters += 1;
        let _ = writeln!(self.nodes, "{head}");
        self.node(depth + 1, &format!("label={}", quoted(&title)));
        self.graph(&body.graph, facts, prefix, depth + 1);
        let _ = writeln!(self.nodes, "{:1$}}}", "", 2 * depth);
    }

    /// What leads from a layer into its body, out of it, and back to the next iteration.
    fn ports(&mut self, node: &str, body: &Body, prefix: &str) {
        let shown = |id: u64| {
            let layer = body.graph.find(id).and_then(|p| body.graph.layers().get(p));
            layer.is_some_and(|l| self.shows(l))
        };
        let mut edges = String::new();
        for port in body.inputs.iter().filter(|p| shown(p.internal_layer)) {
            let id = port.internal_layer;
            let _ = writeln!(edges, "  {node} -> {prefix}{id} [style=dashed];");
        }
        for port in body.outputs.iter().filter(|p| shown(p.internal_layer)) {
            let id = port.internal_layer;
            let _ = writeln!(edges, "  {prefix}{id} -> {node} [style=dashed];");
        }
        for (result, parameter) in body.back_edges.iter().filter(|(r, p)| shown(*r) && shown(*p)) {
            let _ = writeln!(
                edges,
                "  {prefix}{result} -> {prefix}{parameter} [style=dotted, label=\"next iteration\"];"
            );
        }
        self.edges.push_str(&edges);
    }
}

/// Elements of a constant that are drawn; of more, type and shape are.
const VALUES: i64 = 8;

/// Type and name, and for a constant what it is.
fn label(layer: &Layer, constant: Option<&Fact>) -> String {
    let mut text = format!("{}\n{}", layer.op_type, layer.name);
    if let Some(fact) = constant {
        let count = fact.shape.volume().value();
        let value = fact.value.clone().filter(|_| count.is_some_and(|n| n <= VALUES));
        let _ = write!(text, "\n{}", Fact { value, ..fact.clone() });
    }
    quoted(&text)
}

/// Type and shape, and which input it is where there are several.
fn edge_label(layer: &Layer, input: usize, fact: Option<&Fact>) -> String {
    let shape = fact.map(|f| Fact { value: None, ..f.clone() }.to_string()).unwrap_or_default();
    let text = match layer.inputs.len() {
        0 | 1 => shape,
        _ => format!("{input}: {shape}"),
    };
    format!(" [label={}]", quoted(&text))
}

fn color(layer: &Layer) -> &'static str {
    match layer.op_type.as_str() {
        "Parameter" => "#cfe8cf",
        "Result" => "#f7d4c4",
        "Const" | "Constant" => "#eeeeee",
        "ReadValue" | "Assign" => "#fff2c2",
        _ => "white",
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
