//! Loop-5 and TensorIterator-1: a body that runs repeatedly.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/loop-5.html>

use crate::fact::Fact;
use crate::rule::prelude::*;
use crate::rules::axes;
use crate::rules::bodies::{Feed, Map, without_value};

/// Rounds after which the rank of a value that flows back becomes unknown.
const ROUNDS: usize = 3;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ends by a count or a condition.
    Loop,
    /// Over the slices of its inputs.
    TensorIterator,
}

/// Loop-5 and TensorIterator-1.
#[derive(Debug)]
pub struct Iteration {
    kind: Kind,
    map: Map,
}

impl Parse for Iteration {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let body = attrs.bodies().first().ok_or_else(|| AttrError::new("body", "is missing"))?;
        Ok(Iteration { kind, map: Map::new(body)? })
    }
}

/// The parts of a slice along an axis: their number, and the first index of part `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Number of parts.
    pub parts: i64,
    first: i64,
    step: i64,
    size: i64,
}

impl Walk {
    /// The parts of a slice along an axis; both ends are inclusive.
    ///
    /// # Errors
    /// When the ends are out of range.
    pub fn new(slice: &ir::Slice, size: i64) -> Result<Walk, RuleError> {
        let wrap = |v: i64| if v < 0 { v.saturating_add(size) } else { v };
        let (start, end) = (wrap(slice.start), wrap(slice.end));
        let part = slice.part_size.max(1);
        if size == 0 {
            return Ok(Walk { parts: 0, first: 0, step: part, size: part });
        }
        let inside = (0..size).contains(&start) && (0..size).contains(&end);
        require!(inside, "slices from {start} to {end} of an axis of {size}");
        let parts = (start.abs_diff(end).saturating_add(1)) / part.unsigned_abs();
        let forward = slice.stride > 0;
        let first = if forward { start } else { start + 1 - part };
        let step = if forward { part } else { -part };
        Ok(Walk { parts: i64::try_from(parts).unwrap_or(0), first, step, size: part })
    }

    /// The first index of a part.
    pub fn start(self, part: i64) -> i64 {
        (self.first + part * self.step).max(0)
    }

    /// The size of a part.
    pub fn size(self) -> i64 {
        self.size
    }
}

impl Iteration {
    /// Which operation.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The port map of the body.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The number of iterations, as far as it is known.
    fn trips(&self, cx: &InferCx<'_>) -> Result<Dim, RuleError> {
        if self.kind == Kind::Loop {
            return Ok(match (cx.truth(1), cx.int(0)) {
                (Some(false), _) => Dim::fixed(0),
                (_, Some(count)) if count >= 0 => Dim::range(0, count),
                _ => Dim::any(),
            });
        }
        for (parameter, feed) in self.map.feeds.iter().enumerate() {
            let Feed::Sliced(input, slice) = feed else { continue };
            let shape = cx.shape(*input);
            let Some(rank) = shape.rank() else { continue };
            let stamp = |e: RuleError| {
                let name = self.map.parameter(parameter);
                RuleError::at(*input, format!("{} for {name} of the body", e.message))
            };
            let axis = axes::normalize(slice.axis, rank).map_err(stamp)?;
            if let Some(size) = shape.dim(axis).value() {
                return Ok(Dim::fixed(Walk::new(slice, size).map_err(stamp)?.parts));
            }
        }
        Ok(Dim::any())
    }

    /// The facts of the Parameters in the first iteration.
    fn given(&self, cx: &InferCx<'_>) -> Result<Vec<Option<Fact>>, RuleError> {
        let fact = |feed: &Feed| {
            Ok(match feed {
                Feed::Nothing | Feed::Counter => None,
                Feed::Input(input) => Some(cx.fact(*input)),
                Feed::Merged { input, .. } => Some(without_value(cx.fact(*input))),
                Feed::Sliced(input, slice) => {
                    let whole = cx.fact(*input);
                    let Some(dims) = whole.shape.dims() else {
                        return Ok(Some(without_value(whole)));
                    };
                    let axis = axes::normalize_of(*input, slice.axis, dims.len())?;
                    let part = whole.shape.with_dim(axis, Dim::fixed(slice.part_size));
                    Some(Fact::new(whole.element_type, part))
                }
            })
        };
        self.map.feeds.iter().map(fact).collect()
    }

