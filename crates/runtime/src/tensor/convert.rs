//! Conversion between element types.

use crate::tensor::dispatch::with_type;
use crate::tensor::{Tensor, TensorError};
use ir::ElementType;
use kernels::convert::{Decoder, Encoder, convert, decode, encode};
use kernels::num::{Stored, Wide};
use kernels::par::Threads;
use kernels::sub_byte::{pack, unpack};

/// How to convert between two element types.
#[derive(Clone)]
pub(crate) struct Conversion {
    from: Side,
    to: Side,
    functions: Functions,
}

/// How an element type is stored.
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

/// A wide type, which knows its variant of [`Functions`].
pub(crate) trait Pair: Wide {
    /// The functions through this wide type.
    fn pair(decoder: Decoder<Self>, encoder: Encoder<Self>) -> PairOf;
}

/// The functions between two element types through a wide type.
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
    /// The conversion between two types; `None` if one is not numeric.
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

/// Converts each element of a tensor, as the Convert operation does.
///
/// # Errors
/// When there is no such conversion.
pub fn convert_tensor(tensor: &Tensor, to: ElementType) -> Result<Tensor, TensorError> {
    let from = tensor.element_type();
    if from == to {
        return Ok(tensor.clone());
    }
    let conversion = Conversion::new(from, to)
        .ok_or_else(|| TensorError::new(format!("no conversion from {from} to {to}")))?;
    let mut out = Tensor::zeros(to, tensor.sizes())?;
    if let Some(place) = out.bytes_mut() {
        conversion.run(Threads::single(), tensor.count(), tensor.bytes(), place);
    }
    Ok(out)
}

/// The tensor with real elements converted to another real type; any other tensor unchanged.
///
/// # Errors
/// When the copy does not fit in memory.
pub(crate) fn with_reals_in(tensor: &Tensor, wanted: ElementType) -> Result<Tensor, TensorError> {
    let are_real = tensor.element_type().is_real() && wanted.is_real();
    if are_real { convert_tensor(tensor, wanted) } else { Ok(tensor.clone()) }
}

/// Packs bytes with one element each into a tensor of a sub-byte type.
///
/// # Errors
/// When the bytes do not fill the shape.
pub fn pack_bytes(
    element_type: ElementType,
    sizes: &[usize],
    bytes: &[u8],
) -> Result<Tensor, TensorError> {
    let mut out = Tensor::zeros(element_type, sizes)?;
    if out.count() != bytes.len() {
        let have = bytes.len();
        return Err(TensorError::new(format!("{have} elements do not fill {sizes:?}")));
    }
    if let Some(place) = out.bytes_mut() {
        pack(element_type.bits().unwrap_or(8), bytes, place);
    }
    Ok(out)
}

/// The elements of a tensor of a sub-byte type, one per byte; i4 is sign-extended.
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
