//! Elements smaller than a byte: unpacks them to one byte each, and packs them.
//!
//! Layouts as in IR files (`docs/formats.md`). 1-bit elements start at the most significant bit, 2-
//! and 4-bit ones at the least significant. 3- and 6-bit ones come in groups of three bytes that
//! keep low and high bits apart.

/// Unpacks `to.len()` elements of `bits` bits (1, 2, 3, 4 or 6) to unsigned bytes.
///
/// # Panics
/// When there are too few bytes, or for another number of bits.
pub fn unpack(bits: u32, from: &[u8], to: &mut [u8]) {
    match bits {
        1 => each(to, 8, from, 1, |bytes, i| bytes[0] >> (7 - i) & 1),
        2 => each(to, 4, from, 1, |bytes, i| bytes[0] >> (2 * i) & 3),
        4 => each(to, 2, from, 1, |bytes, i| bytes[0] >> (4 * i) & 15),
        3 => each(to, 8, from, 3, |bytes, i| {
            let low = bytes[i / 4] >> (6 - 2 * (i % 4)) & 3;
            low | (bytes[2] >> (7 - i) & 1) << 2
        }),
        6 => each(to, 4, from, 3, |bytes, i| {
            let low = bytes[i / 2] >> (4 - 4 * (i % 2)) & 15;
            low | (bytes[2] >> (6 - 2 * i) & 3) << 4
        }),
        _ => panic!("elements of {bits} bits are not packed"),
    }
}

fn each(
    to: &mut [u8],
    group: usize,
    from: &[u8],
    bytes: usize,
    element: impl Fn(&[u8], usize) -> u8,
) {
    assert!(from.len() >= to.len().div_ceil(group) * bytes, "too few packed bytes");
    for (to, from) in to.chunks_mut(group).zip(from.chunks_exact(bytes)) {
        for (i, value) in to.iter_mut().enumerate() {
            *value = element(from, i);
        }
    }
}

/// Packs the low `bits` bits (1, 2, 3, 4 or 6) of each byte. Unused bits become 0.
///
/// # Panics
/// When `to` is too short, or for another number of bits.
pub fn pack(bits: u32, from: &[u8], to: &mut [u8]) {
    let (group, bytes) = match bits {
        1 => (8, 1),
        2 => (4, 1),
        4 => (2, 1),
        3 => (8, 3),
        6 => (4, 3),
        _ => panic!("elements of {bits} bits are not packed"),
    };
    assert!(to.len() >= from.len().div_ceil(group) * bytes, "too little space");
    to.fill(0);
    for (from, to) in from.chunks(group).zip(to.chunks_exact_mut(bytes)) {
        for (i, &value) in from.iter().enumerate() {
            match bits {
                1 => to[0] |= (value & 1) << (7 - i),
                2 => to[0] |= (value & 3) << (2 * i),
                4 => to[0] |= (value & 15) << (4 * i),
                3 => {
                    to[i / 4] |= (value & 3) << (6 - 2 * (i % 4));
                    to[2] |= (value >> 2 & 1) << (7 - i);
                }
                _ => {
                    to[i / 2] |= (value & 15) << (4 - 4 * (i % 2));
                    to[2] |= (value >> 4 & 3) << (6 - 2 * i);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The byte patterns that OpenVINO 2026.4 writes (semantics 7.5).
    #[test]
    fn layouts() {
        for (bits, elements, bytes) in [
            (1, &[1u8, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0x80u8, 0x40][..]),
            (2, &[1, 2, 3, 0, 2], &[0x39, 0x02]),
            (3, &[1, 2, 3, 4, 5, 6, 7, 0], &[0x6c, 0x6c, 0x1e]),
            (6, &[1, 2, 4, 8], &[0x12, 0x48, 0x00]),
            (6, &[63, 1, 2, 3, 5], &[0xf1, 0x23, 0xc0, 0x50, 0x00, 0x00]),
            (4, &[1, 14, 7, 8, 15], &[0xe1, 0x87, 0x0f]),
        ] {
            let mut packed = vec![0xff; bytes.len()];
            pack(bits, elements, &mut packed);
            assert_eq!(packed, bytes, "{bits} bits");
            let mut unpacked = vec![0; elements.len()];
            unpack(bits, bytes, &mut unpacked);
            assert_eq!(unpacked, elements, "{bits} bits");
        }
    }
}
