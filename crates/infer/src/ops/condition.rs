//! If-8: runs one of two bodies, depending on a condition.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/condition/if-8.html>

use crate::fact::Fact;
use crate::rule::prelude::*;
use crate::rules::bodies::{Feed, Map, without_value};
use ir::Role;
use std::sync::Arc;

/// If-8.
#[derive(Debug)]
pub struct If {
    /// Index of the body and its port map, for true and for false.
    then: (usize, Map),
    other: (usize, Map),
    /// For each output whether the file declares a list. A scalar from one branch then becomes a
    /// list of one element, since the other branch gives a list.
    lists: Vec<bool>,
}

impl Parse for If {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let bodies = attrs.bodies();
        let body = |role: Role, name: &str| {
            let index = bodies.iter().position(|b| b.role == role);
            let found = index.and_then(|i| Some((i, bodies.get(i)?)));
            let (index, body) = found.ok_or_else(|| AttrError::new(name, "is missing"))?;
            Ok((index, Map::new(body)?))
        };
        let (then, other) = (body(Role::Then, "then_body")?, body(Role::Else, "else_body")?);
        let lists = attrs.declared_ranks().map(|rank| rank == Some(1)).collect();
        Ok(If { then, other, lists })
    }
}

impl If {
    /// The body for a condition: its index and its port map.
    pub fn branch(&self, condition: bool) -> &(usize, Map) {
        if condition { &self.then } else { &self.other }
    }

    fn outputs(
        &self,
        cx: &mut InferCx<'_>,
        condition: bool,
        count: usize,
    ) -> Result<Vec<Fact>, RuleError> {
        let (index, map) = self.branch(condition);
        let given: Vec<Option<Fact>> = map
            .feeds
            .iter()
            .map(|feed| match feed {
                Feed::Input(input) => Some(cx.fact(*input)),
                _ => None,
            })
            .collect();
        let results = cx.body(*index, &given)?;
        require!(
            map.outputs.len() == count,
            "a branch gives {} outputs, the layer has {count}",
            map.outputs.len()
        );
        let fact = |result: usize| results.get(result).cloned().unwrap_or_else(Fact::unknown);
        Ok(map.outputs.iter().map(|s| fact(s.result)).collect())
    }
}

impl Op for If {
    fn input_names(&self) -> &'static [&'static str] {
        &["cond"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=usize::MAX)?;
        cx.expect_condition(0)?;
        // Of several, the first decides, as in OpenVINO.
        require!(0; cx.shape(0).volume().value() != Some(0), "holds no element");
        let count = cx.output_count();
        let known = cx.truth(0);
        cx.because("it depends on which branch runs");
        let facts = match known {
            Some(condition) => self.outputs(cx, condition, count)?,
            None => self.either(cx, count)?,
        };
        for (output, fact) in facts.into_iter().enumerate() {
            let is_list = self.lists.get(output) == Some(&true);
            let fact = if is_list && fact.shape.rank() == Some(0) { listed(fact) } else { fact };
            cx.set_fact(output, fact);
        }
        Ok(())
    }
}

impl If {
    /// The facts that both branches allow. A branch that cannot work does not count: a run that
    /// takes it fails.
    fn either(&self, cx: &mut InferCx<'_>, count: usize) -> Result<Vec<Fact>, RuleError> {
        let (then, other) = (self.outputs(cx, true, count)?, self.outputs(cx, false, count)?);
        let (then_fails, other_fails) = (cx.fails(self.then.0), cx.fails(self.other.0));
        let facts = match (then_fails, other_fails) {
            (false, false) => {
                let pairs = then.into_iter().zip(other).enumerate();
                return pairs.map(|(output, (a, b))| joined(output, a, b)).collect();
            }
            // One of them will run.
            (true, true) => return Ok(vec![Fact::unknown(); count]),
            (false, true) => then,
            (true, false) => other,
        };
        cx.excuse(if then_fails { self.then.0 } else { self.other.0 });
        Ok(facts.into_iter().map(without_value).collect())
    }
}

fn joined(output: usize, a: Fact, b: Fact) -> Result<Fact, RuleError> {
    let (x, y) = (a.element_type, b.element_type);
    let differ = x.is_static() && y.is_static() && x != y;
    require!(!differ, "output {output} is {x} in one branch and {y} in the other");
    let element_type = if x.is_static() { x } else { y };
    let (a, b) = match (a.shape.rank(), b.shape.rank()) {
        (Some(0), Some(1)) => (listed(a), b),
        (Some(1), Some(0)) => (a, listed(b)),
        _ => (a, b),
    };
    Ok(without_value(Fact::new(element_type, a.shape.join(&b.shape))))
}

