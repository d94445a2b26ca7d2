//! The rows of A for the microkernels.

use crate::quantized::input::WindowLayout;
use crate::quantized::tile::WIDTH;

/// The rows of a tile: u8, or i16 on CPUs without dot4.
#[derive(Clone, Copy)]
pub(in crate::quantized) struct TileRows<'a, T> {
    /// The image from the first row on.
    pub(in crate::quantized) elements: &'a [T],
    pub(in crate::quantized) rows: usize,
    pub(in crate::quantized) layout: WindowLayout,
}

impl<T> TileRows<'_, T> {
    /// As [`TileRows::fits`], and `sums` has a row for each.
    pub(super) fn suit(&self, weights: usize, sums: &[i32]) -> bool {
        self.fits(weights) && sums.len() >= self.rows * WIDTH
    }

    /// Whether the rows are within the elements, and a panel of so many weights has their `k`.
    pub(super) fn fits(&self, weights: usize) -> bool {
        let WindowLayout { row, step, steps, step_stride, run, runs, group } = self.layout;
        let last = self.rows.saturating_sub(1) * row + runs.saturating_sub(1) * run;
        let last = last + steps.saturating_sub(1) * step_stride;
        let bytes = if group > 0 { WIDTH } else { step };
        (self.rows == 0 || last + bytes <= self.elements.len())
            && weights == self.layout.k() * WIDTH
    }
}

#[cfg(target_arch = "x86_64")]
impl TileRows<'_, u8> {
    /// Calls `f` for every four elements along k, in order, with their offset in the first row.
    #[inline(always)]
    pub(super) fn each_dot4(&self, mut f: impl FnMut(usize)) {
        let WindowLayout { step, steps, run, runs, .. } = self.layout;
        for first in (0..runs).map(|i| i * run) {
            for at in (first..first + steps * step).step_by(4) {
                f(at);
            }
        }
    }
}

/// Divides rows into blocks of at most `$most`, as few and as equal as possible, and evaluates
/// `$call` for each block, with its number of rows as the constant `$n`.
#[cfg(target_arch = "x86_64")]
macro_rules! in_blocks {
    ($most:literal: $($count:literal)*; $rows:expr, ($row:ident, $n:ident) => $call:expr) => {{
        let (all, mut $row): (usize, usize) = ($rows, 0);
        let blocks = all.div_ceil($most);
        // The first blocks have a row more.
        let (least, more) = (all / blocks.max(1), all % blocks.max(1));
        for block in 0..blocks {
            match least + usize::from(block < more) {
                $($count => {
                    const $n: usize = $count;
                    $call;
                    $row += $count;
                })*
                _ => unreachable!("there are at most so many rows"),
            }
        }
    }};
}

#[cfg(target_arch = "x86_64")]
pub(super) use in_blocks;
