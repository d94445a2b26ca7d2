//! A picture as SVG. Blocks are open down to some depth; colours follow the reader's theme.

use super::arrange::{self, Inside, LINE, MARGIN, Place, TITLE, Tensor};
use super::blocks::{Blocks, Child};
use super::labels::{Area, Labels};
use super::layout::Point;
use super::picture::{Node, Picture};
use crate::text::xml;
use std::fmt::Write;

/// Colours of the kinds and of everything else, in light and dark.
pub(super) const STYLE: &str = include_str!("page/colors.css");
/// The end of an edge.
const ARROW: &str = "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
    markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\" markerUnits=\"userSpaceOnUse\">\
    <path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n";
/// Room around the whole.
const BORDER: f64 = 16.0;

/// Draws the layers that `shown` chooses, with blocks open to a depth.
pub(super) fn svg(picture: &Picture, shown: &dyn Fn(&Node) -> bool, depth: usize) -> String {
    let blocks = Blocks::new(picture, shown);
    let is_open = |block: usize| blocks.around(block).len() <= depth.saturating_add(1);
    let insides = arrange::arrange(picture, &blocks, &is_open);
    let inside = &insides[0].layout;
    let (width, height) = (inside.width + 2.0 * BORDER, inside.height + 2.0 * BORDER);
    let mut drawing = Drawing {
        picture,
        blocks: &blocks,
        insides: &insides,
        is_open: &is_open,
        boxes: String::new(),
        edges: String::new(),
        areas: Vec::new(),
        ends: Vec::new(),
    };
    drawing.inside(0, Point { x: BORDER, y: BORDER });
    drawing.labels((width, height));
    let Drawing { boxes, edges, .. } = drawing;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
         {ARROW}<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{boxes}{edges}</svg>\n",
        xml(&picture.name),
    )
}

struct Drawing<'a> {
    picture: &'a Picture,
    blocks: &'a Blocks,
    insides: &'a [Inside],
    is_open: &'a dyn Fn(usize) -> bool,
    boxes: String,
    edges: String,
    /// What no label may cover.
    areas: Vec<Area>,
    /// The edges that end at a box, and what flows there.
    ends: Vec<(Vec<Point>, Tensor)>,
}

