//! BinaryConvolution-1, computed in f32, which holds every count exactly.

use super::convolution::geometry;
use crate::prelude::*;
use crate::tensor::convert::Conversion;
use infer::ops::binary_convolution::BinaryConvolution;
use kernels::conv::{Convolution, binary};
use kernels::num::{bytes, bytes_mut};

impl Lower for BinaryConvolution {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(0);
        let conversion = |from, to| {
            let conversion = Conversion::new(from, to);
            conversion.ok_or_else(|| LowerError::element_type(0, element_type))
        };
        Ok(Box::new(Binary {
            conv: geometry(self.convolution(), [cx.sizes(0), cx.sizes(1), cx.output_sizes(0)?]),
            pad: self.pad() as f32,
            up: conversion(element_type, ElementType::F32)?,
            down: conversion(ElementType::F32, element_type)?,
        }))
    }
}

struct Binary {
    conv: Convolution,
    pad: f32,
    /// Conversions to f32 and back.
    up: Conversion,
    down: Conversion,
}

impl Kernel for Binary {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (threads, count) = (cx.threads(), cx.tensor(0).count());
        let mut input = cx.scratch::<f32>(count);
        self.up.run(threads, count, cx.input_bytes(0), bytes_mut(&mut input));
        let mut output = cx.scratch(cx.output_sizes(0).iter().product());
        binary(&self.conv, threads, self.pad, (&input, cx.input_bytes(1)), &mut output);
        self.down.run(threads, output.len(), bytes(&output), cx.output_bytes(0));
        Ok(())
    }

    fn flops(&self) -> u64 {
        self.conv.flops()
    }

    fn name(&self) -> &'static str {
        "binary convolution"
    }
}
