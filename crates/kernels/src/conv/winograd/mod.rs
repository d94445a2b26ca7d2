//! Winograd's F(2×2, 3×3) in f32: 3×3 convolutions with fewer multiplications, after Lavin and Gray
//! ("Fast Algorithms for Convolutional Neural Networks", 2015).
//!
//! Each tile of 4×4 inputs gives 2×2 outputs. Tiles and filters are transformed to sixteen elements
//! each. For each element the channels are multiplied by a GEMM, and the sixteen results are
//! transformed to the outputs: 16 multiplications in place of 36. The transforms only add and
//! halve, in one order, so the bits depend neither on the machine nor on the threads.
//!
//! With a third axis (depth), the GEMM's k also runs over the planes under an output: a row of the
//! matrix holds the channels of a tile in each of these planes.
//!
//! Infinities and NaN spread over the whole tile, beyond the outputs that read them. So [`run`]
//! returns whether all outputs are finite; if not, the convolution is computed directly.

use crate::base::aligned_buf::AlignedBuf;
use crate::base::par::Slice;
use crate::base::workers::{Packer, Workers};
use crate::conv::problem::Convolution;
use crate::conv::tuning::{
    WINOGRAD_CACHE, WINOGRAD_FEW_CHANNELS, WINOGRAD_FEW_TILES, WINOGRAD_MIN_TILES,
};
use crate::gemm::{Gemm, Lhs, PostOp, Precision, Rhs, Window, finish, panels_len};
use crate::multiversion;
use std::ops::{Add, Range, Sub};
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of a tile along each axis.
pub(crate) const TILE: usize = 4;

/// Elements of a tile.
pub(crate) const TILE_ELEMENTS: usize = TILE * TILE;

/// Outputs of a tile along each axis.
pub(crate) const OUT: usize = 2;

/// Channels that are transformed at a time. Numbers of channels are multiples of it.
pub(crate) const LANES: usize = 16;

/// Whether it pays for a convolution. Depends on sizes alone, since it decides the bits.
pub(super) fn suits(conv: &Convolution) -> bool {
    let many =
        |channels: usize| channels >= WINOGRAD_FEW_CHANNELS && channels.is_multiple_of(LANES);
    is_three_by_three(conv)
        && conv.groups == 1
        && conv.precision == Precision::F32
        && many(conv.inputs)
        && many(conv.outputs)
        && tiles(conv) >= WINOGRAD_FEW_TILES
        && !planes(conv).is_empty()
}

/// Whether the kernel is 3×3 within a plane, with stride 1 and no dilation.
pub(crate) fn is_three_by_three(conv: &Convolution) -> bool {
    let [_, height, width] = conv.axes;
    [height, width].iter().all(|a| a.taps == 3 && a.stride == 1 && a.dilation == 1)
}

/// Tiles of an image.
pub(crate) fn tiles(conv: &Convolution) -> usize {
    let [depth, height, width] = conv.axes;
    depth.output * height.output.div_ceil(OUT) * width.output.div_ceil(OUT)
}

/// Taps along the depth, except those that read only padding.
fn planes(conv: &Convolution) -> Range<usize> {
    let [depth, ..] = conv.axes;
    let last = depth.output.saturating_sub(1).saturating_mul(depth.stride);
    let reaches = |tap: &usize| {
        let first = tap.saturating_mul(depth.dilation).saturating_add_signed(depth.start.max(0));
        let before = depth.start.min(0).unsigned_abs();
        first < depth.input.saturating_add(before) && last.saturating_add(first) >= before
    };
    let first = (0..depth.taps).find(reaches).unwrap_or(0);
    let count = (first..depth.taps).take_while(reaches).count();
    first..first + count
}

/// Taps of a filter, within a plane.
pub(crate) const TAPS: usize = 9;

/// Output channels that are transformed at a time when filters are packed. It divides [`LANES`] and
/// the width of every panel.
const HALF: usize = LANES / 2;

/// Elements of transformed filters.
pub(super) fn packed_len(conv: &Convolution) -> usize {
    let k = planes(conv).len() * conv.inputs;
    TILE_ELEMENTS * panels_len(k, conv.outputs, Precision::F32)
}

/// What a thread works on at a time.
struct Workspace {
    /// Elements of a tile and its sums.
    tile_len: usize,
    /// Number of tiles.
    tiles: usize,
}

fn workspace(conv: &Convolution, threads: usize) -> Workspace {
    let tiles = conv.batch * tiles(conv);
    let tile_len = TILE_ELEMENTS * (planes(conv).len() * conv.inputs + conv.outputs);
    let most = (WINOGRAD_CACHE / (tile_len * size_of::<f32>())).max(WINOGRAD_MIN_TILES);
    let parts = tiles.div_ceil(most).next_multiple_of(threads);
    Workspace { tile_len, tiles: tiles.div_ceil(parts) }
}

