//! 3×3 convolutions by Winograd's F(2×2, 3×3) in i16, for CPUs without dot products of bytes. The
//! f32 version is [`conv::winograd`](crate::conv). The filter transform is scaled by four, which
//! keeps it in integers: sums are exactly four times those of the convolution.

use super::input::{Image, WindowLayout, padded_channels};
use super::kernel::i16::{multiply_i16, pair_offset};
use super::kernel::rows::TileRows;
use super::pack::{PackedFilters, compensation};
use super::params::QuantParams;
use super::requantize::{Requantizer, Values};
use super::tile::{MAX_TERMS, TILE_ROWS, WIDTH, has_dot4};
use crate::base::par::Slice;
use crate::base::workers::{Packer, Workers};
use crate::conv::Convolution;
use crate::conv::winograd::{self, OUT, TAPS, TILE, TILE_ELEMENTS, is_three_by_three, tiles};
use crate::multiversion;
use crate::quantized::tuning::{
    WINOGRAD_CACHE, WINOGRAD_FEW_FILTERS, WINOGRAD_FEW_TILES, WINOGRAD_MIN_TILES,
};
use std::ops::Range;

/// Columns of a panel that are transformed at a time.
const LANES: usize = 8;

/// log2 of the scale of the sums.
const SCALE_LOG2: u32 = 2;

/// Whether it pays for a convolution on this CPU; the sums are the same. Four times the largest sum
/// must fit 32 bits.
pub(super) fn pays(conv: &Convolution) -> bool {
    !has_dot4()
        && is_three_by_three(conv)
        && conv.inputs >= winograd::LANES
        && conv.inputs == padded_channels(conv)
        && conv.inputs.saturating_mul(conv.outputs) >= WINOGRAD_FEW_FILTERS
        && TAPS * conv.inputs <= MAX_TERMS >> SCALE_LOG2
        && tiles(conv) >= WINOGRAD_FEW_TILES
}

/// Packs filters for [`run`], given by output channel, then input channel, then tap.
pub(super) fn pack_filters(
    conv: &Convolution,
    params: QuantParams,
    Packer { threads, arena }: Packer<'_>,
    filters: &[i8],
) -> PackedFilters {
    let (k, panel) = (TAPS * conv.inputs, panel_pairs(conv));
    assert!(filters.len() >= conv.outputs * k, "there are too few filters");
    let filters = &filters[..conv.outputs * k];
    let bytes = panel * size_of::<u32>();
    let mut values = arena.alloc(packed_bytes(conv));
    threads.par_chunks_mut(values.elements_mut::<u32>(), panel, 1 << 12, |first, panels| {
        let own = filters.chunks(WIDTH * k).skip(first);
        for (panel, filters) in panels.chunks_exact_mut(panel).zip(own) {
            pack_weights(conv, filters, panel);
        }
    });
    PackedFilters::of_panels(values, bytes, compensation(filters, k, params))
}

/// Bytes of packed filters.
pub(super) fn packed_bytes(conv: &Convolution) -> usize {
    panel_pairs(conv) * size_of::<u32>() * conv.outputs.div_ceil(WIDTH)
}

/// Elements of a transformed tile, elements of its sums, and tiles that a thread works on at a
/// time.
fn workspace(conv: &Convolution, threads: usize) -> (usize, usize, usize) {
    let tiles = conv.batch * tiles(conv);
    let (each, sums) = (TILE_ELEMENTS * conv.inputs, TILE_ELEMENTS * WIDTH);
    let most = (WINOGRAD_CACHE / (each * size_of::<i16>())).max(WINOGRAD_MIN_TILES);
    let parts = tiles.div_ceil(most).next_multiple_of(threads);
    (each, sums, tiles.div_ceil(parts))
}

/// Bytes of scratch memory for this many threads.
pub(super) fn scratch_bytes(conv: &Convolution, threads: usize) -> usize {
    let (each, sums, most) = workspace(conv, threads);
    (each * size_of::<i16>() + sums * size_of::<i32>()) * most * threads
}

/// Pairs of i16 in a panel, one element of the tile after the other.
fn panel_pairs(conv: &Convolution) -> usize {
    TILE_ELEMENTS * element_pairs(conv)
}

/// Pairs of i16 in the part of a panel for one element of a tile.
fn element_pairs(conv: &Convolution) -> usize {
    conv.inputs / 2 * WIDTH
}

