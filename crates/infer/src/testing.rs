//! Table tests for rules: one operation, described inputs, expected outputs or error text.

use crate::fact::Fact;
use crate::lattice::value::{Interval, PartialValue};
use crate::propagate::inputs::{InputSpec, Inputs};
use crate::{PartialShape, analyse};
use ir::{ElementType, GraphBuilder, Severity};

/// An input of the operation under test: an element type, a shape and maybe a value.
#[derive(Clone)]
pub(crate) struct Input(Fact);

impl Input {
    /// A tensor of which only type and shape are known.
    pub(crate) fn shape(element_type: ElementType, shape: &str) -> Input {
        Input(Fact::new(element_type, shape.parse().unwrap()))
    }

    /// A list of known integers.
    pub(crate) fn ints(element_type: ElementType, values: &[i64]) -> Input {
        let bounds: Vec<_> = values.iter().map(|v| (*v, *v)).collect();
        Input::bounds(element_type, &bounds)
    }

    /// A list of integers known by their bounds.
    pub(crate) fn bounds(element_type: ElementType, bounds: &[(i64, i64)]) -> Input {
        let values = bounds.iter().map(|(lo, hi)| Interval::between((*lo).into(), (*hi).into()));
        let value = PartialValue::ints(element_type, &[bounds.len()], values.collect());
        Input(Fact::new(element_type, PartialShape::fixed(&[bounds.len()])).with_value(value))
    }

    /// A known integer scalar.
    pub(crate) fn scalar(element_type: ElementType, value: i64) -> Input {
        let value = PartialValue::ints(element_type, &[], vec![Interval::exact(value)]);
        Input(Fact::new(element_type, PartialShape::scalar()).with_value(value))
    }

    /// A list of known floating-point values.
    pub(crate) fn reals(element_type: ElementType, values: &[f64]) -> Input {
        let pairs = values.iter().map(|v| (*v, *v)).collect();
        let value = PartialValue::reals(element_type, &[values.len()], pairs);
        Input(Fact::new(element_type, PartialShape::fixed(&[values.len()])).with_value(value))
    }

    /// The values of a list under another shape.
    pub(crate) fn shaped(self, sizes: &[usize]) -> Input {
        let value = self.0.value.and_then(|v| v.reshaped(sizes)).unwrap();
        Input(Fact::new(self.0.element_type, PartialShape::fixed(sizes)).with_value(value))
    }
}

/// One layer with its attributes and inputs.
#[derive(Clone)]
pub(crate) struct Case {
    op_type: &'static str,
    version: &'static str,
    attrs: Vec<(String, String)>,
    inputs: Vec<Input>,
    nominal: bool,
}

impl Case {
    /// A layer of a type and version.
    pub(crate) fn of(op_type: &'static str, version: &'static str) -> Case {
        Case { op_type, version, attrs: Vec::new(), inputs: Vec::new(), nominal: false }
    }

    /// A layer of OpenVINO Tokenizers whose inputs have these types and shapes.
    pub(crate) fn of_shapes(op_type: &'static str, inputs: &[(ElementType, &str)]) -> Case {
        let inputs = inputs.iter().map(|(t, shape)| Input::shape(*t, shape));
        Case::of(op_type, "extension").inputs(inputs)
    }

    /// With an attribute.
    pub(crate) fn attr(mut self, name: &str, value: &str) -> Case {
        self.attrs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With these inputs.
    pub(crate) fn inputs(mut self, inputs: impl IntoIterator<Item = Input>) -> Case {
        self.inputs = inputs.into_iter().collect();
        self
    }

    /// With sizes as the specification names them.
    pub(crate) fn nominal(mut self) -> Case {
        self.nominal = true;
        self
    }

    /// Checks each output, shown as `f32[1,?]` or `i64[2] = {2, 5}`. Where the case is an error,
    /// the expected text is a part of the message.
    pub(crate) fn expect(&self, outputs: &[Result<&str, &str>]) {
        let found = self.run(outputs.len());
        for (i, expected) in outputs.iter().enumerate() {
            match (&found, expected) {
                (Ok(facts), Ok(text)) => assert_eq!(&facts[i], text, "output {i} of {self}"),
                (Err(error), Err(text)) => {
                    assert!(
                        error.contains(text),
                        "{self}\n  found:    {error}\n  expected: {text}"
                    );
                }
                (found, expected) => {
                    panic!("{self}\n  found:    {found:?}\n  expected: {expected:?}")
                }
            }
        }
    }

    fn run(&self, outputs: usize) -> Result<Vec<String>, String> {
        let mut g = GraphBuilder::new("case");
        let mut given = Inputs { nominal: self.nominal, ..Inputs::default() };
        let mut sources = Vec::new();
        for (i, Input(fact)) in self.inputs.iter().enumerate() {
            let declared = fact.shape.to_string();
            sources.push(g.parameter(&format!("x{i}"), fact.element_type, &declared));
            given.parameters.push(InputSpec { value: fact.value.clone(), ..InputSpec::default() });
        }
        let attrs: Vec<_> = self.attrs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let layer = g.layer(self.op_type, self.version).attributes(&attrs).inputs(&sources);
        let outputs = layer.outputs(outputs);
        for (i, output) in outputs.iter().enumerate() {
            g.result(&format!("y{i}"), *output);
        }
        let graph = g.finish().unwrap();
        let analysis = analyse(&graph, &given);
        let errors: Vec<_> =
            analysis.findings.iter().filter(|p| p.severity == Severity::Error).collect();
        if let Some(error) = errors.first() {
            return Err(error.full_message());
        }
        let show = |o: &ir::OutputRef| analysis.facts.output(*o).unwrap().to_string();
        Ok(outputs.iter().map(show).collect())
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(|Input(fact)| fact.to_string()).collect();
        write!(f, "{} {:?} of {}", self.op_type, self.attrs, inputs.join("  "))
    }
}
