//! What each input takes: as its Parameter declares it, or as `--shape` says.

use super::ports::{Port, find, inputs, key_of};
use crate::exit::{Exit, Failure, OrExit};
use crate::media::Wanted;
use crate::media::layout::{Axes, Layout};
use anyhow::{Context, Result, anyhow, bail, ensure};
use infer::{Dim, InputSpec, PartialShape};
use ir::{ElementType, Graph};
use runtime::Tensor;

/// What inputs are called that take how many samples of a sound are a second.
const RATES: [&str; 4] = ["sr", "sample_rate", "sampling_rate", "samplerate"];

/// What each input takes, as its Parameter declares it, and what `--shape` puts in its place.
pub struct Declared {
    /// The ports, to look names up.
    pub ports: Vec<Port>,
    /// The element types; `dynamic` where the model leaves it open.
    pub types: Vec<ElementType>,
    /// The shapes.
    pub shapes: Vec<PartialShape>,
    /// What each axis is, where the model says so.
    pub layouts: Vec<Option<Layout>>,
    /// The inputs whose shape `--shape` gives, in its order.
    pub overridden: Vec<usize>,
    /// The flag that gives the shape of each input, if one does.
    flags: Vec<Option<&'static str>>,
}

impl Declared {
    /// What a graph declares, with overrides.
    ///
    /// # Errors
    /// When an override names no input or is not a shape.
    pub fn new(graph: &Graph, overrides: &[String]) -> Result<Declared, Failure> {
        Declared::by_flags(graph, &[("--shape", overrides)])
    }

