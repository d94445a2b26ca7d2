//! Compares a tensor with a golden one.

pub(crate) mod comparison;
pub(crate) mod difference;
pub(crate) mod show;
pub(crate) mod tolerance;

use crate::text::plural;
use anyhow::{Result, anyhow, bail};
use ir::ElementType;
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Serialize;

/// How far values may be apart: `|got - expected| <= atol + rtol * |expected|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

/// Compares shape, element type and values. NaN equals NaN and infinities are equal; integers
/// and booleans must be exact unless a tolerance is given.
///
/// # Errors
/// What differs: for values their number and the worst one, with its index.
pub(crate) fn compare(got: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<()> {
    if got.sizes() != expected.sizes() {
        bail!("shape {:?}, expected {:?}", got.sizes(), expected.sizes());
    }
    if got.element_type() != expected.element_type() {
        bail!("type {}, expected {}", got.element_type(), expected.element_type());
    }
    if let (Some(got), Some(expected)) = (got.as_strings(), expected.as_strings()) {
        return match got.iter().zip(expected).position(|(g, e)| g != e) {
            None => Ok(()),
            Some(i) => bail!("element {i} is {:?}, expected {:?}", got[i], expected[i]),
        };
    }
    let exact = tolerance.rtol == 0.0 && tolerance.atol == 0.0;
    let integral = got.element_type().is_integral() || got.element_type() == ElementType::Boolean;
    if integral && exact && got.bytes() == expected.bytes() {
        return Ok(());
    }
    let wide = |t: &Tensor| runtime::convert(t, ElementType::F64).map_err(|e| anyhow!("{e}"));
    let (g, e) = (wide(got)?, wide(expected)?);
    let pairs = g.as_slice::<f64>().unwrap_or_default().iter();
    let pairs = pairs.zip(e.as_slice::<f64>().unwrap_or_default());
    let mut wrong = 0;
    let mut worst: Option<(usize, f64, f64, f64)> = None;
    for (i, (&g, &e)) in pairs.enumerate() {
        let excess = excess(g, e, tolerance);
        if excess > 0.0 {
            wrong += 1;
            if worst.is_none_or(|w| excess > w.3) {
                worst = Some((i, g, e, excess));
            }
        }
    }
    let Some((i, g, e, _)) = worst else { return Ok(()) };
    let (apart, allowed) = ((g - e).abs(), tolerance.atol + tolerance.rtol * e.abs());
    // Of what is not finite there is no difference to tell.
    let difference = match apart.is_finite() {
        true => format!(" (difference {}, allowed {})", three(apart), three(allowed)),
        false => String::new(),
    };
    bail!(
        "{wrong} of {} differ; worst at {:?}: got {}, expected {}{difference}",
        plural(got.count(), "element"),
        index(i, got.sizes()),
        digits(g, got.element_type()),
        digits(e, got.element_type()),
    )
}

/// A value with as many digits as tell it from others of its type.
#[allow(clippy::cast_possible_truncation)] // It came from an f32 or less.
fn digits(v: f64, element_type: ElementType) -> String {
    match element_type {
        ElementType::F16 | ElementType::BF16 | ElementType::F32 => (v as f32).to_string(),
        _ => v.to_string(),
    }
}

/// Three digits, which are enough to judge a difference by.
fn three(v: f64) -> String {
    let text = format!("{v:.2e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    let plain = power.parse::<i32>().is_ok_and(|power| (-3..6).contains(&power));
    match plain.then(|| text.parse::<f64>().ok()).flatten() {
        Some(value) => value.to_string(),
        None => format!("{digits}e{power}"),
    }
}

/// By how much the difference exceeds what is allowed; 0 or less is fine.
fn excess(got: f64, expected: f64, tolerance: Tolerance) -> f64 {
    if got == expected || (got.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    let difference = (got - expected).abs();
    let over = difference - (tolerance.atol + tolerance.rtol * expected.abs());
    // A NaN or an infinity on one side only is as wrong as can be.
    if over.is_nan() || !got.is_finite() || !expected.is_finite() { f64::INFINITY } else { over }
}

fn index(mut i: usize, sizes: &[usize]) -> Vec<usize> {
    let mut index = vec![0; sizes.len()];
    for (slot, size) in index.iter_mut().zip(sizes).rev() {
        *slot = i % size;
        i /= size;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(values: &[f32]) -> Tensor {
        Tensor::from_vec(&[2, values.len() / 2], values.to_vec()).unwrap()
    }

    #[test]
    fn differences_are_described() {
        let tolerance = Tolerance { rtol: 0.1, atol: 0.0 };
        let inf = f32::INFINITY;
        assert!(
            compare(&t(&[1.0, f32::NAN, inf, 2.1]), &t(&[1.05, f32::NAN, inf, 2.0]), tolerance)
                .is_ok()
        );
        let e = compare(&t(&[1., 2., 3., 9.]), &t(&[1., 3., 3., 4.]), tolerance).unwrap_err();
        assert!(e.to_string().starts_with("2 of 4 elements differ; worst at [1, 1]: got 9"), "{e}");
        assert!(
            compare(&t(&[inf, 0.]), &t(&[1e30, 0.]), Tolerance { rtol: 0., atol: 1e38 }).is_err()
        );
        let ints = |v: i64| Tensor::from_vec(&[1], vec![v]).unwrap();
        let exact = Tolerance { rtol: 0.0, atol: 0.0 };
        assert!(compare(&ints(i64::MAX), &ints(i64::MAX), exact).is_ok());
        assert!(compare(&ints(3), &ints(4), exact).is_err());
        let e = compare(&t(&[1., f32::NAN]), &t(&[1., inf]), tolerance).unwrap_err();
        assert!(e.to_string().ends_with("worst at [1, 0]: got NaN, expected inf"), "{e}");
    }
}
