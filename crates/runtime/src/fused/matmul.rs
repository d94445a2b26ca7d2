//! Matrix products and what is done to their elements.

use crate::graph::net::{FusedOp, Net, Node};
use crate::kernel::compressed_weights::Weights;
use crate::kernel::post_ops::PostOp;
use crate::ops::matmul::{Float32, Shape, Through};
use crate::options::Activations;
use crate::prelude::*;
use infer::ops::matmul::MatMul;
use kernels::gemm::SMALL_M_ROWS;

/// A MatMul in f32: inputs are its operands, of which the second may be several, then those of the
/// steps.
#[derive(Clone)]
pub(crate) struct FusedMatMul {
    /// Whether each operand is read transposed.
    pub(crate) transposed: (bool, bool),
    pub(crate) post_ops: Vec<PostOp>,
    /// How A lies in its input, if not row by row.
    pub(crate) through: Option<Through>,
    /// How B is stored, if not in f32.
    pub(crate) weights: Option<Weights>,
}

impl FusedMatMul {
    /// The product of matrices that a node is, with what is done to it.
    pub(crate) fn of(net: &Net, node: &Node) -> Option<FusedMatMul> {
        if let Some(matmul) = node.fused::<FusedMatMul>() {
            return Some(matmul.clone());
        }
        let matmul = node.is::<MatMul>()?;
        let rank = |i: usize| net.sizes(*node.inputs.get(i)?).map(|s| s.len());
        let transposed = matmul.transposed(rank(0)?, rank(1)?);
        Some(FusedMatMul { transposed, post_ops: Vec::new(), through: None, weights: None })
    }

    /// Whether its rows are quantized when it is computed.
    pub(crate) fn is_dynamic(&self) -> bool {
        self.weights.as_ref().is_some_and(|w| w.activations == Activations::Int8)
    }

    /// The products that it consists of, where the first two inputs have these sizes.
    pub(crate) fn shape(&self, a: &[usize], b: &[usize]) -> Shape {
        let (transpose_a, transpose_b) = self.transposed;
        let a = self.through.as_ref().map_or(a, |t| &t.sizes);
        let b = self.weights.as_ref().map_or(b, |w| &w.sizes);
        Shape::new(a, b, transpose_a, transpose_b)
    }

    /// The same as they are computed, where B is input `b`: few rows by weights as they are stored
    /// in f32, since neither operand is laid out.
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