    /// The same with the overrides of several flags, whose names messages give.
    ///
    /// # Errors
    /// As [`Declared::new`].
    pub fn by_flags(
        graph: &Graph,
        flags: &[(&'static str, &[String])],
    ) -> Result<Declared, Failure> {
        let ports = inputs(graph);
        let layers = graph.parameters().iter().filter_map(|&p| graph.layers().get(p));
        let layouts = layers.clone().map(Layout::of).collect();
        let (types, shapes) = layers
            .map(|layer| {
                let element_type = layer.attribute("element_type").unwrap_or("dynamic");
                let shape = layer.attribute("shape").unwrap_or("");
                let element_type = ElementType::from_attribute(element_type.trim());
                let shape = shape.parse().unwrap_or_else(|_| PartialShape::unranked());
                let element_type = element_type.unwrap_or(ElementType::Dynamic);
                (infer::input_type(graph, element_type), shape)
            })
            .unzip();
        let (overridden, given_by) = (Vec::new(), vec![None; ports.len()]);
        let mut declared = Declared { ports, types, shapes, layouts, overridden, flags: given_by };
        for (flag, texts) in flags {
            let overrides = shape_overrides(flag, texts, &declared).or_exit(Exit::Usage)?;
            for (port, shape) in overrides {
                declared.shapes[port] = shape;
                declared.overridden.push(port);
                declared.flags[port] = Some(*flag);
            }
        }
        Ok(declared)
    }

    /// Width and height of the input that is a picture, the first with as many axes as one; nothing
    /// of either where there is none.
    pub(crate) fn picture_size(&self, inputs: &[Tensor]) -> (usize, usize) {
        let size = |(tensor, layout): (&Tensor, &Option<Layout>)| {
            let sizes = tensor.sizes();
            let shape = PartialShape::fixed(sizes);
            let axes = Axes::of(&shape, layout.as_ref()).ok().filter(|_| sizes.len() > 2)?;
            Some((*sizes.get(axes.width)?, *sizes.get(axes.height)?))
        };
        inputs.iter().zip(&self.layouts).find_map(size).unwrap_or_default()
    }

    /// What propagation is told about the inputs.
    pub fn given(&self) -> infer::Inputs {
        let given = |(shape, flag): (&PartialShape, &Option<&'static str>)| InputSpec {
            shape: Some(shape.clone()),
            shape_from: *flag,
            ..InputSpec::default()
        };
        infer::Inputs {
            parameters: self.shapes.iter().zip(&self.flags).map(given).collect(),
            ..infer::Inputs::default()
        }
    }

    /// Refuses open shapes of inputs that need sizes, and gives some that can be pasted.
    ///
    /// # Errors
    /// All inputs of an open shape.
    pub fn have_sizes(&self, need: impl Fn(usize) -> bool) -> Result<()> {
        let is_open = |i: &usize| need(*i) && self.shapes[*i].sizes().is_none();
        let open: Vec<usize> = (0..self.shapes.len()).filter(is_open).collect();
        let shown = |i: &usize| format!("\"{}\" {}", self.ports[*i].shown(), self.describe(*i));
        let named: Vec<String> = open.iter().map(shown).collect();
        let sizes: Vec<String> = open.iter().map(|i| self.example(*i)).collect();
        let shapes = if open.len() == 1 { "the shape of input" } else { "the shapes of inputs" };
        let verb = if open.len() == 1 { "is" } else { "are" };
        ensure!(
            open.is_empty(),
            "{shapes} {} {verb} open; give sizes: --shape '{}'",
            named.join(", "),
            sizes.join(",")
        );
        Ok(())
    }

    /// An input with sizes that are usual: `input_ids[1,8]`, `image[1,3,224,224]`.
    fn example(&self, i: usize) -> String {
        // Of an input of any rank, one axis is as good as any number of them.
        let any = [Dim::any()];
        let dims = self.shapes[i].dims().unwrap_or(&any);
        let size = |(axis, dim): (usize, &Dim)| {
            let usual = match axis {
                0 => 1,
                2.. if dims.len() == 4 => 224,
                _ => 8,
            };
            usual.clamp(dim.min(), dim.max()).to_string()
        };
        let sizes: Vec<String> = dims.iter().enumerate().map(size).collect();
        let name = self.ports[i].shown();
        let key = if name.contains(['[', '\'']) { key_of(&self.ports, i) } else { name.to_owned() };
        format!("{key}[{}]", sizes.join(","))
    }

    /// What a file is to become for an input.
    pub(super) fn wanted(&self, i: usize) -> Wanted<'_> {
        let takes_rate = |port: &Port| RATES.iter().any(|name| port.is(name));
        Wanted {
            name: self.ports[i].shown(),
            element_type: self.types[i],
            shape: &self.shapes[i],
            layout: self.layouts.get(i).and_then(Option::as_ref),
            knows_rate: self.ports.iter().any(takes_rate),
        }
    }

    /// Type and shape of an input.
    pub(super) fn describe(&self, i: usize) -> String {
        format!("{}{}", self.types[i], self.shapes[i])
    }
}

/// Reads `NAME[1,3..8,?]`, several separated by commas, as benchmark_app writes them. Without a
/// name the shape is that of the only input.
fn shape_overrides(
    flag: &str,
    texts: &[String],
    Declared { ports, overridden, .. }: &Declared,
) -> Result<Vec<(usize, PartialShape)>> {
    let mut out: Vec<(usize, PartialShape)> = Vec::new();
    for text in texts {
        let mut rest = text.trim();
        ensure!(!rest.is_empty(), form(flag, text));
        while !rest.is_empty() {
            let open = rest.find('[').with_context(|| form(flag, text))?;
            let close = open + rest[open..].find(']').with_context(|| form(flag, text))?;
            let name = rest[..open].trim().trim_end_matches([':', '=']);
            let port = match (name, ports.len()) {
                ("", 1) => 0,
                ("", n) => bail!("{flag} {text}: which of the {n} inputs? Write NAME{text}"),
                (name, _) => find(ports, name, "input").context(flag.to_owned())?,
            };
            let twice = overridden.contains(&port) || out.iter().any(|(other, _)| *other == port);
            ensure!(!twice, "{flag}: input {port} ({}) is given twice", ports[port].shown());
            let shape = rest[open..=close].parse::<PartialShape>();
            out.push((port, shape.map_err(|e| anyhow!("{flag} {text}: {e}"))?));
            rest = rest[close + 1..].trim_start().trim_start_matches(',').trim_start();
        }
    }
    Ok(out)
}

fn form(flag: &str, text: &str) -> String {
    format!("{flag} {text} is not of the form NAME[1,3,?,2..8]")
}

#[cfg(test)]
mod tests {
    use super::super::ports::testing::ports;
    use super::*;

    #[test]
    fn shapes_in_benchmark_app_syntax() {
        let declared = Declared {
            ports: ports(),
            types: Vec::new(),
            shapes: Vec::new(),
            layouts: Vec::new(),
            overridden: Vec::new(),
            flags: Vec::new(),
        };
        let overrides = |texts: &[String]| shape_overrides("--shape", texts, &declared);
        let text = vec!["x[1,3,?],y[1..8, 2..]".to_owned(), "2=[]".to_owned()];
        let shapes = overrides(&text).unwrap();
        let shown: Vec<String> = shapes.iter().map(|(p, s)| format!("{p}{s}")).collect();
        assert_eq!(shown, ["0[1,3,?]", "1[1..8,2..]", "2[]"]);
        for bad in ["[1]", "x", "x[1", "z[1]", "x[a]"] {
            assert!(overrides(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
