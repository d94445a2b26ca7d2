//! Compressed weights, which GEMMs read as they are stored.

use crate::error::KernelError;
use crate::kernel::RunCx;
use crate::kernel::prepack::Prepacked;
use crate::options::Activations;
use crate::tensor::convert::convert_tensor;
use crate::tensor::{Sizes, Tensor};
use ir::ElementType;
use kernels::gemm::{
    Compressed, CompressedPanels, DynamicPanels, GroupParams, Packed, Precision, Rhs, RhsSize,
    WeightFormat,
};

/// Strides of the scales or zero points of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FactorStrides {
    /// From one column of B to the next.
    pub(crate) column: usize,
    /// From one group of k to the next.
    pub(crate) group: usize,
}

/// How B of a GEMM is stored: an input with the elements, followed by scales and zero points.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    pub(crate) format: WeightFormat,
    /// The shape of B, either k × n or n × k.
    pub(crate) sizes: Sizes,
    /// Whether elements are stored row by row of that shape.
    pub(crate) by_rows: bool,
    /// Elements of k per group.
    pub(crate) group: usize,
    /// How the scales lie, if there are any.
    pub(crate) scales: Option<FactorStrides>,
    /// The same for zero points.
    pub(crate) zeros: Option<FactorStrides>,
    /// The precision of the packed weights, if later runs do not read them compressed.
    pub(crate) widened: Option<Precision>,
    /// The type of A that they are multiplied with.
    pub(crate) activations: Activations,
}

impl Weights {
    /// How many inputs B takes.
    pub(crate) fn inputs(&self) -> usize {
        1 + usize::from(self.scales.is_some()) + usize::from(self.zeros.is_some())
    }
}

/// Compressed weights of a kernel, with a slot for their packed panels.
pub(crate) struct Panels {
    weights: Weights,
    /// The input with the elements.
    input: usize,
    panels: Prepacked<PackedPanels>,
    /// Compressed panels, which plans for few rows make. Weights that are widened for many rows are
    /// read from there too, so that a session that has both does not hold them twice.
    narrow: Option<Prepacked<PackedPanels>>,
}

/// Packed weights, as later runs read them.
pub(crate) enum PackedPanels {
    Narrow(CompressedPanels),
    Wide(Packed),
    Dynamic(DynamicPanels),
}

impl PackedPanels {
    fn rhs(&self) -> Rhs<'_> {
        match self {
            PackedPanels::Narrow(panels) => Rhs::CompressedPanels(panels),
            PackedPanels::Wide(packed) => Rhs::Packed(packed),
            PackedPanels::Dynamic(panels) => Rhs::Dynamic(panels),
        }
    }
}

impl Panels {
    pub(crate) fn new(weights: Weights, input: usize, is_invariant: bool) -> Panels {
        let packed = || Prepacked::of(input..input + weights.inputs(), is_invariant);
        let (panels, narrow) = (packed(), weights.widened.map(|_| packed()));
        Panels { weights, input, panels, narrow }
    }

    /// B; packed from the second run on.
    ///
    /// # Errors
    /// When the scales are not of a numeric type.
    pub(crate) fn operand<'a>(&'a self, cx: &'a RunCx<'_>) -> Result<RhsOperand<'a>, KernelError> {
        if let Some(panels) = self.panels.made().or_else(|| self.narrow(cx)) {
            return Ok(RhsOperand::Packed(panels));
        }
        let stored = self.stored(cx)?;
        let form = || format!("{:?}", self.weights);
        let make = || match (self.weights.activations, self.weights.widened) {
            (Activations::Int8, _) => {
                PackedPanels::Dynamic(DynamicPanels::new(cx.to_arena(), &stored.matrix()))
            }
            (Activations::F32, None) => {
                PackedPanels::Narrow(CompressedPanels::new(cx.to_arena(), &stored.matrix()))
            }
            (Activations::F32, Some(precision)) => {
                PackedPanels::Wide(Packed::decompressed(cx.to_arena(), &stored.matrix(), precision))
            }
        };
        // Dynamic quantization packs in the first run, so that it rounds like later runs.
        let packed = match self.weights.activations {
            Activations::F32 => self.panels.on_second_use(cx, form, make),
            Activations::Int8 => self.panels.now(cx, form, make),
        };
        Ok(match packed {
            Some(packed) => RhsOperand::Packed(packed),
            None => RhsOperand::Stored(Box::new(stored)),
        })
    }

    /// The compressed panels of weights that would be widened, if there are any.
    fn narrow(&self, cx: &RunCx<'_>) -> Option<&PackedPanels> {
        let narrow = self.narrow.as_ref()?;
        let form = || format!("{:?}", Weights { widened: None, ..self.weights.clone() });
        narrow.made().or_else(|| narrow.made_elsewhere(cx, form))
    }

    fn stored<'a>(&'a self, cx: &'a RunCx<'_>) -> Result<Stored<'a>, KernelError> {
        let numbers = |at: usize| {
            let wide = convert_tensor(cx.tensor(self.input + at), ElementType::F32);
            wide.map_err(|e| KernelError::at(self.input + at, e.to_string()))
        };
        let Weights { scales, zeros, .. } = self.weights;
        let bytes = cx.input_bytes(self.input);
        let scales = scales.map(|_| numbers(1)).transpose()?;
        let zeros = zeros.map(|_| numbers(2)).transpose()?;
        Ok(Stored { weights: &self.weights, bytes, scales, zeros })
    }
}

/// The B of a GEMM.
pub(crate) enum RhsOperand<'a> {
    Packed(&'a PackedPanels),
    Stored(Box<Stored<'a>>),
}

impl RhsOperand<'_> {
    pub(crate) fn rhs(&self) -> Rhs<'_> {
        match self {
            RhsOperand::Packed(packed) => packed.rhs(),
            RhsOperand::Stored(stored) => Rhs::Compressed(stored.matrix()),
        }
    }
}

/// Unpacked B, with scales and zero points in f32.
pub(crate) struct Stored<'a> {
    weights: &'a Weights,
    bytes: &'a [u8],
    scales: Option<Tensor>,
    zeros: Option<Tensor>,
}

impl Stored<'_> {
    fn matrix(&self) -> Compressed<'_> {
        let Weights { format, by_rows, group, ref sizes, .. } = *self.weights;
        let (k, n) = if by_rows { (sizes[0], sizes[1]) } else { (sizes[1], sizes[0]) };
        let size = RhsSize { k, n };
        let scales = factors(&self.scales, self.weights.scales);
        let zeros = self.zeros.is_some().then(|| factors(&self.zeros, self.weights.zeros));
        Compressed { bytes: self.bytes, format, by_rows, size, group, scales, zeros }
    }
}

/// The factors of each group, if the input exists.
fn factors(tensor: &Option<Tensor>, strides: Option<FactorStrides>) -> GroupParams<'_> {
    let values = tensor.as_ref().and_then(|t| t.as_slice()).unwrap_or_default();
    let FactorStrides { column, group } = strides.unwrap_or_default();
    GroupParams { values, column, group }
}
