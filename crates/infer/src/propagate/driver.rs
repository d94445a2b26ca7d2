//! The driver: visits the layers of a graph, parses each, applies its rule, and adds layer, port
//! and line to the errors of the rule.

use crate::extensions::Extensions;
use crate::fact::Fact;
use crate::lattice::dim::{Dim, Why};
use crate::lattice::shape::PartialShape;
use crate::lattice::value::MAX_ELEMENTS;
use crate::propagate::attributes;
use crate::propagate::causes::{self, Causes};
use crate::propagate::declared::declared_variables;
use crate::propagate::graph_facts::{Facts, NodeFacts};
use crate::propagate::inputs::{InputSpec, Inputs};
use crate::propagate::interface::input_type;
use crate::rule::context::{Bodies, PropagationContext};
use crate::rule::cx::{InferCx, ValueCx};
use crate::rule::error::RuleError;
use crate::rule::input_set::InputSet;
use crate::rule::op::Op;
use crate::table::Row;
use ir::{AttributeOffsets, Body, Code, Diagnostic, Diagnostics, ElementType, Graph, Layer};
use ir::{OutputRef, Severity};
use std::collections::HashMap;
use std::sync::Arc;

/// The facts of a model, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// Facts of every layer whose rule succeeded.
    pub facts: Facts,
    /// Errors and warnings in the order of the file.
    pub findings: Vec<Diagnostic>,
}

/// Propagates element types and shapes through `graph`. Continues after an error, so that it finds
/// all.
pub fn analyse(graph: &Graph, inputs: &Inputs) -> Analysis {
    let variables = inputs.variables.clone();
    let (nominal, declared) = (inputs.nominal, declared_variables(graph));
    let mut context =
        PropagationContext { variables, nominal, declared, ..PropagationContext::default() };
    let mut walk = Walk::new(graph, &inputs.extensions, &mut context);
    walk.run(&inputs.parameters);
    let Walk { nodes, findings, .. } = walk;
    let mut findings = causes::told_once(missing_weights_once(graph, findings));
    Diagnostic::sort(&mut findings);
    let (reasons, variables) = (Arc::new(context.reasons), inputs.variables.clone());
    let facts = Facts { nodes, reasons, variables, extensions: inputs.extensions.clone() };
    Analysis { facts, findings }
}

/// Without the `.bin` every constant fails; one finding replaces all of these.
fn missing_weights_once(graph: &Graph, findings: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let Some(reason) = graph.weights().unavailable() else { return findings };
    let (missing, mut rest): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|p| p.code == Code::Weights && p.message == reason);
    if let Some(at) = missing.iter().map(|p| p.at).min_by_key(|at| at.0) {
        let need = match missing.len() {
            1 => "1 constant needs it".to_owned(),
            n => format!("{n} constants need it"),
        };
        let behind = missing.iter().map(|p| p.behind).sum();
        let diagnostic = Diagnostic::error(Code::Weights, at, format!("{reason}; {need}"));
        rest.push(Diagnostic { behind, ..diagnostic });
    }
    rest
}

/// As [`analyse`], but any error is returned as `Err`.
///
/// # Errors
/// Every error found; all unsupported operations are reported together.
pub fn propagate(graph: &Graph, inputs: &Inputs) -> Result<Facts, Diagnostics> {
    let Analysis { facts, mut findings } = analyse(graph, inputs);
    findings.retain(|p| p.severity == Severity::Error);
    if findings.is_empty() {
        return Ok(facts);
    }
    // If operations are missing, errors that follow from their absence are noise.
    if findings.iter().any(|p| p.code == Code::Unsupported) {
        findings.retain(|p| p.code == Code::Unsupported);
    }
    // A caller that runs the model needs the errors, not the number of layers behind each.
    findings.iter_mut().for_each(|p| p.behind = 0);
    Err(Diagnostics::new(Arc::clone(graph.source()), findings))
}

