//! What a rule sees: the facts of its inputs, and its outputs.

use crate::fact::Fact;
use crate::lattice::dim::{Dim, Why};
use crate::lattice::shape::PartialShape;
use crate::lattice::symbols::Symbols;
use crate::lattice::value::{Interval, PartialValue};
use crate::require;
use crate::rule::context::{Bodies, PropagationContext};
use crate::rule::error::RuleError;
use crate::rule::input_set::InputSet;
use ir::{Code, Diagnostic, ElementType, Severity};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The inputs of a rule, and its outputs as they are set.
pub struct InferCx<'a> {
    inputs: &'a [Fact],
    pub(crate) outputs: Vec<Option<Fact>>,
    pub(crate) context: &'a mut PropagationContext,
    pub(crate) reason: Option<String>,
    bodies: &'a mut dyn Bodies,
    /// Inputs whose values were asked for.
    pub(crate) consulted: Cell<InputSet>,
}

impl<'a> InferCx<'a> {
    pub(crate) fn new(
        inputs: &'a [Fact],
        outputs: usize,
        bodies: &'a mut dyn Bodies,
        context: &'a mut PropagationContext,
    ) -> InferCx<'a> {
        let (outputs, consulted) = (vec![None; outputs], Cell::default());
        InferCx { inputs, outputs, context, reason: None, bodies, consulted }
    }

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs the layer declares.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// Whether to give sizes as the specification defines them; see [`crate::Inputs::nominal`].
    pub fn nominal(&self) -> bool {
        self.context.nominal
    }

    /// Checks the number of inputs.
    ///
    /// # Errors
    /// When it is outside `range`.
    pub fn expect_inputs(&self, range: RangeInclusive<usize>) -> Result<(), RuleError> {
        let count = self.inputs.len();
        if range.contains(&count) {
            return Ok(());
        }
        let wanted = range_text(&range);
        let noun = if range == (1..=1) { "input" } else { "inputs" };
        Err(RuleError::new(format!("it takes {wanted} {noun}, not {count}")))
    }

    /// The fact of an input; a missing input is unknown.
    pub fn fact(&self, input: usize) -> Fact {
        let _ = self.value(input);
        self.inputs.get(input).cloned().unwrap_or_else(Fact::unknown)
    }

    /// The element type of an input.
    pub fn element_type(&self, input: usize) -> ElementType {
        self.inputs.get(input).map_or(ElementType::Dynamic, |fact| fact.element_type)
    }

    /// The shape of an input.
    pub fn shape(&self, input: usize) -> &'a PartialShape {
        static UNKNOWN: PartialShape = PartialShape::Unranked(Why::NONE);
        self.inputs.get(input).map_or(&UNKNOWN, |fact| &fact.shape)
    }

    /// The rank of an input, if it is known.
    pub fn rank(&self, input: usize) -> Option<usize> {
        self.shape(input).rank()
    }

    /// The values of an input, as far as they are known.
    pub fn value(&self, input: usize) -> Option<&'a PartialValue> {
        self.consulted.set(self.consulted.get().with(InputSet::one(input)));
        self.inputs.get(input)?.value.as_deref()
    }

    /// The values of an integer input, as far as they are known.
    pub fn intervals(&self, input: usize) -> Option<&'a [Interval]> {
        self.value(input)?.intervals()
    }

    /// The first value of an integer input, as far as it is known.
    pub fn interval(&self, input: usize) -> Option<Interval> {
        self.intervals(input)?.first().copied()
    }

    /// The values of an input as exact integers, if all are known.
    pub fn ints(&self, input: usize) -> Option<Vec<i64>> {
        self.value(input)?.i64s()
    }

    /// The value of a scalar or one-element input, if it is a known integer.
    pub fn int(&self, input: usize) -> Option<i64> {
        match self.ints(input)?.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// Whether the first value of a numeric input is not 0, if it is known.
    pub fn truth(&self, input: usize) -> Option<bool> {
        self.value(input)?.truth()
    }

    /// The element type of an input, which must satisfy `allowed` if it is known.
    ///
    /// # Errors
    /// With `expected` as the description of the allowed types.
    pub fn expect_type(
        &self,
        input: usize,
        expected: &str,
        allowed: impl Fn(ElementType) -> bool,
    ) -> Result<ElementType, RuleError> {
        let found = self.element_type(input);
        if found == ElementType::Dynamic || allowed(found) {
            return Ok(found);
        }
        Err(RuleError::element_type(input, format!("must be {expected}, not {found}")))
    }

    /// The element type of a numeric input: integers or floating-point values.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_number(&self, input: usize) -> Result<ElementType, RuleError> {
        self.expect_type(input, "a numeric type", |t| t.is_integral() || t.is_real())
    }

    /// The element type of a floating-point input.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_real(&self, input: usize) -> Result<ElementType, RuleError> {
        self.expect_type(input, "a floating-point type", ElementType::is_real)
    }

    /// The element type of an input of integers whose values inference decodes, since a shape may
    /// depend on them.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_integer(&self, input: usize) -> Result<ElementType, RuleError> {
        self.expect_decoded(input, ElementType::is_integral)
    }

    /// The element type of an input of axes or counts: integers, or the real numbers and booleans
    /// that files hold in their place, as OpenVINO allows.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_axes(&self, input: usize) -> Result<ElementType, RuleError> {
        self.expect_decoded(input, |_| true)
    }

    /// The element type of an input of integers, or of booleans in their place.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_whole(&self, input: usize) -> Result<ElementType, RuleError> {
        self.expect_decoded(input, |t| t == ElementType::Boolean || t.is_integral())
    }

    fn expect_decoded(
        &self,
        input: usize,
        allowed: impl Fn(ElementType) -> bool,
    ) -> Result<ElementType, RuleError> {
        const WIDE: &str = "an integer type of 4, 8 or more bits";
        let is_integral = self.element_type(input).is_integral();
        let expected = if is_integral { WIDE } else { "an integer type" };
        self.expect_type(input, expected, |t| PartialValue::decodes(t) && allowed(t))
    }

    /// The element type of an input of indices or sizes: i32 or i64.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_index(&self, input: usize) -> Result<ElementType, RuleError> {
        let index = |t| matches!(t, ElementType::I32 | ElementType::I64);
        self.expect_type(input, "i32 or i64", index)
    }

    /// The element type of a condition: boolean, or numbers, which are true unless they are 0.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn expect_condition(&self, input: usize) -> Result<ElementType, RuleError> {
        let is_condition =
            |t: ElementType| t == ElementType::Boolean || t.is_integral() || t.is_real();
        self.expect_type(input, "boolean or a number", is_condition)
    }

    /// The element type of a boolean input.
    ///
    /// # Errors
    /// When it is anything but boolean.
    pub fn expect_boolean(&self, input: usize) -> Result<ElementType, RuleError> {
        self.expect_type(input, "boolean", |t| t == ElementType::Boolean)
    }

    /// The element type that these inputs share.
    ///
    /// # Errors
    /// When two of them differ.
    pub fn same_type(
        &self,
        inputs: impl IntoIterator<Item = usize>,
    ) -> Result<ElementType, RuleError> {
        let mut common = ElementType::Dynamic;
        for input in inputs {
            let found = self.element_type(input);
            if common == ElementType::Dynamic {
                common = found;
            } else if found != ElementType::Dynamic && found != common {
                let message = format!("is {found}, but an earlier input is {common}");
                return Err(RuleError::element_type(input, message));
            }
        }
        Ok(common)
    }

    /// The element type that these numeric inputs share.
    ///
    /// # Errors
    /// When one is not numeric, or two of them differ.
    pub fn same_number(
        &self,
        inputs: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<ElementType, RuleError> {
        inputs.clone().into_iter().try_for_each(|input| self.expect_number(input).map(drop))?;
        self.same_type(inputs)
    }

    /// The element type that these floating-point inputs share.
    ///
    /// # Errors
    /// When one has another type, or two of them differ.
    pub fn same_real(
        &self,
        inputs: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<ElementType, RuleError> {
        inputs.clone().into_iter().try_for_each(|input| self.expect_real(input).map(drop))?;
        self.same_type(inputs)
    }

    /// The element type of the first of these inputs. If it is floating-point, the others may have
    /// other floating-point types: converters mixed f32 and f16, and OpenVINO accepts it.
    ///
    /// # Errors
    /// When two of them differ otherwise.
    pub fn mixed(
        &self,
        inputs: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<ElementType, RuleError> {
        let is_real = |input| self.element_type(input).is_real();
        if inputs.clone().into_iter().all(is_real) {
            Ok(inputs.into_iter().next().map_or(ElementType::Dynamic, |i| self.element_type(i)))
        } else {
            self.same_type(inputs)
        }
    }

    /// As [`InferCx::mixed`], for floating-point inputs only.
    ///
    /// # Errors
    /// When one has another type.
    pub fn mixed_real(
        &self,
        inputs: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<ElementType, RuleError> {
        inputs.clone().into_iter().try_for_each(|input| self.expect_real(input).map(drop))?;
        self.mixed(inputs)
    }

    /// Checks the rank of an input if it is known.
    ///
    /// # Errors
    /// When it is outside `range`.
    pub fn expect_rank(&self, input: usize, range: RangeInclusive<usize>) -> Result<(), RuleError> {
        let Some(rank) = self.rank(input) else { return Ok(()) };
        if range.contains(&rank) {
            return Ok(());
        }
        let wanted = range_text(&range);
        Err(RuleError::at(input, format!("must have rank {wanted}, not {rank}")))
    }

    /// Checks that an input has rank `rank`, and a last axis that can be `size`.
    ///
    /// # Errors
    /// When it does not.
    pub fn expect_rows(&self, input: usize, rank: usize, size: i64) -> Result<(), RuleError> {
        self.expect_rank(input, rank..=rank)?;
        let shape = self.shape(input);
        let fits = shape.dim(rank.saturating_sub(1)).contains(size);
        require!(input; fits, "is {shape}, the last axis must have {size} elements");
        Ok(())
    }

    /// Checks that an input can hold exactly one element, which the message calls `what`.
    ///
    /// # Errors
    /// When it holds more or none.
    pub fn expect_one(&self, input: usize, what: &str) -> Result<(), RuleError> {
        let shape = self.shape(input);
        require!(input; shape.volume().contains(1), "must hold one {what}, but is {shape}");
        Ok(())
    }

    /// The sizes that both an axis of an input and `dim` allow. `name` is what the axis counts, for
    /// messages.
    ///
    /// # Errors
    /// When there is no such size.
    pub fn expect_dim(
        &self,
        input: usize,
        axis: usize,
        name: &str,
        expected: Dim,
    ) -> Result<Dim, RuleError> {
        let shape = self.shape(input);
        let message = || format!("is {shape}: axis {axis}, {name}, must be {expected}");
        expected.meet(shape.dim(axis)).ok_or_else(|| RuleError::at(input, message()))
    }

    /// The size that an axis of each of these inputs shares. `what` is what it counts, for
    /// messages.
    ///
    /// # Errors
    /// When two of them differ.
    pub fn same_dim(
        &self,
        what: &str,
        axes: impl IntoIterator<Item = (usize, usize)>,
    ) -> Result<Dim, RuleError> {
        axes.into_iter().try_fold(Dim::any(), |common, (input, axis)| {
            let found = self.shape(input).dim(axis);
            let message = || format!("has {found} {what}, an earlier input has {common}");
            common.meet(found).ok_or_else(|| RuleError::at(input, message()))
        })
    }

    /// Sets an output.
    pub fn set(
        &mut self,
        output: usize,
        element_type: ElementType,
        shape: impl Into<PartialShape>,
    ) {
        self.set_fact(output, Fact::new(element_type, shape.into()));
    }

    /// Sets an output together with its value. A file may leave out ports of outputs that nothing
    /// reads; the operation still has these outputs.
    pub fn set_fact(&mut self, output: usize, fact: Fact) {
        let count = self.outputs.len().max(output + 1);
        self.outputs.resize(count, None);
        if let Some(slot) = self.outputs.get_mut(output) {
            *slot = Some(fact);
        }
    }

    /// Gives the reason for the dims that this rule leaves unknown, unless they have one.
    pub fn because(&mut self, reason: impl Into<String>) {
        self.reason = Some(reason.into());
    }

    /// A shape of unknown rank, with the reason.
    pub fn unranked(&mut self, reason: &str) -> PartialShape {
        self.because(reason);
        PartialShape::unranked()
    }

    /// The equalities between dims.
    pub fn symbols(&mut self) -> &mut Symbols {
        &mut self.context.symbols
    }

    /// The variables at the beginning of a run, if they are known.
    pub fn variables(&self) -> Option<&HashMap<String, Fact>> {
        self.context.variables.as_ref()
    }

    /// The declaration of a variable by a ReadValue, if the graph is known and has one.
    pub fn declared_variable(&self, id: &str) -> Option<&Fact> {
        self.context.declared.get(id)
    }

    /// Propagates through a body with these Parameters, and returns the facts of its Results. The
    /// facts of the last call are kept.
    ///
    /// # Errors
    /// When the layer has no such body. What is wrong inside the body is reported there.
    pub fn body(
        &mut self,
        body: usize,
        parameters: &[Option<Fact>],
    ) -> Result<Vec<Fact>, RuleError> {
        self.context.enter_body()?;
        let results = self.bodies.propagate(body, parameters, self.context);
        results.ok_or_else(|| RuleError::new(format!("it has no body {body}")))
    }

    /// Whether the last propagation through a body found that its types or shapes cannot work.
    pub fn fails(&mut self, body: usize) -> bool {
        self.bodies.findings(body).iter().any(cannot_work)
    }

    /// Demotes findings about types and shapes of a body that may not run to notes.
    pub fn excuse(&mut self, body: usize) {
        let is_of_shapes = |d: &&mut Diagnostic| cannot_work(d) || d.code == Code::Declared;
        for finding in self.bodies.findings(body).iter_mut().filter(is_of_shapes) {
            finding.severity = Severity::Note;
        }
    }
}

/// A range of numbers as messages tell it.
fn range_text(range: &RangeInclusive<usize>) -> String {
    let (low, high) = (*range.start(), *range.end());
    if low == high {
        low.to_string()
    } else if high == usize::MAX {
        format!("at least {low}")
    } else {
        format!("{low} to {high}")
    }
}

/// Whether a body with this finding fails when it runs.
fn cannot_work(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error && matches!(diagnostic.code, Code::Type | Code::Shape)
}

/// What a value rule sees: the facts of inputs and outputs.
pub struct ValueCx<'a> {
    pub(crate) inputs: &'a [Fact],
    pub(crate) outputs: &'a [Fact],
    pub(crate) output: usize,
}

impl<'a> ValueCx<'a> {
    /// The output whose value is asked for.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// The fact of an input.
    pub fn input(&self, input: usize) -> Option<&'a Fact> {
        self.inputs.get(input)
    }

    /// The values of an input, as far as they are known.
    pub fn value(&self, input: usize) -> Option<&'a PartialValue> {
        self.inputs.get(input)?.value.as_deref()
    }

    /// The values of an input as exact integers, if all are known.
    pub fn ints(&self, input: usize) -> Option<Vec<i64>> {
        self.value(input)?.i64s()
    }

    /// The element type of the output.
    pub fn element_type(&self) -> ElementType {
        self.outputs.get(self.output).map_or(ElementType::Dynamic, |fact| fact.element_type)
    }

    /// The sizes of the output. Values are asked for only if these are known.
    pub fn sizes(&self) -> smallvec::SmallVec<[usize; 6]> {
        self.outputs.get(self.output).and_then(|fact| fact.shape.sizes()).unwrap_or_default()
    }

    /// The value of an input in the shape of the output, for reshapes.
    pub fn passed_through(&self, input: usize) -> Option<PartialValue> {
        self.value(input)?.reshaped(&self.sizes())
    }

    /// The value of an input, shared.
    pub fn shared(&self, input: usize) -> Option<Arc<PartialValue>> {
        self.inputs.get(input)?.value.clone()
    }
}
