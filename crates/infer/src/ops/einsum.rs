//! Einsum-7: sums of products of elements, with axes named by an equation.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/matrix/einsum-7.html>
//!
//! Blanks are allowed anywhere in the equation, as the specification says; OpenVINO rejects them.

use crate::rule::prelude::*;
use crate::rules::broadcast::{merge, numpy};

/// The axes of an operand or of the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Subscript {
    labels: Vec<u8>,
    /// The number of labels before the ellipsis, if there is one.
    ellipsis: Option<usize>,
}

/// Einsum-7.
#[derive(Debug)]
pub struct Einsum {
    inputs: Vec<Subscript>,
    output: Subscript,
}

impl Parse for Einsum {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        attrs.required("equation", equation)
    }
}

fn equation(text: &str) -> Result<Einsum, String> {
    let text: String = text.chars().filter(|c| *c != ' ').collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let inputs = left.split(',').map(subscript).collect::<Result<Vec<_>, _>>()?;
    let output = match right {
        Some(right) => subscript(right)?,
        None => implicit(&inputs),
    };
    for (i, label) in output.labels.iter().enumerate() {
        let name = char::from(*label);
        if !inputs.iter().any(|input| input.labels.contains(label)) {
            return Err(format!("no input has the label {name} of the output"));
        }
        if output.labels.iter().take(i).any(|earlier| earlier == label) {
            return Err(format!("the output has the label {name} twice"));
        }
    }
    Ok(Einsum { inputs, output })
}

fn subscript(text: &str) -> Result<Subscript, String> {
    let (head, tail) = text.split_once("...").unwrap_or((text, ""));
    let ellipsis = text.contains("...").then_some(head.len());
    let labels: Vec<u8> = head.bytes().chain(tail.bytes()).collect();
    if labels.iter().all(u8::is_ascii_alphabetic) {
        Ok(Subscript { labels, ellipsis })
    } else {
        Err(format!("\"{text}\" is not letters with at most one ellipsis"))
    }
}

/// The labels that occur only once, sorted, after the ellipsis.
fn implicit(inputs: &[Subscript]) -> Subscript {
    let all: Vec<u8> = inputs.iter().flat_map(|input| input.labels.iter().copied()).collect();
    let once = |label: &&u8| all.iter().filter(|other| other == label).count() == 1;
    let mut labels: Vec<u8> = all.iter().filter(once).copied().collect();
    labels.sort_unstable();
    Subscript { labels, ellipsis: inputs.iter().any(|i| i.ellipsis.is_some()).then_some(0) }
}

impl Subscript {
    /// How many axes the ellipsis covers for this rank.
    fn covered(&self, rank: usize) -> Option<usize> {
        rank.checked_sub(self.labels.len()).filter(|rest| *rest == 0 || self.ellipsis.is_some())
    }

    /// The axes as numbers: labels by their code. The last axis of the ellipsis is 128, and those
    /// before it count up.
    fn numbers(&self, covered: usize) -> Vec<usize> {
        const LAST: usize = 128;
        let (head, tail) = self.labels.split_at(self.ellipsis.unwrap_or(self.labels.len()));
        let named = |labels: &[u8]| labels.iter().map(|l| usize::from(*l)).collect::<Vec<_>>();
        let rest = (0..covered).rev().map(|i| LAST + i);
        named(head).into_iter().chain(rest).chain(named(tail)).collect()
    }
}

/// The sizes of the labels, as far as they are known.
#[derive(Default)]
struct Named {
    sizes: Vec<(u8, Dim)>,
}

impl Named {
    fn of(&self, label: u8) -> Option<Dim> {
        self.sizes.iter().find(|(name, _)| *name == label).map(|(_, size)| *size)
    }

    /// Merges a size of a label by `rule`, which says whether two sizes are compatible.
    fn join(
        &mut self,
        label: u8,
        size: Dim,
        rule: impl Fn(Dim, Dim) -> Option<Dim>,
    ) -> Result<(), RuleError> {
        match self.sizes.iter_mut().find(|(name, _)| *name == label) {
            None => self.sizes.push((label, size)),
            Some((_, known)) => {
                let (name, old) = (char::from(label), *known);
                *known = rule(old, size).ok_or_else(|| {
                    RuleError::new(format!("label {name} has sizes {old} and {size}"))
                })?;
            }
        }
        Ok(())
    }
}

impl Einsum {
    /// The axes of each input and of the output as numbers, which are equal for axes with the same
    /// label.
    ///
    /// # Errors
    /// When a rank does not match its subscript.
    pub fn axes(&self, ranks: &[usize]) -> Result<(Vec<Vec<usize>>, Vec<usize>), RuleError> {
        let mut most = 0;
        let mut axes = Vec::new();
        for (i, (input, rank)) in self.inputs.iter().zip(ranks).enumerate() {
            let covered = input.covered(*rank).ok_or_else(|| wrong_rank(i, input, *rank))?;
            most = covered.max(most);
            axes.push(input.numbers(covered));
        }
        let covered = if self.output.ellipsis.is_some() { most } else { 0 };
        Ok((axes, self.output.numbers(covered)))
    }