    /// Propagates through the body until the facts that flow back do not change any more.
    fn settle(
        &self,
        cx: &mut InferCx<'_>,
        mut given: Vec<Option<Fact>>,
    ) -> Result<Vec<Fact>, RuleError> {
        for round in 0..=ROUNDS {
            let results = cx.body(0, &given)?;
            let mut settled = true;
            for (slot, feed) in given.iter_mut().zip(&self.map.feeds) {
                let (Feed::Merged { input, result }, Some(before)) = (feed, slot.as_ref()) else {
                    continue;
                };
                let after = results.get(*result).cloned().unwrap_or_else(Fact::unknown);
                let (first, next) = (before.element_type, after.element_type);
                let both_real = first.is_real() && next.is_real();
                let differ = first.is_static() && next.is_static() && first != next && !both_real;
                require!(*input; !differ, "is {first}, what flows back in its place is {next}");
                if before.shape.covers(&after.shape) {
                    continue;
                }
                settled = false;
                let shape = widened(&before.shape, &after.shape, round);
                *slot = Some(Fact::new(before.element_type, shape));
            }
            if settled {
                return Ok(results);
            }
        }
        cx.body(0, &given)
    }
}

/// A shape that covers those of all iterations: a dim that changes becomes any size, and after
/// several rounds the rank becomes unknown.
fn widened(before: &PartialShape, after: &PartialShape, round: usize) -> PartialShape {
    match (before.dims(), after.dims()) {
        (Some(a), Some(b)) if a.len() == b.len() && round < ROUNDS => {
            a.iter().zip(b).map(|(a, b)| if a.covers(*b) { *a } else { Dim::any() }).collect()
        }
        _ => PartialShape::unranked(),
    }
}

impl Op for Iteration {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Loop => &["trip_count", "execution_condition"],
            Kind::TensorIterator => &[],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        if self.kind == Kind::Loop {
            cx.expect_inputs(2..=usize::MAX)?;
            cx.expect_integer(0)?;
            cx.expect_condition(1)?;
        }
        let mut trips = self.trips(cx)?;
        let given = self.given(cx)?;
        let results = self.settle(cx, given)?;
        if cx.fails(0) && !self.runs(cx, trips) {
            cx.excuse(0);
        }
        if let Some(condition) = self.map.condition {
            let value = results.get(condition).and_then(|f| f.value.as_deref()?.truth());
            match value {
                // A condition that is always true leaves only the count.
                Some(true) if cx.truth(1).is_some() && trips.is_bounded() => {
                    trips = Dim::fixed(trips.max());
                }
                Some(false) => trips = Dim::range(trips.min().min(1), trips.max().min(1)),
                _ => {}
            }
        }
        let runs = match trips.value() {
            Some(0) => Runs::Never,
            _ if self.runs(cx, trips) => Runs::Surely,
            _ => Runs::Perhaps,
        };
        cx.because("it depends on what the iterations do");
        for (output, source) in self.map.outputs.iter().enumerate() {
            let fact = results.get(source.result).cloned().unwrap_or_else(Fact::unknown);
            let fact = match (&source.slice, fact.shape.dims()) {
                (None, _) => self.last(source.result, fact, runs, cx),
                (Some(slice), Some(dims)) => {
                    let axis = axes::normalize(slice.axis, dims.len())?;
                    let size = fact.shape.dim(axis).times(trips).unlabelled();
                    Fact::new(fact.element_type, fact.shape.with_dim(axis, size))
                }
                (Some(_), None) => fact,
            };
            cx.set_fact(output, without_value(fact));
        }
        Ok(())
    }
}

/// Whether the body runs at all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Never,
    Perhaps,
    Surely,
}

impl Iteration {
    /// Whether the body is known to run at least once.
    fn runs(&self, cx: &InferCx<'_>, trips: Dim) -> bool {
        match self.kind {
            Kind::Loop => cx.truth(1) == Some(true) && cx.int(0).is_some_and(|count| count != 0),
            Kind::TensorIterator => trips.min() > 0,
        }
    }

