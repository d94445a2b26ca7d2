//! Copies of runs by index: what a chain of movements is fused to.

use crate::base::num::Pod;
use crate::base::par::Threads;
use bytemuck::{cast_slice, cast_slice_mut};

/// Bytes that are worth a second thread.
const GRAIN: usize = 64 << 10;

/// Copies runs of `run` elements: run `i` of `to` is run `runs[i]` of `from`.
///
/// # Panics
/// When a run is not within `from`, or `to` does not have the size of all runs.
pub fn gather_runs<T: Pod>(threads: &Threads, from: &[T], runs: &[u32], run: usize, to: &mut [T]) {
    assert_eq!(to.len(), runs.len() * run, "the runs do not fill the output");
    let bytes = run * size_of::<T>();
    let (from, to): (&[u8], &mut [u8]) = (cast_slice(from), cast_slice_mut(to));
    // A call of memcpy takes longer than to copy a short run.
    match bytes {
        16 => gather::<16>(threads, from, runs, to),
        32 => gather::<32>(threads, from, runs, to),
        64 => gather::<64>(threads, from, runs, to),
        128 => gather::<128>(threads, from, runs, to),
        _ => threads.par_chunks_mut(to, bytes, GRAIN, |first, part| {
            for (to, run) in part.chunks_exact_mut(bytes.max(1)).zip(&runs[first..]) {
                to.copy_from_slice(&from[*run as usize * bytes..][..bytes]);
            }
        }),
    }
}

/// Copies runs of `N` bytes.
fn gather<const N: usize>(threads: &Threads, from: &[u8], runs: &[u32], to: &mut [u8]) {
    let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
    threads.par_chunks_mut(to, 1, GRAIN / N, |first, part| {
        for (to, run) in part.iter_mut().zip(&runs[first..]) {
            *to = from[*run as usize];
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_from_anywhere() {
        let from: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let mut to = [0.0; 9];
        gather_runs(Threads::single(), &from, &[3, 0, 3], 3, &mut to);
        assert_eq!(to, [9., 10., 11., 0., 1., 2., 9., 10., 11.]);
    }

    /// Of lengths that have a loop of their own, and of others; on two threads.
    #[test]
    fn runs_of_bytes() {
        for run in [1, 16, 17, 32, 64, 100, 128] {
            let from: Vec<u8> = (0..999 * run).map(|i| (i * 7 % 251) as u8).collect();
            let runs: Vec<u32> = (0..2000).map(|i| i * 37 % 999).collect();
            let mut to = vec![0; runs.len() * run];
            gather_runs(&Threads::new(2), &from, &runs, run, &mut to);
            for (to, i) in to.chunks_exact(run).zip(&runs) {
                assert_eq!(to, &from[*i as usize * run..][..run]);
            }
        }
    }
}
