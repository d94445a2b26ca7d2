//! Typed access to the attributes of a layer. `check` reports attributes that no rule has read.

use crate::lattice::shape::PartialShape;
use crate::rule::error::AttrError;
use ir::{Body, ElementType, Layer, Weights};
use std::ops::RangeBounds;
use std::str::FromStr;
use std::sync::Arc;

/// The attributes of one layer while its operation is being parsed.
pub struct Attrs<'a> {
    layer: &'a Layer,
    weights: &'a Arc<Weights>,
    used: Vec<bool>,
    ignored: Vec<(String, String)>,
}

type Result<T> = std::result::Result<T, AttrError>;

impl<'a> Attrs<'a> {
    /// The attributes of `layer`, none of them read yet.
    pub fn new(layer: &'a Layer, weights: &'a Arc<Weights>) -> Attrs<'a> {
        Attrs { layer, weights, used: vec![false; layer.data.len()], ignored: Vec::new() }
    }

    /// How many inputs the layer has.
    pub fn input_count(&self) -> usize {
        self.layer.inputs.len()
    }

    /// How many outputs the layer has.
    pub fn output_count(&self) -> usize {
        self.layer.outputs.len()
    }

    /// The declared ranks of the outputs; `None` for a port without `<dim>`, which is a scalar or
    /// of unknown rank.
    pub fn declared_ranks(&self) -> impl Iterator<Item = Option<usize>> {
        let rank = |port: &ir::Port| Some(port.dims.len()).filter(|rank| *rank > 0);
        self.layer.outputs.iter().map(rank)
    }

    /// The bodies of the layer.
    pub fn bodies(&self) -> &'a [Body] {
        &self.layer.bodies
    }

    /// The weights that constants refer to.
    pub fn weights(&self) -> &'a Arc<Weights> {
        self.weights
    }

    /// The text of an attribute, if it exists.
    pub fn text(&mut self, name: &str) -> Option<&'a str> {
        let position = self.layer.data.iter().position(|(key, _)| key == name)?;
        if let Some(used) = self.used.get_mut(position) {
            *used = true;
        }
        self.layer.data.get(position).map(|(_, value)| value.as_str())
    }

    /// Marks attributes as known although irrun does not use them.
    pub fn ignore(&mut self, names: &[&str]) {
        for name in names {
            let _ = self.text(name);
        }
    }

    /// Parses an attribute with `parse`, if it exists.
    pub fn optional<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> std::result::Result<T, String>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        parse(text.trim()).map(Some).map_err(|message| AttrError::new(name, message))
    }

    /// Parses a required attribute.
    pub fn required<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> std::result::Result<T, String>,
    ) -> Result<T> {
        self.optional(name, parse)?.ok_or_else(|| AttrError::new(name, "is missing"))
    }

    /// A required integer.
    pub fn int(&mut self, name: &str) -> Result<i64> {
        self.required(name, number)
    }

    /// An integer with a default.
    pub fn int_or(&mut self, name: &str, default: i64) -> Result<i64> {
        Ok(self.optional(name, number)?.unwrap_or(default))
    }

    /// An integer with a default, in a range.
    pub fn int_in(
        &mut self,
        name: &str,
        default: Option<i64>,
        range: impl RangeBounds<i64> + std::fmt::Debug,
    ) -> Result<i64> {
        let value = match default {
            Some(default) => self.int_or(name, default)?,
            None => self.int(name)?,
        };
        if !range.contains(&value) {
            return Err(AttrError::new(name, format!("{value} is not in {range:?}")));
        }
        Ok(value)
    }

    /// A count in a range of non-negative numbers, with an optional default.
    pub fn count_in(
        &mut self,
        name: &str,
        default: Option<i64>,
        range: impl RangeBounds<i64> + std::fmt::Debug,
    ) -> Result<usize> {
        let value = self.int_in(name, default, range)?;
        usize::try_from(value).map_err(|_| AttrError::new(name, format!("{value} is too large")))
    }

    /// A required size of at least 1.
    pub fn size(&mut self, name: &str) -> Result<usize> {
        self.count_in(name, None, 1..)
    }

    /// A required floating-point number.
    pub fn float(&mut self, name: &str) -> Result<f64> {
        self.required(name, number)
    }

    /// A floating-point number with a default.
    pub fn float_or(&mut self, name: &str, default: f64) -> Result<f64> {
        Ok(self.optional(name, number)?.unwrap_or(default))
    }

    /// A floating-point number in f32, the precision in which the operation computes.
    pub fn single(&mut self, name: &str, default: Option<f32>) -> Result<f32> {
        match default {
            Some(default) => Ok(self.optional(name, number)?.unwrap_or(default)),
            None => self.required(name, number),
        }
    }

    /// A boolean: true, false, 1 or 0 in any letter case. Any other text gives the default, as in
    /// OpenVINO, and is a finding of `check`.
    pub fn bool_or(&mut self, name: &str, default: bool) -> bool {
        let Some(text) = self.text(name) else { return default };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => {
                let message = format!("{name}=\"{text}\" is neither true nor false");
                self.ignored.push((name.to_owned(), message));
                default
            }
        }
    }

    /// A required list of numbers; blank text is an empty list.
    pub fn list<T: FromStr>(&mut self, name: &str) -> Result<Vec<T>> {
        self.required(name, numbers)
    }

    /// A list of numbers, if it exists.
    pub fn list_opt<T: FromStr>(&mut self, name: &str) -> Result<Option<Vec<T>>> {
        self.optional(name, numbers)
    }

    /// A required word out of several, in any letter case.
    pub fn choice<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<T> {
        self.required(name, |text| word(text, words))
    }

    /// One of several words, with a default.
    pub fn choice_or<T: Copy>(&mut self, name: &str, words: &[(&str, T)], default: T) -> Result<T> {
        Ok(self.optional(name, |text| word(text, words))?.unwrap_or(default))
    }

    /// A required element type.
    pub fn element_type(&mut self, name: &str) -> Result<ElementType> {
        self.required(name, element_type)
    }

    /// An element type with a default.
    pub fn element_type_or(&mut self, name: &str, default: ElementType) -> Result<ElementType> {
        Ok(self.optional(name, element_type)?.unwrap_or(default))
    }

    /// The element type of indices, i32 or i64, with a default.
    pub fn index_type_or(&mut self, name: &str, default: ElementType) -> Result<ElementType> {
        match self.element_type_or(name, default)? {
            found @ (ElementType::I32 | ElementType::I64) => Ok(found),
            found => Err(AttrError::new(name, format!("must be i32 or i64, not {found}"))),
        }
    }

    /// A partial shape, if it exists.
    pub fn shape_opt(&mut self, name: &str) -> Result<Option<PartialShape>> {
        self.optional(name, |text| text.parse().map_err(|e: crate::ShapeTextError| e.to_string()))
    }

    /// The attributes that were not read, and those that gave their default, with what is wrong
    /// with them.
    pub fn finish(self) -> (Vec<String>, Vec<(String, String)>) {
        let unread = self.layer.data.iter().zip(&self.used).filter(|(_, used)| !**used);
        (unread.map(|((name, _), _)| name.clone()).collect(), self.ignored)
    }
}

