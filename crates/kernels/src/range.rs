//! Numbers at equal distances.
//!
//! Each is computed from its position, so that errors do not add up and the bits are the same for
//! any number of threads.

use crate::num::Stored;
use crate::par::Threads;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// `start + i * step` for each `i`, modulo the range of the type.
pub fn integers<T: Stored>(threads: &Threads, start: i64, step: i64, out: &mut [T]) {
    fill(threads, out, |i| T::from_i64(start.wrapping_add((i as i64).wrapping_mul(step))));
}

/// `start + i * step` for each `i`, in f64.
pub fn reals<T: Stored>(threads: &Threads, start: f64, step: f64, out: &mut [T]) {
    fill(threads, out, |i| T::from_f64(start + i as f64 * step));
}

fn fill<T: Stored>(threads: &Threads, out: &mut [T], value: impl Fn(usize) -> T + Sync) {
    threads.chunks(out, 1, GRAIN, |first, part| {
        for (i, slot) in part.iter_mut().enumerate() {
            *slot = value(first + i);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_their_position() {
        let mut bytes = [0u8; 4];
        integers(Threads::single(), 250, 3, &mut bytes);
        assert_eq!(bytes, [250, 253, 0, 3]);
        let mut floats = vec![0f32; 40_000];
        reals(&Threads::new(2), 1.0, -0.1, &mut floats);
        assert!(floats.iter().enumerate().all(|(i, v)| *v == (1.0 + i as f64 * -0.1) as f32));
    }
}
