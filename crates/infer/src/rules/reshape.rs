//! One shape engine for every Reshape. The dialects translate their codes into [`Target`]s; the
//! engine infers the open dim and checks the number of elements.
//!
//! The rules are those of OpenVINO Reshape-1 (`docs/dialects/reshape-and-roll.md`): copied dims
//! stay out of the product, equal dims cancel, and what remains is divided.

use crate::lattice::dim::Dim;
use crate::lattice::shape::{Dims, PartialShape};
use crate::lattice::symbols::Symbols;
use crate::rule::error::RuleError;

/// One dim of the target shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// This size, or any size of the interval.
    Size(Dim),
    /// The size of input dim `i`.
    Copy(usize),
    /// The size that keeps the number of elements.
    Infer,
}

/// The size of the inferred dim if the other dims already have no elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyRule {
    /// OpenVINO: 0 elements over 0 elements give 1; copied zeros do not count.
    One,
    /// oneDNN, MXNet, Caffe: no size can be inferred.
    Refuse,
}

/// The output shape of a reshape from `input` to `targets`.
///
/// # Errors
/// When two dims are to be inferred, when a size does not divide, and when both sides are static
/// with different numbers of elements, even if the original framework does not check that.
pub(crate) fn reshape(
    input: &[Dim],
    targets: &[Target],
    empty: EmptyRule,
    symbols: &mut Symbols,
) -> Result<PartialShape, RuleError> {
    let open: Vec<usize> = (0..targets.len()).filter(|&i| targets[i] == Target::Infer).collect();
    if let [first, second, ..] = open[..] {
        let message = format!("dims {first} and {second} are both -1; only one can be inferred");
        return Err(RuleError::new(message));
    }
    let mut copied = vec![false; input.len()];
    let mut output = Dims::new();
    let mut rest = Sides::default();
    for target in targets {
        match *target {
            Target::Size(dim) => {
                rest.output.push(dim);
                output.push(dim);
            }
            Target::Copy(i) => {
                // Only the first copy of a dim may stay out of the product.
                if std::mem::replace(&mut copied[i], true) {
                    rest.output.push(input[i]);
                }
                output.push(input[i]);
            }
            Target::Infer => output.push(Dim::any()),
        }
    }
    rest.input = input.iter().zip(&copied).filter(|(_, c)| !**c).map(|(d, _)| *d).collect();
    if let [open] = open[..] {
        let has_zero = output.iter().any(|d| d.value() == Some(0));
        if empty == EmptyRule::Refuse && has_zero {
            return Err(RuleError::new(
                "-1 cannot be inferred beside a dim of 0; every size would fit",
            ));
        }
        output[open] = rest.infer(symbols)?;
    } else {
        rest.compare(symbols)?;
    }
    let output = PartialShape::Ranked(output);
    check_volume(input, &output)?;
    Ok(output)
}

/// The dims of both sides that are not copies of each other.
#[derive(Default)]
struct Sides {
    input: Dims,
    output: Dims,
}

impl Sides {
    /// Cancels dims that are known to be equal on both sides.
    fn cancel(&mut self, symbols: &Symbols) {
        let Sides { input, output } = self;
        input.retain(|a| {
            let equal =
                |b: &Dim| (a.is_static() && *b == *a) || symbols.same(a.symbol(), b.symbol());
            match output.iter().position(equal) {
                Some(i) if a.value() != Some(0) => {
                    output.remove(i);
                    false
                }
                _ => true,
            }
        });
    }

    /// The dim that makes both sides have equally many elements.
    fn infer(mut self, symbols: &Symbols) -> Result<Dim, RuleError> {
        self.cancel(symbols);
        let product = |dims: &Dims| dims.iter().fold(Dim::fixed(1), |p, d| p.times(*d));
        let known = |dims: &Dims| {
            let fixed = dims.iter().filter(|d| d.is_static());
            fixed.fold(Dim::fixed(1), |p, d| p.times(*d))
        };
        if known(&self.output) == Dim::fixed(0) && known(&self.input) != Dim::fixed(0) {
            return Err(RuleError::new(
                "-1 cannot be inferred beside a dim of 0 unless the input is empty",
            ));
        }
        let (total, part) = (product(&self.input), product(&self.output));
        if part == Dim::fixed(1) {
            return Ok(total);
        }
        if let (Some(total), Some(part)) = (total.value(), part.value()) {
            return match (total, part) {
                (0, 0) if self.input.iter().all(|d| d.is_static()) => Ok(Dim::fixed(1)),
                (0, 0) => Ok(Dim::any()),
                _ if part != 0 && total % part == 0 => Ok(Dim::fixed(total / part)),
                _ => Err(RuleError::new(format!(
                    "{total} elements do not divide evenly by {part} to give the dim of -1"
                ))),
            };
        }
        quotient(total, part).ok_or_else(|| {
            RuleError::new(format!(
                "no number of elements in {total} divides evenly by {part} to give the dim of -1"
            ))
        })
    }

