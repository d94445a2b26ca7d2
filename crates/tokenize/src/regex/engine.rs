//! Pattern search: by an automaton in linear time if the pattern has no look-around, else by
//! backtracking.

use super::class::Class;
use super::pcre::{self, Item, Parsed, SPACE};
use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input, PatternID};
use smallvec::{SmallVec, smallvec};

/// The most backtracking steps before a search counts as no match; PCRE2's limit.
const BACKTRACKS: usize = 10_000_000;

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    engine: Engine,
    /// For each group of the pattern the groups of the engine that represent it.
    groups: Vec<Vec<usize>>,
}

#[derive(Debug)]
enum Engine {
    Class(Box<Class>),
    Automaton(Regex),
    Spaces(Box<Spaces>),
    Backtracking(Box<fancy_regex::Regex>),
    /// Patterns that PCRE2 rejects match nothing.
    Nothing,
}

/// Alternatives with `\s+(?!\S)` among them, as in GPT-2's tokenizer: all but the last of several
/// spaces before a word. An automaton finds the spaces, and the last is given back.
#[derive(Debug)]
struct Spaces {
    all: Regex,
    id: PatternID,
    /// The alternatives after it, one of which matches any space.
    behind: Regex,
}

/// The ranges of a match and of its groups.
pub(super) type Found = SmallVec<[Option<Span>; 2]>;

impl Pattern {
    /// Compiles a pattern.
    pub fn new(pattern: &str) -> Pattern {
        let Some(parsed) = pcre::parse(pattern) else {
            return Pattern { engine: Engine::Nothing, groups: Vec::new() };
        };
        let engine = class(&parsed).or_else(|| automaton(&parsed)).or_else(|| spaces(&parsed));
        let engine = engine.or_else(|| backtracking(&parsed)).unwrap_or(Engine::Nothing);
        Pattern { engine, groups: parsed.groups }
    }

    /// The first match that begins at or after `from`. Invalid UTF-8 has no match.
    pub fn find(&self, text: &Text<'_>, from: usize) -> Option<(usize, usize)> {
        let text = text.0?;
        match &self.engine {
            Engine::Class(class) => class.find(text, from),
            Engine::Automaton(regex) => {
                let found = regex.search(&Input::new(text).range(from..))?;
                Some((found.start(), found.end()))
            }
            Engine::Spaces(spaces) => spaces.find(text, from),
            Engine::Backtracking(regex) => {
                let found = regex.find_from_pos(text, from).ok()??;
                Some((found.start(), found.end()))
            }
            Engine::Nothing => None,
        }
    }

    /// Number of groups.
    pub(super) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The first match with its groups; group 0 is the match itself.
    pub(super) fn captures(&self, text: &Text<'_>, from: usize, anchored: bool) -> Option<Found> {
        let text = text.0?;
        let inner: Found = match &self.engine {
            Engine::Class(class) => {
                let found = class.find(text, from).filter(|(at, _)| !anchored || *at == from)?;
                // The only group, if there is one, encloses the whole pattern.
                smallvec![Some(found); 2]
            }
            Engine::Automaton(regex) => {
                let anchored = if anchored { Anchored::Yes } else { Anchored::No };
                let mut captures = regex.create_captures();
                let input = Input::new(text).range(from..).anchored(anchored);
                regex.search_captures(&input, &mut captures);
                captures.get_match()?;
                let all = 0..captures.group_len();
                all.map(|i| captures.get_group(i).map(|g| (g.start, g.end))).collect()
            }
            Engine::Spaces(spaces) => {
                let found = spaces.find(text, from).filter(|(at, _)| !anchored || *at == from)?;
                return Some(smallvec![Some(found)]);
            }
            Engine::Backtracking(regex) => {
                let captures = regex.captures_from_pos(text, from).ok()??;
                let begin = captures.get(0)?.start();
                (!anchored || begin == from).then_some(())?;
                captures.iter().map(|g| g.map(|g| (g.start(), g.end()))).collect()
            }
            Engine::Nothing => return None,
        };
        let group = |own: &Vec<usize>| own.iter().find_map(|i| inner.get(*i).copied().flatten());
        let mut found: Found = smallvec![inner.first().copied().flatten()];
        found.extend(self.groups.iter().map(group));
        Some(found)
    }

    /// The first match, and its last group that took part.
    pub fn find_with_group(&self, text: &Text<'_>, from: usize) -> Option<(Span, Option<Span>)> {
        if self.groups.is_empty() {
            return self.find(text, from).map(|found| (found, None));
        }
        let found = self.captures(text, from, false)?;
        let whole = found.first().copied().flatten()?;
        let inside = |(begin, end): &Span| whole.0 <= *begin && *end <= whole.1;
        let group = found.iter().skip(1).flatten().rfind(|group| inside(group));
        Some((whole, group.copied()))
    }
}

