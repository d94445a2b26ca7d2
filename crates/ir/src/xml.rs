//! A recursive-descent view of the events of a file, with the byte offset of every element.

use crate::graph::Element;
use crate::problem::{At, Code, Problem};
use crate::scan::{self, Event, Flaw, Scanner, Start};
use std::borrow::Cow;

/// No converter nests elements deeper than bodies in bodies; this bounds the recursion.
const MAX_DEPTH: usize = 128;

/// Reading cannot go on. Carries the reason.
pub(crate) struct Fatal(pub(crate) Box<Problem>);

impl Fatal {
    pub(crate) fn new(code: Code, at: At, message: impl Into<String>) -> Fatal {
        Fatal(Box::new(Problem::error(code, at, message)))
    }
}

pub(crate) struct Xml<'a> {
    scanner: Scanner<'a>,
    depth: usize,
}

/// The opening tag of an element.
pub(crate) struct Tag<'a> {
    start: Start<'a>,
    pub(crate) at: At,
}

/// Takes the text of an element piece by piece.
type Text<'t, 'a> = &'t mut dyn FnMut(Cow<'a, str>);

/// The attributes of a tag, in order.
pub(crate) type Attributes = Vec<(String, String)>;

impl Tag<'_> {
    pub(crate) fn name(&self) -> &str {
        self.start.name
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
        for (key, raw) in &self.start.attributes {
            let value = scan::value(raw).map_err(|e| {
                flaw((self.at.0, format!("in <{}>, attribute {key}: {e}", self.name())))
            })?;
            f(key, value);
        }
        Ok(())
    }
}

/// The text is not XML as it should be.
fn flaw((at, what): Flaw) -> Fatal {
    Fatal::new(Code::Syntax, At(at), format!("not well-formed XML: {what}"))
}

/// There is more than space around the root element.
fn outside(at: usize) -> Fatal {
    flaw((at, "text lies outside the root element; remove it, or write the file again".into()))
}

impl<'a> Xml<'a> {
    pub(crate) fn new(text: &'a str) -> Xml<'a> {
        Xml { scanner: Scanner::new(text), depth: 0 }
    }

    /// The next event, and where it begins.
    fn event(&mut self) -> Result<(Event<'a>, At), Fatal> {
        let event = self.scanner.next().map_err(flaw)?;
        Ok((event, At(self.scanner.began())))
    }

    /// The next opening tag at this level outside any element; `None` at the end of the file.
    pub(crate) fn root(&mut self) -> Result<Option<Tag<'a>>, Fatal> {
        loop {
            match self.event()? {
                (Event::Start(start), at) => return Ok(Some(Tag { start, at })),
                (Event::Eof, _) => return Ok(None),
                (Event::Text(text), _) if text.trim_ascii().is_empty() => {}
                (Event::Text(text), at) => {
                    return Err(outside(at.0 + text.len() - text.trim_ascii_start().len()));
                }
                (Event::CData(_) | Event::End, at) => return Err(outside(at.0)),
            }
        }
    }

    /// Reads to the end of the file, behind the root element.
    pub(crate) fn end(&mut self) -> Result<(), Fatal> {
        match self.root()? {
            None => Ok(()),
            Some(second) => {
                let message = format!(
                    "<{}> follows the root element; a file holds one of them",
                    second.name()
                );
                Err(flaw((second.at.0, message)))
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
            return Err(Fatal::new(Code::TooDeep, At(self.scanner.began()), message));
        }
        loop {
            let (event, at) = self.event()?;
            match event {
                Event::Start(start) => {
                    let tag = Tag { start, at };
                    child(self, &tag)?;
                    self.scanner.reuse(tag.start);
                }
                Event::End => break,
                Event::Eof => {
                    let message = "the file ends inside an element; it has been cut short";
                    return Err(Fatal::new(Code::Syntax, at, message));
                }
                Event::Text(piece) => {
                    if let Some(text) = &mut text {
                        text(scan::text(piece).map_err(|e| flaw((at.0, e)))?);
                    }
                }
                Event::CData(piece) => {
                    if let Some(text) = &mut text {
                        text(scan::cdata(piece));
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }
}
