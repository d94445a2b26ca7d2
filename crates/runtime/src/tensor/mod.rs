//! Tensors over shared buffers, and the access that a running step has to them.
//!
//! This is the only file of the crate with `unsafe`. What makes it sound:
//! - a [`Buffer`] is written only through [`Access`] and [`Tensor::bytes_mut`];
//! - `bytes_mut` demands that nothing else shares the buffer;
//! - [`Access`] is made for one step of one session, checks that what the step writes overlaps
//!   nothing else that it reads or writes, and hands out each output once. Memory that several
//!   steps use belongs to a session, whose `run` borrows it mutably, and no tensor over it ever
//!   leaves the session.
#![allow(unsafe_code)]

mod array;
pub(crate) mod convert;
pub(crate) mod dispatch;
mod element;
pub(crate) mod fact;
pub(crate) mod memory_limit;
mod shown;
mod size;

pub use element::Element;
pub(crate) use size::is_available;
pub use size::{TensorError, packed_len};

use ir::{ElementType, WeightsSlice};
use kernels::Allocation;
use kernels::num::Pod;
use memory_limit::Charge;
use size::{ALIGN, count, no_memory};
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// The sizes of a tensor of known shape.
pub type Sizes = SmallVec<[usize; 6]>;

/// Bytes that tensors share.
struct Buffer {
    data: *mut u8,
    len: usize,
    owner: Owner,
}

enum Owner {
    /// Memory of its own.
    Heap { _memory: Allocation, _charge: Charge },
    /// Memory kept alive by another owner: a mapped file, a `Vec`.
    Kept(Box<dyn Any + Send + Sync>),
}

/// Keeps the bytes of a constant in the weights alive.
struct Mapped(WeightsSlice);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

// SAFETY: the bytes are plain data; see the head of this file for who writes them when.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates this many bytes; `None` if they do not fit in memory.
    fn of(len: usize, memory: impl FnOnce(usize) -> Option<Allocation>) -> Option<Buffer> {
        if len == 0 {
            let data = std::ptr::without_provenance_mut(ALIGN);
            return Some(Buffer { data, len, owner: Owner::Kept(Box::new(())) });
        }
        let charge = Charge::new(len)?;
        let memory = memory(len)?;
        let data = memory.start();
        let owner = Owner::Heap { _memory: memory, _charge: charge };
        Some(Buffer { data, len, owner })
    }

    /// Bytes owned by `keep`.
    fn kept(bytes: *const u8, len: usize, keep: Box<dyn Any + Send + Sync>) -> Buffer {
        Buffer { data: bytes.cast_mut(), len, owner: Owner::Kept(keep) }
    }

    fn is_heap(&self) -> bool {
        matches!(self.owner, Owner::Heap { .. })
    }
}

/// A tensor: an element type, sizes, and row-major packed elements in a shared buffer.
///
/// Clones share the buffer.
#[derive(Clone)]
pub struct Tensor {
    element_type: ElementType,
    sizes: Sizes,
    storage: Storage,
}

#[derive(Clone)]
enum Storage {
    Bytes(Part),
    Strings(Arc<[Box<str>]>),
}

/// A part of a buffer. The address is stored here, so that a step need not load it through the
/// buffer.
#[derive(Clone)]
struct Part {
    data: *mut u8,
    len: usize,
    /// Whether the buffer was allocated here.
    is_heap: bool,
    buffer: Arc<Buffer>,
}

