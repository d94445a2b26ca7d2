//! Shapes: a list of dims, or an unknown rank.

use crate::lattice::dim::{Dim, Why};
use crate::lattice::value::MAX_ELEMENTS;
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

/// The dims of a shape of known rank.
pub type Dims = SmallVec<[Dim; 6]>;

/// A shape, as far as it is known.
#[derive(Clone, PartialEq, Eq)]
pub enum PartialShape {
    /// The rank is known; the dims as far as they are.
    Ranked(Dims),
    /// Nothing is known, for this reason.
    Unranked(Why),
}

use PartialShape::{Ranked, Unranked};

impl PartialShape {
    /// The shape of a scalar.
    pub fn scalar() -> PartialShape {
        Ranked(Dims::new())
    }

    /// An unknown rank; the driver supplies the reason.
    pub fn unranked() -> PartialShape {
        Unranked(Why::NONE)
    }

    /// A known rank with unknown dims. A rank too large for any value counts as unknown; it comes
    /// from a malicious file.
    pub fn of_rank(rank: usize) -> PartialShape {
        if rank > MAX_ELEMENTS {
            return PartialShape::unranked();
        }
        Ranked(SmallVec::from_elem(Dim::any(), rank))
    }

    /// A shape of known sizes.
    pub fn fixed(sizes: &[usize]) -> PartialShape {
        sizes.iter().map(|&size| Dim::of(size)).collect()
    }

    /// The rank, if it is known.
    pub fn rank(&self) -> Option<usize> {
        self.dims().map(<[Dim]>::len)
    }

    /// The dims, if the rank is known.
    pub fn dims(&self) -> Option<&[Dim]> {
        match self {
            Ranked(dims) => Some(dims),
            Unranked(_) => None,
        }
    }

    /// The dim of an axis; `Dim::any()` if the rank is unknown or the axis does not exist.
    pub fn dim(&self, axis: usize) -> Dim {
        self.dims().and_then(|d| d.get(axis)).copied().unwrap_or(Dim::any())
    }

    /// The same shape with another dim on an axis, if that axis is known to exist.
    pub fn with_dim(mut self, axis: usize, dim: Dim) -> PartialShape {
        if let Ranked(dims) = &mut self
            && let Some(slot) = dims.get_mut(axis)
        {
            *slot = dim;
        }
        self
    }

    /// The sizes, if all are known.
    pub fn sizes(&self) -> Option<SmallVec<[usize; 6]>> {
        self.dims()?.iter().map(|d| d.size()).collect()
    }

    /// Whether all sizes are known.
    pub fn is_static(&self) -> bool {
        self.dims().is_some_and(|dims| dims.iter().all(|d| d.is_static()))
    }

    /// Number of elements, as an interval. An unknown rank has any number.
    pub fn volume(&self) -> Dim {
        match self {
            Ranked(dims) => dims.iter().fold(Dim::fixed(1), |v, d| v.times(*d)),
            Unranked(why) => Dim::any().with_why(*why),
        }
    }

    /// The shapes that both allow; `None` if there are none.
    pub fn meet(&self, other: &PartialShape) -> Option<PartialShape> {
        match (self, other) {
            (Unranked(_), known) | (known, Unranked(_)) => Some(known.clone()),
            (Ranked(a), Ranked(b)) if a.len() == b.len() => {
                a.iter().zip(b).map(|(a, b)| a.meet(*b)).collect()
            }
            _ => None,
        }
    }

    /// The shapes that either allows.
    pub fn join(&self, other: &PartialShape) -> PartialShape {
        match (self, other) {
            (Ranked(a), Ranked(b)) if a.len() == b.len() => {
                a.iter().zip(b).map(|(a, b)| a.join(*b)).collect()
            }
            (Unranked(why), _) | (_, Unranked(why)) => Unranked(*why),
            _ => PartialShape::unranked(),
        }
    }

    /// Whether some shape is allowed by both.
    pub fn is_compatible(&self, other: &PartialShape) -> bool {
        self.meet(other).is_some()
    }

    /// Whether every shape of `other` is a shape of this.
    pub fn covers(&self, other: &PartialShape) -> bool {
        match (self, other) {
            (Unranked(_), _) => true,
            (_, Unranked(_)) => false,
            (Ranked(a), Ranked(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.covers(*b))
            }
        }
    }
}

