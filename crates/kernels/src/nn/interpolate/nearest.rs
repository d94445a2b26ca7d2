//! Nearest neighbours: elements that are selected axis by axis.

use super::GRAIN;
use super::lookup::RowLookup;
use super::taps::Taps;
use crate::base::num::Pod;
use crate::base::par::Threads;
use bytemuck::{cast_slice, cast_slice_mut};

/// Selects elements of a tensor, axis by axis.
pub struct Pick {
    /// For each axis that matters, the offset of each of its choices.
    axes: Vec<Vec<usize>>,
    /// Elements that move together.
    inner: usize,
    /// Elements of the data up to the last that can be selected.
    reach: usize,
    /// The choices of the last axis as lookups in registers, if its elements move alone.
    lookup: Option<RowLookup>,
}

impl Pick {
    /// Selects from a tensor of `sizes`: on each axis the listed elements, or all.
    pub fn new(sizes: &[usize], choices: &[Option<Vec<usize>>]) -> Pick {
        let mut stride = 1;
        let mut pick = Pick { axes: Vec::new(), inner: 1, reach: 0, lookup: None };
        for (size, choice) in sizes.iter().zip(choices).rev() {
            match choice {
                None if pick.axes.is_empty() => pick.inner *= size,
                None => pick.axes.push((0..*size).map(|i| i * stride).collect()),
                Some(choice) => pick.axes.push(choice.iter().map(|i| i * stride).collect()),
            }
            stride *= size;
        }
        pick.axes.reverse();
        let last = |axis: &Vec<usize>| axis.iter().max().copied().unwrap_or(0);
        pick.reach = pick.axes.iter().map(last).sum::<usize>() + pick.inner;
        if let (1, Some(choices)) = (pick.inner, pick.axes.last()) {
            let mut taps = Taps::default();
            choices.iter().for_each(|choice| taps.push([(*choice, 1.0)]));
            pick.lookup = RowLookup::new(&taps, choices.iter().max().map_or(0, |last| last + 1));
        }
        pick
    }

    /// Copies the selected elements.
    ///
    /// # Panics
    /// When the output does not have the size of the selection, or a choice is outside the data.
    pub fn run<T: Pod>(&self, threads: &Threads, from: &[T], to: &mut [T]) {
        let (outer, last) = match self.axes.split_last() {
            Some((last, outer)) => (outer, &last[..]),
            None => (&[][..], &[0][..]),
        };
        let row = last.len() * self.inner;
        assert_eq!(to.len(), outer.iter().map(Vec::len).product::<usize>() * row);
        if to.is_empty() {
            return;
        }
        assert!(self.reach <= from.len(), "a choice lies outside the data");
        let is_like_f32 =
            (size_of::<T>(), align_of::<T>()) == (size_of::<f32>(), align_of::<f32>());
        let lookup = self.lookup.as_ref().filter(|_| is_like_f32);
        threads.par_chunks_mut(to, row, GRAIN, |first, rows| {
            for (i, to) in rows.chunks_mut(row).enumerate() {
                let mut rest = first + i;
                let mut base = 0;
                for axis in outer.iter().rev() {
                    base += axis[rest % axis.len()];
                    rest /= axis.len();
                }
                let from = &from[base..];
                if let Some(lookup) = lookup
                    && lookup.elements(cast_slice(&from[..lookup.input()]), cast_slice_mut(to))
                {
                    continue;
                }
                if self.inner == 1 {
                    to.iter_mut().zip(last).for_each(|(to, at)| *to = from[*at]);
                    continue;
                }
                for (to, at) in to.chunks_mut(self.inner).zip(last) {
                    to.copy_from_slice(&from[*at..][..self.inner]);
                }
            }
        });
    }
}
