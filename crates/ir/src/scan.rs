//! The events of an XML text: what IR files and their like consist of, each where it lies.
//!
//! Of [XML 1.0](https://www.w3.org/TR/xml/) it knows elements, attributes, text, CDATA sections,
//! and the references to characters and to the five predefined entities. Comments, processing
//! instructions and a document type are passed over; entities that a document type declares do not
//! exist, so no file can make the text grow.

use std::borrow::Cow;
use std::collections::HashSet;

/// What comes next.
pub(crate) enum Event<'a> {
    /// An opening tag; [`Event::End`] follows also where the element is empty.
    Start(Start<'a>),
    /// The end of the element that was opened last.
    End,
    /// Text, with the references still in it.
    Text(&'a str),
    /// Text that holds no references.
    CData(&'a str),
    /// The end of the text.
    Eof,
}

/// An opening tag.
pub(crate) struct Start<'a> {
    pub(crate) name: &'a str,
    /// Keys, and values with the references still in them.
    pub(crate) attributes: Attributes<'a>,
}

/// Keys and values, in order.
type Attributes<'a> = Vec<(&'a str, &'a str)>;

/// Why there is no next event: the offset in bytes, and what is wrong there.
pub(crate) type Flaw = (usize, String);

/// Goes through a text, event by event.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    /// Bytes that have been read.
    at: usize,
    /// Where the last event began.
    began: usize,
    /// The elements that are open.
    open: Vec<&'a str>,
    /// Whether the last tag was that of an empty element, `<a/>`.
    is_empty: bool,
    /// Memory for attributes, of tags that nobody needs any more.
    spare: Vec<Attributes<'a>>,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0, began: 0, open: Vec::new(), is_empty: false, spare: Vec::new() }
    }

    /// The byte that the last event began with.
    pub(crate) fn began(&self) -> usize {
        self.began
    }

    /// Takes the memory of a tag for those to come.
    pub(crate) fn reuse(&mut self, mut tag: Start<'a>) {
        tag.attributes.clear();
        self.spare.push(tag.attributes);
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Result<Event<'a>, Flaw> {
        if std::mem::take(&mut self.is_empty) {
            self.open.pop();
            return Ok(Event::End);
        }
        loop {
            self.began = self.at;
            let rest = self.rest();
            let bytes = rest.as_bytes();
            match bytes.first() {
                None => return Ok(Event::Eof),
                Some(b'<') => {}
                Some(_) => return Ok(Event::Text(self.take(until(bytes, 0, |b| b == b'<')))),
            }
            match bytes.get(1) {
                Some(b'/') => return self.end(),
                Some(b'?') => self.pass("<?", "?>")?,
                Some(b'!') if rest.starts_with("<!--") => self.pass("<!--", "-->")?,
                Some(b'!') if rest.starts_with("<![CDATA[") => {
                    let start = self.at + "<![CDATA[".len();
                    self.pass("<![CDATA[", "]]>")?;
                    let text = self.text.get(start..self.at - "]]>".len());
                    return Ok(Event::CData(text.unwrap_or_default()));
                }
                Some(b'!') => self.document_type()?,
                _ => return self.start(),
            }
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Reads so many bytes.
    fn take(&mut self, len: usize) -> &'a str {
        let taken = self.text.get(self.at..self.at + len).unwrap_or_default();
        self.at += len;
        taken
    }

    /// Passes over what begins and ends so.
    fn pass(&mut self, start: &str, end: &str) -> Result<(), Flaw> {
        let inside = self.rest().get(start.len()..).unwrap_or_default();
        let len = inside.find(end).ok_or_else(|| {
            (self.at, format!("`{start}` is not followed by `{end}`; the file has been cut short"))
        })?;
        self.at += start.len() + len + end.len();
        Ok(())
    }

    /// Passes over `<!DOCTYPE …>` with the declarations in it.
    fn document_type(&mut self) -> Result<(), Flaw> {
        let mut depth = 0usize;
        for (i, byte) in self.rest().bytes().enumerate() {
            match byte {
                b'<' => depth += 1,
                b'>' if depth == 1 => {
                    self.at += i + 1;
                    return Ok(());
                }
                b'>' => depth -= 1,
                _ => {}
            }
        }
        Err((self.at, "`<!` is not closed by `>`; the file has been cut short".into()))
    }

    fn end(&mut self) -> Result<Event<'a>, Flaw> {
        let tag = self.rest();
        let len = until(tag.as_bytes(), 2, |b| b == b'>');
        if len == tag.len() {
            return Err(self.cut_short());
        }
        let name = tag.get(2..len).unwrap_or_default().trim_ascii_end();
        match self.open.pop() {
            Some(open) if open == name => {
                self.at += len + 1;
                Ok(Event::End)
            }
            Some(open) => {
                Err((self.at, format!("expected `</{open}>`, but `</{name}>` was found")))
            }
            None => Err((self.at, format!("`</{name}>` closes nothing that is open"))),
        }
    }

    fn start(&mut self) -> Result<Event<'a>, Flaw> {
        let tag = self.rest();
        let bytes = tag.as_bytes();
        let mut i = until(bytes, 1, |b| is_space(b) || b == b'/' || b == b'>');
        let name = tag.get(1..i).unwrap_or_default();
        if name.is_empty() {
            return Err((self.at, "a tag has no name".into()));
        }
        let mut attributes = self.spare.pop().unwrap_or_default();
        let mut many = HashSet::new();
        loop {
            i = until(bytes, i, |b| !is_space(b));
            match bytes.get(i) {
                None => return Err(self.cut_short()),
                Some(b'>') => break,
                Some(b'/') => match bytes.get(i + 1) {
                    None => return Err(self.cut_short()),
                    Some(b'>') => {
                        self.is_empty = true;
                        i += 1;
                        break;
                    }
                    Some(_) => {
                        return Err((
                            self.at + i,
                            format!("in <{name}>, `/` is not followed by `>`"),
                        ));
                    }
                },
                Some(_) => {
                    let (attribute, end) = self.attribute(name, tag, i)?;
                    if is_there(&attributes, &mut many, attribute.0) {
                        let message = format!("<{name}> has two attributes {}", attribute.0);
                        return Err((self.at + i, message));
                    }
                    attributes.push(attribute);
                    i = end;
                }
            }
        }
        self.open.push(name);
        self.at += i + 1;
        Ok(Event::Start(Start { name, attributes }))
    }

    /// The attribute at byte `start` of a tag, and where it ends.
    fn attribute(
        &self,
        name: &str,
        tag: &'a str,
        start: usize,
    ) -> Result<((&'a str, &'a str), usize), Flaw> {
        let bytes = tag.as_bytes();
        let end = until(bytes, start, |b| b == b'=' || is_space(b) || b == b'>' || b == b'/');
        let key = tag.get(start..end).unwrap_or_default();
        let equals = until(bytes, end, |b| !is_space(b));
        let quote = until(bytes, equals + 1, |b| !is_space(b));
        let flaw =
            |what: &str| Err((self.at + start, format!("in <{name}>, attribute {key} {what}")));
        match (bytes.get(equals), bytes.get(quote)) {
            (None, _) | (Some(b'='), None) => Err(self.cut_short()),
            (Some(b'='), Some(mark @ (b'"' | b'\''))) => {
                let close = until(bytes, quote + 1, |b| b == *mark);
                if close == bytes.len() {
                    return Err(self.cut_short());
                }
                Ok(((key, tag.get(quote + 1..close).unwrap_or_default()), close + 1))
            }
            (Some(b'='), _) => flaw("has a value without `\"` or `'` around it"),
            _ => flaw("has no value"),
        }
    }

    fn cut_short(&self) -> Flaw {
        (self.at, "a tag is not closed by `>`; the file has been cut short".into())
    }
}

