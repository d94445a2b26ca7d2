//! Select: elements of one tensor or another.

use crate::base::num::Pod;
use crate::base::par::{Slice, Threads};
use crate::math::broadcast::Broadcast;
use crate::multiversion;

/// Takes each element from `then` where `condition` is not 0, else from `other`.
///
/// # Panics
/// When the operands do not fit the plan. Their order is condition, then, other.
pub fn select<T: Pod>(
    threads: &Threads,
    plan: &Broadcast<3>,
    condition: &[u8],
    then: &[T],
    other: &[T],
    out: &mut [T],
) {
    assert_eq!(out.len(), plan.count());
    let steps = plan.steps();
    let out = Slice::new(out);
    plan.rows(threads, |first, len, [c, t, o]| {
        let reach = |step: usize| step * (len - 1) + 1;
        // SAFETY: rows are disjoint parts of the output.
        let out = unsafe { out.part(first, len) };
        let condition = &condition[c..c + reach(steps[0])];
        let then = &then[t..t + reach(steps[1])];
        let other = &other[o..o + reach(steps[2])];
        match steps {
            [1, 1, 1] => each(condition, then, other, out),
            [0, 1, _] if condition[0] != 0 => out.copy_from_slice(then),
            [0, _, 1] if condition[0] == 0 => out.copy_from_slice(other),
            [1, 1, 0] => either(condition, then, other[0], true, out),
            [1, 0, 1] => either(condition, other, then[0], false, out),
            _ => strided(steps, condition, then, other, out),
        }
    });
}

multiversion! {
    fn each<T: Pod>(condition: &[u8], then: &[T], other: &[T], out: &mut [T]) {
        for (((out, c), t), o) in out.iter_mut().zip(condition).zip(then).zip(other) {
            *out = if *c != 0 { *t } else { *o };
        }
    }
}

multiversion! {
    /// Takes `values` where the condition is `chosen`, and `number` elsewhere.
    fn either<T: Pod>(condition: &[u8], values: &[T], number: T, chosen: bool, out: &mut [T]) {
        for ((out, c), value) in out.iter_mut().zip(condition).zip(values) {
            *out = if (*c != 0) == chosen { *value } else { number };
        }
    }
}

fn strided<T: Pod>(steps: [usize; 3], c: &[u8], then: &[T], other: &[T], out: &mut [T]) {
    for (i, out) in out.iter_mut().enumerate() {
        let chosen = c[i * steps[0]] != 0;
        *out = if chosen { then[i * steps[1]] } else { other[i * steps[2]] };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand_may_be_repeated() {
        let sizes: [&[usize]; 3] = [&[2, 1], &[3], &[1]];
        let plan = Broadcast::new(&[2, 3], sizes);
        let mut out = [0; 6];
        select(Threads::single(), &plan, &[1, 0], &[1, 2, 3], &[9], &mut out);
        assert_eq!(out, [1, 2, 3, 9, 9, 9]);
        let check = |sizes: [&[usize]; 3], then: &[i32], other: &[i32], expected: [i32; 3]| {
            let plan = Broadcast::new(&[3], sizes);
            let mut out = [0; 3];
            let condition = [1, 0, 1];
            select(Threads::single(), &plan, &condition[..sizes[0][0]], then, other, &mut out);
            assert_eq!(out, expected);
        };
        check([&[3], &[3], &[1]], &[1, 2, 3], &[9], [1, 9, 3]);
        check([&[3], &[1], &[3]], &[9], &[1, 2, 3], [9, 2, 9]);
        check([&[3], &[1], &[1]], &[9], &[7], [9, 7, 9]);
        check([&[1], &[1], &[3]], &[9], &[1, 2, 3], [9, 9, 9]);
    }
}
