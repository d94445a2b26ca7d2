//! GEMM with a compressed B.

use crate::base::par::Slice;
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx;
use crate::gemm::dequant::kernel::{Panel, WIDTH};
use crate::gemm::dequant::pack::CompressedRhs;
use crate::gemm::microkernel::args::nr;
use crate::gemm::output::SharedTarget;
use crate::gemm::post_ops::finish;
use crate::gemm::problem::{Gemm, Lhs};
use crate::gemm::tiling::Tile;
use crate::gemm::tuning::{DEQUANT_ROWS, dequant_rows};

impl Gemm<'_> {
    /// Computes one tile of C with a compressed B.
    pub(crate) fn run_dequantized(
        &self,
        tile: Tile,
        b: CompressedRhs<'_>,
        scratch: &mut [f32],
        c: SharedTarget,
    ) {
        let width = nr();
        if let (true, Lhs::Rows { values, stride }, Some(c)) = (tile.is_small_m, self.a, c.values())
        {
            let mut first = tile.columns.start;
            while first < tile.columns.end {
                let left = (tile.columns.end - first).div_ceil(width);
                let panels = b.panels_at_once(tile.rows.len(), left);
                let panel = b.panel(first, scratch);
                // SAFETY: the columns are this tile's own.
                unsafe { self.few_rows(tile, (first, panel, panels), values, stride, c) };
                first += panels * width;
            }
            // SAFETY: within C and within this tile.
            return unsafe {
                let (rows, columns) = (tile.rows.range(), tile.columns.range());
                finish(self.post_ops, rows, columns, self.c_stride, c)
            };
        }
        #[cfg(target_arch = "x86_64")]
        if self.precision.has_tiles() {
            return self.run_amx_blocks(tile, amx::driver::Panels::Compressed(b, scratch), c);
        }
        let firsts = tile.columns.range().step_by(width);
        let panel = width * self.precision.rows(self.k);
        let (panels, workspace) = scratch.split_at_mut(firsts.len() * panel);
        for (first, to) in firsts.zip(panels.chunks_exact_mut(panel.max(1))) {
            b.write(first, self.precision, workspace, to);
        }
        self.run_blocks(tile, (panels, &[]), c);
    }

    /// Sums of all rows of a tile for the columns of a panel, or of a single row for those of some.
    ///
    /// # Safety
    /// While this runs nobody else touches these elements of C.
    unsafe fn few_rows(
        &self,
        tile: Tile,
        (first, panel, panels): (usize, Panel<'_>, usize),
        a: &[f32],
        stride: usize,
        c: Slice<f32>,
    ) {
        debug_assert!(tile.columns.range().contains(&first));
        let mut sums = [[0f32; WIDTH]; DEQUANT_ROWS];
        for row in tile.rows.range().step_by(dequant_rows()) {
            let rows = (tile.rows.end - row).min(dequant_rows());
            let sums = &mut sums[..rows * panels];
            panel.multiply((&a[row * stride..], stride), panels, sums);
            for (i, sums) in sums.iter().enumerate() {
                let (row, first) = (row + i / panels, first + i % panels * panel.layout.width);
                let columns = (tile.columns.end - first).min(panel.layout.width);
                // SAFETY: `check` has shown that it is within C, and the caller's promise.
                let to = unsafe { c.part(row * self.c_stride + first, columns) };
                to.copy_from_slice(&sums[..columns]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
