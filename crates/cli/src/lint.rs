//! `irrun check --lint`: what is odd about a model that runs; none of it is a fault. With `--fix`,
//! a model without what can be mended.

use crate::statistics::Constant;
use crate::surgery::{self, declare, pack};
use crate::text::plural;
use infer::Facts;
use ir::{ByteOffset, Code, Diagnostic, Diagnostics, ElementType, Graph, Layer, Port};
use std::collections::{BTreeMap, HashMap};

/// Bytes between two constants that need no explanation: writers align them.
const PADDING: u64 = 64;
/// Bytes of a constant from which on a second copy of it is worth a word.
const MIN_DUPLICATE_BYTES: usize = 256;

/// Everything that is odd: dead layers, unused and overlapping ranges of the `.bin`, constants that
/// are there twice, conversions that lose precision.
pub(crate) fn findings(graph: &Graph) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    found.extend(dead(graph));
    ranges(graph, &mut found);
    found.extend(duplicates(graph));
    conversions(graph, &mut found);
    found
}

fn note(code: Code, layer: &Layer, message: String) -> Diagnostic {
    Diagnostic::note(code, layer.at, message).of(layer)
}

/// Layers that no output needs.
fn dead(graph: &Graph) -> Option<Diagnostic> {
    let mut live = vec![false; graph.layers().len()];
    graph.order().iter().for_each(|&position| live[position] = true);
    let is_dead = |(position, layer): &(usize, &Layer)| !live[*position] && !layer.is("Parameter");
    let dead: Vec<&Layer> =
        graph.layers().iter().enumerate().filter(is_dead).map(|(_, l)| l).collect();
    let first = dead.first()?;
    let message = format!(
        "{} needed by no output, {} the first; `irrun check --fix -o FILE.xml` leaves them out",
        match dead.len() {
            1 => "1 layer is".to_owned(),
            n => format!("{n} layers are"),
        },
        first.name,
    );
    Some(note(Code::DeadLayers, first, message))
}

/// Every constant with the range that it names, bodies included.
fn constants<'a>(graph: &'a Graph, found: &mut Vec<(&'a Layer, u64, u64)>) {
    for layer in graph.layers() {
        if let Some((offset, size)) = pack::range(layer).filter(|(_, size)| *size > 0) {
            found.push((layer, offset, size));
        }
        layer.bodies.iter().for_each(|body| constants(&body.graph, found));
    }
}

/// Ranges of the `.bin` that no constant names, and constants that share a part of their bytes.
fn ranges(graph: &Graph, found: &mut Vec<Diagnostic>) {
    let mut list = Vec::new();
    constants(graph, &mut list);
    list.sort_by_key(|(_, offset, size)| (*offset, *size));
    let len = u64::try_from(graph.weights().bytes().len()).unwrap_or(u64::MAX);
    let (mut reach, mut unused, mut first) = (0u64, 0u64, None);
    let mut before: Option<(&Layer, u64, u64)> = None;
    for &(layer, offset, size) in &list {
        if offset > reach.saturating_add(PADDING) {
            unused = unused.saturating_add(offset - reach);
            first = first.or(Some(reach));
        }
        if let Some((other, start, length)) = before
            && offset < start.saturating_add(length)
            && (offset, size) != (start, length)
        {
            let message = format!(
                "its bytes {offset}..{} overlap {start}..{} of \"{}\"",
                offset.saturating_add(size),
                start.saturating_add(length),
                other.name
            );
            found.push(note(Code::OverlappingWeights, layer, message));
        }
        if offset.saturating_add(size) > reach || before.is_none() {
            (reach, before) = (reach.max(offset.saturating_add(size)), Some((layer, offset, size)));
        }
    }
    // A long end is a warning of its own.
    if let Some(first) = first.filter(|_| len > 0) {
        let message = format!(
            "{unused} of {len} bytes of the .bin are between constants and belong to none, the \
             first at byte {first}"
        );
        found.push(Diagnostic::note(Code::UnusedWeights, ByteOffset(0), message));
    }
}

/// Constants with the same bytes at different places.
fn duplicates(graph: &Graph) -> Option<Diagnostic> {
    let mut list = Vec::new();
    constants(graph, &mut list);
    let mut places: HashMap<&[u8], (&Layer, u64)> = HashMap::new();
    let (mut copies, mut bytes, mut first) = (0usize, 0u64, None);
    for (layer, offset, size) in list {
        let Ok(content) = graph.weights().range(offset, size) else { continue };
        if content.len() < MIN_DUPLICATE_BYTES {
            continue;
        }
        let (original, at) = places.entry(content).or_insert((layer, offset));
        if *at != offset {
            (copies, bytes) = (copies + 1, bytes.saturating_add(size));
            first = first.or(Some((layer, *original)));
        }
    }
    let (copy, original) = first?;
    let message = format!(
        "it holds the same bytes as \"{}\"; {} of others, {bytes} bytes in all: `irrun check --fix \
         -o FILE.xml` shares them",
        original.name,
        match copies {
            1 => "1 constant is a copy".to_owned(),
            n => format!("{n} constants are copies"),
        },
    );
    Some(note(Code::DuplicateConstant, copy, message))
}

