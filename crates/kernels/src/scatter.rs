//! Writes updates into a tensor. Several updates of an element are applied in their order.

use crate::arithmetic::Arithmetic;
use crate::num::{Plain, Stored, Wide};

/// What becomes of an element and its update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The element less the update.
    Sub,
    /// Their product.
    Prod,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// The mean of all of them; of integers rounded down.
    Mean,
}

/// Copies runs of `inner` updates to where `positions` say.
///
/// # Panics
/// When a position is beyond the data, or there are fewer updates than positions.
pub fn replace<T: Plain>(data: &mut [T], positions: &[usize], updates: &[T], inner: usize) {
    if inner == 1 {
        for (position, update) in positions.iter().zip(updates) {
            data[*position] = *update;
        }
        return;
    }
    for (i, position) in positions.iter().enumerate() {
        data[*position..][..inner].copy_from_slice(&updates[i * inner..][..inner]);
    }
}

/// Reduces elements with their updates, as [`replace`] does without a reduction. Unless `initial`,
/// the first update of an element takes its place.
///
/// # Panics
/// As [`replace`].
pub fn reduce<T: Stored>(
    data: &mut [T],
    positions: &[usize],
    (updates, inner): (&[T], usize),
    (reduction, initial): (Reduction, bool),
) where
    T::Wide: Arithmetic + Stored<Wide = T::Wide>,
{
    // f32 is the wide type of f16 and bf16, which are rounded once; sums of small integers have to
    // stay whole for a mean.
    let half = size_of::<T>() < size_of::<T::Wide>() && size_of::<T::Wide>() == size_of::<f32>();
    if half || (reduction == Reduction::Mean && size_of::<T>() < size_of::<T::Wide>()) {
        let mut wide: Vec<T::Wide> = data.iter().map(|v| v.widen()).collect();
        let updates: Vec<T::Wide> = updates.iter().map(|v| v.widen()).collect();
        reduce(&mut wide, positions, (&updates, inner), (reduction, initial));
        for (value, wide) in data.iter_mut().zip(wide) {
            *value = wide.narrow();
        }
        return;
    }
    let runs = Runs { positions, updates, inner };
    let mut counts = match initial && reduction != Reduction::Mean {
        true => Vec::new(),
        false => vec![0; data.len()],
    };
    match reduction {
        Reduction::Sum | Reduction::Mean => {
            runs.apply(data, &mut counts, initial, |a, b| a.add(b));
        }
        Reduction::Sub => runs.apply(data, &mut counts, initial, |a, b| a.sub(b)),
        Reduction::Prod => runs.apply(data, &mut counts, initial, |a, b| a.mul(b)),
        Reduction::Min => {
            runs.apply(data, &mut counts, initial, |a, b| if b < a { b } else { a });
        }
        Reduction::Max => {
            runs.apply(data, &mut counts, initial, |a, b| if b > a { b } else { a });
        }
    }
    if reduction == Reduction::Mean {
        for (value, count) in data.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            let count = (count + u64::from(initial)).narrow();
            *value = value.widen().div(count).narrow();
        }
    }
}

/// Updates and where they go.
struct Runs<'a, T> {
    positions: &'a [usize],
    updates: &'a [T],
    inner: usize,
}

impl<T: Stored> Runs<'_, T> {
    /// Applies `f`, and counts the updates of each element if there are `counts`.
    fn apply(
        &self,
        data: &mut [T],
        counts: &mut [u64],
        initial: bool,
        f: impl Fn(T::Wide, T::Wide) -> T::Wide,
    ) {
        for (i, position) in self.positions.iter().enumerate() {
            let updates = &self.updates[i * self.inner..][..self.inner];
            let run = *position..*position + self.inner;
            let counted = !counts.is_empty();
            for (j, (value, update)) in data[run.clone()].iter_mut().zip(updates).enumerate() {
                let first = counted && counts[run.start + j] == 0;
                if counted {
                    counts[run.start + j] += 1;
                }
                *value = match first && !initial {
                    true => *update,
                    false => f(value.widen(), update.widen()).narrow(),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Bool;

    fn reduced<T: Stored>(data: &[T], updates: &[T], how: (Reduction, bool)) -> Vec<T>
    where
        T::Wide: Arithmetic + Stored<Wide = T::Wide>,
    {
        let mut data = data.to_vec();
        reduce(&mut data, &[1, 0, 0, 2, 3, 2], (updates, 1), how);
        data
    }

    /// The examples of the specification of ScatterElementsUpdate-12, and more of their kind.
    #[test]
    fn reductions() {
        let data = [2i32, 3, 4, 6, 9];
        let updates = [10, 20, 30, 40, 70, 60];
        let ints = |how| reduced(&data, &updates, how);
        assert_eq!(ints((Reduction::Sum, true)), [52, 13, 104, 76, 9]);
        assert_eq!(ints((Reduction::Sum, false)), [50, 10, 100, 70, 9]);
        assert_eq!(ints((Reduction::Sub, true)), [-48, -7, -96, -64, 9]);
        assert_eq!(ints((Reduction::Prod, false)), [600, 10, 2400, 70, 9]);
        assert_eq!(ints((Reduction::Min, true)), [2, 3, 4, 6, 9]);
        assert_eq!(ints((Reduction::Max, false)), [30, 10, 60, 70, 9]);
        assert_eq!(ints((Reduction::Mean, true)), [17, 6, 34, 38, 9]);
        let floats = data.map(|v| v as f32);
        let mean = reduced(&floats, &updates.map(|v| v as f32), (Reduction::Mean, false));
        assert_eq!(mean, [25.0, 10.0, 50.0, 70.0, 9.0]);
        let below = reduced(&[-7i8; 5], &[0; 6], (Reduction::Mean, true));
        assert_eq!(below, [-3, -4, -3, -4, -7]);
        let large = reduced(&[100i8; 5], &[120; 6], (Reduction::Mean, false));
        assert_eq!(large, [120, 120, 120, 120, 100]);
    }

    /// Sum, sub and prod of booleans are or, xor and and.
    #[test]
    fn booleans() {
        let data = [0, 1, 0, 1, 1].map(Bool);
        let updates = [1, 0, 1, 0, 0, 0].map(Bool);
        let bools = |how| {
            let found = reduced(&data, &updates, (how, true));
            found.into_iter().map(|b| b.0).collect::<Vec<u8>>()
        };
        assert_eq!(bools(Reduction::Sum), [1, 1, 0, 1, 1]);
        assert_eq!(bools(Reduction::Sub), [1, 0, 0, 1, 1]);
        assert_eq!(bools(Reduction::Prod), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn runs_are_replaced() {
        let mut data = [0u8; 6];
        replace(&mut data, &[4, 0, 4], &[1, 2, 3, 4, 5, 6], 2);
        assert_eq!(data, [3, 4, 0, 0, 5, 6]);
        replace(&mut data, &[3], &[9], 1);
        assert_eq!(data, [3, 4, 0, 9, 5, 6]);
    }
}