/// Elements of scratch memory for this many threads.
pub(super) fn scratch_len(conv: &Convolution, threads: usize) -> usize {
    let Workspace { tile_len, tiles } = workspace(conv, threads);
    tile_len * tiles * threads + conv.inputs
}

/// Transforms filters, given by output channel, then input channel, then tap, to a packed matrix
/// for each element of a tile, one after the other.
///
/// # Panics
/// When there are too few.
pub(super) fn pack_filters(
    conv: &Convolution,
    Packer { threads, arena }: Packer<'_>,
    filters: &[f32],
) -> AlignedBuf {
    let (inputs, outputs, planes) = (conv.inputs, conv.outputs, planes(conv));
    let (depth, k) = (conv.axes[0].taps, planes.len() * inputs);
    let width = panels_len(1, 1, Precision::F32);
    let step = panels_len(k, outputs, Precision::F32);
    let mut lines = arena.alloc(packed_len(conv) * size_of::<f32>());
    let shared = Slice::new(lines.elements_mut::<f32>());
    threads.par_ranges(outputs / HALF, 1, |groups| {
        for first in groups.map(|group| group * HALF) {
            let each = inputs * depth;
            let own = &filters[first * each * TAPS..][..HALF * each * TAPS];
            let panel = first / width * width * k + first % width;
            for p in 0..k {
                let at = p % inputs * depth + planes.start + p / inputs;
                for (element, values) in transform_filter(own, at, each).iter().enumerate() {
                    let at = element * step + panel + p * width;
                    // SAFETY: within the element's matrix, in which each group of output channels
                    // has its own columns.
                    let to = unsafe { shared.part(at, HALF) };
                    to.copy_from_slice(values);
                }
            }
        }
    });
    lines
}

multiversion! {
    /// `G g Gᵀ` for the filters of [`HALF`] output channels, for plane `k` of `each`: sixteen
    /// elements.
    fn transform_filter(own: &[f32], k: usize, each: usize) -> [[f32; HALF]; TILE_ELEMENTS] {
        let mut taps = [[[0f32; HALF]; 3]; 3];
        for l in 0..HALF {
            let filter = &own[(l * each + k) * TAPS..][..TAPS];
            for t in 0..TAPS {
                taps[t % 3][t / 3][l] = filter[t];
            }
        }
        let [first, second, third] = taps;
        let columns = [filter_line(first), filter_line(second), filter_line(third)];
        let mut elements = [[0f32; HALF]; TILE_ELEMENTS];
        for r in 0..TILE {
            let line = filter_line([columns[0][r], columns[1][r], columns[2][r]]);
            for s in 0..TILE {
                elements[r * TILE + s] = line[s];
            }
        }
        elements
    }
}

/// `G g` for a column or row of a filter.
#[inline(always)]
fn filter_line(g: [[f32; HALF]; 3]) -> [[f32; HALF]; TILE] {
    let mut line = [g[0], g[0], g[0], g[2]];
    for l in 0..HALF {
        let (outer, inner) = (0.5 * (g[0][l] + g[2][l]), 0.5 * g[1][l]);
        line[1][l] = outer + inner;
        line[2][l] = outer - inner;
    }
    line
}

/// Convolves an NHWC `input`, and returns whether all outputs were finite before the post-ops. They
/// are written in any case.
///
/// # Panics
/// When a slice does not have the size of the convolution.
pub(super) fn run(
    conv: &Convolution,
    Workers { threads, scratch }: Workers<'_>,
    (input, filters): (&[f32], &[f32]),
    post_ops: &[PostOp<'_>],
    output: &mut [f32],
) -> bool {
    assert_eq!(input.len(), conv.batch * conv.inside() * conv.inputs);
    assert_eq!(output.len(), conv.batch * conv.positions() * conv.outputs);
    let [_, height, width] = conv.axes;
    let (down, across) = (height.output.div_ceil(OUT), width.output.div_ceil(OUT));
    let tiles = conv.batch * tiles(conv);
    let planes = planes(conv);
    let k = planes.len() * conv.inputs;
    let Workspace { tile_len, tiles: most } = workspace(conv, threads.count());
    let mut spaces = scratch.take::<f32>(tile_len * most * threads.count());
    let mut zeros = scratch.take::<f32>(conv.inputs);
    zeros.fill(0.0);
    let (spaces, output) = (Slice::new(&mut spaces), Slice::new(output));
    let work = Work { conv, planes, down, across, input, filters, zeros: &zeros, post_ops, output };
    let is_finite = AtomicBool::new(true);
    threads.run(tiles.div_ceil(most), &|part, worker| {
        let range = part * most..tiles.min((part + 1) * most);
        let len = range.len() * TILE_ELEMENTS;
        // SAFETY: no two threads are the same worker at a time.
        let space = unsafe { spaces.part(worker * tile_len * most, tile_len * range.len()) };
        let (elements, products) = space.split_at_mut(len * k);
        work.read(range.clone(), elements);
        work.multiply(range.len(), elements, products);
        if !work.write(range, products) {
            is_finite.store(false, Ordering::Relaxed);
        }
    });
    is_finite.into_inner()
}

/// A convolution that is running.
struct Work<'a> {
    conv: &'a Convolution,
    /// Taps along the depth that read the input.
    planes: Range<usize>,
    /// Tiles along the two axes.
    down: usize,
    across: usize,
    input: &'a [f32],
    filters: &'a [f32],
    /// A zero for each input channel.
    zeros: &'a [f32],
    post_ops: &'a [PostOp<'a>],
    output: Slice<f32>,
}

