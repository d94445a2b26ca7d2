//! Conversion between stored types, through a wide type and small blocks in the cache.
//!
//! Stored values are read from and written to bytes, which need not be aligned: constants may begin
//! anywhere in a file.

use crate::base::num::{Bool, Pod, Stored, Wide, bf16, f16};
use crate::base::par::Threads;
use crate::multiversion;
use bytemuck::{cast_slice, try_cast_slice, try_cast_slice_mut};
use std::any::TypeId;

/// Elements converted at a time.
const BLOCK: usize = 512;

/// Elements that are worth a second thread.
const GRAIN: usize = 32 << 10;

/// Widens the values that are stored in some bytes.
pub type Decoder<W> = fn(&[u8], &mut [W]);

/// Narrows values and stores them as bytes.
pub type Encoder<W> = fn(&[W], &mut [u8]);

/// The conversions from stored elements to another type and back; `None` if it is the same type.
pub type Ways<W> = Option<(Decoder<W>, Encoder<W>)>;

/// An element type, and the type that kernels compute it in. Kernels are compiled for few types;
/// elements of others are converted to one of them and back.
pub trait Element: Stored {
    /// The type itself or, if networks seldom use it, one that holds all its values.
    type Lane: Stored;
    /// The conversions to and from [`Self::Lane`].
    const WAYS: Ways<Self::Lane>;
}

macro_rules! elements {
    (own $($t:ty)*) => {
        $(impl Element for $t {
            type Lane = $t;
            const WAYS: Ways<$t> = None;
        })*
    };
    (wide $($t:ty)*) => {
        $(impl Element for $t {
            type Lane = <$t as Stored>::Wide;
            const WAYS: Ways<Self::Lane> =
                Some((decode::<$t, Self::Lane>, encode::<Self::Lane, $t>));
        })*
    };
    (short $($t:ty)*) => {
        $(impl Element for $t {
            type Lane = i32;
            const WAYS: Ways<i32> = Some((decode::<$t, i32>, encode::<i32, $t>));
        })*
    };
}

elements!(own f32 f64 i32 i64 u64 Bool);
elements!(wide f16 bf16 u32);
elements!(short u8 u16 i8 i16);

multiversion! {
    /// Converts each value, without the wide type on the way where there are instructions for it.
    ///
    /// # Panics
    /// When there are too few bytes.
    pub fn decode<S: Stored, L: Stored>(from: &[u8], to: &mut [L]) {
        assert!(from.len() >= to.len() * size_of::<S>());
        let from: *const S = from.as_ptr().cast();
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: within the bytes; every bit pattern is a value of a Pod type.
            *to = unsafe { from.add(i).read_unaligned() }.widen().narrow();
        }
    }
}

multiversion! {
    vectors if size_of::<L>() == size_of::<f32>() || size_of::<D::Wide>() == size_of::<f32>();
    /// As [`decode`], to bytes.
    ///
    /// # Panics
    /// When `to` is too short.
    pub fn encode<L: Stored, D: Stored>(from: &[L], to: &mut [u8]) {
        assert!(to.len() >= from.len() * size_of::<D>());
        let to: *mut D = to.as_mut_ptr().cast();
        let is_f32 = TypeId::of::<L>() == TypeId::of::<f32>();
        if D::TRUNCATES && is_f32 && are_small(cast_slice(from)) {
            for (i, from) in cast_slice::<L, f32>(from).iter().enumerate() {
                // SAFETY: the value is within 32 bits, and its place within the bytes.
                unsafe {
                    let whole: i32 = from.to_int_unchecked();
                    to.add(i).write_unaligned(D::from_i64(whole.into()));
                }
            }
            return;
        }
        for (i, from) in from.iter().enumerate() {
            // SAFETY: within the bytes.
            unsafe { to.add(i).write_unaligned(from.widen().narrow()) };
        }
    }
}

/// Whether all values are within 32 bits. There are vector instructions for those.
#[inline(always)]
fn are_small(values: &[f32]) -> bool {
    const LIMIT: f32 = (1u32 << 31) as f32;
    let mut large = 0;
    for value in values {
        let is_small = value.abs() < LIMIT;
        large |= u32::from(!is_small);
    }
    large == 0
}

/// A type that elements of wide type `W` are converted to.
#[derive(Clone, Copy)]
pub struct DestinationType<W> {
    encode: Encoder<W>,
    /// Bytes of an element.
    size: usize,
    /// Whether it is `W`.
    is_wide: bool,
    /// Whether it is f32.
    is_f32: bool,
}

