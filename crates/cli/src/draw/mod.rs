//! `irrun graph`: a model as a picture (SVG), a page (HTML), or text that others draw (Graphviz,
//! Mermaid).

mod arrange;
mod blocks;
mod dot;
mod heat;
mod html;
mod kind;
mod labels;
mod layout;
mod mermaid;
mod picture;
mod planned;
pub(crate) mod profiled;
mod svg;

use crate::args::whole;
use crate::bind::Declared;
use crate::exit::{Exit, Failure, OrExit};
use crate::locate;
use crate::text::Glob;
use crate::{json, out, print};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use ir::{Graph, Layer};
use picture::{Node, Picture, Role, Selection};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Drawing a model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    irrun graph model.xml -o model.html          a page to look around in\n  \
    irrun graph model.xml -o part.svg --around attn/MatMul --depth 3\n  \
    irrun graph model.xml --only '*attn*' --format mermaid\n  \
    irrun graph model.xml --plan -o plan.svg     what is left after optimisation")]
pub struct GraphArgs {
    /// The model, or a directory that holds model.xml.
    #[arg(value_name = "MODEL.xml")]
    pub model: PathBuf,
    /// Where the drawing goes; without it, or to -, it is printed.
    #[arg(short, long, value_name = "FILE.html|svg|dot|mmd")]
    pub output: Option<PathBuf>,
    /// What is written; without it, the ending of the output decides, and Graphviz text is printed.
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<Format>,
    /// Draw the layers whose name or tensor name matches, with * and ?, or that have this id, and
    /// what lies directly between them.
    #[arg(long, value_name = "GLOB|ID")]
    pub only: Option<Glob>,
    /// Draw what is near a layer, which is given by its name or its id.
    #[arg(long, value_name = "LAYER", conflicts_with = "only")]
    pub around: Option<String>,
    /// How many edges from that layer.
    #[arg(long, value_name = "N", default_value_t = 2, requires = "around")]
    #[arg(value_parser = whole::<usize>)]
    pub depth: usize,
    /// Blocks that are open in an SVG: those nested at most so deep; others are boxes.
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub blocks: Option<usize>,
    /// Draw shape arithmetic as well; the page shows it when it is asked to.
    #[arg(long)]
    pub shapes: bool,
    /// Draw the plan: what is left after optimisation, a box for each step.
    #[arg(long, conflicts_with_all = ["only", "around", "shapes"])]
    pub plan: bool,
    /// Colour layers by their time: what `irrun MODEL.xml --profile --json` has printed.
    #[arg(long, value_name = "FILE.json")]
    pub times: Option<PathBuf>,
    /// Colour layers by how much they differ: what `irrun MODEL.xml --compare-steps REF.npz --json`
    /// has printed.
    #[arg(long, value_name = "FILE.json", conflicts_with = "times")]
    pub differences: Option<PathBuf>,
    /// Shapes to use in place of those the model declares.
    #[arg(long, value_name = "NAME[1,3,?,?]")]
    pub shape: Vec<String>,
    /// Print one JSON object, and the drawing to --output.
    #[arg(long, requires = "output")]
    pub json: bool,
}

/// What `irrun graph --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Where the drawing is.
    file: String,
    /// `html`, `svg`, `dot` or `mermaid`.
    format: Format,
    /// Boxes of layers, those of shape arithmetic and constants that are hidden among them.
    layers: usize,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A page to look around in.
    Html,
    /// A picture.
    Svg,
    /// Text for Graphviz.
    Dot,
    /// Text for Mermaid.
    Mermaid,
}

impl Format {
    /// The format that a flag or the ending of a file asks for.
    fn of(args: &GraphArgs) -> Result<Format, Failure> {
        if let Some(format) = args.format {
            return Ok(format);
        }
        let Some(path) = &args.output else { return Ok(Format::Dot) };
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match ending.as_str() {
            // As without a file: a device or a pipe has no ending.
            "" => Ok(Format::Dot),
            "html" | "htm" => Ok(Format::Html),
            "svg" => Ok(Format::Svg),
            "dot" | "gv" => Ok(Format::Dot),
            "mmd" | "mermaid" => Ok(Format::Mermaid),
            _ => Err(Failure {
                exit: Exit::Usage,
                error: anyhow!(
                    "{}: its ending tells no format; call it .html, .svg, .dot or .mmd, or give \
                     --format",
                    path.display()
                ),
            }),
        }
    }
}

