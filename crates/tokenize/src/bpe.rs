//! Byte-pair encoding: merges neighbouring tokens in the order of the merges.

use crate::bytes::of_token;
use crate::error::TextError;
use crate::strings::Strings;
use crate::trie::Trie;
use foldhash::{HashMap, HashMapExt};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A vocabulary with its merges.
#[derive(Debug)]
pub struct Bpe {
    /// Tokens that no merge produces.
    atoms: Trie,
    merges: HashMap<(i32, i32), Merge>,
    unknown: Option<i32>,
    /// Tokens of single bytes, if they are used.
    bytes: Option<Box<[Option<i32>; 256]>>,
    end_suffix: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Merge {
    rank: u32,
    token: i32,
}

/// The options of a tokenizer.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The token for unknown text.
    pub unknown: String,
    /// The suffix of each word.
    pub end_suffix: String,
    /// Whether bytes missing in the vocabulary become tokens such as `<0x0A>`.
    pub byte_fallback: bool,
}

/// The two sides of each merge.
#[derive(Clone, Copy, Debug)]
pub enum Merges<'a> {
    /// Joined by a space.
    Joined(Strings<'a>),
    /// Separately.
    Pairs(Strings<'a>, Strings<'a>),
}

impl<'a> Merges<'a> {
    fn get(&self) -> Vec<(&'a [u8], &'a [u8])> {
        match *self {
            Merges::Pairs(left, right) => left.iter().zip(right.iter()).collect(),
            Merges::Joined(both) => both.iter().map(split_at_space).collect(),
        }
    }
}

/// Without a space, both sides are the whole string.
fn split_at_space(both: &[u8]) -> (&[u8], &[u8]) {
    match both.iter().position(|byte| *byte == b' ') {
        Some(at) => (&both[..at], &both[at + 1..]),
        None => (both, both),
    }
}