/// Converts behind which a Convert to the type before them follows, where the type between holds
/// less.
fn conversions(graph: &Graph, found: &mut Vec<Diagnostic>) {
    let to = |position: usize| {
        let layer = graph.layers().get(position).filter(|l| l.is("Convert"))?;
        ElementType::from_attribute(layer.attribute("destination_type")?.trim())
    };
    for &position in graph.order() {
        let Some(layer) = graph.layers().get(position) else { continue };
        for body in &layer.bodies {
            conversions(&body.graph, found);
        }
        let Some(source) = graph.inputs_of(position).first() else { continue };
        let (Some(last), Some(middle)) = (to(position), to(source.layer)) else { continue };
        let first = graph
            .inputs_of(source.layer)
            .first()
            .and_then(|s| graph.layers().get(s.layer)?.outputs.get(s.port)?.precision);
        let Some(first) = first.filter(|first| loses(*first, middle) && !loses(*first, last))
        else {
            continue;
        };
        let before = graph.layers().get(source.layer).map_or("", |l| l.name.as_str());
        let message = format!(
            "{first} becomes {middle} in \"{before}\" and {last} here: what {middle} does not hold \
             is lost"
        );
        found.push(note(Code::LossyConvert, layer, message));
    }
}

/// Whether some element of one type is none of another: by digits and range of the types.
fn loses(from: ElementType, to: ElementType) -> bool {
    let digits = |t: ElementType| match t {
        ElementType::F64 => Some(53),
        ElementType::F32 => Some(24),
        ElementType::F16 => Some(11),
        ElementType::BF16 => Some(8),
        t if t.is_integral() => t.bits().map(|bits| bits - u32::from(t.is_signed_integral())),
        _ => None,
    };
    let (Some(have), Some(keeps)) = (digits(from), digits(to)) else { return false };
    keeps < have || from.is_real() && to.is_integral()
}

/// What weights hold that computes badly: no numbers, infinities, subnormals. Every element is
/// looked at.
pub(crate) fn weights(graph: &Graph) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for layer in graph.layers() {
        for body in &layer.bodies {
            found.extend(weights(&body.graph));
        }
        let Some(constant) = Constant::of(graph, layer).filter(|c| c.element_type.is_real()) else {
            continue;
        };
        let least = smallest_normal(constant.element_type);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        constant.stretches(|values| {
            for value in values {
                let odd = match value {
                    v if v.is_nan() => "NaN",
                    v if v.is_infinite() => "infinite",
                    v if *v != 0.0 && v.abs() < least => "subnormal",
                    _ => continue,
                };
                *counts.entry(odd).or_default() += 1;
            }
        });
        if counts.is_empty() {
            continue;
        }
        let kinds: Vec<String> =
            counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let message = format!("of {}, {}", plural(constant.elements, "element"), kinds.join(", "));
        found.push(note(Code::NotFinite, layer, message));
    }
    found
}

fn smallest_normal(element_type: ElementType) -> f64 {
    match element_type {
        ElementType::F16 => 2f64.powi(-14),
        ElementType::F32 | ElementType::BF16 => f64::from(f32::MIN_POSITIVE),
        ElementType::F64 => f64::MIN_POSITIVE,
        _ => 0.0,
    }
}

/// What is other in a mended model, for people; nothing if nothing is.
pub(crate) fn mended(before: &Graph, after: &Graph) -> String {
    let left_out = before.layers().len().saturating_sub(after.layers().len());
    let bytes = |graph: &Graph| graph.weights().bytes().len();
    let saved = bytes(before).saturating_sub(bytes(after));
    let declared = after.layers().iter().map(|layer| declared_anew(before, layer)).sum();
    let parts = [
        (left_out, format!("{} left out", plural(left_out, "layer"))),
        (declared, format!("{} declared anew", plural(declared, "output"))),
        (saved, format!("{} of weights saved", plural(saved, "byte"))),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text);
    parts.collect::<Vec<_>>().join(", ")
}

/// How many outputs of a layer have another type or other dims than they had.
fn declared_anew(before: &Graph, layer: &Layer) -> usize {
    let old = before.find(layer.id).and_then(|position| before.layers().get(position));
    let pairs = old.into_iter().flat_map(|old| old.outputs.iter().zip(&layer.outputs));
    let differs = |old: &Port, new: &Port| (old.precision, &old.dims) != (new.precision, &new.dims);
    pairs.filter(|(old, new)| differs(old, new)).count()
}

/// The model without dead layers, with types and dims as they are inferred.
///
/// # Errors
/// What is wrong with its structure.
pub(crate) fn fixed(graph: &Graph, facts: &Facts) -> Result<Graph, Diagnostics> {
    let mut parts = surgery::needed(graph);
    declare::declare(&mut parts, graph, facts);
    surgery::assemble(graph, parts)
}
