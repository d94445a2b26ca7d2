//! What lives from run to run: the variables of a session.

use crate::tensor::{Sizes, Tensor};
use infer::{Fact, PartialShape};
use ir::ElementType;
use std::collections::HashMap;

/// Type and shape of the variables that have a value: a plan is made for these.
pub(crate) type Held = Vec<(String, ElementType, Sizes)>;

/// The variables that a plan is made for, if their shapes are known.
pub(crate) fn held(variables: &HashMap<String, Fact>) -> Option<Held> {
    let held = |(id, fact): (&String, &Fact)| {
        fact.shape.sizes().map(|sizes| (id.clone(), fact.element_type, sizes))
    };
    variables.iter().map(held).collect()
}

/// What ReadValue reads and Assign writes. A run reads what the run before it left.
#[derive(Default)]
pub(crate) struct Variables {
    values: HashMap<String, Tensor>,
    assigned: Vec<(String, Tensor)>,
}

impl Variables {
    pub(crate) fn read(&self, id: &str) -> Option<Tensor> {
        self.values.get(id).cloned()
    }

    pub(crate) fn assign(&mut self, id: &str, value: Tensor) {
        self.assigned.push((id.to_owned(), value));
    }

    pub(crate) fn commit(&mut self) {
        self.values.extend(self.assigned.drain(..));
    }

    pub(crate) fn discard(&mut self) {
        self.assigned.clear();
    }

    pub(crate) fn set(&mut self, id: &str, value: Tensor) {
        self.values.insert(id.to_owned(), value);
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.values.iter().map(|(id, value)| (id.as_str(), value))
    }

    pub(crate) fn held(&self) -> Held {
        let held = |(id, t): (&String, &Tensor)| (id.clone(), t.element_type(), t.sizes().into());
        self.values.iter().map(held).collect()
    }

    /// Whether these and no others have values, of these types and shapes.
    pub(crate) fn are(&self, held: &Held) -> bool {
        let same = |(id, element_type, sizes): &(String, ElementType, Sizes)| {
            let value = self.values.get(id);
            value.is_some_and(|t| t.element_type() == *element_type && t.sizes() == &sizes[..])
        };
        self.values.len() == held.len() && held.iter().all(same)
    }

    pub(crate) fn facts(&self) -> HashMap<String, Fact> {
        let fact = |t: &Tensor| Fact::new(t.element_type(), PartialShape::fixed(t.sizes()));
        self.values.iter().map(|(id, t)| (id.clone(), fact(t))).collect()
    }
}
