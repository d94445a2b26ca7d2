//! Attributes of layers, in the spellings of all old versions.

use super::model::{Blob, Extra};
use crate::element::ElementType;
use crate::graph::{Layer, Port};
use crate::text::leading_integer;

/// A layer as in the file.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    pub(super) layer: &'a Layer,
    pub(super) extra: Option<&'a Extra>,
}

impl<'a> Old<'a> {
    /// The first of these attributes that exists.
    pub(super) fn text(self, keys: &[&str]) -> Option<&'a str> {
        keys.iter().find_map(|key| self.layer.attribute(key)).map(str::trim)
    }

    /// An integer; what follows it is ignored, as in the old inference engine.
    pub(super) fn int(self, key: &str) -> Result<Option<i64>, String> {
        let parse = |text: &str| leading_integer(text).ok_or_else(|| not(key, text, "an integer"));
        self.text(&[key]).map(parse).transpose()
    }

    /// As [`Self::int`], with a default.
    pub(super) fn int_or(self, key: &str, default: i64) -> Result<i64, String> {
        Ok(self.int(key)?.unwrap_or(default))
    }

    /// A required integer.
    pub(super) fn needed(self, key: &str) -> Result<i64, String> {
        self.int(key)?.ok_or_else(|| format!("it has no {key}"))
    }

    /// Comma-separated integers.
    pub(super) fn ints(self, key: &str) -> Result<Option<Vec<i64>>, String> {
        let Some(text) = self.text(&[key]).filter(|text| !text.is_empty()) else { return Ok(None) };
        let parse =
            |item| leading_integer(item).ok_or_else(|| not(key, text, "a list of integers"));
        text.split(',').map(parse).collect::<Result<_, _>>().map(Some)
    }

    /// Required integers.
    pub(super) fn needed_ints(self, key: &str) -> Result<Vec<i64>, String> {
        self.ints(key)?.ok_or_else(|| format!("it has no {key}"))
    }

    /// A number.
    pub(super) fn float(self, key: &str) -> Result<Option<f32>, String> {
        let parse = |text: &str| text.parse().map_err(|_| not(key, text, "a number"));
        self.text(&[key]).map(parse).transpose()
    }

    /// As [`Self::float`], with a default.
    pub(super) fn float_or(self, key: &str, default: f32) -> Result<f32, String> {
        Ok(self.float(key)?.unwrap_or(default))
    }

    /// Comma-separated numbers.
    pub(super) fn floats(self, key: &str) -> Result<Vec<f32>, String> {
        let text = self.text(&[key]).unwrap_or_default();
        let items = text.split(',').filter(|item| !item.trim().is_empty());
        let parse =
            |item: &str| item.trim().parse().map_err(|_| not(key, text, "a list of numbers"));
        items.map(parse).collect()
    }

    /// `1`, `0`, `true` or `false`, in any letter case.
    pub(super) fn flag(self, key: &str, default: bool) -> Result<bool, String> {
        match self.text(&[key]).map(str::to_ascii_lowercase).as_deref() {
            None | Some("") => Ok(default),
            Some("1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(text) => Err(not(key, text, "0 or 1")),
        }
    }

    /// A range of the `.bin`, by name.
    pub(super) fn blob(self, name: &str) -> Option<&'a Blob> {
        self.extra?.blobs.iter().find(|blob| blob.name == name && blob.size > 0)
    }

    /// The dims of an input, as the file declares them.
    pub(super) fn dims_in(self, input: usize) -> Result<Vec<i64>, String> {
        dims(&self.layer.inputs, input).ok_or_else(|| format!("it has no input {input}"))
    }

    /// The dims of an output, as the file declares them.
    pub(super) fn dims_out(self, output: usize) -> Result<Vec<i64>, String> {
        dims(&self.layer.outputs, output).ok_or_else(|| format!("it has no output {output}"))
    }

    /// The precision of the layer itself, which only some versions have.
    pub(super) fn precision(self) -> Option<ElementType> {
        let own = self.layer.tags.iter().find(|(key, _)| key == "precision");
        own.and_then(|(_, text)| ElementType::from_precision(text)).filter(|t| t.is_static())
    }
}

fn dims(ports: &[Port], index: usize) -> Option<Vec<i64>> {
    Some(ports.get(index)?.dims.to_vec())
}

fn not(key: &str, text: &str, what: &str) -> String {
    format!("{key}=\"{text}\" is not {what}")
}

/// An axis counted from the front.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize, String> {
    let rank = i64::try_from(rank).unwrap_or(i64::MAX);
    let from_front = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let inside = (0..rank).contains(&from_front);
    let found = usize::try_from(from_front).ok().filter(|_| inside);
    found.ok_or_else(|| format!("axis {axis} is out of range for rank {rank}"))
}

/// The product of dims, if it is a valid size.
pub(super) fn product(dims: &[i64]) -> Result<i64, String> {
    let all = dims.iter().try_fold(1i64, |n, d| n.checked_mul(*d).filter(|_| *d >= 0));
    all.ok_or_else(|| format!("{dims:?} is no shape"))
}

/// Comma-separated values, as attributes have them.
pub(super) fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}