fn number<T: FromStr>(text: &str) -> std::result::Result<T, String> {
    text.trim().parse().map_err(|_| format!("\"{text}\" is not a number"))
}

fn numbers<T: FromStr>(text: &str) -> std::result::Result<Vec<T>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(number).collect()
}

fn element_type(text: &str) -> std::result::Result<ElementType, String> {
    ElementType::from_attribute(text).ok_or_else(|| {
        format!("\"{text}\" is not an element type; write it like f32, i64 or boolean")
    })
}

fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> std::result::Result<T, String> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("\"{text}\" is not one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(data: &[(&str, &str)]) -> Layer {
        let data = data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Layer { data, ..Layer::default() }
    }

    #[test]
    fn getters_and_their_errors() {
        let layer = layer(&[("n", "3"), ("l", "1, 2"), ("e", ""), ("b", "maybe"), ("t", "FP32")]);
        let weights = Arc::default();
        let mut a = Attrs::new(&layer, &weights);
        assert_eq!(a.int("n"), Ok(3));
        assert_eq!(a.list::<i64>("l"), Ok(vec![1, 2]));
        assert_eq!(a.list::<i64>("e"), Ok(vec![]));
        assert_eq!(a.int_or("absent", 7), Ok(7));
        let text = |e: AttrError| e.to_string();
        assert_eq!(a.int("absent").map_err(text), Err("attribute absent: is missing".into()));
        assert_eq!(
            a.int_in("n", None, 0..3).map_err(text),
            Err("attribute n: 3 is not in 0..3".into())
        );
        assert_eq!(
            a.choice("l", &[("x", 1), ("y", 2)]).map_err(text),
            Err("attribute l: \"1, 2\" is not one of x, y".into())
        );
        assert!(a.bool_or("b", true));
        let (unread, ignored) = a.finish();
        assert_eq!(unread, ["t"]);
        let message = "b=\"maybe\" is neither true nor false";
        assert_eq!(ignored, [("b".to_owned(), message.to_owned())]);
    }
}
