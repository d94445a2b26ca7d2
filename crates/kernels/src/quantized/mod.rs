//! Convolutions and products of quantised operands, in integers: bytes without a sign, that stand for
//! the levels of the data, and filters of bytes with one. Sums are exact, so that their order does not
//! matter; each is rounded once, to f32, and once more when it is multiplied by the scale of its
//! channel.

mod input;
mod kernel;
mod pack;
mod requantize;
mod winograd;

pub use input::{Data, QuantParams};
pub use pack::PackedFilters;

use crate::base::aligned_buf::WeightArena;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
use crate::conv::Convolution;
use crate::gemm::{Step, Window};
use crate::math::quantize::Output;
use input::{Image, Part, Rows};
use kernel::{Microkernel, Sums, WIDTH};
use requantize::{Columns, Requantizer, To};

/// Terms of a sum, at most: it fits 32 bits.
const TERMS: usize = 1 << 16;

/// A convolution of data that have levels by filters that are integers.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedConvolution {
    conv: Convolution,
    levels: QuantParams,
    /// Whether [`winograd`] computes the sums.
    is_winograd: bool,
}

/// The operands of a [`QuantizedConvolution`] convolution.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The data.
    pub data: Data<'a>,
    /// The filters.
    pub filters: &'a PackedFilters,
    /// For each output channel what a sum is multiplied by.
    pub scales: &'a [f32],
}

impl QuantizedConvolution {
    /// The convolution in integers of data that have levels; none where its taps do not lie side by side along the last axis,
    /// in groups, over three axes, with sums that may not fit, or with far more padding than data.
    pub fn new(conv: &Convolution, levels: QuantParams) -> Option<QuantizedConvolution> {
        let conv = Convolution { axes: flattened(conv), ..conv.clone() };
        let [depth, _, width] = conv.axes;
        let is_plain = depth == Window::NONE && conv.groups == 1 && width.dilation == 1;
        let terms = conv.taps().checked_mul(conv.inputs)?;
        let is_empty = conv.batch * conv.positions() * conv.outputs * terms == 0;
        let fits = is_plain && !is_empty && terms <= TERMS && input::fits(&conv);
        fits.then(|| QuantizedConvolution { is_winograd: winograd::pays(&conv), conv, levels })
    }

    /// Lays out filters, given for each output channel, for each input channel, tap by tap, and
    /// puts them on a arena.
    ///
    /// # Panics
    /// When there are too few.
    pub fn filters(&self, to: (&Threads, &WeightArena), filters: &[i8]) -> PackedFilters {
        match self.is_winograd {
            true => PackedFilters::of_winograd(&self.conv, self.levels, to, filters),
            false => PackedFilters::new(&self.conv, self.levels, to, filters),
        }
    }

    /// Whether it is a product of the channels of each position, which may have factors.
    pub fn is_pointwise(&self) -> bool {
        self.conv.is_pointwise()
    }

    /// The levels of the data.
    pub fn levels(&self) -> QuantParams {
        self.levels
    }

    /// All that decides how filters are laid out, besides their sizes.
    pub fn form(&self) -> String {
        let of = if self.is_winograd { "patches" } else { "windows" };
        format!("integers {:?} {} {of}", self.conv.axes.map(|a| a.taps), self.levels.zero())
    }

    /// Operations, those over the padding included.
    pub fn flops(&self) -> u64 {
        self.conv.flops()
    }

