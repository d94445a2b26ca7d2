//! Unique elements, or unique slices along an axis. -0 equals 0. NaN differs from everything,
//! including itself, and is larger.

use crate::base::num::Stored;
use crate::base::slices::AlongAxis;
use crate::search::order::Order;

/// The unique elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unique {
    /// The position of the first occurrence of each.
    pub first: Vec<usize>,
    /// For each element, the index of the unique one that it equals.
    pub inverse: Vec<usize>,
    /// The number of occurrences of each.
    pub counts: Vec<usize>,
}

/// Compares the slices along an axis, element by element in order. The result is `sorted`, or in
/// the order of first occurrence.
///
/// # Panics
/// When the data does not have these sizes.
pub fn unique<T: Stored>(data: &[T], along: AlongAxis, sorted: bool) -> Unique
where
    T::Wide: Order,
{
    assert_eq!(data.len(), along.count());
    let AlongAxis { outer, size, inner } = along;
    let len = outer * inner;
    let mut ranks = Vec::with_capacity(data.len());
    let mut comparable = vec![true; size];
    for (i, o) in (0..size).flat_map(|i| (0..outer).map(move |o| (i, o))) {
        let run = &data[(o * size + i) * inner..][..inner];
        ranks.extend(run.iter().map(|v| v.widen().rank()));
        #[allow(clippy::eq_op)] // NaN is not equal to itself
        let equal = run.iter().all(|v| *v == *v);
        comparable[i] &= equal;
    }
    let found = distinct(&ranks, len, &comparable);
    if sorted { found } else { by_occurrence(&found) }
}

/// The unique slices of `len` ranks, sorted; those that are not `comparable` differ from all.
fn distinct<R: Ord>(ranks: &[R], len: usize, comparable: &[bool]) -> Unique {
    let slice = |i: usize| &ranks[i * len..][..len];
    let size = comparable.len();
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_unstable_by(|a, b| slice(*a).cmp(slice(*b)).then(a.cmp(b)));
    let mut found = Unique { inverse: vec![0; size], ..Unique::default() };
    let mut previous = None;
    for &i in &order {
        if !previous.is_some_and(|p| comparable[i] && slice(p) == slice(i)) {
            // Equal slices are in order, so this is the first occurrence.
            found.first.push(i);
            found.counts.push(0);
        }
        let last = found.first.len() - 1;
        found.inverse[i] = last;
        found.counts[last] += 1;
        previous = Some(i);
    }
    found
}

/// The same in the order of first occurrence.
fn by_occurrence(found: &Unique) -> Unique {
    let mut order: Vec<usize> = (0..found.first.len()).collect();
    order.sort_unstable_by_key(|i| found.first[*i]);
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, from)| place[*from] = to);
    Unique {
        first: order.iter().map(|i| found.first[*i]).collect(),
        inverse: found.inverse.iter().map(|i| place[*i]).collect(),
        counts: order.iter().map(|i| found.counts[*i]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of one element.
    fn along(outer: usize, size: usize) -> AlongAxis {
        AlongAxis { outer, size, inner: 1 }
    }

    #[test]
    fn elements_sorted_or_as_they_occur() {
        let data = [3i8, -1, 3, 7, -1, 3];
        let found = unique(&data, along(1, 6), true);
        assert_eq!((found.first, found.counts), (vec![1, 0, 3], vec![2, 3, 1]));
        assert_eq!(found.inverse, [1, 0, 1, 2, 0, 1]);
        let found = unique(&data, along(1, 6), false);
        assert_eq!((found.first, found.counts), (vec![0, 1, 3], vec![3, 2, 1]));
        assert_eq!(found.inverse, [0, 1, 0, 2, 1, 0]);
    }

    #[test]
    fn slices_and_special_values() {
        let found = unique(&[1, 2, 1, 5, 6, 5], along(2, 3), true);
        assert_eq!((found.first, found.inverse), (vec![0, 1], vec![0, 1, 0]));
        let data = [f32::NAN, 0.0, -0.0, f32::NAN];
        assert_eq!(unique(&data, along(1, 4), true).first, [1, 0, 3]);
        assert_eq!(unique(&[i64::MAX; 2], along(1, 2), true).counts, [2]);
        assert_eq!(unique::<u8>(&[], AlongAxis { outer: 0, size: 3, inner: 2 }, false).counts, [3]);
        assert_eq!(unique::<u8>(&[], along(1, 0), true), Unique::default());
    }
}