impl Drawing<'_> {
    fn inside(&mut self, block: usize, corner: Point) {
        let insides = self.insides;
        let inside = &insides[block];
        for (place, center) in inside.places.iter().zip(&inside.layout.centers) {
            let center = moved(*center, corner);
            match place {
                Place::Child(Child::Node(n)) => self.node(*n, center),
                Place::Child(Child::Block(b)) => self.block(*b, center),
                Place::Enter(_) | Place::Leave(_) => {}
            }
        }
        for ((from, to, tensor), route) in inside.edges.iter().zip(&inside.layout.routes) {
            let mut points: Vec<Point> = route.iter().map(|p| moved(*p, corner)).collect();
            let (from, to) = (inside.places[*from], inside.places[*to]);
            if let Some(pin) = self.pin(block, from, Place::Leave(*tensor), corner) {
                points[0].x = pin;
            }
            let last = points.len() - 1;
            // Through the border.
            if matches!(from, Place::Enter(_)) {
                points[0].y -= TITLE + MARGIN;
            }
            if matches!(to, Place::Leave(_)) {
                points[last].y += MARGIN;
            }
            if let Some(pin) = self.pin(block, to, Place::Enter(*tensor), corner) {
                points[last].x = pin;
            }
            let ends = matches!(to, Place::Child(_)) && !self.is_open_block(to);
            self.edge(&points, *tensor, ends);
        }
    }

    fn is_open_block(&self, place: Place) -> bool {
        matches!(place, Place::Child(Child::Block(b)) if (self.is_open)(b))
    }

    /// Where a tensor goes through the border of an open block, from the left of the picture.
    fn pin(&self, around: usize, place: Place, pin: Place, corner: Point) -> Option<f64> {
        let Place::Child(Child::Block(block)) = place else { return None };
        if !(self.is_open)(block) {
            return None;
        }
        let at = self.insides[around].places.iter().position(|p| *p == place)?;
        let center = moved(self.insides[around].layout.centers[at], corner);
        let inside = &self.insides[block];
        let pin = inside.places.iter().position(|p| *p == pin)?;
        Some(center.x - inside.layout.width / 2.0 + inside.layout.centers[pin].x)
    }

    fn node(&mut self, n: usize, center: Point) {
        let node = &self.picture.nodes[n];
        let (width, height) = arrange::box_of(self.picture, node);
        let (x, y) = (center.x - width / 2.0, center.y - height / 2.0);
        self.areas.push(Area { x, y, width, height });
        let heat = node.heat.as_ref().map(|(heat, _)| heat_style(*heat)).unwrap_or_default();
        let hot = if node.heat.is_some() { " hot" } else { "" };
        let out = &mut self.boxes;
        let _ = write!(
            out,
            "<g class=\"node {}{hot}\"><title>{} {}</title>\
             <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height}\" rx=\"5\"{heat}/>\
             <text class=\"type\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            node.kind.name(),
            xml(&node.op_type),
            xml(&node.name),
            center.x,
            y + 17.0,
            xml(&node.op_type),
        );
        for (i, line) in arrange::lines(self.picture, node).iter().enumerate() {
            let (x, y) = (center.x, y + 18.0 + LINE * (i + 1) as f64);
            let _ =
                write!(out, "<text class=\"line\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", xml(line));
        }
        out.push_str("</g>\n");
    }

    fn block(&mut self, b: usize, center: Point) {
        let block = &self.blocks.list[b];
        let is_open = (self.is_open)(b);
        let (width, height) = arrange::size(self.blocks, self.insides, b, is_open);
        let (x, y) = (center.x - width / 2.0, center.y - height / 2.0);
        let kind = block.node.map_or("", |n| self.picture.nodes[n].kind.name());
        let state = if is_open { "open" } else { "closed" };
        let text_x = if is_open { x + 12.0 } else { center.x };
        let title = arrange::text_width(&block.title) + 24.0;
        let (covered, deep) = if is_open { (title, TITLE) } else { (width, height) };
        self.areas.push(Area { x, y, width: covered, height: deep });
        let _ = write!(
            self.boxes,
            "<g class=\"block {state} {kind}\"><rect x=\"{x:.1}\" y=\"{y:.1}\" \
             width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>\
             <text class=\"title\" x=\"{text_x:.1}\" y=\"{:.1}\">{}</text>",
            y + 19.0,
            xml(&block.title),
        );
        if !is_open {
            let layers = crate::text::plural(block.layers, "layer");
            let _ = write!(
                self.boxes,
                "<text class=\"line\" x=\"{:.1}\" y=\"{:.1}\">{layers}</text>",
                center.x,
                y + 36.0
            );
        }
        self.boxes.push_str("</g>\n");
        if is_open {
            let inner = &self.insides[b].layout;
            let corner = Point { x: center.x - inner.width / 2.0, y: y + TITLE + MARGIN };
            self.inside(b, corner);
        }
    }

    fn edge(&mut self, points: &[Point], tensor: Tensor, ends: bool) {
        let marker = if ends { " marker-end=\"url(#arrow)\"" } else { "" };
        let _ = writeln!(self.edges, "<path class=\"edge\" d=\"{}\"{marker}/>", path(points));
        if ends {
            self.ends.push((points.to_vec(), tensor));
        }
    }

    /// Labels the edges, once it is known where everything is.
    fn labels(&mut self, size: (f64, f64)) {
        let mut labels = Labels::new(size, std::mem::take(&mut self.areas));
        for (points, tensor) in std::mem::take(&mut self.ends) {
            let Some(fact) = self.picture.nodes[tensor.0].outputs.get(tensor.1) else { continue };
            let Some(Point { x, y }) = labels.place(&points, fact) else { continue };
            let _ = writeln!(
                self.edges,
                "<text class=\"shape\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                xml(fact)
            );
        }
    }
}

fn moved(point: Point, by: Point) -> Point {
    Point { x: point.x + by.x, y: point.y + by.y }
}

/// A curve that leaves each point downwards.
fn path(points: &[Point]) -> String {
    let mut path = String::new();
    for (i, point) in points.iter().enumerate() {
        let Some(before) = i.checked_sub(1).map(|i| points[i]) else {
            let _ = write!(path, "M{:.1} {:.1}", point.x, point.y);
            continue;
        };
        if (before.x - point.x).abs() < 0.5 {
            let _ = write!(path, "L{:.1} {:.1}", point.x, point.y);
        } else {
            let middle = (before.y + point.y) / 2.0;
            let _ = write!(
                path,
                "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}",
                before.x, point.x, point.x, point.y
            );
        }
    }
    path
}

/// The fill of a heat from 0 to 1: from yellow to red.
fn heat_style(heat: f64) -> String {
    format!(" style=\"fill:hsl({:.0} 90% {:.0}%)\"", 55.0 * (1.0 - heat), 85.0 - 25.0 * heat)
}
