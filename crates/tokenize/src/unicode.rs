//! Unicode normalization forms as SentencePiece rules: for single characters, and for the full
//! decompositions of single characters. Longer sequences are not normalized, as in SentencePiece's
//! own maps.

use crate::trie::Trie;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_canonical, decompose_compatible};

/// A Unicode normalization form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// None.
    Identity,
    /// Composed.
    Nfc,
    /// Decomposed.
    Nfd,
    /// Composed after compatibility decomposition.
    Nfkc,
    /// Decomposed, compatibility characters too.
    Nfkd,
}

/// The rules of a form.
#[derive(Debug)]
pub(crate) struct UnicodeMap {
    rules: Trie,
    texts: Vec<Box<str>>,
    hangul: Hangul,
}

/// The treatment of Hangul, for which rules would be too many.
#[derive(Debug)]
enum Hangul {
    Kept,
    /// Syllables are decomposed.
    Decomposed,
    /// Jamo are composed, by the jamo of each character.
    Composed {
        syllables: Vec<Box<str>>,
        compatible: bool,
    },
}

type Rules = BTreeMap<Vec<char>, Vec<char>>;

/// The ranges of characters with a different form, except Hangul syllables.
const RANGES: [std::ops::Range<u32>; 4] =
    [1..0x3400, 0xA000..0xAC00, 0xF900..0x20000, 0x2F800..0x2FA20];

const SYLLABLES: u32 = 0xAC00;

impl UnicodeMap {
    /// The rules of a form, built once.
    pub(crate) fn get(form: Form, fold: bool) -> Arc<UnicodeMap> {
        type Made = Vec<((Form, bool), Arc<UnicodeMap>)>;
        static MADE: Mutex<Made> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, map)) = made.iter().find(|(key, _)| *key == (form, fold)) {
            return Arc::clone(map);
        }
        let map = Arc::new(UnicodeMap::new(form, fold));
        made.push(((form, fold), Arc::clone(&map)));
        map
    }

    fn new(form: Form, fold: bool) -> UnicodeMap {
        let mut rules = rules(form);
        if fold {
            fold_values(&mut rules);
        }
        let rules = without_redundant(rules);
        let keys: Vec<String> = rules.keys().map(|key| key.iter().collect()).collect();
        let texts = rules.values().map(|text| text.iter().collect::<String>().into()).collect();
        UnicodeMap {
            rules: Trie::new(keys.iter().zip(0..).map(|(key, i)| (key.as_bytes(), i))),
            texts,
            hangul: Hangul::of(form),
        }
    }

    /// Whether any rule has this prefix. Hangul has no rules.
    pub(crate) fn has_prefix(&self, prefix: &[u8]) -> bool {
        self.rules.has_prefix(prefix)
    }

    /// The longest rule at the start of `text`: its replacement, and the length it replaces.
    pub(crate) fn longest<'t>(&'t self, text: &'t [u8]) -> Option<(&'t [u8], usize)> {
        if let Some((len, value)) = self.rules.longest(text) {
            let hangul = || self.hangul.longest(text);
            return hangul().or_else(|| Some((self.texts[value as usize].as_bytes(), len)));
        }
        self.hangul.longest(text)
    }
}

impl Hangul {
    fn of(form: Form) -> Hangul {
        match form {
            Form::Identity => Hangul::Kept,
            Form::Nfd | Form::Nfkd => Hangul::Decomposed,
            Form::Nfc | Form::Nfkc => {
                let syllable = |i: u32| char::from_u32(SYLLABLES + i).map(|c| c.to_string().into());
                let syllables = (0..19 * 21 * 28).filter_map(syllable).collect();
                Hangul::Composed { syllables, compatible: form == Form::Nfkc }
            }
        }
    }

    fn longest(&self, text: &[u8]) -> Option<(&[u8], usize)> {
        if text.first().is_none_or(|byte| *byte < 0xE1) {
            return None;
        }
        match self {
            Hangul::Kept => None,
            Hangul::Decomposed => decomposed(text),
            Hangul::Composed { syllables, compatible } => {
                let part = |at: usize| part(text.get(at..)?, *compatible);
                let (lead, first) = part(0)?;
                let lead = lead.checked_sub(0x1100).filter(|l| *l < 19)?;
                let (vowel, second) = part(first)?;
                let vowel = vowel.checked_sub(0x1161).filter(|v| *v < 21)?;
                let trail = part(first + second)
                    .and_then(|(t, len)| Some((t.checked_sub(0x11A7)?, len)))
                    .filter(|(t, _)| (1..28).contains(t));
                let (trail, third) = trail.unwrap_or((0, 0));
                let syllable = syllables.get(((lead * 21 + vowel) * 28 + trail) as usize)?;
                Some((syllable.as_bytes(), first + second + third))
            }
        }
    }
}

