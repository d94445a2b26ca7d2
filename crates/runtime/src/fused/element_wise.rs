//! A chain of element-wise operations on f32.

use crate::graph::net::FusedOp;
use crate::kernel::lanes::conversion_of;
use crate::kernel::post_ops::{PostOp, bound};
use crate::prelude::*;
use crate::tensor::convert::Conversion;
use infer::InputSet;
use kernels::InOut;
use kernels::gemm::{Elements, map_planes, map_rows};
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
            let io = cx.in_out::<f32>(0, 0);
            self.chain.map(cx, Elements { io, fill: None });
            return Ok(());
        };
        let from = cx.input_bytes(0);
        let size = from.len() / cx.tensor(0).count().max(1);
        let fill = |start: usize, to: &mut [f32]| {
            let (threads, count) = (Threads::single(), to.len());
            let from = &from[start * size..][..count * size];
            conversion.run(threads, count, from, bytes_mut(to));
        };
        let io = InOut::in_place(cx.output::<f32>(0));
        self.chain.map(cx, Elements { io, fill: Some(&fill) });
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        if self.conversion.is_some() { Reuse::None } else { Reuse::InPlace(InputSet::one(0)) }
    }

    fn accepts_unaligned(&self) -> InputSet {
        if self.conversion.is_some() { InputSet::one(0) } else { InputSet::default() }
    }

    fn name(&self) -> &'static str {
        "element-wise"
    }
}

impl ElementWiseChain {
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