/// Applies the rule of one operation to known inputs, outside of a graph. Returns the facts of the
/// outputs, and the inputs whose values were asked for. `variables` are the values of variables, if
/// they are known.
///
/// # Errors
/// When the inputs break a rule.
pub fn infer_op(
    op: &dyn Op,
    inputs: &[Fact],
    outputs: usize,
    bodies: &[Body],
    extensions: &Extensions,
    variables: Option<HashMap<String, Fact>>,
) -> Result<(Vec<Fact>, InputSet), RuleError> {
    let (mut outputs, consulted) =
        infer_shapes(op, inputs, outputs, bodies, extensions, variables)?;
    add_values(op, inputs, &mut outputs);
    Ok((outputs, consulted))
}

/// As [`infer_op`], without values of outputs, for callers that compute them anyway.
///
/// # Errors
/// As [`infer_op`].
pub fn infer_shapes(
    op: &dyn Op,
    inputs: &[Fact],
    outputs: usize,
    bodies: &[Body],
    extensions: &Extensions,
    variables: Option<HashMap<String, Fact>>,
) -> Result<(Vec<Fact>, InputSet), RuleError> {
    let mut context = PropagationContext { variables, ..PropagationContext::default() };
    let walks = BodyWalks::new(bodies, extensions);
    let applied = apply_rule(op, inputs, outputs, walks, &mut context)?;
    Ok((applied.outputs, applied.consulted))
}

/// The bodies of a layer, and the result of the last propagation through each.
struct BodyWalks<'a> {
    bodies: &'a [Body],
    extensions: &'a Extensions,
    found: Vec<(Facts, Vec<Diagnostic>)>,
}

impl<'a> BodyWalks<'a> {
    fn new(bodies: &'a [Body], extensions: &'a Extensions) -> BodyWalks<'a> {
        let found = bodies.iter().map(|_| Default::default()).collect();
        BodyWalks { bodies, extensions, found }
    }
}

impl Bodies for BodyWalks<'_> {
    fn propagate(
        &mut self,
        body: usize,
        parameters: &[Option<Fact>],
        context: &mut PropagationContext,
    ) -> Option<Vec<Fact>> {
        let (inner, found) = (self.bodies.get(body)?, self.found.get_mut(body)?);
        let (facts, findings, results) =
            analyse_body(&inner.graph, self.extensions, parameters, context);
        *found = (facts, findings);
        Some(results)
    }

    fn findings(&mut self, body: usize) -> &mut [Diagnostic] {
        self.found.get_mut(body).map(|(_, findings)| findings.as_mut_slice()).unwrap_or_default()
    }
}

fn analyse_body(
    graph: &Graph,
    extensions: &Extensions,
    parameters: &[Option<Fact>],
    context: &mut PropagationContext,
) -> (Facts, Vec<Diagnostic>, Vec<Fact>) {
    let given = |fact: &Option<Fact>| match fact {
        None => InputSpec::default(),
        Some(fact) => InputSpec {
            element_type: fact.element_type.is_static().then_some(fact.element_type),
            shape: Some(fact.shape.clone()),
            value: fact.value.clone(),
            ..InputSpec::default()
        },
    };
    let given: Vec<InputSpec> = parameters.iter().map(given).collect();
    let mut walk = Walk::new(graph, extensions, context);
    walk.run(&given);
    let Walk { nodes, findings, .. } = walk;
    let facts = Facts { nodes, ..Facts::default() };
    let result = |&layer: &usize| {
        let source = graph.inputs_of(layer).first().copied();
        source.and_then(|s| facts.output(s)).cloned().unwrap_or_else(Fact::unknown)
    };
    let results = graph.results().iter().map(result).collect();
    (facts, findings, results)
}

/// The result of a rule.
struct Applied {
    outputs: Vec<Fact>,
    reason: Option<String>,
    bodies: Vec<(Facts, Vec<Diagnostic>)>,
    consulted: InputSet,
}

fn apply(
    op: &dyn Op,
    inputs: &[Fact],
    outputs: usize,
    walks: BodyWalks<'_>,
    context: &mut PropagationContext,
) -> Result<Applied, RuleError> {
    let mut applied = apply_rule(op, inputs, outputs, walks, context)?;
    add_values(op, inputs, &mut applied.outputs);
    Ok(applied)
}

