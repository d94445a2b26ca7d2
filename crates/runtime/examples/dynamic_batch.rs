//! One session, several batch sizes: a plan is made for each shape and kept.

use irrun_runtime::infer::{self, Inputs};
use irrun_runtime::ir::{ElementType, GraphBuilder};
use irrun_runtime::{Tensor, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = GraphBuilder::new("sums");
    let x = builder.parameter("x", ElementType::F32, "?,3");
    let axis = builder.constant_i64(&[1]);
    let sum = builder.layer("ReduceSum", "opset1").attribute("keep_dims", "false");
    let sum = sum.inputs(&[x, axis]).output();
    builder.result("sum", sum);
    let graph = builder.finish().map_err(|problems| format!("{problems:?}"))?;

    let facts = infer::propagate(&graph, &Inputs::default())?;
    let mut session = compile(&graph, &facts)?.session();
    for batch in [1, 4, 2, 4] {
        let rows = (0..batch * 3).map(|i| i as f32).collect();
        let sums = session.run(&[Tensor::from_vec(&[batch, 3], rows)?])?;
        println!("{batch} rows: {:?}", sums[0].as_slice::<f32>());
    }
    Ok(())
}
