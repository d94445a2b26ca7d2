//! MatMul with compressed weights. It reads integers of 4 or 8 bits with scales and zero points per
//! group, as NNCF writes them, or f16. Such a MatMul is bound by memory: reading a weight takes
//! longer than dequantizing it, and f32 weights are two to eight times as large.

use crate::fused::matmul::FusedMatMul;
use crate::graph::net::{Net, Node, Operation, ValueId};
use crate::graph::pattern::{either_way, operands};
use crate::graph::rewriter::GraphRewriter;
use crate::kernel::compressed_weights::{FactorStrides, Weights};
use crate::kernel::post_ops::moved;
use crate::options::Activations;
use crate::passes::context::PassCx;
use crate::tensor::Sizes;
use crate::tensor::convert::convert_tensor;
use infer::ops::binary::Kind;
use infer::ops::convert::Convert;
use infer::ops::reshape::Reshape;
use ir::ElementType;
use kernels::gemm::{Compressed, Precision, SMALL_M_ROWS, WeightFormat};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// f16 weights of fewer elements are read in f32 for many rows. Larger ones do not fit the caches
/// of most machines as f32, so reading f16 is faster.
const WIDENED: usize = 1 << 22;

pub(crate) fn weights(net: &mut Net, cx: &PassCx<'_>) -> usize {
    let precision = cx.resources.options.precision;
    GraphRewriter::editing(net, |rewriter, node| by_stored(rewriter, node, precision))
}

/// With `--activations int8`, MatMuls with such weights quantize rows of A. The rows must be
/// contiguous, and a group of weights must be a whole number of groups of A.
pub(crate) fn dynamic(net: &mut Net, cx: &PassCx<'_>) -> usize {
    if cx.resources.options.activations == Activations::F32 {
        return 0;
    }
    let mut found = 0;
    for node in &mut net.nodes {
        let matmul = node.fused::<FusedMatMul>().filter(|p| p.through.is_none());
        let Some(mut matmul) = matmul.cloned() else { continue };
        let Some(weights) = &mut matmul.weights else { continue };
        if Compressed::suits_dynamic_quantization(weights.format, weights.group) {
            weights.activations = Activations::Int8;
            node.operation = Operation::Fused(Arc::new(matmul));
            found += 1;
        }
    }
    found
}

/// Lets a MatMul read its weights as they are stored.
fn by_stored(
    rewriter: &mut GraphRewriter<'_>,
    node: &mut Node,
    precision: Precision,
) -> Option<()> {
    let mut matmul = FusedMatMul::of(rewriter.net, node).filter(|p| p.weights.is_none())?;
    let &[a, b, ..] = &node.inputs[..] else { return None };
    let sizes = |v| rewriter.net.sizes(v).filter(|_| rewriter.net.is_f32(v));
    let (a, sizes) = (sizes(a)?, sizes(b).filter(|sizes| sizes.len() == 2)?);
    let shape = matmul.shape(&a, &sizes);
    let mut stored = Stored::of(rewriter, b, &sizes, !matmul.transposed.1)?;
    if !shape.reads_through() {
        return None;
    }
    // Weights in bf16 take no more memory than in f16, so the limit does not apply.
    let is_small = sizes.iter().product::<usize>() < WIDENED || precision == Precision::Bf16;
    if stored.weights.format == WeightFormat::F16 && is_small && shape.rows() > SMALL_M_ROWS {
        stored.weights.widened = Some(precision);
    }
    let more = stored.inputs.len() - 1;
    node.inputs.remove(1);
    node.inputs.insert_many(1, stored.inputs);
    matmul.post_ops.iter_mut().for_each(|op| *op = moved(*op, more));
    matmul.weights = Some(stored.weights);
    node.operation = Operation::Fused(Arc::new(matmul));
    Some(())
}

/// A compressed matrix.
struct Stored {
    weights: Weights,
    /// Its elements, then scales and zero points.
    inputs: SmallVec<[ValueId; 3]>,
}

impl Stored {
    /// The compressed form of a matrix that is computed from constants, if MatMul supports the
    /// pattern.
    fn of(
        rewriter: &GraphRewriter<'_>,
        value: ValueId,
        sizes: &Sizes,
        by_rows: bool,
    ) -> Option<Stored> {
        if let Some((elements, ElementType::F16)) = widened(rewriter, value) {
            let (format, sizes) = (WeightFormat::F16, sizes.clone());
            let (scales, zeros, widened) = (None, None, None);
            let activations = Activations::F32;
            let weights =
                Weights { format, sizes, by_rows, group: 1, scales, zeros, widened, activations };
            return Some(Stored { weights, inputs: smallvec![elements] });
        }
        let maker = rewriter.maker(value)?;
        let value = if maker.is::<Reshape>().is_some() { *maker.inputs.first()? } else { value };
        let axes = Axes::of(rewriter.net.sizes(value)?, sizes, by_rows)?;
        let scaled = rewriter.maker(value)?;
        either_way(scaled, Kind::Multiply).find_map(|[shifted, scales]| {
            let (scales, scale_strides) = axes.factors(rewriter, scales)?;
            let minus = rewriter.maker(shifted).and_then(|node| operands(node, Kind::Subtract));
            let (elements, format) = axes.elements(rewriter, minus.map_or(shifted, |[x, _]| x))?;
            let mut inputs = smallvec![elements, scales];
            let mut zero_strides = None;
            if let Some([_, zeros]) = minus {
                let (zeros, strides) = axes.factors(rewriter, zeros)?;
                zero_strides = Some(strides);
                inputs.push(are_elements(rewriter.net, zeros, format)?);
            }
            let (sizes, group, scales) = (sizes.clone(), axes.group(), Some(scale_strides));
            let (zeros, widened, activations) = (zero_strides, None, Activations::F32);
            let weights =
                Weights { format, sizes, by_rows, group, scales, zeros, widened, activations };
            Some(Stored { weights, inputs })
        })
    }
}