/// Adds the values of small outputs, as far as the operation knows them.
fn add_values(op: &dyn Op, inputs: &[Fact], outputs: &mut [Fact]) {
    for output in 0..outputs.len() {
        let small = outputs[output].shape.sizes().is_some_and(|sizes| {
            sizes.iter().try_fold(1usize, |n, s| n.checked_mul(*s)).unwrap_or(usize::MAX)
                <= MAX_ELEMENTS
        });
        if small && outputs[output].value.is_none() {
            let value = op.value(&ValueCx { inputs, outputs, output });
            outputs[output].value = value.map(Arc::new);
        }
    }
}

/// Types and shapes only.
fn apply_rule(
    op: &dyn Op,
    inputs: &[Fact],
    outputs: usize,
    mut walks: BodyWalks<'_>,
    context: &mut PropagationContext,
) -> Result<Applied, RuleError> {
    let mut cx = InferCx::new(inputs, outputs, &mut walks, context);
    op.infer(&mut cx)?;
    let InferCx { outputs, reason, consulted, .. } = cx;
    // Outputs that the rule does not set are unknown.
    if let Some(last) = outputs.iter().rposition(Option::is_some)
        && last + 1 < outputs.len()
    {
        let (has, given) = (last + 1, outputs.len());
        return Err(RuleError::new(format!("the file gives it {given} outputs, it has {has}")));
    }
    let outputs: Vec<Fact> =
        outputs.into_iter().map(|fact| fact.unwrap_or_else(Fact::unknown)).collect();
    outputs.iter().try_for_each(check_size)?;
    Ok(Applied { outputs, reason, bodies: walks.found, consulted: consulted.get() })
}

/// Rejects shapes that fit in no memory, before their dims are multiplied.
fn check_size(fact: &Fact) -> Result<(), RuleError> {
    let Some(dims) = fact.shape.dims() else { return Ok(()) };
    let bits = i64::from(fact.element_type.bits().unwrap_or(8));
    // As in NumPy, the other dims must be valid even if one is 0: kernels multiply some of the
    // dims, not always the one that is 0.
    let least = dims.iter().fold(bits, |n, d| n.saturating_mul(d.min().max(1)));
    if least == Dim::INF {
        let message = format!("the output {fact} would not fit any memory");
        return Err(RuleError::new(message));
    }
    Ok(())
}

struct Walk<'a> {
    graph: &'a Graph,
    extensions: &'a Extensions,
    context: &'a mut PropagationContext,
    nodes: Vec<Option<NodeFacts>>,
    findings: Vec<Diagnostic>,
    causes: Causes,
}