impl<W: Wide> DestinationType<W> {
    /// The type `D`.
    pub fn of<D: Stored>() -> DestinationType<W> {
        let [is_wide, is_f32] =
            [TypeId::of::<W>(), TypeId::of::<f32>()].map(|t| TypeId::of::<D>() == t);
        DestinationType { encode: encode::<W, D>, size: size_of::<D>(), is_wide, is_f32 }
    }
}

/// Converts elements of type `S` to another type, as many as `to` holds.
///
/// # Panics
/// When there are too few bytes.
pub fn convert<S: Stored>(
    threads: &Threads,
    from: &[u8],
    to: &mut [u8],
    DestinationType { encode, size, is_wide, is_f32 }: DestinationType<S::Wide>,
) {
    let own = size_of::<S>();
    // If one of the types is the wide one, or there are instructions, nothing is copied on the way.
    if is_wide && let Ok(to) = try_cast_slice_mut(to) {
        return decode_all(threads, (from, own, decode::<S, S::Wide>), to);
    }
    if is_f32 && let Ok(to) = try_cast_slice_mut(to) {
        return decode_all(threads, (from, own, decode::<S, f32>), to);
    }
    if TypeId::of::<S>() == TypeId::of::<S::Wide>()
        && let Ok(from) = try_cast_slice(from)
    {
        return encode_all(threads, from, (to, size, encode));
    }
    threads.par_chunks_mut(to, BLOCK * size, GRAIN, |first, part| {
        let mut wide = [S::Wide::default(); BLOCK];
        let mut at = first * BLOCK * own;
        for to in part.chunks_mut(BLOCK * size) {
            let count = to.len() / size;
            let wide = &mut wide[..count];
            decode::<S, S::Wide>(&from[at..at + count * own], wide);
            encode(wide, to);
            at += count * own;
        }
    });
}

/// Reads `to.len()` elements of `size` bytes.
///
/// # Panics
/// When there are too few bytes.
pub fn decode_all<L: Pod>(
    threads: &Threads,
    (from, size, decode): (&[u8], usize, Decoder<L>),
    to: &mut [L],
) {
    threads.par_chunks_mut(to, 1, GRAIN, |first, to| {
        decode(&from[first * size..][..to.len() * size], to);
    });
}

/// Writes `to.len() / size` elements of `size` bytes.
///
/// # Panics
/// When `from` has fewer elements.
pub fn encode_all<L: Pod>(
    threads: &Threads,
    from: &[L],
    (to, size, encode): (&mut [u8], usize, Encoder<L>),
) {
    threads.par_chunks_mut(to, size, GRAIN * size, |first, to| {
        encode(&from[first..][..to.len() / size], to);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_truncated_and_wrap() {
        let values = [0.0f32, -0.9, 1.9, -300.7, 70_000.5, -2.5e9, 2.5e9, 1e30, f32::NAN, 3e9];
        for count in [5, 10] {
            let values: Vec<f32> = values[..count].iter().copied().cycle().take(100).collect();
            let (mut bytes, mut words) = (vec![0; 100], vec![0; 400]);
            encode::<f32, u8>(&values, &mut bytes);
            encode::<f32, i32>(&values, &mut words);
            for (i, value) in values.iter().enumerate() {
                assert_eq!(bytes[i], *value as i64 as u8, "{value}");
                assert_eq!(
                    words[4 * i..4 * i + 4],
                    (*value as i64 as i32).to_le_bytes(),
                    "{value}"
                );
            }
        }
    }

    #[test]
    fn blocks_are_converted_whole() {
        let threads = Threads::new(2);
        let values: Vec<i32> = (-50_000..50_001).collect();
        let from: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut narrow = vec![0; values.len()];
        convert::<i32>(&threads, &from, &mut narrow, DestinationType::of::<i8>());
        assert!(values.iter().zip(&narrow).all(|(a, b)| *a as u8 == *b));
        // One byte off, so that nothing is aligned.
        let mut halves = vec![0; 2 * values.len() + 1];
        convert::<i32>(&threads, &from, &mut halves[1..], DestinationType::of::<f16>());
        let bits = |v: &i32| f16::from_f64(f64::from(*v)).to_le_bytes();
        assert_eq!(halves[1..], values.iter().flat_map(bits).collect::<Vec<u8>>());
        let mut back = vec![0; 2 * values.len()];
        convert::<f16>(&threads, &halves[1..], &mut back, DestinationType::of::<bf16>());
        assert_eq!(back[2 * 50_256..][..2], bf16::from_f32(256.0).to_le_bytes());
    }
}
