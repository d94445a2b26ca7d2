//! A 1×1 convolution whose result only a depthwise one reads, as in an inverted bottleneck. Each
//! thread expands a line shortly before it is needed, into a ring of lines that stays in its cache;
//! the result as a whole, several times as large as the data, is never in memory.

use super::convolution::{Operands, QuantizedConvolution};
use super::depthwise::{self, Depthwise};
use super::input::{self, Data, Image};
use super::kernel::{Microkernel, Panel, Sums};
use super::output::{Columns, To};
use super::requantize::{Requantizer, Values};
use super::tile::{BLOCK_ROWS, TILE_ROWS, Tile};
use super::tuning::{EXPANDED_BYTES, EXPANDED_LINES};
use crate::base::par::{Slice, share};
use crate::base::workers::Workers;
use crate::gemm::PostOp;
use crate::math::quantize::{Output, Quantizers};
use std::ops::Range;

/// Both convolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpandedDepthwise {
    expand: QuantizedConvolution,
    depthwise: QuantizedConvolution,
}

/// The filters and scales of one of the convolutions, and what follows its sums.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// The operands. The data of the depthwise convolution are not used.
    pub operands: Operands<'a>,
    /// Applied to each element, with channels as columns. Those of the 1×1 convolution have no
    /// matrix operands.
    pub post_ops: &'a [PostOp<'a>],
}

impl ExpandedDepthwise {
    /// A 1×1 convolution, and the depthwise one of its result. `None` if they do not match, or the
    /// result is so small that it stays in the cache anyway.
    pub fn new(
        expand: &QuantizedConvolution,
        depthwise: &QuantizedConvolution,
    ) -> Option<ExpandedDepthwise> {
        let (from, to) = (expand.conv(), depthwise.conv());
        let matches = expand.is_dense()
            && expand.is_pointwise()
            && depthwise.is_depthwise()
            && from.outputs == to.inputs
            && from.batch == to.batch
            && from.positions() == to.inside();
        let is_large = to.inside() * to.inputs >= EXPANDED_BYTES;
        let pays = is_large && to.axes[1].output >= EXPANDED_LINES;
        let (expand, depthwise) = (expand.clone(), depthwise.clone());
        (matches && pays).then_some(ExpandedDepthwise { expand, depthwise })
    }

    /// The 1×1 convolution.
    pub fn expand(&self) -> &QuantizedConvolution {
        &self.expand
    }

    /// The depthwise convolution.
    pub fn depthwise(&self) -> &QuantizedConvolution {
        &self.depthwise
    }

    /// Bytes of a line of the result of the 1×1 convolution.
    fn line(&self) -> usize {
        depthwise::line_bytes(self.depthwise.conv())
    }

    /// Lines of a ring: from the first to the last that a line of the output needs.
    fn slots(&self) -> usize {
        let height = self.depthwise.conv().axes[1];
        height.span().min(height.input)
    }

    /// Bytes of the result of the 1×1 convolution.
    fn between_bytes(&self) -> usize {
        let conv = self.depthwise.conv();
        conv.batch * conv.inside() * conv.inputs
    }

