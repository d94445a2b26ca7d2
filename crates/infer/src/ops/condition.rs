//! If-8: one of two bodies, as a condition says.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/condition/if-8.html>

use crate::fact::Fact;
use crate::prelude::*;
use crate::rules::bodies::{Feed, Map, without_value};
use ir::Role;

/// If-8.
#[derive(Debug)]
pub struct If {
    /// Index of the body and its map, for true and for false.
    then: (usize, Map),
    other: (usize, Map),
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
        Ok(If { then: body(Role::Then, "then_body")?, other: body(Role::Else, "else_body")? })
    }
}

impl If {
    /// The body that runs for a condition: its index and its map.
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
            map.sources.len() == count,
            "a branch gives {} outputs, the layer has {count}",
            map.sources.len()
        );
        let fact = |result: usize| results.get(result).cloned().unwrap_or_else(Fact::unknown);
        Ok(map.sources.iter().map(|s| fact(s.result)).collect())
    }
}

impl Op for If {
    fn input_names(&self) -> &'static [&'static str] {
        &["cond"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=usize::MAX)?;
        cx.expect_boolean(0)?;
        cx.expect_one(0, "element")?;
        let count = cx.output_count();
        let (then, other) = (self.outputs(cx, true, count)?, self.outputs(cx, false, count)?);
        let known = cx.int(0);
        cx.because("it depends on which branch runs");
        for (output, (a, b)) in then.into_iter().zip(other).enumerate() {
            let fact = match known {
                Some(0) => b,
                Some(_) => a,
                None => joined(output, a, b)?,
            };
            cx.set_fact(output, fact);
        }
        Ok(())
    }
}

fn joined(output: usize, a: Fact, b: Fact) -> Result<Fact, RuleError> {
    let (x, y) = (a.element_type, b.element_type);
    let differ = x.is_static() && y.is_static() && x != y;
    require!(!differ, "output {output} is {x} in one branch and {y} in the other");
    let element_type = if x.is_static() { x } else { y };
    Ok(without_value(Fact::new(element_type, a.shape.join(&b.shape))))
}

#[cfg(test)]
mod tests {
    use crate::{Given, Inputs, PartialValue, analyse};
    use ir::{Body, ElementType, GraphBuilder, PortMap, Role};
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
        let parameters = vec![Given { value: value.map(Arc::new), ..Given::default() }];
        let analysis = analyse(&graph, &Inputs { parameters, ..Inputs::default() });
        analysis.facts.output(y).unwrap().to_string()
    }

    #[test]
    fn branches_join() {
        assert_eq!(shape_of("2,3", "2,5", None), "f32[2,3..5]");
        assert_eq!(shape_of("2", "2,5", None), "f32[...]");
        assert_eq!(shape_of("2", "2,5", Some(1)), "f32[2]");
        assert_eq!(shape_of("2", "2,5", Some(0)), "f32[2,5]");
    }
}
