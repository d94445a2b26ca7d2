//! Products of the same few rows by several matrices, as one step.

use super::product::Product;
use crate::net::Made;
use crate::ops::matmul::{Float32, Shape};
use crate::prelude::*;

/// Products with the same A: inputs are A, and then the others of each product, one behind the other.
/// Each has an output of its own.
pub(crate) struct Products {
    members: Vec<Member>,
}

/// One of the products.
struct Member {
    product: Product,
    /// The input that is B.
    b: usize,
}

impl Products {
    /// The products, each with the number of its inputs.
    pub(crate) fn new(products: Vec<(Product, usize)>) -> Products {
        let mut b = 1;
        let mut member = |(mut product, inputs): (Product, usize)| {
            for then in &mut product.then {
                *then = then.moved(b - 1);
            }
            let member = Member { product, b };
            b += inputs - 1;
            member
        };
        Products { members: products.into_iter().map(&mut member).collect() }
    }
}

impl Made for Products {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let member = |Member { product, b }: &Member| {
            let (turn_a, turn_b) = product.turned;
            let shape = Shape::new(cx.sizes(0), cx.sizes(*b), turn_a, turn_b);
            Float32::of(shape.rounded(cx.precision()), cx, *b, product.then.clone())
        };
        Ok(Box::new(ProductsKernel { members: self.members.iter().map(member).collect() }))
    }
}

struct ProductsKernel {
    members: Vec<Float32>,
}

impl Kernel for ProductsKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let mut outputs: Vec<&mut [f32]> = (0..self.members.len()).map(|i| cx.output(i)).collect();
        Float32::run_together(&self.members, cx, &mut outputs);
        Ok(())
    }

    fn loose(&self) -> u64 {
        self.members.iter().fold(0, |bits, member| bits | member.loose())
    }

    fn flops(&self) -> u64 {
        self.members.iter().map(Kernel::flops).sum()
    }

    fn name(&self) -> &'static str {
        "matmul"
    }
}
