//! A recursive-descent view of quick-xml's events, with the byte offset of every element.

use crate::graph::Element;
use crate::problem::{At, Code, Problem};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use smallvec::SmallVec;
use std::borrow::Cow;

/// No converter nests elements deeper than bodies in bodies; this bounds the recursion.
const MAX_DEPTH: usize = 128;

const XML_VERSION: quick_xml::XmlVersion = quick_xml::XmlVersion::Implicit1_0;

/// Reading cannot go on. Carries the reason.
pub(crate) struct Fatal(pub(crate) Box<Problem>);

impl Fatal {
    pub(crate) fn new(code: Code, at: At, message: impl Into<String>) -> Fatal {
        Fatal(Box::new(Problem::error(code, at, message)))
    }
}

pub(crate) struct Xml<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
}

/// The opening tag of an element.
pub(crate) struct Tag<'a> {
    start: BytesStart<'a>,
    pub(crate) at: At,
}

/// Takes the text of an element piece by piece.
type Text<'t, 'a> = &'t mut dyn FnMut(Cow<'a, str>);

/// The attributes of a tag, in order.
pub(crate) type Attributes = Vec<(String, String)>;

impl Tag<'_> {
    pub(crate) fn name(&self) -> &str {
        self.start.name().0
    }

    /// Every attribute, unescaped.
    pub(crate) fn attributes(&self) -> Result<Attributes, Fatal> {
        let mut out = Vec::new();
        self.each_attribute(|key, value| out.push((key.to_owned(), value.into_owned())))?;
        Ok(out)
    }

    /// Calls `f` with each attribute, without building a list.
    pub(crate) fn each_attribute(
        &self,
        mut f: impl FnMut(&str, Cow<'_, str>),
    ) -> Result<(), Fatal> {
        // The reader's own search for doubled keys makes a list for each tag. It is left to name
        // those that were found here.
        let mut seen = SmallVec::<[&str; 8]>::new();
        for attribute in self.start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|e| self.syntax(&e))?;
            let key = attribute.key.0;
            if seen.contains(&key)
                && let Some(doubled) = self.start.attributes().find_map(Result::err)
            {
                return Err(self.syntax(&doubled));
            }
            seen.push(key);
            f(key, attribute.normalized_value(XML_VERSION).map_err(|e| self.syntax(&e))?);
        }
        Ok(())
    }

    fn syntax(&self, error: &dyn std::fmt::Display) -> Fatal {
        let message = format!("not well-formed XML: in <{}>, {error}", self.name());
        Fatal::new(Code::Syntax, self.at, message)
    }
}

impl<'a> Xml<'a> {
    pub(crate) fn new(text: &'a str) -> Xml<'a> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Xml { reader, depth: 0 }
    }

    fn position(&self) -> usize {
        usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX)
    }

    fn event(&mut self) -> Result<Event<'a>, Fatal> {
        self.reader.read_event().map_err(|e| {
            let at = usize::try_from(self.reader.error_position()).unwrap_or(usize::MAX);
            Fatal::new(Code::Syntax, At(at), format!("not well-formed XML: {e}"))
        })
    }

    /// The next opening tag at this level outside any element; `None` at the end of the file.
    pub(crate) fn root(&mut self) -> Result<Option<Tag<'a>>, Fatal> {
        loop {
            let at = At(self.position());
            match self.event()? {
                Event::Start(start) => return Ok(Some(Tag { start, at })),
                Event::Eof => return Ok(None),
                _ => {}
            }
        }
    }

    /// Calls `f` with each child of the element just opened; `f` must consume the child.
    pub(crate) fn children(
        &mut self,
        mut f: impl FnMut(&mut Self, &Tag<'a>) -> Result<(), Fatal>,
    ) -> Result<(), Fatal> {
        self.content(&mut f, None)
    }

    /// The text of the element just opened; elements inside are skipped.
    pub(crate) fn text(&mut self) -> Result<Cow<'a, str>, Fatal> {
        let mut out = Cow::Borrowed("");
        let mut add = |piece: Cow<'a, str>| match out.is_empty() {
            true => out = piece,
            false => out.to_mut().push_str(&piece),
        };
        self.content(&mut |xml, _| xml.skip(), Some(&mut add))?;
        Ok(out)
    }

    /// Passes over the element just opened.
    pub(crate) fn skip(&mut self) -> Result<(), Fatal> {
        self.children(|xml, _| xml.skip())
    }

    /// The element just opened, kept whole.
    pub(crate) fn element(&mut self, tag: &Tag<'a>) -> Result<Element, Fatal> {
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
        child: &mut dyn FnMut(&mut Self, &Tag<'a>) -> Result<(), Fatal>,
        mut text: Option<Text<'_, 'a>>,
    ) -> Result<(), Fatal> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("elements are nested more than {MAX_DEPTH} deep");
            return Err(Fatal::new(Code::TooDeep, At(self.position()), message));
        }
        loop {
            let at = At(self.position());
            match self.event()? {
                Event::Start(start) => child(self, &Tag { start, at })?,
                Event::End(_) => break,
                Event::Eof => {
                    let message = "the file ends inside an element; it has been cut short";
                    return Err(Fatal::new(Code::Syntax, at, message));
                }
                Event::GeneralRef(name) => {
                    let character = reference(&name, at)?;
                    if let Some(text) = &mut text {
                        text(character.into());
                    }
                }
                Event::Text(piece) => {
                    if let Some(text) = &mut text {
                        text(piece.xml_content(XML_VERSION));
                    }
                }
                Event::CData(piece) => {
                    if let Some(text) = &mut text {
                        text(piece.xml_content(XML_VERSION));
                    }
                }
                _ => {}
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// The text of `&name;`. Only the five predefined entities and characters by number exist, so
/// no file can make the text grow.
fn reference(name: &quick_xml::events::BytesRef<'_>, at: At) -> Result<String, Fatal> {
    let fatal = || {
        let message = format!("not well-formed XML: unknown entity &{};", &**name);
        Fatal::new(Code::Syntax, at, message)
    };
    if let Some(c) = name.resolve_char_ref().map_err(|_| fatal())? {
        return Ok(c.to_string());
    }
    let text = quick_xml::escape::resolve_predefined_entity(name).ok_or_else(fatal)?;
    Ok(text.to_owned())
}