impl<'a> Walk<'a> {
    fn new(
        graph: &'a Graph,
        extensions: &'a Extensions,
        context: &'a mut PropagationContext,
    ) -> Walk<'a> {
        let nodes = graph.layers().iter().map(|_| None).collect();
        Walk { graph, extensions, context, nodes, findings: Vec::new(), causes: Causes::new(graph) }
    }

    fn run(&mut self, given: &[InputSpec]) {
        for &position in self.graph.order() {
            let Some(layer) = self.graph.layers().get(position) else { continue };
            let parameter = self.graph.parameters().iter().position(|&p| p == position);
            let given = parameter.map(|i| given.get(i).cloned().unwrap_or_default());
            match self.parse(layer) {
                Some(op) => {
                    let facts = self.visit(position, layer, op, given);
                    if let Some(slot) = self.nodes.get_mut(position) {
                        *slot = Some(facts);
                    }
                }
                None => self.causes.failed(position, self.findings.len()),
            }
        }
        self.causes.count(&mut self.findings);
    }

    fn parse(&mut self, layer: &Layer) -> Option<Arc<dyn Op>> {
        match self.extensions.find(&layer.op_type, &layer.version) {
            Ok(row) => self.parse_row(layer, &row),
            Err(message) => {
                self.findings.push(attributes::unsupported(self.graph, layer, message));
                None
            }
        }
    }

    fn parse_row(&mut self, layer: &Layer, row: &Row) -> Option<Arc<dyn Op>> {
        let (op, findings) = attributes::parse(self.graph, layer, row);
        self.findings.extend(findings);
        op
    }

    fn visit(
        &mut self,
        position: usize,
        layer: &Layer,
        op: Arc<dyn Op>,
        given: Option<InputSpec>,
    ) -> NodeFacts {
        let inputs = self.inputs(position);
        let found = self.findings.len();
        let walks = BodyWalks::new(&layer.bodies, self.extensions);
        let applied = apply(&*op, &inputs, layer.outputs.len(), walks, self.context);
        let (mut outputs, bodies) = match applied {
            Ok(applied) => {
                let Applied { mut outputs, mut reason, bodies, .. } = applied;
                if let (Some(given), Some(output)) = (given, outputs.first_mut()) {
                    reason =
                        given.shape_from.map(|from| format!("{from} leaves it open")).or(reason);
                    let differ = specialise(self.graph, output, given);
                    let diagnostic = |m| Diagnostic::error(Code::Type, layer.at, m).of(layer);
                    self.findings.extend(differ.map(diagnostic));
                }
                self.explain(position, layer, &mut outputs, reason);
                let mut facts = Vec::new();
                for (body, diagnostics) in bodies {
                    self.findings.extend(diagnostics.into_iter().map(|p| p.inside(layer)));
                    facts.push(body);
                }
                (outputs, facts)
            }
            Err(error) => {
                let diagnostic = rule_diagnostic((self.graph, layer), &*op, &inputs, error);
                if !self.causes.explains(self.graph, position, &diagnostic, &self.findings) {
                    self.findings.push(diagnostic);
                    self.causes.failed(position, self.findings.len());
                }
                (vec![Fact::unknown(); layer.outputs.len()], Vec::new())
            }
        };
        if let Some(i) = self.findings.iter().skip(found).position(is_error) {
            self.causes.failed(position, found + i + 1);
        }
        if layer.is("Parameter") {
            self.label(&mut outputs);
        }
        self.causes.follow(self.graph, position, &outputs);
        self.compare_with_declared(position, layer, &outputs);
        NodeFacts { op, outputs, bodies }
    }

    /// The facts of the inputs of a layer.
    fn inputs(&self, position: usize) -> Vec<Fact> {
        let known = |source: &OutputRef| {
            let node = self.nodes.get(source.layer).and_then(Option::as_ref);
            match node {
                Some(node) => node.outputs.get(source.port).cloned(),
                None => self.graph.layers().get(source.layer).and_then(stated),
            }
        };
        let sources = self.graph.inputs_of(position).iter();
        sources.map(|source| known(source).unwrap_or_else(Fact::unknown)).collect()
    }

    /// Gives this layer as the reason of every unknown dim without one, or the one that failed
    /// before it.
    fn explain(
        &mut self,
        position: usize,
        layer: &Layer,
        outputs: &mut [Fact],
        reason: Option<String>,
    ) {
        let open = |fact: &Fact| match &fact.shape {
            PartialShape::Unranked(why) => *why == Why::NONE,
            PartialShape::Ranked(dims) => {
                dims.iter().any(|d| !d.is_static() && d.why() == Why::NONE)
            }
        };
        if !outputs.iter().any(open) {
            return;
        }
        let failed = || {
            let cause = self.findings.get(self.causes.of_inputs(self.graph, position)?)?;
            Some(format!("{} failed ({})", cause.subject.as_ref()?, cause.code))
        };
        let reason = reason.or_else(failed);
        let reason = reason.unwrap_or_else(|| "it does not follow from the inputs".to_owned());
        let why = self.context.reason(format!("{}: {reason}", layer.title()));
        for fact in outputs {
            match &mut fact.shape {
                PartialShape::Unranked(slot) => *slot = slot.or(why),
                PartialShape::Ranked(dims) => {
                    for dim in dims.iter_mut().filter(|d| !d.is_static()) {
                        *dim = dim.with_why(why);
                    }
                }
            }
        }
    }

    /// Labels the dynamic dims of an input, so that rules can tell which dims stay equal.
    fn label(&mut self, outputs: &mut [Fact]) {
        for fact in outputs {
            let PartialShape::Ranked(dims) = &mut fact.shape else { continue };
            for dim in dims.iter_mut() {
                if !dim.is_static() && !dim.symbol().is_some() {
                    *dim = dim.with_symbol(self.context.symbols.fresh());
                }
            }
        }
    }

    /// Reports declarations that contradict the facts. Outputs that nothing reads do not count.
    fn compare_with_declared(&mut self, position: usize, layer: &Layer, outputs: &[Fact]) {
        for (index, (port, fact)) in layer.outputs.iter().zip(outputs).enumerate() {
            let Some((severity, message)) = difference(port, fact) else { continue };
            if self.may_be_either(position, port, fact)
                || self.is_product_of_vector(position, layer, port, fact)
            {
                continue;
            }
            if !self.causes.is_read(self.graph, OutputRef { layer: position, port: index }) {
                continue;
            }
            let port_name = Some(format!("output {index}"));
            let diagnostic = Diagnostic::warning(Code::Declared, port.at, message).of(layer);
            let diagnostic = Diagnostic { severity, port: port_name, ..diagnostic };
            let is_note = severity == Severity::Note;
            if is_note || self.causes.differs(self.graph, position, self.findings.len()) {
                self.findings.push(diagnostic);
            }
        }
    }

    /// Whether the layer mixes floating-point types, and the file declares another of them than the
    /// rule takes. Converters wrote such files.
    fn may_be_either(&self, position: usize, port: &ir::Port, fact: &Fact) -> bool {
        let Some(declared) = port.precision.filter(|t| t.is_real()) else { return false };
        let same_shape = Fact::new(declared, fact.shape.clone());
        fact.element_type.is_real()
            && difference(port, &same_shape).is_none()
            && self.inputs(position).iter().any(|input| input.element_type == declared)
    }

    /// Whether the output of a MatMul with a vector is declared with an additional axis of size 1.
    /// Model Optimizer kept the row or column that the vector becomes.
    fn is_product_of_vector(
        &self,
        position: usize,
        layer: &Layer,
        port: &ir::Port,
        fact: &Fact,
    ) -> bool {
        let vector = |input: &Fact| input.shape.rank() == Some(1);
        if !layer.is("MatMul") || !self.inputs(position).iter().any(vector) {
            return false;
        }
        let kept = port.dims.iter().copied().filter(|dim| *dim != 1);
        let dims = fact.shape.dims().unwrap_or_default().iter().map(|dim| dim.value());
        kept.map(Some).eq(dims.filter(|dim| *dim != Some(1)))
    }
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