/// Whether there is an attribute of this key. Of many, the keys are kept in a set, so that no tag takes
/// long to read.
fn is_there<'a>(
    attributes: &[(&'a str, &'a str)],
    many: &mut HashSet<&'a str>,
    key: &'a str,
) -> bool {
    const FEW: usize = 16;
    if attributes.len() < FEW {
        return attributes.iter().any(|(other, _)| *other == key);
    }
    if many.is_empty() {
        many.extend(attributes.iter().map(|(key, _)| *key));
    }
    !many.insert(key)
}

/// The first place from `start` on where a byte is such, or the end.
#[inline]
fn until(bytes: &[u8], start: usize, is_such: impl Fn(u8) -> bool) -> usize {
    let found = bytes.iter().skip(start).position(|b| is_such(*b));
    found.map_or(bytes.len(), |i| start + i)
}

#[inline]
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// An attribute's value with its references resolved and blanks made spaces.
pub(crate) fn value(raw: &str) -> Result<Cow<'_, str>, String> {
    resolve(raw, |byte| matches!(byte, b'\t' | b'\n' | b'\r').then_some(' '))
}

/// Text with its references resolved and its lines ended by `\n`.
pub(crate) fn text(raw: &str) -> Result<Cow<'_, str>, String> {
    resolve(raw, |byte| (byte == b'\r').then_some('\n'))
}

/// The text of a CDATA section with its lines ended by `\n`.
pub(crate) fn cdata(raw: &str) -> Cow<'_, str> {
    match raw.contains('\r') {
        true => Cow::Owned(raw.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(raw),
    }
}

/// Bytes of the name of a reference, at most: what lies between an `&` and a far `;` is no name.
const LONGEST_REFERENCE: usize = 32;

/// Resolves references and replaces some characters; `\r\n` counts as one.
fn resolve(raw: &str, replace: impl Fn(u8) -> Option<char>) -> Result<Cow<'_, str>, String> {
    if !raw.bytes().any(|b| b == b'&' || replace(b).is_some()) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        let mut len = c.len_utf8();
        let other = u8::try_from(c).ok().and_then(&replace);
        if c == '&' {
            let name = rest.get(1..).and_then(|name| Some(name.split_once(';')?.0));
            let Some(name) = name.filter(|name| name.len() <= LONGEST_REFERENCE) else {
                return Err("`&` is not followed by `;`".into());
            };
            out.push(reference(name).ok_or_else(|| format!("unknown entity &{name};"))?);
            len += name.len() + 1;
        } else {
            if rest.starts_with("\r\n") {
                len += 1;
            }
            out.push(other.unwrap_or(c));
        }
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(Cow::Owned(out))
}

