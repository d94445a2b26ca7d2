//! Conversion of inputs and outputs to the type that a kernel computes in.

use crate::kernel::lower::LowerError;
use crate::kernel::{Reuse, RunCx};
use crate::tensor::convert::Conversion;
use infer::InputSet;
use ir::ElementType;
use kernels::convert::{Decoder, Element, Encoder, Ways, decode_all, encode_all};
use kernels::num::{Pod, bytes, bytes_mut};
use kernels::par::Threads;
use kernels::{InOut, Scratch};
use std::ops::Deref;

/// The conversion of an input, or of an output of the same type.
///
/// # Errors
/// When there is no conversion between the types.
pub(crate) fn conversion_of(
    input: usize,
    from: ElementType,
    to: ElementType,
) -> Result<Conversion, LowerError> {
    Conversion::new(from, to).ok_or_else(|| LowerError::element_type(input, from))
}

/// Conversion of f16 or bf16 to f32 and back, for kernels that compute in f32.
pub(crate) struct Halves {
    up: Conversion,
    down: Conversion,
}

impl Halves {
    /// `None` for other element types.
    pub(crate) fn of(element_type: ElementType) -> Option<Halves> {
        if !matches!(element_type, ElementType::F16 | ElementType::BF16) {
            return None;
        }
        let up = Conversion::new(element_type, ElementType::F32)?;
        Some(Halves { up, down: Conversion::new(ElementType::F32, element_type)? })
    }

    /// An input converted to f32.
    pub(crate) fn widen<'r>(&self, cx: &RunCx<'r>, input: usize) -> Scratch<'r, f32> {
        let count = cx.tensor(input).count();
        let mut wide = cx.scratch::<f32>(count);
        self.up.run(cx.threads(), count, cx.input_bytes(input), bytes_mut(&mut wide));
        wide
    }

    /// Rounds f32 results to the element type.
    pub(crate) fn narrow(&self, threads: &Threads, from: &[f32], to: &mut [u8]) {
        self.down.run(threads, from.len(), bytes(from), to);
    }
}

/// Inputs and outputs in the type that a kernel computes in, converted if they have another type.
pub(crate) struct Lanes<L> {
    /// The size of a stored element in bytes, and how to decode and encode it.
    ways: Option<(usize, Decoder<L>, Encoder<L>)>,
}

/// An input, borrowed or converted.
pub(crate) enum Elements<'r, L> {
    Own(&'r [L]),
    Converted(Scratch<'r, L>),
}

impl<L: Pod> Deref for Elements<'_, L> {
    type Target = [L];

    fn deref(&self) -> &[L] {
        match self {
            Elements::Own(own) => own,
            Elements::Converted(converted) => converted,
        }
    }
}

impl<L: Pod> Lanes<L> {
    /// For elements of type `T`.
    pub(crate) fn of<T: Element<Lane = L>>() -> Lanes<L> {
        Lanes::through::<T>(T::WAYS)
    }

    /// For elements of type `T`, with another decoder and encoder.
    pub(crate) fn through<T>(ways: Ways<L>) -> Lanes<L> {
        Lanes { ways: ways.map(|(decode, encode)| (size_of::<T>(), decode, encode)) }
    }

    /// An input in the type of the kernel.
    pub(crate) fn input<'r>(&self, cx: &RunCx<'r>, input: usize) -> Elements<'r, L> {
        let Some((size, decode, _)) = self.ways else { return Elements::Own(cx.input(input)) };
        let mut converted = cx.scratch::<L>(cx.tensor(input).count());
        decode_all(cx.threads(), (cx.input_bytes(input), size, decode), &mut converted);
        Elements::Converted(converted)
    }

    /// Computes an output in the type of the kernel.
    pub(crate) fn output<'r, R>(
        &self,
        cx: &mut RunCx<'r>,
        output: usize,
        f: impl FnOnce(&RunCx<'r>, &mut [L]) -> R,
    ) -> R {
        let Some((size, _, encode)) = self.ways else {
            let to = cx.output(output);
            return f(cx, to);
        };
        let to = cx.output_bytes(output);
        let mut results = cx.scratch::<L>(to.len() / size);
        let done = f(cx, &mut results);
        encode_all(cx.threads(), &results, (to, size, encode));
        done
    }

    /// Computes output 0 from an input, in place if [`Lanes::reuse`] allowed that.
    pub(crate) fn in_out(
        &self,
        cx: &mut RunCx<'_>,
        input: usize,
        f: impl FnOnce(&mut InOut<'_, L>),
    ) {
        let Some((size, _, encode)) = self.ways else { return f(&mut cx.in_out(input, 0)) };
        let Elements::Converted(mut data) = self.input(cx, input) else { return };
        f(&mut InOut::in_place(&mut data));
        encode_all(cx.threads(), &data, (cx.output_bytes(0), size, encode));
    }

    /// Rounds values to the precision of the element type.
    pub(crate) fn round(&self, values: &mut [L]) {
        let Some((size, decode, encode)) = self.ways else { return };
        let mut bytes = [0; 512];
        for part in values.chunks_mut(bytes.len() / size) {
            let bytes = &mut bytes[..part.len() * size];
            encode(part, bytes);
            decode(bytes, part);
        }
    }

    /// Whether the output can overwrite an input.
    pub(crate) fn reuse(&self, input: usize) -> Reuse {
        if self.ways.is_none() { Reuse::InPlace(InputSet::one(input)) } else { Reuse::None }
    }
}
