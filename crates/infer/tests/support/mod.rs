//! One layer under test, built in memory and propagated.

use ir::{ElementType, GraphBuilder, OutputRef, Severity};
use irrun_infer::{InputSpec, Inputs, Interval, PartialValue, analyse};

/// A graph that ends in the layer under test, and the known inputs.
pub(crate) struct Model {
    /// The graph, for layers between the inputs and the one under test.
    pub graph: GraphBuilder,
    given: Inputs,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model { graph: GraphBuilder::new("test"), given: Inputs::default() }
    }

    /// An input of which only type and shape are known.
    pub(crate) fn input(&mut self, element_type: ElementType, shape: &str) -> OutputRef {
        self.given.parameters.push(InputSpec::default());
        let name = format!("x{}", self.given.parameters.len());
        self.graph.parameter(&name, element_type, shape)
    }

    /// A list of integers known by their bounds.
    #[allow(dead_code)]
    pub(crate) fn bounds(&mut self, element_type: ElementType, bounds: Vec<Interval>) -> OutputRef {
        let output = self.input(element_type, &bounds.len().to_string());
        let value = PartialValue::ints(element_type, &[bounds.len()], bounds);
        if let Some(given) = self.given.parameters.last_mut() {
            given.value = Some(value.into());
        }
        output
    }

    /// A constant of integers.
    pub(crate) fn ints(
        &mut self,
        element_type: ElementType,
        dims: &[u64],
        values: &[i64],
    ) -> OutputRef {
        let size = element_type.byte_size().unwrap();
        let bytes = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(size));
        let bytes: Vec<u8> = bytes.collect();
        self.graph.constant(element_type, dims, &bytes)
    }

    /// The fact of the only output of the last layer, or its error.
    pub(crate) fn infer(
        mut self,
        kind: &str,
        version: &str,
        attributes: &[(&str, &str)],
        inputs: &[OutputRef],
    ) -> Result<String, String> {
        let layer = self.graph.layer(kind, version).name("tested");
        let output = layer.attributes(attributes).inputs(inputs).output();
        self.graph.result("y", output);
        let graph = self.graph.finish().unwrap();
        let analysis = analyse(&graph, &self.given);
        let mut errors = analysis.findings.iter().filter(|p| p.severity == Severity::Error);
        match errors.next() {
            Some(error) => {
                let subject = error.subject.as_deref().unwrap_or_default();
                let message = error.full_message();
                assert!(subject.contains("\"tested\""), "the test itself: {subject}: {message}");
                Err(message)
            }
            None => Ok(analysis.facts.output(output).unwrap().to_string()),
        }
    }
}
