//! Rotary position embedding (RoPE): rotates the two halves of a row against each other.

use crate::base::par::Threads;
use crate::multiversion;

/// Rows to rotate, with given cosines and sines of the angles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotary {
    /// Elements of a row.
    pub columns: usize,
    /// For each row of the output, the rows of the data, the cosines and the sines.
    pub rows: Vec<[u32; 3]>,
}

/// Elements that are worth a second thread.
const GRAIN: usize = 4 << 10;

impl Rotary {
    /// `x · cos + y · sin` for each row x, where y is the negated second half of x followed by its
    /// first half. Products and sum are each rounded.
    ///
    /// # Panics
    /// When the output does not have the size of all rows, or a row is not within its operand.
    pub fn run(&self, threads: &Threads, operands: [&[f32]; 3], out: &mut [f32]) {
        let columns = self.columns;
        assert_eq!(out.len(), self.rows.len() * columns, "the rows do not fill the output");
        threads.par_chunks_mut(out, columns, GRAIN, |first, out| {
            for (out, places) in out.chunks_exact_mut(columns).zip(&self.rows[first..]) {
                let row = |i: usize| &operands[i][places[i] as usize * columns..][..columns];
                rotate(row(0), row(1), row(2), out);
            }
        });
    }
}

multiversion! {
    fn rotate(x: &[f32], cos: &[f32], sin: &[f32], out: &mut [f32]) {
        let half = out.len() / 2;
        let (low, high) = out.split_at_mut(half);
        let ((x0, x1), (cos0, cos1), (sin0, sin1)) =
            (x.split_at(half), cos.split_at(half), sin.split_at(half));
        for (i, low) in low.iter_mut().enumerate() {
            *low = x0[i] * cos0[i] + -x1[i] * sin0[i];
        }
        for (i, high) in high.iter_mut().enumerate() {
            *high = x1[i] * cos1[i] + x0[i] * sin1[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_turned_against_each_other() {
        let x = [9.0, 9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0];
        let (cos, sin) = ([1.0, 0.5, 2.0, 0.0], [0.0, 1.0, -1.0, 10.0]);
        let plan = Rotary { columns: 4, rows: vec![[1, 0, 0]] };
        let mut out = [0.0; 4];
        plan.run(Threads::single(), [&x, &cos, &sin], &mut out);
        assert_eq!(out, [1.0, 1.0 - 4.0, 6.0 - 1.0, 20.0]);
    }
}