    fn shape(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        let (mut named, mut rest) = (Named::default(), PartialShape::scalar());
        for (i, input) in self.inputs.iter().enumerate() {
            let stamp = |e: RuleError| RuleError { input: Some(i), ..e };
            let Some(dims) = cx.shape(i).dims() else {
                for label in &input.labels {
                    let symbols = cx.symbols();
                    named.join(*label, Dim::any(), |a, b| merge(a, b, symbols)).map_err(stamp)?;
                }
                if input.ellipsis.is_some() {
                    rest = PartialShape::unranked();
                }
                continue;
            };
            let covered =
                input.covered(dims.len()).ok_or_else(|| wrong_rank(i, input, dims.len()))?;
            let (head, tail) = dims.split_at(input.ellipsis.unwrap_or(dims.len()));
            let (own, tail) = tail.split_at(covered);
            let mut diagonal = Named::default();
            for (label, size) in input.labels.iter().zip(head.iter().chain(tail)) {
                diagonal.join(*label, *size, Dim::meet).map_err(stamp)?;
            }
            let symbols = cx.symbols();
            for (label, size) in diagonal.sizes {
                named.join(label, size, |a, b| merge(a, b, symbols)).map_err(stamp)?;
            }
            rest = numpy(&rest, &own.iter().copied().collect(), symbols).map_err(stamp)?;
        }
        let size = |label: &u8| named.of(*label).unwrap_or(Dim::any());
        let labels = &self.output.labels;
        let (head, tail) = labels.split_at(self.output.ellipsis.unwrap_or(labels.len()));
        let rest = match self.output.ellipsis {
            None => &[][..],
            Some(_) => match rest.dims() {
                Some(dims) => dims,
                None => {
                    return Ok(cx.unranked("the rank of an input with an ellipsis is unknown"));
                }
            },
        };
        let dims = head.iter().map(size).chain(rest.iter().copied());
        Ok(dims.chain(tail.iter().map(size)).collect())
    }
}

fn wrong_rank(input: usize, subscript: &Subscript, rank: usize) -> RuleError {
    let count = subscript.labels.len();
    RuleError::at(input, format!("has rank {rank}, its subscript {count} labels"))
}

impl Op for Einsum {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        let inputs = self.inputs.len();
        cx.expect_inputs(inputs..=inputs)?;
        let element_type = cx.same_number(0..inputs)?;
        let shape = self.shape(cx)?;
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (equation, shapes, expected) in [
            ("i,i->", &["3", "3"][..], Ok("f32[]")),
            ("ab,bcd,bc->ca", &["2,5", "5,3,6", "5,3"], Ok("f32[3,2]")),
            ("kii->ki", &["2,3,?"], Ok("f32[2,3]")),
            ("dbbc,ca", &["7,2,2,4", "4,5"], Ok("f32[5,7]")),
            ("AbC", &["1,2,3"], Ok("f32[1,3,2]")),
            ("a...b,b...->a...", &["9,1,4,3", "3,11,7,1"], Ok("f32[9,11,7,4]")),
            ("i...,i...", &["3,2", "3,4,1"], Ok("f32[4,2]")),
            ("a ... -> ... a", &["2,3..4,4"], Ok("f32[3..4,4,2]")),
            ("i->...i", &["2"], Ok("f32[2]")),
            ("ij,jk->ik", &["2,1", "3,?"], Ok("f32[2,?]")),
            ("i,i->i", &["?", "4"], Ok("f32[4]")),
            ("i,i->i", &["?", "1"], Ok("f32[?]")),
            ("ij->ji", &["..."], Ok("f32[?,?]")),
            ("i...->i", &["..."], Ok("f32[?]")),
            ("i...->i...", &["..."], Ok("f32[...]")),
            ("->", &["[]"], Ok("f32[]")),
            ("ij,jk->ik", &["2,3", "4,5"], Err("input 1: label j has sizes 3 and 4")),
            ("ii->i", &["3,1"], Err("input 0: label i has sizes 3 and 1")),
            ("ij->i", &["2"], Err("input 0: has rank 1, its subscript 2 labels")),
            ("i->i", &["2,3"], Err("input 0: has rank 2, its subscript 1 labels")),
            ("i...,...->i...", &["1,2", "3"], Err("input 1: shapes [2] and [3] do not fit")),
            ("i,j->i", &["2"], Err("it takes 2 inputs, not 1")),
            ("i->j", &["2"], Err("equation: no input has the label j of the output")),
            ("ij->ii", &["2,2"], Err("equation: the output has the label i twice")),
            ("i1->i", &["2,2"], Err("\"i1\" is not letters with at most one ellipsis")),
            ("......->", &["2,2"], Err("is not letters with at most one ellipsis")),
        ] {
            let inputs = shapes.iter().map(|s| Input::shape(F32, s));
            Case::of("Einsum", "opset7")
                .attr("equation", equation)
                .inputs(inputs)
                .expect(&[expected]);
        }
    }

    #[test]
    fn numbers() {
        let einsum = equation("a...b,...a->b...").unwrap();
        let (inputs, output) = einsum.axes(&[3, 3]).unwrap();
        assert_eq!(inputs, [vec![97, 128, 98], vec![129, 128, 97]]);
        assert_eq!(output, [98, 129, 128]);
        assert!(einsum.axes(&[1, 3]).is_err());
    }
}
