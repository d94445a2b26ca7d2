//! Broadcasting: NumPy, PDPD, or none.

use crate::lattice::dim::Dim;
use crate::lattice::shape::{Dims, PartialShape};
use crate::lattice::symbols::Symbols;
use crate::rule::attrs::Attrs;
use crate::rule::cx::InferCx;
use crate::rule::error::{AttrError, RuleError};

/// The `auto_broadcast` attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoBroadcast {
    /// Shapes must be equal.
    None,
    /// Aligned at the last axis; sizes of 1 are broadcast.
    Numpy,
    /// The second operand is aligned at an axis of the first; -1 means its last axes.
    Pdpd(i64),
}

impl AutoBroadcast {
    /// Reads the attribute, `axis` included.
    ///
    /// # Errors
    /// When it is not one of none, numpy, pdpd and their older spellings.
    pub fn parse(attrs: &mut Attrs<'_>, default: AutoBroadcast) -> Result<Self, AttrError> {
        let words = [("none", 0), ("explicit", 0), ("numpy", 1), ("pdpd", 2)];
        // The name in the specification, and the one that OpenVINO's writer uses.
        let axis = attrs.int_or("axis", -1)?;
        let axis = attrs.int_or("auto_broadcast.auto_broadcast_axis", axis)?;
        Ok(
            match attrs.optional("auto_broadcast", |text| {
                let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
                found
                    .map(|(_, k)| *k)
                    .ok_or_else(|| format!("\"{text}\" is not none, numpy or pdpd"))
            })? {
                None => default,
                Some(0) => AutoBroadcast::None,
                Some(1) => AutoBroadcast::Numpy,
                Some(_) => AutoBroadcast::Pdpd(axis),
            },
        )
    }

    /// The shape of the result.
    ///
    /// # Errors
    /// When the shapes do not fit each other.
    pub fn apply(
        self,
        a: &PartialShape,
        b: &PartialShape,
        symbols: &mut Symbols,
    ) -> Result<PartialShape, RuleError> {
        match self {
            AutoBroadcast::None => same(a, b),
            AutoBroadcast::Numpy => numpy(a, b, symbols),
            AutoBroadcast::Pdpd(axis) => pdpd(a, b, axis),
        }
    }

    /// The sizes of operand `b`, aligned with `a` for NumPy broadcasting.
    ///
    /// Only PDPD moves `b`: sizes of 1 are added after its own.
    pub fn aligned(self, a: &[usize], b: &[usize]) -> Vec<usize> {
        let AutoBroadcast::Pdpd(axis) = self else { return b.to_vec() };
        let b = if axis == -1 { b } else { trimmed(b) };
        let start = pdpd_start(axis, a.len(), b.len()).unwrap_or(0);
        let behind = a.len().saturating_sub(start + b.len());
        b.iter().copied().chain(std::iter::repeat_n(1, behind)).collect()
    }
}

/// The shape that both allow.
fn same(a: &PartialShape, b: &PartialShape) -> Result<PartialShape, RuleError> {
    a.meet(b).ok_or_else(|| RuleError::new(format!("shapes {a} and {b} must be equal")))
}

/// NumPy broadcasting.
///
/// # Errors
/// When the shapes cannot be broadcast; the message names the sizes.
pub fn numpy(
    a: &PartialShape,
    b: &PartialShape,
    symbols: &mut Symbols,
) -> Result<PartialShape, RuleError> {
    let (Some(x), Some(y)) = (a.dims(), b.dims()) else { return Ok(PartialShape::unranked()) };
    let rank = x.len().max(y.len());
    let at = |dims: &[Dim], axis: usize| {
        let missing = rank - dims.len();
        axis.checked_sub(missing).and_then(|i| dims.get(i)).copied().unwrap_or(Dim::fixed(1))
    };
    let dim = |axis| {
        merge(at(x, axis), at(y, axis), symbols).ok_or_else(|| {
            let (p, q) = (at(x, axis), at(y, axis));
            RuleError::new(format!(
                "shapes {a} and {b} do not fit: {p} and {q} differ and neither is 1"
            ))
        })
    };
    (0..rank).map(dim).collect()
}

/// The broadcast of two dims; `None` if they are incompatible.
pub fn merge(a: Dim, b: Dim, symbols: &Symbols) -> Option<Dim> {
    if symbols.same(a.symbol(), b.symbol()) {
        return a.meet(b);
    }
    match (a.contains(1), b.contains(1)) {
        _ if a.value() == Some(1) => Some(b),
        _ if b.value() == Some(1) => Some(a),
        (true, true) => Some(a.join(b)),
        (true, false) => Some(b),
        (false, true) => Some(a),
        (false, false) => a.meet(b),
    }
}

