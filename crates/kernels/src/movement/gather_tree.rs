//! GatherTree: the sequences of a beam search.

use crate::base::num::Pod;

/// Time steps, batches and beams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beams {
    /// Time steps.
    pub steps: usize,
    /// Batches.
    pub batches: usize,
    /// Beams of a batch.
    pub beams: usize,
}

impl Beams {
    /// Follows `parents` from the last step of each sequence to the first. What follows the first
    /// `end` in a sequence becomes `end`.
    ///
    /// # Errors
    /// The first parent that is not a beam.
    ///
    /// # Panics
    /// When a slice does not have the size of the beams; `lengths` has one element per batch.
    pub fn gather<T: Pod>(
        &self,
        (tokens, parents): (&[T], &[i64]),
        lengths: &[i64],
        end: T,
        out: &mut [T],
    ) -> Result<(), i64> {
        let Beams { steps, batches, beams } = *self;
        out.fill(end);
        for (batch, length) in lengths.iter().enumerate() {
            let length = usize::try_from(*length).unwrap_or(0).min(steps);
            for beam in 0..beams {
                let mut parent = beam;
                for step in (0..length).rev() {
                    let row = (step * batches + batch) * beams;
                    out[row + beam] = tokens[row + parent];
                    let above = parents[row + parent];
                    // The parents of the first step are unused.
                    if step > 0 {
                        let beam = usize::try_from(above).ok().filter(|p| *p < beams);
                        parent = beam.ok_or(above)?;
                    }
                }
                let places = (0..length).map(|step| (step * batches + batch) * beams + beam);
                let ended = places.clone().position(|place| out[place] == end);
                for place in places.skip(ended.unwrap_or(length)) {
                    out[place] = end;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand.
    #[test]
    fn sequences_follow_their_parents() {
        let beams = Beams { steps: 3, batches: 1, beams: 2 };
        let (tokens, parents) = ([1, 2, 3, 4, 5, 6], [9, 9, 1, 0, 1, 0]);
        let gather = |length: i64, end: i32, parents: &[i64]| {
            let mut out = [0; 6];
            beams.gather((&tokens, parents), &[length], end, &mut out).map(|()| out)
        };
        assert_eq!(gather(3, 9, &parents), Ok([1, 2, 4, 3, 5, 6]));
        assert_eq!(gather(7, 4, &parents), Ok([1, 2, 4, 3, 4, 6]));
        assert_eq!(gather(2, 9, &parents), Ok([2, 1, 3, 4, 9, 9]));
        assert_eq!(gather(0, 9, &parents), Ok([9; 6]));
        assert_eq!(gather(3, 9, &[0, 0, 0, 0, 2, 0]), Err(2));
    }
}
