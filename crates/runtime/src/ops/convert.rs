//! Convert-1, ConvertLike-1: nothing to do for the same type, else one pass.

use super::SameBytes;
use crate::kernel::dispatch::with_type;
use crate::prelude::*;
use infer::ops::convert::Convert;
use kernels::convert::{
    Decoder, Element, Encoder, Ways, convert, decode, decode_all, encode, encode_all,
};
use kernels::num::{Plain, Stored, Wide, bytes, bytes_mut};
use kernels::pack::{pack, unpack};
use kernels::par::Threads;
use kernels::{InOut, Scratch};
use std::ops::Deref;

impl Lower for Convert {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (from, to) = (cx.element_type(0), cx.output_type(0));
        if from == to {
            return Ok(Box::new(SameBytes));
        }
        Ok(Box::new(ConvertKernel { conversion: Conversion::of_input(0, from, to)? }))
    }
}

struct ConvertKernel {
    conversion: Conversion,
}

impl Kernel for ConvertKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let count = cx.tensor(0).count();
        self.conversion.run(cx.threads(), count, cx.input_bytes(0), cx.output_bytes(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "convert"
    }
}

/// How to convert between two element types.
#[derive(Clone)]
pub(crate) struct Conversion {
    from: Side,
    to: Side,
    functions: Functions,
}

/// How elements lie in memory.
#[derive(Clone, Copy)]
struct Side {
    /// Bytes of an element, unpacked.
    size: usize,
    /// Bits, if several elements share a byte.
    packed: Option<u32>,
}

/// A decoder and an encoder that share a wide type.
#[derive(Clone)]
enum Functions {
    F32(Decoder<f32>, Encoder<f32>),
    F64(Decoder<f64>, Encoder<f64>),
    I64(Decoder<i64>, Encoder<i64>),
    U64(Decoder<u64>, Encoder<u64>),
}

/// Wide types know which of the [`Functions`] they are.
pub(crate) trait Pair: Wide {
    /// The functions by way of this type.
    fn pair(decoder: Decoder<Self>, encoder: Encoder<Self>) -> PairOf;
}

/// The functions between two element types by way of a wide type.
pub(crate) struct PairOf(Functions);

macro_rules! pairs {
    ($($t:ty => $variant:ident),*) => {
        $(impl Pair for $t {
            fn pair(decoder: Decoder<$t>, encoder: Encoder<$t>) -> PairOf {
                PairOf(Functions::$variant(decoder, encoder))
            }
        })*
    };
}

pairs!(f32 => F32, f64 => F64, i64 => I64, u64 => U64);

fn functions<S: Stored>(to: ElementType) -> Option<Functions>
where
    S::Wide: Pair,
{
    let encoder = with_type!(to, stored D => encode::<S::Wide, D> as Encoder<S::Wide>)?;
    Some(S::Wide::pair(decode::<S>, encoder).0)
}

impl Conversion {
    /// The conversion of an input, or of an output that has its type.
    ///
    /// # Errors
    /// When there is none between the types.
    pub(crate) fn of_input(
        input: usize,
        from: ElementType,
        to: ElementType,
    ) -> Result<Conversion, LowerError> {
        Conversion::new(from, to).ok_or_else(|| LowerError::element_type(input, from))
    }

    /// The conversion between two types; `None` for types that are not numbers.
    pub(crate) fn new(from: ElementType, to: ElementType) -> Option<Conversion> {
        let side = |t: ElementType| {
            let packed = t.bits().filter(|_| t.is_packed());
            Some(Side { size: if packed.is_some() { 1 } else { t.byte_size()? }, packed })
        };
        let functions = with_type!(from, stored S => functions::<S>(to))??;
        Some(Conversion { from: side(from)?, to: side(to)?, functions })
    }

    /// Converts `count` elements.
    pub(crate) fn run(&self, threads: &Threads, count: usize, from: &[u8], to: &mut [u8]) {
        let unpacked;
        let from = match self.from.packed {
            None => from,
            Some(bits) => {
                let mut bytes = vec![0; count];
                unpack(bits, from, &mut bytes);
                unpacked = bytes;
                &unpacked
            }
        };
        match self.to.packed {
            None => self.whole(threads, from, to),
            Some(bits) => {
                let mut bytes = vec![0; count];
                self.whole(threads, from, &mut bytes);
                pack(bits, &bytes, to);
            }
        }
    }

    /// Converts elements of whole bytes.
    fn whole(&self, threads: &Threads, from: &[u8], to: &mut [u8]) {
        let (f, t) = (self.from.size, self.to.size);
        match self.functions {
            Functions::F32(d, e) => convert(threads, (from, f, d), (to, t, e)),
            Functions::F64(d, e) => convert(threads, (from, f, d), (to, t, e)),
            Functions::I64(d, e) => convert(threads, (from, f, d), (to, t, e)),
            Functions::U64(d, e) => convert(threads, (from, f, d), (to, t, e)),
        }
    }
}

