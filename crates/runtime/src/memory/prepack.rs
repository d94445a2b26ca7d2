//! The store of a session: what kernels pack or compute once from inputs that are the same in every
//! run, such as packed matrices and decompressed weights. All plans of the session share it.

use crate::tensor::{Sizes, Tensor, TensorError};
use ir::ElementType;
use kernels::WeightArena;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Tensors of up to this many bytes are keyed by their contents, larger ones by their address.
const KEYED_BY_CONTENT_BYTES: usize = 1 << 10;

/// Constants of at least this many bytes are worth a system call that releases their memory.
const MIN_RELEASED_BYTES: usize = 1 << 18;

/// How many bytes are hashed to tell constants apart before they are compared.
const SAMPLES: usize = 256;

/// Whether a constant is large enough for a system call that releases its memory.
pub(crate) fn is_worth_releasing(constant: &Tensor) -> bool {
    constant.bytes().len() >= MIN_RELEASED_BYTES
}

/// Entries made by the plans of a session. They live as long as the session.
#[derive(Default)]
pub(crate) struct Store {
    slots: Mutex<HashMap<Key, Arc<dyn Entry>>>,
    /// Whether sources have been needed, whatever the layout: a prompt and its tokens read the same
    /// weights in two.
    needed: Mutex<HashMap<Sources, Arc<AtomicBool>>>,
    /// Constants computed at compile time, by a hash of some of their bytes.
    constants: Mutex<HashMap<u64, Vec<Tensor>>>,
    /// Memory of packed weights.
    pub(crate) arena: WeightArena,
}

/// What an entry is made from.
type Sources = Vec<Identity>;

/// Sources, layout and type of an entry.
type Key = (Sources, String, TypeId);

/// The identity of a tensor as the source of an entry.
#[derive(Clone, PartialEq, Eq, Hash)]
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
    of: Vec<Tensor>,
    was_needed: Arc<AtomicBool>,
    made: OnceLock<T>,
}

/// A slot of any type.
trait Entry: Any + Send + Sync {
    fn is_made(&self) -> bool;
}

impl<T: Send + Sync + 'static> Entry for Slot<T> {
    fn is_made(&self) -> bool {
        self.made.get().is_some()
    }
}

impl<T> Slot<T> {
    /// Notes that the sources are needed; whether they have been before.
    pub(crate) fn is_needed_again(&self) -> bool {
        self.was_needed.swap(true, Ordering::Relaxed)
    }

    /// The entry, if it is made.
    pub(crate) fn made(&self) -> Option<&T> {
        self.made.get()
    }

    /// The entry, made now if it is missing. Sessions that share it wait for the first one.
    pub(crate) fn made_by(&self, make: impl FnOnce() -> T) -> &T {
        self.made.get_or_init(|| {
            let made = make();
            self.release_sources();
            made
        })
    }

    /// The entry, made now if it is missing.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn made_or<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = make()?;
        Ok(self.made_by(|| made))
    }

    /// Releases the memory of the sources, since the entry is read in place of them.
    fn release_sources(&self) {
        self.of.iter().filter(|source| is_worth_releasing(source)).for_each(Tensor::give_back);
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

    /// A constant, copied if it is not aligned: once for all plans of the session.
    ///
    /// # Errors
    /// When the copy does not fit in memory.
    pub(crate) fn aligned(&self, constant: &Tensor) -> Result<Tensor, TensorError> {
        if constant.is_aligned() {
            return Ok(constant.clone());
        }
        let slot = self.slot::<Tensor>(&[constant], "aligned".to_owned());
        slot.made_or(|| constant.to_owned()).cloned()
    }

    /// The slot of what is made from `of` in the layout that `form` describes.
    pub(crate) fn slot<T: Send + Sync + 'static>(
        &self,
        of: &[&Tensor],
        form: String,
    ) -> Arc<Slot<T>> {
        let sources: Sources = of.iter().map(|t| Identity::of(t)).collect();
        let mut needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        let was_needed = Arc::clone(needed.entry(sources.clone()).or_default());
        drop(needed);
        let key = (sources, form, TypeId::of::<T>());
        let new = || {
            let of = of.iter().map(|t| (*t).clone()).collect();
            let was_needed = Arc::clone(&was_needed);
            Arc::new(Slot::<T> { of, was_needed, made: OnceLock::new() })
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot: Arc<dyn Any + Send + Sync> =
            Arc::clone(slots.entry(key).or_insert_with(|| new())) as _;
        slot.downcast().unwrap_or_else(|_| new())
    }

    /// The number of entries that are made.
    pub(crate) fn made(&self) -> usize {
        self.slots.lock().map_or(0, |slots| slots.values().filter(|slot| slot.is_made()).count())
    }
}
