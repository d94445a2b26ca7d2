//! Runs a model on an input of fixed shape: `cargo run --example run -- models/swin_block`.

use irrun_runtime::infer::{self, Inputs, PartialShape};
use irrun_runtime::{Tensor, compile, ir};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or("models/swin_block".to_owned());
    let graph = ir::read(format!("{folder}/model.xml"))?;
    let sizes = [1, 16, 16, 32];
    let facts = infer::propagate(&graph, &Inputs::shapes([PartialShape::fixed(&sizes)]))?;
    let mut session = compile(&graph, &facts)?.session();

    let count = sizes.iter().product();
    let x = Tensor::from_vec(&sizes, vec![0.5f32; count])?;
    for (i, output) in session.run(&[x])?.iter().enumerate() {
        let values = output.as_slice::<f32>().ok_or("the output is not f32")?;
        println!("output {i}: {:?} {:?}", output.sizes(), values.get(..4));
    }
    Ok(())
}