    /// What two sides without an inferred dim tell about each other.
    fn compare(mut self, symbols: &mut Symbols) -> Result<(), RuleError> {
        self.cancel(symbols);
        let fixed = |dims: &Dims| {
            let fixed = dims.iter().filter(|d| d.is_static());
            fixed.fold(Dim::fixed(1), |p, d| p.times(*d))
        };
        let open = |dims: &Dims| {
            let open: Vec<Dim> = dims.iter().filter(|d| !d.is_static()).copied().collect();
            match open[..] {
                [one] => Some(one),
                _ => None,
            }
        };
        let (a, b) = (fixed(&self.input), fixed(&self.output));
        if a == b
            && a != Dim::fixed(0)
            && let (Some(a), Some(b)) = (open(&self.input), open(&self.output))
        {
            symbols.unite(a, b);
        }
        Ok(())
    }
}

/// Every `q` for which `q * part` may be `total`; `None` if there is none.
fn quotient(total: Dim, part: Dim) -> Option<Dim> {
    let unbounded = !total.is_bounded() || part.min() == 0;
    let max = if unbounded { Dim::INF } else { total.max() / part.min() };
    let min = match part.max() {
        0 => 0,
        Dim::INF => i64::from(total.min() > 0),
        most => total.min() / most + i64::from(total.min() % most != 0),
    };
    (min <= max).then(|| Dim::range(min, max).with_why(total.why().or(part.why())))
}

fn check_volume(input: &[Dim], output: &PartialShape) -> Result<(), RuleError> {
    let volume = |dims: &[Dim]| {
        let mut sizes = dims.iter().map(|d| d.value());
        sizes.try_fold(1i128, |v, d| v.checked_mul(i128::from(d?)))
    };
    let before = PartialShape::Ranked(input.into());
    let (Some(a), Some(b)) = (volume(input), output.dims().and_then(volume)) else {
        return Ok(());
    };
    if a == b {
        return Ok(());
    }
    Err(RuleError::new(format!(
        "the input {before} has {a} elements, the requested shape {output} has {b}"
    )))
}

#[cfg(test)]
mod tests {
    use super::Target::*;
    use super::*;

    fn run(input: &str, targets: &[Target], empty: EmptyRule) -> Result<String, String> {
        let input: PartialShape = input.parse().unwrap();
        reshape(input.dims().unwrap(), targets, empty, &mut Symbols::default())
            .map(|s| s.to_string())
            .map_err(|e| e.to_string())
    }

    fn size(n: i64) -> Target {
        Size(Dim::fixed(n))
    }

    #[test]
    fn open_dims_are_quotients() {
        for (input, targets, expected) in [
            ("2,3,4", vec![size(6), Infer], "[6,4]"),
            ("1..8,4", vec![Infer, size(3)], "[2..10,3]"),
            ("0..8,3", vec![Infer, size(7)], "[..3,7]"),
            ("12", vec![Size(Dim::range(2, 4)), Infer], "[2..4,3..6]"),
            ("12", vec![Size(Dim::range(0, 4)), Infer], "[..4,3..]"),
            ("0,3", vec![size(3), Infer], "[3,0]"),
            ("2,0", vec![Copy(0), Infer], "[2,0]"),
            ("2,0", vec![size(0), Infer], "[0,1]"),
            ("?,0", vec![size(0), Infer], "[0,?]"),
        ] {
            assert_eq!(run(input, &targets, EmptyRule::One).as_deref(), Ok(expected), "{input}");
        }
        assert!(run("2,0", &[Copy(0), Infer], EmptyRule::Refuse).is_ok());
        assert!(run("0,2", &[Copy(0), Infer], EmptyRule::Refuse).is_err());
    }

    #[test]
    fn what_cannot_be() {
        for (input, targets, text) in [
            ("2,3", vec![Infer, Infer], "dims 0 and 1 are both -1"),
            ("2,3", vec![size(4), Infer], "6 elements do not divide evenly by 4"),
            ("4..5", vec![size(3), Infer], "no number of elements in 4..5 divides"),
            ("?,3", vec![Infer, size(0)], "beside a dim of 0"),
            (
                "2,3",
                vec![Copy(0), size(4)],
                "[2,3] has 6 elements, the requested shape [2,4] has 8",
            ),
        ] {
            let error = run(input, &targets, EmptyRule::One).unwrap_err();
            assert!(error.contains(text), "{input}: {error}");
        }
    }

    #[test]
    fn equal_symbols_cancel_and_spread() {
        let mut symbols = Symbols::default();
        let [a, b, c] = [symbols.fresh(), symbols.fresh(), symbols.fresh()];
        let dim = |s| Dim::any().with_symbol(s);
        let out = reshape(
            &[dim(a), dim(b), Dim::fixed(6)],
            &[Size(dim(b)), Infer, size(2)],
            EmptyRule::One,
            &mut symbols,
        );
        assert_eq!(out.unwrap().to_string(), "[?,?,2]");
        // [A,B,768] to [A,C,12,64] records B = C.
        let input = [dim(a), dim(b), Dim::fixed(768)];
        let targets = [Size(dim(a)), Size(dim(c)), size(12), size(64)];
        reshape(&input, &targets, EmptyRule::One, &mut symbols).unwrap();
        assert!(symbols.same(b, c));
    }
}
