//! `--rtol`, `--atol`: how far values may be apart, for all tensors or for one.

use super::Tolerance;
use crate::text::nearest;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ir::ElementType;
use runtime::Tensor;
use std::fmt;
use std::str::FromStr;

/// The flags.
#[derive(Clone, Debug, Default, Args)]
pub struct ToleranceArgs {
    /// How far values may be apart, as a part of the expected value; `NAME:1e-4` for one tensor.
    /// Values pass where |got - expected| <= atol + rtol * |expected|.
    #[arg(long, value_name = "[NAME:]X", value_delimiter = ',', allow_negative_numbers = true)]
    pub rtol: Vec<Bound>,
    /// How far values may be apart, as a number; `NAME:1e-4` for one tensor.
    #[arg(long, value_name = "[NAME:]X", value_delimiter = ',', allow_negative_numbers = true)]
    pub atol: Vec<Bound>,
}

/// `--tol`: a tolerance that nobody has to choose.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Tol {
    /// From the element type and from how many terms are added up.
    Auto,
}

/// How far two engines may be apart that add `sums` terms, one after the other, in orders of their
/// own: their errors grow like the square root of that. For integers, not at all.
pub(crate) fn auto(expected: &Tensor, sums: u64) -> Tolerance {
    let Some(unit) = unit_roundoff(expected.element_type()) else { return Tolerance::default() };
    let rtol = unit * (4.0 * (sums as f64).sqrt()).max(16.0);
    Tolerance { rtol, atol: rtol * largest(expected) }
}

/// Half the distance from 1 to the next number of a type; none for integers.
pub(crate) fn unit_roundoff(element_type: ElementType) -> Option<f64> {
    match element_type {
        ElementType::F64 => Some(2_f64.powi(-53)),
        ElementType::F32 => Some(2_f64.powi(-24)),
        ElementType::F16 => Some(2_f64.powi(-11)),
        ElementType::BF16 => Some(2_f64.powi(-8)),
        _ => None,
    }
}

/// The largest finite magnitude.
pub(crate) fn largest(tensor: &Tensor) -> f64 {
    let wide = runtime::convert(tensor, ElementType::F64).ok();
    let values = wide.as_ref().and_then(|t| t.as_slice::<f64>()).unwrap_or_default();
    values.iter().filter(|v| v.is_finite()).fold(0.0, |most, v| most.max(v.abs()))
}

/// `1e-4`, or `NAME:1e-4` for the tensor of that name.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The tensor; all that have no bound of their own without it.
    pub name: Option<String>,
    /// The bound.
    pub value: f64,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|v| *v >= 0.0);
        if let Some(value) = number(text) {
            return Ok(Bound { name: None, value });
        }
        // A name may hold a colon, a number does not.
        let named = text.rsplit_once(':').and_then(|(name, value)| Some((name, number(value)?)));
        match named {
            Some((name, value)) if !name.is_empty() => {
                Ok(Bound { name: Some(name.to_owned()), value })
            }
            _ => Err("give a number from 0 on, or NAME:NUMBER".to_owned()),
        }
    }
}

/// The flags as they are written.
impl fmt::Display for ToleranceArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |Bound { name, value }: &Bound| match name {
            Some(name) => format!("{name}:{value:e}"),
            None => format!("{value:e}"),
        };
        let flags = [("rtol", &self.rtol), ("atol", &self.atol)];
        let flags = flags.into_iter().filter(|(_, bounds)| !bounds.is_empty());
        let shown = flags.map(|(flag, bounds)| {
            format!("{flag} {}", bounds.iter().map(bound).collect::<Vec<_>>().join(","))
        });
        f.write_str(&shown.collect::<Vec<_>>().join(", "))
    }
}

impl ToleranceArgs {
    /// Whether no bound is given.
    pub fn is_empty(&self) -> bool {
        self.rtol.is_empty() && self.atol.is_empty()
    }

    /// The tolerance of a tensor that `is_called` by its names; 0 where nothing is given.
    pub fn of(&self, is_called: impl Fn(&str) -> bool) -> Tolerance {
        let bound = |bounds: &[Bound]| {
            let own = bounds.iter().rfind(|b| b.name.as_deref().is_some_and(&is_called));
            own.or_else(|| bounds.iter().rfind(|b| b.name.is_none())).map_or(0.0, |b| b.value)
        };
        Tolerance { rtol: bound(&self.rtol), atol: bound(&self.atol) }
    }

    /// Refuses bounds of tensors that there are not. `known` are all names.
    ///
    /// # Errors
    /// The first bound whose name is none of them, with the one that was probably meant.
    pub fn all_name_one_of<'a>(&self, known: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        for (flag, bounds) in [("--rtol", &self.rtol), ("--atol", &self.atol)] {
            for Bound { name, value } in bounds {
                let Some(name) = name else { continue };
                if known.clone().any(|k| k == name) {
                    continue;
                }
                match nearest(name, known.clone()) {
                    Some(near) => bail!(
                        "{flag} {name}:{value}: nothing compared is called \"{name}\"; did you \
                         mean \"{near}\"?"
                    ),
                    None => bail!(
                        "{flag} {name}:{value}: nothing compared is called \"{name}\"; there is {}",
                        known.clone().take(10).collect::<Vec<_>>().join(", ")
                    ),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_all_and_of_one() {
        let bound = |text: &str| text.parse::<Bound>();
        let args = ToleranceArgs {
            rtol: vec![bound("1e-3").unwrap(), bound("a:0:1e-4").unwrap()],
            atol: vec![bound("b:2").unwrap()],
        };
        assert_eq!(args.of(|name| name == "a:0"), Tolerance { rtol: 1e-4, atol: 0.0 });
        assert_eq!(args.of(|name| name == "b"), Tolerance { rtol: 1e-3, atol: 2.0 });
        assert!(args.all_name_one_of(["a:0", "b"].into_iter()).is_ok());
        let error = args.all_name_one_of(["a:1", "b"].into_iter()).unwrap_err().to_string();
        assert!(error.ends_with("did you mean \"a:1\"?"), "{error}");
        for bad in ["", "x", "-1", "a:", ":1", "a:-1", "nan"] {
            assert!(bound(bad).is_err(), "{bad}");
        }
    }
}
