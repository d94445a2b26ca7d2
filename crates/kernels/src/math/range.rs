//! Numbers at equal distances (Range).
//!
//! Each is computed from its index, so errors do not add up, and the bits are the same for any
//! number of threads.

use crate::base::num::Stored;
use crate::base::par::Threads;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// `start + i * step` for each `i`, modulo the range of the type.
pub fn integers<T: Stored>(threads: &Threads, start: i64, step: i64, out: &mut [T]) {
    fill(threads, out, |i| T::from_i64(start.wrapping_add((i as i64).wrapping_mul(step))));
}

/// `start + i * step` for each `i`, in f64; if `round`, rounded to nearest, ties to even.
pub fn reals<T: Stored>(threads: &Threads, (start, step): (f64, f64), round: bool, out: &mut [T]) {
    let at = |i: usize| start + i as f64 * step;
    if round {
        fill(threads, out, |i| T::from_f64(at(i).round_ties_even()))
    } else {
        fill(threads, out, |i| T::from_f64(at(i)))
    }
}

fn fill<T: Stored>(threads: &Threads, out: &mut [T], value: impl Fn(usize) -> T + Sync) {
    threads.par_chunks_mut(out, 1, GRAIN, |first, part| {
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
        reals(&Threads::new(2), (1.0, -0.1), false, &mut floats);
        assert!(floats.iter().enumerate().all(|(i, v)| *v == (1.0 + i as f64 * -0.1) as f32));
        let mut whole = [0i32; 6];
        reals(Threads::single(), (1.0, 0.5), true, &mut whole);
        assert_eq!(whole, [1, 2, 2, 2, 3, 4]);
    }
}
