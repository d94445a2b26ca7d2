//! A graph that grows by one operation at a time, with the sizes of all its values.

use ir::ElementType::{F32, I64};
use ir::{Graph, GraphBuilder, OutputRef};

/// An f32 value.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub port: OutputRef,
    pub sizes: Vec<usize>,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub(crate) fn count(&self) -> usize {
        self.sizes.iter().product()
    }
}

/// Numbers that determine a graph: the fewer and smaller they are, the simpler the graph.
pub(crate) struct Choices<'a>(pub std::slice::Iter<'a, u16>);

impl Choices<'_> {
    /// One of `0..count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.next().map_or(0, |n| usize::from(*n) % count)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    pub(crate) fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())]
    }
}

/// The graph, and the values that nodes may read.
pub(crate) struct Net {
    pub g: GraphBuilder,
    pub values: Vec<Value>,
    pub read: Vec<OutputRef>,
    /// Whether values are quantized, so that they may round to a neighbour.
    pub rounds: bool,
    seed: u64,
}

/// Different values between -1 and 1.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(step).collect()
}

impl Net {
    /// A graph of one input.
    pub(crate) fn new(sizes: &[usize], declared: &str) -> Net {
        let mut g = GraphBuilder::new("random");
        let port = g.parameter("x", F32, declared);
        Net {
            g,
            values: vec![Value { port, sizes: sizes.to_vec() }],
            read: Vec::new(),
            rounds: false,
            seed: 1,
        }
    }

    /// Makes the values that nothing reads results.
    pub(crate) fn finish(self) -> Graph {
        let Net { mut g, values, read, .. } = self;
        for (i, value) in values.iter().filter(|value| !read.contains(&value.port)).enumerate() {
            g.result(&format!("y{i}"), value.port);
        }
        g.finish().unwrap()
    }

    /// Weights scaled so that sums of `terms` products are as large as the inputs.
    pub(crate) fn weights(&mut self, sizes: &[usize], terms: usize) -> OutputRef {
        self.seed += 1;
        let scale = 1.5 / (terms as f32).sqrt();
        let values = noise(sizes.iter().product(), self.seed).iter().map(|v| v * scale).collect();
        self.constant(sizes, values)
    }

    /// Numbers between `low` and `high`.
    pub(crate) fn between(&mut self, sizes: &[usize], low: f32, high: f32) -> OutputRef {
        self.seed += 1;
        let numbers = noise(sizes.iter().product(), self.seed);
        let values = numbers.iter().map(|v| low + (v + 1.0) * 0.5 * (high - low)).collect();
        self.constant(sizes, values)
    }

    pub(crate) fn constant(&mut self, sizes: &[usize], values: Vec<f32>) -> OutputRef {
        let sizes: Vec<u64> = sizes.iter().map(|size| *size as u64).collect();
        self.g.constant_f32(&sizes, &values)
    }

    /// A list of integers.
    pub(crate) fn list(&mut self, values: &[usize]) -> OutputRef {
        let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
        self.g.constant_i64(&values)
    }

    /// One integer.
    pub(crate) fn number(&mut self, value: i64) -> OutputRef {
        self.g.constant(I64, &[], &value.to_le_bytes())
    }

    /// A layer with one output.
    pub(crate) fn op(
        &mut self,
        (kind, version): (&str, &str),
        attributes: &[(&str, &str)],
        inputs: &[OutputRef],
        sizes: &[usize],
    ) -> Value {
        let sizes = sizes.to_vec();
        let mut outputs = self.ops((kind, version), attributes, inputs, &[sizes]);
        outputs.remove(0)
    }

    /// A layer with outputs of these sizes.
    pub(crate) fn ops(
        &mut self,
        (kind, version): (&str, &str),
        attributes: &[(&str, &str)],
        inputs: &[OutputRef],
        sizes: &[Vec<usize>],
    ) -> Vec<Value> {
        self.read.extend_from_slice(inputs);
        let layer = self.g.layer(kind, version).attributes(attributes).inputs(inputs);
        let ports = layer.outputs(sizes.len()).into_iter();
        ports.zip(sizes).map(|(port, sizes)| Value { port, sizes: sizes.clone() }).collect()
    }

    pub(crate) fn unary(&mut self, kind: &str, x: &Value) -> Value {
        let version = match kind {
            "HSwish" | "Mish" | "SoftPlus" | "Swish" => "opset4",
            "Gelu" => "opset7",
            "HSigmoid" => "opset5",
            _ => "opset1",
        };
        let attributes: &[_] = match kind {
            "Gelu" => &[("approximation_mode", "ERF")],
            "Clamp" => &[("min", "-0.5"), ("max", "0.75")],
            "Elu" => &[("alpha", "0.5")],
            _ => &[],
        };
        self.op((kind, version), attributes, &[x.port], &x.sizes)
    }

    /// A binary operation whose output has the sizes of `x`.
    pub(crate) fn binary(&mut self, kind: &str, x: &Value, other: OutputRef) -> Value {
        self.op((kind, "opset1"), &[("auto_broadcast", "numpy")], &[x.port, other], &x.sizes)
    }

    pub(crate) fn reshape(&mut self, x: &Value, sizes: &[usize]) -> Value {
        let pattern = self.list(sizes);
        self.op(("Reshape", "opset1"), &[("special_zero", "false")], &[x.port, pattern], sizes)
    }

    pub(crate) fn transpose(&mut self, x: &Value, order: &[usize]) -> Value {
        let sizes: Vec<usize> = order.iter().map(|axis| x.sizes[*axis]).collect();
        let order = self.list(order);
        self.op(("Transpose", "opset1"), &[], &[x.port, order], &sizes)
    }

    /// A reduction over axes, kept as size 1 or not.
    pub(crate) fn reduce(&mut self, kind: &str, x: &Value, axes: &[usize], keep: bool) -> Value {
        let kept = |axis: &usize| !axes.contains(axis) || keep;
        let size = |axis| if axes.contains(&axis) { 1 } else { x.sizes[axis] };
        let sizes: Vec<usize> = (0..x.rank()).filter(kept).map(size).collect();
        let axes = self.list(axes);
        let keep = [("keep_dims", if keep { "true" } else { "false" })];
        let version = if kind == "ReduceL2" { "opset4" } else { "opset1" };
        self.op((kind, version), &keep, &[x.port, axes], &sizes)
    }

    /// A MatMul along the last axis, with new weights.
    pub(crate) fn linear(&mut self, x: &Value, columns: usize, transposed: bool) -> Value {
        let terms = x.sizes[x.rank() - 1];
        let weights =
            self.weights(&if transposed { [columns, terms] } else { [terms, columns] }, terms);
        self.product(x, weights, columns, transposed)
    }

    pub(crate) fn product(
        &mut self,
        x: &Value,
        b: OutputRef,
        columns: usize,
        transposed: bool,
    ) -> Value {
        let mut sizes = x.sizes.clone();
        if let Some(last) = sizes.last_mut() {
            *last = columns;
        }
        let transposed = if transposed { "true" } else { "false" };
        let attributes = [("transpose_a", "false"), ("transpose_b", transposed)];
        self.op(("MatMul", "opset1"), &attributes, &[x.port, b], &sizes)
    }
}