/// A scalar as a list of one element.
fn listed(fact: Fact) -> Fact {
    let shape = PartialShape::fixed(&[1]);
    let value = fact.value.as_ref().and_then(|v| v.reshaped(&[1])).map(Arc::new);
    Fact { shape, value, ..fact }
}

#[cfg(test)]
mod tests {
    use crate::{InputSpec, Inputs, PartialValue, analyse};
    use ir::{Body, ElementType, GraphBuilder, PortMap, Role, Severity};
    use std::sync::Arc;

    /// An If whose branches give tensors of these shapes.
    fn shape_of(then: &str, other: &str, condition: Option<i64>) -> String {
        let body = |role, shape: &str| {
            let mut g = GraphBuilder::new("");
            let x = g.parameter("x", ElementType::F32, shape);
            g.result("y", x);
            let outputs =
                vec![PortMap { external_port: 1, internal_layer: 1, ..PortMap::default() }];
            let graph = g.finish().unwrap();
            Body { role, graph, inputs: vec![], outputs, back_edges: vec![] }
        };
        let mut g = GraphBuilder::new("if");
        let c = g.parameter("c", ElementType::Boolean, "");
        let layer = g.layer("If", "opset8").inputs(&[c]);
        let y = layer.body(body(Role::Then, then)).body(body(Role::Else, other)).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        let value = condition.map(|c| {
            PartialValue::ints(ElementType::Boolean, &[], vec![crate::Interval::exact(c)])
        });
        let parameters = vec![InputSpec { value: value.map(Arc::new), ..InputSpec::default() }];
        let analysis = analyse(&graph, &Inputs { parameters, ..Inputs::default() });
        analysis.facts.output(y).unwrap().to_string()
    }

    /// An If over `x` of f32[2,3] whose first branch reshapes it to [5,7], and its findings:
    /// severity and message.
    fn impossible(condition: Option<bool>) -> (String, Vec<(Severity, String)>) {
        let body = |role, reshapes| {
            let mut g = GraphBuilder::new("");
            let mut x = g.parameter("x", ElementType::F32, "?,?");
            if reshapes {
                let shape = g.constant_i64(&[5, 7]);
                let layer = g.layer("Reshape", "opset1").attribute("special_zero", "false");
                x = layer.inputs(&[x, shape]).output();
            }
            g.result("y", x);
            let graph = g.finish().unwrap();
            let id = |layer: usize| graph.layers()[layer].id;
            let (parameter, result) = (id(graph.parameters()[0]), id(graph.results()[0]));
            let entry = |external_port, internal_layer| {
                vec![PortMap { external_port, internal_layer, ..PortMap::default() }]
            };
            let (inputs, outputs) = (entry(1, parameter), entry(2, result));
            Body { role, graph, inputs, outputs, back_edges: vec![] }
        };
        let mut g = GraphBuilder::new("if");
        let c = match condition {
            Some(c) => g.constant(ElementType::Boolean, &[], &[u8::from(c)]),
            None => g.parameter("c", ElementType::Boolean, ""),
        };
        let x = g.parameter("x", ElementType::F32, "2,3");
        let layer = g.layer("If", "opset8").inputs(&[c, x]);
        let y = layer.body(body(Role::Then, true)).body(body(Role::Else, false)).output();
        g.result("y", y);
        let analysis = analyse(&g.finish().unwrap(), &Inputs::default());
        let found = analysis.findings.iter().map(|p| (p.severity, p.full_message())).collect();
        (analysis.facts.output(y).unwrap().to_string(), found)
    }

    #[test]
    fn a_branch_that_cannot_work_is_judged_when_it_runs() {
        let (shape, found) = impossible(None);
        assert_eq!(shape, "f32[2,3]");
        assert!(
            matches!(&found[..], [(Severity::Note, text)] if text.contains("[5,7]")),
            "{found:?}"
        );
        assert_eq!(impossible(Some(false)), ("f32[2,3]".to_owned(), vec![]));
        let (_, found) = impossible(Some(true));
        assert!(found.iter().any(|(severity, _)| *severity == Severity::Error), "{found:?}");
    }

    #[test]
    fn branches_join() {
        assert_eq!(shape_of("", "1", None), "f32[1]");
        assert_eq!(shape_of("?", "", None), "f32[?]");
        assert_eq!(shape_of("", "1,1", None), "f32[...]");
        assert_eq!(shape_of("2,3", "2,5", None), "f32[2,3..5]");
        assert_eq!(shape_of("2", "2,5", None), "f32[...]");
        assert_eq!(shape_of("2", "2,5", Some(1)), "f32[2]");
        assert_eq!(shape_of("2", "2,5", Some(0)), "f32[2,5]");
    }
}