/// A range of bytes: begin and end.
pub(super) type Span = (usize, usize);

/// A text to search, if it is valid UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t>(Option<&'t str>);

impl<'t> Text<'t> {
    /// Bytes as text.
    pub fn new(bytes: &'t [u8]) -> Text<'t> {
        Text(std::str::from_utf8(bytes).ok())
    }

    pub(super) fn get(self) -> Option<&'t str> {
        self.0
    }
}

impl Spaces {
    fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let found = self.all.search(&Input::new(text).range(from..))?;
        let (begin, end) = (found.start(), found.end());
        if found.pattern() != self.id || end == text.len() {
            return Some((begin, end));
        }
        let last = text[begin..end].char_indices().next_back().map_or(0, |(at, _)| at);
        if last > 0 {
            return Some((begin, begin + last));
        }
        let found = self.behind.search(&Input::new(text).range(begin..).anchored(Anchored::Yes))?;
        Some((found.start(), found.end()))
    }
}

/// An engine for a character class, if the pattern is one.
fn class(parsed: &Parsed) -> Option<Engine> {
    let texts: Option<Vec<String>> = parsed.alternatives.iter().map(|a| linear(a)).collect();
    Class::new(&texts?.join("|")).map(|class| Engine::Class(Box::new(class)))
}

/// A single automaton, if no element needs look-around.
fn automaton(parsed: &Parsed) -> Option<Engine> {
    let texts: Option<Vec<String>> = parsed.alternatives.iter().map(|a| linear(a)).collect();
    Regex::new(&texts?.join("|")).ok().map(Engine::Automaton)
}

/// An alternative as a pattern for an automaton.
fn linear(items: &[Item]) -> Option<String> {
    let text = pcre::relaxed(&with_ends(items))?;
    Regex::new(&text).is_ok().then_some(text)
}

/// `$` also matches before a final newline. After all available spaces there is no such position.
fn with_ends(items: &[Item]) -> Vec<Item> {
    let mut items = items.to_vec();
    for i in 1..items.len() {
        let is_end = items[i].kind == pcre::Kind::End;
        if is_end
            && items[i - 1].text == space_class()
            && matches!(items[i - 1].quantifier.as_str(), "*" | "+")
        {
            items[i].text = "\\z".to_owned();
        }
    }
    items
}

fn space_class() -> String {
    format!("[{SPACE}]")
}

fn spaces(parsed: &Parsed) -> Option<Engine> {
    if !parsed.groups.is_empty() {
        return None;
    }
    let run = format!("{}+", space_class());
    let wanted = format!("{run}(?![[^{SPACE}]])");
    let texts: Vec<String> = parsed.alternatives.iter().map(|a| pcre::strict(a)).collect();
    let at = texts.iter().position(|text| *text == wanted)?;
    let own = Item {
        text: space_class(),
        quantifier: "+".to_owned(),
        possessive: false,
        kind: pcre::Kind::Char,
    };
    let mut alternatives = parsed.alternatives.clone();
    alternatives[at] = vec![own];
    let texts: Option<Vec<String>> = alternatives.iter().map(|a| linear(a)).collect();
    let texts = texts?;
    let behind = texts.get(at + 1..)?;
    let any_space = |text: &String| *text == run || *text == space_class();
    behind.iter().any(any_space).then_some(())?;
    Some(Engine::Spaces(Box::new(Spaces {
        all: Regex::new_many(&texts).ok()?,
        id: PatternID::new(at).ok()?,
        behind: Regex::new_many(behind).ok()?,
    })))
}

