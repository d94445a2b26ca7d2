//! Convert-1, ConvertLike-1: a view for the same type, else one pass over the elements.

use super::SameBytes;
use crate::kernel::lanes::conversion_of;
use crate::prelude::*;
use crate::tensor::convert::Conversion;
use infer::InputSet;
use infer::ops::convert::Convert;

impl Lower for Convert {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (from, to) = (cx.element_type(0), cx.output_type(0));
        if from == to {
            return Ok(Box::new(SameBytes));
        }
        Ok(Box::new(ConvertKernel { conversion: conversion_of(0, from, to)? }))
    }
}

struct ConvertKernel {
    conversion: Conversion,
}

impl Kernel for ConvertKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let count = cx.tensor(0).count();
        self.conversion.run(cx.threads(), count, cx.input_bytes(0), cx.output_bytes(0));
        Ok(())
    }

    fn accepts_unaligned(&self) -> InputSet {
        InputSet::one(0)
    }

    fn name(&self) -> &'static str {
        "convert"
    }
}
