//! Replacing what a pattern matches, as `pcre2_substitute` does with a buffer of the size that
//! OpenVINO Tokenizers gives it.

use super::engine::{Found, Pattern, Text};
use smallvec::smallvec;

/// A pattern and what stands in place of its matches.
#[derive(Debug)]
pub struct Substitution {
    pattern: Pattern,
    parts: Option<Vec<Part>>,
    /// Bytes of the replacement as it is written.
    written: usize,
    everywhere: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
}

/// Patterns that tokenizers of 2024 were written with, for another library, and what they mean.
const REWRITTEN: [(&str, &str); 3] = [
    (
        r" ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't)",
        r"(?| ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't))",
    ),
    (r"(^)(.)", r"(^)([\s\S])"),
    (r"(^)(.+)", r"(^)([\s\S])"),
];

impl Substitution {
    /// Replaces matches of `pattern` by `replacement`, in which `$1` or `\1` is a group: all, or
    /// the first.
    pub fn new(pattern: &str, replacement: &str, everywhere: bool) -> Substitution {
        let rewritten = REWRITTEN.iter().find(|(old, _)| *old == pattern);
        let pattern = Pattern::new(rewritten.map_or(pattern, |(_, new)| new));
        let mut replacement = replacement.to_owned();
        for group in '1'..='9' {
            replacement = replacement.replace(&format!("\\{group}"), &format!("${group}"));
        }
        let parts = parts(&replacement).filter(|parts| {
            let known = |part: &Part| !matches!(part, Part::Group(g) if *g > pattern.group_count());
            parts.iter().all(known)
        });
        Substitution { pattern, parts, written: replacement.len(), everywhere }
    }

    /// Appends a text with its replacements to `out`. A text is left as it is if it is not UTF-8,
    /// if a group of the replacement has matched nothing, or if the result is more than four
    /// times as long as the text and one replacement for each group.
    pub fn apply(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        if self.replace(bytes, out).is_none() {
            out.truncate(begin);
            out.extend_from_slice(bytes);
        }
    }

    fn replace(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let text = Text::new(bytes);
        let first = self.find(&text, 0, false)?;
        let parts = self.parts.as_ref()?;
        let highest = first.iter().rposition(Option::is_some)? + 1;
        let room = 4 * (bytes.len() + highest * self.written);
        let (start, mut copied) = (out.len(), 0);
        let mut next = Some(first);
        while let Some(found) = next {
            let (begin, end) = found.first().copied().flatten()?;
            out.extend_from_slice(&bytes[copied..begin]);
            for part in parts {
                match part {
                    Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                    Part::Group(group) => {
                        let (begin, end) = found.get(*group).copied().flatten()?;
                        out.extend_from_slice(&bytes[begin..end]);
                    }
                }
            }
            copied = end;
            next = if self.everywhere { self.next(&text, (begin, end)) } else { None };
        }
        out.extend_from_slice(&bytes[copied..]);
        (out.len() - start < room).then_some(())
    }

    /// The match behind one: where that was empty, one that is not may begin at the same place.
    fn next(&self, text: &Text<'_>, (begin, end): (usize, usize)) -> Option<Found> {
        let rest = text.get()?.get(end..)?;
        if begin < end {
            return self.find(text, end, false);
        }
        if let Some(found) = self.find(text, end, true).filter(|f| is_not_empty(f)) {
            return Some(found);
        }
        let step = rest.chars().next()?.len_utf8();
        self.find(text, end + step, false)
    }

    fn find(&self, text: &Text<'_>, from: usize, anchored: bool) -> Option<Found> {
        let needs_groups = self.pattern.group_count() > 0;
        if needs_groups || anchored {
            return self.pattern.captures(text, from, anchored);
        }
        self.pattern.find(text, from).map(|found| smallvec![Some(found)])
    }
}

fn is_not_empty(found: &[Option<(usize, usize)>]) -> bool {
    found.first().copied().flatten().is_some_and(|(begin, end)| begin < end)
}

/// A replacement in parts; `None` if it is not one.
fn parts(replacement: &str) -> Option<Vec<Part>> {
    let (mut parts, mut rest) = (Vec::new(), replacement);
    while let Some((text, behind)) = rest.split_once('$') {
        parts.push(Part::Text(text.to_owned()));
        if let Some(behind) = behind.strip_prefix('$') {
            parts.push(Part::Text("$".to_owned()));
            rest = behind;
            continue;
        }
        let (name, behind) = match behind.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let digits = behind.chars().take_while(char::is_ascii_digit).count();
                behind.split_at(digits)
            }
        };
        parts.push(Part::Group(name.parse().ok()?));
        rest = behind;
    }
    parts.push(Part::Text(rest.to_owned()));
    parts.retain(|part| *part != Part::Text(String::new()));
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substitute(pattern: &str, replacement: &str, text: &str) -> String {
        let mut out = Vec::new();
        Substitution::new(pattern, replacement, true).apply(text.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replacements() {
        for (pattern, replacement, text, expected) in [
            (r"\s", " ", "a\tb\nc", "a b c"),
            (r"^(\S)", r" \1", "ab", " ab"),
            (r"(^)([^ ])", "x$2", "ab", "xab"),
            (r"^\s*|\s*$", "", "  a b  ", "a b"),
            (r"x*", "-", "axb", "-a--b-"),
            (r"(a)|(b)", "<$1>", "ab", "ab"),
            (r"a", "$$", "aa", "$$"),
            (r" ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't)", r"\1", "a , it 's", "a, it's"),
            (r"(", "x", "(", "("),
        ] {
            assert_eq!(substitute(pattern, replacement, text), expected, "{pattern} in {text}");
        }
    }

    #[test]
    fn a_result_that_is_too_long_is_none() {
        assert_eq!(substitute(" ", "12345", &" ".repeat(3)), "12345".repeat(3));
        assert_eq!(substitute(" ", "12345", &" ".repeat(100)), " ".repeat(100));
    }
}
