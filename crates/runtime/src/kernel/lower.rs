//! Lowering: from an operation with known shapes to a kernel. Element types and shapes are resolved
//! here, never while running.

use crate::kernel::Kernel;
use crate::tensor::convert::convert_tensor;
use crate::tensor::memory_limit::reason;
use crate::tensor::{Element, Sizes, Tensor, is_available, packed_len};
use infer::{Extensions, Fact, InputSet, Op, Parse, RuleError};
use ir::{Body, ElementType};
use kernels::gemm::Precision;
use std::any::TypeId;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::OnceLock;

/// An operation that can be executed.
#[diagnostic::on_unimplemented(
    message = "operation `{Self}` has a rule but no kernel",
    note = "implement `Lower` in the file of the same name in crates/runtime/src/ops"
)]
pub trait Lower: Op + Sized {
    /// Chooses the kernel for inputs of known type and shape.
    ///
    /// [`LowerError::NeedsValue`] if the kernel depends on the value of an input; the driver then
    /// lowers again once the value is there. [`LowerError::Unsupported`] if no kernel supports the
    /// operation.
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError>;
}

/// Why there is no kernel, or not yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// The value of this input has to be known first.
    #[error("the value of input {0} has to be known")]
    NeedsValue(usize),
    /// The shape of this output has to be known first.
    #[error("the shape of output {0} depends on the data")]
    NeedsShape(usize),
    /// No kernel does this.
    #[error("{0}")]
    Unsupported(String),
    /// The inputs break a rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl LowerError {
    /// No kernel for the element type of an input.
    pub fn element_type(input: usize, found: ElementType) -> LowerError {
        LowerError::Unsupported(format!("input {input} of type {found} is not supported"))
    }
}

/// What is known when a kernel is chosen.
pub struct LowerCx<'a> {
    inputs: &'a [Fact],
    outputs: &'a [Fact],
    sizes: Vec<Sizes>,
    output_sizes: Vec<Option<Sizes>>,
    constants: &'a [Option<Tensor>],
    values: &'a [Option<Tensor>],
    bodies: &'a [Body],
    /// Inputs that are the same in every run.
    invariant: InputSet,
    precision: Precision,
    consulted: Cell<InputSet>,
}

impl<'a> LowerCx<'a> {
    /// `constants` are inputs that are the same in every run, `values` are inputs that are known
    /// now. All inputs must be static.
    pub(crate) fn new(
        (inputs, outputs): (&'a [Fact], &'a [Fact]),
        constants: &'a [Option<Tensor>],
        values: &'a [Option<Tensor>],
        bodies: &'a [Body],
    ) -> LowerCx<'a> {
        let sizes = |fact: &Fact| fact.shape.sizes();
        LowerCx {
            invariant: InputSet::NONE,
            precision: Precision::F32,
            inputs,
            outputs,
            sizes: inputs.iter().map(|f| sizes(f).unwrap_or_default()).collect(),
            output_sizes: outputs.iter().map(sizes).collect(),
            constants,
            values,
            bodies,
            consulted: Cell::default(),
        }
    }

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// The element type of an input.
    pub fn element_type(&self, input: usize) -> ElementType {
        self.inputs.get(input).map_or(ElementType::Dynamic, |f| f.element_type)
    }

    /// The element type of an output.
    pub fn output_type(&self, output: usize) -> ElementType {
        self.outputs.get(output).map_or(ElementType::Dynamic, |f| f.element_type)
    }

    /// The sizes of an input; those of a scalar if the input does not exist.
    pub fn sizes(&self, input: usize) -> &[usize] {
        self.sizes.get(input).map_or(&[], |s| s)
    }

    /// Number of elements of an input.
    pub fn count(&self, input: usize) -> usize {
        self.sizes(input).iter().product()
    }

    /// The sizes of an output.
    ///
    /// # Errors
    /// [`LowerError::NeedsShape`] when they are not known yet.
    pub fn output_sizes(&self, output: usize) -> Result<&[usize], LowerError> {
        let sizes = self.output_sizes.get(output).and_then(Option::as_deref);
        sizes.ok_or(LowerError::NeedsShape(output))
    }

    /// An input that is the same in every run, for kernels that prepare it.
    pub fn constant(&self, input: usize) -> Option<&'a Tensor> {
        self.constants.get(input)?.as_ref()
    }

    /// Whether an input is the same in every run, even if its value is not known yet.
    pub fn is_invariant(&self, input: usize) -> bool {
        self.invariant.contains(input)
    }

    /// The same, with more inputs that are the same in every run.
    pub(crate) fn with_invariant(mut self, inputs: InputSet) -> LowerCx<'a> {
        self.invariant = self.invariant.with(inputs);
        self
    }

    /// The precision of the operands of GEMMs: f32, or bf16 as `Options::precision` asks.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The same, with another precision.
    pub(crate) fn with_precision(self, precision: Precision) -> LowerCx<'a> {
        LowerCx { precision, ..self }
    }

    /// The value of an input as a tensor.
    ///
    /// # Errors
    /// [`LowerError::NeedsValue`] if it is not known yet.
    pub fn value(&self, input: usize) -> Result<&'a Tensor, LowerError> {
        self.consulted.set(self.consulted.get().with(InputSet::one(input)));
        self.values.get(input).and_then(Option::as_ref).ok_or(LowerError::NeedsValue(input))
    }

    /// The values of an integer input, or of one that its rule takes for integers: booleans, and
    /// real numbers, which are truncated.
    ///
    /// # Errors
    /// As [`LowerCx::value`], and for inputs of another type.
    pub fn ints(&self, input: usize) -> Result<Vec<i64>, LowerError> {
        self.values_as(input, |t| t.is_integral() || t == ElementType::Boolean || t.is_real())
    }

    /// The only value of an integer input.
    ///
    /// # Errors
    /// As [`LowerCx::ints`], and when there is not exactly one.
    pub fn int(&self, input: usize) -> Result<i64, LowerError> {
        match self.ints(input)?[..] {
            [one] => Ok(one),
            _ => Err(RuleError::at(input, "must hold one element").into()),
        }
    }

    /// The values of an input of any numeric type.
    ///
    /// # Errors
    /// As [`LowerCx::value`], and for inputs that are not numbers.
    pub fn floats(&self, input: usize) -> Result<Vec<f64>, LowerError> {
        self.values_as(input, |t| t != ElementType::String)
    }

    /// The values of an input as `T`, if `is_taken` accepts its type.
    fn values_as<T: Element>(
        &self,
        input: usize,
        is_taken: impl Fn(ElementType) -> bool,
    ) -> Result<Vec<T>, LowerError> {
        let tensor = self.value(input)?;
        let element_type = tensor.element_type();
        let refused = || LowerError::element_type(input, element_type);
        if !is_taken(element_type) {
            return Err(refused());
        }
        let wide = convert_tensor(tensor, T::TYPE);
        let wide = wide.map_err(|e| LowerError::Unsupported(e.to_string()))?;
        wide.as_slice().map(<[T]>::to_vec).ok_or_else(refused)
    }

    /// The bodies of the layer.
    pub fn bodies(&self) -> &'a [Body] {
        self.bodies
    }

    pub(crate) fn input_facts(&self) -> &'a [Fact] {
        self.inputs
    }

    pub(crate) fn output_facts(&self) -> &'a [Fact] {
        self.outputs
    }

    /// The same, with other facts.
    pub(crate) fn with_facts<'b>(&'b self, inputs: &'b [Fact], outputs: &'b [Fact]) -> LowerCx<'b> {
        LowerCx::new((inputs, outputs), self.constants, self.values, self.bodies)
            .with_invariant(self.invariant)
            .with_precision(self.precision)
    }

    /// Whether no output has elements.
    pub(crate) fn has_empty_outputs(&self) -> bool {
        let is_empty = |sizes: &Option<Sizes>| sizes.as_ref().is_some_and(|s| s.contains(&0));
        !self.output_sizes.is_empty() && self.output_sizes.iter().all(is_empty)
    }

    /// Rejects large outputs that do not fit in memory, before a kernel builds tables for them. An
    /// output no larger than the inputs passes, since it may be a view of them.
    pub(crate) fn check_memory(&self) -> Result<(), LowerError> {
        const LARGE_OUTPUT_BYTES: usize = 1 << 30;
        let len = |fact: &Fact| packed_len(fact.element_type, &fact.shape.sizes()?).ok();
        let given = self.inputs.iter().filter_map(len).fold(0, usize::saturating_add);
        for output in self.outputs {
            let needed = len(output).unwrap_or(0);
            if needed > LARGE_OUTPUT_BYTES.max(given) && !is_available(needed) {
                let reason = reason(needed);
                let message = format!("there is no memory for the output {output}{reason}");
                return Err(LowerError::Unsupported(message));
            }
        }
        Ok(())
    }

    /// The inputs whose values were asked for.
    pub(crate) fn consulted(&self) -> InputSet {
        self.consulted.get()
    }
}

