//! Substitution of matches, as by `pcre2_substitute` with the buffer size that OpenVINO Tokenizers
//! uses.

use super::engine::{Found, Pattern, Text};
use smallvec::smallvec;

/// A pattern and the replacement of its matches.
#[derive(Debug)]
pub struct Substitution {
    pattern: Pattern,
    parts: Option<Vec<Part>>,
    /// The length of the replacement as written, in bytes.
    written: usize,
    everywhere: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
}

/// Patterns in tokenizers of 2024, written for another library, and their equivalents.
const REWRITTEN: [(&str, &str); 3] = [
    (
        r" ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't)",
        r"(?| ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't))",
    ),
    (r"(^)(.)", r"(^)([\s\S])"),
    (r"(^)(.+)", r"(^)([\s\S])"),
];

impl Substitution {
    /// Replaces matches of `pattern` by `replacement`, in which `$1` or `\1` is a group: all
    /// matches if `everywhere`, else the first.
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

    /// Appends the text with its replacements to `out`. Bytes that are not UTF-8 match
    /// any-character patterns. The text is unchanged if a group in the replacement did not take
    /// part, or if the result would be longer than four times the text and one replacement per
    /// group.
    pub fn apply(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        let done = match std::str::from_utf8(bytes) {
            Ok(_) => self.replace(bytes, out),
            Err(_) => self.replace_in_broken(bytes, out),
        };
        if done.is_none() {
            out.truncate(begin);
            out.extend_from_slice(bytes);
        }
    }

    /// Replaces in invalid UTF-8, with stand-in characters for the invalid bytes.
    fn replace_in_broken(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut replaced = Vec::new();
        self.replace(with_stand_ins(bytes)?.as_bytes(), &mut replaced)?;
        for c in std::str::from_utf8(&replaced).ok()?.chars() {
            match stands_for(c) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Some(())
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

    /// The next match. After an empty match, a non-empty one may begin at the same position.
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

/// The first of 256 private-use characters that stand for bytes.
const STAND_INS: u32 = 0x10_FF00;

/// The text with a stand-in character for each invalid byte; `None` if it contains stand-ins
/// itself.
fn with_stand_ins(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().chars().any(|c| stands_for(c).is_some()) {
            return None;
        }
        text.push_str(chunk.valid());
        let stand_in = |byte: &u8| char::from_u32(STAND_INS + u32::from(*byte));
        text.extend(chunk.invalid().iter().filter_map(stand_in));
    }
    Some(text)
}

/// The byte that a character stands for.
fn stands_for(c: char) -> Option<u8> {
    u8::try_from(u32::from(c).checked_sub(STAND_INS)?).ok()
}

fn is_not_empty(found: &[Option<(usize, usize)>]) -> bool {
    found.first().copied().flatten().is_some_and(|(begin, end)| begin < end)
}

/// The parts of a replacement; `None` if it is invalid.
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
    fn bytes_that_are_not_utf_8_stay() {
        for (pattern, text, expected) in [
            ("</w>", &b"\xe9a</w>b</w>\xff"[..], &b"\xe9a b \xff"[..]),
            ("^x", b"x\x80", b" \x80"),
            ("y", b"x\x80", b"x\x80"),
            ("[ax]", b"a\xf4\x8f\xbc\x80\xff", b"a\xf4\x8f\xbc\x80\xff"),
        ] {
            let mut out = Vec::new();
            Substitution::new(pattern, " ", true).apply(text, &mut out);
            assert_eq!(out, expected, "{pattern}");
        }
    }

    #[test]
    fn a_result_that_is_too_long_is_none() {
        assert_eq!(substitute(" ", "12345", &" ".repeat(3)), "12345".repeat(3));
        assert_eq!(substitute(" ", "12345", &" ".repeat(100)), " ".repeat(100));
    }
}
