//! MatMul with post-ops, compressed weights and index maps.

use crate::graph::net::{FusedOp, Net, Node};
use crate::kernel::compressed_weights::Weights;
use crate::kernel::post_ops::PostOp;
use crate::ops::matmul::{Float32, Shape, Through};
use crate::options::Activations;
use crate::prelude::*;
use infer::ops::matmul::MatMul;
use kernels::gemm::SMALL_M_ROWS;

/// A MatMul in f32. Inputs: A, then B with its scales and zero points if it is compressed, then the
/// operands of the post-ops.
#[derive(Clone)]
pub(crate) struct FusedMatMul {
    /// Whether each operand is read transposed.
    pub(crate) transposed: (bool, bool),
    pub(crate) post_ops: Vec<PostOp>,
    /// The index map through which A is read, if it is not contiguous.
    pub(crate) through: Option<Through>,
    /// The compressed form of B, if B is not f32.
    pub(crate) weights: Option<Weights>,
}

impl FusedMatMul {
    /// The MatMul that a node computes, with its post-ops.
    pub(crate) fn of(net: &Net, node: &Node) -> Option<FusedMatMul> {
        if let Some(matmul) = node.fused::<FusedMatMul>() {
            return Some(matmul.clone());
        }
        let matmul = node.is::<MatMul>()?;
        let rank = |i: usize| net.sizes(*node.inputs.get(i)?).map(|s| s.len());
        let transposed = matmul.transposed(rank(0)?, rank(1)?);
        Some(FusedMatMul { transposed, post_ops: Vec::new(), through: None, weights: None })
    }

    /// Whether rows of A are quantized at run time (dynamic quantization).
    pub(crate) fn is_dynamic(&self) -> bool {
        self.weights.as_ref().is_some_and(|w| w.activations == Activations::Int8)
    }

    /// The GEMMs that it consists of, for these sizes of A and B.
    pub(crate) fn shape(&self, a: &[usize], b: &[usize]) -> Shape {
        let (transpose_a, transpose_b) = self.transposed;
        let a = self.through.as_ref().map_or(a, |t| &t.sizes);
        let b = self.weights.as_ref().map_or(b, |w| &w.sizes);
        Shape::new(a, b, transpose_a, transpose_b)
    }

    /// The GEMMs in the precision in which they run; B is input `b`. Few rows with compressed
    /// weights run in f32, since neither operand is packed.
    pub(crate) fn lowered_shape(&self, b: usize, cx: &LowerCx<'_>) -> Shape {
        let shape = self.shape(cx.sizes(0), cx.sizes(b));
        if self.is_dynamic() || self.weights.is_some() && shape.rows() <= SMALL_M_ROWS {
            shape
        } else {
            shape.with_precision(cx.precision())
        }
    }
}

impl FusedOp for FusedMatMul {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let shape = self.lowered_shape(1, cx);
        let kernel = Float32::new(shape, cx, self.post_ops.clone());
        let mut kernel = kernel.by(self.weights.as_ref(), cx);
        kernel.through = self.through.clone();
        Ok(Box::new(kernel))
    }
}
