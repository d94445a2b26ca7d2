//! GEMM of bf16 operands by AMX: blocks of 32 rows and 32 columns, in tiles.
//!
//! A sum takes 32 elements along k at a time. The even ones are one chain of fused multiply-adds
//! from 0, the odd ones another; the two are added, and then added to the sum. All is rounded to
//! nearest even, and subnormals count as 0. The tests compare with this bit for bit. If the runs of
//! a convolution's windows are not whole steps of 32, each run is taken in equal parts.

use crate::base::amx::{TILE_ROW_BYTES, TILE_ROWS};
use crate::gemm::amx::config::{ROWS, TileBlock, TileConfig, TilePair, WIDTH};
use crate::gemm::amx::kernel::multiply;
use crate::gemm::amx::pack_a::PackedA;
use crate::gemm::amx::windows::{self, Bf16Lines};
use crate::gemm::dequant::pack::CompressedRhs;
use crate::gemm::microkernel::bf16_dp::Native16;
use crate::gemm::microkernel::generic::store_rows;
use crate::gemm::output::{Out, SharedTarget};
use crate::gemm::post_ops::{RegisterPostOps, finish};
use crate::gemm::precision::{Precision, has_dp_bf16};
use crate::gemm::problem::{Gemm, Lhs};
use crate::gemm::tiling::{Span, Tile};
use crate::gemm::tuning::{AMX_PREFETCH_LINES, amx_group};
use std::ops::Range;

/// Memory that is prefetched while blocks are multiplied.
struct Later {
    from: *const u8,
    bytes: usize,
}

impl Later {
    /// The first `len` elements of some panels.
    fn of(panels: &[f32], len: usize) -> Later {
        let panels = &panels[..len.min(panels.len())];
        Later { from: panels.as_ptr().cast(), bytes: size_of_val(panels) }
    }

    /// The address to prefetch first in the next `steps` steps along k, and bytes from step to
    /// step.
    fn part(&mut self, steps: usize, panel: *const u8) -> (*const u8, usize) {
        let bytes = AMX_PREFETCH_LINES * TILE_ROW_BYTES * steps;
        if self.bytes < bytes {
            // A valid address: prefetching an unmapped one costs a page walk.
            return (panel, 0);
        }
        let from = self.from;
        (self.from, self.bytes) = (from.wrapping_add(bytes), self.bytes - bytes);
        (from, AMX_PREFETCH_LINES * TILE_ROW_BYTES)
    }
}

/// Sums of a block, before their post-ops. Those of the second tile start at row [`TILE_ROWS`].
#[repr(C, align(64))]
struct Sums([f32; ROWS * WIDTH]);

/// The panels of a tile of C.
pub(crate) enum Panels<'a> {
    /// Packed, as those of a later tile may be.
    Packed {
        /// The panels, from the first of the tile on.
        panels: &'a [f32],
        /// Panels that are read later.
        later: &'a [f32],
    },
    /// Compressed, with scratch for a group of panels, and for the packing of one.
    Compressed(CompressedRhs<'a>, &'a mut [f32]),
}

impl Panels<'_> {
    /// The panels of a group of columns of a tile, of `panel` elements each, and what is read after
    /// them.
    fn group(
        &mut self,
        tile: Tile,
        columns: Range<usize>,
        precision: Precision,
        panel: usize,
    ) -> (&[f32], Later) {
        let (Span { start: left, end: right }, group) = (tile.columns, amx_group(panel));
        match self {
            Panels::Packed { panels, later } => {
                let own = &panels[(columns.start - left) / WIDTH * panel..];
                let next = if columns.end < right { &own[group * panel..] } else { later };
                (own, Later::of(next, group * panel))
            }
            Panels::Compressed(b, workspace) => {
                let (own, workspace) = workspace.split_at_mut(group * panel);
                let each = own.chunks_mut(panel.max(1));
                for (column, to) in columns.clone().step_by(WIDTH).zip(each) {
                    b.write(column, precision, workspace, to);
                }
                let next = if columns.end < right { b.bytes_from(columns.end) } else { &[] };
                let bytes = next.len().min(group * b.panel_bytes());
                (own, Later { from: next.as_ptr(), bytes })
            }
        }
    }
}

