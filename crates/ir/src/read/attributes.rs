//! Where the attributes of a layer are in the XML. They are looked for when a finding needs them:
//! a graph keeps the place of each element only.

use super::xml::{Tag, Xml, XmlError};
use crate::diagnostic::{ByteOffset, SourceFile};
use std::collections::HashMap;

/// The names in versions 2 to 4 of the attribute elements of some types.
const DATA: [&str; 7] = ["data", "fc", "lrn", "norm", "crop", "batch_norm", "elementwise"];

/// The places of the attributes of one layer.
#[derive(Debug, Default)]
pub struct AttributeOffsets {
    layer: HashMap<String, ByteOffset>,
    data: HashMap<String, ByteOffset>,
    /// The first child element of each name.
    elements: HashMap<String, ByteOffset>,
}

impl AttributeOffsets {
    /// Those of the layer that begins at `at`; none for a graph built in memory, and for layers
    /// that are in no file.
    pub fn new(source: &SourceFile, at: ByteOffset) -> AttributeOffsets {
        let mut offsets = AttributeOffsets::default();
        if let Some(text) = source.text().get(at.0..) {
            // The file has been read before. What cannot be read again has no places.
            let _ = offsets.read(&mut Xml::new(text), at.0);
        }
        offsets
    }

    /// An attribute of `<layer>` itself, such as `type`.
    pub fn of_layer(&self, name: &str) -> Option<ByteOffset> {
        self.layer.get(name).copied()
    }

    /// An attribute of the operation. Where there is none of that name: a child element that is
    /// called so, such as `<port_map>`, or the element that lacks it, `<data>`.
    pub fn of_data(&self, name: &str) -> Option<ByteOffset> {
        let element = || self.elements.get(name).or_else(|| self.elements.get("data"));
        self.data.get(name).or_else(element).copied()
    }

    fn read(&mut self, xml: &mut Xml<'_>, begin: usize) -> Result<(), XmlError> {
        let is_layer = |tag: &Tag<'_>| tag.at.0 == 0 && tag.name() == "layer";
        let Some(layer) = xml.root()?.filter(is_layer) else { return Ok(()) };
        let moved = |at: ByteOffset| ByteOffset(begin.saturating_add(at.0));
        let mut op_type = String::new();
        layer.each_attribute(|key, value| {
            self.layer.insert(key.to_owned(), moved(layer.offset(key)));
            if key == "type" {
                op_type = value.into_owned();
            }
        })?;
        xml.children(|xml, tag| {
            self.elements.entry(tag.name().to_owned()).or_insert(moved(tag.at));
            if is_data(tag.name(), &op_type) {
                tag.each_attribute(|key, _| {
                    self.data.entry(key.to_owned()).or_insert(moved(tag.offset(key)));
                })?;
            }
            xml.skip()
        })
    }
}

/// `data`, or `convolution_data`, or another name from before version 5.
pub(super) fn is_data(name: &str, op_type: &str) -> bool {
    DATA.contains(&name)
        || name.ends_with("_data")
        || name.ends_with("-data")
        || name.eq_ignore_ascii_case(op_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn attributes_are_found_again() {
        let text = "<net><layer\n id='1' type = \"Elu\"><input/><data ä='x=1' alpha='1'/>\
                    <port_map/></layer><layer id='2'/></net>";
        let at = |part: &str| text.find(part).map(ByteOffset);
        let source = SourceFile::new(Path::new("m.xml"), text.to_owned());
        let byte = |at: Option<ByteOffset>| at.map(|at| at.0);
        let of = |part: &str| AttributeOffsets::new(&source, at(part).unwrap());
        let layer = of("<layer\n");
        for (found, part) in [
            (layer.of_layer("type"), "type ="),
            (layer.of_layer("id"), "id='1'"),
            (layer.of_data("ä"), "ä="),
            (layer.of_data("alpha"), "alpha"),
            (layer.of_data("port_map"), "<port_map"),
            (layer.of_data("missing"), "<data"),
        ] {
            assert_eq!(byte(found), byte(at(part)), "{part}");
        }
        assert_eq!(byte(layer.of_layer("alpha")), None);
        // The next layer has no attributes, and neither has what is no layer.
        for part in ["<layer id='2'", "<net", "\n id", "</net>"] {
            assert_eq!(byte(of(part).of_data("alpha")), None, "{part}");
        }
        let nowhere = AttributeOffsets::new(&SourceFile::default(), ByteOffset(7));
        assert_eq!(byte(nowhere.of_layer("id")), None);
    }
}
