//! What kernels prepare from inputs that are the same in every run: packed matrices, decompressed
//! weights. A session has plans for several shapes; what one of them has prepared serves all.

use crate::kernel::RunCx;
use crate::tensor::{Sizes, Tensor};
use ir::ElementType;
use kernels::Shelf;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Tensors up to so many bytes are known by their contents, larger ones by where they lie.
const SMALL: usize = 1 << 10;

/// Bytes that tell constants apart at first sight.
const SAMPLES: usize = 256;

/// What the plans of a session have prepared. It lives as long as the session.
#[derive(Default)]
pub(crate) struct Store {
    slots: Mutex<HashMap<Key, Arc<dyn Any + Send + Sync>>>,
    /// What plans have computed when they were made, by a few of its bytes.
    constants: Mutex<HashMap<u64, Vec<Tensor>>>,
    /// Where large things that kernels prepare are put.
    pub(crate) shelf: Shelf,
}

/// What something is made of, how, and its type.
type Key = (Vec<Source>, String, TypeId);

/// A tensor as far as it tells what is made of it.
#[derive(PartialEq, Eq, Hash)]
struct Source {
    element_type: ElementType,
    sizes: Sizes,
    at: usize,
    contents: Box<[u8]>,
}

impl Source {
    fn of(tensor: &Tensor) -> Source {
        let bytes = tensor.bytes();
        let is_small = tensor.as_strings().is_none() && bytes.len() <= SMALL;
        let strings = tensor.as_strings().map(|s| s.as_ptr() as usize);
        Source {
            element_type: tensor.element_type(),
            sizes: tensor.sizes().into(),
            at: if is_small { 0 } else { strings.unwrap_or(bytes.as_ptr() as usize) },
            contents: if is_small { bytes.into() } else { Box::default() },
        }
    }
}

/// A thing that is prepared once.
pub(crate) struct Slot<T> {
    /// What it is made of stays, so that nothing else comes to lie there.
    _of: Vec<Tensor>,
    was_needed: AtomicBool,
    made: OnceLock<T>,
}

