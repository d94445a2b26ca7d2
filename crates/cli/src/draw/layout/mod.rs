//! Layered layout of a directed graph, as Sugiyama has it: ranks, few crossings, coordinates.
//!
//! Edges run from top to bottom; those of a circle that cannot are turned round for the layout.
//! Edges over several ranks pass each rank between them at a point of its own, so that they cross
//! no box.

mod coordinates;
mod crossings;
mod ranks;

/// A place in the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
}

/// What is placed: a box, or a point at the border where edges come in or go out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Width of the box.
    pub width: f64,
    /// Height of the box.
    pub height: f64,
    /// Whether it has to be at a border.
    pub side: Side,
}

/// Where an item may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Above all others.
    Top,
    /// Anywhere.
    Inside,
    /// Below all others.
    Bottom,
}

/// Where everything is.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Width of the whole.
    pub width: f64,
    /// Height of the whole.
    pub height: f64,
    /// The middle of each item.
    pub centers: Vec<Point>,
    /// The points that each edge goes through, from its source to its target.
    pub routes: Vec<Vec<Point>>,
}

/// Room between two ranks, in which labels of edges stand.
pub(super) const RANK_GAP: f64 = 44.0;
/// Room between neighbours.
const GAP: f64 = 22.0;
/// Width of an edge that passes a rank.
const LANE: f64 = 14.0;
/// Most points at which edges pass ranks. A file could have more edges over more ranks than there
/// is memory for; the longest of them are then drawn straight.
const MOST_LANES: usize = 150_000;

/// A vertex of the layered graph: an item, or where an edge passes a rank.
#[derive(Clone, Copy, Debug)]
struct Vertex {
    rank: usize,
    width: f64,
    is_lane: bool,
}

/// The graph once each edge leads from one rank to the next.
struct Layered {
    vertices: Vec<Vertex>,
    /// Vertices of each rank, from left to right.
    ranks: Vec<Vec<usize>>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The vertices of each edge, from top to bottom; none for an edge that is drawn straight.
    chains: Vec<Vec<usize>>,
}

/// Places items so that edges lead downwards.
pub(super) fn lay_out(items: &[Item], edges: &[(usize, usize)]) -> Layout {
    let turned = ranks::turned(items.len(), edges);
    let downward: Vec<(usize, usize)> =
        edges.iter().zip(&turned).map(|(&(a, b), &t)| if t { (b, a) } else { (a, b) }).collect();
    let ranks = ranks::ranks(items, &downward);
    let mut layered = Layered::new(items, &downward, &ranks);
    crossings::reduce(&mut layered);
    let xs = coordinates::horizontal(&layered, GAP);
    let mut layout = place(items, &layered, &xs, &downward);
    for (route, _) in layout.routes.iter_mut().zip(&turned).filter(|(_, turned)| **turned) {
        route.reverse();
    }
    layout
}

impl Layered {
    fn new(items: &[Item], edges: &[(usize, usize)], ranks: &[usize]) -> Layered {
        let count = ranks.iter().max().map_or(0, |last| last + 1);
        let vertex =
            |(item, &rank): (&Item, &usize)| Vertex { rank, width: item.width, is_lane: false };
        let mut layered = Layered {
            vertices: items.iter().zip(ranks).map(vertex).collect(),
            ranks: vec![Vec::new(); count],
            above: vec![Vec::new(); items.len()],
            below: vec![Vec::new(); items.len()],
            chains: Vec::with_capacity(edges.len()),
        };
        let longest = longest_with_lanes(edges, ranks);
        for &(from, to) in edges {
            let chain = if ranks[to] - ranks[from] <= longest && from != to {
                layered.chain(from, to)
            } else {
                Vec::new()
            };
            layered.chains.push(chain);
        }
        for (v, vertex) in layered.vertices.iter().enumerate() {
            layered.ranks[vertex.rank].push(v);
        }
        layered
    }

