//! Kernels of text operations. Strings are three tensors: begins, ends, and the bytes.

use crate::error::KernelError;
use crate::kernel::lower::LowerCx;
use crate::kernel::{Kernel, Reuse, RunCx};
use crate::tensor::Tensor;
use crate::tensor::convert::convert_tensor;
use ir::ElementType;
use kernels::par::Threads;
use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokenize::{Packed, Rows, Strings, TextError};

/// A kernel that provides its outputs as a function of its inputs. Outputs that the layer lacks are
/// ignored.
pub(crate) fn text_kernel<F>(cx: &LowerCx<'_>, name: &'static str, f: F) -> Box<dyn Kernel>
where
    F: Fn(&TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> + Send + Sync + 'static,
{
    let fixed = (0..cx.input_count())
        .map(|input| cx.constant(input).is_some() || cx.is_invariant(input))
        .collect();
    Box::new(TextKernel { name, fixed, outputs: cx.output_count(), f })
}

struct TextKernel<F> {
    name: &'static str,
    fixed: Vec<bool>,
    outputs: usize,
    f: F,
}

impl<F> Kernel for TextKernel<F>
where
    F: Fn(&TextCx<'_, '_>) -> Result<Vec<Tensor>, KernelError> + Send + Sync,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let outputs = (self.f)(&TextCx { cx, fixed: &self.fixed })?;
        for (output, tensor) in outputs.into_iter().enumerate().take(self.outputs) {
            cx.provide(output, tensor);
        }
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        self.name
    }
}

/// What a text kernel sees.
pub(crate) struct TextCx<'c, 'r> {
    cx: &'c RunCx<'r>,
    fixed: &'c [bool],
}

impl<'r> TextCx<'_, 'r> {
    /// Number of inputs.
    pub(crate) fn input_count(&self) -> usize {
        self.cx.input_count()
    }

    /// An input as a tensor.
    pub(crate) fn tensor(&self, input: usize) -> &'r Tensor {
        self.cx.tensor(input)
    }

    /// The sizes of an input.
    pub(crate) fn sizes(&self, input: usize) -> &'r [usize] {
        self.cx.sizes(input)
    }

    /// The bytes of an input.
    pub(crate) fn bytes(&self, input: usize) -> &'r [u8] {
        self.cx.input_bytes(input)
    }

    /// A byte input as text, such as a pattern.
    pub(crate) fn text(&self, input: usize) -> Result<&'r str, KernelError> {
        let text = std::str::from_utf8(self.bytes(input));
        text.map_err(|_| KernelError::at(input, "is not UTF-8"))
    }

    /// The values of an i32 input.
    pub(crate) fn i32s(&self, input: usize) -> &'r [i32] {
        self.cx.input(input)
    }

    /// The values of an f32 input.
    pub(crate) fn f32s(&self, input: usize) -> &'r [f32] {
        self.cx.input(input)
    }

    /// The values of an integer input.
    pub(crate) fn ints(&self, input: usize) -> Vec<i64> {
        self.cx.ints(input)
    }

    /// The first value of an integer input.
    pub(crate) fn int(&self, input: usize) -> Result<i64, KernelError> {
        let first = self.ints(input).first().copied();
        first.ok_or_else(|| KernelError::at(input, "is empty"))
    }

    /// The strings of three inputs: begins, ends, bytes.
    pub(crate) fn strings(&self, input: usize) -> Result<Strings<'r>, KernelError> {
        let (begins, ends) = (self.i32s(input), self.i32s(input + 1));
        at(input, Strings::new(begins, ends, self.bytes(input + 2)))
    }

    /// The rows of two inputs, begins and ends, over `count` elements.
    pub(crate) fn rows(&self, input: usize, count: usize) -> Result<Rows<'r>, KernelError> {
        at(input, Rows::new(self.i32s(input), self.i32s(input + 1), count))
    }

    /// The threads of the session.
    pub(crate) fn threads(&self) -> &'r Threads {
        self.cx.threads()
    }

    /// Whether all inputs of a range are constants.
    pub(crate) fn are_fixed(&self, inputs: Range<usize>) -> bool {
        self.fixed.get(inputs).is_some_and(|fixed| fixed.iter().all(|f| *f))
    }

    /// What `make` builds from the inputs of a range; once per session if they are constants.
    pub(crate) fn made_of<S: Any + Send + Sync>(
        &self,
        inputs: Range<usize>,
        make: impl FnOnce() -> Result<S, KernelError>,
    ) -> Result<Arc<S>, KernelError> {
        if !self.are_fixed(inputs) {
            return make().map(Arc::new);
        }
        self.cx.state(
            || None::<Arc<S>>,
            |slot| match slot {
                Some(made) => Ok(Arc::clone(made)),
                None => Ok(Arc::clone(slot.insert(Arc::new(make()?)))),
            },
        )
    }
}

