//! A convolution of quantized inputs that are concatenated along channels and have parameters of
//! their own. The sums of each input are exact; they are scaled and added in f32, in the order of
//! the inputs.

use super::convolution::{Operands, QuantizedConvolution};
use super::grid::{Grid, GridSizes};
use super::input::{self, Image};
use super::kernel::{Microkernel, Panel, Sums};
use super::output::{Columns, To};
use super::requantize::{Requantizer, Values};
use super::tile::{BLOCK_ROWS, Block, OutputRun, TILE_ROWS, WIDTH, has_dot4};
use crate::base::par::Threads;
use crate::base::scratch::{Scratch, ScratchPool};
use crate::base::workers::Workers;
use crate::conv::Convolution;
use crate::gemm::PostOp;
use crate::math::quantize::Output;
use crate::multiversion;

/// A convolution of concatenated inputs, as the sum of a convolution of each.
#[derive(Clone, Debug, PartialEq)]
pub struct ConcatConvolution {
    inputs: Vec<QuantizedConvolution>,
}

impl ConcatConvolution {
    /// The sum of these convolutions, which differ only in their input channels and how those are
    /// quantized.
    ///
    /// # Panics
    /// When there is none.
    pub fn new(inputs: Vec<QuantizedConvolution>) -> ConcatConvolution {
        assert!(!inputs.is_empty() && inputs.iter().all(QuantizedConvolution::is_dense));
        ConcatConvolution { inputs }
    }

    /// Bytes of packed filters.
    pub fn packed_bytes(&self) -> usize {
        self.inputs.iter().map(QuantizedConvolution::packed_bytes).sum()
    }

    /// Bytes of scratch memory for a run.
    pub fn scratch_bytes(&self) -> usize {
        let wide = if has_dot4() { 0 } else { size_of::<i16>() };
        let bytes = |own: &QuantizedConvolution| input::bytes(own.conv()) * (1 + wide);
        self.inputs.iter().map(bytes).sum()
    }

    /// Operations, including those on padding.
    pub fn flops(&self) -> u64 {
        self.inputs.iter().map(QuantizedConvolution::flops).sum()
    }

    /// Convolves into `output`, which is NHWC. There are operands for each input. `post_ops` are
    /// applied to each element, with channels as columns.
    ///
    /// # Panics
    /// When a slice does not have the size of its convolution.
    pub fn run(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        operands: &[Operands<'_>],
        post_ops: &[PostOp<'_>],
        output: Output<'_>,
    ) {
        let conv = self.inputs[0].conv();
        let rows = conv.batch * conv.positions();
        assert_eq!(output.len(), rows * conv.outputs);
        assert_eq!(operands.len(), self.inputs.len(), "there are operands for each input");
        assert!(operands.iter().all(|own| own.scales.len() == conv.outputs));
        let to = To::of(output);
        let mut memory: Vec<_> =
            self.inputs.iter().map(|own| ImageMemory::new(own.conv(), scratch)).collect();
        let own = self.inputs.iter().zip(operands).zip(&mut memory);
        let images: Vec<Image<'_>> =
            own.map(|((own, operands), memory)| memory.image(own, threads, operands)).collect();
        let filters = operands[0].filters;
        let blocks = images[0].blocks().count();
        let multiply_adds = self.inputs.iter().map(QuantizedConvolution::multiply_adds).sum();
        let weights: usize = operands.iter().map(|own| own.filters.weights()).sum();
        let bytes: usize = self.inputs.iter().map(|own| input::bytes(own.conv())).sum();
        let (panels, columns) = (filters.count(), conv.outputs);
        let has_large_filters = weights > bytes;
        let sizes = GridSizes { blocks, panels, columns, multiply_adds, has_large_filters };
        let grid = Grid::dense(sizes, threads.count());
        threads.run(grid.tasks(), &|task, _| {
            let (mut kernel, mut tile) = (Microkernel::default(), Totals::default());
            for panel in grid.panels(task, panels) {
                let columns = Columns::of(filters, operands[0].scales, panel);
                let requantizer =
                    Requantizer::of_values(columns, post_ops, to, (rows, conv.outputs));
                for block in grid.rows(task, blocks) {
                    let place = (panel, block);
                    tile.multiply(&mut kernel, (&images, operands), place, &requantizer);
                }
            }
        });
    }
}

/// Memory for the image of an input, and for the same as i16 on CPUs without dot4.
struct ImageMemory<'a> {
    bytes: Scratch<'a, u8>,
    wide: Scratch<'a, i16>,
}

impl<'a> ImageMemory<'a> {
    fn new(conv: &Convolution, scratch: &'a ScratchPool) -> ImageMemory<'a> {
        let bytes = input::bytes(conv);
        let wide = scratch.take(if has_dot4() { 0 } else { bytes });
        ImageMemory { bytes: scratch.take(bytes), wide }
    }

    fn image<'i>(
        &'i mut self,
        convolution: &'i QuantizedConvolution,
        threads: &Threads,
        operands: &Operands<'i>,
    ) -> Image<'i> {
        let (merged, params) = (convolution.merged(), convolution.params());
        let image = Image::new(merged, params, threads, operands.data, &mut self.bytes);
        if has_dot4() { image } else { image.widened(threads, &mut self.wide) }
    }
}

