//! Translates PCRE2 syntax to that of the regex crates. Common syntax is copied; classes, anchors,
//! possessive quantifiers and group numbers differ.

use std::iter::Peekable;
use std::str::Chars;

/// PCRE2's `\s`: Unicode's White_Space and U+180E.
pub(super) const SPACE: &str = r"\s\x{180E}";
const WORD: &str = r"\p{L}\p{N}\p{Mn}\p{Pc}";
const HORIZONTAL: &str = r"\t \x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
const VERTICAL: &str = r"\n\x0B\f\r\x{85}\x{2028}\x{2029}";

/// A parsed pattern.
pub(super) struct Parsed {
    pub(super) alternatives: Vec<Vec<Item>>,
    /// For each group of the pattern, from 1 on, the translated groups that represent it.
    pub(super) groups: Vec<Vec<usize>>,
}

/// An element with its quantifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) text: String,
    pub(super) quantifier: String,
    pub(super) possessive: bool,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Matches one character.
    Char,
    /// Matches the empty string at the very end.
    End,
    Other,
}

impl Item {
    fn plain(&self) -> String {
        format!("{}{}", self.text, self.quantifier)
    }

    pub(super) fn strict(&self) -> String {
        if self.possessive { format!("(?>{})", self.plain()) } else { self.plain() }
    }

    pub(super) fn is_optional(&self) -> bool {
        self.quantifier.starts_with(['*', '?']) || self.quantifier.starts_with("{0")
    }
}

/// The text of an alternative, with possessive quantifiers as atomic groups.
pub(super) fn strict(items: &[Item]) -> String {
    items.iter().map(Item::strict).collect()
}

/// The text of an alternative without possessive quantifiers, if they make no difference.
pub(super) fn relaxed(items: &[Item]) -> Option<String> {
    let free = |i: usize| !items[i].possessive || gives_nothing_back(&items[i], &items[i + 1..]);
    (0..items.len()).all(free).then(|| items.iter().map(Item::plain).collect())
}

/// Whether what follows can never begin inside of what an item has matched.
fn gives_nothing_back(item: &Item, rest: &[Item]) -> bool {
    if item.kind != Kind::Char {
        return false;
    }
    for next in rest {
        match next.kind {
            Kind::End => return true,
            Kind::Char if are_disjoint(&item.text, &next.text) => {}
            _ => return false,
        }
        if !next.is_optional() {
            return true;
        }
    }
    true
}

fn are_disjoint(a: &str, b: &str) -> bool {
    let class = |text| match regex_syntax::parse(text).ok()?.into_kind() {
        regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => Some(class),
        regex_syntax::hir::HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            let c = text.chars().next()?;
            let range = regex_syntax::hir::ClassUnicodeRange::new(c, c);
            Some(regex_syntax::hir::ClassUnicode::new([range]))
        }
        _ => None,
    };
    let (Some(mut a), Some(b)) = (class(a), class(b)) else { return false };
    a.intersect(&b);
    a.ranges().is_empty()
}

/// Parses a pattern; `None` if it is invalid.
pub(super) fn parse(pattern: &str) -> Option<Parsed> {
    let mut parser = Parser { chars: pattern.chars().peekable(), groups: Vec::new(), count: 0 };
    let alternatives = parser.alternatives()?;
    let complete = parser.chars.next().is_none();
    complete.then_some(Parsed { alternatives, groups: parser.groups })
}