/// An error about an input.
pub(crate) fn at<T>(input: usize, result: Result<T, TextError>) -> Result<T, KernelError> {
    result.map_err(|e| KernelError::at(input, e.0))
}

/// A tensor of values.
pub(crate) fn tensor<T: crate::Element>(
    sizes: &[usize],
    values: Vec<T>,
) -> Result<Tensor, KernelError> {
    Tensor::from_vec(sizes, values).map_err(KernelError::from)
}

/// A tensor of booleans or of another type, from its bytes.
pub(crate) fn tensor_as(
    element_type: ElementType,
    sizes: &[usize],
    values: Vec<u8>,
) -> Result<Tensor, KernelError> {
    Tensor::from_vec_as(element_type, sizes, values).map_err(KernelError::from)
}

/// A tensor converted to another type.
pub(crate) fn converted(t: &Tensor, element_type: ElementType) -> Result<Tensor, KernelError> {
    convert_tensor(t, element_type).map_err(KernelError::from)
}

/// Strings as three tensors, the first two of the given sizes.
pub(crate) fn packed(sizes: &[usize], strings: Packed) -> Result<Vec<Tensor>, KernelError> {
    let strings = strings.checked().map_err(|e| KernelError::new(e.0))?;
    let len = strings.chars.len();
    Ok(vec![
        tensor(sizes, strings.begins)?,
        tensor(sizes, strings.ends)?,
        tensor(&[len], strings.chars)?,
    ])
}

/// Bytes of text that are worth a task.
const GRAIN: usize = 16 << 10;

/// Tasks per thread, for balance.
const TASKS: usize = 4;

/// Divides `len` strings with `bytes` bytes in total among the threads. Results are in order.
pub(crate) fn in_pieces<R: Send>(
    threads: &Threads,
    len: usize,
    bytes: usize,
    f: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let pieces = (bytes / GRAIN).min(threads.count() * TASKS).clamp(1, len.max(1));
    if pieces == 1 || threads.count() == 1 {
        return vec![f(0..len)];
    }
    let results: Vec<Mutex<Option<R>>> = (0..pieces).map(|_| Mutex::default()).collect();
    threads.run(pieces, &|piece, _| {
        let result = f(piece * len / pieces..(piece + 1) * len / pieces);
        *results[piece].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    });
    let inner = |slot: Mutex<Option<R>>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().filter_map(inner).collect()
}

/// Each string rewritten by `change`.
pub(crate) fn changed(
    threads: &Threads,
    strings: Strings<'_>,
    change: impl Fn(usize, &[u8], &mut Vec<u8>) + Sync,
) -> Packed {
    let pieces = in_pieces(threads, strings.len(), strings.total(), |range| {
        let mut piece = Packed::default();
        for index in range {
            piece.push_with(|chars| change(index, strings.get(index), chars));
        }
        piece
    });
    joined(pieces)
}

fn joined(pieces: Vec<Packed>) -> Packed {
    let mut pieces = pieces.into_iter();
    let mut all = pieces.next().unwrap_or_default();
    for piece in pieces {
        let offset = all.chars.len() as i32;
        all.begins.extend(piece.begins.iter().map(|at| at + offset));
        all.ends.extend(piece.ends.iter().map(|at| at + offset));
        all.chars.extend(piece.chars);
    }
    all
}

/// Begins and ends of the rows of what is made of strings: `rows` are ranges of strings that follow
/// each other, and `counts` has for each string how much there is up to its end.
pub(crate) fn rows_of_strings(rows: &Rows<'_>, counts: &[usize]) -> (Vec<i32>, Vec<i32>) {
    let (mut done, mut strings) = (0, 0);
    rows_of(rows.iter().map(|row| {
        strings += row.len();
        let last = strings.checked_sub(1);
        let end = last.map_or(0, |last| counts.get(last).copied().unwrap_or(done));
        std::mem::replace(&mut done, end).abs_diff(end)
    }))
}

/// Begins and ends of contiguous rows with these element counts.
pub(crate) fn rows_of(counts: impl Iterator<Item = usize>) -> (Vec<i32>, Vec<i32>) {
    let ends: Vec<i32> = counts
        .scan(0, |end, count| {
            *end += count as i32;
            Some(*end)
        })
        .collect();
    let begins = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).collect();
    (begins, ends)
}