    /// Bytes of scratch memory for a run on this many threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        if depthwise::interleaves_lines() {
            let image = input::bytes(self.expand.conv());
            image + self.line() + self.slots() * self.line() * threads
        } else {
            let (expand, depthwise) = (&self.expand, &self.depthwise);
            let own = expand.scratch_bytes(threads).max(depthwise.scratch_bytes(threads));
            self.between_bytes() + own
        }
    }

    /// Operations, including those on padding.
    pub fn flops(&self) -> u64 {
        self.expand.flops() + self.depthwise.flops()
    }

    /// Convolves NHWC data. `quantizers` are those between the convolutions.
    ///
    /// # Panics
    /// When a slice does not have the size of its convolution.
    pub fn run(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (expand, quantizers): (Stage<'_>, Quantizers<'_>),
        depthwise: Stage<'_>,
        output: Output<'_>,
    ) {
        if depthwise::interleaves_lines() {
            return self.by_lines(
                Workers { threads, scratch },
                (expand, quantizers),
                depthwise,
                output,
            );
        }
        // The f32 kernel of these CPUs dequantizes lines of a whole image.
        let mut between = scratch.take::<u8>(self.between_bytes());
        let to = Output::Quantized(&mut between, quantizers);
        self.expand.run(Workers { threads, scratch }, expand.operands, expand.post_ops, to);
        let operands = Operands { data: Data::Quantized(&between), ..depthwise.operands };
        self.depthwise.run(Workers { threads, scratch }, operands, depthwise.post_ops, output);
    }

    /// Convolves line by line.
    fn by_lines(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (expand, quantizers): (Stage<'_>, Quantizers<'_>),
        depthwise: Stage<'_>,
        output: Output<'_>,
    ) {
        let (conv, len) = (self.depthwise.conv(), self.line());
        assert_eq!(output.len(), conv.batch * conv.positions() * conv.outputs);
        assert_eq!(expand.operands.scales.len(), conv.inputs, "there is a scale for each channel");
        assert_eq!(depthwise.operands.scales.len(), conv.outputs);
        let mut bytes = scratch.take::<u8>(input::bytes(self.expand.conv()));
        let (from, params) = (self.expand.merged(), self.expand.params());
        let image = Image::new(from, params, threads, expand.operands.data, &mut bytes);
        let mut padding = scratch.take::<u8>(len);
        depthwise::fill_padding(self.depthwise.zero_points(), &mut padding);
        let own = self.slots() * len;
        let mut rings = scratch.take::<u8>(own * threads.count());
        let rings = Slice::new(&mut rings);
        let second = Depthwise {
            conv,
            padding: &padding,
            filters: depthwise.operands.filters,
            scales: depthwise.operands.scales,
            post_ops: depthwise.post_ops,
            output: To::of(output),
        };
        let lines = conv.batch * conv.axes[1].output;
        // Lines at the borders of parts are expanded twice, so parts must not be small.
        let parts = if threads.count() == 1 { 1 } else { (2 * threads.count()).min(lines) };
        threads.run(parts, &|task, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let ring = unsafe { rings.part(worker * own, own) };
            let ring = Ring { lines: Slice::new(ring), len, slots: self.slots() };
            let mut first = Expansion {
                image: &image,
                width: conv.axes[2].input,
                panels: self.panels(expand, To::Quantized(ring.lines, quantizers)),
                kernel: Microkernel::default(),
                sums: Sums::default(),
                values: Values::default(),
            };
            self.part(share(lines, parts, task), &ring, &mut first, second);
        });
    }

    /// The panels of the 1×1 convolution, and their requantizers to the lines of a ring.
    fn panels<'a>(&self, expand: Stage<'a>, to: To<'a>) -> Vec<(Panel<'a>, Requantizer<'a>)> {
        let (conv, Operands { filters, scales, .. }) = (self.depthwise.conv(), expand.operands);
        let size = (self.slots() * conv.axes[2].input, conv.inputs);
        let panel = |index: usize| {
            let columns = Columns::of(filters, scales, index);
            let requantizer = Requantizer::new(columns, expand.post_ops, to, size);
            (Panel { filters, index, columns: requantizer.width() }, requantizer)
        };
        (0..filters.count()).map(panel).collect()
    }

    /// Computes some lines of the output.
    fn part(
        &self,
        rows: Range<usize>,
        ring: &Ring,
        expansion: &mut Expansion<'_>,
        depthwise: Depthwise<'_>,
    ) {
        let height = self.depthwise.conv().axes[1];
        let mut part = depthwise.part(0..depthwise.filters.count());
        let mut held = (usize::MAX, 0);
        for line in rows {
            let (batch, y) = (line / height.output, line % height.output);
            let needed = height.taps_within(y);
            let position = |tap: usize| height.position(y, tap).unwrap_or_default();
            if held.0 != batch {
                held = (batch, 0);
            }
            if let Some(last) = needed.clone().next_back() {
                for y in held.1.max(position(needed.start))..=position(last) {
                    expansion.line(batch * height.input + y, ring.slot(y));
                    held.1 = y + 1;
                }
            }
            // SAFETY: nothing is written to the ring while these are read.
            part.compute(line, |y| unsafe { ring.line(y) });
        }
    }
}

/// The lines that a thread has expanded last.
struct Ring {
    lines: Slice<u8>,
    /// Bytes of a line.
    len: usize,
    slots: usize,
}

impl Ring {
    /// The slot of a line.
    fn slot(&self, line: usize) -> usize {
        line % self.slots
    }

    /// A line that has been expanded.
    ///
    /// # Safety
    /// Nobody writes to the ring while the line is in use.
    unsafe fn line<'a>(&self, line: usize) -> &'a [u8] {
        // SAFETY: slots are within the ring; the caller's promise.
        unsafe { self.lines.part(self.slot(line) * self.len, self.len) }
    }
}

/// The 1×1 convolution, line by line, and what a thread needs for it.
struct Expansion<'a> {
    image: &'a Image<'a>,
    /// Positions of a line.
    width: usize,
    panels: Vec<(Panel<'a>, Requantizer<'a>)>,
    kernel: Microkernel,
    sums: Sums,
    values: Values,
}

impl Expansion<'_> {
    /// Expands a line of the data, counted over the whole batch, into a slot of the ring.
    fn line(&mut self, line: usize, slot: usize) {
        let (first, row) = (line * self.width, slot * self.width);
        for x in (0..self.width).step_by(BLOCK_ROWS) {
            let count = |x: usize| TILE_ROWS.min(self.width.saturating_sub(x));
            let tile = self.image.run_of_windows(first + x, count(x));
            let next = match count(x + TILE_ROWS) {
                0 => Tile { count: 0, ..tile },
                count => self.image.run_of_windows(first + x + TILE_ROWS, count),
            };
            let block = [tile, next];
            for (panel, requantizer) in &self.panels {
                let mut row = row + x;
                let affine = requantizer.in_registers().filter(|_| Microkernel::requantizes());
                if let Some(affine) = affine {
                    for tile in block.into_iter().filter(|tile| tile.count > 0) {
                        // SAFETY: the rows are within the ring, which only this thread uses.
                        unsafe {
                            Microkernel::requantize(self.image, tile, *panel, affine.from(row))
                        };
                        row += tile.count;
                    }
                    continue;
                }
                self.kernel.multiply(self.image, &block, *panel, &mut self.sums);
                let tiles = block.iter().zip(self.sums.tiles()).filter(|(tile, _)| tile.count > 0);
                for (tile, sums) in tiles {
                    // SAFETY: the rows are within the ring, which only this thread uses.
                    unsafe { requantizer.write(&sums[..tile.count], row, &mut self.values) };
                    row += tile.count;
                }
            }
        }
    }
}
