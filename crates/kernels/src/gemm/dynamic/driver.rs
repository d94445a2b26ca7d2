//! GEMM with quantized rows of A, divided among threads.

use super::kernel::{self, WIDTH};
use super::pack::DynamicPanels;
use super::rows::{GROUP, MOST_ROWS, QuantizedRows, most_rows, padded};
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::gemm::post_ops::finish;
use crate::gemm::problem::{Gemm, Lhs};
use crate::gemm::tuning::{GRAIN, WIDENED_ROWS};

/// Tasks for each thread if there are few panels.
const TASKS_PER_THREAD: usize = 4;

impl Gemm<'_> {
    /// Computes C from quantized rows of A.
    ///
    /// # Panics
    /// Unless A is rows of f32.
    pub(in crate::gemm) fn run_quantized(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        panels: &DynamicPanels,
        c: Slice<f32>,
    ) {
        let Lhs::Rows { values, stride } = self.a else { panic!("A is not rows") };
        let (m, k, width) = (self.m, self.k, panels.width());
        let elements = padded(m) * k;
        let (mut bytes, mut factors) =
            (scratch.take(elements), scratch.take(2 * (elements / GROUP)));
        let a = QuantizedRows::new(&mut bytes, &mut factors, k, panels.order());
        let a = a.quantize(threads, (values, stride), m);
        let across = self.n.div_ceil(width);
        let is_small = m * self.n * k <= GRAIN;
        let down = if is_small { 1 } else { (TASKS_PER_THREAD * threads.count()).div_ceil(across) };
        let rows = m.div_ceil(down).next_multiple_of(most_rows());
        let down = m.div_ceil(rows);
        let is_widened = rows >= WIDENED_ROWS && panels.panel(0).is_packed();
        let len = if is_widened { panels.panel(0).widened_len() } else { 0 };
        let mut widened = scratch.take(len * threads.count());
        let widened = Slice::new(&mut widened);
        let task = |task: usize, thread: usize| {
            let (first, row) = (task / down * width, task % down * rows);
            // SAFETY: each thread has a part of its own.
            let widened = unsafe { widened.part(thread * len, len) };
            let panel = panels.panel(first);
            let panel = if is_widened { panel.widen(widened) } else { panel };
            let (columns, rows) = (first..self.n.min(first + width), row..m.min(row + rows));
            let mut sums = [[0f32; WIDTH]; MOST_ROWS];
            for row in rows.clone().step_by(most_rows()) {
                let count = (rows.end - row).min(most_rows());
                kernel::multiply(panel, &a.block(row, count), &mut sums);
                for (i, sums) in sums[..count].iter().enumerate() {
                    // SAFETY: `check` has shown that it is within C, and tasks are disjoint parts
                    // of it.
                    let to = unsafe { c.part((row + i) * self.c_stride + first, columns.len()) };
                    to.copy_from_slice(&sums[..columns.len()]);
                }
            }
            // SAFETY: within C and within this task.
            unsafe { finish(self.post_ops, rows, columns, self.c_stride, c) };
        };
        if is_small {
            (0..across * down).for_each(|i| task(i, 0));
        } else {
            threads.run(across * down, &task);
        }
    }
}

#[cfg(test)]
mod tests;
