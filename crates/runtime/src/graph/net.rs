//! A graph on its way to a plan: the nodes in order, and the facts of their values. Passes rewrite
//! it.

use crate::kernel::Kernel;
use crate::kernel::adapt::lower_operation;
use crate::kernel::empty::EmptyOutput;
use crate::kernel::evaluate::Deferred;
use crate::kernel::lower::{LowerCx, LowerError, LowerFn, find, find_in};
use crate::tensor::fact::fact_of;
use crate::tensor::{Sizes, Tensor};
use infer::ops::constant::Constant;
use infer::ops::convert::Convert;
use infer::{Fact, Facts, InputSet, Op, input_type, output_type};
use ir::{Code, Diagnostic, ElementType, Graph, Layer, OutputRef, WeightsSlice};
use kernels::quantized::QuantParams;
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Constants of up to this many bytes are copied if the file does not align them.
const COPIED: usize = 64 << 10;

/// Position of a value in [`Net::values`].
pub(crate) type ValueId = usize;

/// The nodes and values of a graph.
#[derive(Clone, Default)]
pub(crate) struct Net {
    pub(crate) values: Vec<Value>,
    /// In an order in which producers come before consumers.
    pub(crate) nodes: Vec<Node>,
    /// By position of the Parameter.
    pub(crate) inputs: Vec<ValueId>,
    /// By position of the Result.
    pub(crate) outputs: Vec<ValueId>,
}

/// A constant as integers times scales: one for each output channel, or for each few that follow
/// each other.
#[derive(Clone)]
pub(crate) struct Integers {
    pub(crate) values: Tensor,
    pub(crate) scales: Arc<[f32]>,
}

/// What flows along an edge.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) fact: Fact,
    pub(crate) constant: Option<Tensor>,
    /// Whether it is the same in every run, though each run computes it.
    pub(crate) invariant: bool,
    /// How its elements are quantized, if they are.
    pub(crate) quant_params: Option<QuantParams>,
    /// The same value as integers with scales, if it is known.
    pub(crate) integers: Option<Box<Integers>>,
    /// The layer output in the file that has this value, possibly in another element type.
    pub(crate) source: Option<Source>,
}

/// An output of a layer, and its type in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) at: OutputRef,
    pub(crate) element_type: ElementType,
}

impl Value {
    /// A value that a node computes.
    pub(crate) fn of(fact: Fact) -> Value {
        Value {
            fact,
            constant: None,
            invariant: false,
            quant_params: None,
            integers: None,
            source: None,
        }
    }

    /// A value that is known.
    pub(crate) fn known(tensor: Tensor) -> Value {
        let fact = fact_of(&tensor);
        Value { constant: Some(tensor), invariant: true, ..Value::of(fact) }
    }
}

/// The operation of a node.
#[derive(Clone)]
pub(crate) enum Operation {
    /// An operation of the graph.
    Source { op: Arc<dyn Op>, lower: LowerFn },
    /// An operation made by a pass. The shapes that its kernel is chosen by are static.
    Fused(Arc<dyn FusedOp>),
}

impl Operation {
    /// An operation of the specification, added by a pass. `None` if it has no kernel.
    pub(crate) fn source(op: impl Op) -> Option<Operation> {
        let lower = find(&op)?;
        Some(Operation::Source { op: Arc::new(op), lower })
    }
}

/// An operation that only passes make.
pub(crate) trait FusedOp: Any + Send + Sync {
    /// Chooses the kernel.
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError>;

    /// Whether it does something besides computing its outputs, such as setting a variable.
    fn has_effect(&self) -> bool {
        false
    }
}

/// An operation with its operands.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) operation: Operation,
    pub(crate) inputs: SmallVec<[ValueId; 4]>,
    pub(crate) outputs: SmallVec<[ValueId; 2]>,
    /// The layer that messages name.
    pub(crate) layer: usize,
}

impl Node {
    /// A Convert.
    pub(crate) fn conversion(
        input: ValueId,
        output: ValueId,
        to: ElementType,
        layer: usize,
    ) -> Option<Node> {
        let operation = Operation::source(Convert::to(to))?;
        Some(Node { operation, inputs: smallvec![input], outputs: smallvec![output], layer })
    }

    /// The operation of the specification; `None` for one made by a pass.
    pub(crate) fn op(&self) -> Option<&dyn Op> {
        match &self.operation {
            Operation::Source { op, .. } => Some(&**op),
            Operation::Fused(_) => None,
        }
    }

    /// The operation of the specification, if it is a `T`.
    pub(crate) fn is<T: Op>(&self) -> Option<&T> {
        let any: &dyn Any = self.op()?;
        any.downcast_ref()
    }