struct Parser<'p> {
    chars: Peekable<Chars<'p>>,
    groups: Vec<Vec<usize>>,
    /// Groups written so far.
    count: usize,
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Option<Vec<Vec<Item>>> {
        let mut alternatives = vec![Vec::new()];
        while let Some(&c) = self.chars.peek() {
            match c {
                ')' => break,
                '|' => {
                    self.chars.next();
                    alternatives.push(Vec::new());
                }
                _ => {
                    let mut item = self.atom()?;
                    self.quantify(&mut item);
                    alternatives.last_mut()?.push(item);
                }
            }
        }
        Some(alternatives)
    }

    fn atom(&mut self) -> Option<Item> {
        let c = self.chars.next()?;
        let (text, kind) = match c {
            '(' => (self.group()?, Kind::Other),
            '[' => (self.class()?, Kind::Char),
            '\\' => self.escape()?,
            '.' => ("[^\\n]".to_owned(), Kind::Char),
            '^' => ("^".to_owned(), Kind::Other),
            '$' => ("(?=\\n?\\z)".to_owned(), Kind::End),
            _ => (literal(c), Kind::Char),
        };
        Some(Item { text, quantifier: String::new(), possessive: false, kind })
    }

    /// Parses a quantifier after an element: `*`, `+`, `?`, `{n,m}`, each greedy, lazy or
    /// possessive.
    fn quantify(&mut self, item: &mut Item) {
        let Some(quantifier) = self.quantifier() else { return };
        item.quantifier = quantifier;
        match self.chars.peek() {
            Some('?') => {
                self.chars.next();
                item.quantifier.push('?');
            }
            Some('+') => {
                self.chars.next();
                item.possessive = true;
            }
            _ => {}
        }
    }

    fn quantifier(&mut self) -> Option<String> {
        match self.chars.peek()? {
            c @ ('*' | '+' | '?') => {
                let text = c.to_string();
                self.chars.next();
                Some(text)
            }
            '{' => {
                let text: String = self.chars.clone().take_while(|c| *c != '}').collect();
                let body = text.get(1..)?;
                let number = |t: &str| !t.is_empty() && t.chars().all(|c| c.is_ascii_digit());
                let (low, high) = body.split_once(',').unwrap_or((body, "0"));
                let good = (number(low) || low.is_empty() && number(high) && body.contains(','))
                    && (number(high) || high.is_empty());
                let closed = self.chars.clone().any(|c| c == '}');
                if !good || !closed {
                    return None;
                }
                self.chars.nth(text.chars().count());
                Some(if low.is_empty() { format!("{{0{body}}}") } else { format!("{{{body}}}") })
            }
            _ => None,
        }
    }

    /// Parses a group, after its `(`.
    fn group(&mut self) -> Option<String> {
        if self.chars.peek() != Some(&'?') {
            self.open_group();
            return self.rest("(");
        }
        self.chars.next();
        match self.chars.next()? {
            '#' => {
                self.chars.by_ref().find(|c| *c == ')')?;
                Some(String::new())
            }
            '|' => self.branches(),
            'P' | '<' if self.names_group() => {
                self.chars.by_ref().find(|c| *c == '>')?;
                self.open_group();
                self.rest("(")
            }
            '\'' => {
                self.chars.by_ref().find(|c| *c == '\'')?;
                self.open_group();
                self.rest("(")
            }
            '<' => {
                let c = self.chars.next()?;
                self.rest(&format!("(?<{c}"))
            }
            c @ (':' | '=' | '!' | '>') => self.rest(&format!("(?{c}")),
            c => self.flags(c),
        }
    }

    /// Whether a name follows `(?P` or `(?<`.
    fn names_group(&mut self) -> bool {
        self.chars.peek().is_some_and(|c| !matches!(c, '=' | '!'))
    }

    fn open_group(&mut self) {
        self.count += 1;
        self.groups.push(vec![self.count]);
    }

    fn flags(&mut self, first: char) -> Option<String> {
        let mut flags = first.to_string();
        loop {
            match self.chars.next()? {
                ')' => return Some(format!("(?{flags})")),
                ':' => return self.rest(&format!("(?{flags}:")),
                c => flags.push(c),
            }
        }
    }

    /// Parses the inside of an open group, and its end.
    fn rest(&mut self, open: &str) -> Option<String> {
        let alternatives = self.alternatives()?;
        (self.chars.next()? == ')').then(|| format!("{open}{})", join(&alternatives)))
    }

    /// Parses `(?|…)`: the groups of all alternatives share their numbers.
    fn branches(&mut self) -> Option<String> {
        let first = self.groups.len();
        let mut merged: Vec<Vec<usize>> = Vec::new();
        let mut texts = Vec::new();
        loop {
            let mut alternative = Vec::new();
            while !matches!(self.chars.peek()?, '|' | ')') {
                let mut item = self.atom()?;
                self.quantify(&mut item);
                alternative.push(item);
            }
            texts.push(strict(&alternative));
            for (i, group) in self.groups.split_off(first).into_iter().enumerate() {
                match merged.get_mut(i) {
                    Some(same) => same.extend(group),
                    None => merged.push(group),
                }
            }
            if self.chars.next()? == ')' {
                break;
            }
        }
        self.groups.extend(merged);
        Some(format!("(?:{})", texts.join("|")))
    }

    /// Parses an escape outside of a class, after its backslash.
    fn escape(&mut self) -> Option<(String, Kind)> {
        let c = self.chars.next()?;
        let other = |text: &str| Some((text.to_owned(), Kind::Other));
        match c {
            'b' => other(&format!("(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))")),
            'B' => other(&format!("(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))")),
            'A' => other("\\A"),
            'z' => Some(("\\z".to_owned(), Kind::End)),
            'Z' => Some(("(?=\\n?\\z)".to_owned(), Kind::End)),
            'G' => other("\\G"),
            'K' => other("\\K"),
            'R' => other("(?>\\r\\n|[\\n\\x0B\\f\\r\\x{85}\\x{2028}\\x{2029}])"),
            'N' => Some(("[^\\n]".to_owned(), Kind::Char)),
            'Q' => {
                let mut text = String::new();
                while let Some(c) = self.chars.next() {
                    if c == '\\' && self.chars.peek() == Some(&'E') {
                        self.chars.next();
                        break;
                    }
                    text.push_str(&literal(c));
                }
                Some((format!("(?:{text})"), Kind::Other))
            }
            '1'..='9' => {
                let groups = self.groups.get(c as usize - '1' as usize)?;
                other(&format!("\\{}", groups.first()?))
            }
            _ => {
                let set = self.set(c)?;
                Some((format!("[{set}]"), Kind::Char))
            }
        }
    }

    /// Parses a class, after its `[`.
    fn class(&mut self) -> Option<String> {
        let mut text = "[".to_owned();
        if self.chars.peek() == Some(&'^') {
            self.chars.next();
            text.push('^');
        }
        let (mut first, mut after_set) = (true, false);
        loop {
            let c = self.chars.next()?;
            let was_set = std::mem::take(&mut after_set);
            match c {
                ']' if !first => break,
                '[' if self.chars.peek() == Some(&':') => text.push_str(&self.posix()?),
                '\\' => {
                    let c = self.chars.next()?;
                    let set = if c == 'b' { "\\x08".to_owned() } else { self.set(c)? };
                    after_set = "sSwWdDhHvVpP".contains(c);
                    text.push_str(&set);
                }
                '-' if first || was_set || self.chars.peek() == Some(&']') => text.push_str("\\-"),
                '-' => text.push('-'),
                _ => text.push_str(&literal(c)),
            }
            first = false;
        }
        text.push(']');
        Some(text)
    }

    /// Parses `[:name:]` inside of a class, after its `[`.
    fn posix(&mut self) -> Option<String> {
        self.chars.next();
        let name: String = self.chars.by_ref().take_while(|c| *c != ':').collect();
        (self.chars.next()? == ']').then_some(())?;
        let (negated, name) = match name.strip_prefix('^') {
            Some(name) => ("^", name),
            None => ("", name.as_str()),
        };
        let set = match name {
            "alpha" => "\\p{L}",
            "alnum" => "\\p{L}\\p{N}",
            "digit" => "\\p{Nd}",
            "space" => SPACE,
            "upper" => "\\p{Lu}",
            "lower" => "\\p{Ll}",
            "word" => WORD,
            "punct" => "\\p{P}$+<=>^`|~",
            "blank" => HORIZONTAL,
            "cntrl" => "\\p{Cc}",
            "xdigit" => "0-9A-Fa-f",
            "ascii" => "\\x00-\\x7F",
            _ => return None,
        };
        Some(format!("[{negated}{}]", set.replace("$+<=>^`|~", "\\$+<=>\\^`|\\~")))
    }

    /// The meaning of an escape inside of a class.
    fn set(&mut self, c: char) -> Option<String> {
        Some(match c {
            's' => SPACE.to_owned(),
            'S' => format!("[^{SPACE}]"),
            'w' => WORD.to_owned(),
            'W' => format!("[^{WORD}]"),
            'd' => "\\p{Nd}".to_owned(),
            'D' => "\\P{Nd}".to_owned(),
            'h' => HORIZONTAL.to_owned(),
            'H' => format!("[^{HORIZONTAL}]"),
            'v' => VERTICAL.to_owned(),
            'V' => format!("[^{VERTICAL}]"),
            'n' | 'r' | 't' | 'f' => format!("\\{c}"),
            'a' => "\\x07".to_owned(),
            'e' => "\\x1B".to_owned(),
            'x' => self.hexadecimal()?,
            'u' => return None,
            '0' => {
                let digits: String = (0..2).map_while(|_| self.digit(8)).collect();
                let value = u32::from_str_radix(&digits, 8).unwrap_or(0);
                format!("\\x{{{value:X}}}")
            }
            'p' | 'P' => self.property(c == 'P')?,
            c if c.is_ascii_alphanumeric() => return None,
            c => literal(c),
        })
    }

    fn digit(&mut self, radix: u32) -> Option<char> {
        self.chars.next_if(|c| c.is_digit(radix))
    }

    fn hexadecimal(&mut self) -> Option<String> {
        let digits: String = match self.chars.next_if_eq(&'{') {
            Some(_) => self.chars.by_ref().take_while(|c| *c != '}').collect(),
            None => (0..2).map_while(|_| self.digit(16)).collect(),
        };
        let value = if digits.is_empty() { 0 } else { u32::from_str_radix(&digits, 16).ok()? };
        Some(format!("\\x{{{value:X}}}"))
    }

    fn property(&mut self, negated: bool) -> Option<String> {
        let name: String = match self.chars.next_if_eq(&'{') {
            Some(_) => self.chars.by_ref().take_while(|c| *c != '}').collect(),
            None => self.chars.next()?.to_string(),
        };
        let (negated, name) = match name.strip_prefix('^') {
            Some(name) => (!negated, name.trim()),
            None => (negated, name.trim()),
        };
        let sign = if negated { 'P' } else { 'p' };
        let set = match name {
            "L&" | "LC" => {
                format!("[{}\\p{{Lu}}\\p{{Ll}}\\p{{Lt}}]", if negated { "^" } else { "" })
            }
            "Xan" => format!("[{}\\p{{L}}\\p{{N}}]", if negated { "^" } else { "" }),
            "Xsp" | "Xps" => format!("[{}{SPACE}]", if negated { "^" } else { "" }),
            "Xwd" => format!("[{}{WORD}]", if negated { "^" } else { "" }),
            _ => {
                // A script also includes the characters that are used in it (script extensions).
                let script = format!("\\{sign}{{scx={name}}}");
                let known = name.len() > 2 && regex_syntax::parse(&script).is_ok();
                if known { script } else { format!("\\{sign}{{{name}}}") }
            }
        };
        Some(set)
    }
}

/// Alternatives inside a group.
fn join(alternatives: &[Vec<Item>]) -> String {
    let texts: Vec<String> = alternatives.iter().map(|items| strict(items)).collect();
    texts.join("|")
}

/// A character that stands for itself, inside and outside of classes.
fn literal(c: char) -> String {
    match c {
        '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$'
        | '#' | '&' | '-' | '~' => format!("\\{c}"),
        c => c.to_string(),
    }
}
