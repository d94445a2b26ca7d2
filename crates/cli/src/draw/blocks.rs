//! Layers in blocks: by the parts of their names, and by the body that they are in.

use super::kind::Kind;
use super::picture::{Node, Picture, Role};
use std::collections::HashMap;

/// Fewest layers that are worth a block of their own.
const FEWEST: usize = 4;
/// Parts of a name that open a block; what is nested deeper is in the last of them.
const DEEPEST: usize = 12;

/// A box that can be opened: the graph, a part of it, a layer with bodies, or a body.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// What stands over it.
    pub title: String,
    /// The block around it.
    pub parent: Option<usize>,
    /// What is in it, in the order of the file.
    pub children: Vec<Child>,
    /// Layers in it and in the blocks in it.
    pub layers: usize,
    /// The layer that it stands for, if it has bodies.
    pub node: Option<usize>,
}

/// What is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Child {
    /// A layer, by position in [`Picture::nodes`].
    Node(usize),
    /// A block, by position in [`Blocks::list`].
    Block(usize),
}

/// The blocks of a picture.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// The first is the whole graph; a block comes behind that around it.
    pub list: Vec<Block>,
    /// The block that each layer is in; `None` for layers that are not shown. A layer with bodies
    /// is in none: it is a block.
    pub of: Vec<Option<usize>>,
    /// The block that a layer with bodies is.
    pub of_bodies: HashMap<usize, usize>,
}

impl Blocks {
    /// Puts the layers that are `shown` in blocks.
    pub(super) fn new(picture: &Picture, shown: impl Fn(&Node) -> bool) -> Blocks {
        let scopes = scopes(picture);
        let shown: Vec<bool> = picture.nodes.iter().map(&shown).collect();
        let mut blocks = Blocks {
            list: vec![Block { title: picture.name.clone(), ..Block::default() }],
            of: vec![None; picture.nodes.len()],
            of_bodies: HashMap::new(),
        };
        let counts = counts(picture, &scopes, &shown);
        let mut known: HashMap<(usize, String), usize> = HashMap::new();
        let mut bodies: HashMap<usize, usize> = HashMap::new();
        for (n, node) in picture.nodes.iter().enumerate().filter(|(n, _)| shown[*n]) {
            let home = match node.body {
                None => 0,
                Some(body) => match bodies.get(&body) {
                    Some(block) => *block,
                    None => {
                        let owner = &picture.bodies[body];
                        let Some(&around) = blocks.of_bodies.get(&owner.node) else { continue };
                        let block = blocks.add(owner.title.clone(), around);
                        bodies.insert(body, block);
                        block
                    }
                },
            };
            let at = blocks.open(home, node.body, &scopes[n], &counts, &mut known);
            if picture.bodies.iter().any(|body| body.node == n) {
                let title = format!("{} {}", node.op_type, node.name);
                let block = blocks.add(title, at);
                blocks.list[block].node = Some(n);
                blocks.of_bodies.insert(n, block);
            } else {
                blocks.list[at].children.push(Child::Node(n));
                blocks.of[n] = Some(at);
            }
        }
        blocks.count();
        blocks
    }

    fn add(&mut self, title: String, parent: usize) -> usize {
        let block = self.list.len();
        self.list.push(Block { title, parent: Some(parent), ..Block::default() });
        self.list[parent].children.push(Child::Block(block));
        block
    }

    /// The innermost block of a scope that is worth one, made where it is not there yet.
    fn open(
        &mut self,
        home: usize,
        body: Option<usize>,
        scope: &[String],
        counts: &HashMap<(Option<usize>, Vec<String>), usize>,
        known: &mut HashMap<(usize, String), usize>,
    ) -> usize {
        let count = |depth: usize| {
            let part = scope.get(..depth)?.to_vec();
            counts.get(&(body, part)).copied().filter(|count| *count >= FEWEST)
        };
        let (mut at, mut title) = (home, String::new());
        for depth in 1..=scope.len() {
            let Some(layers) = count(depth) else { break };
            title.push_str(&scope[depth - 1]);
            if count(depth + 1) == Some(layers) {
                // A block with nothing but another block in it is drawn as one.
                title.push('/');
                continue;
            }
            let key = (at, std::mem::take(&mut title));
            at = match known.get(&key) {
                Some(block) => *block,
                None => {
                    let block = self.add(key.1.clone(), at);
                    known.insert(key, block);
                    block
                }
            };
        }
        at
    }