impl FromIterator<Dim> for PartialShape {
    fn from_iter<I: IntoIterator<Item = Dim>>(dims: I) -> PartialShape {
        Ranked(dims.into_iter().collect())
    }
}

impl<const RANK: usize> From<[Dim; RANK]> for PartialShape {
    fn from(dims: [Dim; RANK]) -> PartialShape {
        dims.into_iter().collect()
    }
}

/// `[1,3..8,2..,?]`; `[]` for a scalar; `[...]` for an unknown rank.
impl fmt::Display for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unranked(_) => f.write_str("[...]"),
            Ranked(dims) => {
                f.write_str("[")?;
                for (i, dim) in dims.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{dim}")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl fmt::Debug for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not a partial shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a shape: {reason}; write it like [1,3..8,2..,?] or [...]")]
pub struct ShapeTextError {
    text: String,
    reason: String,
}

/// Reads what [`fmt::Display`] writes and what IR files hold: brackets and blanks are optional,
/// `-1` is `?`.
impl FromStr for PartialShape {
    type Err = ShapeTextError;

    fn from_str(text: &str) -> Result<PartialShape, ShapeTextError> {
        let fail = |reason: String| ShapeTextError { text: text.to_owned(), reason };
        let mut inner = text.trim();
        if let Some(rest) = inner.strip_prefix('[') {
            inner = rest.strip_suffix(']').ok_or_else(|| fail("a ] is missing".into()))?.trim();
        }
        match inner {
            "" => return Ok(PartialShape::scalar()),
            "..." => return Ok(PartialShape::unranked()),
            _ => {}
        }
        inner.split(',').map(|field| dim_from_text(field.trim()).map_err(fail)).collect()
    }
}

fn dim_from_text(text: &str) -> Result<Dim, String> {
    let number = |t: &str| {
        let digits = t.trim();
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<i64>().ok()).flatten().filter(|n| *n < Dim::INF)
    };
    let bad = || format!("\"{text}\" is not a dimension");
    match text {
        "" => return Err("a dimension is missing".into()),
        "?" | "-1" => return Ok(Dim::any()),
        _ => {}
    }
    let Some((low, high)) = text.split_once("..") else {
        return number(text).map(Dim::fixed).ok_or_else(bad);
    };
    let low = if low.trim().is_empty() { 0 } else { number(low).ok_or_else(bad)? };
    let high = if high.trim().is_empty() { Dim::INF } else { number(high).ok_or_else(bad)? };
    if low > high {
        return Err(format!("in \"{text}\" the lower bound exceeds the upper"));
    }
    Ok(Dim::range(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        for (text, shown) in [
            ("", "[]"),
            ("[ ]", "[]"),
            ("...", "[...]"),
            ("[...]", "[...]"),
            ("1, 03 ,?", "[1,3,?]"),
            ("[1..10,..5,2..,-1]", "[1..10,..5,2..,?]"),
            ("2..2", "[2]"),
            ("0", "[0]"),
        ] {
            assert_eq!(text.parse::<PartialShape>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["2,,3", "2,", "a", "+2", "2.5", "2;3", "{2}", "?,...", "5..2", "-2", "[2"] {
            assert!(text.parse::<PartialShape>().is_err(), "{text}");
        }
    }

    #[test]
    fn meet_join_cover() {
        let s = |t: &str| t.parse::<PartialShape>().unwrap();
        assert_eq!(s("1..4,?").meet(&s("3..9,2")), Some(s("3..4,2")));
        assert_eq!(s("1..4").meet(&s("5..9")), None);
        assert_eq!(s("1,2").meet(&s("1")), None);
        assert_eq!(s("...").meet(&s("7")), Some(s("7")));
        assert_eq!(s("1,3").join(&s("1,8")), s("1,3..8"));
        assert_eq!(s("1").join(&s("1,8")), s("..."));
        assert!(s("?,1..3").covers(&s("4..5,2")) && !s("4..5,2").covers(&s("?,1..3")));
        assert!(s("...").covers(&s("[]")) && !s("[]").covers(&s("...")));
        assert_eq!(s("2,3..4").volume(), Dim::range(6, 8));
    }
}