/// Transforms the filters of a panel, at most [`WIDTH`]: for each element of a tile, i16 pairs as
/// [`multiply_i16`] reads them.
fn pack_weights(conv: &Convolution, filters: &[i8], panel: &mut [u32]) {
    let each = conv.inputs * TAPS;
    for pair in 0..conv.inputs / 2 {
        let transformed = [2 * pair, 2 * pair + 1].map(|channel| {
            let mut taps = [[0; WIDTH]; TAPS];
            for (column, filter) in filters.chunks_exact(each).enumerate() {
                for (tap, value) in taps.iter_mut().zip(&filter[channel * TAPS..]) {
                    tap[column] = i16::from(*value);
                }
            }
            transform_filter(&taps)
        });
        for element in 0..TILE_ELEMENTS {
            let to = &mut panel[element * element_pairs(conv)..][..element_pairs(conv)];
            for j in 0..WIDTH {
                let [low, high] =
                    [0, 1].map(|half| u32::from(transformed[half][element][j] as u16));
                to[pair_offset(conv.inputs / 2, pair, j)] = low | high << 16;
            }
        }
    }
}

multiversion! {
    wide if false;
    /// `2G g 2Gᵀ` for the filters of a panel.
    fn transform_filter(taps: &[[i16; WIDTH]; TAPS]) -> [[i16; WIDTH]; TILE_ELEMENTS] {
        let mut lines = [[[0; WIDTH]; 3]; TILE];
        for t in 0..3 {
            let line = filter_line([&taps[3 * t], &taps[3 * t + 1], &taps[3 * t + 2]]);
            for s in 0..TILE {
                lines[s][t] = line[s];
            }
        }
        let mut elements = [[0; WIDTH]; TILE_ELEMENTS];
        for s in 0..TILE {
            let column = filter_line([&lines[s][0], &lines[s][1], &lines[s][2]]);
            for r in 0..TILE {
                elements[r * TILE + s] = column[r];
            }
        }
        elements
    }
}

/// `2G g` for a row or column of the filters.
#[inline(always)]
fn filter_line(g: [&[i16; WIDTH]; 3]) -> [[i16; WIDTH]; TILE] {
    let mut line = [[0; WIDTH]; TILE];
    for l in 0..WIDTH {
        let outer = g[0][l] + g[2][l];
        line[0][l] = 2 * g[0][l];
        line[1][l] = outer + g[1][l];
        line[2][l] = outer - g[1][l];
        line[3][l] = 2 * g[2][l];
    }
    line
}

/// Runs a convolution that [`pays`], panel by panel. `requantizer` makes the requantizer of a
/// panel.
pub(super) fn run<'a>(
    conv: &Convolution,
    Workers { threads, scratch }: Workers<'_>,
    (image, filters): (&Image<'_>, &PackedFilters),
    requantizer: impl Fn(usize) -> Requantizer<'a> + Sync,
) {
    let work = Work { conv, image, filters };
    let tiles = conv.batch * tiles(conv);
    let (each, sums_each, most) = workspace(conv, threads.count());
    let mut transformed = scratch.take::<i16>(each * most * threads.count());
    let mut sums = scratch.take::<i32>(sums_each * most * threads.count());
    let (transformed, sums) = (Slice::new(&mut transformed), Slice::new(&mut sums));
    threads.run(tiles.div_ceil(most), &|part, worker| {
        let range = part * most..tiles.min((part + 1) * most);
        let (count, first) = (range.len(), worker * most);
        // SAFETY: no two threads are the same worker at a time.
        let (transformed, sums) = unsafe {
            let transformed = transformed.part(first * each, count * each);
            (transformed, sums.part(first * sums_each, count * sums_each))
        };
        work.read(range.clone(), transformed);
        for panel in 0..filters.count() {
            work.multiply(panel, count, transformed, sums);
            // SAFETY: tiles are disjoint parts of the output.
            unsafe { work.write(range.clone(), sums, &requantizer(panel)) };
        }
    });
}

/// A convolution that is running.
struct Work<'a> {
    conv: &'a Convolution,
    image: &'a Image<'a>,
    filters: &'a PackedFilters,
}