    /// Whether it does something besides computing its outputs.
    pub(crate) fn has_effect(&self) -> bool {
        match &self.operation {
            Operation::Source { op, .. } => !op.traits().pure,
            Operation::Fused(made) => made.has_effect(),
        }
    }

    /// The operation with all its attributes as text, if it is one of the specification.
    pub(crate) fn text(&self) -> String {
        let any: Option<&dyn Any> = self.op().map(|op| op as &dyn Any);
        format!("{:?}{:?}", any.map(Any::type_id), self.op())
    }

    /// The operation made by a pass, if it is a `T`.
    pub(crate) fn fused<T: FusedOp>(&self) -> Option<&T> {
        let Operation::Fused(made) = &self.operation else { return None };
        let any: &dyn Any = &**made;
        any.downcast_ref()
    }

    /// Chooses the kernel.
    pub(crate) fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        match &self.operation {
            Operation::Source { op, lower } => lower_operation(&**op, *lower, cx),
            Operation::Fused(made) => {
                cx.check_memory()?;
                if cx.has_empty_outputs() && !made.has_effect() {
                    return Ok(Box::new(EmptyOutput));
                }
                made.lower(cx)
            }
        }
    }

    /// The operation, with its kernel to be chosen once its inputs are known. `None` for an
    /// operation made by a pass. `invariant` are the inputs that are the same in every run.
    pub(crate) fn deferred(&self, invariant: InputSet) -> Option<Deferred> {
        let Operation::Source { op, lower } = &self.operation else { return None };
        let (op, outputs) = (Arc::clone(op), self.outputs.len());
        Some(Deferred { op, lower: *lower, outputs, layer: self.layer, invariant })
    }
}

impl Net {
    /// The net of a graph whose facts are known.
    ///
    /// # Errors
    /// What is wrong with a constant.
    pub(crate) fn new(graph: &Graph, facts: &Facts) -> Result<Net, Box<Diagnostic>> {
        let mut net = Net::default();
        let mut ids: HashMap<OutputRef, ValueId> = HashMap::new();
        for &position in graph.order() {
            let (Some(layer), Some(node)) = (graph.layers().get(position), facts.node(position))
            else {
                continue;
            };
            let source = |s: &OutputRef| ids.get(s).copied();
            let inputs: Option<SmallVec<[ValueId; 4]>> =
                graph.inputs_of(position).iter().map(source).collect();
            let Some(inputs) = inputs else { continue };
            let mut outputs = SmallVec::new();
            for (port, fact) in node.outputs.iter().enumerate() {
                let at = OutputRef { layer: position, port };
                ids.insert(at, net.values.len());
                outputs.push(net.values.len());
                let source = Some(Source { at, element_type: fact.element_type });
                net.values.push(Value { source, ..Value::of(fact.clone()) });
            }
            let op: &dyn Any = &*node.op;
            if let Some(constant) = op.downcast_ref::<Constant>() {
                let tensor = constant_tensor(constant).map_err(|m| {
                    Box::new(Diagnostic::error(Code::Weights, layer.at, m).of(layer))
                })?;
                if let Some(value) = net.values.last_mut() {
                    value.constant = Some(tensor);
                    value.invariant = true;
                }
            } else if !layer.is("Parameter") && !layer.is("Result") {
                let lower = find_in(facts.extensions(), &*node.op).ok_or_else(|| unknown(layer))?;
                let operation = Operation::Source { op: Arc::clone(&node.op), lower };
                net.nodes.push(Node { operation, inputs, outputs, layer: position });
            }
        }
        let id = |layer, port| ids.get(&OutputRef { layer, port }).copied();
        net.inputs = graph.parameters().iter().filter_map(|&p| id(p, 0)).collect();
        let result = |&r: &usize| graph.inputs_of(r).first().and_then(|s| id(s.layer, s.port));
        net.outputs = graph.results().iter().filter_map(result).collect();
        net.convert_edges(graph);
        Ok(net)
    }

