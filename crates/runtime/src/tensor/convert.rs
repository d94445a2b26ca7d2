//! Conversion between element types.

use crate::tensor::dispatch::with_type;
use crate::tensor::{Tensor, TensorError};
use ir::ElementType;
use kernels::convert::{DestinationType, convert};
use kernels::num::Stored;
use kernels::par::Threads;
use kernels::sub_byte::{pack, unpack};
use std::sync::Arc;

/// How to convert between two element types.
#[derive(Clone)]
pub(crate) struct Conversion {
    /// Bits of the elements, if several share a byte.
    packed_from: Option<u32>,
    /// The same of the result.
    packed_to: Option<u32>,
    convert: Arc<Convert>,
}

/// Converts elements of whole bytes.
type Convert = dyn Fn(&Threads, &[u8], &mut [u8]) + Send + Sync;

/// The conversion of `S` by way of its wide type.
fn conversion<S: Stored>(to: ElementType) -> Option<Arc<Convert>> {
    let to = with_type!(to, stored D => DestinationType::of::<D>())?;
    Some(Arc::new(move |threads, from, bytes| convert::<S>(threads, from, bytes, to)))
}

impl Conversion {
    /// The conversion between two types; `None` if one is not numeric.
    pub(crate) fn new(from: ElementType, to: ElementType) -> Option<Conversion> {
        let packed = |t: ElementType| t.bits().filter(|_| t.is_packed());
        let convert = with_type!(from, stored S => conversion::<S>(to))??;
        Some(Conversion { packed_from: packed(from), packed_to: packed(to), convert })
    }

    /// Converts `count` elements.
    pub(crate) fn run(&self, threads: &Threads, count: usize, from: &[u8], to: &mut [u8]) {
        let unpacked;
        let from = match self.packed_from {
            None => from,
            Some(bits) => {
                let mut bytes = vec![0; count];
                unpack(bits, from, &mut bytes);
                unpacked = bytes;
                &unpacked
            }
        };
        match self.packed_to {
            None => (self.convert)(threads, from, to),
            Some(bits) => {
                let mut bytes = vec![0; count];
                (self.convert)(threads, from, &mut bytes);
                pack(bits, &bytes, to);
            }
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