impl Work<'_> {
    /// The line of a tile, counted over the whole batch, and its position in the line.
    fn locate(&self, tile: usize) -> (usize, usize) {
        let across = self.conv.axes[2].output.div_ceil(OUT);
        (tile / across, tile % across)
    }

    /// The image of a line of tiles, and its index in the image.
    fn line(&self, line: usize) -> (usize, usize) {
        let down = self.conv.axes[1].output.div_ceil(OUT);
        (line / down, line % down)
    }

    /// Transforms some tiles: a matrix for each element of a tile, with a row for each tile.
    fn read(&self, tiles: Range<usize>, transformed: &mut [i16]) {
        let channels = self.conv.inputs;
        let step = tiles.len() * channels;
        for (i, tile) in tiles.enumerate() {
            let (line, x) = self.locate(tile);
            let (batch, y) = self.line(line);
            let positions = std::array::from_fn(|p| {
                self.image.position(batch, OUT * y + p / TILE, OUT * x + p % TILE)
            });
            winograd::transform_input(&positions, channels, &mut transformed[i * channels..], step);
        }
    }

    /// Multiplies the channels of each element of the tiles by a panel.
    fn multiply(&self, panel: usize, count: usize, transformed: &[i16], sums: &mut [i32]) {
        let columns = WIDTH.min(self.conv.outputs - panel * WIDTH);
        let own = self.filters.i16_pairs(panel).chunks_exact(element_pairs(self.conv));
        let rows = transformed.chunks_exact(count * self.conv.inputs);
        let k = self.conv.inputs;
        let layout = WindowLayout::dense(k, (k, 1), (0, 1));
        for ((own, elements), sums) in own.zip(rows).zip(sums.chunks_exact_mut(count * WIDTH)) {
            multiply_i16(&TileRows { elements, rows: count, layout }, (own, columns), sums);
        }
    }

    /// Writes the outputs of some tiles.
    ///
    /// # Safety
    /// No other task uses these columns of the outputs.
    unsafe fn write(&self, tiles: Range<usize>, sums: &[i32], requantizer: &Requantizer<'_>) {
        let [_, height, width] = self.conv.axes;
        let step = tiles.len() * WIDTH;
        debug_assert!(sums.len() >= TILE_ELEMENTS * step);
        let (mut tile, mut values) = (tiles.start, Values::default());
        let mut outputs = [[[0; WIDTH]; TILE_ROWS]; OUT];
        while tile < tiles.end {
            let (line, x) = self.locate(tile);
            let (batch, y) = self.line(line);
            // Neighbouring tiles of a line: their outputs are requantized together.
            let left = (width.output.div_ceil(OUT) - x).min(tiles.end - tile);
            let count = left.min(TILE_ROWS / OUT);
            for i in 0..count {
                let own = &sums[(tile - tiles.start + i) * WIDTH..];
                let [above, below] = transform_sums(own, step);
                outputs[0][OUT * i..][..OUT].copy_from_slice(&above);
                outputs[1][OUT * i..][..OUT].copy_from_slice(&below);
            }
            let columns = OUT * x..width.output.min(OUT * (x + count));
            for (side, outputs) in outputs.iter().enumerate() {
                let y = OUT * y + side;
                if y < height.output {
                    let row = (batch * height.output + y) * width.output + columns.start;
                    // SAFETY: these are within the output; the caller's promise.
                    unsafe { requantizer.write(&outputs[..columns.len()], row, &mut values) };
                }
            }
            tile += count;
        }
    }
}

multiversion! {
    wide if false;
    /// A quarter of `Aᵀ m A` for the sums of a tile: 2×2 outputs. Element `p` is at `p * step`.
    fn transform_sums(sums: &[i32], step: usize) -> [[[i32; WIDTH]; OUT]; OUT] {
        let mut outputs = [[[0; WIDTH]; OUT]; OUT];
        for c in (0..WIDTH).step_by(LANES) {
            let mut lines = [[[0; LANES]; OUT]; TILE];
            for r in 0..TILE {
                let m: [[i32; LANES]; TILE] = std::array::from_fn(|s| {
                    let mut m = [0; LANES];
                    m.copy_from_slice(&sums[(r * TILE + s) * step + c..][..LANES]);
                    m
                });
                lines[r] = sum_line([&m[0], &m[1], &m[2], &m[3]]);
            }
            for x in 0..OUT {
                let column = sum_line([&lines[0][x], &lines[1][x], &lines[2][x], &lines[3][x]]);
                for y in 0..OUT {
                    for l in 0..LANES {
                        outputs[y][x][c + l] = column[y][l] >> SCALE_LOG2;
                    }
                }
            }
        }
        outputs
    }
}

/// `Aᵀ m` for a row or column of the sums. Intermediate sums may wrap; the result fits.
#[inline(always)]
fn sum_line(m: [&[i32; LANES]; TILE]) -> [[i32; LANES]; OUT] {
    let mut line = [[0; LANES]; OUT];
    for l in 0..LANES {
        line[0][l] = m[0][l].wrapping_add(m[1][l]).wrapping_add(m[2][l]);
        line[1][l] = m[1][l].wrapping_sub(m[2][l]).wrapping_sub(m[3][l]);
    }
    line
}
