//! The variables of a session, which live from run to run.

use crate::error::KernelError;
use crate::memory::kv_cache::KvCache;
use crate::memory::pool::Pool;
use crate::tensor::{Sizes, Tensor, TensorError};
use infer::{Fact, PartialShape};
use ir::{ElementType, Graph};
use std::collections::HashMap;

/// What ReadValue reads and Assign writes. A run reads what the previous run has committed.
#[derive(Default)]
pub(crate) struct Variables {
    values: HashMap<String, Tensor>,
    /// KV caches, which are not in `values`.
    caches: HashMap<String, KvCache>,
    assigned: Vec<(String, Tensor)>,
    /// The declarations of the model, by id.
    declared: HashMap<String, Fact>,
}

impl Variables {
    /// The value of a variable, if it has one. That of a KV cache is copied.
    pub(crate) fn read(&self, id: &str) -> Result<Option<Tensor>, KernelError> {
        match self.caches.get(id) {
            Some(cache) => cache.tensor(),
            None => Ok(self.values.get(id).cloned()),
        }
    }

    /// Notes an assignment of the current run.
    ///
    /// # Errors
    /// When the variable is declared to be of another type or shape.
    pub(crate) fn assign(&mut self, id: &str, value: Tensor) -> Result<(), KernelError> {
        if let Some(declared) = self.declared.get(id) {
            let own = declared.element_type;
            let typed = !own.is_static() || own == value.element_type();
            if !typed || !declared.shape.covers(&PartialShape::fixed(value.sizes())) {
                let message = format!("is {value:?}, but variable \"{id}\" is {declared}");
                return Err(KernelError::at(0, message));
            }
        }
        self.assigned.push((id.to_owned(), value));
        Ok(())
    }

    /// Sets the declared type and shape of each variable.
    pub(crate) fn declare(&mut self, declared: HashMap<String, Fact>) {
        self.declared = declared;
    }

    /// Replaces all values by copies of those of another session.
    ///
    /// # Errors
    /// When they do not fit in memory.
    pub(crate) fn begin_with(
        &mut self,
        values: Vec<(String, Tensor)>,
        graph: &Graph,
        pool: &Pool,
    ) -> Result<(), TensorError> {
        self.discard();
        self.clear(pool);
        self.declare(infer::declared_variables(graph));
        for (id, value) in values {
            self.set(&id, value.to_owned()?);
        }
        Ok(())
    }

    /// A variable as KV cache; `first` gives its initial value if it has none.
    pub(crate) fn cache(
        &mut self,
        id: &str,
        first: impl FnOnce() -> Result<Tensor, KernelError>,
        pool: &Pool,
    ) -> Result<&mut KvCache, KernelError> {
        if !self.caches.contains_key(id) {
            let cache = match self.values.get(id) {
                Some(value) => KvCache::new(value, true, pool)?,
                None => KvCache::new(&first()?, false, pool)?,
            };
            self.values.remove(id);
            self.caches.insert(id.to_owned(), cache);
        }
        self.caches.get_mut(id).ok_or_else(|| KernelError::new("a cache is missing"))
    }

    /// A KV cache that this run has grown.
    pub(crate) fn grown(&self, id: &str) -> Result<&KvCache, KernelError> {
        self.caches.get(id).ok_or_else(|| KernelError::new(format!("\"{id}\" is no cache")))
    }

    /// Commits the assignments of a complete run.
    pub(crate) fn commit(&mut self, pool: &Pool) {
        self.caches.retain(|_, cache| cache.commit(pool));
        for (id, value) in std::mem::take(&mut self.assigned) {
            self.set(&id, value);
        }
    }

    /// Discards the assignments of a failed run.
    pub(crate) fn discard(&mut self) {
        self.caches.retain(|_, cache| cache.discard());
        self.assigned.clear();
    }

    pub(crate) fn set(&mut self, id: &str, value: Tensor) {
        self.caches.remove(id);
        self.values.insert(id.to_owned(), value);
    }

    pub(crate) fn clear(&mut self, pool: &Pool) {
        self.values.clear();
        self.caches.drain().for_each(|(_, cache)| cache.give_back(pool));
    }

    /// Type and sizes of the variables that have a value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, (ElementType, Sizes))> {
        let values = self.values.iter().map(|(id, t)| (id, (t.element_type(), t.sizes().into())));
        let grown = self.caches.iter().filter_map(|(id, cache)| Some((id, of_cache(cache)?)));
        values.chain(grown).map(|(id, of)| (id.as_str(), of))
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() + self.caches.values().filter_map(of_cache).count()
    }

    /// Type and sizes of a variable, if it has a value.
    pub(crate) fn get(&self, id: &str) -> Option<(ElementType, Sizes)> {
        match self.caches.get(id) {
            Some(cache) => of_cache(cache),
            None => self.values.get(id).map(|t| (t.element_type(), t.sizes().into())),
        }
    }

    pub(crate) fn facts(&self) -> HashMap<String, Fact> {
        let fact = |(element_type, sizes): (ElementType, Sizes)| {
            Fact::new(element_type, PartialShape::fixed(&sizes))
        };
        self.iter().map(|(id, of)| (id.to_owned(), fact(of))).collect()
    }
}

fn of_cache(cache: &KvCache) -> Option<(ElementType, Sizes)> {
    Some((ElementType::F32, cache.sizes()?.into_iter().collect()))
}