// SAFETY: it points into its buffer, which can be sent and shared.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    /// The first `len` bytes of a buffer, which must have that many.
    fn first(buffer: Arc<Buffer>, len: usize) -> Part {
        assert!(len <= buffer.len, "a part is larger than its buffer");
        Part { data: buffer.data, len, is_heap: buffer.is_heap(), buffer }
    }

    /// A part of this part, if it is long enough.
    fn part(&self, offset: usize, len: usize) -> Option<Part> {
        let fits = offset.checked_add(len)? <= self.len;
        fits.then(|| Part { data: self.data.wrapping_add(offset), len, ..self.clone() })
    }
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// When it does not fit in memory.
    pub fn zeros(element_type: ElementType, sizes: &[usize]) -> Result<Tensor, TensorError> {
        if element_type == ElementType::String {
            let count = count(element_type, sizes)?;
            let mut values = Vec::new();
            let reserved = values.try_reserve_exact(count);
            reserved.map_err(|_| no_memory(element_type, sizes))?;
            values.resize(count, Box::from(""));
            return Tensor::strings(sizes, values);
        }
        let len = packed_len(element_type, sizes)?;
        let buffer = Buffer::of(len, Allocation::zeroed);
        let buffer = buffer.ok_or_else(|| no_memory(element_type, sizes))?;
        let storage = Storage::Bytes(Part::first(Arc::new(buffer), len));
        Ok(Tensor { element_type, sizes: sizes.into(), storage })
    }

    /// A zeroed arena for the values between the steps of a plan; `None` if it does not fit in
    /// memory.
    pub(crate) fn arena(bytes: usize) -> Option<Tensor> {
        let buffer = Arc::new(Buffer::of(bytes, Allocation::lasting)?);
        let storage = Storage::Bytes(Part::first(buffer, bytes));
        Some(Tensor { element_type: ElementType::U8, sizes: Sizes::from_slice(&[bytes]), storage })
    }

    /// A tensor with a copy of packed little-endian bytes.
    ///
    /// # Errors
    /// When the number of bytes does not match the shape.
    pub fn from_bytes(
        element_type: ElementType,
        sizes: &[usize],
        bytes: &[u8],
    ) -> Result<Tensor, TensorError> {
        let mut tensor = Tensor::zeros(element_type, sizes)?;
        let len = tensor.bytes().len();
        if len != bytes.len() {
            let message = format!("{element_type}{sizes:?} has {len} bytes, not {}", bytes.len());
            return Err(TensorError::new(message));
        }
        if let Some(place) = tensor.bytes_mut() {
            place.copy_from_slice(bytes);
        }
        Ok(tensor)
    }

    /// A tensor over the elements of a vector, without copying them.
    ///
    /// # Errors
    /// When the number of elements does not match the shape.
    pub fn from_vec<T: Element>(sizes: &[usize], values: Vec<T>) -> Result<Tensor, TensorError> {
        Tensor::from_vec_as(T::TYPE, sizes, values)
    }

    /// As [`Tensor::from_vec`], for element types without a Rust type of their own: booleans, f8
    /// and packed types, as bytes.
    ///
    /// # Errors
    /// When the number of bytes does not match the shape.
    pub fn from_vec_as<T: Pod>(
        element_type: ElementType,
        sizes: &[usize],
        values: Vec<T>,
    ) -> Result<Tensor, TensorError> {
        let len = packed_len(element_type, sizes)?;
        let have = size_of_val(&values[..]);
        if have != len {
            let message = format!("{element_type}{sizes:?} has {len} bytes, not {have}");
            return Err(TensorError::new(message));
        }
        let buffer = Arc::new(Buffer::kept(values.as_ptr().cast(), len, Box::new(values)));
        let storage = Storage::Bytes(Part::first(buffer, len));
        Ok(Tensor { element_type, sizes: sizes.into(), storage })
    }

    /// A tensor over bytes that `keep` owns and never moves or changes, such as a mapped file.
    ///
    /// # Errors
    /// When there are fewer bytes than the shape needs; more are ignored.
    pub fn from_shared<B: AsRef<[u8]> + Send + Sync + 'static>(
        element_type: ElementType,
        sizes: &[usize],
        keep: B,
    ) -> Result<Tensor, TensorError> {
        let len = packed_len(element_type, sizes)?;
        let keep = Box::new(keep);
        // Boxed first: the bytes of a value that holds them inline move with it.
        let bytes = (*keep).as_ref();
        if bytes.len() < len {
            let have = bytes.len();
            let message = format!("{element_type}{sizes:?} needs {len} bytes, not {have}");
            return Err(TensorError::new(message));
        }
        let (data, have) = (bytes.as_ptr(), bytes.len());
        let buffer = Arc::new(Buffer::kept(data, have, keep));
        let storage = Storage::Bytes(Part::first(buffer, len));
        Ok(Tensor { element_type, sizes: sizes.into(), storage })
    }

    /// A constant, read directly from the weights.
    ///
    /// # Errors
    /// When there are too few bytes.
    pub fn from_weights(
        element_type: ElementType,
        sizes: &[usize],
        weights: WeightsSlice,
    ) -> Result<Tensor, TensorError> {
        Tensor::from_shared(element_type, sizes, Mapped(weights))
    }

    /// Releases the memory of a constant in the weights. The system reads it again from the file
    /// when it is used.
    pub(crate) fn give_back(&self) {
        let Storage::Bytes(own) = &self.storage else { return };
        if let Owner::Kept(keep) = &own.buffer.owner
            && let Some(Mapped(weights)) = keep.downcast_ref()
            && let Some(part) = weights.part(own.data.addr() - own.buffer.data.addr(), own.len)
        {
            part.give_back();
        }
    }

    /// A tensor of strings.
    ///
    /// # Errors
    /// When the number of strings does not match the shape.
    pub fn strings(sizes: &[usize], values: Vec<Box<str>>) -> Result<Tensor, TensorError> {
        if values.len() != count(ElementType::String, sizes)? {
            let message = format!("{} strings do not fill {sizes:?}", values.len());
            return Err(TensorError::new(message));
        }
        let storage = Storage::Strings(values.into());
        Ok(Tensor { element_type: ElementType::String, sizes: sizes.into(), storage })
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The packed bytes; empty for strings.
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            // SAFETY: the part lies in its buffer, whose bytes are initialised and not written
            // while they can be read; see the head of this file.
            Storage::Bytes(part) => unsafe { std::slice::from_raw_parts(part.data, part.len) },
            Storage::Strings(_) => &[],
        }
    }

    /// The packed bytes, mutable, if no other tensor shares them.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let Storage::Bytes(part) = &mut self.storage else { return None };
        Arc::get_mut(&mut part.buffer).filter(|b| b.is_heap())?;
        // SAFETY: nothing else shares the buffer, and the part lies in it.
        Some(unsafe { std::slice::from_raw_parts_mut(part.data, part.len) })
    }

    /// The elements, mutable, if `T` is their type and no other tensor shares them.
    pub(crate) fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        self.as_slice::<T>()?;
        let bytes = self.bytes_mut()?;
        let (data, count) = (bytes.as_mut_ptr(), bytes.len() / size_of::<T>());
        // SAFETY: `as_slice` has shown that these are whole aligned elements, and `bytes_mut` that
        // nothing else refers to them.
        Some(unsafe { std::slice::from_raw_parts_mut(data.cast(), count) })
    }

    /// The strings, if the tensor holds strings.
    pub fn as_strings(&self) -> Option<&[Box<str>]> {
        match &self.storage {
            Storage::Strings(values) => Some(values),
            Storage::Bytes(_) => None,
        }
    }

    /// The elements as a slice, if `T` is their type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        (T::TYPE == self.element_type).then(|| self.cast()).flatten()
    }

    /// The elements as a slice of any type of their size. `None` if the size differs or the bytes
    /// are not aligned, which can happen for mapped constants.
    pub fn cast<T: Pod>(&self) -> Option<&[T]> {
        if self.element_type.byte_size() != Some(size_of::<T>()) {
            return None;
        }
        let bytes = self.bytes();
        if !(bytes.as_ptr() as usize).is_multiple_of(align_of::<T>()) {
            return None;
        }
        let count = bytes.len() / size_of::<T>();
        // SAFETY: aligned, of whole elements, and every bit pattern is a value of a Pod type.
        Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
    }

    /// Whether the elements are aligned for their type.
    pub fn is_aligned(&self) -> bool {
        let size = self.element_type.byte_size().unwrap_or(1);
        (self.bytes().as_ptr() as usize).is_multiple_of(size)
    }

    /// The tensor, copied if it is not aligned. Tensors from programs may lie anywhere.
    ///
    /// # Errors
    /// When a copy does not fit in memory.
    pub(crate) fn aligned(&self) -> Result<Tensor, TensorError> {
        if self.is_aligned() { Ok(self.clone()) } else { self.to_owned() }
    }

    /// A copy in memory of its own, aligned for every type.
    ///
    /// # Errors
    /// When it does not fit in memory.
    pub fn to_owned(&self) -> Result<Tensor, TensorError> {
        match &self.storage {
            Storage::Strings(_) => Ok(self.clone()),
            Storage::Bytes(_) => Tensor::from_bytes(self.element_type, &self.sizes, self.bytes()),
        }
    }

    /// The same bytes, or a part of them, as another tensor, without a copy.
    ///
    /// # Errors
    /// When the part is not inside this tensor.
    pub fn part(
        &self,
        offset: usize,
        element_type: ElementType,
        sizes: &[usize],
    ) -> Result<Tensor, TensorError> {
        let sizes: Sizes = sizes.into();
        if let Storage::Strings(values) = &self.storage {
            let whole = offset == 0 && values.len() == sizes.iter().product::<usize>();
            return if whole {
                Ok(Tensor { sizes, ..self.clone() })
            } else {
                let end = offset + sizes.iter().product::<usize>();
                let part = values.get(offset..end).map(<[_]>::to_vec);
                let outside = || TensorError::new("a part lies outside its tensor".into());
                Tensor::strings(&sizes, part.ok_or_else(outside)?)
            };
        }
        let wanted = packed_len(element_type, &sizes)?;
        let part = match &self.storage {
            Storage::Bytes(own) => own.part(offset, wanted),
            Storage::Strings(_) => None,
        };
        match part {
            Some(part) => Ok(Tensor { element_type, sizes, storage: Storage::Bytes(part) }),
            None => {
                Err(TensorError::new(format!("a part of {wanted} bytes at {offset} lies outside")))
            }
        }
    }

    /// Whether its bytes were allocated by this crate, rather than by a mapped file or the program.
    pub(crate) fn is_heap(&self) -> bool {
        matches!(&self.storage, Storage::Bytes(part) if part.is_heap)
    }

    /// Whether only this tensor refers to its memory.
    pub fn is_unique(&self) -> bool {
        match &self.storage {
            Storage::Bytes(part) => part.is_heap && Arc::strong_count(&part.buffer) == 1,
            Storage::Strings(_) => false,
        }
    }

    /// Bytes of the whole buffer behind the tensor.
    pub fn capacity(&self) -> usize {
        match &self.storage {
            Storage::Bytes(part) => part.buffer.len,
            Storage::Strings(_) => 0,
        }
    }

    /// A tensor of another type and shape in the same buffer, if nothing shares it and it is large
    /// enough. The contents are arbitrary.
    pub(crate) fn recycled(
        self,
        element_type: ElementType,
        sizes: &[usize],
    ) -> Result<Tensor, TensorError> {
        let len = packed_len(element_type, sizes)?;
        match self.storage {
            Storage::Bytes(part) if part.buffer.len >= len => {
                let storage = Storage::Bytes(Part::first(part.buffer, len));
                Ok(Tensor { element_type, sizes: sizes.into(), storage })
            }
            _ => Err(TensorError::new("the recycled buffer is too small".to_owned())),
        }
    }

    /// Address and length of the packed bytes, without a reference to them: a reference would
    /// invalidate writers.
    fn raw(&self) -> (*mut u8, usize) {
        match &self.storage {
            Storage::Bytes(part) => (part.data, part.len),
            Storage::Strings(_) => (std::ptr::NonNull::dangling().as_ptr(), 0),
        }
    }

    fn address_range(&self) -> Range<usize> {
        let (start, len) = self.raw();
        start.addr()..start.addr() + len
    }

    fn is_writable(&self) -> bool {
        matches!(&self.storage, Storage::Bytes(part) if part.is_heap || part.len == 0)
    }
}