    /// Layers of each block, from the innermost outwards.
    fn count(&mut self) {
        for block in (0..self.list.len()).rev() {
            let layers = |child: &Child| match child {
                Child::Node(_) => 1,
                Child::Block(inner) => self.list[*inner].layers,
            };
            let inside: usize = self.list[block].children.iter().map(layers).sum();
            self.list[block].layers = inside + usize::from(self.list[block].node.is_some());
        }
    }

    /// A block and those around it, the innermost first.
    pub(super) fn around(&self, block: usize) -> Vec<usize> {
        std::iter::successors(Some(block), |b| self.list[*b].parent).collect()
    }

    /// The block or layer as which a layer is drawn, and the blocks around that.
    pub(super) fn path(&self, node: usize) -> Option<(Child, Vec<usize>)> {
        if let Some(&block) = self.of_bodies.get(&node) {
            let parent = self.list[block].parent?;
            return Some((Child::Block(block), self.around(parent)));
        }
        Some((Child::Node(node), self.around(self.of.get(node).copied().flatten()?)))
    }
}

/// How many layers that are shown each scope has.
fn counts(
    picture: &Picture,
    scopes: &[Vec<String>],
    shown: &[bool],
) -> HashMap<(Option<usize>, Vec<String>), usize> {
    let mut counts = HashMap::new();
    for ((node, scope), _) in picture.nodes.iter().zip(scopes).zip(shown).filter(|(_, s)| **s) {
        for depth in 1..=scope.len() {
            *counts.entry((node.body, scope[..depth].to_vec())).or_default() += 1;
        }
    }
    counts
}

/// The scope of each layer: that of its name, or what its neighbours have in common.
fn scopes(picture: &Picture) -> Vec<Vec<String>> {
    let own = |node: &Node| match node.kind {
        Kind::Interface => Some(Vec::new()),
        _ => named(&node.name),
    };
    let mut scopes: Vec<Option<Vec<String>>> = picture.nodes.iter().map(own).collect();
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); picture.nodes.len()];
    for edge in &picture.edges {
        let data = |n: usize| picture.nodes[n].role == Role::Data;
        // Shapes and constants are used far from where they are made.
        if data(edge.from) || !data(edge.to) {
            neighbours[edge.to].push(edge.from);
        }
        neighbours[edge.from].push(edge.to);
    }
    let open: Vec<usize> = (0..scopes.len()).filter(|&n| scopes[n].is_none()).collect();
    for n in open.iter().chain(open.iter().rev()).copied() {
        let found = neighbours[n].iter().filter_map(|&m| scopes[m].as_deref());
        if let Some(common) = found.map(<[String]>::to_vec).reduce(|a, b| common(&a, &b)) {
            scopes[n] = Some(common);
        }
    }
    scopes.into_iter().map(Option::unwrap_or_default).collect()
}

fn common(a: &[String], b: &[String]) -> Vec<String> {
    a.iter().zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a.clone()).collect()
}

/// The scope that a name has: `__module.layers.0.attn/aten::linear/MatMul` is in `layers.0`,
/// `attn`, `aten::linear`. `None` for a name of one part.
pub(super) fn named(name: &str) -> Option<Vec<String>> {
    let name = name.strip_prefix("__module.").unwrap_or(name).trim_start_matches('/');
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
    let (_, scope) = parts.split_last().filter(|(_, scope)| !scope.is_empty())?;
    let mut out: Vec<String> = Vec::new();
    for part in scope {
        if part.contains("::") {
            out.push((*part).to_owned());
            continue;
        }
        for word in part.split('.').filter(|word| !word.is_empty()) {
            let number = word.bytes().all(|b| b.is_ascii_digit());
            match out.last_mut().filter(|_| number) {
                Some(last) => {
                    last.push('.');
                    last.push_str(word);
                }
                None => out.push(word.to_owned()),
            }
        }
    }
    out.truncate(DEEPEST);
    Some(out)
}

/// The part of a name that says what a layer is within its block.
pub(super) fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_scopes() {
        for (name, scope) in [
            (
                "__module.layers.0.blocks.11.attn/aten::linear/MatMul",
                "layers.0 blocks.11 attn aten::linear",
            ),
            ("/layers.0/attn/Add", "layers.0 attn"),
            ("resnet/block1/Conv2D", "resnet block1"),
            ("a/1.2.3/x", "a.1.2.3"),
        ] {
            assert_eq!(named(name).unwrap().join(" "), scope, "{name}");
        }
        assert_eq!(named("Multiply_17"), None);
        assert_eq!(named("x.y"), None);
        assert!(named(&"a/".repeat(1000)).unwrap().len() <= DEEPEST);
    }
}
