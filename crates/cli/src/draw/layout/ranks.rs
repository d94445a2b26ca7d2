//! Which edges are turned round, and the rank of each item.

use super::{Item, Side};

/// Edges that close a circle, found by a walk in depth.
pub(super) fn turned(count: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (e, &(from, _)) in edges.iter().enumerate() {
        leaving[from].push(e);
    }
    let mut turned: Vec<bool> = vec![false; edges.len()];
    let (mut seen, mut open) = (vec![false; count], vec![false; count]);
    for start in 0..count {
        let mut stack = vec![(start, 0)];
        while let Some((at, next)) = stack.pop() {
            if next == 0 {
                if seen[at] {
                    continue;
                }
                (seen[at], open[at]) = (true, true);
            }
            let Some(&e) = leaving[at].get(next) else {
                open[at] = false;
                continue;
            };
            stack.push((at, next + 1));
            let to = edges[e].1;
            if open[to] {
                turned[e] = true;
            } else {
                stack.push((to, 0));
            }
        }
    }
    turned
}

/// The rank of each item: one more than that of what it follows, and as near to what it feeds as
/// that allows where it feeds more than it is fed by.
pub(super) fn ranks(items: &[Item], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    for &(from, to) in edges.iter().filter(|(from, to)| from != to) {
        into[to].push(from);
        out[from].push(to);
    }
    let order = order(&into, &out);
    let first = usize::from(items.iter().any(|item| item.side == Side::Top));
    let mut ranks = vec![0; items.len()];
    for &v in &order {
        let after = into[v].iter().map(|&u| ranks[u] + 1).max().unwrap_or(first);
        ranks[v] = if items[v].side == Side::Top { 0 } else { after.max(first) };
    }
    for _ in 0..2 {
        for &v in order.iter().rev().filter(|&&v| items[v].side == Side::Inside) {
            let before = out[v].iter().map(|&w| ranks[w] - 1).min();
            if let Some(before) = before.filter(|_| out[v].len() > into[v].len()) {
                ranks[v] = ranks[v].max(before);
            }
        }
    }
    let inside = (0..items.len()).filter(|&v| items[v].side != Side::Bottom);
    let last = inside.map(|v| ranks[v] + 1).max().unwrap_or(0);
    for (rank, _) in ranks.iter_mut().zip(items).filter(|(_, item)| item.side == Side::Bottom) {
        *rank = last.max(*rank);
    }
    ranks
}

/// Sources before targets.
fn order(into: &[Vec<usize>], out: &[Vec<usize>]) -> Vec<usize> {
    let mut waits: Vec<usize> = into.iter().map(Vec::len).collect();
    let mut order: Vec<usize> = (0..into.len()).filter(|&v| waits[v] == 0).collect();
    let mut next = 0;
    while let Some(&v) = order.get(next) {
        next += 1;
        for &w in &out[v] {
            waits[w] -= 1;
            if waits[w] == 0 {
                order.push(w);
            }
        }
    }
    order
}
