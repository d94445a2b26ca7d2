//! What is inferred for bounded inputs holds for every input within the bounds.
//!
//! Random chains of reshape and roll operations are propagated twice: with bounds, and with sizes
//! and values drawn from them. Every shape of the second is within that of the first.
//!
//! Three answers of OpenVINO that its users rely on are not sound, and are left out here: -1 with a
//! literal 0 is rejected unless the data is known to be empty; a value known as `0..n` is a size
//! even if special_zero would make a 0 a copy; and equal symbols cancel although 0 elements over 0
//! elements give 1. See `docs/dialects/reshape-and-roll.md`.

use ir::ElementType::{F32, I64};
use ir::{Graph, GraphBuilder, OutputRef};
use irrun_infer::{Analysis, InputSpec, Inputs, Interval, PartialShape, PartialValue, analyse};
use proptest::prelude::*;

/// An interval, and a number in it.
#[derive(Clone, Debug)]
struct Drawn {
    lo: i64,
    hi: i64,
    value: i64,
}

fn drawn(range: std::ops::RangeInclusive<i64>) -> impl Strategy<Value = Drawn> {
    [range.clone(), range.clone(), range].prop_map(|mut bounds| {
        bounds.sort_unstable();
        Drawn { lo: bounds[0], value: bounds[1], hi: bounds[2] }
    })
}

/// One operation of a chain.
#[derive(Clone, Debug)]
enum Step {
    Constant {
        pattern: Vec<i64>,
        special_zero: bool,
    },
    Static {
        shape: Vec<i64>,
        special_zero: bool,
    },
    Mxnet {
        shape: Vec<i64>,
        reverse: bool,
    },
    Caffe {
        dim: Vec<i64>,
        axis: i64,
        num_axes: i64,
    },
    Roll {
        shift: i64,
        axis: i64,
    },
    /// Back to the shape of the input, or to its dims in another order.
    ShapeOf {
        order: Option<Vec<i64>>,
    },
    /// By a pattern that is known by bounds only.
    Bounded {
        pattern: Vec<Drawn>,
        infer: Option<usize>,
    },
}

fn sizes() -> impl Strategy<Value = Vec<i64>> {
    let size = prop_oneof![3 => Just(0i64), 2 => Just(-1), 2 => Just(1), 3 => 2..5i64];
    prop::collection::vec(size, 0..4)
}

fn with_constants() -> impl Strategy<Value = Step> {
    let codes = prop::collection::vec(-4..4i64, 1..5);
    prop_oneof![
        (sizes(), any::<bool>()).prop_map(|(mut pattern, special_zero)| {
            if !special_zero && pattern.contains(&-1) {
                pattern.retain(|size| *size != 0);
            }
            Step::Constant { pattern, special_zero }
        }),
        (sizes(), any::<bool>())
            .prop_map(|(shape, special_zero)| Step::Static { shape, special_zero }),
        (codes, any::<bool>()).prop_map(|(shape, reverse)| Step::Mxnet { shape, reverse }),
        (sizes(), -2..3i64, -1..3i64).prop_map(|(dim, axis, num_axes)| Step::Caffe {
            dim,
            axis,
            num_axes
        }),
        (-9..9i64, -3..3i64).prop_map(|(shift, axis)| Step::Roll { shift, axis }),
    ]
}

fn with_values() -> impl Strategy<Value = Step> {
    let order = prop::option::of(Just(vec![0, 1, 2]).prop_shuffle());
    let pattern = prop::collection::vec(drawn(1..=4), 1..4);
    prop_oneof![
        order.prop_map(|order| Step::ShapeOf { order }),
        (pattern, prop::option::of(0..3usize))
            .prop_map(|(pattern, infer)| Step::Bounded { pattern, infer }),
    ]
}

