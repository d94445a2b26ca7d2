//! Encoding: text to pieces.

use super::model::{Algorithm, Kind, Model};
use crate::bytes::char_len;
use crate::charsmap::SPACE_SYMBOL;
use crate::unigram::{Best, UNKNOWN_PENALTY};
use foldhash::{HashMap, HashMapExt};
use std::collections::BinaryHeap;
use std::ops::Range;

/// The range of a piece in the text, and its id.
type Cut = (Range<usize>, i32);

impl Model {
    /// Appends the ids of a text's pieces.
    pub fn encode(&self, text: &[u8], out: &mut Vec<i32>) {
        let mut normalized = Vec::new();
        self.normalizer.apply(text, &mut normalized);
        let cuts = match self.trainer.algorithm {
            Algorithm::Unigram => self.likeliest(&normalized),
            Algorithm::Bpe => self.merged(&normalized),
            Algorithm::Char => self.whole(chars(&normalized), &normalized),
            Algorithm::Word => self.whole(self.words(&normalized), &normalized),
        };
        let mut after_unknown = false;
        for (range, id) in cuts {
            let is_unknown = self.piece(id).is_none_or(|piece| piece.kind == Kind::Unknown);
            if is_unknown && self.trainer.byte_fallback {
                let bytes = &normalized[range];
                out.extend(bytes.iter().map(|byte| self.bytes[usize::from(*byte)]));
            } else if !(is_unknown && after_unknown) {
                out.push(id);
            }
            after_unknown = is_unknown;
        }
    }

    fn id(&self, text: &[u8]) -> i32 {
        self.normal.get(text).copied().unwrap_or(self.trainer.unknown)
    }

    fn is(&self, id: i32, kind: Kind) -> bool {
        self.piece(id).is_some_and(|piece| piece.kind == kind)
    }

    fn whole(&self, ranges: Vec<Range<usize>>, text: &[u8]) -> Vec<Cut> {
        ranges.into_iter().map(|range| (range.clone(), self.id(&text[range]))).collect()
    }

    /// Splits into words, with the space before or after each.
    fn words(&self, text: &[u8]) -> Vec<Range<usize>> {
        let (mut words, mut begin) = (Vec::new(), 0);
        for at in 0..text.len() {
            let is_space = text[at..].starts_with(SPACE_SYMBOL);
            if !is_space || !self.trainer.as_suffix && at == begin {
                continue;
            }
            let cut = if self.trainer.as_suffix { at + SPACE_SYMBOL.len() } else { at };
            words.push(begin..cut);
            begin = cut;
        }
        if begin < text.len() {
            words.push(begin..text.len());
        }
        words
    }

    /// The most likely segmentation (unigram).
    fn likeliest(&self, text: &[u8]) -> Vec<Cut> {
        let scores = || self.pieces.iter().filter(|p| p.kind == Kind::Normal).map(|p| p.score);
        let unknown_score = scores().fold(f32::MAX, f32::min) - UNKNOWN_PENALTY;
        let most = scores().fold(f32::MIN, f32::max);
        let mut best = vec![Best::NONE; text.len() + 1];
        let mut begin = 0;
        while begin < text.len() {
            let so_far = best[begin].score;
            let char_len = char_len(&text[begin..]);
            let mut has_char = false;
            for (len, token) in self.tree.prefixes(&text[begin..]) {
                let Some(piece) = self.piece(token).filter(|p| p.kind != Kind::Unused) else {
                    continue;
                };
                // A user-defined symbol always scores better than its parts.
                let score = match piece.kind {
                    Kind::UserDefined => f64::from(len as f32 * most) - 0.1,
                    _ => f64::from(piece.score),
                };
                take(&mut best[begin + len], score + f64::from(so_far), token, begin);
                has_char |= len == char_len;
            }
            if !has_char {
                let score = f64::from(unknown_score + so_far);
                take(&mut best[begin + char_len], score, self.trainer.unknown, begin);
            }
            begin += char_len;
        }
        let (mut cuts, mut end) = (Vec::new(), text.len());
        while end > 0 {
            let begin = best[end].begin.unwrap_or(0);
            cuts.push((begin..end, best[end].token));
            end = begin;
        }
        cuts.reverse();
        cuts
    }