impl Gemm<'_> {
    /// As [`Gemm::run_blocks`]. All rows of the tile are packed in bf16 first; then they are
    /// multiplied by one group of panels after the other.
    pub(crate) fn run_amx_blocks(&self, tile: Tile, mut panels: Panels<'_>, c: SharedTarget) {
        let Span { start: left, end: right } = tile.columns;
        let (absorbed, rest) = RegisterPostOps::of(self.post_ops);
        let panel = WIDTH * self.precision.rows(self.k);
        let group = amx_group(panel);
        let blocks: Vec<TileBlock>;
        let (packed, image);
        match self.a {
            Lhs::Im2col(windows) | Lhs::Bf16(&Lhs::Im2col(windows))
                if windows::suits(windows, self.per_count()) =>
            {
                image = Bf16Lines::new((windows, self.per_count()), tile.rows);
                blocks = image.blocks().collect();
            }
            _ => {
                packed = PackedA::new(self, tile.rows);
                blocks = packed.blocks().collect();
            }
        }
        let mut configured = TileConfig::default();
        let mut sums = Sums([0.0; ROWS * WIDTH]);
        for first in (left..right).step_by(group * WIDTH) {
            let end = right.min(first + group * WIDTH);
            let (own, mut next) = panels.group(tile, first..end, self.precision, panel);
            for block in &blocks {
                // SAFETY: `isa` says that there are tiles.
                unsafe { configured.prepare(block) };
                for (i, column) in (first..end).step_by(WIDTH).enumerate() {
                    let panel = own[i * panel..][..panel].as_ptr().cast();
                    let ahead = next.part(block.runs * block.run_steps, panel);
                    // SAFETY: the tiles are as large as the block; the panel is as long as `k`.
                    unsafe { multiply(block, panel, ahead, &mut sums.0) };
                    let size = (self.c_stride, WIDTH.min(end - column));
                    // SAFETY: `check` has shown that rows and columns lie within C.
                    let out = |row: usize| unsafe {
                        c.block(row * self.c_stride + column, size, absorbed.at(row, column))
                    };
                    // SAFETY: as above; tiles of C are disjoint.
                    unsafe { write_block(&sums, out, block) };
                }
                let rows = block.row..block.row + block.rows.count();
                if let Some(c) = c.values() {
                    // SAFETY: within C and within this tile.
                    unsafe { finish(rest, rows, first..end, self.c_stride, c) };
                }
            }
        }
    }
}

/// Applies the post-ops to the sums of a block and writes them.
///
/// # Safety
/// As [`store_rows`].
unsafe fn write_block(Sums(sums): &Sums, out: impl Fn(usize) -> Out, block: &TileBlock) {
    let TileBlock { row, rows: TilePair { first, second }, .. } = *block;
    debug_assert!(first <= TILE_ROWS && second <= TILE_ROWS);
    // SAFETY: the caller's promise; `isa` says that there are tiles, and so AVX512-BF16.
    unsafe {
        if first == TILE_ROWS || second == 0 {
            return write_rows(sums.as_ptr(), &out(row), first + second);
        }
        write_rows(sums.as_ptr(), &out(row), first);
        write_rows(sums[TILE_ROWS * WIDTH..].as_ptr(), &out(row + first), second);
    }
}

/// # Safety
/// As [`store_rows`]; AVX512-BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn write_rows(sums: *const f32, out: &Out, rows: usize) {
    debug_assert!(has_dp_bf16() && rows <= ROWS && out.columns <= WIDTH);
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Native16, 2>(sums, out, rows) }
}
