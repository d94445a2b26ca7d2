//! Two sessions on one pool, so that they and the rest of the program do not fight for processors.

use irrun_runtime::infer::{self, Inputs};
use irrun_runtime::ir::{ElementType, GraphBuilder};
use irrun_runtime::rayon::ThreadPoolBuilder;
use irrun_runtime::{Options, Tensor, compile_with};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = GraphBuilder::new("squares");
    let x = builder.parameter("x", ElementType::F32, "64,64");
    let square = builder.layer("MatMul", "opset1").inputs(&[x, x]).output();
    builder.result("square", square);
    let graph = builder.finish().map_err(|problems| format!("{problems:?}"))?;
    let facts = infer::propagate(&graph, &Inputs::default())?;

    let options = Options::default().pool(Arc::new(ThreadPoolBuilder::new().build()?));
    for value in [0.5f32, 2.0] {
        let mut session = compile_with(&graph, &facts, &options)?.session();
        let square = session.run(&[Tensor::from_vec(&[64, 64], vec![value; 64 * 64])?])?;
        println!("{:?}", square[0].as_slice::<f32>().and_then(|values| values.first()));
    }
    Ok(())
}