/// A function that lowers one type of operation.
pub(crate) type LowerFn = fn(&dyn Op, &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError>;

/// The lowering function of an operation type.
pub(crate) fn lower_fn<T: Lower>() -> LowerFn {
    |op, cx| {
        let any: &dyn std::any::Any = op;
        match any.downcast_ref::<T>() {
            Some(op) => op.lower(cx),
            None => Err(LowerError::Unsupported(format!("{op:?} is of another type"))),
        }
    }
}

macro_rules! lowerings {
    ($($op_type:literal, $versions:expr => $module:ident::$op:ident $(($variant:ident))?;)*) => {
        fn lowerings() -> Vec<(TypeId, LowerFn)> {
            vec![$((
                TypeId::of::<infer::ops::$module::$op>(),
                lower_fn::<infer::ops::$module::$op>(),
            ),)*]
        }
    };
}

infer::opset!(lowerings);

/// Registers an operation of the program, with its rule and its kernel, for layers of this type and
/// version. [`infer::Inputs::extensions`] takes the extensions, and plans compiled from the
/// resulting facts use the kernel.
pub fn register<T: Lower + Parse<Kind = ()>>(
    extensions: &mut Extensions,
    op_type: &'static str,
    version: &'static str,
) {
    extensions.register::<T>(op_type, version, lower_fn::<T>());
}

/// The lowering function of an operation, which may be an extension.
pub(crate) fn find_in(extensions: &Extensions, op: &dyn Op) -> Option<LowerFn> {
    extensions.lowering::<LowerFn>(op).copied().or_else(|| find(op))
}

/// The lowering function of an operation of the table.
pub(crate) fn find(op: &dyn Op) -> Option<LowerFn> {
    // Filled here, not by the static: every static is compiled, with all that it calls, and unit
    // tests would have all operations compiled for them.
    static BY_TYPE: OnceLock<HashMap<TypeId, LowerFn>> = OnceLock::new();
    let any: &dyn std::any::Any = op;
    BY_TYPE.get_or_init(|| lowerings().into_iter().collect()).get(&any.type_id()).copied()
}

/// The input and the message of a lowering error.
pub(crate) fn lower_text(error: LowerError) -> (Option<usize>, String) {
    match error {
        LowerError::Rule(rule) => (rule.input, rule.message),
        other => (None, other.to_string()),
    }
}
