//! Convolution-1, GroupConvolution-1 and transposed convolutions (ConvolutionBackpropData). f32
//! runs in NHWC, f16 and bf16 in f32, other types as the specification defines.

use crate::kernel::dispatch::kernel_for;
use crate::kernel::lanes::Halves;
use crate::kernel::prepack::Prepacked;
use crate::prelude::*;
use infer::ops::convolution::{Convolution as Rule, Kind};
use kernels::Scratch;
use kernels::arithmetic::Arithmetic;
use kernels::conv::{
    Convolution, Definition, DepthwiseInput, Direction, Filters, Input, Transposed, plain,
};
use kernels::copy::CopyPlan;
use kernels::gemm::{PostOp, Precision, Target, Window};
use kernels::num::Stored;
use kernels::par::Threads;
use kernels::quantize::Output;
use kernels::{Packer, Workers};
use std::marker::PhantomData;

impl Lower for Rule {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let conv = geometry(self, [cx.sizes(0), cx.sizes(1), cx.output_sizes(0)?]);
        let element_type = cx.element_type(0);
        if let ElementType::F32 | ElementType::F16 | ElementType::BF16 = element_type {
            let halves = Halves::of(element_type);
            let conv = in_precision(conv, cx.precision());
            let transposed =
                WithTransposes::new(conv, self.kind(), Prepacked::new(1, cx.is_invariant(1)));
            return Ok(Box::new(Float { transposed, halves }));
        }
        let direction =
            if self.kind().is_transposed() { Direction::Backward } else { Direction::Forward };
        let definition = Definition { conv, direction };
        kernel_for!(cx, 0, number T => NaiveConvolution::<T> { definition, of: PhantomData })
    }
}

/// The convolution for these sizes of data, filters and output.
pub(crate) fn geometry(rule: &Rule, [data, filters, output]: [&[usize]; 3]) -> Convolution {
    let rank = data.len();
    let spatial = rank - 2;
    let taps = &filters[filters.len() - spatial..];
    let signed = |sizes: &[usize]| sizes.iter().map(|s| *s as i64).collect::<Vec<_>>();
    let pads = rule.pads(&signed(&data[2..]), &signed(taps), &signed(&output[2..]));
    let back = rule.kind().is_transposed();
    let mut axes = [Window::NONE; 3];
    for (i, (window, (before, _))) in rule.windows().iter().zip(pads).enumerate() {
        axes[3 - spatial + i] = Window {
            input: data[2 + i],
            output: output[2 + i],
            taps: taps[i],
            stride: window.stride as usize,
            dilation: window.dilation as usize,
            start: if back { before as isize } else { -before as isize },
        };
    }
    let groups = if rule.kind().is_grouped() { filters[0] } else { 1 };
    let (inputs, outputs, precision) = (data[1], output[1], Precision::F32);
    Convolution { batch: data[0], axes, inputs, outputs, groups, precision }
}

/// The same convolution in a precision. Without input channels there is nothing to convert.
pub(crate) fn in_precision(conv: Convolution, precision: Precision) -> Convolution {
    let precision = if conv.inputs == 0 { Precision::F32 } else { precision };
    Convolution { precision, ..conv }
}

/// A convolution or a transposed convolution.
pub(crate) enum ConvKind {
    Direct(Convolution),
    Transposed(Transposed),
}

