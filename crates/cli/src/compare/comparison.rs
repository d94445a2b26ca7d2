//! Tensors of the same names, compared pair by pair, and what people read of it.

use super::Tolerance;
use super::difference::{Bin, Difference, Element};
use infer::PartialShape;
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Serialize;

/// Two tensors of one name. `a` is what is judged, `b` what it is judged by.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Comparison {
    /// The name of both.
    pub name: String,
    /// Whether they agree.
    pub ok: bool,
    /// The element types of a and b.
    pub types: [String; 2],
    /// Their shapes.
    pub shapes: [Vec<usize>; 2],
    /// How far they may be apart.
    pub tolerance: Tolerance,
    /// Why their values are not compared, or why they cannot agree whatever the values are.
    pub mismatch: Option<String>,
    /// How their values differ.
    pub difference: Option<Difference>,
}

impl Comparison {
    /// Compares shape, element type and values, and lists the `worst` worst elements.
    pub(crate) fn of(
        name: &str,
        a: &Tensor,
        b: &Tensor,
        tolerance: Tolerance,
        worst: usize,
    ) -> Comparison {
        let pair = [a, b];
        let mut comparison = Comparison {
            name: name.to_owned(),
            ok: false,
            types: pair.map(|t| t.element_type().to_string()),
            shapes: pair.map(|t| t.sizes().to_vec()),
            tolerance,
            mismatch: None,
            difference: None,
        };
        if a.sizes() != b.sizes() {
            let [a, b] = pair.map(|t| PartialShape::fixed(t.sizes()));
            comparison.mismatch = Some(format!("shape {a}, expected {b}"));
            return comparison;
        }
        if a.element_type() != b.element_type() {
            let [a, b] = &comparison.types;
            comparison.mismatch = Some(format!("type {a}, expected {b}"));
        }
        if let (Some(a), Some(b)) = (a.as_strings(), b.as_strings()) {
            let difference = of_strings(a, b, worst, &comparison.shapes[0]);
            comparison.ok = comparison.mismatch.is_none() && difference.beyond == 0;
            comparison.difference = Some(difference);
            return comparison;
        }
        match Difference::of(a, b, tolerance, worst) {
            Ok(difference) => {
                comparison.ok = comparison.mismatch.is_none() && difference.beyond == 0;
                comparison.difference = Some(difference);
            }
            Err(error) => {
                comparison.mismatch.get_or_insert_with(|| error.to_string());
            }
        }
        comparison
    }
}

/// Strings are equal or not.
fn of_strings(a: &[Box<str>], b: &[Box<str>], worst: usize, sizes: &[usize]) -> Difference {
    let apart: Vec<usize> = (0..a.len().min(b.len())).filter(|&i| a[i] != b[i]).collect();
    let element = |&i: &usize| Element {
        index: super::index(i, sizes),
        a: format!("{:?}", a[i]),
        b: format!("{:?}", b[i]),
        abs: f64::NAN,
        rel: None,
        ulp: None,
    };
    let equal = a.len() - apart.len();
    Difference {
        elements: a.len(),
        beyond: apart.len(),
        incomparable: apart.len(),
        worst: apart.iter().take(worst).map(element).collect(),
        histogram: vec![Bin { above: -0.0, up_to: 0.0, count: equal }],
        ..Difference::default()
    }
}