/// The first character of a text as a jamo, and its length.
fn part(text: &[u8], compatible: bool) -> Option<(u32, usize)> {
    let own = crate::bytes::first_char(text)?;
    let c = std::str::from_utf8(own).ok()?.chars().next()?;
    if compatible {
        match decomposition(c, true).as_slice() {
            [one] => Some(((*one).into(), own.len())),
            _ => None,
        }
    } else {
        Some((c.into(), own.len()))
    }
}

fn decomposed(text: &[u8]) -> Option<(&'static [u8], usize)> {
    static PARTS: std::sync::LazyLock<Vec<Box<str>>> = std::sync::LazyLock::new(|| {
        let text = |c| decomposition(c, false).into_iter().collect::<String>().into();
        (SYLLABLES..SYLLABLES + 11_172).filter_map(char::from_u32).map(text).collect()
    });
    let (code, len) = part(text, false)?;
    let parts = PARTS.get(code.checked_sub(SYLLABLES)? as usize)?;
    Some((parts.as_bytes(), len))
}

fn decomposition(c: char, compatible: bool) -> Vec<char> {
    let mut parts = Vec::new();
    if compatible {
        decompose_compatible(c, |part| parts.push(part))
    } else {
        decompose_canonical(c, |part| parts.push(part))
    }
    parts
}

/// The rules of a form, without Hangul.
fn rules(form: Form) -> Rules {
    let mut rules = Rules::new();
    if form == Form::Identity {
        return rules;
    }
    let compatible = matches!(form, Form::Nfkc | Form::Nfkd);
    let composes = matches!(form, Form::Nfc | Form::Nfkc);
    let mut same: BTreeMap<char, Vec<char>> = BTreeMap::new();
    let mut sequences = Vec::new();
    for c in RANGES.into_iter().flatten().filter_map(char::from_u32) {
        let parts = decomposition(c, compatible);
        let text: Vec<char> =
            if composes { parts.iter().copied().nfc().collect() } else { parts.clone() };
        if text != [c] {
            rules.insert(vec![c], text);
        }
        match parts.as_slice() {
            [one] => same.entry(*one).or_default().push(c),
            _ => sequences.push(parts),
        }
    }
    if composes {
        add_sequences(&mut rules, &same, sequences);
    }
    rules
}

/// Adds rules for the decompositions of single characters, in all equivalent spellings.
fn add_sequences(rules: &mut Rules, same: &BTreeMap<char, Vec<char>>, sequences: Vec<Vec<char>>) {
    for parts in sequences {
        let text: Vec<char> = parts.iter().copied().nfc().collect();
        if text == parts {
            continue;
        }
        let mut ways = vec![Vec::new()];
        for part in &parts {
            let own = [*part];
            let written = same.get(part).map_or(&own[..], Vec::as_slice);
            let longer = |way: &Vec<char>| {
                let way = way.clone();
                written.iter().map(move |c| [&way[..], &[*c]].concat())
            };
            ways = ways.iter().flat_map(longer).collect();
        }
        for way in ways.into_iter().filter(|way| *way != text) {
            rules.insert(way, text.clone());
        }
    }
}

/// A case-folded character.
fn folded(c: char) -> char {
    let code = unicode_case_mapping::case_folded(c);
    code.and_then(|code| char::from_u32(code.get())).unwrap_or(c)
}

fn fold_values(rules: &mut Rules) {
    rules.values_mut().flatten().for_each(|c| *c = folded(*c));
    for c in RANGES.into_iter().flatten().filter_map(char::from_u32) {
        if folded(c) != c {
            rules.entry(vec![c]).or_insert_with(|| vec![folded(c)]);
        }
    }
}

/// The rules, without those that shorter rules make redundant.
fn without_redundant(rules: Rules) -> Rules {
    let longest = rules.keys().map(Vec::len).max().unwrap_or(0);
    let (mut kept, longer): (Rules, Rules) = rules.into_iter().partition(|(key, _)| key.len() == 1);
    for len in 2..=longest {
        let of_len = longer.iter().filter(|(key, _)| key.len() == len);
        let needed: Vec<_> =
            of_len.filter(|(key, text)| rewritten(&kept, key, len - 1) != **text).collect();
        kept.extend(needed.into_iter().map(|(key, text)| (key.clone(), text.clone())));
    }
    kept
}

fn rewritten(rules: &Rules, text: &[char], most: usize) -> Vec<char> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let most = most.min(text.len() - at);
        let rule = (1..=most).rev().find_map(|len| Some((len, rules.get(&text[at..at + len])?)));
        match rule {
            Some((len, text)) => {
                out.extend_from_slice(text);
                at += len;
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}