impl<T> Slot<T> {
    /// The thing, made now if it is not there.
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
    /// A constant that an earlier plan has computed too is that of the earlier plan.
    pub(crate) fn constant(&self, tensor: Tensor) -> Tensor {
        if !tensor.is_unique() || tensor.bytes().len() <= SMALL {
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

    /// The slot of what is made of `of` in the way that `form` describes.
    pub(crate) fn slot<T: Send + Sync + 'static>(
        &self,
        of: &[&Tensor],
        form: String,
    ) -> Arc<Slot<T>> {
        let key = (of.iter().map(|t| Source::of(t)).collect(), form, TypeId::of::<T>());
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

#[cfg(test)]
impl Store {
    pub(crate) fn len(&self) -> usize {
        self.slots.lock().map_or(0, |slots| slots.len())
    }
}

/// The place of a kernel for what it prepares from one of its inputs, or from some.
pub(crate) struct Ahead<T> {
    /// The inputs, if they are the same in every run.
    inputs: Option<Range<usize>>,
    slot: OnceLock<Arc<Slot<T>>>,
}

impl<T: Send + Sync + 'static> Ahead<T> {
    /// For `input`, if it is the same in every run.
    pub(crate) fn new(input: usize, is_invariant: bool) -> Ahead<T> {
        Ahead::of(input..input + 1, is_invariant)
    }

    /// For some inputs, if they are the same in every run.
    pub(crate) fn of(inputs: Range<usize>, are_invariant: bool) -> Ahead<T> {
        Ahead { inputs: are_invariant.then_some(inputs), slot: OnceLock::new() }
    }

    /// What `make` makes of the input in the way that `form` describes, if it is the same in every
    /// run and needed for the second time: a process that runs a model once has no use for it.
    pub(crate) fn again(
        &self,
        cx: &RunCx<'_>,
        form: impl FnOnce() -> String,
        make: impl FnOnce() -> T,
    ) -> Option<&T> {
        let slot = self.slot(cx, form)?;
        let again = slot.was_needed.swap(true, Ordering::Relaxed);
        again.then(|| slot.made.get_or_init(make))
    }

    /// The same from the first run on.
    pub(crate) fn now(
        &self,
        cx: &RunCx<'_>,
        form: impl FnOnce() -> String,
        make: impl FnOnce() -> T,
    ) -> Option<&T> {
        self.slot(cx, form).map(|slot| slot.made.get_or_init(make))
    }

    /// The thing, if it is there, so that the input itself is not needed.
    pub(crate) fn made(&self) -> Option<&T> {
        self.slot.get()?.made.get()
    }

    fn slot(&self, cx: &RunCx<'_>, form: impl FnOnce() -> String) -> Option<&Slot<T>> {
        let inputs = self.inputs.clone()?;
        Some(self.slot.get_or_init(|| {
            let inputs: Vec<&Tensor> = inputs.map(|i| cx.tensor(i)).collect();
            cx.store().slot(&inputs, form())
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Session, Tensor, compile};
    use ir::{ElementType, Graph, GraphBuilder};

    fn ones(sizes: &[usize]) -> Tensor {
        Tensor::from_vec(sizes, vec![1f32; sizes.iter().product()]).unwrap()
    }

    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i % 13) as f32 - 6.0).collect()
    }

    fn session(graph: &Graph) -> Session {
        let facts = infer::propagate(graph, &infer::Inputs::default()).unwrap();
        compile(graph, &facts).unwrap().session()
    }

    /// Runs many shapes twice and counts what has been prepared; a session of its own for each
    /// shape gives the same.
    fn shapes(graph: &Graph, sizes: impl Fn(usize) -> Vec<usize>, prepared: usize) {
        let mut many = session(graph);
        for size in (1..=40).flat_map(|size| [size, size]) {
            let input = [ones(&sizes(size))];
            let outputs = many.run(&input).unwrap();
            assert_eq!(outputs, session(graph).run(&input).unwrap(), "{:?}", sizes(size));
            assert!(many.prepared() <= prepared, "{} at size {size}", many.prepared());
        }
        assert_eq!(many.prepared(), prepared);
    }

    #[test]
    fn shapes_share_a_packed_matrix() {
        let mut g = GraphBuilder::new("product");
        let x = g.parameter("x", ElementType::F32, "?,70");
        let w = g.constant_f32(&[70, 30], &numbers(2100));
        let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
        g.result("y", y);
        shapes(&g.finish().unwrap(), |rows| vec![rows, 70], 1);
    }

    /// Weights that a file does not align, too: a plan for any shape reads them where the others do.
    #[test]
    fn shapes_share_a_packed_matrix_that_lies_anywhere() {
        let mut g = GraphBuilder::new("stray");
        let x = g.parameter("x", ElementType::F32, "?,300");
        let byte = g.constant(ElementType::U8, &[1], &[0]);
        let w = g.constant_f32(&[300, 70], &numbers(21000));
        let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
        g.result("byte", byte);
        g.result("y", y);
        shapes(&g.finish().unwrap(), |rows| vec![rows, 300], 1);
    }

    #[test]
    fn shapes_share_packed_filters() {
        let mut g = GraphBuilder::new("convolution");
        let x = g.parameter("x", ElementType::F32, "1,3,?,8");
        let w = g.constant_f32(&[5, 3, 1, 1], &numbers(15));
        let attributes =
            [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
        let y = g.layer("Convolution", "opset1").attributes(&attributes).inputs(&[x, w]).output();
        g.result("y", y);
        shapes(&g.finish().unwrap(), |rows| vec![1, 3, rows, 8], 1);
    }

    #[test]
    fn shapes_share_decompressed_weights() {
        let mut g = GraphBuilder::new("compressed");
        let x = g.parameter("x", ElementType::F32, "?,1024");
        let bytes: Vec<u8> = (0..1024 * 512).map(|i| (i % 7) as u8).collect();
        let w = g.constant(ElementType::U8, &[1024, 512], &bytes);
        let w =
            g.layer("Convert", "opset1").attribute("destination_type", "f32").inputs(&[w]).output();
        let y = g.layer("MatMul", "opset1").inputs(&[x, w]).output();
        g.result("y", y);
        shapes(&g.finish().unwrap(), |rows| vec![rows, 1024], 2);
    }
}
