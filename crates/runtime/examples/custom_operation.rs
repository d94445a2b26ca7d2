//! Runs a model with an operation that irrun does not have: `cargo run --example custom_operation`.
//!
//! `Cube` takes one tensor of f32 and gives the third power of each element. It needs a rule
//! (`Parse` and `Op`), a kernel (`Lower` and `Kernel`), and one call that makes both known.

use irrun_runtime::infer::{
    self, AttrError, Attrs, Extensions, InferCx, Inputs, Op, Parse, RuleError,
};
use irrun_runtime::ir::{ElementType, GraphBuilder};
use irrun_runtime::{
    Kernel, KernelError, Lower, LowerCx, LowerError, RunCx, Tensor, compile, register,
};

/// The operation with its attributes.
#[derive(Debug)]
pub(crate) struct Cube {
    scale: f32,
}

impl Parse for Cube {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Cube, AttrError> {
        Ok(Cube { scale: attrs.single("scale", Some(1.0))? })
    }
}

impl Op for Cube {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let element_type = cx.expect_type(0, "f32", |found| found == ElementType::F32)?;
        cx.set(0, element_type, cx.shape(0).clone());
        Ok(())
    }
}

impl Lower for Cube {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(CubeKernel { scale: self.scale }))
    }
}

/// What runs: parameters that need no element type, shape or attribute any more.
struct CubeKernel {
    scale: f32,
}

impl Kernel for CubeKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (from, to) = (cx.input::<f32>(0), cx.output::<f32>(0));
        for (to, x) in to.iter_mut().zip(from) {
            *to = self.scale * x * x * x;
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "cube"
    }
}

/// Runs a graph of one layer twice, with inputs of different sizes.
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A model that has such a layer; `ir::read` gives one from a file.
    let mut builder = GraphBuilder::new("cubes");
    let x = builder.parameter("x", ElementType::F32, "?");
    let cube = builder.layer("Cube", "extension").attribute("scale", "2").inputs(&[x]).output();
    builder.result("y", cube);
    let graph = builder.finish().map_err(|problems| format!("{problems:?}"))?;

    let mut extensions = Extensions::default();
    register::<Cube>(&mut extensions, "Cube", "extension");
    let facts = infer::propagate(&graph, &Inputs { extensions, ..Inputs::default() })?;
    let mut session = compile(&graph, &facts)?.session();

    for values in [vec![1.0f32, 2.0, 3.0], vec![-0.5]] {
        let outputs = session.run(&[Tensor::from_vec(&[values.len()], values)?])?;
        let cubes = outputs.first().and_then(|y| y.as_slice::<f32>()).ok_or("y is not f32")?;
        println!("{cubes:?}");
    }
    Ok(())
}
