//! Where everything of a picture is: each block is laid out by itself, with the blocks in it as
//! boxes, and edges that cross its border end at pins there.

use super::blocks::{Blocks, Child, last_part};
use super::layout::{self, Item, Layout, Side};
use super::picture::{Node, Picture, Role};
use std::collections::HashMap;

/// Height of the title of an open block.
pub(super) const TITLE: f64 = 30.0;
/// Room between the border of a block and what is in it.
pub(super) const MARGIN: f64 = 18.0;
/// Height of a line of text in a box.
pub(super) const LINE: f64 = 15.0;
/// Lines of a box, but for its type.
const MOST_LINES: usize = 6;
/// Characters of a line; the rest is in the details.
const MAX_LETTERS: usize = 34;

/// A tensor: the layer that makes it, and its port.
pub(super) type Tensor = (usize, usize);

/// What is placed in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// A layer or block.
    Child(Child),
    /// Where a tensor comes into the block.
    Enter(Tensor),
    /// Where a tensor leaves it.
    Leave(Tensor),
}

/// The inside of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Inside {
    /// What is in it.
    pub places: Vec<Place>,
    /// From which place to which, and what.
    pub edges: Vec<(usize, usize, Tensor)>,
    /// Where, from the corner below the title.
    pub layout: Layout,
}

/// Lines in the box of a layer, below its type: its name, and what is constant of its inputs.
pub(super) fn lines(picture: &Picture, node: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    let name = last_part(&node.name);
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    if bare != node.op_type && !name.is_empty() {
        lines.push(shortened(name));
    }
    for input in &node.inputs {
        let Some(from) = input.from.map(|from| &picture.nodes[from]) else { continue };
        if from.role == Role::Constant {
            let (_, port) = input.port.split_once('(').unwrap_or(("", &input.port));
            let what = from.constant.as_ref().unwrap_or(&input.fact);
            lines.push(shortened(&format!("{} {what}", port.trim_end_matches(')'))));
        }
    }
    lines.truncate(MOST_LINES);
    lines
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_LETTERS {
        return text.to_owned();
    }
    text.chars().take(MAX_LETTERS - 1).chain(['…']).collect()
}

/// About as wide as the text is on a screen, in a font of 12 pixels.
pub(super) fn text_width(text: &str) -> f64 {
    let wide = |c: char| match c {
        'i' | 'l' | 'j' | '.' | ',' | ':' | '[' | ']' | ' ' | 't' | 'f' | '/' => 4.4,
        'm' | 'w' | 'M' | 'W' | '+' => 10.5,
        c if c.is_ascii_uppercase() => 8.6,
        _ => 7.1,
    };
    text.chars().map(wide).sum()
}

/// The size of the box of a layer.
pub(super) fn box_of(picture: &Picture, node: &Node) -> (f64, f64) {
    let lines = lines(picture, node);
    let widest = lines.iter().map(|line| text_width(line) * 0.93).fold(0.0, f64::max);
    let width = widest.max(text_width(&node.op_type) * 1.1).max(48.0) + 24.0;
    (width.ceil(), 26.0 + LINE * lines.len() as f64)
}

/// The size of a closed block.
pub(super) fn closed(title: &str) -> (f64, f64) {
    ((text_width(title) * 1.1).max(90.0).ceil() + 44.0, 46.0)
}

/// The inside of every block, in the order of the blocks. What `is_open` says decides how large
/// the blocks in a block are.
pub(super) fn arrange(
    picture: &Picture,
    blocks: &Blocks,
    is_open: &dyn Fn(usize) -> bool,
) -> Vec<Inside> {
    let mut insides: Vec<Inside> = blocks.list.iter().map(|_| Inside::default()).collect();
    let mut places: Vec<HashMap<Place, usize>> = vec![HashMap::new(); insides.len()];
    for (b, block) in blocks.list.iter().enumerate() {
        for child in &block.children {
            place(&mut insides[b], &mut places[b], Place::Child(*child));
        }
    }
    connect(picture, blocks, &mut insides, &mut places);
    for b in (0..insides.len()).rev() {
        let items: Vec<Item> = insides[b]
            .places
            .iter()
            .map(|p| item(picture, blocks, &insides, *p, is_open))
            .collect();
        let edges: Vec<(usize, usize)> =
            insides[b].edges.iter().map(|&(from, to, _)| (from, to)).collect();
        insides[b].layout = layout::lay_out(&items, &edges);
    }
    insides
}

/// The size of a block as it is drawn.
pub(super) fn size(blocks: &Blocks, insides: &[Inside], block: usize, is_open: bool) -> (f64, f64) {
    let (width, height) = closed(&blocks.list[block].title);
    if !is_open {
        return (width, height);
    }
    let inside = &insides[block].layout;
    (inside.width.max(width) + 2.0 * MARGIN, inside.height + TITLE + 2.0 * MARGIN)
}

fn item(
    picture: &Picture,
    blocks: &Blocks,
    insides: &[Inside],
    place: Place,
    is_open: &dyn Fn(usize) -> bool,
) -> Item {
    let pin = |side| Item { width: 1.0, height: 0.0, side };
    match place {
        Place::Enter(_) => pin(Side::Top),
        Place::Leave(_) => pin(Side::Bottom),
        Place::Child(Child::Node(n)) => {
            let (width, height) = box_of(picture, &picture.nodes[n]);
            Item { width, height, side: Side::Inside }
        }
        Place::Child(Child::Block(b)) => {
            let (width, height) = size(blocks, insides, b, is_open(b));
            Item { width, height, side: Side::Inside }
        }
    }
}

fn place(inside: &mut Inside, known: &mut HashMap<Place, usize>, place: Place) -> usize {
    *known.entry(place).or_insert_with(|| {
        inside.places.push(place);
        inside.places.len() - 1
    })
}

/// Leads each tensor out of the blocks that it leaves, across the block that both its ends are in,
/// and into those that it enters; once where several readers are in one block.
fn connect(
    picture: &Picture,
    blocks: &Blocks,
    insides: &mut [Inside],
    places: &mut [HashMap<Place, usize>],
) {
    let mut known = std::collections::HashSet::new();
    for edge in &picture.edges {
        let (Some(from), Some(to)) = (blocks.path(edge.from), blocks.path(edge.to)) else {
            continue;
        };
        let tensor = (edge.from, edge.from_port);
        let Some(&shared) = from.1.iter().find(|b| to.1.contains(b)) else { continue };
        let mut at = Place::Child(from.0);
        let mut lead = |block: usize, from: Place, to: Place| {
            let inside = &mut insides[block];
            let ends = [from, to].map(|p| place(inside, &mut places[block], p));
            if known.insert((block, ends, tensor)) {
                inside.edges.push((ends[0], ends[1], tensor));
            }
        };
        for &block in from.1.iter().take_while(|b| **b != shared) {
            lead(block, at, Place::Leave(tensor));
            at = Place::Child(Child::Block(block));
        }
        let inward: Vec<usize> = to.1.iter().take_while(|b| **b != shared).copied().collect();
        let next = |i: usize| match i.checked_sub(1) {
            Some(inner) => Place::Child(Child::Block(inward[inner])),
            None => Place::Child(to.0),
        };
        lead(shared, at, next(inward.len()));
        for (i, &block) in inward.iter().enumerate().rev() {
            lead(block, Place::Enter(tensor), next(i));
        }
    }
}
