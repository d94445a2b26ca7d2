//! What lives from run to run: the variables of a session.

use crate::error::KernelError;
use crate::memory::kv_cache::KvCache;
use crate::memory::pool::Pool;
use crate::tensor::{Sizes, Tensor, TensorError};
use infer::{Fact, PartialShape};
use ir::{ElementType, Graph};
use std::collections::HashMap;

/// What ReadValue reads and Assign writes. A run reads what the run before it left.
#[derive(Default)]
pub(crate) struct Variables {
    values: HashMap<String, Tensor>,
    /// Variables that grow, which are not among the values.
    caches: HashMap<String, KvCache>,
    assigned: Vec<(String, Tensor)>,
    /// What the model declares, by id.
    declared: HashMap<String, Fact>,
}

impl Variables {
    /// What a variable holds, if it has a value. That of a cache is copied.
    pub(crate) fn read(&self, id: &str) -> Result<Option<Tensor>, KernelError> {
        match self.caches.get(id) {
            Some(cache) => cache.tensor(),
            None => Ok(self.values.get(id).cloned()),
        }
    }

    /// Notes what a run writes.
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

    /// Those whose type and shape the model declares.
    pub(crate) fn declare(&mut self, declared: HashMap<String, Fact>) {
        self.declared = declared;
    }

    /// Copies of the variables of another session, in place of what there was.
    ///
    /// # Errors
    /// When there is no memory for them.
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

    /// A variable as a cache; `first` is what it begins with if it has no value.
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

    /// A cache that this run has grown.
    pub(crate) fn grown(&self, id: &str) -> Result<&KvCache, KernelError> {
        self.caches.get(id).ok_or_else(|| KernelError::new(format!("\"{id}\" is no cache")))
    }

    /// Keeps what a complete run has assigned.
    pub(crate) fn commit(&mut self, pool: &Pool) {
        self.caches.retain(|_, cache| cache.commit(pool));
        for (id, value) in std::mem::take(&mut self.assigned) {
            self.set(&id, value);
        }
    }

    /// Leaves the variables as they were before the run.
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

    /// Type and sizes of those that have a value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, (ElementType, Sizes))> {
        let values = self.values.iter().map(|(id, t)| (id, (t.element_type(), t.sizes().into())));
        let grown = self.caches.iter().filter_map(|(id, cache)| Some((id, of_cache(cache)?)));
        values.chain(grown).map(|(id, of)| (id.as_str(), of))
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() + self.caches.values().filter_map(of_cache).count()
    }

    /// Type and sizes of one, if it has a value.
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
