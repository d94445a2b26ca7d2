//! MatMuls of the same few rows with several matrices, as one step.

use crate::fused::matmul::FusedMatMul;
use crate::graph::net::FusedOp;
use crate::kernel::post_ops::moved;
use crate::ops::matmul::Float32;
use crate::prelude::*;
use infer::InputSet;

/// MatMuls with the same A. Inputs: A, then the other inputs of each MatMul in turn. Each MatMul
/// has an output of its own. As its last post-op it may be multiplied by the output of an earlier
/// one.
pub(crate) struct HorizontalMatMul {
    members: Vec<GroupedGemm>,
}

/// One of the MatMuls.
struct GroupedGemm {
    gemm: FusedMatMul,
    /// The input that is B.
    b: usize,
    /// The earlier MatMul whose result multiplies this one.
    factor: Option<usize>,
}

impl HorizontalMatMul {
    /// From each MatMul, the number of its inputs, and its factor.
    pub(crate) fn new(matmuls: Vec<(FusedMatMul, usize, Option<usize>)>) -> HorizontalMatMul {
        let mut b = 1;
        let mut member = |(mut gemm, inputs, factor): (FusedMatMul, usize, Option<usize>)| {
            for op in &mut gemm.post_ops {
                *op = moved(*op, b - 1);
            }
            let member = GroupedGemm { gemm, b, factor };
            b += inputs - 1;
            member
        };
        HorizontalMatMul { members: matmuls.into_iter().map(&mut member).collect() }
    }
}

impl FusedOp for HorizontalMatMul {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let member = |GroupedGemm { gemm, b, factor }: &GroupedGemm| {
            let shape = gemm.lowered_shape(*b, cx);
            let kernel = Float32::of(shape, cx, *b, gemm.post_ops.clone());
            (kernel.by(gemm.weights.as_ref(), cx), *factor)
        };
        Ok(Box::new(HorizontalKernel { members: self.members.iter().map(member).collect() }))
    }
}

struct HorizontalKernel {
    members: Vec<(Float32, Option<usize>)>,
}

impl Kernel for HorizontalKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let mut outputs: Vec<&mut [f32]> = (0..self.members.len()).map(|i| cx.output(i)).collect();
        Float32::run_grouped(&self.members, cx, &mut outputs)
    }

    fn accepts_unaligned(&self) -> InputSet {
        let of_members = self.members.iter().map(|(member, _)| member.accepts_unaligned());
        of_members.fold(InputSet::NONE, InputSet::with)
    }

    fn flops(&self) -> u64 {
        self.members.iter().map(|(member, _)| member.flops()).sum()
    }

    fn memory(&self, threads: usize) -> KernelMemory {
        let of_members = self.members.iter().map(|(member, _)| member.memory(threads).passing);
        KernelMemory { kept: 0, passing: of_members.max().unwrap_or(0) }
    }

    fn name(&self) -> &'static str {
        "matmul"
    }
}
