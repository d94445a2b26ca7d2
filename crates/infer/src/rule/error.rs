//! Errors of rules and attributes. Rules do not know names: the driver adds layer, port and line.

use ir::Code;

/// An input or an attribute that breaks a rule of the operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RuleError {
    /// [`Code::Type`] or [`Code::Shape`], or what a body reported.
    pub code: Code,
    /// The input it concerns.
    pub input: Option<usize>,
    /// The attribute it concerns, whose place in the file the finding then has.
    pub attribute: Option<&'static str>,
    /// The rule, with the numbers that break it.
    pub message: String,
}

impl RuleError {
    /// A broken rule about shapes or values.
    pub fn new(message: impl Into<String>) -> RuleError {
        RuleError { code: Code::Shape, input: None, attribute: None, message: message.into() }
    }

    /// A broken rule about one input.
    pub fn at(input: usize, message: impl Into<String>) -> RuleError {
        RuleError { input: Some(input), ..RuleError::new(message) }
    }

    /// The same about the value of an attribute, which does not fit the inputs.
    #[must_use]
    pub fn about(self, attribute: &'static str) -> RuleError {
        RuleError { attribute: Some(attribute), ..self }
    }

    /// An element type that the operation does not take.
    pub fn element_type(input: usize, message: impl Into<String>) -> RuleError {
        RuleError { code: Code::Type, ..RuleError::at(input, message) }
    }
}

/// A missing, malformed or out-of-range attribute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attribute {name}: {message}")]
pub struct AttrError {
    /// The attribute.
    pub name: String,
    /// What is wrong with it.
    pub message: String,
}

impl AttrError {
    /// An error about one attribute.
    pub fn new(name: &str, message: impl Into<String>) -> AttrError {
        AttrError { name: name.to_owned(), message: message.into() }
    }
}

/// Returns a [`RuleError`] unless a condition holds:
/// `require!(a == b, "{a} is not {b}")`, or, about input 2, `require!(2; axis < rank, "…")`, or,
/// about the value of an attribute, `require!(attribute "axis"; axis < rank, "…")`.
#[macro_export]
macro_rules! require {
    (attribute $name:literal; $condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::RuleError::new(format!($($message)+)).about($name));
        }
    };
    ($input:expr; $condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::RuleError::at($input, format!($($message)+)));
        }
    };
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::RuleError::new(format!($($message)+)));
        }
    };
}