    /// Merges neighbours with the best score repeatedly (BPE).
    fn merged(&self, text: &[u8]) -> Vec<Cut> {
        let mut merger = Merger::new(self, text);
        for right in 1..merger.symbols.len() {
            merger.add(right - 1, right);
        }
        merger.run();
        let mut cuts = Vec::new();
        let alive = std::mem::take(&mut merger.symbols);
        alive.iter().filter(|s| !s.range.is_empty()).for_each(|s| {
            merger.cut(s.range.clone(), &mut cuts);
        });
        cuts
    }
}

fn take(best: &mut Best, score: f64, token: i32, begin: usize) {
    if best.begin.is_none() || score > f64::from(best.score) {
        *best = Best { token, score: score as f32, begin: Some(begin) };
    }
}

fn chars(text: &[u8]) -> Vec<Range<usize>> {
    let (mut ranges, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let len = char_len(&text[at..]);
        ranges.push(at..at + len);
        at += len;
    }
    ranges
}

struct Symbol {
    /// Empty after it was merged with the previous symbol.
    range: Range<usize>,
    previous: Option<usize>,
    next: Option<usize>,
    frozen: bool,
}

struct Pair {
    score: f32,
    left: usize,
    right: usize,
    len: usize,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    /// Best score first, then leftmost.
    fn cmp(&self, other: &Pair) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

struct Merger<'m> {
    model: &'m Model,
    text: &'m [u8],
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Pair>,
    /// For merged pieces that are unused: where to split them again.
    parts: HashMap<&'m [u8], usize>,
}

impl<'m> Merger<'m> {
    fn new(model: &'m Model, text: &'m [u8]) -> Merger<'m> {
        let (mut symbols, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let defined = model.defined.as_ref().and_then(|d| d.longest(&text[at..]));
            let len = defined.map_or_else(|| char_len(&text[at..]), |(len, _)| len);
            let index: usize = symbols.len();
            let (previous, next) = (index.checked_sub(1), Some(index + 1));
            symbols.push(Symbol { range: at..at + len, previous, next, frozen: defined.is_some() });
            at += len;
        }
        if let Some(last) = symbols.last_mut() {
            last.next = None;
        }
        Merger { model, text, symbols, queue: BinaryHeap::new(), parts: HashMap::new() }
    }

    fn add(&mut self, left: usize, right: usize) {
        let (a, b) = (&self.symbols[left], &self.symbols[right]);
        if a.frozen || b.frozen {
            return;
        }
        let text = &self.text[a.range.start..b.range.end];
        let Some(&id) = self.model.normal.get(text) else { return };
        let score = self.model.piece(id).map_or(0.0, |piece| piece.score);
        self.queue.push(Pair { score, left, right, len: text.len() });
        if self.model.is(id, Kind::Unused) {
            self.parts.insert(text, a.range.len());
        }
    }

    fn run(&mut self) {
        while let Some(Pair { left, right, len, .. }) = self.queue.pop() {
            let (a, b) = (self.symbols[left].range.clone(), self.symbols[right].range.clone());
            if a.is_empty() || b.is_empty() || a.len() + b.len() != len {
                continue;
            }
            let next = self.symbols[right].next;
            self.symbols[left].range = a.start..b.end;
            self.symbols[left].next = next;
            self.symbols[right].range = b.end..b.end;
            if let Some(next) = next {
                self.symbols[next].previous = Some(left);
                self.add(left, next);
            }
            if let Some(previous) = self.symbols[left].previous {
                self.add(previous, left);
            }
        }
    }

    /// Splits an unused piece into what it was merged from.
    fn cut(&self, range: Range<usize>, cuts: &mut Vec<Cut>) {
        let mut work = vec![range];
        while let Some(range) = work.pop() {
            let text = &self.text[range.clone()];
            let id = self.model.id(text);
            match self.parts.get(text).filter(|_| self.model.is(id, Kind::Unused)) {
                Some(first) => {
                    let middle = range.start + first;
                    work.push(middle..range.end);
                    work.push(range.start..middle);
                }
                None => cuts.push((range, id)),
            }
        }
    }
}
