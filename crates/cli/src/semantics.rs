//! `irrun check --semantics openvino-cpu`: where OpenVINO's CPU plugin is known to give something
//! else than the specification says, so that a difference has a name. `docs/numerics.md` has all of
//! it.

use clap::ValueEnum;
use infer::Facts;
use ir::{ElementType, Graph, Layer};
use schemars::JsonSchema;
use serde::Serialize;

/// Whose rules a model is looked at by.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum Semantics {
    /// Those of the specification, by which irrun computes.
    #[default]
    Spec,
    /// Those of OpenVINO's CPU plugin, where they are others.
    OpenvinoCpu,
}

/// Something that the CPU plugin does otherwise, in one layer or several.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Deviation {
    /// What it does.
    what: &'static str,
    /// The first layer, as messages call it.
    first: String,
    /// The ids of all the layers.
    layers: Vec<u64>,
}

/// What is known of one kind of layer.
struct Rule {
    what: &'static str,
    /// Whether a layer meets it, whose first input has this type.
    meets: fn(&Layer, ElementType) -> bool,
}

const RULES: [Rule; 11] = [
    Rule {
        what: "i64 and u64 are computed in 32 bits: other values beyond 2^31",
        meets: |layer, of| is_arithmetic(layer) && of.is_integral() && of.bits() == Some(64),
    },
    Rule {
        what: "i8 and u8 saturate instead of wrapping",
        meets: |layer, of| is_arithmetic(layer) && of.is_integral() && of.bits() == Some(8),
    },
    Rule {
        what: "integers are divided by truncation, not by floor",
        meets: |layer, of| {
            let is_floor = layer.attribute("m_pythondiv").is_none_or(|v| v != "false" && v != "0");
            layer.is("Divide") && of.is_integral() && is_floor
        },
    },
    Rule {
        what: "a division of integers by 0 gives the lowest value, not an error",
        meets: |layer, of| is_one_of(layer, &["Divide", "Mod", "FloorMod"]) && of.is_integral(),
    },
    Rule {
        what: "f64 is computed in f32, and infinities become finite",
        meets: |layer, of| of == ElementType::F64 && !is_moved(layer),
    },
    Rule {
        what: "true where either operand is NaN",
        meets: |layer, of| is_one_of(layer, &["Greater", "GreaterEqual"]) && of.is_real(),
    },
    Rule {
        what: "the second operand where either is NaN",
        meets: |layer, of| is_one_of(layer, &["Maximum", "Minimum"]) && of.is_real(),
    },
    Rule { what: "`min` for NaN", meets: |layer, of| layer.is("Clamp") && of.is_real() },
    Rule { what: "false for subnormal numbers", meets: |layer, _| layer.is("IsFinite") },
    Rule {
        what: "`antialias` is ignored",
        meets: |layer, _| {
            layer.is("Interpolate")
                && layer.attribute("antialias").is_some_and(|v| v == "true" || v == "1")
        },
    },
    Rule {
        what: "computed in f32, where irrun computes in f64 and rounds once",
        meets: |layer, _| is_one_of(layer, &["DFT", "IDFT", "RDFT", "IRDFT"]),
    },
];

fn is_one_of(layer: &Layer, op_types: &[&str]) -> bool {
    op_types.iter().any(|op_type| layer.is(op_type))
}

fn is_arithmetic(layer: &Layer) -> bool {
    let all =
        ["Add", "Subtract", "Multiply", "Power", "SquaredDifference", "Abs", "Negative", "MatMul"];
    is_one_of(layer, &all) || is_one_of(layer, &["ReduceSum", "ReduceProd", "ReduceMean", "CumSum"])
}

/// Whether a layer computes no new numbers.
fn is_moved(layer: &Layer) -> bool {
    is_one_of(
        layer,
        &["Parameter", "Const", "Result", "Reshape", "Transpose", "Squeeze", "Unsqueeze"],
    )
}

/// What the CPU plugin may do otherwise in a model. Values decide whether it shows; layers of
/// bodies are not looked at.
pub(crate) fn deviations(graph: &Graph, facts: &Facts) -> Vec<Deviation> {
    let of_rule = |rule: &Rule| {
        let meets = |&position: &usize| {
            let layer = graph.layers().get(position)?;
            let input = graph.inputs_of(position).first().and_then(|source| facts.output(*source));
            let of = input.map_or(ElementType::Dynamic, |fact| fact.element_type);
            (rule.meets)(layer, of).then_some(layer)
        };
        let layers: Vec<&Layer> = graph.order().iter().filter_map(meets).collect();
        let first = layers.first()?.title();
        let layers = layers.iter().map(|layer| layer.id).collect();
        Some(Deviation { what: rule.what, first, layers })
    };
    RULES.iter().filter_map(of_rule).collect()
}

/// What people read.
pub(crate) fn text(deviations: &[Deviation]) -> String {
    if deviations.is_empty() {
        return "\nOpenVINO's CPU plugin is not known to compute anything else\n".to_owned();
    }
    let line = |deviation: &Deviation| {
        let more = match deviation.layers.len() {
            0 | 1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        format!("  {}{more}: {}\n", deviation.first, deviation.what)
    };
    let lines: String = deviations.iter().map(line).collect();
    format!("\nOpenVINO's CPU plugin may give other values (docs/numerics.md)\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{ElementType, GraphBuilder};

    #[test]
    fn types_decide_what_the_plugin_does() {
        let told = |element_type: ElementType| {
            let mut g = GraphBuilder::new("g");
            let x = g.parameter("x", element_type, "2");
            let sum = g.layer("Add", "opset1").inputs(&[x, x]).output();
            let quotient = g.layer("Divide", "opset1").inputs(&[sum, x]).output();
            g.result("y", quotient);
            let graph = g.finish().unwrap();
            let facts = infer::analyse(&graph, &infer::Inputs::default()).facts;
            let found = deviations(&graph, &facts);
            found
                .iter()
                .map(|d| (d.what.split(' ').next().unwrap(), d.layers.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(ElementType::F32), []);
        assert_eq!(told(ElementType::I64), [("i64", 1), ("integers", 1), ("a", 1)]);
        assert_eq!(told(ElementType::U8), [("i8", 1), ("integers", 1), ("a", 1)]);
        assert_eq!(told(ElementType::F64), [("f64", 2)]);
    }
}
