//! The order within each rank: sweeps by barycentres, of which the best stays.

use super::Layered;

/// Sweeps down and up.
const SWEEPS: usize = 24;
/// Sweeps without a better order, after which there is no more to expect.
const PATIENCE: usize = 6;

/// Orders the vertices of each rank so that edges cross seldom.
pub(super) fn reduce(layered: &mut Layered) {
    depth_first(layered);
    let mut best = layered.ranks.clone();
    let mut fewest = crossings(layered);
    let mut since = 0;
    for sweep in 0..SWEEPS {
        if fewest == 0 || since == PATIENCE {
            break;
        }
        sweep_once(layered, sweep % 2 == 0, sweep % 4 < 2);
        let count = crossings(layered);
        since += 1;
        if count < fewest {
            (fewest, since) = (count, 0);
            best.clone_from(&layered.ranks);
        }
    }
    layered.ranks = best;
}

/// A first order: neighbours of a vertex come one after the other.
fn depth_first(layered: &mut Layered) {
    let mut seen = vec![false; layered.vertices.len()];
    let mut ranks = vec![Vec::new(); layered.ranks.len()];
    for start in layered.ranks.iter().flatten().copied() {
        let mut stack = vec![start];
        while let Some(v) = stack.pop() {
            if std::mem::replace(&mut seen[v], true) {
                continue;
            }
            ranks[layered.vertices[v].rank].push(v);
            stack.extend(layered.below[v].iter().rev().filter(|w| !seen[**w]));
        }
    }
    layered.ranks = ranks;
}

/// Sorts each rank by the mean place of the neighbours in the rank before it; `later` puts what is
/// equal behind.
fn sweep_once(layered: &mut Layered, down: bool, later: bool) {
    let mut places = places(layered);
    let count = layered.ranks.len();
    for step in 1..count {
        let rank = if down { step } else { count - 1 - step };
        let neighbours = if down { &layered.above } else { &layered.below };
        let mean = |v: usize| {
            let list = &neighbours[v];
            let sum: usize = list.iter().map(|&u| places[u]).sum();
            if list.is_empty() { places[v] as f64 } else { sum as f64 / list.len() as f64 }
        };
        let mut keyed: Vec<(f64, usize)> =
            layered.ranks[rank].iter().map(|&v| (mean(v), v)).collect();
        if later {
            keyed.reverse();
        }
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (place, (slot, (_, v))) in layered.ranks[rank].iter_mut().zip(keyed).enumerate() {
            *slot = v;
            places[v] = place;
        }
    }
}

fn places(layered: &Layered) -> Vec<usize> {
    let mut places = vec![0; layered.vertices.len()];
    for rank in &layered.ranks {
        for (place, &v) in rank.iter().enumerate() {
            places[v] = place;
        }
    }
    places
}

/// How often edges cross: inversions between neighbouring ranks, counted in a Fenwick tree.
fn crossings(layered: &Layered) -> usize {
    let places = places(layered);
    let mut total = 0;
    for pair in layered.ranks.windows(2) {
        let mut tree = vec![0usize; pair[1].len() + 1];
        let mut before = 0;
        for &v in &pair[0] {
            let mut ends: Vec<usize> = layered.below[v].iter().map(|&w| places[w]).collect();
            ends.sort_unstable();
            total += ends.iter().map(|&end| before - sum(&tree, end)).sum::<usize>();
            ends.iter().for_each(|&end| add(&mut tree, end));
            before += ends.len();
        }
    }
    total
}

/// How many ends lie at places up to `place`.
fn sum(tree: &[usize], place: usize) -> usize {
    let mut i = place + 1;
    let mut sum = 0;
    while i > 0 {
        sum += tree[i];
        i &= i - 1;
    }
    sum
}

fn add(tree: &mut [usize], place: usize) {
    let mut i = place + 1;
    while i < tree.len() {
        tree[i] += 1;
        i += i & i.wrapping_neg();
    }
}