fn backtracking(parsed: &Parsed) -> Option<Engine> {
    let texts: Vec<String> =
        parsed.alternatives.iter().map(|items| pcre::strict(&with_ends(items))).collect();
    let mut builder = fancy_regex::RegexBuilder::new(&texts.join("|"));
    let regex = builder.backtrack_limit(BACKTRACKS).build().ok()?;
    Some(Engine::Backtracking(Box::new(regex)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pattern: &str, text: &str) -> Vec<String> {
        let (pattern, found) = (Pattern::new(pattern), Text::new(text.as_bytes()));
        let (mut at, mut pieces) = (0, Vec::new());
        while let Some((begin, end)) = pattern.find(&found, at).filter(|(b, e)| b < e) {
            pieces.push(text[begin..end].to_owned());
            at = end;
        }
        pieces
    }

    const GPT2: &str =
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const GPT4: &str = concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    );

    #[test]
    fn spaces_are_given_back_without_backtracking() {
        for pattern in [GPT2, GPT4] {
            let pattern = Pattern::new(pattern);
            assert!(matches!(pattern.engine, Engine::Spaces(_)), "{pattern:?}");
        }
        let expected = ["It", "'s", " 12", "  ", " x", "  "];
        assert_eq!(pieces(GPT2, "It's 12   x  "), expected);
        assert_eq!(pieces(GPT4, "1234 a\r\n\r\n b"), ["123", "4", " a", "\r\n\r\n", " b"]);
    }

    /// The pieces are the same as by the pattern itself.
    #[test]
    fn giving_back_is_what_the_pattern_says() {
        let texts =
            ["", " ", "  a", "a  ", "\t\n a\n\n", "a\u{3000}\u{3000}b", "\u{180e} x", " \u{a0}"];
        for pattern in [GPT2, GPT4] {
            let Some(Engine::Backtracking(slow)) = backtracking(&pcre::parse(pattern).unwrap())
            else {
                panic!("{pattern} does not compile")
            };
            for text in texts {
                let expected: Vec<&str> =
                    slow.find_iter(text).map(|m| m.unwrap().as_str()).collect();
                assert_eq!(pieces(pattern, text), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn syntax_of_pcre() {
        for (pattern, text, expected) in [
            (r"\<\|user\|\>", "a<|user|>", vec!["<|user|>"]),
            (r"[[:punct:]]|[!-/]", "a+b,c", vec!["+", ","]),
            (r"[]x[]+", "a[]x", vec!["[]x"]),
            (r"[&&~~a-]+", "&~-a", vec!["&~-a"]),
            (r"a{,2}b{x", "aab{x", vec!["aab{x"]),
            (r"\w+", "e\u{301}t_1 x", vec!["e\u{301}t_1", "x"]),
            (r"\bsop\b", "sop sopx", vec!["sop"]),
            (r"\s*$", "a  ", vec!["  "]),
            (r"b$", "ab\n", vec!["b"]),
            (r"(?i:ſ)", "S", vec!["S"]),
            (r"a++a|b", "aab", vec!["b"]),
            (r"\x41\x{42}\Q.*\E", "AB.*", vec!["AB.*"]),
            (r"\p{L&}+", "aBǅª", vec!["aBǅ"]),
            (r"\p{Han}", "〇x", vec!["〇"]),
            (r"(?<x>a)(?#c)\1", "aa", vec!["aa"]),
            (r"(unclosed", "(unclosed", vec![]),
        ] {
            assert_eq!(pieces(pattern, text), expected, "{pattern}");
        }
    }

    /// The matches are the same as by an automaton.
    #[test]
    fn classes_match_as_automata_do() {
        let text = "a\u{e9} B\t\n-\u{6f22}\u{5b57}\u{301}\u{3000} \u{1F600}~[x]";
        for pattern in
            [r"\s", r"\s+", r"([\p{Han}])", r"[!-/]|[\p{P}]|[~]", r"\p{Mn}", "x", "[^a]+"]
        {
            let parsed = pcre::parse(pattern).unwrap();
            let fast = Pattern::new(pattern);
            assert!(matches!(fast.engine, Engine::Class(_)), "{pattern}");
            let slow = Pattern { engine: automaton(&parsed).unwrap(), groups: parsed.groups };
            let (text, mut at) = (Text::new(text.as_bytes()), 0);
            while let Some(found) = slow.captures(&text, at, false) {
                assert_eq!(fast.captures(&text, at, false), Some(found.clone()), "{pattern}");
                assert_eq!(fast.find(&text, at), found[0], "{pattern}");
                assert_eq!(fast.captures(&text, at, true), slow.captures(&text, at, true));
                at = found[0].unwrap().1;
            }
            assert_eq!(fast.find(&text, at), None, "{pattern}");
        }
        for other in ["ab", r"\s*", r"(a)|b", "(a)b", r"\s+?", "a{2}"] {
            assert!(!matches!(Pattern::new(other).engine, Engine::Class(_)), "{other}");
        }
    }

    #[test]
    fn long_runs_take_linear_time() {
        let spaces = " ".repeat(1 << 20);
        assert_eq!(pieces(GPT2, &format!("{spaces}x")).len(), 2);
        assert_eq!(pieces(GPT4, &"x".repeat(1 << 20)).len(), 1);
        assert_eq!(pieces(r"^\s*|\s*$", &format!("{spaces}x{spaces}")).len(), 2);
    }
}