    fn chain(&mut self, from: usize, to: usize) -> Vec<usize> {
        let mut chain = vec![from];
        for rank in self.vertices[from].rank + 1..self.vertices[to].rank {
            chain.push(self.vertices.len());
            self.vertices.push(Vertex { rank, width: LANE, is_lane: true });
            self.above.push(Vec::new());
            self.below.push(Vec::new());
        }
        chain.push(to);
        for pair in chain.windows(2) {
            self.below[pair[0]].push(pair[1]);
            self.above[pair[1]].push(pair[0]);
        }
        chain
    }
}

/// The number of ranks that an edge may span and still have a lane, so that there are not too many.
fn longest_with_lanes(edges: &[(usize, usize)], ranks: &[usize]) -> usize {
    let mut spans: Vec<usize> = edges.iter().map(|&(a, b)| ranks[b] - ranks[a]).collect();
    spans.sort_unstable();
    let mut total = 0usize;
    let fits = spans.iter().take_while(|span| {
        total = total.saturating_add(**span);
        total <= MOST_LANES
    });
    fits.last().copied().unwrap_or(0)
}

/// Heights of ranks, the ends of edges, and the size of the whole.
fn place(items: &[Item], layered: &Layered, xs: &[f64], edges: &[(usize, usize)]) -> Layout {
    let height = |v: &usize| items.get(*v).map_or(0.0, |item| item.height);
    let mut tops = Vec::with_capacity(layered.ranks.len());
    let mut heights = Vec::with_capacity(layered.ranks.len());
    let mut y = 0.0;
    for rank in &layered.ranks {
        let tallest = rank.iter().map(height).fold(0.0, f64::max);
        tops.push(y);
        heights.push(tallest);
        y += tallest + RANK_GAP;
    }
    let left = xs.iter().zip(&layered.vertices).map(|(x, v)| x - v.width / 2.0);
    let left = left.fold(f64::INFINITY, f64::min).min(0.0);
    let right = xs.iter().zip(&layered.vertices).map(|(x, v)| x + v.width / 2.0);
    let width = right.fold(0.0, f64::max) - left;
    let center = |v: usize| {
        let rank = layered.vertices[v].rank;
        Point { x: xs[v] - left, y: tops[rank] + heights[rank] / 2.0 }
    };
    let centers: Vec<Point> = (0..items.len()).map(center).collect();
    let mut routes: Vec<Vec<Point>> = Vec::with_capacity(edges.len());
    for (chain, &(from, to)) in layered.chains.iter().zip(edges) {
        let mut route = vec![below(centers[from], &items[from])];
        for &lane in chain.iter().skip(1).rev().skip(1).rev() {
            let (rank, x) = (layered.vertices[lane].rank, xs[lane] - left);
            route.push(Point { x, y: tops[rank] });
            route.push(Point { x, y: tops[rank] + heights[rank] });
        }
        route.push(above(centers[to], &items[to]));
        routes.push(route);
    }
    spread(items, edges, &mut routes);
    Layout { width, height: (y - RANK_GAP).max(0.0), centers, routes }
}

fn below(center: Point, item: &Item) -> Point {
    Point { y: center.y + item.height / 2.0, ..center }
}

fn above(center: Point, item: &Item) -> Point {
    Point { y: center.y - item.height / 2.0, ..center }
}