    /// The value after the last iteration. Without iterations it is the initial value of the
    /// Parameter, so it may be either if it is not known whether the body runs.
    fn last(&self, result: usize, fact: Fact, runs: Runs, cx: &InferCx<'_>) -> Fact {
        let feeds = self.map.feeds.iter();
        let mut merged = feeds.filter_map(|f| match f {
            Feed::Merged { input, result: r } if *r == result => Some(*input),
            _ => None,
        });
        match merged.next_back() {
            Some(input) if runs != Runs::Surely => {
                let first = cx.fact(input);
                let shape = match runs {
                    Runs::Never => first.shape,
                    _ => first.shape.join(&fact.shape),
                };
                let is_real = fact.element_type.is_real();
                let element_type = if is_real { fact.element_type } else { first.element_type };
                Fact::new(element_type, shape)
            }
            _ => fact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inputs, analyse};
    use ir::{Body, ElementType, Graph, GraphBuilder, PortMap, Role};

    /// Nested Loops, `depth` of them. Each body makes the value that flows back longer, or the
    /// inner Loop does, and converts it.
    fn nested(depth: usize, declared: ElementType, back: ElementType) -> Graph {
        let mut g = GraphBuilder::new("loops");
        let x = g.parameter("x", ElementType::F32, "2");
        let y = match depth {
            0 => x,
            _ => {
                let count = g.constant_i64(&[2]);
                iterate(&mut g, x, count, body(depth, declared, back))
            }
        };
        g.result("y", y);
        g.finish().unwrap()
    }

    /// A Loop over `graph`, whose result flows back to its Parameter.
    fn iterate(
        g: &mut GraphBuilder,
        x: ir::OutputRef,
        count: ir::OutputRef,
        graph: Graph,
    ) -> ir::OutputRef {
        let id = |layer: usize| graph.layers()[layer].id;
        let (parameter, result) = (id(graph.parameters()[0]), id(graph.results()[0]));
        let entry = |external_port, internal_layer| {
            vec![PortMap { external_port, internal_layer, ..PortMap::default() }]
        };
        let (inputs, outputs) = (entry(2, parameter), entry(3, result));
        let back_edges = vec![(result, parameter)];
        let body = Body { role: Role::Body, graph, inputs, outputs, back_edges };
        let always = g.constant(ElementType::Boolean, &[], &[1]);
        g.layer("Loop", "opset5").inputs(&[count, always, x]).body(body).output()
    }

    fn body(depth: usize, declared: ElementType, back: ElementType) -> Graph {
        let mut g = GraphBuilder::new("body");
        let x = g.parameter("x", declared, "?");
        let inner = match depth {
            1 => x,
            _ => {
                let start = g.constant_f32(&[1], &[0.0]);
                let count = g.constant_i64(&[2]);
                iterate(&mut g, start, count, body(depth - 1, declared, declared))
            }
        };
        let longer =
            g.layer("Concat", "opset1").attribute("axis", "0").inputs(&[inner, x]).output();
        let convert = g.layer("Convert", "opset1").attribute("destination_type", back.name());
        let y = convert.inputs(&[longer]).output();
        g.result("y", y);
        g.finish().unwrap()
    }

    /// The value that flows back is the initial value if the body never runs.
    #[test]
    fn a_body_that_may_not_run_leaves_the_initial_value() {
        for (count, expected) in
            [(None, "f32[2..4]"), (Some(0), "f32[2]"), (Some(1), "f32[4]"), (Some(-1), "f32[4]")]
        {
            let mut inner = GraphBuilder::new("body");
            inner.parameter("x", ElementType::F32, "?");
            let longer = inner.constant_f32(&[4], &[1.0; 4]);
            inner.result("y", longer);
            let mut g = GraphBuilder::new("loop");
            let x = g.parameter("x", ElementType::F32, "2");
            let count = match count {
                Some(count) => g.constant_i64(&[count]),
                None => g.parameter("count", ElementType::I64, "1"),
            };
            let y = iterate(&mut g, x, count, inner.finish().unwrap());
            g.result("y", y);
            let analysis = analyse(&g.finish().unwrap(), &Inputs::default());
            assert_eq!(analysis.facts.output(y).unwrap().to_string(), expected);
        }
    }

    fn errors(graph: &Graph) -> Vec<String> {
        let findings = analyse(graph, &Inputs::default()).findings;
        findings.iter().map(ir::Diagnostic::full_message).collect()
    }

    #[test]
    fn types_meet_those_of_the_body() {
        use ElementType::{F16, F32, I32};
        assert_eq!(errors(&nested(2, F32, F32)), [""; 0]);
        let [error] = &errors(&nested(1, F32, I32))[..] else { panic!("one error") };
        assert!(error.contains("is f32, what flows back in its place is i32"), "{error}");
        let found = errors(&nested(1, I32, F32));
        assert!(found.iter().any(|e| e == "it is declared i32, but given f32"), "{found:?}");
        // Real inputs of a body are converted, as in OpenVINO.
        assert_eq!(errors(&nested(1, F32, F16)), [""; 0]);
    }

    /// Without a limit, a body nested this deep would be propagated through 2^40 times.
    #[test]
    fn bodies_inside_bodies_come_to_an_end() {
        let found = errors(&nested(40, ElementType::F32, ElementType::F32));
        assert!(found.iter().any(|e| e.contains("too many to infer")), "{found:?}");
    }

    #[test]
    fn walks_include_both_ends() {
        let slice =
            |start, end, stride, part_size| ir::Slice { axis: 0, start, end, stride, part_size };
        let starts = |s: ir::Slice, size| {
            let walk = Walk::new(&s, size).unwrap();
            (0..walk.parts).map(|i| walk.start(i)).collect::<Vec<i64>>()
        };
        assert_eq!(starts(slice(0, -1, 1, 1), 3), [0, 1, 2]);
        assert_eq!(starts(slice(-1, 0, -1, 1), 3), [2, 1, 0]);
        assert_eq!(starts(slice(0, -1, 2, 2), 6), [0, 2, 4]);
        assert_eq!(starts(slice(-1, 0, -2, 2), 6), [4, 2, 0]);
        assert_eq!(starts(slice(0, -1, 1, 1), 0), [] as [i64; 0]);
        assert!(Walk::new(&slice(0, 5, 1, 1), 3).is_err());
    }
}