/// The way from f16 or bf16 to f32 and back, for kernels that compute in f32.
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

    /// An input in f32.
    pub(crate) fn widen<'r>(&self, cx: &RunCx<'r>, input: usize) -> Scratch<'r, f32> {
        let count = cx.tensor(input).count();
        let mut wide = cx.scratch::<f32>(count);
        self.up.run(cx.threads(), count, cx.input_bytes(input), bytes_mut(&mut wide));
        wide
    }

    /// Rounds results once.
    pub(crate) fn narrow(&self, threads: &Threads, from: &[f32], to: &mut [u8]) {
        self.down.run(threads, from.len(), bytes(from), to);
    }
}

/// Inputs and outputs in the type that a kernel computes in, converted where that is another than
/// theirs.
pub(crate) struct Lanes<L> {
    /// Bytes of a stored element, and how it is read and written.
    ways: Option<(usize, Decoder<L>, Encoder<L>)>,
}

/// An input as it lies, or converted.
pub(crate) enum Elements<'r, L> {
    Own(&'r [L]),
    Converted(Scratch<'r, L>),
}

impl<L: Plain> Deref for Elements<'_, L> {
    type Target = [L];

    fn deref(&self) -> &[L] {
        match self {
            Elements::Own(own) => own,
            Elements::Converted(converted) => converted,
        }
    }
}

impl<L: Plain> Lanes<L> {
    /// For elements of type `T`.
    pub(crate) fn of<T: Element<Lane = L>>() -> Lanes<L> {
        Lanes::through::<T>(T::WAYS)
    }

    /// For elements of type `T` with a way of their own.
    pub(crate) fn through<T>(ways: Ways<L>) -> Lanes<L> {
        Lanes { ways: ways.map(|(decode, encode)| (size_of::<T>(), decode, encode)) }
    }

    /// An input.
    pub(crate) fn input<'r>(&self, cx: &RunCx<'r>, input: usize) -> Elements<'r, L> {
        let Some((size, decode, _)) = self.ways else { return Elements::Own(cx.input(input)) };
        let mut converted = cx.scratch::<L>(cx.tensor(input).count());
        decode_all(cx.threads(), (cx.input_bytes(input), size, decode), &mut converted);
        Elements::Converted(converted)
    }

    /// Computes an output.
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

    /// Computes output 0 from an input, over it where [`Lanes::reuse`] has allowed that.
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

    /// Rounds values to those of the elements.
    pub(crate) fn round(&self, values: &mut [L]) {
        let Some((size, decode, encode)) = self.ways else { return };
        let mut bytes = [0; 512];
        for part in values.chunks_mut(bytes.len() / size) {
            let bytes = &mut bytes[..part.len() * size];
            encode(part, bytes);
            decode(bytes, part);
        }
    }

    /// Whether the output can lie where an input does.
    pub(crate) fn reuse(&self, input: usize) -> Reuse {
        if self.ways.is_none() { Reuse::InPlace(1 << input) } else { Reuse::None }
    }
}

/// Converts each element of a tensor, as the Convert operation does.
///
/// # Errors
/// When there is no such conversion.
pub fn convert_tensor(tensor: &Tensor, to: ElementType) -> Result<Tensor, crate::TensorError> {
    let from = tensor.element_type();
    if from == to {
        return Ok(tensor.clone());
    }
    let conversion = Conversion::new(from, to)
        .ok_or_else(|| crate::TensorError::new(format!("no conversion from {from} to {to}")))?;
    let mut out = Tensor::zeros(to, tensor.sizes())?;
    if let Some(place) = out.bytes_mut() {
        conversion.run(Threads::single(), tensor.count(), tensor.bytes(), place);
    }
    Ok(out)
}

/// Packs bytes that hold one element each into a tensor of a type below a byte.
///
/// # Errors
/// When the bytes do not fill the shape.
pub fn pack_bytes(
    element_type: ElementType,
    sizes: &[usize],
    bytes: &[u8],
) -> Result<Tensor, crate::TensorError> {
    let mut out = Tensor::zeros(element_type, sizes)?;
    if out.count() != bytes.len() {
        let have = bytes.len();
        return Err(crate::TensorError::new(format!("{have} elements do not fill {sizes:?}")));
    }
    if let Some(place) = out.bytes_mut() {
        pack(element_type.bits().unwrap_or(8), bytes, place);
    }
    Ok(out)
}

/// The elements of a tensor of a type below a byte, one byte each; i4 keeps its sign.
pub fn unpack_bytes(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = vec![0; tensor.count()];
    unpack(tensor.element_type().bits().unwrap_or(8), tensor.bytes(), &mut bytes);
    if tensor.element_type() == ElementType::I4 {
        for byte in &mut bytes {
            *byte = (((*byte << 4) as i8) >> 4) as u8;
        }
    }
    bytes
}
