//! A picture as one HTML page that needs nothing else: zoom, search, blocks that open and close.

use super::arrange::{self, Inside, Place};
use super::blocks::{Blocks, Child};
use super::kind::Kind;
use super::picture::{Node, Picture, Role};
use super::svg::STYLE;
use crate::statistics::Statistics;
use serde::Serialize;

const PAGE: &str = include_str!("page/page.html");
const PAGE_STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Writes the page; `heat` is what the colours stand for, if not for the kinds of operations.
pub(super) fn html(picture: &Picture, heat: Option<&str>) -> serde_json::Result<String> {
    let data = serde_json::to_string(&Data::new(picture, heat))?;
    // No text of a model may end the script.
    let data = data.replace('<', "\\u003c");
    let title = crate::text::xml(&picture.name);
    let parts = [
        ("@TITLE@", title.as_str()),
        ("@COLORS@", STYLE),
        ("@STYLE@", PAGE_STYLE),
        ("@DATA@", &data),
        ("@SCRIPT@", SCRIPT),
    ];
    let mut page = String::with_capacity(PAGE.len() + data.len() + SCRIPT.len());
    let mut rest = PAGE;
    for (mark, text) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// What the script of the page reads.
#[derive(Serialize)]
struct Data<'a> {
    name: &'a str,
    counts: String,
    heat: Option<&'a str>,
    kinds: Vec<&'static str>,
    nodes: Vec<Layer<'a>>,
    views: Vec<View>,
}

/// A layer.
#[derive(Serialize)]
struct Layer<'a> {
    id: u64,
    n: &'a str,
    t: &'a str,
    v: &'a str,
    /// Kind.
    c: &'static str,
    r: &'static str,
    lines: Vec<String>,
    w: f64,
    h: f64,
    /// Attributes.
    a: &'a [(String, String)],
    /// Inputs: port, fact, layer and port that feed it.
    i: Vec<(&'a str, &'a str, Option<usize>, usize)>,
    /// Facts of the outputs.
    o: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a Statistics>,
    p: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    heat: Option<&'a (f64, String)>,
}

/// The blocks of what is shown.
#[derive(Serialize)]
struct View {
    blocks: Vec<Block>,
    /// For each layer its box, then the blocks around it; null where it is not shown.
    paths: Vec<Option<Vec<serde_json::Value>>>,
}

#[derive(Serialize)]
struct Block {
    /// Title.
    t: String,
    n: Option<usize>,
    layers: usize,
    w: f64,
    h: f64,
    iw: f64,
    ih: f64,
    /// Kind (`n`, `b`, `i`, `o`), layer or block, x, y, and the port of a tensor.
    places: Vec<(&'static str, usize, f64, f64, usize)>,
    /// From, to, layer and port of the tensor, and the points.
    edges: Vec<(usize, usize, usize, usize, Vec<f64>)>,
    /// That of the hottest layer in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    heat: Option<(f64, String)>,
}

impl<'a> Data<'a> {
    fn new(picture: &'a Picture, heat: Option<&'a str>) -> Data<'a> {
        let count = |role| picture.nodes.iter().filter(|node| node.role == role).count();
        let (data, shape, constant) =
            (count(Role::Data), count(Role::Shape), count(Role::Constant));
        let mut views = vec![View::new(picture, &|node| node.role == Role::Data)];
        if shape > 0 {
            views.push(View::new(picture, &|node| node.role != Role::Constant));
        }
        let counts = format!("{data} layers, {shape} of shape arithmetic, {constant} constant");
        Data {
            name: &picture.name,
            counts,
            heat,
            kinds: Kind::ALL.map(Kind::name).to_vec(),
            nodes: picture.nodes.iter().map(|node| layer(picture, node)).collect(),
            views,
        }
    }
}

fn layer<'a>(picture: &'a Picture, node: &'a Node) -> Layer<'a> {
    let (w, h) = arrange::box_of(picture, node);
    let role = match node.role {
        Role::Data => "data",
        Role::Shape => "shape",
        Role::Constant => "constant",
    };
    let inputs = node.inputs.iter().map(|i| (&*i.port, &*i.fact, i.from, i.from_port));
    Layer {
        id: node.id,
        n: &node.name,
        t: &node.op_type,
        v: &node.version,
        c: node.kind.name(),
        r: role,
        lines: arrange::lines(picture, node),
        w,
        h,
        a: &node.attributes,
        i: inputs.collect(),
        o: &node.outputs,
        k: node.constant.as_deref(),
        s: node.statistics.as_ref(),
        p: &node.place,
        heat: node.heat.as_ref(),
    }
}

impl View {
    fn new(picture: &Picture, shown: &dyn Fn(&Node) -> bool) -> View {
        let blocks = Blocks::new(picture, shown);
        let insides = arrange::arrange(picture, &blocks, &|_| false);
        let hottest = hottest(picture, &blocks);
        let list = blocks.list.iter().zip(&insides).enumerate().map(|(b, (block, inside))| {
            let (w, h) = arrange::closed(&block.title);
            Block {
                t: block.title.clone(),
                n: block.node,
                layers: block.layers,
                w,
                h,
                iw: rounded(inside.layout.width),
                ih: rounded(inside.layout.height),
                places: places(inside),
                edges: edges(inside),
                heat: hottest[b].clone(),
            }
        });
        let name = |child| match child {
            Child::Node(n) => serde_json::Value::from(format!("n{n}")),
            Child::Block(b) => serde_json::Value::from(format!("b{b}")),
        };
        let path = |n: usize| {
            let (child, around) = blocks.path(n)?;
            let around = around.into_iter().map(serde_json::Value::from);
            Some([name(child)].into_iter().chain(around).collect())
        };
        View { blocks: list.collect(), paths: (0..picture.nodes.len()).map(path).collect() }
    }
}

/// The greatest heat in each block.
fn hottest(picture: &Picture, blocks: &Blocks) -> Vec<Option<(f64, String)>> {
    let mut found: Vec<Option<(f64, String)>> = vec![None; blocks.list.len()];
    for (b, block) in blocks.list.iter().enumerate().rev() {
        let inside = block.children.iter().filter_map(|child| match child {
            Child::Node(n) => picture.nodes[*n].heat.clone(),
            Child::Block(inner) => found[*inner].clone(),
        });
        let own = block.node.and_then(|n| picture.nodes[n].heat.clone());
        found[b] = inside.chain(own).max_by(|a, b| a.0.total_cmp(&b.0));
    }
    found
}

fn places(inside: &Inside) -> Vec<(&'static str, usize, f64, f64, usize)> {
    let place = |(place, at): (&Place, &super::layout::Point)| {
        let (kind, index, port) = match *place {
            Place::Child(Child::Node(n)) => ("n", n, 0),
            Place::Child(Child::Block(b)) => ("b", b, 0),
            Place::Enter((n, port)) => ("i", n, port),
            Place::Leave((n, port)) => ("o", n, port),
        };
        (kind, index, rounded(at.x), rounded(at.y), port)
    };
    inside.places.iter().zip(&inside.layout.centers).map(place).collect()
}

fn edges(inside: &Inside) -> Vec<(usize, usize, usize, usize, Vec<f64>)> {
    let edge = |(&(from, to, (n, port)), route): (&(usize, usize, _), &Vec<_>)| {
        let point = |p: &super::layout::Point| [rounded(p.x), rounded(p.y)];
        (from, to, n, port, route.iter().flat_map(point).collect())
    };
    inside.edges.iter().zip(&inside.layout.routes).map(edge).collect()
}

/// To a tenth of a pixel, which makes the page a third smaller.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
