//! Horizontal coordinates after Brandes and Köpf: vertices are aligned with a median neighbour in
//! four ways, each is compacted, and the middle of the four is taken.

use super::Layered;
use std::collections::HashSet;

/// The middle of each vertex.
pub(super) fn horizontal(layered: &Layered, gap: f64) -> Vec<f64> {
    let conflicts = conflicts(layered);
    let mut ways: Vec<Vec<f64>> = Vec::with_capacity(4);
    for upward in [false, true] {
        for mirrored in [false, true] {
            let ranks = turned(layered, upward, mirrored);
            let neighbours = if upward { &layered.below } else { &layered.above };
            let roots = align(layered, &ranks, neighbours, &conflicts);
            let mut xs = compact(layered, &ranks, &roots, gap);
            if mirrored {
                xs.iter_mut().for_each(|x| *x = -*x);
            }
            ways.push(xs);
        }
    }
    middle(&mut ways, layered)
}

/// The ranks as one of the four ways sees them.
fn turned(layered: &Layered, upward: bool, mirrored: bool) -> Vec<Vec<usize>> {
    let mut ranks = layered.ranks.clone();
    if upward {
        ranks.reverse();
    }
    if mirrored {
        ranks.iter_mut().for_each(|rank| rank.reverse());
    }
    ranks
}

/// Segments that cross a segment between two lanes, which is to be straight.
fn conflicts(layered: &Layered) -> HashSet<(usize, usize)> {
    let mut places = vec![0; layered.vertices.len()];
    for rank in &layered.ranks {
        rank.iter().enumerate().for_each(|(place, &v)| places[v] = place);
    }
    let lane_above = |v: usize| {
        let is_lane = |u: &&usize| layered.vertices[**u].is_lane && layered.vertices[v].is_lane;
        layered.above[v].iter().find(is_lane).copied()
    };
    let mut found = HashSet::new();
    for pair in layered.ranks.windows(2) {
        let (mut left, mut from) = (0, 0);
        for (i, &v) in pair[1].iter().enumerate() {
            let inner = lane_above(v);
            if inner.is_none() && i + 1 < pair[1].len() {
                continue;
            }
            let right = inner.map_or(pair[0].len().saturating_sub(1), |u| places[u]);
            for &w in &pair[1][from..=i] {
                for &u in &layered.above[w] {
                    let crosses = places[u] < left || places[u] > right;
                    let both = layered.vertices[u].is_lane && layered.vertices[w].is_lane;
                    if crosses && !both {
                        found.insert((u, w));
                    }
                }
            }
            (left, from) = (right, i + 1);
        }
    }
    found
}

/// The first vertex of the column that each vertex is in.
fn align(
    layered: &Layered,
    ranks: &[Vec<usize>],
    neighbours: &[Vec<usize>],
    conflicts: &HashSet<(usize, usize)>,
) -> Vec<usize> {
    let count = layered.vertices.len();
    let mut places = vec![0; count];
    for rank in ranks {
        rank.iter().enumerate().for_each(|(place, &v)| places[v] = place);
    }
    let mut roots: Vec<usize> = (0..count).collect();
    let mut taken = vec![false; count];
    for rank in ranks {
        let mut free_from = 0;
        for &v in rank {
            let mut list = neighbours[v].clone();
            list.sort_unstable_by_key(|&u| places[u]);
            list.dedup();
            let Some(last) = list.len().checked_sub(1) else { continue };
            for middle in [last / 2, last.div_ceil(2)] {
                let u = list[middle];
                let conflict = conflicts.contains(&(u, v)) || conflicts.contains(&(v, u));
                if !taken[u] && !conflict && places[u] >= free_from {
                    taken[u] = true;
                    roots[v] = roots[u];
                    free_from = places[u] + 1;
                    break;
                }
            }
        }
    }
    roots
}

/// Columns as far left as their neighbours allow, then as far right as the next ones allow.
fn compact(layered: &Layered, ranks: &[Vec<usize>], roots: &[usize], gap: f64) -> Vec<f64> {
    let count = layered.vertices.len();
    let mut next: Vec<Vec<(usize, f64)>> = vec![Vec::new(); count];
    let mut waits = vec![0usize; count];
    for pair in ranks.iter().flat_map(|rank| rank.windows(2)) {
        let [a, b] = [pair[0], pair[1]].map(|v| layered.vertices[v]);
        let between = if a.is_lane && b.is_lane { 0.0 } else { gap };
        let apart = (a.width + b.width) / 2.0 + between;
        next[roots[pair[0]]].push((roots[pair[1]], apart));
        waits[roots[pair[1]]] += 1;
    }
    let mut order: Vec<usize> = (0..count).filter(|&v| roots[v] == v && waits[v] == 0).collect();
    let mut xs = vec![0.0; count];
    let mut done = 0;
    while let Some(&v) = order.get(done) {
        done += 1;
        for &(w, apart) in &next[v] {
            xs[w] = f64::max(xs[w], xs[v] + apart);
            waits[w] -= 1;
            if waits[w] == 0 {
                order.push(w);
            }
        }
    }
    for &v in order.iter().rev() {
        let room = next[v].iter().map(|&(w, apart)| xs[w] - apart).fold(f64::INFINITY, f64::min);
        if room.is_finite() {
            xs[v] = f64::max(xs[v], room);
        }
    }
    (0..count).map(|v| xs[roots[v]]).collect()
}

/// Lays the four ways over the narrowest of them and takes the mean of the middle two.
fn middle(ways: &mut [Vec<f64>], layered: &Layered) -> Vec<f64> {
    let extent = |xs: &[f64]| {
        let ends = xs.iter().zip(&layered.vertices);
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (x, v)| {
            (low.min(x - v.width / 2.0), high.max(x + v.width / 2.0))
        })
    };
    let extents: Vec<(f64, f64)> = ways.iter().map(|xs| extent(xs)).collect();
    let narrowest = extents.iter().min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    let Some(&(low, high)) = narrowest else { return Vec::new() };
    for (way, (xs, own)) in ways.iter_mut().zip(&extents).enumerate() {
        // Odd ways were compacted from the right.
        let shift = if way % 2 == 0 { low - own.0 } else { high - own.1 };
        xs.iter_mut().for_each(|x| *x += shift);
    }
    let mean = |v: usize| {
        let mut four: Vec<f64> = ways.iter().map(|xs| xs[v]).collect();
        four.sort_unstable_by(f64::total_cmp);
        (four[1] + four[2]) / 2.0
    };
    (0..layered.vertices.len()).map(mean).collect()
}
