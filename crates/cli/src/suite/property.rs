//! What outputs must satisfy whose values are implementation defined.

use super::case_file::{Property, PropertyName};
use anyhow::{Context, Result, anyhow, ensure};
use ir::ElementType;
use runtime::Tensor;

/// Checks shape, type and the property described: outputs with their examples.
///
/// # Errors
/// What is not satisfied.
pub fn check(property: &Property, pairs: &[(&Tensor, &Tensor)]) -> Result<()> {
    for (i, (got, golden)) in pairs.iter().enumerate() {
        ensure!(
            got.sizes() == golden.sizes() && got.element_type() == golden.element_type(),
            "output {i} is {got:?}, expected {golden:?}"
        );
    }
    let Some((first, _)) = pairs.first() else { return Ok(()) };
    match property.property {
        PropertyName::Uniform => {
            let (low, high) = (property.low.unwrap_or(0.0), property.high.unwrap_or(1.0));
            let values = numbers(first)?;
            let inside = |v: &f64| (low..high).contains(v);
            ensure!(values.iter().all(inside), "a value lies outside {low}..{high}");
            let spread = values.iter().any(|v| *v != values[0]) || values.len() < 2;
            ensure!(spread, "all values are the same");
        }
        PropertyName::Distribution => {
            let classes = property.classes.unwrap_or(f64::INFINITY);
            let inside = |v: &f64| *v >= 0.0 && *v < classes;
            ensure!(numbers(first)?.iter().all(inside), "a class lies outside 0..{classes}");
        }
        PropertyName::TopkSet => topk_set(property.axis.unwrap_or(-1), pairs)?,
    }
    Ok(())
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    let wide = runtime::convert(tensor, ElementType::F64).map_err(|e| anyhow!("{e}"))?;
    Ok(wide.as_slice::<f64>().unwrap_or_default().to_vec())
}

/// Along `axis` the outputs together are a permutation of the examples.
fn topk_set(axis: i64, pairs: &[(&Tensor, &Tensor)]) -> Result<()> {
    let Some((first, _)) = pairs.first() else { return Ok(()) };
    let sizes = first.sizes();
    for (i, (other, _)) in pairs.iter().enumerate() {
        let other = other.sizes();
        ensure!(other == sizes, "topk_set: output {i} is {other:?}, but output 0 is {sizes:?}");
    }
    let axis = axis_of(axis, sizes.len())?;
    if first.count() == 0 {
        return Ok(());
    }
    let inner: usize = sizes[axis + 1..].iter().product();
    let (size, outer) = (sizes[axis], sizes[..axis].iter().product::<usize>());
    let columns = |pick: fn(&(&Tensor, &Tensor)) -> Tensor| -> Result<Vec<Vec<f64>>> {
        pairs.iter().map(|pair| numbers(&pick(pair))).collect()
    };
    let (got, expected) = (columns(|p| p.0.clone())?, columns(|p| p.1.clone())?);
    for o in 0..outer {
        for i in 0..inner {
            let line = |columns: &[Vec<f64>]| {
                let entry = |k: usize| -> Vec<u64> {
                    columns.iter().map(|c| c[(o * size + k) * inner + i].to_bits()).collect()
                };
                let mut entries: Vec<Vec<u64>> = (0..size).map(entry).collect();
                entries.sort_unstable();
                entries
            };
            ensure!(line(&got) == line(&expected), "line {o}, {i} holds other elements");
        }
    }
    Ok(())
}

/// An axis counted from the front. It comes from a file, which may hold any number.
fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let ahead = if axis < 0 { i64::try_from(rank)?.checked_add(axis) } else { Some(axis) };
    let inside = ahead.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < rank);
    inside.with_context(|| {
        format!("topk_set: axis {axis} is out of range for an output of rank {rank}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_a_file_are_checked() {
        for (axis, found) in [(0, Some(0)), (2, Some(2)), (-1, Some(2)), (-3, Some(0))] {
            assert_eq!(axis_of(axis, 3).ok(), found, "{axis}");
        }
        for axis in [3, 99, -4, i64::MAX, i64::MIN] {
            assert!(axis_of(axis, 3).is_err(), "{axis}");
        }
        assert!(axis_of(0, 0).is_err(), "a scalar has no axis");
    }

    /// The elements of all outputs are compared at the places that the first has.
    #[test]
    fn outputs_of_a_set_are_of_one_shape() {
        let of = |sizes: &[usize], values: Vec<f32>| Tensor::from_vec(sizes, values).unwrap();
        let (long, short) = (of(&[3], vec![1., 2., 3.]), of(&[1], vec![1.]));
        let said = topk_set(0, &[(&long, &long), (&short, &short)]).unwrap_err().to_string();
        assert!(said.contains("output 1 is [1], but output 0 is [3]"), "{said}");
        let none = of(&[usize::MAX >> 20, 0], vec![]);
        assert!(topk_set(1, &[(&none, &none)]).is_ok(), "there is nothing to go through");
    }
}
