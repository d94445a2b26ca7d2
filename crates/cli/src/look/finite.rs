//! `--nan-check`: the first layer that makes a NaN or an infinity of finite inputs.

use crate::print;
use crate::statistics::stretches_of;
use crate::text::plural;
use runtime::{Observed, Tensor};
use std::collections::HashSet;

/// The values so far that are not finite.
#[derive(Default)]
pub(crate) struct Finite {
    /// The outputs of layers, with the bodies around them.
    broken: HashSet<(String, usize, usize)>,
}

impl Finite {
    /// Looks at a value.
    ///
    /// # Errors
    /// When it is not finite, but all that it was made of is.
    pub(crate) fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
        let tensor = value.tensor().map_err(|e| e.to_string())?;
        let (nans, infinities) = count(&tensor);
        if nans + infinities == 0 {
            return Ok(());
        }
        let bodies: String = value.bodies.iter().map(|body| format!("{body}/")).collect();
        let inputs = value.graph.inputs_of(value.position);
        let key = |layer, port| (bodies.clone(), layer, port);
        let spread = inputs.iter().any(|s| self.broken.contains(&key(s.layer, s.port)));
        self.broken.insert(key(value.position, value.port));
        // What comes from outside is nobody's work, and a body's faults are found inside it.
        let is_given = inputs.is_empty() || !value.layer.bodies.is_empty();
        if spread || is_given {
            return Ok(());
        }
        let what = not_finite(nans, infinities);
        let place = if bodies.is_empty() { String::new() } else { format!(" in {bodies}") };
        Err(format!(
            "makes {what} among {}{place}, though all its inputs are finite (--nan-check); --dump \
             \"{}\" shows them",
            plural(tensor.count(), "element"),
            value.layer.name
        ))
    }
}

/// Says so when an input holds what is not finite: layers that pass it on are not named.
pub(crate) fn tell_of_input(name: &str, tensor: &Tensor) {
    let (nans, infinities) = count(tensor);
    if nans + infinities > 0 {
        let (what, of) = (not_finite(nans, infinities), plural(tensor.count(), "element"));
        print::note(format_args!("note: --nan-check: input \"{name}\" holds {what} among {of}"));
    }
}

/// `1 NaN and 2 infinities`.
fn not_finite(nans: usize, infinities: usize) -> String {
    match (nans, infinities) {
        (0, count) => infinite(count),
        (count, 0) => format!("{count} NaN"),
        (nans, count) => format!("{nans} NaN and {}", infinite(count)),
    }
}

fn infinite(count: usize) -> String {
    format!("{count} {}", if count == 1 { "infinity" } else { "infinities" })
}

/// How many elements are NaN, and how many are infinite.
pub(crate) fn count(tensor: &Tensor) -> (usize, usize) {
    if !tensor.element_type().is_real() {
        return (0, 0);
    }
    let (mut nans, mut infinite) = (0, 0);
    stretches_of(tensor, |values| {
        for value in values {
            nans += usize::from(value.is_nan());
            infinite += usize::from(value.is_infinite());
        }
    });
    (nans, infinite)
}
