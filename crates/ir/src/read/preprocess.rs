//! `<pre-process>`: means that OpenVINO subtracts from an input, as layers of the graph.
//!
//! ```xml
//! <pre-process reference-layer-name="data" mean-precision="FP32">
//!     <channel id="0"><mean value="103.9"/></channel>            a value per channel, or
//!     <channel id="0"><mean offset="0" size="196608"/></channel> an image per channel in the .bin
//! </pre-process>
//! ```
//! They become a Subtract behind the Parameter, so that nothing else has to know of them. Other
//! children of `<channel>`, such as `<scale>`, have no effect in OpenVINO either.

use crate::element::ElementType;
use crate::graph::{Edge, Element, Layer, Parts, Port};
use crate::text::dims;
use std::collections::BTreeMap;

/// Adds the layers that `note` describes.
///
/// # Errors
/// When it does not match the model.
pub(crate) fn apply(note: &Element, parts: &mut Parts) -> Result<(), String> {
    let position = reference(note, parts)?;
    let means = Means::read(note)?;
    let input = parts.layers.get(position).ok_or("the model has no input")?;
    let channels = Channels::of(input)?;
    let name = input.name.clone();
    let from = (input.id, input.outputs.first().map_or(0, |port| port.id));
    let mut out = Inserted { next: parts.layers.iter().map(|l| l.id).max().unwrap_or(0), parts };
    let mean = match means {
        Means::None => return Ok(()),
        Means::Values(values) => out.values(&name, &channels, &values)?,
        Means::Images(images) => out.images(&name, &channels, &images)?,
    };
    let subtract = out.layer(&format!("pre-process/{name}"), "Subtract", &[], 2);
    for edge in out.parts.edges.iter_mut().filter(|e| (e.from_layer, e.from_port) == from) {
        (edge.from_layer, edge.from_port) = subtract;
    }
    out.edge(from, (subtract.0, 0));
    out.edge(mean, (subtract.0, 1));
    note_it(parts, &name);
    Ok(())
}

/// The input it applies to: the one with the given name, else the first that is an image.
fn reference(note: &Element, parts: &Parts) -> Result<usize, String> {
    let name = note.attribute("reference-layer-name").unwrap_or_default().trim();
    let mut inputs = (0..).zip(&parts.layers).filter(|(_, layer)| layer.is("Parameter"));
    if name.is_empty() {
        let first = inputs.clone().next();
        let image = inputs.find(|(_, layer)| {
            layer
                .attribute("shape")
                .is_some_and(|s| !s.contains("...") && s.split(',').count() == 4)
        });
        return Ok(image.or(first).ok_or("the model has no input")?.0);
    }
    let found = inputs.find(|(_, layer)| layer.name == name);
    Ok(found.ok_or_else(|| format!("the model has no input \"{name}\""))?.0)
}

/// The means, by channel.
enum Means {
    None,
    Values(BTreeMap<u64, f32>),
    /// Offsets and sizes in the `.bin`.
    Images(BTreeMap<u64, (u64, u64)>),
}

impl Means {
    fn read(note: &Element) -> Result<Means, String> {
        let (mut values, mut images) = (BTreeMap::new(), BTreeMap::new());
        let channels = note.children.iter().filter(|child| child.name == "channel");
        for (i, channel) in (0..).zip(channels) {
            let id = number(channel, "id")?.unwrap_or(i);
            let Some(mean) = channel.children.iter().find(|child| child.name == "mean") else {
                continue;
            };
            let value = number::<f32>(mean, "value")?;
            let size = number(mean, "size")?;
            let image = number(mean, "offset")?.zip(size);
            if value.is_none() && size.is_none() {
                return Err(format!("the mean of channel {id} has neither value nor size"));
            }
            let again = value.is_some_and(|value| values.insert(id, value).is_some())
                || image.is_some_and(|image| images.insert(id, image).is_some());
            if again {
                return Err(format!("channel {id} has two means"));
            }
        }
        match (values.is_empty(), images.is_empty()) {
            (true, true) => Ok(Means::None),
            (false, true) => Ok(Means::Values(values)),
            (true, false) => Ok(Means::Images(images)),
            (false, false) => Err("some channels have mean values, others mean images".to_owned()),
        }
    }
}

fn number<T: std::str::FromStr>(element: &Element, key: &str) -> Result<Option<T>, String> {
    let Some(text) = element.attribute(key) else { return Ok(None) };
    let value = text.trim().parse().map_err(|_| format!("{key}=\"{text}\" is not a number"))?;
    Ok(Some(value))
}

/// The channels of an input.
struct Channels {
    element_type: ElementType,
    count: u64,
    /// The dims of a channel's image, which follow that of the channels; empty for inputs of rank
    /// 2.
    image: Vec<u64>,
}

