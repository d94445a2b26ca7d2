//! A recursive-descent view of quick-xml's events, with the byte offset of every element.
//!
//! It supports elements, attributes, text, CDATA sections, and references to characters and the
//! five predefined entities. Comments, processing instructions and document types are skipped.
//! Entities declared in a document type do not exist, so no file can expand the text.

use crate::diagnostic::{ByteOffset, Code, Diagnostic};
use crate::graph::Element;
use quick_xml::errors::{Error, IllFormedError, SyntaxError};
use quick_xml::escape::{EscapeError, resolve_predefined_entity};
use quick_xml::events::attributes::{AttrError, Attributes};
use quick_xml::events::{BytesRef, BytesText, Event};
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;

/// No converter nests deeper than bodies in bodies. The limit bounds the recursion.
const MAX_DEPTH: usize = 128;

/// A fatal error, with its reason.
pub(crate) struct XmlError(pub(crate) Box<Diagnostic>);

impl XmlError {
    pub(crate) fn new(code: Code, at: ByteOffset, message: impl Into<String>) -> XmlError {
        XmlError(Box::new(Diagnostic::error(code, at, message)))
    }
}

pub(crate) struct Xml<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    depth: usize,
    /// Whether the last tag was an empty element, `<a/>`.
    is_empty: bool,
}

/// The opening tag of an element.
pub(crate) struct Tag<'a> {
    name: &'a str,
    /// The text between `<` and `>`.
    content: &'a str,
    /// Whether the attributes have been checked.
    is_checked: Cell<bool>,
    pub(crate) at: ByteOffset,
}