/// The character that `&name;` stands for.
fn reference(name: &str) -> Option<char> {
    let number = match name.strip_prefix('#') {
        None => {
            let names = [("lt", '<'), ("gt", '>'), ("amp", '&'), ("quot", '"'), ("apos", '\'')];
            return names.iter().find(|(n, _)| *n == name).map(|(_, c)| *c);
        }
        Some(number) => number,
    };
    let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |digits| (digits, 16));
    let is_number = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, radix).ok().filter(|code| is_number && *code > 0)?;
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events, one a line.
    fn events(text: &str) -> Result<Vec<String>, Flaw> {
        let mut scanner = Scanner::new(text);
        let mut out = Vec::new();
        loop {
            out.push(match scanner.next()? {
                Event::Start(start) => {
                    let values = start.attributes.iter().map(|(k, v)| format!(" {k}={v}"));
                    format!("<{}{}", start.name, values.collect::<String>())
                }
                Event::End => ">".to_owned(),
                Event::Text(text) => format!("t {text}"),
                Event::CData(text) => format!("c {text}"),
                Event::Eof => return Ok(out),
            });
        }
    }

    #[test]
    fn forms_of_xml() {
        let text = "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b \"c\">]><!-- <x> --><a b = \"1>2\"\n\tc='\"'>t&lt;\
                    <![CDATA[<&]]><d/><é ü=\"ß\"/></a >\n";
        let expected = ["<a b=1>2 c=\"", "t t&lt;", "c <&", "<d", ">", "<é ü=ß", ">", ">", "t \n"];
        assert_eq!(events(text).unwrap(), expected);
        assert_eq!(events("").unwrap(), [""; 0]);
    }

    #[test]
    fn flaws_are_named_where_they_are() {
        for (text, at, what) in [
            ("<a><b></a>", 6, "expected `</b>`, but `</a>` was found"),
            ("</a>", 0, "closes nothing"),
            ("<a", 0, "cut short"),
            ("<a /", 0, "cut short"),
            ("<a /b>", 3, "`/` is not followed by `>`"),
            ("<a b", 0, "cut short"),
            ("<a b=", 0, "cut short"),
            ("<a b='", 0, "cut short"),
            ("<a></a", 3, "cut short"),
            ("<a b=1>", 3, "attribute b has a value without"),
            ("<a b>", 3, "attribute b has no value"),
            ("<a b='' b=''>", 8, "two attributes b"),
            ("< a>", 0, "no name"),
            ("<!-- ", 0, "cut short"),
            ("<![CDATA[ ]]", 0, "cut short"),
            ("<!DOCTYPE a [<b>]", 0, "cut short"),
        ] {
            let (found, message) = events(text).unwrap_err();
            assert!(message.contains(what), "{text}: {message}");
            assert_eq!(found, at, "{text}");
        }
    }

    proptest::proptest! {
        /// Events end, what is closed has been opened, and nothing panics.
        #[test]
        fn any_text_is_read(text in "[<>/!?\\[\\]aé='\" &;x#-]{0,60}") {
            if let Ok(events) = events(&text) {
                let mut depth = 0isize;
                for event in &events {
                    depth += isize::from(event.starts_with('<')) - isize::from(event == ">");
                    proptest::prop_assert!(depth >= 0);
                }
                proptest::prop_assert!(events.len() <= text.len());
            }
            let _ = (value(&text), super::text(&text), cdata(&text));
        }
    }

    #[test]
    fn tags_with_many_attributes() {
        let tag = |last: &str| {
            let keys = (0..200_000).map(|i| format!(" k{i}=''"));
            format!("<a{} {last}=''/>", keys.collect::<String>())
        };
        assert_eq!(events(&tag("other")).unwrap().len(), 2);
        for doubled in ["k0", "k16", "k199999"] {
            let (_, message) = events(&tag(doubled)).unwrap_err();
            assert_eq!(message, format!("<a> has two attributes {doubled}"));
        }
    }

    #[test]
    fn references_and_blanks() {
        assert_eq!(value("a&amp;b&#65;&#x1F600;\t\r\n&#10;.").unwrap(), "a&bA😀  \n.");
        assert_eq!(text("&lt;&gt;&quot;&apos;\r\n\r\t").unwrap(), "<>\"'\n\n\t");
        assert_eq!(cdata("&lt;\r\n\r"), "&lt;\n\n");
        assert!(matches!(value("plain é"), Ok(Cow::Borrowed("plain é"))));
        assert_eq!(
            value(&format!("&{};", "q".repeat(99))).unwrap_err(),
            "`&` is not followed by `;`"
        );
        for wrong in [
            "&big;",
            "&",
            "&amp",
            "&#0;",
            "&#xD800;",
            "&#x110000;",
            "&#+5;",
            "&#;",
            "&#99999999999;",
        ] {
            assert!(value(wrong).is_err() && text(wrong).is_err(), "{wrong}");
        }
    }
}