/// An input and the output that overwrites it: both are the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overwrite {
    /// The number of the input.
    pub(crate) input: usize,
    /// The number of the output.
    pub(crate) output: usize,
}

/// The inputs and outputs of one step while it runs.
pub(crate) struct Access<'r> {
    inputs: SmallVec<[&'r Tensor; 4]>,
    outputs: SmallVec<[Option<&'r Tensor>; 2]>,
    in_place: Option<Overwrite>,
    /// Which outputs have been handed out.
    taken: SmallVec<[bool; 2]>,
}

impl<'r> Access<'r> {
    /// Access for a step that reads `inputs` and writes `outputs`. An output that is `None` is
    /// allocated while the step runs.
    ///
    /// # Panics
    /// When what is written overlaps anything else: the plan is then wrong.
    pub(crate) fn new(
        inputs: SmallVec<[&'r Tensor; 4]>,
        outputs: SmallVec<[Option<&'r Tensor>; 2]>,
        in_place: Option<Overwrite>,
    ) -> Access<'r> {
        let taken = SmallVec::from_elem(false, outputs.len());
        let access = Access { inputs, outputs, in_place, taken };
        (0..access.outputs.len()).for_each(|output| access.check(output));
        access
    }

    /// Panics if an existing output overlaps anything else.
    fn check(&self, o: usize) {
        let Some(output) = self.outputs[o].filter(|t| t.raw().1 > 0) else { return };
        assert!(output.is_writable(), "output {o} lies in memory that is not ours");
        let range = output.address_range();
        let apart = |other: &Tensor| {
            let other = other.address_range();
            other.is_empty() || other.end <= range.start || range.end <= other.start
        };
        for (i, input) in self.inputs.iter().enumerate() {
            let declared = self.in_place == Some(Overwrite { input: i, output: o })
                && input.address_range() == range;
            assert!(declared || apart(input), "output {o} overlaps input {i}");
        }
        let mut others = self.outputs.iter().enumerate().filter(|(k, _)| *k != o);
        assert!(others.all(|(_, t)| t.is_none_or(apart)), "output {o} overlaps another");
    }

    pub(crate) fn input_tensor(&self, input: usize) -> &'r Tensor {
        self.inputs[input]
    }

    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    pub(crate) fn output_tensor(&self, output: usize) -> Option<&'r Tensor> {
        self.outputs.get(output).copied().flatten()
    }

    /// Sets an output that was allocated while the step runs.
    ///
    /// # Panics
    /// When the tensor shares memory with another, or is an output already.
    pub(crate) fn set_output(&mut self, output: usize, tensor: &'r Tensor) {
        assert!(tensor.is_unique() || tensor.raw().1 == 0, "output {output} is shared");
        self.outputs[output] = Some(tensor);
        self.check(output);
    }

    /// The input and the output that share memory.
    pub(crate) fn in_place(&self) -> Option<Overwrite> {
        self.in_place
    }

    /// The elements of an input.
    ///
    /// # Panics
    /// When they are not of the size of `T`, or share memory with an output.
    pub(crate) fn input<T: Pod>(&self, input: usize) -> &'r [T] {
        let shared = self.in_place.is_some_and(|shared| shared.input == input);
        assert!(!shared, "input {input} is overwritten in place; use `in_out`");
        let tensor = self.inputs[input];
        tensor.cast().unwrap_or_else(|| panic!("input {input} is {tensor:?}, read as another type"))
    }

    /// The packed bytes of an input.
    ///
    /// # Panics
    /// When it shares memory with an output.
    pub(crate) fn input_bytes(&self, input: usize) -> &'r [u8] {
        let shared = self.in_place.is_some_and(|shared| shared.input == input);
        assert!(!shared, "input {input} is overwritten in place; use `in_out`");
        self.inputs[input].bytes()
    }

    /// The elements of an output. May be called once per output.
    ///
    /// # Panics
    /// When called twice, or with a type of another size.
    pub(crate) fn output<T: Pod>(&mut self, output: usize) -> &'r mut [T] {
        let tensor = self.outputs[output].expect("the output has been allocated");
        assert!(tensor.cast::<T>().is_some(), "output {output} is {tensor:?}, another type");
        let bytes = self.output_bytes(output);
        // SAFETY: `cast` has shown that the bytes are whole aligned values of `T`, and
        // `output_bytes` that nothing else refers to them while this access lasts.
        unsafe {
            std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>())
        }
    }

    /// The packed bytes of an output. May be called once per output.
    ///
    /// # Panics
    /// When called twice.
    pub(crate) fn output_bytes(&mut self, output: usize) -> &'r mut [u8] {
        let is_taken = std::mem::replace(&mut self.taken[output], true);
        assert!(!is_taken, "output {output} is taken twice");
        let tensor = self.outputs[output].expect("the output has been allocated");
        let (start, len) = tensor.raw();
        // SAFETY: `check` has shown that the bytes are heap memory of this session and overlap
        // nothing else that this access hands out; `taken` makes sure that it does so once.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

#[cfg(test)]
mod tests;
