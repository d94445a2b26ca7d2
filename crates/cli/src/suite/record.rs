//! `irrun test MODEL --record DIR`: a case folder of what a model gives now.

use crate::args::TestArgs;
use crate::bind::{self, Declared, Given, Port};
use crate::exit::{Exit, Failure, OrExit};
use crate::locate;
use crate::text::plural;
use crate::{npy, out, print, run};
use anyhow::{Context, Result, anyhow, bail, ensure};
use infer::PartialShape;
use ir::Graph;
use runtime::{Options, Tensor};
use serde::Serialize;
use std::path::Path;

/// `case.json` as it is recorded.
#[derive(Serialize)]
struct CaseJson {
    name: String,
    inputs: Vec<PortJson>,
    outputs: Vec<PortJson>,
}

/// An input or output.
#[derive(Serialize)]
struct PortJson {
    name: String,
    #[serde(rename = "type")]
    element_type: &'static str,
    shape: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtol: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atol: Option<f64>,
}

impl PortJson {
    fn new((port, tensor): (&Port, &Tensor)) -> PortJson {
        PortJson {
            name: port.shown().to_owned(),
            element_type: tensor.element_type().name(),
            shape: tensor.sizes().to_vec(),
            rtol: None,
            atol: None,
        }
    }
}

/// Runs a model and makes a case folder of its inputs and outputs.
///
/// # Errors
/// As running it; and when there is a case already, or the folder cannot be written.
pub fn record(args: &TestArgs, dir: &Path, options: &Options) -> Result<Exit, Failure> {
    let model = model(args, dir).or_exit(Exit::Usage)?;
    let model = locate::model_file(model);
    let graph = locate::read(&model).or_exit(Exit::Model)?;
    let declared = Declared::new(&graph, &[])?;
    files_are_apart(args, &model, dir, &declared).or_exit(Exit::Usage)?;
    let given = Given { files: &args.input, texts: &[], cast: false, media: &args.media };
    let inputs = bind::read_inputs(&given, &declared)?;
    let plan = run::plan(&graph, &inputs, &[], options)?;
    let threads = std::sync::Arc::new(run::threads(args.threads));
    let outputs = plan.session_on(threads).run(&inputs).or_exit(Exit::Running)?;
    write(&graph, &model, dir, (&inputs, &outputs), &declared, args).or_exit(Exit::Input)?;
    let (given, made) = (plural(inputs.len(), "input"), plural(outputs.len(), "output"));
    print::line(format_args!("recorded {}: {given}, {made}", dir.display()))?;
    for (port, tensor) in bind::outputs(&graph).iter().zip(&outputs) {
        let (name, shape) = (port.shown(), PartialShape::fixed(tensor.sizes()));
        print::line(format_args!("  {name}: {}{shape}", tensor.element_type()))?;
    }
    Ok(Exit::Good)
}

/// The model to record, where a case is not there already.
fn model<'a>(args: &'a TestArgs, dir: &Path) -> Result<&'a Path> {
    let [model] = &args.dirs[..] else {
        bail!("--record makes a case of one model; give one MODEL.xml");
    };
    ensure!(
        !dir.join("case.json").exists(),
        "{0} has a case.json already; `irrun test {0} --update` renews its goldens",
        dir.display()
    );
    Ok(model)
}

/// Refuses a folder with another model in it, or with a golden for an input.
fn files_are_apart(args: &TestArgs, model: &Path, dir: &Path, declared: &Declared) -> Result<()> {
    for (what, to) in out::of_model(&dir.join("model.xml")) {
        let from = model.with_extension(to.extension().unwrap_or_default());
        let is_other = from.exists() && to.exists() && !out::is_same(&from, &to);
        let shown = to.display();
        ensure!(!is_other, "{shown} is {what} of another case; give another directory");
    }
    for input in bind::input_files(&args.input, declared) {
        let name = input.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("expected_") {
            out::keep_apart(&[&dir.join(name)], &[("an input", input)])?;
        }
    }
    Ok(())
}

fn write(
    graph: &Graph,
    model: &Path,
    dir: &Path,
    (inputs, outputs): (&[Tensor], &[Tensor]),
    declared: &Declared,
    args: &TestArgs,
) -> Result<()> {
    out::make_dir(dir)?;
    for file in [model.to_owned(), model.with_extension("bin")] {
        let to = dir.join("model").with_extension(file.extension().unwrap_or_default());
        if file.exists() && !out::is_same(&file, &to) {
            std::fs::copy(&file, &to)
                .with_context(|| format!("{} cannot be copied", to.display()))?;
        }
    }
    for (name, tensors) in [("input", inputs), ("expected", outputs)] {
        for (i, tensor) in tensors.iter().enumerate() {
            let path = dir.join(format!("{name}_{i}.npy"));
            out::write_whole(&path, |file| npy::write(tensor, file))?;
        }
    }
    let ports = bind::outputs(graph);
    let output = |(port, tensor): (&Port, &Tensor)| {
        let tolerance = args.tolerance.of(|name| port.is(name));
        let is_real = tensor.element_type().is_real();
        // Other builds may add in another order; integers and exact types have no such excuse.
        let has_default = args.tolerance.is_empty() && is_real;
        let (rtol, atol) =
            if has_default { (1e-4, 1e-5) } else { (tolerance.rtol, tolerance.atol) };
        PortJson { rtol: Some(rtol), atol: Some(atol), ..PortJson::new((port, tensor)) }
    };
    let case = CaseJson {
        name: graph.name().to_owned(),
        inputs: declared.ports.iter().zip(inputs).map(PortJson::new).collect(),
        outputs: ports.iter().zip(outputs).map(output).collect(),
    };
    // The last file: a folder that is not complete is no case.
    let text = serde_json::to_string_pretty(&case).map_err(|e| anyhow!(e))?;
    out::write_whole(&dir.join("case.json"), |file| Ok(writeln!(file, "{text}")?))
}
