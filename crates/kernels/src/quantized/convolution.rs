//! A quantized convolution, from data and filters to requantized outputs.

use super::depthwise::{self, Depthwise};
use super::grid::{Grid, GridSizes};
use super::input::{self, Data, Image, WindowLayout};
use super::kernel::{Microkernel, Panel, Sums};
use super::merged_groups::MergedGroups;
use super::output::{Columns, To};
use super::pack::PackedFilters;
use super::params::QuantParams;
use super::requantize::{Requantizer, Values};
use super::small_oc;
use super::tile::{Block, MAX_TERMS, OutputRun, Tile, has_dot4};
use super::winograd;
use crate::base::par::Slice;
use crate::base::workers::{Packer, Workers};
use crate::conv::Convolution;
use crate::gemm::{PostOp, Window};
use crate::math::quantize::Output;
use std::ops::Range;

/// A convolution of quantized data with i8 filters.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedConvolution {
    conv: Convolution,
    merged: MergedGroups,
    params: QuantParams,
    /// The zero points of the channels, if the convolution is depthwise.
    zero_points: Vec<u8>,
    algorithm: Algorithm,
}

/// How it is computed; the sums are the same.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Algorithm {
    /// Windows times panels of filters, for each dense convolution of merged groups.
    Panels,
    /// By [`winograd`].
    Winograd,
    /// By [`small_oc`].
    SmallOc,
    /// By [`depthwise`].
    Depthwise,
}

impl Algorithm {
    /// The fastest for a convolution on this CPU.
    fn of(conv: &Convolution) -> Algorithm {
        if conv.groups > 1 {
            Algorithm::Panels
        } else if small_oc::pays(conv) {
            Algorithm::SmallOc
        } else if winograd::pays(conv) {
            Algorithm::Winograd
        } else {
            Algorithm::Panels
        }
    }
}

/// Elements that are widened for CPUs without dot4.
#[derive(Clone, Copy)]
struct WideLens {
    /// All of the image, at first.
    image: usize,
    /// What a worker multiplies next, if windows share no elements.
    per_worker: usize,
}

/// The operands of a [`QuantizedConvolution`].
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The data.
    pub data: Data<'a>,
    /// The filters.
    pub filters: &'a PackedFilters,
    /// The scale of each output channel's sums.
    pub scales: &'a [f32],
}

impl QuantizedConvolution {
    /// The integer convolution. `None` if its kernel is dilated along the last axis, it has three
    /// spatial axes, the input channels of its groups are no multiple of four, its sums may
    /// overflow, or there is far more padding than data.
    pub fn new(conv: &Convolution, params: QuantParams) -> Option<QuantizedConvolution> {
        let conv = Convolution { axes: flattened(conv), ..conv.clone() };
        let [depth, _, width] = conv.axes;
        let is_plain = depth == Window::NONE && width.dilation == 1;
        let merged = MergedGroups::of(&conv)?;
        let terms = conv.taps().checked_mul(merged.dense.inputs)?;
        let is_empty = conv.batch * conv.positions() * conv.outputs * terms == 0;
        let fits = is_plain && !is_empty && terms <= MAX_TERMS && input::fits(&merged);
        let (algorithm, zero_points) = (Algorithm::of(&conv), Vec::new());
        fits.then_some(QuantizedConvolution { conv, merged, params, zero_points, algorithm })
    }

    /// The integer depthwise convolution of quantized data, of which each channel has parameters of
    /// its own. `None` if a channel has several filters or there are three spatial axes.
    pub fn depthwise(conv: &Convolution, params: &[QuantParams]) -> Option<QuantizedConvolution> {
        let zero_points = params.iter().map(|params| params.zero_point()).collect();
        let fits = depthwise::suits(conv) && params.len() == conv.inputs;
        let params = *params.first()?;
        let (conv, merged) = (conv.clone(), MergedGroups::whole(conv));
        let algorithm = Algorithm::Depthwise;
        fits.then_some(QuantizedConvolution { conv, merged, params, zero_points, algorithm })
    }

    /// The same as windows times panels of filters, so that it can be an input of a
    /// [`ConcatConvolution`](super::ConcatConvolution).
    pub fn in_panels(self) -> QuantizedConvolution {
        QuantizedConvolution { algorithm: Algorithm::Panels, ..self }
    }

