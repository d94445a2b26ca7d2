//! Convolutions of quantised data by filters that are integers.

use crate::fused::post_ops::{Round, Then, steps};
use crate::graph::net::FusedOp;
use crate::kernel::prepack::Prepacked;
use crate::prelude::*;
use kernels::WeightArena;
use kernels::conv::Input;
use kernels::quantize::{Output, ToLevel};
use kernels::quantized::{Data, Levels, Operands, Panels, Quantized};

/// A convolution that writes its channels last: inputs are the data, the filters as integers, a scale for
/// each channel, and the operands of the steps.
#[derive(Clone)]
pub(crate) struct IntegerConvolution {
    pub(crate) quantized: Quantized,
    /// Channels of the output.
    pub(crate) columns: usize,
    pub(crate) reads: Reads,
    /// The input that the channels of the data are multiplied by.
    pub(crate) gates: Option<usize>,
    pub(crate) then: Vec<Then>,
    /// How levels are found that are written in place of values.
    pub(crate) writes: Option<Round>,
}

impl IntegerConvolution {
    /// Whether it reads the channels of each position once, as values that are rounded then: so it can
    /// multiply them by gates.
    pub(crate) fn is_plain_product(&self) -> bool {
        let reads_values = matches!(self.reads, Reads::Values { channels_first: false, .. });
        reads_values && self.gates.is_none() && self.quantized.is_product()
    }

    /// Whether the levels that it finds are these.
    pub(crate) fn reads_levels(&self, levels: Option<Levels>) -> bool {
        let own = self.quantized.levels();
        let finds = matches!(self.reads, Reads::Values { level, channels_first: false }
            if own.to_level() == Some(level));
        finds && self.gates.is_none() && levels == Some(own)
    }
}

/// What the data are.
#[derive(Clone, Copy)]
pub(crate) enum Reads {
    /// Values in f32.
    Values {
        /// How the levels of them are found.
        level: ToLevel,
        /// Whether they still have their channels first.
        channels_first: bool,
    },
    /// Levels, as bytes.
    Levels,
}

impl FusedOp for IntegerConvolution {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let filters = Prepacked::new(1, cx.is_invariant(1));
        Ok(Box::new(IntegerKernel { convolution: self.clone(), filters }))
    }
}

struct IntegerKernel {
    convolution: IntegerConvolution,
    filters: Prepacked<Panels>,
}

impl Kernel for IntegerKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let IntegerConvolution { quantized, columns, reads, gates, then, writes } =
            &self.convolution;
        let data = match *reads {
            Reads::Values { level, channels_first } => {
                let factors = gates.map(|gates| cx.input(gates));
                let input = Input::channels_last(cx.input(0));
                Data::Values(Input { channels_first, factors, ..input }, level)
            }
            Reads::Levels => Data::Levels(cx.input(0)),
        };
        let given = cx.input(1);
        let output = match *writes {
            Some(round) => Output::Levels(cx.output(0), round.levels(cx)),
            None => Output::Values(cx.output(0)),
        };
        let steps = steps(then, cx, *columns);
        let prepare = || quantized.filters(cx.to_arena(), given);
        let once;
        let filters = match self.filters.now(cx, || quantized.form(), prepare) {
            Some(filters) => filters,
            None => {
                once = quantized.filters((cx.threads(), WeightArena::unpooled()), given);
                &once
            }
        };
        let operands = Operands { data, filters, scales: cx.input(2) };
        quantized.run((cx.threads(), cx.scratch_pool()), operands, &steps, output);
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.convolution.quantized.flops()
    }

    fn name(&self) -> &'static str {
        "integers"
    }
}
