//! The store of a session: what kernels pack or compute once from inputs that are the same in every
//! run, such as packed matrices and decompressed weights. All plans of the session share it.

use crate::tensor::{Sizes, Tensor};
use ir::ElementType;
use kernels::WeightArena;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Tensors of up to this many bytes are keyed by their contents, larger ones by their address.
const KEYED_BY_CONTENT_BYTES: usize = 1 << 10;

/// How many bytes are hashed to tell constants apart before they are compared.
const SAMPLES: usize = 256;

/// Entries made by the plans of a session. They live as long as the session.
#[derive(Default)]
pub(crate) struct Store {
    slots: Mutex<HashMap<Key, Arc<dyn Any + Send + Sync>>>,
    /// Constants computed at compile time, by a hash of some of their bytes.
    constants: Mutex<HashMap<u64, Vec<Tensor>>>,
    /// Memory of packed weights.
    pub(crate) arena: WeightArena,
}

/// Sources, layout and type of an entry.
type Key = (Vec<Identity>, String, TypeId);

/// The identity of a tensor as the source of an entry.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    element_type: ElementType,
    sizes: Sizes,
    at: usize,
    contents: Box<[u8]>,
}

impl Identity {
    fn of(tensor: &Tensor) -> Identity {
        let bytes = tensor.bytes();
        let is_small = tensor.as_strings().is_none() && bytes.len() <= KEYED_BY_CONTENT_BYTES;
        let strings = tensor.as_strings().map(|s| s.as_ptr() as usize);
        Identity {
            element_type: tensor.element_type(),
            sizes: tensor.sizes().into(),
            at: if is_small { 0 } else { strings.unwrap_or(bytes.as_ptr() as usize) },
            contents: if is_small { bytes.into() } else { Box::default() },
        }
    }
}

/// An entry, made once.
pub(crate) struct Slot<T> {
    /// Keeps the sources alive, since their addresses are the key.
    _of: Vec<Tensor>,
    pub(crate) was_needed: AtomicBool,
    pub(crate) made: OnceLock<T>,
}

impl<T> Slot<T> {
    /// The entry, made now if it is missing.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn made_or<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.made.get() {
            Some(made) => Ok(made),
            None => make().map(|made| self.made.get_or_init(|| made)),
        }
    }
}

impl Store {
    /// Returns the equal constant of an earlier plan, if there is one, in place of `tensor`.
    pub(crate) fn constant(&self, tensor: Tensor) -> Tensor {
        if !tensor.is_unique() || tensor.bytes().len() <= KEYED_BY_CONTENT_BYTES {
            return tensor;
        }
        let mut hasher = DefaultHasher::new();
        let bytes = tensor.bytes();
        bytes.iter().step_by(bytes.len() / SAMPLES).for_each(|byte| hasher.write_u8(*byte));
        let mut constants = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        let similar = constants.entry(hasher.finish()).or_default();
        if let Some(known) = similar.iter().find(|known| **known == tensor) {
            return known.clone();
        }
        similar.push(tensor.clone());
        tensor
    }

    /// The slot of what is made from `of` in the layout that `form` describes.
    pub(crate) fn slot<T: Send + Sync + 'static>(
        &self,
        of: &[&Tensor],
        form: String,
    ) -> Arc<Slot<T>> {
        let key = (of.iter().map(|t| Identity::of(t)).collect(), form, TypeId::of::<T>());
        let new = || {
            let of = of.iter().map(|t| (*t).clone()).collect();
            Arc::new(Slot::<T> {
                _of: of,
                was_needed: AtomicBool::default(),
                made: OnceLock::new(),
            })
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(key).or_insert_with(|| new()));
        slot.downcast().unwrap_or_else(|_| new())
    }
}

impl Store {
    /// Packed or computed-once entries.
    pub(crate) fn len(&self) -> usize {
        self.slots.lock().map_or(0, |slots| slots.len())
    }
}