    /// Adds a Convert to inputs and outputs whose types for callers differ from those of the graph.
    fn convert_edges(&mut self, graph: &Graph) {
        let mut first = Vec::new();
        for (i, &layer) in graph.parameters().iter().enumerate() {
            let Some(&inner) = self.inputs.get(i) else { continue };
            let fact = &self.values[inner].fact;
            let (shown, own) = (input_type(graph, fact.element_type), fact.element_type);
            if shown != own {
                let outer = self.add(Value::of(Fact::new(shown, fact.shape.clone())));
                self.inputs[i] = outer;
                first.extend(Node::conversion(outer, inner, own, layer));
            }
        }
        self.nodes.splice(0..0, first);
        for (i, &layer) in graph.results().iter().enumerate() {
            let Some(&inner) = self.outputs.get(i) else { continue };
            let fact = &self.values[inner].fact;
            let shown = output_type(graph, fact.element_type);
            if shown != fact.element_type {
                let outer = self.add(Value::of(Fact::new(shown, fact.shape.clone())));
                self.outputs[i] = outer;
                self.nodes.extend(Node::conversion(inner, outer, shown, layer));
            }
        }
    }

    /// The facts of a node's inputs.
    pub(crate) fn input_facts(&self, node: &Node) -> Vec<Fact> {
        node.inputs.iter().map(|&v| self.values[v].fact.clone()).collect()
    }

    /// The facts of a node's outputs.
    pub(crate) fn output_facts(&self, node: &Node) -> Vec<Fact> {
        node.outputs.iter().map(|&v| self.values[v].fact.clone()).collect()
    }

    /// The inputs of a node that are the same in every run.
    pub(crate) fn invariant(&self, node: &Node) -> InputSet {
        let inputs = &node.inputs;
        InputSet::of_which(inputs.len(), |i| self.values[inputs[i]].invariant)
    }

    /// For each value the output of a layer that it is. A value stored as u8 or bf16 is another
    /// one. f16 that is computed in f32 counts: it is rounded when it is shown.
    pub(crate) fn sources(&self) -> Vec<Option<Source>> {
        let is_kept = |value: &Value, source: &Source| {
            let now = value.fact.element_type;
            now == source.element_type
                || source.element_type == ElementType::F16 && now == ElementType::F32
        };
        self.values.iter().map(|v| v.source.filter(|source| is_kept(v, source))).collect()
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        self.values.len() - 1
    }

    /// The sizes of a value of known shape.
    pub(crate) fn sizes(&self, value: ValueId) -> Option<Sizes> {
        self.values[value].fact.shape.sizes()
    }

    /// For each value the indices of the nodes that read it.
    pub(crate) fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            node.inputs.iter().for_each(|v| readers[*v].push(i));
        }
        readers
    }

    /// Whether a value is f32 of known shape.
    pub(crate) fn is_f32(&self, value: ValueId) -> bool {
        let fact = &self.values[value].fact;
        fact.element_type == ElementType::F32 && fact.is_static()
    }

    /// The constants among a node's inputs.
    pub(crate) fn constants(&self, node: &Node) -> Vec<Option<Tensor>> {
        node.inputs.iter().map(|&v| self.values[v].constant.clone()).collect()
    }
}

fn unknown(layer: &Layer) -> Box<Diagnostic> {
    let message = format!("{} has no kernel", layer.op_type);
    Box::new(Diagnostic::error(Code::Unsupported, layer.at, message).of(layer))
}

fn constant_tensor(constant: &Constant) -> Result<Tensor, String> {
    let bytes = constant.bytes().map_err(|e| e.to_string())?;
    let (element_type, sizes) = (constant.element_type(), constant.sizes());
    if element_type == ElementType::String {
        let count = sizes.iter().product();
        let values = if count == 0 { Vec::new() } else { unpack_strings(&bytes, count)? };
        return Tensor::strings(sizes, values).map_err(|e| e.to_string());
    }
    let tensor = Tensor::from_weights(element_type, sizes, bytes).map_err(|e| e.to_string())?;
    // Large constants of real numbers are aligned later, when the plan knows their readers: those
    // of weights read them as they lie.
    let waits = element_type.is_real() && tensor.bytes().len() > COPIED;
    if waits { Ok(tensor) } else { tensor.aligned().map_err(|e| e.to_string()) }
}

/// Strings as constants hold them: a count, offsets, and the UTF-8 bytes.
fn unpack_strings(slice: &WeightsSlice, count: usize) -> Result<Vec<Box<str>>, String> {
    let bytes = slice.bytes();
    let word = |i: usize| {
        let word = bytes.get(4 * i..4 * i + 4)?;
        let value = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        usize::try_from(value).ok()
    };
    let bad = || "the packed strings of a constant are damaged".to_owned();
    if word(0) != Some(count) {
        return Err(bad());
    }
    let text = bytes.get(4 * (count + 2)..).ok_or_else(bad)?;
    let string = |i: usize| {
        let bytes = text.get(word(i + 1)?..word(i + 2)?)?;
        Some(Box::from(std::str::from_utf8(bytes).ok()?))
    };
    (0..count).map(|i| string(i).ok_or_else(bad)).collect()
}
