//! Answers a question: `cargo run --example chat -- DIR "What is a tensor?"`.

use irrun_text::{Message, Pipeline};
use std::io::Write;
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (dir, question) = args.next().zip(args.next()).ok_or("give a directory and a question")?;
    let mut pipeline = Pipeline::open(dir.as_ref())?;
    let prompt = pipeline.encode_chat(&[Message::new("user", &question)])?;
    let config = pipeline.config().clone();
    let generated = pipeline.generate(&prompt, &config, &mut |text| {
        print!("{text}");
        match std::io::stdout().flush() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    println!("\n{} tokens, {:.1?}", generated.tokens.len(), generated.total);
    Ok(())
}
