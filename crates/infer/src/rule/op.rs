//! Operations: attributes, a rule for types and shapes, and a rule for small values.

use crate::lattice::value::PartialValue;
use crate::rule::attrs::Attrs;
use crate::rule::cx::{InferCx, ValueCx};
use crate::rule::error::{AttrError, RuleError};
use crate::rule::input_set::InputSet;
use std::any::Any;
use std::fmt::Debug;

/// An operation with its attributes. One type serves a family or all versions of an operation.
pub trait Op: Any + Debug + Send + Sync {
    /// Names of the inputs as in the specification, for messages.
    fn input_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Element types and shapes of the outputs, by one rule for static, bounded and dynamic
    /// shapes.
    ///
    /// # Errors
    /// When the inputs break a rule.
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError>;

    /// Values of a small output, as far as they follow from those of the inputs. Only operations of
    /// shape arithmetic override this.
    fn value(&self, _cx: &ValueCx<'_>) -> Option<PartialValue> {
        None
    }

    /// What the optimiser and the adapters may assume.
    fn traits(&self) -> OpTraits {
        OpTraits::PURE
    }
}

/// Reads the attributes of a layer. `Kind` distinguishes the members or versions of a family; it
/// comes from the row of the table.
pub trait Parse: Op + Sized {
    /// What the row adds to the name; `()` for an operation without a family.
    type Kind;

    /// Reads and checks the attributes.
    ///
    /// # Errors
    /// When an attribute is missing, malformed or out of range.
    fn parse(kind: Self::Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError>;
}

/// Implements [`Parse`] for an operation without kind and attributes.
macro_rules! no_attributes {
    ($op:ident) => {
        impl Parse for $op {
            type Kind = ();

            fn parse((): (), _attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
                Ok($op)
            }
        }
    };
}

pub(crate) use no_attributes;

/// Properties of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTraits {
    /// The outputs depend on the inputs only, so the operation may be folded or shared.
    pub pure: bool,
    /// Inputs whose elements are moved but not computed with. Such an operation works on any
    /// element type, by its size.
    pub moves: InputSet,
    /// Accepts both f16 and f32 inputs, while its kernels take one type.
    pub mixes: bool,
}

impl OpTraits {
    /// Computes its outputs from its inputs.
    pub const PURE: OpTraits = OpTraits { pure: true, moves: InputSet::NONE, mixes: false };

    /// Has state or an effect: random numbers, variables.
    pub const STATEFUL: OpTraits = OpTraits { pure: false, moves: InputSet::NONE, mixes: false };

    /// Moves elements of these inputs, whatever their type.
    pub const fn moving(inputs: InputSet) -> OpTraits {
        OpTraits { pure: true, moves: inputs, mixes: false }
    }

    /// The same for an operation that mixes floating-point types: see [`InferCx::mixed`].
    ///
    /// [`InferCx::mixed`]: crate::InferCx::mixed
    pub const fn mixing(self) -> OpTraits {
        OpTraits { mixes: true, ..self }
    }
}