/// Draws a model.
///
/// # Errors
/// When the file is no graph, a flag is wrong, or the drawing cannot be written.
pub(crate) fn draw(args: &GraphArgs) -> Result<Exit, Failure> {
    let format = Format::of(args)?;
    out::leave_room_for_report(args.json, args.output.iter().map(PathBuf::as_path))?;
    let model = locate::model_file(&args.model);
    let graph = locate::read(&model).or_exit(Exit::Model)?;
    files_are_apart(args, &model)?;
    let near = args.around.as_ref().map(|layer| around(&graph, layer, args.depth)).transpose()?;
    if let Some(pattern) = args.only.as_ref().filter(|pattern| !any_named(&graph, pattern)) {
        return Err(locate::none_called(pattern, graph.layers().iter())).or_exit(Exit::Usage);
    }
    let declared = Declared::new(&graph, &args.shape)?;
    let given = declared.given();
    if args.plan {
        let facts = infer::propagate(&graph, &given).or_exit(Exit::Model)?;
        let plan = runtime::compile(&graph, &facts).or_exit(Exit::Model)?;
        return finish(planned::picture(&graph, &plan), format, args);
    }
    let facts = infer::analyse(&graph, &given).facts;
    let shows = |part: &Graph, position: usize| match (&near, &args.only) {
        (Some(near), _) => part.is_body() || near.contains(&position),
        (_, Some(pattern)) => {
            let layer = part.layers().get(position);
            layer.is_some_and(|l| locate::is_called(pattern, l, part.is_body()))
        }
        (None, None) => true,
    };
    let selection = Selection { shows: &shows, statistics: format == Format::Html };
    finish(Picture::of(&graph, &facts, &selection), format, args)
}

/// Colours a picture and writes it.
fn finish(mut picture: Picture, format: Format, args: &GraphArgs) -> Result<Exit, Failure> {
    let scale = match (&args.times, &args.differences) {
        (Some(file), _) => Some(heat::times(&mut picture, file)?),
        (_, Some(file)) => Some(heat::differences(&mut picture, file)?),
        _ => None,
    };
    let text = written(&picture, format, args, scale.as_deref())?;
    match args.output.as_ref().filter(|path| *path != Path::new(out::DASH)) {
        Some(path) => {
            let write = |file: &mut dyn std::io::Write| Ok(file.write_all(text.as_bytes())?);
            out::write_whole(path, write).or_exit(Exit::Input)?;
        }
        None => print::text(text)?,
    }
    if let Some(path) = args.output.as_ref().filter(|_| args.json) {
        let (file, layers) = (path.display().to_string(), picture.nodes.len());
        json::print(&Report { file, format, layers })?;
    }
    Ok(Exit::Good)
}

fn written(
    picture: &Picture,
    format: Format,
    args: &GraphArgs,
    scale: Option<&str>,
) -> Result<String, Failure> {
    // Of a few layers around one, none is hidden.
    let all = args.shapes || args.around.is_some();
    let shown = |node: &Node| match node.role {
        Role::Data => true,
        Role::Shape => all,
        Role::Constant => false,
    };
    Ok(match format {
        Format::Html => html::html(picture, scale).or_exit(Exit::Input)?,
        Format::Svg => svg::svg(picture, &shown, args.blocks.unwrap_or(usize::MAX)),
        Format::Dot => dot::dot(picture),
        Format::Mermaid => mermaid::mermaid(picture, &shown),
    })
}

/// The parts of a name that open blocks.
pub(crate) fn scope_of(name: &str) -> Option<Vec<String>> {
    blocks::named(name)
}

fn files_are_apart(args: &GraphArgs, model: &Path) -> Result<(), Failure> {
    let Some(path) = &args.output else { return Ok(()) };
    let mut read = out::of_model(model).to_vec();
    read.extend(args.times.as_ref().map(|file| ("the times", file.clone())));
    read.extend(args.differences.as_ref().map(|file| ("the differences", file.clone())));
    out::keep_apart(&[path], &read).or_exit(Exit::Usage)
}

fn any_named(graph: &Graph, pattern: &Glob) -> bool {
    let named = |l: &Layer| {
        locate::is_called(pattern, l, graph.is_body())
            || l.bodies.iter().any(|b| any_named(&b.graph, pattern))
    };
    graph.layers().iter().any(named)
}

/// The layers at most `depth` edges away from one, in either direction. Constants of each belong to
/// it; the way does not go on through them.
fn around(graph: &Graph, layer: &str, depth: usize) -> Result<HashSet<usize>, Failure> {
    let start = locate::layer(graph, layer).or_exit(Exit::Usage)?;
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.layers().len()];
    for position in 0..graph.layers().len() {
        for source in graph.inputs_of(position) {
            readers[source.layer].push(position);
        }
    }
    let is_constant = |p: usize| graph.layers().get(p).is_some_and(|l| l.is("Const"));
    let mut found = HashSet::from([start]);
    let mut edge = vec![start];
    for _ in 0..depth {
        let near = edge.iter().filter(|&&p| p == start || !is_constant(p)).flat_map(|&p| {
            let sources = graph.inputs_of(p).iter().map(|source| source.layer);
            sources.chain(readers[p].iter().copied()).collect::<Vec<_>>()
        });
        let near: Vec<usize> = near.filter(|p| !found.contains(p)).collect();
        found.extend(near.iter().copied());
        edge = near;
    }
    let constants = found.iter().flat_map(|&p| graph.inputs_of(p)).map(|source| source.layer);
    let constants: Vec<usize> = constants.filter(|&p| is_constant(p)).collect();
    found.extend(constants);
    Ok(found)
}
