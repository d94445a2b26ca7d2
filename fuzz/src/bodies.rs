//! Operations with bodies, and variables.

use super::graphs::{Growth, Value};
use infer::Fact;
use ir::{Body, ElementType, Graph, GraphBuilder, OutputRef, PortMap, Role, Slice};

/// Unary operations in bodies.
const UNARY: [&str; 6] = ["Relu", "Abs", "Negative", "Tanh", "Exp", "Floor"];
/// Binary operations in bodies.
const BINARY: [&str; 4] = ["Add", "Multiply", "Maximum", "Subtract"];

impl Growth<'_> {
    /// An If, a Loop, a TensorIterator, or a variable.
    pub(super) fn structure(&mut self) -> Option<()> {
        // The output of an Assign would become a result, which OpenVINO rejects.
        match self.c.below(if self.is_broad() { 3 } else { 4 }) {
            0 => self.condition(),
            1 => self.repetition(),
            2 => self.iterator(),
            _ => self.variable(),
        }
    }

    /// An If: two bodies on a value, with a constant condition or one that is an input.
    fn condition(&mut self) -> Option<()> {
        let x = self.any_real()?;
        let condition = if self.c.flag() {
            self.parameter(ElementType::Boolean, &[])?
        } else {
            self.constant(ElementType::Boolean, &[])?
        };
        let bodies = [Role::Then, Role::Else].map(|role| {
            let graph = self.body(&x.fact, 1, 1);
            let inputs = vec![entry(1, graph.parameters()[0])];
            let outputs = vec![entry(2, graph.results()[0])];
            Body { role, graph, inputs, outputs, back_edges: Vec::new() }
        });
        self.add(("If", "opset8"), &[], &[condition, x], bodies.to_vec(), 1)
    }

    /// A Loop that runs its body several times on a value, which it may make twice as long. How
    /// often, a run alone may know.
    fn repetition(&mut self) -> Option<()> {
        let x = self.any_real()?;
        let times = self.c.below(4);
        let (count, always) = (self.number(times as f32, ElementType::I64)?, self.truth()?);
        let grows = self.is_late() && self.c.flag();
        let graph = if grows { self.twice(&x.fact) } else { self.body(&x.fact, 1, 1) };
        let (parameter, result) = (graph.parameters()[0], graph.results()[0]);
        let (inputs, outputs) = (vec![entry(2, parameter)], vec![entry(3, result)]);
        let back_edges = vec![(result as u64, parameter as u64)];
        let body = Body { role: Role::Body, graph, inputs, outputs, back_edges };
        self.add(("Loop", "opset5"), &[], &[count, always, x], vec![body], 1)
    }

    /// A body that concatenates its input with itself.
    fn twice(&mut self, x: &Fact) -> Graph {
        let rank = x.shape.rank().unwrap_or(1);
        let mut g = GraphBuilder::new("");
        let y = g.parameter("p0", x.element_type, &vec!["?"; rank].join(","));
        let axis = self.c.below(rank).to_string();
        let layer = g.layer("Concat", "opset1").attribute("axis", &axis);
        let y = layer.inputs(&[y, y]).output();
        g.result("r0", y);
        g.finish().unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    /// A TensorIterator along an axis of a value, with a state.
    fn iterator(&mut self) -> Option<()> {
        let x = self.any_real()?;
        let mut sizes = super::graphs::known_sizes(&x.fact);
        let axis = self.c.below(sizes.len());
        *sizes.get_mut(axis)? = 1;
        let state = self.constant(x.fact.element_type, &sizes)?;
        let graph = self.body(&x.fact, 2, 2);
        let [first, last, stride] = if self.c.flag() { [0, -1, 1] } else { [-1, 0, -1] };
        let axis = axis as i64;
        let slice = Some(Slice { axis, start: first, end: last, stride, part_size: 1 });
        let (ports, results) = (graph.parameters().to_vec(), graph.results().to_vec());
        let inputs = vec![PortMap { slice, ..entry(0, ports[0]) }, entry(1, ports[1])];
        let outputs = vec![PortMap { slice, ..entry(2, results[0]) }, entry(3, results[1])];
        let back_edges = vec![(results[1] as u64, ports[1] as u64)];
        let body = Body { role: Role::Body, graph, inputs, outputs, back_edges };
        self.add(("TensorIterator", "opset1"), &[], &[x, state], vec![body], 2)
    }

    /// A variable that is read and then assigned.
    fn variable(&mut self) -> Option<()> {
        let x = self.any_real()?;
        let id = format!("v{}", self.count());
        let shape = x.fact.shape.to_string().replace(['[', ']'], "");
        let declared = [
            ("variable_id", id.clone()),
            ("variable_type", x.fact.element_type.name().to_owned()),
            ("variable_shape", shape),
        ];
        self.add(("ReadValue", "opset6"), &declared, std::slice::from_ref(&x), Vec::new(), 1)?;
        let held = self.last()?;
        let numpy = [("auto_broadcast", "numpy".to_owned())];
        let kind = self.c.of(&BINARY);
        self.add((kind, "opset1"), &numpy, &[held, x], Vec::new(), 1)?;
        let next = self.last()?;
        self.add(("Assign", "opset6"), &[("variable_id", id)], &[next], Vec::new(), 1)
    }

    /// An existing f32 or f16 value, or a new one.
    fn any_real(&mut self) -> Option<Value> {
        self.value("1-3", |t| matches!(t, ElementType::F32 | ElementType::F16))
    }

    fn truth(&mut self) -> Option<Value> {
        let fact = Fact::new(ElementType::Boolean, infer::PartialShape::scalar());
        self.number(1.0, fact.element_type)
    }

    /// A body: for each result a chain of operations that begins with the first input.
    fn body(&mut self, x: &Fact, inputs: usize, results: usize) -> Graph {
        let mut g = GraphBuilder::new("");
        let shape = x.shape.rank().map_or("...".to_owned(), |rank| vec!["?"; rank].join(","));
        let ports: Vec<OutputRef> =
            (0..inputs).map(|i| g.parameter(&format!("p{i}"), x.element_type, &shape)).collect();
        for result in 0..results {
            let mut y = ports[0];
            for _ in 0..1 + self.c.below(3) {
                let other = ports[self.c.below(inputs)];
                y = if self.c.flag() {
                    g.layer(self.c.of(&BINARY), "opset1").inputs(&[y, other]).output()
                } else {
                    g.layer(self.c.of(&UNARY), "opset1").inputs(&[y]).output()
                };
            }
            // All inputs are read.
            let last = ports[inputs - 1];
            let y = g.layer("Add", "opset1").inputs(&[y, last]).output();
            g.result(&format!("r{result}"), y);
        }
        g.finish().unwrap_or_else(|problems| panic!("{problems:?}"))
    }
}

/// A port map entry: a port of the layer and a layer of its body, whose ids are their indices.
fn entry(external_port: i64, layer: usize) -> PortMap {
    PortMap { external_port, internal_layer: layer as u64, ..PortMap::default() }
}