/// Gives edges that meet at one side of an item an end each, in the order in which they come.
fn spread(items: &[Item], edges: &[(usize, usize)], routes: &mut [Vec<Point>]) {
    let mut ends: Vec<[Vec<usize>; 2]> = vec![Default::default(); items.len()];
    for (e, &(from, to)) in edges.iter().enumerate() {
        ends[from][0].push(e);
        ends[to][1].push(e);
    }
    for (item, sides) in items.iter().zip(ends) {
        for (side, mut list) in sides.into_iter().enumerate() {
            let at = |route: &[Point], back: usize| match side {
                0 => back.min(route.len() - 1),
                _ => route.len() - 1 - back.min(route.len() - 1),
            };
            let next = |e: &usize| routes[*e][at(&routes[*e], 1)].x;
            list.sort_by(|a, b| next(a).total_cmp(&next(b)));
            let step = (item.width * 0.7 / list.len().max(1) as f64).min(20.0);
            for (i, e) in list.iter().enumerate() {
                let end = at(&routes[*e], 0);
                routes[*e][end].x += step * (i as f64 - (list.len() - 1) as f64 / 2.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(widths: &[f64]) -> Vec<Item> {
        widths.iter().map(|&width| Item { width, height: 30.0, side: Side::Inside }).collect()
    }

    fn overlaps(items: &[Item], layout: &Layout) -> bool {
        let meets = |a: usize, b: usize| {
            let (p, q) = (layout.centers[a], layout.centers[b]);
            (p.x - q.x).abs() < (items[a].width + items[b].width) / 2.0
                && (p.y - q.y).abs() < (items[a].height + items[b].height) / 2.0
        };
        (0..items.len()).any(|a| (0..a).any(|b| meets(a, b)))
    }

    #[test]
    fn a_chain_is_a_straight_line() {
        let layout = lay_out(&boxes(&[80.0, 200.0, 40.0]), &[(0, 1), (1, 2)]);
        let xs: Vec<f64> = layout.centers.iter().map(|c| c.x).collect();
        assert_eq!(xs, [100.0, 100.0, 100.0]);
        assert_eq!(layout.width, 200.0);
        assert_eq!(layout.height, 3.0 * 30.0 + 2.0 * RANK_GAP);
    }

    #[test]
    fn edges_go_down_and_boxes_do_not_overlap() {
        // A graph of some hundred layers with skips, drawn by a linear congruence.
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let widths: Vec<f64> = (0..300).map(|_| 20.0 + next(150) as f64).collect();
        let edges: Vec<(usize, usize)> =
            (1..300).flat_map(|to| [(next(to), to), (to - 1 - next(to.min(9)), to)]).collect();
        let items = boxes(&widths);
        let layout = lay_out(&items, &edges);
        assert!(!overlaps(&items, &layout));
        for (&(from, to), route) in edges.iter().zip(&layout.routes) {
            assert!(layout.centers[from].y < layout.centers[to].y);
            assert!(route.windows(2).all(|p| p[0].y <= p[1].y), "{route:?}");
        }
        let inside = |p: &Point| (0.0..=layout.width).contains(&p.x) && p.y <= layout.height;
        assert!(layout.routes.iter().flatten().all(inside));
    }

    #[test]
    fn circles_end() {
        let layout = lay_out(&boxes(&[10.0, 10.0, 10.0]), &[(0, 1), (1, 2), (2, 0), (1, 1)]);
        assert!(layout.centers[0].y < layout.centers[2].y);
        assert!(layout.routes[2][0].y > layout.routes[2].last().unwrap().y);
    }

    #[test]
    fn pins_are_at_the_borders() {
        let mut items = boxes(&[10.0, 10.0, 1.0, 1.0]);
        items[2].side = Side::Top;
        items[3].side = Side::Bottom;
        // The top pin is read last, the bottom pin fed first.
        let layout = lay_out(&items, &[(0, 1), (2, 1), (0, 3)]);
        let y = |i: usize| layout.centers[i].y;
        assert!(y(2) < y(0) && y(1) < y(3));
    }

    #[test]
    fn a_ladder_has_no_crossing() {
        // Two chains side by side whose edges are given in mixed order.
        let edges = [(1, 2), (0, 3), (3, 4), (2, 5)];
        let layout = lay_out(&boxes(&[20.0; 6]), &edges);
        let side = |a: usize, b: usize| layout.centers[a].x < layout.centers[b].x;
        assert_eq!(side(0, 1), side(3, 2));
        assert_eq!(side(3, 2), side(4, 5));
    }

    #[test]
    fn nothing_is_laid_out_as_nothing() {
        let layout = lay_out(&[], &[]);
        assert_eq!((layout.width, layout.height), (0.0, 0.0));
    }
}