    /// Convolves into `output`, with its channels last; `steps` are applied to each element, the
    /// channels as columns.
    ///
    /// # Panics
    /// When a slice is not of the size the convolution is for.
    pub fn run(
        &self,
        (threads, scratch): (&Threads, &ScratchPool),
        operands: Operands<'_>,
        steps: &[Step<'_>],
        output: Output<'_>,
    ) {
        let conv = &self.conv;
        assert_eq!(output.len(), conv.batch * conv.positions() * conv.outputs);
        let to = match output {
            Output::F32(to) => To::F32(Slice::new(to)),
            Output::Quantized(to, levels) => To::Quantized(Slice::new(to), levels),
        };
        assert_eq!(operands.scales.len(), conv.outputs, "there is a scale for each channel");
        let mut bytes = scratch.take::<u8>(input::bytes(conv));
        let image = Image::new(conv, self.levels, threads, operands.data, &mut bytes);
        let finish = |panel: usize| self.finish(operands, panel, steps, to);
        if self.is_winograd {
            let operands = (&image, operands.filters);
            return winograd::run(conv, (threads, scratch), operands, finish);
        }
        let blocks = image.blocks();
        let parts = self.parts(blocks.count(), operands.filters, threads.count());
        threads.run(parts.0 * parts.1, &|task, _| {
            let (down, across) = (task / parts.1, task % parts.1);
            let range =
                |count: usize, parts: usize, i: usize| count * i / parts..count * (i + 1) / parts;
            let own: Vec<Rows> =
                range(blocks.count(), parts.0, down).map(|block| blocks.get(block)).collect();
            let mut unit = Microkernel::default();
            for panel in range(operands.filters.count(), parts.1, across) {
                let own = (operands.filters.panel(panel), &own[..]);
                multiply(&mut unit, &image, own, &finish(panel));
            }
        });
    }

    /// Into how many parts rows and panels are divided. Each thread reads what lies in its cache of the
    /// smaller of both, and a part of the larger.
    fn parts(&self, blocks: usize, filters: &PackedFilters, threads: usize) -> (usize, usize) {
        /// Terms that are worth a second thread.
        const GRAIN: usize = 1 << 18;
        let rows = self.conv.batch * self.conv.positions();
        let work = rows * self.conv.outputs * self.conv.taps() * self.conv.inputs;
        if threads == 1 || work <= GRAIN {
            return (1, 1);
        }
        let across = match filters.bytes() > input::bytes(&self.conv) {
            true => filters.count().min(threads),
            false => 1,
        };
        let down = (4 * threads).div_ceil(across).min(blocks);
        // Several parts even out threads of different speed where rows are many; few are divided once.
        let down = if across == threads { 1 } else { down };
        (down, across)
    }

    /// How the sums of a panel are finished.
    fn finish<'a>(
        &self,
        Operands { filters, scales, .. }: Operands<'a>,
        panel: usize,
        steps: &'a [Step<'a>],
        to: To<'a>,
    ) -> Requantizer<'a> {
        let first = panel * WIDTH;
        let count = WIDTH.min(self.conv.outputs - first);
        let scales = &scales[first..][..count];
        let columns = Columns { first, compensation: filters.compensation(panel), scales };
        let rows = self.conv.batch * self.conv.positions();
        Requantizer::new(columns, steps, to, (rows, self.conv.outputs))
    }
}

/// Multiplies blocks of rows by a panel and finishes what comes of it.
fn multiply(
    unit: &mut Microkernel,
    image: &Image<'_>,
    (panel, blocks): (&[i8], &[Rows]),
    finish: &Requantizer<'_>,
) {
    let mut sums = Sums::default();
    for block in blocks {
        unit.multiply(image, block, panel, &mut sums);
        for (tile, sums) in block.iter().zip(sums.tiles()) {
            for Part { first, row, count } in image.parts(*tile) {
                // SAFETY: rows of the output, of which no other task has these columns.
                unsafe { finish.write(&sums[first..][..count], row) };
            }
        }
    }
}

/// The axes, with positions that are taken one by one as one line.
fn flattened(conv: &Convolution) -> [Window; 3] {
    let size: usize = conv.axes.iter().map(|a| a.input).product();
    match conv.is_pointwise() {
        true => [Window::NONE, Window::NONE, Window { input: size, output: size, ..Window::NONE }],
        false => conv.axes,
    }
}

#[cfg(test)]
mod tests;
