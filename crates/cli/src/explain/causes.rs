//! What a number of a shape follows from: the rule of its layer is asked with other numbers.

use super::quantity::Quantity;
use crate::expression::Term;
use infer::{Extensions, Fact, Facts, Interval};
use ir::{Graph, OutputRef};

/// What an output number of a layer depends on.
pub(super) struct Cause {
    /// Where inputs have the number: at several places where a rule wants them equal.
    pub(super) places: Vec<(usize, Quantity)>,
    /// The first of them.
    pub(super) quantity: Quantity,
    pub(super) number: i64,
    /// How the output follows from it, if others stay as they are.
    pub(super) term: Option<Term>,
}

/// The rules of a graph, with what is known of its tensors.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) graph: &'a Graph,
    pub(super) facts: &'a Facts,
}

impl Rules<'_> {
    /// What a number follows from, found by asking the layer's rule with other numbers.
    pub(super) fn causes(&self, quantity: Quantity, number: i64) -> Vec<Cause> {
        let position = quantity.tensor().layer;
        let sources = self.graph.inputs_of(position);
        let known = |source: &OutputRef| self.facts.output(*source).cloned();
        let Some(inputs) = sources.iter().map(known).collect::<Option<Vec<Fact>>>() else {
            return Vec::new();
        };
        let mut causes: Vec<Cause> = Vec::new();
        for (input, fact) in inputs.iter().enumerate() {
            for at in numbers(sources[input], fact) {
                let is_told = causes.iter().any(|cause| cause.places.contains(&(input, at)));
                let (Some(old), false) = (at.of(fact), is_told) else { continue };
                let Some(cause) = self.cause(quantity, number, &inputs, (input, at, old)) else {
                    continue;
                };
                let is_equal = |other: &&mut Cause| {
                    let equal = [&cause, other].iter().all(|c| c.term == Some(Term::IDENTITY));
                    equal && aligned(&inputs, sources, at).contains(&other.places[0])
                };
                match causes.iter_mut().find(is_equal) {
                    Some(other) => other.places.extend(cause.places),
                    None => causes.push(cause),
                }
            }
        }
        if causes.is_empty() {
            let rank = self.facts.output(quantity.tensor()).and_then(|fact| fact.shape.rank());
            causes.extend(wanted((quantity, number), rank, &inputs, sources));
        }
        causes
    }

    /// How an output number follows from one of an input; `None` where it does not.
    fn cause(
        &self,
        out: Quantity,
        number: i64,
        inputs: &[Fact],
        (input, at, old): (usize, Quantity, i64),
    ) -> Option<Cause> {
        let sources = self.graph.inputs_of(out.tensor().layer);
        let tried = |group: Vec<(usize, Quantity)>| {
            let ask = |new: i64| self.ask(out, inputs, &group, new);
            (points(old, number, &ask), group)
        };
        let follows = |points: &[(i64, i64)]| points.iter().any(|(_, y)| *y != number);
        // What must stay equal is changed together: the dims that broadcasting aligns, else all of
        // this size.
        let mut found = tried(vec![(input, at)]);
        if !follows(&found.0) {
            let other = tried(aligned(inputs, sources, at));
            found = if other.0.len() > 1 { other } else { found };
        }
        if found.0.len() < 2 {
            found = tried(alike(inputs, sources, old));
        }
        let (points, mut places) = found;
        let term = match points.len() {
            // No other number is allowed: does the output become open where this one is?
            0 | 1 if !self.opens(out, inputs, (input, at)) => return None,
            0 | 1 => (old == number).then_some(Term::IDENTITY),
            _ if !follows(&points) => return None,
            _ => Term::through(&points),
        };
        // The number that was asked about stands for the others.
        places.retain(|place| *place != (input, at));
        places.insert(0, (input, at));
        Some(Cause { places, quantity: at, number: old, term })
    }

    /// The number that comes out when some numbers of the inputs are another; `None` where the rule
    /// does not allow that.
    fn ask(
        &self,
        out: Quantity,
        inputs: &[Fact],
        at: &[(usize, Quantity)],
        new: i64,
    ) -> Option<i64> {
        let mut inputs = inputs.to_vec();
        for (input, quantity) in at {
            inputs[*input] = quantity.put(&inputs[*input], new);
        }
        out.of(self.outputs(out, &inputs)?.get(out.tensor().port)?)
    }

    /// Whether an output number is not known where a number of an input is not.
    fn opens(&self, out: Quantity, inputs: &[Fact], (input, at): (usize, Quantity)) -> bool {
        let mut inputs = inputs.to_vec();
        inputs[input] = at.opened(&inputs[input]);
        self.outputs(out, &inputs).is_some_and(|outputs| {
            outputs.get(out.tensor().port).is_some_and(|fact| out.of(fact).is_none())
        })
    }

    /// What is known of the outputs of a layer with these inputs, if its rule allows them.
    fn outputs(&self, out: Quantity, inputs: &[Fact]) -> Option<Vec<Fact>> {
        let position = out.tensor().layer;
        let layer = self.graph.layers().get(position)?;
        let op = &self.facts.node(position)?.op;
        let count = layer.outputs.len();
        Some(
            infer::infer_op(&**op, inputs, count, &layer.bodies, &Extensions::default(), None)
                .ok()?
                .0,
        )
    }
}