/// The parts of a file.
enum Part<'a> {
    Start(Tag<'a>),
    /// The end of the current element.
    End,
    /// Text between references. Most of it is space between tags, which nobody reads.
    Text(BytesText<'a>),
    /// Text that counts as not blank, whatever it is: a CDATA section or a reference.
    Literal(Cow<'a, str>),
    Eof,
}

/// Receives the text of an element piece by piece.
type Text<'t, 'a> = &'t mut dyn FnMut(Cow<'a, str>);

/// The attributes of a tag, in order.
pub(crate) type NamedValues = Vec<(String, String)>;

impl<'a> Tag<'a> {
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Every attribute, unescaped.
    pub(crate) fn attributes(&self) -> Result<NamedValues, XmlError> {
        let mut out = Vec::new();
        self.each_attribute(|key, value| out.push((key.to_owned(), value.into_owned())))?;
        Ok(out)
    }

    /// Calls `f` with each attribute, without building a list.
    pub(crate) fn each_attribute(
        &self,
        mut f: impl FnMut(&str, Cow<'a, str>),
    ) -> Result<(), XmlError> {
        self.is_checked.set(true);
        let mut seen = Seen::default();
        let mut attributes = Attributes::new(self.content, self.name.len());
        // Its checks compare each attribute with all others.
        for attribute in attributes.with_checks(false) {
            let attribute = attribute.map_err(|error| self.bad_attribute(&error))?;
            let key = attribute.key.into_inner();
            if !seen.insert(key) {
                return Err(malformed(
                    self.at,
                    format!("<{}> has two attributes {key}", self.name),
                ));
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| {
                let what = entity(&error);
                malformed(self.at, format!("in <{}>, attribute {key}: {what}", self.name))
            })?;
            f(key, value);
        }
        Ok(())
    }

    /// Where an attribute begins, from its key as [`Tag::each_attribute`] gives it: a part of the
    /// text of the tag.
    pub(crate) fn offset(&self, key: &str) -> ByteOffset {
        let before = key.as_ptr().addr().checked_sub(self.content.as_ptr().addr());
        let inside = before.filter(|at| *at < self.content.len());
        ByteOffset(self.at.0.saturating_add(inside.map_or(0, |at| at.saturating_add(1))))
    }

    fn bad_attribute(&self, error: &AttrError) -> XmlError {
        let (at, what) = match error {
            AttrError::ExpectedEq(at) => (at, "has no value"),
            AttrError::ExpectedValue(at) => (at, "has no value behind `=`"),
            AttrError::UnquotedValue(at) => (at, "has a value without `\"` or `'` around it"),
            AttrError::ExpectedQuote(at, _) => (at, "has a value that is not closed"),
            AttrError::Duplicated(at, _) => (at, "is there twice"),
        };
        // What was read of the attribute so far ends with its key, possibly followed by `=`.
        let before = self.content.get(..*at).unwrap_or_default().trim_ascii_end();
        let before = before.strip_suffix('=').unwrap_or(before).trim_ascii_end();
        let key = before.rsplit(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
        let text = format!("in <{}>, attribute {key} {what}", self.name);
        malformed(ByteOffset(self.at.0.saturating_add(1).saturating_add(*at)), text)
    }
}

/// The keys of a tag's attributes; in a set if there are many, so that a tag takes linear time.
#[derive(Default)]
struct Seen<'a> {
    few: smallvec::SmallVec<[&'a str; 16]>,
    many: HashSet<&'a str>,
}

impl<'a> Seen<'a> {
    /// Inserts a key. Returns whether it is new.
    fn insert(&mut self, key: &'a str) -> bool {
        if self.few.len() < self.few.inline_size() {
            let is_new = !self.few.contains(&key);
            self.few.push(key);
            return is_new;
        }
        !self.few.contains(&key) && self.many.insert(key)
    }
}

/// An error for malformed XML.
fn malformed(at: ByteOffset, what: impl std::fmt::Display) -> XmlError {
    XmlError::new(Code::Syntax, at, format!("not well-formed XML: {what}"))
}

/// What is wrong with an attribute value.
fn entity(error: &Error) -> String {
    match error {
        Error::Escape(EscapeError::UnrecognizedEntity(_, name)) => {
            format!("unknown entity &{name};")
        }
        Error::Escape(EscapeError::UnterminatedEntity(_)) => "`&` is not followed by `;`".into(),
        Error::Escape(EscapeError::InvalidCharRef(error)) => {
            format!("a reference to no character: {error}")
        }
        other => other.to_string(),
    }
}

/// An error for content other than space around the root element.
fn outside(at: usize) -> XmlError {
    malformed(
        ByteOffset(at),
        "text lies outside the root element; remove it, or write the file again",
    )
}

impl<'a> Xml<'a> {
    pub(crate) fn new(text: &'a str) -> Xml<'a> {
        Xml { text, reader: Reader::from_str(text), depth: 0, is_empty: false }
    }

    /// How many bytes have been read.
    fn position(&self) -> usize {
        usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX)
    }

    /// The next part, and where it begins.
    fn next(&mut self) -> Result<(Part<'a>, ByteOffset), XmlError> {
        loop {
            let at = ByteOffset(self.position());
            if std::mem::take(&mut self.is_empty) {
                return Ok((Part::End, at));
            }
            let event = self.reader.read_event().map_err(|error| self.bad_event(&error))?;
            let part = match event {
                Event::Start(start) => Part::Start(self.tag(start.name().as_ref().len(), at)),
                Event::Empty(start) => {
                    self.is_empty = true;
                    Part::Start(self.tag(start.name().as_ref().len(), at))
                }
                Event::End(_) => Part::End,
                Event::Text(text) => Part::Text(text),
                Event::CData(text) => Part::Literal(text.xml10_content()),
                Event::GeneralRef(reference) => Part::Literal(resolve(&reference, at)?),
                Event::Eof => Part::Eof,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
            };
            return Ok((part, at));
        }
    }

    /// The tag that begins at `at` and was just read.
    fn tag(&self, name: usize, at: ByteOffset) -> Tag<'a> {
        let content = self.text.get(at.0..self.position()).unwrap_or_default();
        let content = content.strip_prefix('<').unwrap_or(content);
        let content = content.strip_suffix('>').unwrap_or(content);
        let content =
            if self.is_empty { content.strip_suffix('/').unwrap_or(content) } else { content };
        let name = content.get(..name).unwrap_or_default();
        Tag { name, content, is_checked: Cell::new(false), at }
    }

    fn bad_event(&self, error: &Error) -> XmlError {
        let at = ByteOffset(usize::try_from(self.reader.error_position()).unwrap_or(usize::MAX));
        match error {
            Error::Syntax(
                SyntaxError::UnclosedTag
                | SyntaxError::UnclosedSingleQuotedAttributeValue
                | SyntaxError::UnclosedDoubleQuotedAttributeValue,
            ) => malformed(at, "a tag is not closed by `>`; the file has been cut short"),
            Error::Syntax(error) => malformed(at, format!("{error}; the file has been cut short")),
            Error::IllFormed(IllFormedError::UnmatchedEndTag(name)) => {
                malformed(at, format!("`</{name}>` closes nothing that is open"))
            }
            Error::IllFormed(IllFormedError::UnclosedReference) => {
                malformed(at, "`&` is not followed by `;`")
            }
            Error::IllFormed(error) => malformed(at, error),
            other => malformed(at, other),
        }
    }

    /// The next opening tag outside of any element; `None` at the end of the file.
    pub(crate) fn root(&mut self) -> Result<Option<Tag<'a>>, XmlError> {
        loop {
            match self.next()? {
                (Part::Start(tag), _) => return Ok(Some(tag)),
                (Part::Eof, _) => return Ok(None),
                (Part::Text(text), at) => {
                    let before = text.len() - text.trim_ascii_start().len();
                    if before < text.len() {
                        return Err(outside(at.0 + before));
                    }
                }
                (Part::Literal(_) | Part::End, at) => return Err(outside(at.0)),
            }
        }
    }

    /// Reads to the end of the file, after the root element.
    pub(crate) fn end(&mut self) -> Result<(), XmlError> {
        match self.root()? {
            None => Ok(()),
            Some(second) => {
                let message = format!(
                    "<{}> follows the root element; a file holds one of them",
                    second.name()
                );
                Err(malformed(second.at, message))
            }
        }
    }

    /// Calls `f` with each child of the element just opened; `f` must consume the child.
    pub(crate) fn children(
        &mut self,
        mut f: impl FnMut(&mut Self, &Tag<'a>) -> Result<(), XmlError>,
    ) -> Result<(), XmlError> {
        self.content(&mut f, None)
    }

    /// The text of the element just opened; elements inside are skipped.
    pub(crate) fn text(&mut self) -> Result<Cow<'a, str>, XmlError> {
        let mut out = Cow::Borrowed("");
        let mut add = |piece: Cow<'a, str>| {
            if out.is_empty() { out = piece } else { out.to_mut().push_str(&piece) }
        };
        self.content(&mut |xml, _| xml.skip(), Some(&mut add))?;
        Ok(out)
    }

    /// Skips the element just opened.
    pub(crate) fn skip(&mut self) -> Result<(), XmlError> {
        self.children(|xml, _| xml.skip())
    }

    /// The element just opened, with all its content.
    pub(crate) fn element(&mut self, tag: &Tag<'a>) -> Result<Element, XmlError> {
        let mut text = String::new();
        let mut children = Vec::new();
        let attributes = tag.attributes()?;
        self.content(
            &mut |xml, child| {
                children.push(xml.element(child)?);
                Ok(())
            },
            Some(&mut |piece| text.push_str(&piece)),
        )?;
        let text = text.trim().to_owned();
        Ok(Element { name: tag.name().to_owned(), attributes, children, text })
    }

    fn content(
        &mut self,
        child: &mut dyn FnMut(&mut Self, &Tag<'a>) -> Result<(), XmlError>,
        mut text: Option<Text<'_, 'a>>,
    ) -> Result<(), XmlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("elements are nested more than {MAX_DEPTH} deep");
            return Err(XmlError::new(Code::TooDeep, ByteOffset(self.position()), message));
        }
        loop {
            match self.next()? {
                (Part::Start(tag), _) => {
                    child(self, &tag)?;
                    if !tag.is_checked.get() {
                        tag.each_attribute(|_, _| {})?;
                    }
                }
                (Part::End, _) => break,
                (Part::Eof, at) => {
                    let message = "the file ends inside an element; it has been cut short";
                    return Err(XmlError::new(Code::Syntax, at, message));
                }
                (Part::Text(piece), _) => {
                    if let Some(text) = &mut text {
                        text(piece.xml10_content());
                    }
                }
                (Part::Literal(piece), _) => {
                    if let Some(text) = &mut text {
                        text(piece);
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// The character of a reference.
fn resolve<'a>(reference: &BytesRef<'a>, at: ByteOffset) -> Result<Cow<'a, str>, XmlError> {
    let character = reference.resolve_char_ref().map_err(|error| malformed(at, entity(&error)))?;
    let name = || reference.xml10_content();
    match character {
        Some(character) => Ok(Cow::Owned(character.to_string())),
        None => resolve_predefined_entity(&name())
            .map(Cow::Borrowed)
            .ok_or_else(|| malformed(at, format!("unknown entity &{};", name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a file, one per line.
    fn parts(text: &str) -> Result<Vec<String>, Box<Diagnostic>> {
        let mut xml = Xml::new(text);
        let mut out = Vec::new();
        loop {
            out.push(match xml.next().map_err(|XmlError(diagnostic)| diagnostic)?.0 {
                Part::Start(tag) => {
                    let attributes = tag.attributes().map_err(|XmlError(diagnostic)| diagnostic)?;
                    let values = attributes.iter().map(|(k, v)| format!(" {k}={v}"));
                    format!("<{}{}", tag.name, values.collect::<String>())
                }
                Part::End => ">".to_owned(),
                Part::Text(text) => format!("t {}", text.xml10_content()),
                Part::Literal(text) => format!("l {text}"),
                Part::Eof => return Ok(out),
            });
        }
    }

    #[test]
    fn forms_of_xml() {
        let text = "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b \"c\">]><!-- <x> --><a b = \"1>2\"\n\tc='\"'>t&lt;\
                    <![CDATA[<&]]><d/><é ü=\"ß\"/><f /></a >\n";
        let expected = [
            "<a b=1>2 c=\"",
            "t t",
            "l <",
            "l <&",
            "<d",
            ">",
            "<é ü=ß",
            ">",
            "<f",
            ">",
            ">",
            "t \n",
        ];
        assert_eq!(parts(text).unwrap(), expected);
        assert_eq!(parts("").unwrap(), [""; 0]);
    }

    #[test]
    fn elements_know_where_they_begin() {
        let text = "<!-- é --> <a>t<b x=''/>&amp;<c\n/></a>";
        let mut xml = Xml::new(text);
        let root = xml.root().ok().flatten().unwrap();
        let mut found = vec![(root.name, root.at.0)];
        xml.children(|xml, tag| {
            found.push((tag.name, tag.at.0));
            xml.skip()
        })
        .ok()
        .unwrap();
        assert_eq!(
            found,
            ["a", "b", "c"].map(|name| (name, text.find(&format!("<{name}")).unwrap()))
        );
    }

    #[test]
    fn what_is_wrong_is_named_where_it_is() {
        for (text, at, what) in [
            ("<a><b></a>", 6, "expected `</b>`, but `</a>` was found"),
            ("</a>", 0, "closes nothing"),
            ("<a", 0, "cut short"),
            ("<a b='", 0, "cut short"),
            ("<a></a", 3, "cut short"),
            ("<a b=1>", 5, "attribute b has a value without"),
            ("<a b>", 4, "attribute b has no value"),
            ("<a b = >", 7, "attribute b has no value"),
            ("<a b='' b=''>", 0, "two attributes b"),
            ("<!-- ", 0, "cut short"),
            ("<![CDATA[ ]]", 0, "cut short"),
            ("<!DOCTYPE a [<b>]", 0, "cut short"),
            ("<a>&big;</a>", 3, "unknown entity &big;"),
            ("<a>&amp</a>", 3, "`&` is not followed by `;`"),
            ("<a b='&big;'/>", 0, "attribute b: unknown entity &big;"),
            ("<a b='&amp'/>", 0, "attribute b: `&` is not followed by `;`"),
        ] {
            let diagnostic = parts(text).unwrap_err();
            assert!(diagnostic.message.contains(what), "{text}: {diagnostic:?}");
            assert_eq!(diagnostic.at.0, at, "{text}: {diagnostic:?}");
        }
    }

    proptest::proptest! {
        /// Files end, closing tags match opening ones, and nothing panics.
        #[test]
        fn any_text_is_read(text in "[<>/!?\\[\\]aé='\" &;x#-]{0,60}") {
            if let Ok(parts) = parts(&text) {
                let mut depth = 0isize;
                for part in &parts {
                    depth += isize::from(part.starts_with('<')) - isize::from(part == ">");
                    proptest::prop_assert!(depth >= 0);
                }
                proptest::prop_assert!(parts.len() <= text.len());
            }
        }
    }

    #[test]
    fn tags_with_many_attributes() {
        let tag = |last: &str| {
            let keys = (0..200_000).map(|i| format!(" k{i}=''"));
            format!("<a{} {last}=''/>", keys.collect::<String>())
        };
        assert_eq!(parts(&tag("other")).unwrap().len(), 2);
        for doubled in ["k0", "k15", "k16", "k199999"] {
            let message = parts(&tag(doubled)).unwrap_err().message;
            assert!(message.ends_with(&format!("<a> has two attributes {doubled}")), "{message}");
        }
    }

    #[test]
    fn references_and_blanks() {
        let value = |raw: &str| parts(&format!("<a b=\"{raw}\"/>")).map(|parts| parts[0].clone());
        let text = |raw: &str| {
            let parts = parts(&format!("<a>{raw}</a>"))?;
            Ok::<_, Box<Diagnostic>>(
                parts[1..parts.len() - 1].iter().map(|p| &p[2..]).collect::<String>(),
            )
        };
        assert_eq!(value("a&amp;b&#65;&#x1F600;\t\r\n&#10;.").unwrap(), "<a b=a&bA😀  \n.");
        assert_eq!(text("&lt;&gt;&quot;&apos;\r\n\r\t").unwrap(), "<>\"'\n\n\t");
        assert_eq!(text("<![CDATA[&lt;\r\n\r]]>").unwrap(), "&lt;\n\n");
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