/// Where a tile is.
struct TilePosition {
    /// The plane, counted over the whole batch.
    plane: usize,
    /// Tiles above it in the plane.
    y: usize,
    /// Tiles before it in its line.
    x: usize,
}

impl Work<'_> {
    /// Elements along k of the GEMMs.
    fn k(&self) -> usize {
        self.planes.len() * self.conv.inputs
    }

    /// Where tile number `tile` is.
    fn locate(&self, tile: usize) -> TilePosition {
        let (line, x) = (tile / self.across, tile % self.across);
        TilePosition { plane: line / self.down, y: line % self.down, x }
    }

    /// Transforms some tiles: a matrix for each element, with a row for each tile.
    fn read(&self, tiles: Range<usize>, elements: &mut [f32]) {
        let (channels, k) = (self.conv.inputs, self.k());
        let [depth, height, width] = self.conv.axes;
        let step = tiles.len() * k;
        let within = |axis: &Window, offset: usize| {
            offset.checked_add_signed(axis.start).filter(|at| *at < axis.input)
        };
        for (i, tile) in tiles.enumerate() {
            let TilePosition { plane, y, x } = self.locate(tile);
            let (batch, z) = (plane / depth.output, plane % depth.output);
            for (t, tap) in self.planes.clone().enumerate() {
                let mut positions = [self.zeros; TILE_ELEMENTS];
                if let Some(z) = within(&depth, z * depth.stride + tap * depth.dilation) {
                    let lines = (batch * depth.input + z) * height.input;
                    for (p, values) in positions.iter_mut().enumerate() {
                        let y = within(&height, OUT * y + p / TILE);
                        let x = within(&width, OUT * x + p % TILE);
                        if let (Some(y), Some(x)) = (y, x) {
                            let position = (lines + y) * width.input + x;
                            *values = &self.input[position * channels..][..channels];
                        }
                    }
                }
                let to = &mut elements[i * k + t * channels..];
                transform_input(&positions, channels, to, step);
            }
        }
    }

    /// Multiplies the channels of each element by the filters.
    fn multiply(&self, m: usize, elements: &[f32], products: &mut [f32]) {
        let (k, n) = (self.k(), self.conv.outputs);
        let step = panels_len(k, n, Precision::F32);
        for element in 0..TILE_ELEMENTS {
            let gemm = Gemm {
                m,
                n,
                k,
                a: Lhs::Rows { values: &elements[element * m * k..][..m * k], stride: k },
                // The panels of the next element follow, so they are prefetched in time.
                b: Rhs::Panels(&self.filters[element * step..]),
                c_stride: n,
                precision: Precision::F32,
                post_ops: &[],
            };
            gemm.run_alone(&mut [], &mut products[element * m * n..][..m * n]);
        }
    }

    /// Writes the outputs of some tiles and applies the post-ops; returns whether all were finite.
    fn write(&self, tiles: Range<usize>, products: &[f32]) -> bool {
        let channels = self.conv.outputs;
        let [_, height, width] = self.conv.axes;
        let (first, step) = (tiles.start, tiles.len() * channels);
        let mut is_finite = true;
        let mut tile = first;
        while tile < tiles.end {
            let TilePosition { plane, y, x } = self.locate(tile);
            // The tiles in one line.
            let count = (self.across - x).min(tiles.end - tile);
            let columns = OUT * x..width.output.min(OUT * (x + count));
            let rows = [0, 1].map(|side| {
                let row = (plane * height.output + OUT * y + side) * width.output;
                let columns = if OUT * y + side < height.output { columns.clone() } else { 0..0 };
                row + columns.start..row + columns.end
            });
            // SAFETY: the positions are within the output, and belong to these tiles alone.
            let mut lines = rows.clone().map(|rows| unsafe {
                self.output.part(rows.start * channels, rows.len() * channels)
            });
            for i in 0..count {
                let own = &products[(tile - first + i) * channels..];
                let at = OUT * i * channels;
                let mut to = lines.each_mut().map(|line| line.get_mut(at..).unwrap_or_default());
                is_finite &= transform_products(own, step, channels, &mut to);
            }
            for rows in rows {
                // SAFETY: as above.
                unsafe { finish(self.post_ops, rows, 0..channels, channels, self.output) };
            }
            tile += count;
        }
        is_finite
    }
}

