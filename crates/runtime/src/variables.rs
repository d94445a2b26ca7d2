//! What lives from run to run: the variables of a session.

use crate::tensor::Tensor;
use infer::{Fact, PartialShape};
use std::collections::HashMap;

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

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Tensor> {
        self.values.get(id)
    }

    pub(crate) fn facts(&self) -> HashMap<String, Fact> {
        let fact = |t: &Tensor| Fact::new(t.element_type(), PartialShape::fixed(t.sizes()));
        self.values.iter().map(|(id, t)| (id.clone(), fact(t))).collect()
    }
}