/// The filters of a convolution, as its kernels read them.
pub(crate) enum Prepared<'a> {
    Direct(Filters<'a>),
    Transposed(Vec<Filters<'static>>),
}

impl ConvKind {
    pub(crate) fn new(conv: &Convolution, is_transposed: bool) -> ConvKind {
        if is_transposed {
            ConvKind::Transposed(Transposed::new(conv))
        } else {
            ConvKind::Direct(conv.clone())
        }
    }

    /// Floating-point operations.
    pub(crate) fn flops(&self) -> u64 {
        match self {
            ConvKind::Direct(conv) => conv.flops(),
            ConvKind::Transposed(conv) => conv.flops(),
        }
    }

    /// Memory of a run with unpacked filters.
    pub(crate) fn memory(&self, threads: usize) -> KernelMemory {
        let (packed, scratch) = match self {
            ConvKind::Direct(conv) => (conv.packed_bytes(), conv.scratch_bytes(threads)),
            ConvKind::Transposed(conv) => (conv.packed_bytes(), conv.scratch_bytes(threads)),
        };
        KernelMemory { kept: 0, passing: packed + scratch }
    }

    /// What determines the packed layout of filters, besides their sizes.
    pub(crate) fn filters_layout(&self) -> String {
        match self {
            ConvKind::Direct(conv) => conv.filters_layout(),
            ConvKind::Transposed(conv) => format!("{conv:?}"),
        }
    }

    /// Packs filters for many runs.
    pub(crate) fn prepare(&self, to: Packer<'_>, filters: &[f32]) -> Prepared<'static> {
        match self {
            ConvKind::Direct(conv) => Prepared::Direct(conv.pack_filters(to, filters)),
            ConvKind::Transposed(conv) => Prepared::Transposed(conv.pack_filters(to, filters)),
        }
    }

    /// Prepares filters for one run.
    pub(crate) fn prepare_once<'a>(&self, threads: &Threads, filters: &'a [f32]) -> Prepared<'a> {
        match self {
            ConvKind::Direct(conv) => Prepared::Direct(conv.filters_once(threads, filters)),
            ConvKind::Transposed(conv) => {
                Prepared::Transposed(conv.pack_filters(Packer::unpooled(threads), filters))
            }
        }
    }

    /// Runs a depthwise convolution, of data that may be quantized. Also gives the means of the
    /// channels if they are wanted.
    pub(crate) fn run_depthwise(
        &self,
        workers: Workers<'_>,
        (map, filters): (DepthwiseInput<'_>, &Prepared<'_>),
        post_ops: &[PostOp<'_>],
        outputs: (Output<'_>, &mut [f32]),
    ) {
        let (ConvKind::Direct(conv), Prepared::Direct(filters)) = (self, filters) else {
            unreachable!("filters are prepared for the way they are used");
        };
        conv.run_depthwise(workers, (map, filters), post_ops, outputs);
    }

    /// Runs a convolution with bf16 input, output or both.
    pub(crate) fn run_bf16(
        &self,
        workers: Workers<'_>,
        (input, filters): (Input<'_>, &Prepared<'_>),
        post_ops: &[PostOp<'_>],
        output: Target<'_>,
    ) {
        let (ConvKind::Direct(conv), Prepared::Direct(filters)) = (self, filters) else {
            unreachable!("filters are prepared for the way they are used");
        };
        conv.run_bf16(workers, (input, filters), post_ops, output);
    }

    /// Runs a convolution with prepared filters; `given` are the unpacked ones.
    pub(crate) fn run(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        input: Input<'_>,
        (filters, given): (&Prepared<'_>, &[f32]),
        post_ops: &[PostOp<'_>],
        output: &mut [f32],
    ) {
        match (self, filters) {
            (ConvKind::Direct(conv), Prepared::Direct(filters)) => {
                conv.run(threads, scratch, (input, filters, given), post_ops, output);
            }
            (ConvKind::Transposed(conv), Prepared::Transposed(filters)) => {
                conv.run(threads, scratch, (input.values, filters), post_ops, output);
            }
            _ => unreachable!("filters are prepared for the way they are used"),
        }
    }
}

/// A convolution of NCHW tensors, with transposes to NHWC and back.
struct WithTransposes {
    kind: ConvKind,
    filters: Prepacked<Prepared<'static>>,
    /// The transpose to NHWC; `None` if the convolution reads NCHW.
    to_last: Option<CopyPlan>,
    /// The transpose to NCHW.
    to_first: CopyPlan,
}

impl WithTransposes {
    fn new(conv: Convolution, kind: Kind, filters: Prepacked<Prepared<'static>>) -> WithTransposes {
        let positions: usize = conv.axes.iter().map(|a| a.input).product();
        let stays = !kind.is_transposed() && conv.reads_channels_first();
        let transpose = || CopyPlan::transpose(&[conv.batch, conv.inputs, positions], &[0, 2, 1]);
        let to_last = (!stays).then(transpose);
        let sizes = [conv.batch, conv.positions(), conv.outputs];
        let to_first = CopyPlan::transpose(&sizes, &[0, 2, 1]);
        let kind = ConvKind::new(&conv, kind.is_transposed());
        WithTransposes { kind, filters, to_last, to_first }
    }

    fn run(&self, cx: &RunCx<'_>, input: &[f32], filters: &[f32], output: &mut [f32]) {
        let own;
        let prepare = || self.kind.prepare(cx.to_arena(), filters);
        let prepared = match self.filters.on_second_use(cx, || self.kind.filters_layout(), prepare)
        {
            Some(prepared) => prepared,
            None => {
                own = self.kind.prepare_once(cx.threads(), filters);
                &own
            }
        };
        let mut transposed: Scratch<'_, f32>;
        let input = match &self.to_last {
            None => Input { channels_first: true, ..Input::channels_last(input) },
            Some(plan) if plan.is_identity() => Input::channels_last(input),
            Some(plan) => {
                transposed = cx.scratch(input.len());
                plan.run(cx.threads(), input, &mut transposed);
                Input::channels_last(&transposed)
            }
        };
        let workers = cx.workers();
        if self.to_first.is_identity() {
            return self.kind.run(workers, input, (prepared, filters), &[], output);
        }
        let mut last = cx.scratch(output.len());
        self.kind.run(workers, input, (prepared, filters), &[], &mut last);
        self.to_first.run(cx.threads(), &last, output);
    }
}

struct Float {
    transposed: WithTransposes,
    halves: Option<Halves>,
}

impl Kernel for Float {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Some(halves) = &self.halves else {
            let output = cx.output(0);
            self.transposed.run(cx, cx.input(0), cx.input(1), output);
            return Ok(());
        };
        let (input, filters) = (halves.widen(cx, 0), halves.widen(cx, 1));
        let to = cx.output_bytes(0);
        let mut output = cx.scratch::<f32>(to.len() / 2);
        self.transposed.run(cx, &input, &filters, &mut output);
        halves.narrow(cx.threads(), &output, to);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.transposed.kind.flops()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        self.transposed.kind.memory(threads)
    }

    fn name(&self) -> &'static str {
        "convolution"
    }
}

struct NaiveConvolution<T> {
    definition: Definition,
    of: PhantomData<T>,
}

impl<T: Stored> Kernel for NaiveConvolution<T>
where
    T::Wide: Arithmetic,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let output = cx.output::<T>(0);
        plain(&self.definition, cx.threads(), (cx.input(0), cx.input(1)), output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.definition.conv.flops()
    }

    fn name(&self) -> &'static str {
        "convolution"
    }
}
