//! A model with a variable: each run adds to what the runs before have left, until `reset`.
//! `cargo run --example stateful_loop -- fixtures/state`.

use irrun_runtime::infer::{self, Inputs};
use irrun_runtime::{Tensor, compile, ir};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or("fixtures/state".to_owned());
    let graph = ir::read(format!("{folder}/model.xml"))?;
    let facts = infer::propagate(&graph, &Inputs::default())?;
    let mut session = compile(&graph, &facts)?.session();
    for step in 1..=3 {
        let outputs = session.run(&[Tensor::from_vec(&[1, 2], vec![1f32, 2.0])?])?;
        println!("step {step}: {:?}", outputs[0].as_slice::<f32>());
    }
    session.reset();
    println!("after a reset: {:?}", session.variables()?);
    Ok(())
}
