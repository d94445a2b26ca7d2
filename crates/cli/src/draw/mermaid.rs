//! A picture as [Mermaid](https://mermaid.js.org/syntax/flowchart.html) text, which code forges
//! draw. Constants and shape arithmetic are left out unless they are asked for.

use super::blocks::{Blocks, Child, last_part};
use super::picture::{Node, Picture};
use std::fmt::Write;

/// Writes the layers that `shown` chooses.
pub(super) fn mermaid(picture: &Picture, shown: &dyn Fn(&Node) -> bool) -> String {
    let blocks = Blocks::new(picture, shown);
    let mut text = String::from("flowchart TD\n");
    write_block(picture, &blocks, 0, 1, &mut text);
    for edge in &picture.edges {
        let drawn = |n: usize| blocks.path(n).map(|(child, _)| name(picture, child));
        if let (Some(from), Some(to)) = (drawn(edge.from), drawn(edge.to)) {
            let _ = writeln!(text, "  {from} -->|{}| {to}", quoted(&edge.fact));
        }
    }
    text
}

fn name(picture: &Picture, child: Child) -> String {
    match child {
        Child::Node(n) => format!("n{}", picture.nodes[n].key),
        Child::Block(b) => format!("b{b}"),
    }
}

fn write_block(picture: &Picture, blocks: &Blocks, block: usize, depth: usize, text: &mut String) {
    let indent = 2 * depth;
    for &child in &blocks.list[block].children {
        let name = name(picture, child);
        match child {
            Child::Node(n) => {
                let node = &picture.nodes[n];
                let label = format!("{}\n{}", node.op_type, last_part(&node.name));
                let _ = writeln!(text, "{:indent$}{name}[{}]", "", quoted(&label));
            }
            Child::Block(b) => {
                let title = quoted(&blocks.list[b].title);
                let _ = writeln!(text, "{:indent$}subgraph {name}[{title}]", "");
                write_block(picture, blocks, b, depth + 1, text);
                let _ = writeln!(text, "{:indent$}end", "");
            }
        }
    }
}

/// Text as Mermaid shows it: what it would read as markup is written by number.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => out.push_str("<br>"),
            '"' | '#' | '<' | '>' | '&' | '`' => {
                let _ = write!(out, "#{};", u32::from(c));
            }
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
    fn markup_is_escaped() {
        assert_eq!(quoted("a\"<b>\nc"), "\"a#34;#60;b#62;<br>c\"");
    }
}