    /// Packs filters into an arena. They are given by output channel, then input channel of its
    /// group, then tap.
    ///
    /// # Panics
    /// When there are too few.
    pub fn pack_filters(&self, to: Packer<'_>, filters: &[i8]) -> PackedFilters {
        match self.algorithm {
            Algorithm::Panels => PackedFilters::new(&self.merged, self.params, to, filters),
            Algorithm::Winograd => winograd::pack_filters(&self.conv, self.params, to, filters),
            Algorithm::SmallOc => small_oc::pack_filters(&self.conv, to.arena, filters),
            Algorithm::Depthwise => {
                depthwise::pack_filters(&self.conv, &self.zero_points, to.arena, filters)
            }
        }
    }

    /// Whether its kernel is 1×1, so that the data may have factors.
    pub fn is_pointwise(&self) -> bool {
        self.conv.is_pointwise()
    }

    /// The sizes.
    pub(super) fn conv(&self) -> &Convolution {
        &self.conv
    }

    /// The sizes of its merged groups.
    pub(super) fn merged(&self) -> &MergedGroups {
        &self.merged
    }

    /// Whether windows are multiplied by panels of filters, without groups.
    pub(super) fn is_dense(&self) -> bool {
        self.algorithm == Algorithm::Panels && self.merged.count == 1
    }

    /// Whether an output channel reads only some of the input channels.
    pub fn has_groups(&self) -> bool {
        self.conv.groups != 1
    }

    /// Whether each channel has a filter of its own.
    pub fn is_depthwise(&self) -> bool {
        self.algorithm == Algorithm::Depthwise
    }

    /// The zero points of the channels, if it is depthwise.
    pub(super) fn zero_points(&self) -> &[u8] {
        &self.zero_points
    }

    /// How the data are quantized; the first channel, if each has its own parameters.
    pub fn params(&self) -> QuantParams {
        self.params
    }

    /// What the packed layout of the filters depends on, apart from sizes.
    pub fn filters_layout(&self) -> String {
        let of = match self.algorithm {
            Algorithm::Winograd => "tiles",
            Algorithm::SmallOc => "taps",
            Algorithm::Depthwise => depthwise::layout(),
            Algorithm::Panels if has_dot4() => "windows",
            Algorithm::Panels => "windows of pairs",
        };
        let zero_points = (self.params.zero_point(), &self.zero_points);
        let taps = self.conv.axes.map(|a| a.taps);
        let merged = (self.merged.count, self.merged.permuted());
        format!("integers {taps:?} {zero_points:?} {of} {merged:?}")
    }

    /// Bytes of packed filters.
    pub fn packed_bytes(&self) -> usize {
        match self.algorithm {
            Algorithm::Panels => PackedFilters::bytes_for(&self.merged),
            Algorithm::Winograd => winograd::packed_bytes(&self.conv),
            Algorithm::SmallOc => small_oc::packed_bytes(&self.conv),
            Algorithm::Depthwise => depthwise::packed_bytes(&self.conv),
        }
    }

