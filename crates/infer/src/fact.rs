//! Facts: what is known of a tensor before it exists.

use crate::lattice::shape::PartialShape;
use crate::lattice::value::PartialValue;
use ir::ElementType;
use std::fmt;
use std::sync::Arc;

/// What is known of one tensor: element type, shape and, if it is small, its values.
#[derive(Clone, PartialEq)]
pub struct Fact {
    /// The element type; [`ElementType::Dynamic`] if unknown.
    pub element_type: ElementType,
    /// The shape as far as it is known.
    pub shape: PartialShape,
    /// The values as far as they are known.
    pub value: Option<Arc<PartialValue>>,
}

impl Fact {
    /// A tensor of known type and shape.
    pub fn new(element_type: ElementType, shape: PartialShape) -> Fact {
        Fact { element_type, shape, value: None }
    }

    /// A tensor of which nothing is known.
    pub fn unknown() -> Fact {
        Fact::new(ElementType::Dynamic, PartialShape::unranked())
    }

    /// The same tensor with a known value.
    pub fn with_value(self, value: PartialValue) -> Fact {
        Fact { value: Some(Arc::new(value)), ..self }
    }

    /// Whether type and shape are known exactly.
    pub fn is_static(&self) -> bool {
        self.element_type.is_static() && self.shape.is_static()
    }
}

/// `f32[1,?,64]`, or `i64[2] = {2, 5}` when the value is known.
impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.element_type, self.shape)?;
        match &self.value {
            Some(value) => write!(f, " = {value}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