/// An element of a transformed tile.
pub(crate) trait Term: Copy + Default + Add<Output = Self> + Sub<Output = Self> {
    /// An element before the transform.
    type Given: Copy + Into<Self>;
}

impl Term for f32 {
    type Given = f32;
}

/// u8 inputs become i16, which holds the sum of four of them.
impl Term for i16 {
    type Given = u8;
}

multiversion! {
    wide if size_of::<T>() == size_of::<f32>();
    /// `Bᵀ d B` for the positions of a tile, of at least [`LANES`] channels; element `p` is written
    /// at `p * step`. The last lanes overlap those before them.
    pub(crate) fn transform_input<T: Term>(
        positions: &[&[T::Given]; TILE_ELEMENTS],
        channels: usize,
        to: &mut [T],
        step: usize,
    ) {
        for c in (0..channels).step_by(LANES).map(|c| c.min(channels - LANES)) {
            let mut columns = [[[T::default(); LANES]; TILE]; TILE];
            for s in 0..TILE {
                let mut d = [[T::default(); LANES]; TILE];
                for r in 0..TILE {
                    let given = &positions[r * TILE + s][c..][..LANES];
                    for l in 0..LANES {
                        d[r][l] = given[l].into();
                    }
                }
                columns[s] = input_line(&d);
            }
            for r in 0..TILE {
                let line = input_line(&[columns[0][r], columns[1][r], columns[2][r], columns[3][r]]);
                for s in 0..TILE {
                    to[(r * TILE + s) * step + c..][..LANES].copy_from_slice(&line[s]);
                }
            }
        }
    }
}

/// `Bᵀ d` for a column or row of a tile.
#[inline(always)]
fn input_line<T: Term>(d: &[[T; LANES]; TILE]) -> [[T; LANES]; TILE] {
    let mut line = [[T::default(); LANES]; TILE];
    for l in 0..LANES {
        line[0][l] = d[0][l] - d[2][l];
        line[1][l] = d[1][l] + d[2][l];
        line[2][l] = d[2][l] - d[1][l];
        line[3][l] = d[1][l] - d[3][l];
    }
    line
}

multiversion! {
    /// `Aᵀ m A` for the sums of a tile, with element `p` at `p * step`. Writes the outputs that
    /// exist at the beginning of `to`; returns whether all were finite.
    fn transform_products(
        products: &[f32],
        step: usize,
        channels: usize,
        to: &mut [&mut [f32]; OUT],
    ) -> bool {
        let mut zeros = [0f32; LANES];
        for c in (0..channels).step_by(LANES) {
            let mut columns = [[[0f32; LANES]; OUT]; TILE];
            for s in 0..TILE {
                let mut m = [[0f32; LANES]; TILE];
                for r in 0..TILE {
                    m[r].copy_from_slice(&products[(r * TILE + s) * step + c..][..LANES]);
                }
                columns[s] = product_line(&m);
            }
            for r in 0..OUT {
                let line = product_line(&[columns[0][r], columns[1][r], columns[2][r], columns[3][r]]);
                for x in 0..OUT {
                    for l in 0..LANES {
                        // Stays 0 while the outputs are finite.
                        zeros[l] += 0.0 * line[x][l];
                    }
                    let to = to[r].get_mut(x * channels + c..).unwrap_or_default();
                    if let Some(to) = to.first_chunk_mut() {
                        *to = line[x];
                    }
                }
            }
        }
        zeros.iter().all(|z| *z == 0.0)
    }
}

/// `Aᵀ m` for a column or row of a tile.
#[inline(always)]
fn product_line(m: &[[f32; LANES]; TILE]) -> [[f32; LANES]; OUT] {
    let mut line = [[0f32; LANES]; OUT];
    for l in 0..LANES {
        line[0][l] = m[0][l] + m[1][l] + m[2][l];
        line[1][l] = m[1][l] - m[2][l] - m[3][l];
    }
    line
}