/// The declared type and shape of a constant whose data are missing.
fn stated(layer: &Layer) -> Option<Fact> {
    if !layer.is("Const") {
        return None;
    }
    let element_type = ElementType::from_attribute(layer.attribute("element_type")?.trim())?;
    let shape: PartialShape = layer.attribute("shape")?.parse().ok()?;
    shape.is_static().then(|| Fact::new(element_type, shape))
}

/// Replaces what the model declares by what the caller knows. Returns a message if the caller gives
/// another type than declared.
fn specialise(graph: &Graph, output: &mut Fact, given: InputSpec) -> Option<String> {
    let declared = output.element_type;
    let taken = input_type(graph, declared);
    let mut differ = None;
    // Real inputs of a body are converted to the type of its Parameter.
    let becomes = |t: ElementType| graph.is_body() && t.is_real() && taken.is_real();
    let is_same = given.element_type.is_none_or(|t| t == taken);
    match given.element_type {
        Some(element_type) if !declared.is_static() => output.element_type = element_type,
        Some(element_type) if element_type != taken && !becomes(element_type) => {
            differ = Some(format!("it is declared {taken}, but given {element_type}"));
        }
        _ => {}
    }
    if let Some(shape) = given.shape {
        output.shape = shape;
    }
    // A value of another type does not determine shapes: those are integers.
    output.value = given.value.filter(|_| taken == declared && is_same);
    differ
}