/// The sums of one input, and the sums of all, scaled. The second tile of a block starts at row
/// [`TILE_ROWS`].
struct Totals {
    sums: Sums,
    totals: [[f32; WIDTH]; BLOCK_ROWS],
    values: Values,
}

impl Default for Totals {
    fn default() -> Totals {
        let (sums, values) = (Sums::default(), Values::default());
        Totals { sums, totals: [[0.0; WIDTH]; BLOCK_ROWS], values }
    }
}

impl Totals {
    /// Multiplies a block of every image by a panel of its filters, and requantizes the totals.
    fn multiply(
        &mut self,
        kernel: &mut Microkernel,
        (images, operands): (&[Image<'_>], &[Operands<'_>]),
        (panel, block): (usize, usize),
        requantizer: &Requantizer<'_>,
    ) {
        let columns = requantizer.width();
        self.totals = [[0.0; WIDTH]; BLOCK_ROWS];
        for (image, Operands { filters, scales, .. }) in images.iter().zip(operands) {
            let block = image.blocks().get(block);
            let of = Panel { filters, index: panel, columns };
            kernel.multiply(image, &block, of, &mut self.sums);
            let Columns { compensation, scales, .. } = Columns::of(filters, scales, panel);
            let totals = self.totals.split_at_mut(TILE_ROWS);
            for ((tile, sums), totals) in
                block.iter().zip(self.sums.tiles()).zip([totals.0, totals.1])
            {
                let (sums, totals) = (&sums[..tile.count], &mut totals[..tile.count]);
                add_scaled(sums, compensation, scales, totals);
            }
        }
        let block: Block = images[0].blocks().get(block);
        for (tile, totals) in block.iter().zip(self.totals.chunks_exact(TILE_ROWS)) {
            for OutputRun { first, row, count } in images[0].parts(*tile) {
                let totals = &totals[first..][..count];
                // SAFETY: these rows are within the output, and no other task has these columns of
                // them.
                unsafe { requantizer.write_values(totals, row, &mut self.values) };
            }
        }
    }
}

multiversion! {
    /// Adds the sums of an input, less what its zero point adds to them, times the scale of each
    /// column.
    fn add_scaled(
        sums: &[[i32; WIDTH]],
        compensation: &[i32],
        scales: &[f32],
        totals: &mut [[f32; WIDTH]],
    ) {
        let mut own = [0.0; WIDTH];
        own[..scales.len()].copy_from_slice(scales);
        for (sums, totals) in sums.iter().zip(totals) {
            for j in 0..WIDTH {
                let sum = (sums[j] - compensation[j]) as f32;
                totals[j] = sum.mul_add(own[j], totals[j]);
            }
        }
    }
}