/// Trailing sizes of 1 are ignored.
fn trimmed(b: &[usize]) -> &[usize] {
    let keep = b.iter().rposition(|s| *s != 1).map_or(0, |i| i + 1);
    b.get(..keep).unwrap_or(b)
}

fn pdpd_start(axis: i64, rank: usize, other: usize) -> Option<usize> {
    match axis {
        -1 => rank.checked_sub(other),
        axis => usize::try_from(axis).ok(),
    }
}

fn pdpd(a: &PartialShape, b: &PartialShape, axis: i64) -> Result<PartialShape, RuleError> {
    let (Some(x), Some(y)) = (a.dims(), b.dims()) else { return Ok(a.clone()) };
    let keep = match axis {
        -1 => y.len(),
        _ => y.iter().rposition(|d| d.value() != Some(1)).map_or(0, |i| i + 1),
    };
    let y = y.get(..keep).unwrap_or(y);
    let start = pdpd_start(axis, x.len(), y.len()).filter(|start| start + y.len() <= x.len());
    let Some(start) = start else {
        return Err(RuleError::new(format!("shape {b} does not fit into {a} from axis {axis} on")));
    };
    let mut out: Dims = x.into();
    let axes = out.iter_mut().enumerate().skip(start).zip(y);
    for ((axis, p), q) in axes.filter(|(_, q)| !q.contains(1)) {
        let message = || format!("shapes {a} and {b} do not fit: axis {axis} has {p} and {q}");
        *p = p.meet(*q).ok_or_else(|| RuleError::new(message()))?;
    }
    Ok(PartialShape::Ranked(out))
}

/// Sets output 0 to the broadcast shape of inputs 0 and 1, with this element type.
///
/// # Errors
/// When the shapes cannot be broadcast.
pub fn set_broadcast(
    cx: &mut InferCx<'_>,
    rule: AutoBroadcast,
    element_type: ir::ElementType,
) -> Result<(), RuleError> {
    let (a, b) = (cx.shape(0), cx.shape(1));
    let shape = rule.apply(a, b, cx.symbols())?;
    cx.set(0, element_type, shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        use AutoBroadcast::*;
        let s = |t: &str| t.parse::<PartialShape>().unwrap();
        for (rule, a, b, expected) in [
            (Numpy, "2,1,4", "3,1", Ok("[2,3,4]")),
            (Numpy, "[]", "5", Ok("[5]")),
            (Numpy, "?,3", "2,1", Ok("[2,3]")),
            (Numpy, "..5", "?", Ok("[?]")),
            (Numpy, "0..1", "2..9", Ok("[2..9]")),
            (Numpy, "2..5", "4..9", Ok("[4..5]")),
            (Numpy, "0", "1", Ok("[0]")),
            (Numpy, "...", "5", Ok("[...]")),
            (Numpy, "2,3", "2,4", Err("3 and 4 differ and neither is 1")),
            (Numpy, "2..3", "4..9", Err("2..3 and 4..9 differ")),
            (None, "2,?", "?,3", Ok("[2,3]")),
            (None, "2", "1", Err("must be equal")),
            (Pdpd(1), "2,3,4,5", "3,4,1", Ok("[2,3,4,5]")),
            (Pdpd(-1), "2,3,4", "3,4", Ok("[2,3,4]")),
            (Pdpd(2), "2,3", "3,4", Err("does not fit into")),
            (Pdpd(0), "2,3", "3", Err("axis 0 has 2 and 3")),
            (Pdpd(1), "2,?,4..6", "2..3", Ok("[2,2..3,4..6]")),
            (Pdpd(1), "2,?,4..6", "5,?", Ok("[2,5,4..6]")),
            (Pdpd(1), "2,5,4", "..1", Ok("[2,5,4]")),
            (Pdpd(-1), "2,5,4", "..3,4", Ok("[2,5,4]")),
        ] {
            let found = rule.apply(&s(a), &s(b), &mut Symbols::default());
            match (found, expected) {
                (Ok(shape), Ok(text)) => assert_eq!(shape.to_string(), text, "{a} {b}"),
                (Err(e), Err(text)) => assert!(e.to_string().contains(text), "{e}"),
                (found, _) => panic!("{rule:?} {a} {b}: {found:?}"),
            }
        }
        assert_eq!(Pdpd(1).aligned(&[2, 3, 4, 5], &[3, 4, 1]), [3, 4, 1]);
        assert_eq!(Pdpd(0).aligned(&[2, 3, 4], &[2]), [2, 1, 1]);
        assert_eq!(Pdpd(-1).aligned(&[2, 3, 4], &[3, 1]), [3, 1]);
    }
}