    /// Bytes of scratch memory for a run on this many threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let bytes = input::bytes_of(&self.merged);
        match self.algorithm {
            Algorithm::Panels => {
                let WideLens { image, per_worker } = self.wide_lens();
                bytes + (image + per_worker * threads) * size_of::<i16>()
            }
            Algorithm::Winograd => bytes + winograd::scratch_bytes(&self.conv, threads),
            Algorithm::SmallOc => small_oc::scratch_bytes(&self.conv, threads),
            Algorithm::Depthwise => depthwise::scratch_bytes(&self.conv, threads),
        }
    }

    /// Blocks that are multiplied by one panel after the other, or all.
    fn blocks_at_a_time(&self) -> usize {
        let filters = PackedFilters::bytes_for(&self.merged) / self.merged.count;
        Microkernel::blocks_at_a_time(WindowLayout::of(&self.merged), filters)
    }

    /// Elements that are widened for CPUs without dot4.
    fn wide_lens(&self) -> WideLens {
        if has_dot4() {
            WideLens { image: 0, per_worker: 0 }
        } else if self.merged.dense.is_pointwise() {
            let layout = WindowLayout::of(&self.merged);
            let per_worker = input::wide_len(layout, self.blocks_at_a_time());
            WideLens { image: 0, per_worker }
        } else {
            WideLens { image: input::bytes_of(&self.merged), per_worker: 0 }
        }
    }

    /// Operations, including those on padding.
    pub fn flops(&self) -> u64 {
        self.conv.flops()
    }

    /// Convolves into `output`, which is NHWC. `post_ops` are applied to each element, with
    /// channels as columns.
    ///
    /// # Panics
    /// When a slice does not have the size of the convolution, or the data of a depthwise one are
    /// f32.
    pub fn run(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        operands: Operands<'_>,
        post_ops: &[PostOp<'_>],
        output: Output<'_>,
    ) {
        let conv = &self.conv;
        assert_eq!(output.len(), conv.batch * conv.positions() * conv.outputs);
        assert_eq!(operands.scales.len(), conv.outputs, "there is a scale for each channel");
        if self.algorithm == Algorithm::SmallOc {
            let Operands { data, filters, scales } = operands;
            let (workers, operands) = (Workers { threads, scratch }, (data, filters, scales));
            let output = (post_ops, To::of(output));
            return small_oc::run(conv, self.params, workers, operands, output);
        }
        if self.algorithm == Algorithm::Depthwise {
            return self.run_depthwise(Workers { threads, scratch }, operands, post_ops, output);
        }
        let to = To::of(output);
        let mut bytes = scratch.take::<u8>(input::bytes_of(&self.merged));
        let image = Image::new(&self.merged, self.params, threads, operands.data, &mut bytes);
        let requantizer = |panel: usize| self.requantizer(operands, panel, post_ops, to);
        if self.algorithm == Algorithm::Winograd {
            let operands = (&image, operands.filters);
            return winograd::run(conv, Workers { threads, scratch }, operands, requantizer);
        }
        self.run_panels(Workers { threads, scratch }, image, operands.filters, requantizer);
    }

    /// Convolves each channel with its own filter.
    ///
    /// # Panics
    /// When the data are f32, or do not have the size of the convolution.
    fn run_depthwise(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        Operands { data, filters, scales }: Operands<'_>,
        post_ops: &[PostOp<'_>],
        output: Output<'_>,
    ) {
        let Data::Quantized(data) = data else { panic!("the data are not quantized") };
        let (conv, zero_points) = (&self.conv, &self.zero_points);
        if !depthwise::interleaves_lines() {
            let (data, filters) = ((data, &zero_points[..]), (filters, scales));
            let output = (post_ops, output);
            return depthwise::run_exact(conv, Workers { threads, scratch }, data, filters, output);
        }
        let mut padding = scratch.take::<u8>(depthwise::line_bytes(conv));
        depthwise::fill_padding(zero_points, &mut padding);
        let (padding, output) = (&padding[..], To::of(output));
        Depthwise { conv, padding, filters, scales, post_ops, output }.run(threads, data);
    }

    /// Multiplies the windows of an image by panels of filters.
    fn run_panels<'a>(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        image: Image<'_>,
        filters: &PackedFilters,
        requantizer: impl Fn(usize) -> Requantizer<'a> + Sync,
    ) {
        let lens = self.wide_lens();
        let mut wide = scratch.take::<i16>(lens.image);
        let image = if lens.image > 0 { image.widened(threads, &mut wide) } else { image };
        let mut wide = scratch.take::<i16>(lens.per_worker * threads.count());
        let shared = Slice::new(&mut wide);
        let grid = self.grid(image.blocks().count(), filters, threads.count());
        threads.run(grid.tasks(), &|task, worker| {
            let panels = grid.panels(task, filters.count());
            let panels: Vec<_> = panels.map(|panel| (panel, requantizer(panel))).collect();
            // SAFETY: no two threads are the same worker at a time.
            let wide = unsafe { shared.part(worker * lens.per_worker, lens.per_worker) };
            let mut work = Workspace::default();
            for panels in panels.chunks(self.merged.panels()) {
                let image = image.of_merged(panels[0].0 / self.merged.panels());
                let rows = grid.rows(task, image.blocks().count());
                self.multiply_part(&mut work, (image, rows), (filters, panels), wide);
            }
        });
    }

    /// How blocks of rows and panels are divided among threads.
    fn grid(&self, blocks: usize, filters: &PackedFilters, threads: usize) -> Grid {
        let multiply_adds = self.multiply_adds();
        if self.merged.count > 1 {
            return Grid::merged(blocks, self.merged.count, multiply_adds, threads);
        }
        let has_large_filters = filters.weights() > input::bytes_of(&self.merged);
        let (panels, columns) = (filters.count(), self.conv.outputs);
        let sizes = GridSizes { blocks, panels, columns, multiply_adds, has_large_filters };
        Grid::dense(sizes, threads)
    }

    /// Multiplies some blocks of rows by some panels, all of the same merged groups. `wide` is for
    /// rows that are widened before they are multiplied, or empty.
    fn multiply_part(
        &self,
        work: &mut Workspace,
        (image, rows): (Image<'_>, Range<usize>),
        (filters, panels): (&PackedFilters, &[(usize, Requantizer<'_>)]),
        wide: &mut [i16],
    ) {
        let blocks = image.blocks();
        let blocks: Vec<Block> = rows.map(|block| blocks.get(block)).collect();
        for blocks in blocks.chunks(self.blocks_at_a_time()) {
            let image = if wide.is_empty() { image } else { image.widened_for(blocks, wide) };
            for (index, requantizer) in panels {
                let panel = Panel { filters, index: *index, columns: requantizer.width() };
                work.multiply((&image, blocks), panel, requantizer);
            }
        }
    }

    /// Multiply-adds.
    pub(super) fn multiply_adds(&self) -> usize {
        let rows = self.conv.batch * self.conv.positions();
        rows * self.conv.outputs * self.conv.taps() * self.merged.dense.inputs
    }

    /// The requantizer of a panel's columns.
    fn requantizer<'a>(
        &self,
        Operands { filters, scales, .. }: Operands<'a>,
        panel: usize,
        post_ops: &'a [PostOp<'a>],
        to: To<'a>,
    ) -> Requantizer<'a> {
        let columns = Columns::new(filters, scales, (panel, self.merged.columns(panel)));
        let rows = self.conv.batch * self.conv.positions();
        Requantizer::new(columns, post_ops, to, (rows, self.conv.outputs))
    }
}

/// What a task keeps between blocks.
#[derive(Default)]
struct Workspace {
    kernel: Microkernel,
    sums: Sums,
    values: Values,
}

impl Workspace {
    /// Multiplies blocks by a panel, and requantizes the sums.
    fn multiply(
        &mut self,
        (image, blocks): (&Image<'_>, &[Block]),
        panel: Panel<'_>,
        requantizer: &Requantizer<'_>,
    ) {
        let affine = requantizer.in_registers().filter(|_| Microkernel::requantizes());
        for block in blocks {
            if let Some(affine) = affine {
                for tile in block {
                    for OutputRun { first, row, count } in image.parts(*tile) {
                        let run = Tile { at: tile.at + first * image.layout.row, count, ..*tile };
                        // SAFETY: these rows are within the output, and no other task has these
                        // columns of them.
                        unsafe { Microkernel::requantize(image, run, panel, affine.from(row)) };
                    }
                }
                continue;
            }
            self.kernel.multiply(image, block, panel, &mut self.sums);
            for (tile, sums) in block.iter().zip(self.sums.tiles()) {
                for OutputRun { first, row, count } in image.parts(*tile) {
                    let sums = &sums[first..][..count];
                    // SAFETY: these rows are within the output, and no other task has these columns
                    // of them.
                    unsafe { requantizer.write(sums, row, &mut self.values) };
                }
            }
        }
    }
}

/// The axes; those of a 1×1 kernel are joined into one.
fn flattened(conv: &Convolution) -> [Window; 3] {
    let size: usize = conv.axes.iter().map(|a| a.input).product();
    if conv.is_pointwise() {
        [Window::NONE, Window::NONE, Window { input: size, output: size, ..Window::NONE }]
    } else {
        conv.axes
    }
}
