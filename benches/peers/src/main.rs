//! `peers rten|tract MODEL.onnx INPUT.npy`: `--output FILE` runs once and writes the first output;
//! without it, the steady state is measured for `--seconds S`, at most `--runs N` times, and
//! printed as JSON. Models have one f32 input; rten takes its number of threads from
//! `RTEN_NUM_THREADS`.

use std::error::Error;
use std::time::Instant;

type Any<T> = Result<T, Box<dyn Error>>;

/// Runs a model on an input and returns the first output.
type Run = Box<dyn FnMut() -> Any<Vec<f32>>>;

fn main() -> Any<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, engine, model, input, flags @ ..] = args.as_slice() else {
        return Err(
            "peers rten|tract MODEL.onnx INPUT.npy [--output FILE | --seconds S --runs N]".into()
        );
    };
    let flag = |name: &str| flags.iter().position(|f| f == name).and_then(|i| flags.get(i + 1));
    let (shape, values) = read_npy(input)?;
    let once = flag("--output");
    let mut run = match engine.as_str() {
        "rten" => rten(model, &shape, values, once.is_none())?,
        "tract" => tract(model, &shape, values)?,
        _ => return Err("the engine is rten or tract".into()),
    };
    if let Some(path) = once {
        let bytes: Vec<u8> = run()?.iter().flat_map(|v| v.to_le_bytes()).collect();
        return Ok(std::fs::write(path, bytes)?);
    }
    let seconds: f64 = flag("--seconds").map_or(Ok(1.0), |s| s.parse())?;
    let runs: usize = flag("--runs").map_or(Ok(100), |s| s.parse())?;
    for _ in 0..2 {
        run()?;
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < runs.max(1) && (times.is_empty() || begin.elapsed().as_secs_f64() < seconds)
    {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("{{\"median_ms\": {}, \"runs\": {}}}", times[times.len() / 2], times.len());
    Ok(())
}

/// With weights packed beforehand where the model runs more than once, as its documentation
/// advises.
fn rten(model: &str, shape: &[usize], values: Vec<f32>, prepack: bool) -> Any<Run> {
    use rten::{ModelOptions, Value};
    use rten_tensor::prelude::*;
    let model = ModelOptions::with_all_ops().prepack_weights(prepack).load_file(model)?;
    let input = Value::from_shape(shape, values)?;
    Ok(Box::new(move || {
        let output = model.run_one(input.as_view().into(), None)?;
        let output: rten_tensor::Tensor<f32> = output.try_into()?;
        Ok(output.to_vec())
    }))
}

fn tract(model: &str, shape: &[usize], values: Vec<f32>) -> Any<Run> {
    use tract_onnx::prelude::*;
    let model = tract_onnx::onnx().model_for_path(model)?;
    let model =
        model.with_input_fact(0, f32::fact(shape).into())?.into_optimized()?.into_runnable()?;
    let input = Tensor::from_shape(shape, &values)?.into_tvalue();
    Ok(Box::new(move || {
        let outputs = model.run(tvec!(input.clone()))?;
        Ok(outputs[0].to_plain_array_view::<f32>()?.iter().copied().collect())
    }))
}

/// Shape and values of an .npy of f32 in C order.
fn read_npy(path: &str) -> Any<(Vec<usize>, Vec<f32>)> {
    let bytes = std::fs::read(path)?;
    let len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + len])?;
    if !header.contains("'<f4'") || header.contains("'fortran_order': True") {
        return Err(format!("{path} is not f32 in C order").into());
    }
    let dims =
        header.split_once('(').and_then(|(_, rest)| rest.split_once(')')).ok_or("no shape")?.0;
    let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
    let shape = dims.map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let values =
        bytes[10 + len..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    Ok((shape, values.collect()))
}
