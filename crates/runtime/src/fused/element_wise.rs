//! A chain of element-wise operations on f32.

use crate::graph::net::FusedOp;
use crate::kernel::lanes::conversion_of;
use crate::kernel::post_ops::{PostOp, Quantize, bound, output};
use crate::prelude::*;
use crate::tensor::convert::Conversion;
use infer::InputSet;
use kernels::InOut;
use kernels::gemm::{Elements, Fill, map_planes, map_rows, map_rows_to};
use kernels::num::bytes_mut;
use kernels::par::Threads;

/// Which elements have operands of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainShape {
    /// Those of a column, in rows of so many elements.
    Rows(usize),
    /// Those of a channel, in planes of `len` elements.
    Planes {
        /// Planes of a batch element.
        channels: usize,
        /// Elements of a plane.
        len: usize,
    },
}

/// Post-ops of each row or plane of a tensor, without a producer. Inputs: the data, which is
/// converted to f32 if it is of another type, and the operands of the post-ops.
#[derive(Clone)]
pub(crate) struct ElementWiseChain {
    pub(crate) shape: ChainShape,
    pub(crate) post_ops: Vec<PostOp>,
    /// The quantizer of the result, if it is stored as u8. Then the shape is rows of at most a
    /// block ([`kernels::gemm::BLOCK`]).
    pub(crate) writes: Option<Quantize>,
}

impl FusedOp for ElementWiseChain {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let from = cx.element_type(0);
        let is_f32 = from == ElementType::F32;
        let conversion =
            if is_f32 { None } else { Some(conversion_of(0, from, ElementType::F32)?) };
        Ok(Box::new(ElementWiseKernel { chain: self.clone(), conversion }))
    }
}

struct ElementWiseKernel {
    chain: ElementWiseChain,
    /// That of the data to f32.
    conversion: Option<Conversion>,
}

impl Kernel for ElementWiseKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let Some(conversion) = &self.conversion else {
            if self.chain.writes.is_some() {
                let from: &[f32] = cx.input(0);
                self.chain.fill(cx, &|start, to| to.copy_from_slice(&from[start..][..to.len()]));
            } else {
                let io = cx.in_out::<f32>(0, 0);
                self.chain.map(cx, Elements { io, fill: None });
            }
            return Ok(());
        };
        let from = cx.input_bytes(0);
        let size = from.len() / cx.tensor(0).count().max(1);
        self.chain.fill(cx, &|start, to| {
            let (threads, count) = (Threads::single(), to.len());
            let from = &from[start * size..][..count * size];
            conversion.run(threads, count, from, bytes_mut(to));
        });
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        let is_new = self.conversion.is_some() || self.chain.writes.is_some();
        if is_new { Reuse::None } else { Reuse::InPlace(InputSet::one(0)) }
    }

    fn accepts_unaligned(&self) -> InputSet {
        if self.conversion.is_some() { InputSet::one(0) } else { InputSet::default() }
    }

    fn name(&self) -> &'static str {
        "element-wise"
    }
}

impl ElementWiseChain {
    /// A chain without operations.
    pub(crate) fn new(shape: ChainShape) -> ElementWiseChain {
        ElementWiseChain { shape, post_ops: Vec::new(), writes: None }
    }

    /// Computes the output from the elements that `fill` writes.
    fn fill(&self, cx: &mut RunCx<'_>, fill: &Fill<'_>) {
        if let (ChainShape::Rows(columns), Some(_)) = (self.shape, self.writes) {
            let output = output(self.writes, cx);
            let post_ops = bound(&self.post_ops, cx, columns);
            return map_rows_to(cx.threads(), (columns, &post_ops), fill, output);
        }
        let io = InOut::in_place(cx.output::<f32>(0));
        self.map(cx, Elements { io, fill: Some(fill) });
    }

    fn map(&self, cx: &RunCx<'_>, elements: Elements<'_>) {
        let bound = |columns| bound(&self.post_ops, cx, columns);
        match self.shape {
            ChainShape::Rows(columns) => {
                map_rows(cx.threads(), columns, &bound(columns), &elements);
            }
            ChainShape::Planes { channels, len } => {
                map_planes(cx.threads(), (channels, len), &bound(len), &elements);
            }
        }
    }
}