/// The element of a target shape that a dim is, as Reshape and Broadcast take one: an input with as
/// many elements as the output has dims. One element alone cannot change, so asking the rule tells
/// nothing of it.
fn wanted(
    (out, number): (Quantity, i64),
    rank: Option<usize>,
    inputs: &[Fact],
    sources: &[OutputRef],
) -> Option<Cause> {
    let Quantity::Dim(_, axis) = out else { return None };
    let element = |(input, fact): (usize, &Fact)| {
        let at = Quantity::Element(*sources.get(input)?, axis);
        let count = fact.value.as_ref()?.intervals()?.len();
        (rank == Some(count) && at.of(fact) == Some(number)).then_some((input, at))
    };
    let (input, quantity) = inputs.iter().enumerate().skip(1).find_map(element)?;
    Some(Cause { places: vec![(input, quantity)], quantity, number, term: Some(Term::IDENTITY) })
}

/// The dims of all inputs that broadcasting aligns with a dim of one, if they have its size.
fn aligned(inputs: &[Fact], sources: &[OutputRef], at: Quantity) -> Vec<(usize, Quantity)> {
    let Quantity::Dim(tensor, axis) = at else { return Vec::new() };
    let rank = |fact: &Fact| fact.shape.rank().unwrap_or(0);
    let own = sources.iter().position(|source| *source == tensor);
    let Some(fact) = own.and_then(|own| inputs.get(own)) else { return Vec::new() };
    let (behind, size) = (rank(fact).saturating_sub(axis), at.of(fact));
    let other = |(input, fact): (usize, &Fact)| {
        let place = Quantity::Dim(sources[input], rank(fact).checked_sub(behind)?);
        (!has_elements(fact) && place.of(fact) == size).then_some((input, place))
    };
    inputs.iter().enumerate().filter_map(other).collect()
}

/// The numbers of an input: its elements where they are known, else its dims.
fn numbers(tensor: OutputRef, fact: &Fact) -> Vec<Quantity> {
    const ELEMENTS: usize = 64;
    let elements = fact.value.as_ref().and_then(|v| v.intervals()).map(<[Interval]>::len);
    match elements {
        Some(count) if count <= ELEMENTS => {
            (0..count).map(|i| Quantity::Element(tensor, i)).collect()
        }
        _ => (0..fact.shape.rank().unwrap_or(0)).map(|axis| Quantity::Dim(tensor, axis)).collect(),
    }
}

/// Whether rules compute with the elements of a tensor: integers that are known.
fn has_elements(fact: &Fact) -> bool {
    fact.value.as_ref().is_some_and(|value| value.intervals().is_some())
}

/// All dims of all inputs that have the same size, which a rule may want to stay equal.
fn alike(inputs: &[Fact], sources: &[OutputRef], size: i64) -> Vec<(usize, Quantity)> {
    let mut found = Vec::new();
    for (input, fact) in inputs.iter().enumerate().filter(|(_, fact)| !has_elements(fact)) {
        for (axis, dim) in fact.shape.dims().unwrap_or_default().iter().enumerate() {
            if dim.value() == Some(size) {
                found.push((input, Quantity::Dim(sources[input], axis)));
            }
        }
    }
    found
}

/// What comes out for some numbers near one, and for multiples of it.
fn points(old: i64, number: i64, ask: &dyn Fn(i64) -> Option<i64>) -> Vec<(i64, i64)> {
    let near = (1..=9).flat_map(|step| [old + step, old - step]);
    let far = [2, 3, 4, 8].into_iter().map(|times| old.saturating_mul(times));
    let mut points: Vec<(i64, i64)> = near
        .chain(far)
        .filter(|new| *new > 0 && *new != old)
        .filter_map(|new| Some((new, ask(new)?)))
        .collect();
    points.push((old, number));
    points.sort_unstable();
    points.dedup();
    points
}
