//! The XML elements that only IR versions 2 to 9 have.

use super::attributes::{AttributeOffsets, is_data};
use super::reader::Reader;
use super::xml::{Tag, Xml, XmlError};
use crate::diagnostic::Code;
use crate::graph::{Layer, Parts, Version};
use crate::legacy::{BackEdge, Blob, BodyPort, Extra};

impl Reader {
    pub(super) fn legacy_layer(
        &mut self,
        xml: &mut Xml<'_>,
        tag: &Tag<'_>,
    ) -> Result<Layer, XmlError> {
        let mut layer = self.layer_tag(tag)?;
        let mut extra = Extra::default();
        xml.children(|xml, tag| {
            match tag.name() {
                "input" => layer.inputs = self.legacy_ports(xml, false)?,
                "output" => layer.outputs = self.legacy_ports(xml, true)?,
                "rt_info" => layer.rt_info = Some(xml.element(tag)?.into()),
                "weights" | "biases" => {
                    extra.blobs.push(self.blob(tag)?);
                    xml.skip()?;
                }
                "blobs" => xml.children(|xml, tag| {
                    extra.blobs.push(self.blob(tag)?);
                    xml.skip()
                })?,
                "body" => extra.body = Some(self.legacy_body(xml)?),
                "port_map" => self.legacy_port_map(xml, &mut extra)?,
                "back_edges" => self.legacy_back_edges(xml, &mut extra)?,
                name if is_data(name, &layer.op_type) => self.data(xml, tag, &mut layer)?,
                _ => self.skip("layer", xml, tag)?,
            }
            Ok(())
        })?;
        if let Some(model) = &mut self.legacy {
            model.extras.insert(layer.at.0, extra);
        }
        Ok(layer)
    }

    /// Ports in the order of their ids, as in the old inference engine.
    fn legacy_ports(
        &mut self,
        xml: &mut Xml<'_>,
        output: bool,
    ) -> Result<Vec<crate::Port>, XmlError> {
        let mut ports = self.ports(xml, output)?;
        ports.sort_by_key(|port| port.id);
        Ok(ports)
    }

    /// Attributes. In version 2, Crop has one element per axis.
    fn data(
        &mut self,
        xml: &mut Xml<'_>,
        tag: &Tag<'_>,
        layer: &mut Layer,
    ) -> Result<(), XmlError> {
        layer.data.extend(tag.attributes()?);
        let mut lists: Vec<(String, String)> = Vec::new();
        xml.children(|xml, tag| {
            if tag.name() != "crop" {
                return self.skip("data", xml, tag);
            }
            for (key, value) in tag.attributes()? {
                match lists.iter_mut().find(|(own, _)| *own == key) {
                    Some((_, list)) => *list = format!("{list},{value}"),
                    None => lists.push((key, value)),
                }
            }
            xml.skip()
        })?;
        layer.data.extend(lists);
        Ok(())
    }

    fn blob(&mut self, tag: &Tag<'_>) -> Result<Blob, XmlError> {
        let name = tag.name().to_owned();
        let mut blob = Blob { name, offset: 0, size: 0, precision: None };
        tag.each_attribute(|key, value| match key {
            "offset" => blob.offset = self.unsigned("blob", key, &value, tag.offset(key)),
            "size" => blob.size = self.unsigned("blob", key, &value, tag.offset(key)),
            "precision" => blob.precision = Some(value.into_owned()),
            _ => {}
        })?;
        Ok(blob)
    }

    fn legacy_body(&mut self, xml: &mut Xml<'_>) -> Result<Parts, XmlError> {
        let mut parts = Parts { version: Version::V10, is_body: true, ..Parts::default() };
        self.graph_content("body", xml, &mut parts)?;
        Ok(parts)
    }

    fn legacy_port_map(&mut self, xml: &mut Xml<'_>, extra: &mut Extra) -> Result<(), XmlError> {
        xml.children(|xml, tag| {
            let mut port = BodyPort { map: self.port_map_entry(tag)?, port: 0 };
            tag.each_attribute(|key, value| {
                if key == "internal_port_id" {
                    port.port = self.unsigned("port map", key, &value, tag.offset(key));
                }
            })?;
            match tag.name() {
                "input" => extra.inputs.push(port),
                "output" => extra.outputs.push(port),
                _ => {}
            }
            xml.skip()
        })
    }

    fn legacy_back_edges(&mut self, xml: &mut Xml<'_>, extra: &mut Extra) -> Result<(), XmlError> {
        xml.children(|xml, tag| {
            if let Some(edge) = self.edge(tag)? {
                let (from, to) = ((edge.from_layer, edge.from_port), (edge.to_layer, edge.to_port));
                extra.back_edges.push(BackEdge { from, to });
            }
            xml.skip()
        })
    }

    /// Replaces the layers of an old version by current ones.
    pub(super) fn lower(&mut self, parts: &mut Parts) {
        let Some(model) = &self.legacy else { return };
        parts.legacy_version = Some(model.version);
        let mut diagnostics = crate::legacy::lower(parts, model);
        for diagnostic in diagnostics.iter_mut().filter(|d| d.code == Code::Attribute) {
            // Rules of old versions write `axis="x" is not …` of an attribute.
            let Some((name, _)) = diagnostic.message.split_once("=\"") else { continue };
            let offsets = AttributeOffsets::new(&model.source, diagnostic.at);
            let found = offsets.of_data(name).or_else(|| offsets.of_layer(name));
            diagnostic.at = found.unwrap_or(diagnostic.at);
        }
        self.diagnostics.extend(diagnostics);
    }
}