impl Bpe {
    /// A tokenizer with tokens (by index), merges, and added tokens with ids of their own.
    ///
    /// # Errors
    /// When a merge has a side that is no token, or its result is none.
    pub fn new(
        tokens: Strings<'_>,
        merges: Merges<'_>,
        added: Option<(Strings<'_>, &[i32])>,
        options: &Options,
    ) -> Result<Bpe, TextError> {
        let mut ids: HashMap<&[u8], i32> = HashMap::with_capacity(tokens.len());
        ids.extend(tokens.iter().zip(0..));
        if let Some((added, own)) = added {
            for (token, id) in added.iter().zip(own) {
                ids.entry(token).or_insert(*id);
            }
        }
        let unknown = ids.get(options.unknown.as_bytes()).copied();
        let (merges, made) = numbered(&merges.get(), &ids)?;
        for token in &made {
            ids.remove(&token[..]);
        }
        let bytes = options.byte_fallback.then(|| {
            let mut bytes = Box::new([None; 256]);
            let own = ids.iter().filter_map(|(token, id)| Some((of_token(token)?, *id)));
            own.for_each(|(byte, id)| bytes[usize::from(byte)] = Some(id));
            bytes
        });
        let end_suffix = options.end_suffix.clone().into_bytes();
        Ok(Bpe { atoms: Trie::new(ids), merges, unknown, bytes, end_suffix })
    }

    /// As [`Self::tokenize`], but copies the tokens of words in `cache` from `out`, which holds all
    /// of them.
    pub fn tokenize_again<'w>(
        &self,
        word: &'w [u8],
        (scratch, cache): &mut (Scratch, Cache<'w>),
        out: &mut Vec<i32>,
    ) {
        if let Some((begin, end)) = cache.get(word) {
            return out.extend_from_within(*begin as usize..*end as usize);
        }
        let begin = out.len();
        self.tokenize(word, scratch, out);
        if word.len() <= MOST_REPEATED {
            cache.insert(word, (begin as u32, out.len() as u32));
        }
    }

    /// Appends the tokens of a word.
    pub fn tokenize(&self, word: &[u8], scratch: &mut Scratch, out: &mut Vec<i32>) {
        scratch.clear();
        if self.end_suffix.is_empty() {
            self.atoms_of(word, &mut scratch.symbols)
        } else {
            self.atoms_of(&[word, &self.end_suffix].concat(), &mut scratch.symbols)
        }
        self.merge(scratch);
        let symbols = &scratch.symbols;
        let mut next = symbols.iter().position(|s| s.alive && s.previous == END);
        while let Some(symbol) = next.and_then(|at| symbols.get(at)) {
            out.push(symbol.token);
            next = (symbol.next != END).then_some(symbol.next as usize);
        }
    }

    /// Greedy longest atoms from left to right. A byte at which no atom begins becomes its byte
    /// token or the unknown token, or is dropped.
    fn atoms_of(&self, word: &[u8], symbols: &mut Vec<Symbol>) {
        let mut rest = word;
        while let Some(byte) = rest.first() {
            let own = self.bytes.as_ref().and_then(|bytes| bytes[usize::from(*byte)]);
            let (len, token) = match self.atoms.longest(rest) {
                Some((len, token)) => (len, Some(token)),
                None => (1, own.or(self.unknown)),
            };
            if let Some(token) = token {
                let at = symbols.len() as u32;
                if let Some(last) = symbols.last_mut() {
                    last.next = at;
                }
                let previous = at.checked_sub(1).unwrap_or(END);
                symbols.push(Symbol { token, previous, next: END, alive: true });
            }
            rest = &rest[len..];
        }
    }

    fn merge(&self, Scratch { symbols, queue }: &mut Scratch) {
        match symbols.len() {
            0..LONG_WORD => self.merge_by(queue, symbols),
            _ => self.merge_by(&mut BucketQueue::default(), symbols),
        }
    }

    /// Merges pairs by rank, and pairs of equal rank in the order in which they were found.
    fn merge_by(&self, queue: &mut impl Queue, symbols: &mut Vec<Symbol>) {
        // In a run of one character, the same pairs repeat.
        let mut last = ((-1, -1), None);
        let mut push = |queue: &mut _, symbols: &[Symbol], left: u32, right: u32| {
            let tokens = (symbols[left as usize].token, symbols[right as usize].token);
            if last.0 != tokens {
                last = (tokens, self.merges.get(&tokens).copied());
            }
            if let Some(Merge { rank, token }) = last.1 {
                Queue::push(queue, rank, Pair { token, left, right });
            }
        };
        for right in 1..symbols.len() as u32 {
            push(queue, symbols, right - 1, right);
        }
        while let Some(Pair { token, left, right }) = queue.pop() {
            let (a, b) = (symbols[left as usize], symbols[right as usize]);
            // Symbols that a merge has consumed are in no pair.
            if !a.alive || !b.alive {
                continue;
            }
            let merged = symbols.len() as u32;
            symbols.push(Symbol { token, previous: a.previous, next: b.next, alive: true });
            symbols[left as usize].alive = false;
            symbols[right as usize].alive = false;
            if let Some(previous) = symbols.get_mut(a.previous as usize) {
                previous.next = merged;
                push(queue, symbols, a.previous, merged);
            }
            if let Some(next) = symbols.get_mut(b.next as usize) {
                next.previous = merged;
                push(queue, symbols, merged, b.next);
            }
        }
    }
}

type Numbered = (HashMap<(i32, i32), Merge>, Vec<Vec<u8>>);

/// Merges by the ids of their tokens, with the ids of the results.
fn numbered(merges: &[(&[u8], &[u8])], ids: &HashMap<&[u8], i32>) -> Result<Numbered, TextError> {
    let id = |token: &[u8]| {
        let missing = || format!("{:?} of a merge is no token", String::from_utf8_lossy(token));
        ids.get(token).copied().ok_or_else(|| TextError::new(missing()))
    };
    let mut numbered = HashMap::with_capacity(merges.len());
    let mut made = Vec::with_capacity(merges.len());
    for (rank, (left, right)) in (0..).zip(merges) {
        let both = [*left, *right].concat();
        let merge = Merge { rank, token: id(&both)? };
        numbered.insert((id(left)?, id(right)?), merge);
        made.push(both);
    }
    Ok((numbered, made))
}

/// Words and the ranges of their tokens.
pub type Cache<'w> = HashMap<&'w [u8], (u32, u32)>;

/// The longest words, in bytes, that are cached.
const MOST_REPEATED: usize = 48;

/// No symbol.
const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Symbol {
    token: i32,
    previous: u32,
    next: u32,
    alive: bool,
}

/// A pair of neighbours that can be merged.
#[derive(Clone, Copy, Debug)]
struct Pair {
    token: i32,
    left: u32,
    right: u32,
}

/// Pairs, ordered by rank, then by insertion.
trait Queue {
    fn push(&mut self, rank: u32, pair: Pair);
    fn pop(&mut self) -> Option<Pair>;
}

/// From this many symbols on, pairs are in one bucket per rank: long words are mostly runs, with
/// few ranks.
const LONG_WORD: usize = 512;

/// For short words: a binary heap.
#[derive(Debug, Default)]
struct HeapQueue {
    pairs: BinaryHeap<Ranked>,
    pushed: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ranked {
    key: Reverse<(u32, u32)>,
    pair: Pair,
}

impl Queue for HeapQueue {
    fn push(&mut self, rank: u32, pair: Pair) {
        self.pairs.push(Ranked { key: Reverse((rank, self.pushed)), pair });
        self.pushed += 1;
    }

