//! Products of the same few rows by several matrices, as one step.

use crate::fused::matmul::Product;
use crate::graph::net::Made;
use crate::ops::matmul::Float32;
use crate::prelude::*;

/// Products with the same A: inputs are A, and then the others of each product, one behind the other.
/// Each has an output of its own, and may at last be multiplied by that of one before it.
pub(crate) struct Products {
    members: Vec<Member>,
}

/// One of the products.
struct Member {
    product: Product,
    /// The input that is B.
    b: usize,
    /// The product before it whose result multiplies its own.
    factor: Option<usize>,
}

impl Products {
    /// The products, each with the number of its inputs, and its factor.
    pub(crate) fn new(products: Vec<(Product, usize, Option<usize>)>) -> Products {
        let mut b = 1;
        let mut member = |(mut product, inputs, factor): (Product, usize, Option<usize>)| {
            for then in &mut product.then {
                *then = then.moved(b - 1);
            }
            let member = Member { product, b, factor };
            b += inputs - 1;
            member
        };
        Products { members: products.into_iter().map(&mut member).collect() }
    }
}

impl Made for Products {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let member = |Member { product, b, factor }: &Member| {
            let shape = product.lowered_shape(*b, cx);
            let kernel = Float32::of(shape, cx, *b, product.then.clone());
            (kernel.by(product.weights.as_ref(), cx), *factor)
        };
        Ok(Box::new(ProductsKernel { members: self.members.iter().map(member).collect() }))
    }
}

struct ProductsKernel {
    members: Vec<(Float32, Option<usize>)>,
}

impl Kernel for ProductsKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let mut outputs: Vec<&mut [f32]> = (0..self.members.len()).map(|i| cx.output(i)).collect();
        Float32::run_together(&self.members, cx, &mut outputs)
    }

    fn loose(&self) -> u64 {
        self.members.iter().fold(0, |bits, (member, _)| bits | member.loose())
    }

    fn flops(&self) -> u64 {
        self.members.iter().map(|(member, _)| member.flops()).sum()
    }

    fn name(&self) -> &'static str {
        "matmul"
    }
}