/// The constant that is converted to f32 to give a value, and its element type.
fn widened(rewriter: &GraphRewriter<'_>, value: ValueId) -> Option<(ValueId, ElementType)> {
    let converts = |node: &&Node| node.is::<Convert>().is_some() && rewriter.net.is_f32(value);
    let from = *rewriter.maker(value).filter(converts)?.inputs.first()?;
    let element_type = rewriter.net.values[from].constant.as_ref()?.element_type();
    Some((from, element_type))
}

/// The axes of the elements, as they are stored.
struct Axes {
    sizes: Sizes,
    columns: usize,
    /// The axis of groups, if k is grouped.
    groups: Option<usize>,
    terms: usize,
}

impl Axes {
    /// The axes of a matrix of shape `sizes`, whose k may be divided in groups.
    fn of(stored: Sizes, sizes: &[usize], by_rows: bool) -> Option<Axes> {
        let (columns, groups, terms) = match (stored.len(), by_rows) {
            (2, false) => (0, None, 1),
            (2, true) => (1, None, 0),
            (3, false) => (0, Some(1), 2),
            (3, true) => (2, Some(0), 1),
            _ => return None,
        };
        let all = stored[terms] * groups.map_or(1, |axis| stored[axis]);
        let size = if by_rows { [all, stored[columns]] } else { [stored[columns], all] };
        (size[..] == *sizes && all > 0).then_some(Axes { sizes: stored, columns, groups, terms })
    }

    /// Elements of k per group.
    fn group(&self) -> usize {
        self.sizes[self.terms]
    }

    /// The constant with one factor per group, and its strides.
    fn factors(
        &self,
        rewriter: &GraphRewriter<'_>,
        value: ValueId,
    ) -> Option<(ValueId, FactorStrides)> {
        let is_known = rewriter.net.values[value].constant.is_some();
        let from = if is_known { value } else { widened(rewriter, value)?.0 };
        let sizes = rewriter.net.sizes(from)?;
        let missing = self.sizes.len().checked_sub(sizes.len())?;
        let size = |axis: usize| axis.checked_sub(missing).map_or(1, |axis| sizes[axis]);
        let fits = |axis: usize| size(axis) == 1 || size(axis) == self.sizes[axis];
        if !(0..self.sizes.len()).all(fits) || size(self.terms) != 1 {
            return None;
        }
        let stride = |axis: usize| match size(axis) {
            1 => 0,
            _ => (axis + 1..self.sizes.len()).map(size).product(),
        };
        let group = self.groups.map_or(0, stride);
        Some((from, FactorStrides { column: stride(self.columns), group }))
    }

    /// The integer constant that is converted to give a value, and its format. `None` if two groups
    /// or two rows share a byte.
    fn elements(
        &self,
        rewriter: &GraphRewriter<'_>,
        value: ValueId,
    ) -> Option<(ValueId, WeightFormat)> {
        let (elements, element_type) = widened(rewriter, value)?;
        let is_even = self.group().is_multiple_of(2) && self.sizes.last()?.is_multiple_of(2);
        let format = match element_type {
            ElementType::U8 => WeightFormat::U8,
            ElementType::I8 => WeightFormat::I8,
            ElementType::U4 if is_even => WeightFormat::U4,
            ElementType::I4 if is_even => WeightFormat::I4,
            _ => return None,
        };
        (rewriter.net.sizes(elements)? == self.sizes).then_some((elements, format))
    }
}

/// The zero points themselves, if each fits the element type of the weights.
fn are_elements(net: &Net, zeros: ValueId, format: WeightFormat) -> Option<ValueId> {
    let tensor = net.values[zeros].constant.as_ref()?;
    let (low, high) = match (format, tensor.element_type()) {
        (WeightFormat::U8, ElementType::U8) | (WeightFormat::I8, ElementType::I8) => {
            return Some(zeros);
        }
        (WeightFormat::U4, ElementType::U4) | (WeightFormat::I4, ElementType::I4) => {
            return Some(zeros);
        }
        (WeightFormat::U8, _) => (0.0, 255.0),
        (WeightFormat::I8, _) => (-128.0, 127.0),
        (WeightFormat::U4, _) => (0.0, 15.0),
        (WeightFormat::I4, _) => (-8.0, 7.0),
        (WeightFormat::F16, _) => return None,
    };
    let wide = convert_tensor(tensor, ElementType::F32).ok()?;
    let is_one = |x: &f32| x.fract() == 0.0 && (low..=high).contains(x);
    wide.as_slice()?.iter().all(is_one).then_some(zeros)
}