    fn pop(&mut self) -> Option<Pair> {
        self.pairs.pop().map(|ranked| ranked.pair)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.key == other.key
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// For long words: a bucket per rank.
#[derive(Default)]
struct BucketQueue(BTreeMap<u32, VecDeque<Pair>>);

impl Queue for BucketQueue {
    fn push(&mut self, rank: u32, pair: Pair) {
        self.0.entry(rank).or_default().push_back(pair);
    }

    fn pop(&mut self) -> Option<Pair> {
        let mut first = self.0.first_entry()?;
        let pair = first.get_mut().pop_front();
        if first.get().is_empty() {
            first.remove();
        }
        pair
    }
}

/// Scratch memory, reused from word to word.
#[derive(Debug, Default)]
pub struct Scratch {
    symbols: Vec<Symbol>,
    queue: HeapQueue,
}

impl Scratch {
    fn clear(&mut self) {
        self.symbols.clear();
        self.queue.pairs.clear();
        self.queue.pushed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::Packed;

    fn tokens(vocabulary: &[&str], merges: &[&str], options: Options, word: &str) -> Vec<i32> {
        let vocabulary: Packed = vocabulary.iter().collect();
        let merges: Packed = merges.iter().collect();
        let merges = Merges::Joined(merges.strings());
        let bpe = Bpe::new(vocabulary.strings(), merges, None, &options).unwrap();
        let mut out = Vec::new();
        bpe.tokenize(word.as_bytes(), &mut Scratch::default(), &mut out);
        out
    }

    #[test]
    fn merges_in_order() {
        let vocabulary = ["a", "b", "c", "ab", "bc", "abc", "aa", "?", "<0x64>"];
        let merges = ["b c", "a b", "a bc", "a a"];
        let plain = |word| tokens(&vocabulary, &merges, Options::default(), word);
        assert_eq!(plain("abc"), [5]);
        assert_eq!(plain("aab"), [0, 3]);
        assert_eq!(plain("aaaaa"), [6, 6, 0]);
        assert_eq!(plain("axb"), [3]);
        assert_eq!(plain(""), []);
        let unknown =
            Options { unknown: "?".to_owned(), byte_fallback: true, ..Options::default() };
        assert_eq!(tokens(&vocabulary, &merges, unknown, "adxyb"), [0, 8, 7, 7, 1]);
        let suffix = Options { end_suffix: "c".to_owned(), ..Options::default() };
        assert_eq!(tokens(&vocabulary, &merges, suffix, "ab"), [5]);
    }

    #[test]
    fn a_merge_of_no_token_is_an_error() {
        let vocabulary: Packed = ["a"].into_iter().collect();
        let merges: Packed = ["a b"].into_iter().collect();
        let merges = Merges::Joined(merges.strings());
        let made = Bpe::new(vocabulary.strings(), merges, None, &Options::default());
        assert_eq!(made.unwrap_err().0, "\"ab\" of a merge is no token");
    }

    /// Both queues merge as defined: always the first pair of the lowest rank.
    #[test]
    fn long_words_are_merged_as_short_ones() {
        let vocabulary = ["a", "b", "aa", "ab", "aaa", "aaaa", "ba", "aab"];
        let merges = ["a a", "aa aa", "a b", "aa a", "b a", "aa b"];
        let ids = |token: &str| vocabulary.iter().position(|t| *t == token).unwrap() as i32;
        let mut state = 7u64;
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if state >> 60 < 12 { "a" } else { "b" }
        };
        for len in [LONG_WORD - 1, LONG_WORD, 2000] {
            let word: Vec<&str> = (0..len).map(|_| letter()).collect();
            let mut parts: Vec<String> = word.iter().map(|part| (*part).to_owned()).collect();
            let rank = |pair: &[String]| {
                merges.iter().position(|merge| *merge == format!("{} {}", pair[0], pair[1]))
            };
            while let Some(lowest) = parts.windows(2).filter_map(rank).min() {
                let mut at = 0;
                while at + 1 < parts.len() {
                    if rank(&parts[at..at + 2]) == Some(lowest) {
                        let second = parts.remove(at + 1);
                        parts[at].push_str(&second);
                        // A merge of lower rank goes first.
                        if parts.windows(2).filter_map(rank).any(|other| other < lowest) {
                            break;
                        }
                    }
                    at += 1;
                }
            }
            let expected: Vec<i32> = parts.iter().map(|part| ids(part)).collect();
            let found = tokens(&vocabulary, &merges, Options::default(), &word.concat());
            assert_eq!(found, expected, "{len}");
        }
    }

    #[test]
    fn a_long_word() {
        let word = "ab".repeat(1 << 19);
        assert_eq!(tokens(&["a", "b", "ab"], &["a b"], Options::default(), &word).len(), 1 << 19);
    }
}
