//! Copies of runs by index: what a chain of movements is fused to.

use crate::base::par::{Slice, Threads};

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Copies runs of `run` elements: run `i` of `to` is run `runs[i]` of `from`.
///
/// # Panics
/// When a run is not within `from`, or `to` does not have the size of all runs.
pub fn gather_runs(threads: &Threads, from: &[f32], runs: &[u32], run: usize, to: &mut [f32]) {
    assert_eq!(to.len(), runs.len() * run, "the runs do not fill the output");
    let out = Slice::new(to);
    threads.par_ranges(runs.len(), GRAIN.div_ceil(run.max(1)), |range| {
        for i in range {
            let source = &from[runs[i] as usize * run..][..run];
            // SAFETY: run `i` is within the output, and no other task writes it.
            unsafe { out.part(i * run, run) }.copy_from_slice(source);
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
}