/// How a declared port contradicts the inferred fact. An unknown on either side contradicts
/// nothing. Converters write the upper bound of a dim that depends on the data, so a declaration
/// above the inferred bound is only a note.
fn difference(port: &ir::Port, fact: &Fact) -> Option<(Severity, String)> {
    let declared_type = port.precision.unwrap_or(ElementType::Dynamic);
    let types = [declared_type, fact.element_type];
    let types_differ = types.iter().all(|t| t.is_static()) && types[0] != types[1];
    let open = |d: i64| if d < 0 { Dim::any() } else { Dim::fixed(d) };
    let declared: PartialShape = port.dims.iter().map(|&d| open(d)).collect();
    // A port without `<dim>` is a scalar or of unknown rank; the file does not say which.
    let shapes_differ = !port.dims.is_empty() && !declared.is_compatible(&fact.shape);
    let severity = match (types_differ, shapes_differ) {
        (false, false) => return None,
        (false, true) if bounds(&declared, &fact.shape) => Severity::Note,
        _ => Severity::Warning,
    };
    let text = format!("the file declares {declared_type}{declared}, inferred is {fact}");
    Some((severity, text))
}

/// Whether the declared sizes are upper bounds of the inferred sizes.
fn bounds(declared: &PartialShape, inferred: &PartialShape) -> bool {
    let (Some(declared), Some(inferred)) = (declared.dims(), inferred.dims()) else { return false };
    let bounds = |(d, i): (&Dim, &Dim)| d.meet(*i).is_some() || !i.is_static() && d.min() > i.max();
    declared.len() == inferred.len() && declared.iter().zip(inferred).all(bounds)
}

fn rule_diagnostic(
    (graph, layer): (&Graph, &Layer),
    op: &dyn Op,
    inputs: &[Fact],
    error: RuleError,
) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(error.code, layer.at, error.message).of(layer);
    if error.code == Code::Weights && graph.weights().unavailable().is_none() {
        // The bytes of this constant are wrong, not the file of all.
        let wrong = if diagnostic.message.contains(" its size is ") { "size" } else { "offset" };
        let offsets = AttributeOffsets::new(graph.source(), layer.at);
        diagnostic.at = offsets.of_data(wrong).unwrap_or(layer.at);
    }
    if let Some(attribute) = error.attribute {
        let offsets = AttributeOffsets::new(graph.source(), layer.at);
        diagnostic.at = offsets.of_data(attribute).unwrap_or(layer.at);
    }
    diagnostic.port = error.input.map(|i| port_name(op, i));
    if !inputs.is_empty() {
        let facts: Vec<String> = inputs.iter().map(Fact::to_string).collect();
        diagnostic.context = Some(format!("inputs: {}", facts.join("  ")));
    }
    diagnostic
}

/// The port as messages name it: `input 2 (axes)`.
pub fn port_name(op: &dyn Op, input: usize) -> String {
    match op.input_names().get(input) {
        Some(name) => format!("input {input} ({name})"),
        None => format!("input {input}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_is_a_difference() {
        let port = |t, dims: &[i64]| ir::Port {
            precision: Some(t),
            dims: dims.iter().copied().collect(),
            ..ir::Port::default()
        };
        let f32s = |shape: &str| Fact::new(ElementType::F32, shape.parse().unwrap());
        let severity = |port: &ir::Port, fact: &Fact| difference(port, fact).map(|(s, _)| s);
        let declared = port(ElementType::F32, &[2, 8]);
        for fact in ["[2,8]", "[2,..8]", "[?,8]", "[...]"].map(f32s) {
            assert_eq!(severity(&declared, &fact), None, "{fact}");
        }
        // The inferred bound is tighter than the declared size.
        assert_eq!(severity(&declared, &f32s("[2,..7]")), Some(Severity::Note));
        for fact in ["[2,7]", "[2]", "[3,..7]", "[2,9..]"].map(f32s) {
            assert_eq!(severity(&declared, &fact), Some(Severity::Warning), "{fact}");
        }
        let other = port(ElementType::I64, &[2, 8]);
        assert_eq!(severity(&other, &f32s("[2,8]")), Some(Severity::Warning));
        let unknown = Fact::new(ElementType::Dynamic, "[2,8]".parse().unwrap());
        assert_eq!(severity(&other, &unknown), None);
    }
}