fn text(list: &[i64]) -> String {
    list.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// A chain as a graph, its inputs as bounds and as exact values, and its tensors.
struct Chain {
    graph: Graph,
    bounds: Inputs,
    exact: Inputs,
    tensors: Vec<OutputRef>,
}

impl Chain {
    fn new(dims: &[Drawn], steps: &[Step]) -> Chain {
        let mut g = GraphBuilder::new("chain");
        let text: Vec<String> = dims.iter().map(|d| format!("{}..{}", d.lo, d.hi)).collect();
        let x = g.parameter("x", F32, &text.join(","));
        let shape: String = dims.iter().map(|d| format!("{},", d.value)).collect();
        let shape: PartialShape = shape.trim_end_matches(',').parse().unwrap();
        let mut bounds = Inputs { parameters: vec![InputSpec::default()], ..Inputs::default() };
        let exact = InputSpec { shape: Some(shape), ..InputSpec::default() };
        let mut exact = Inputs { parameters: vec![exact], ..Inputs::default() };
        let mut tensors = vec![x];
        for (i, step) in steps.iter().enumerate() {
            let last = tensors[i];
            let next = match step {
                Step::Bounded { pattern, infer } => {
                    let name = format!("p{i}");
                    let p = g.parameter(&name, I64, &pattern.len().to_string());
                    let (all, one) = (known(pattern, *infer, false), known(pattern, *infer, true));
                    bounds.parameters.push(all);
                    exact.parameters.push(one);
                    reshape(&mut g, last, p, false)
                }
                other => constant_step(&mut g, x, last, other),
            };
            tensors.push(next);
        }
        g.result("y", tensors[steps.len()]);
        Chain { graph: g.finish().unwrap(), bounds, exact, tensors }
    }

    /// Compares tensor by tensor, up to the first error with the exact inputs.
    fn check(&self) -> Result<(), TestCaseError> {
        let bounded = analyse(&self.graph, &self.bounds);
        let exact = analyse(&self.graph, &self.exact);
        for (i, tensor) in self.tensors.iter().enumerate() {
            let shape = |a: &Analysis| a.facts.output(*tensor).map(|f| f.shape.clone());
            let (Some(outer), Some(inner)) = (shape(&bounded), shape(&exact)) else {
                return Ok(());
            };
            if !inner.is_static() {
                return Ok(());
            }
            let id = Some(u64::try_from(tensor.layer).unwrap());
            let refused = bounded.findings.iter().find(|p| p.layer == id);
            let refused = refused.filter(|p| p.severity == ir::Severity::Error);
            prop_assert!(refused.is_none(), "step {i} gives {inner}, but by bounds: {refused:?}");
            prop_assert!(outer.covers(&inner), "step {i} gives {inner}, by bounds {outer}");
        }
        Ok(())
    }
}

/// The pattern as bounds or as the values drawn, with -1 at `infer`.
fn known(pattern: &[Drawn], infer: Option<usize>, exact: bool) -> InputSpec {
    let value = |(i, d): (usize, &Drawn)| {
        if infer == Some(i) {
            Interval::exact(-1)
        } else if exact {
            Interval::exact(d.value)
        } else {
            Interval::between(d.lo.into(), d.hi.into())
        }
    };
    let values = pattern.iter().enumerate().map(value).collect();
    let value = PartialValue::ints(I64, &[pattern.len()], values);
    InputSpec { value: Some(value.into()), ..InputSpec::default() }
}

fn reshape(g: &mut GraphBuilder, data: OutputRef, by: OutputRef, special_zero: bool) -> OutputRef {
    let special_zero = special_zero.to_string();
    let layer = g.layer("Reshape", "opset1").attribute("special_zero", &special_zero);
    layer.inputs(&[data, by]).output()
}

fn constant_step(g: &mut GraphBuilder, x: OutputRef, last: OutputRef, step: &Step) -> OutputRef {
    match step {
        Step::Constant { pattern, special_zero } => {
            let pattern = g.constant_i64(pattern);
            reshape(g, last, pattern, *special_zero)
        }
        Step::Static { shape, special_zero } => g
            .layer("StaticReshape", "onednn")
            .attribute("shape", &text(shape))
            .attribute("special_zero", &special_zero.to_string())
            .inputs(&[last])
            .output(),
        Step::Mxnet { shape, reverse } => g
            .layer("Reshape", "mxnet")
            .attribute("shape", &text(shape))
            .attribute("reverse", &reverse.to_string())
            .inputs(&[last])
            .output(),
        Step::Caffe { dim, axis, num_axes } => g
            .layer("Reshape", "caffe")
            .attribute("dim", &text(dim))
            .attribute("axis", &axis.to_string())
            .attribute("num_axes", &num_axes.to_string())
            .inputs(&[last])
            .output(),
        Step::Roll { shift, axis } => {
            let (shift, axis) = (g.constant_i64(&[*shift]), g.constant_i64(&[*axis]));
            g.layer("Roll", "opset7").inputs(&[last, shift, axis]).output()
        }
        Step::ShapeOf { order } => {
            let shape = g.layer("ShapeOf", "opset1").inputs(&[x]).output();
            let pattern = match order {
                None => shape,
                Some(order) => {
                    let (order, axis) = (g.constant_i64(order), g.constant_i64(&[0]));
                    g.layer("Gather", "opset1").inputs(&[shape, order, axis]).output()
                }
            };
            reshape(g, last, pattern, false)
        }
        Step::Bounded { .. } => unreachable!("it has an input of its own"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn constant_patterns(
        dims in prop::collection::vec(drawn(0..=4), 0..4),
        steps in prop::collection::vec(with_constants(), 1..4),
    ) {
        Chain::new(&dims, &steps).check()?;
    }

    #[test]
    fn computed_patterns(
        dims in prop::collection::vec(drawn(1..=4), 3),
        steps in prop::collection::vec(prop_oneof![with_values(), with_constants()], 1..4),
    ) {
        Chain::new(&dims, &steps).check()?;
    }
}