impl Channels {
    fn of(input: &Layer) -> Result<Channels, String> {
        let name = &input.name;
        let shape = input.attribute("shape").unwrap_or_default();
        let shape = dims(shape).ok_or_else(|| format!("input \"{name}\" has no fixed shape"))?;
        let element_type = input.attribute("element_type").and_then(ElementType::from_attribute);
        let element_type = element_type.filter(|t| t.byte_size().is_some());
        let element_type =
            element_type.ok_or_else(|| format!("input \"{name}\" is not of numbers"))?;
        // Rank 3 is channels, height and width; other ranks begin with the batch.
        let (count, image) = match shape.as_slice() {
            [_, count] => (count, &[][..]),
            [count, image @ ..] if image.len() == 2 => (count, image),
            [_, count, image @ ..] if image.len() == 2 || image.len() == 3 => (count, image),
            _ => return Err(format!("input \"{name}\" has rank {}, not 2 to 5", shape.len())),
        };
        Ok(Channels { element_type, count: *count, image: image.to_vec() })
    }

    /// Checks that there is one mean per channel.
    fn check<T>(&self, means: &BTreeMap<u64, T>) -> Result<(), String> {
        let given = u64::try_from(means.len()).unwrap_or(u64::MAX);
        if let Some((id, _)) = means.range(self.count..).next() {
            return Err(format!("channel {id} has a mean, of {} channels", self.count));
        }
        if given != self.count {
            return Err(format!("{given} of {} channels have a mean", self.count));
        }
        Ok(())
    }
}

/// The graph to which layers are added.
struct Inserted<'a> {
    parts: &'a mut Parts,
    /// The largest id so far.
    next: u64,
}

/// Ids of a layer and of its output.
type Output = (u64, u64);

impl Inserted<'_> {
    /// The means as one constant, converted to the type of the input.
    fn values(
        &mut self,
        input: &str,
        channels: &Channels,
        values: &BTreeMap<u64, f32>,
    ) -> Result<Output, String> {
        channels.check(values)?;
        let bytes: Vec<u8> = values.values().flat_map(|v| v.to_le_bytes()).collect();
        let mut shape = vec![channels.count];
        shape.extend(channels.image.iter().map(|_| 1));
        let name = format!("pre-process/{input}/mean");
        let size = bytes.len().to_string();
        let data =
            [("element_type", "f32"), ("shape", &join(&shape)), ("offset", "0"), ("size", &size)];
        let constant = self.layer(&name, "Const", &data, 0);
        if let Some(layer) = self.parts.layers.last_mut() {
            layer.bytes = Some(bytes.into());
        }
        if channels.element_type == ElementType::F32 {
            return Ok(constant);
        }
        let data = [("destination_type", channels.element_type.name())];
        let converted = self.layer(&format!("{name}/converted"), "Convert", &data, 1);
        self.edge(constant, (converted.0, 0));
        Ok(converted)
    }

    /// The images concatenated, each read from its range of the `.bin`.
    fn images(
        &mut self,
        input: &str,
        channels: &Channels,
        images: &BTreeMap<u64, (u64, u64)>,
    ) -> Result<Output, String> {
        channels.check(images)?;
        let elements = channels.image.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
        let needed = elements.and_then(|n| channels.element_type.packed_len(n));
        let mut shape = vec![1];
        shape.extend(&channels.image);
        let name = format!("pre-process/{input}/mean");
        let mut constants = Vec::new();
        for (id, (offset, size)) in images {
            if Some(*size) != needed {
                let needed = needed.map_or("too many".to_owned(), |n| n.to_string());
                return Err(format!("the image of channel {id} has {size} bytes, not {needed}"));
            }
            let data = [
                ("element_type", channels.element_type.name()),
                ("shape", &join(&shape)),
                ("offset", &offset.to_string()),
                ("size", &size.to_string()),
            ];
            constants.push(self.layer(&format!("{name}/{id}"), "Const", &data, 0));
        }
        let all = self.layer(&name, "Concat", &[("axis", "0")], constants.len());
        for (port, constant) in (0..).zip(constants) {
            self.edge(constant, (all.0, port));
        }
        Ok(all)
    }

    /// Adds a layer with one output.
    fn layer(&mut self, name: &str, op_type: &str, data: &[(&str, &str)], inputs: usize) -> Output {
        self.next = self.next.saturating_add(1);
        let output = u64::try_from(inputs).unwrap_or(u64::MAX);
        let port = |id| Port { id, ..Port::default() };
        let precision = Some(ElementType::Dynamic);
        self.parts.layers.push(Layer {
            id: self.next,
            name: name.to_owned(),
            op_type: op_type.to_owned(),
            version: "opset1".to_owned(),
            data: data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            inputs: (0..output).map(port).collect(),
            outputs: vec![Port { precision, ..port(output) }],
            ..Layer::default()
        });
        (self.next, output)
    }

    fn edge(&mut self, from: Output, to: (u64, u64)) {
        let ((from_layer, from_port), (to_layer, to_port)) = (from, to);
        self.parts.edges.push(Edge { from_layer, from_port, to_layer, to_port, ..Edge::default() });
    }
}

fn join(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// Records the subtraction in the notes of the model.
fn note_it(parts: &mut Parts, input: &str) {
    let value = format!("means are subtracted from input \"{input}\"");
    let note = Element {
        name: "pre-process".to_owned(),
        attributes: vec![("value".to_owned(), value)],
        ..Element::default()
    };
    match parts.notes.iter_mut().find(|note| note.name == "rt_info") {
        Some(notes) => notes.children.push(note),
        None => parts.notes.push(Element {
            name: "rt_info".to_owned(),
            children: vec![note],
            ..Element::default()
        }),
    }
}
