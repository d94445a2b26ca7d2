//! Select: elements of one tensor or another.

use crate::base::num::{Bits, Pod};
use crate::base::par::{Slice, Threads};
use crate::math::broadcast::Broadcast;
use crate::multiversion;
use bytemuck::{cast_slice, cast_slice_mut};
use std::hint::black_box;

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
    let page = (PAGE / size_of::<T>()).max(1);
    plan.rows(threads, |first, len, at| {
        for start in (0..len).step_by(page) {
            let len = page.min(len - start);
            let [c, t, o] = [0, 1, 2].map(|k| {
                let from = at[k] + start * steps[k];
                from..from + steps[k] * (len - 1) + 1
            });
            // SAFETY: rows are disjoint parts of the output.
            let out = unsafe { out.part(first + start, len) };
            select_row(steps, &condition[c], &then[t], &other[o], out);
        }
    });
}

/// Bytes of a page of memory.
const PAGE: usize = 4096;

/// Selects at most as many elements as a page has.
fn select_row<T: Pod>(steps: [usize; 3], condition: &[u8], then: &[T], other: &[T], out: &mut [T]) {
    // Masked loads follow. They take hundreds of cycles, every time, on a page that nobody has
    // touched yet, such as one of a mapped file.
    for values in [then, other] {
        black_box([values.first().copied(), values.last().copied()]);
    }
    match steps {
        [1, 1, 1] => each(condition, then, other, out),
        [0, 1, _] if condition[0] != 0 => out.copy_from_slice(then),
        [0, _, 1] if condition[0] == 0 => out.copy_from_slice(other),
        [1, 1, 0] => either(condition, then, other[0], true, out),
        [1, 0, 1] => either(condition, other, then[0], false, out),
        [1, 0, 0] => numbers(condition, [then[0], other[0]], out),
        _ => strided(steps, condition, then, other, out),
    }
}

/// Takes each element from one of both, as bits.
fn each<T: Pod>(condition: &[u8], then: &[T], other: &[T], out: &mut [T]) {
    match (size_of::<T>(), align_of::<T>()) {
        (1, 1) => masked::<u8>(condition, cast_slice(then), cast_slice(other), cast_slice_mut(out)),
        (2, 2) => {
            masked::<u16>(condition, cast_slice(then), cast_slice(other), cast_slice_mut(out))
        }
        (4, 4) => {
            masked::<u32>(condition, cast_slice(then), cast_slice(other), cast_slice_mut(out))
        }
        (8, 8) => {
            masked::<u64>(condition, cast_slice(then), cast_slice(other), cast_slice_mut(out))
        }
        _ => strided([1, 1, 1], condition, then, other, out),
    }
}

multiversion! {
    /// With masks: of a choice between two elements the compiler makes a choice between two
    /// addresses, and gathers.
    fn masked<B: Bits>(condition: &[u8], then: &[B], other: &[B], out: &mut [B]) {
        for (((out, c), t), o) in out.iter_mut().zip(condition).zip(then).zip(other) {
            let mask = B::all_if(*c != 0);
            *out = (*t & mask) | (*o & !mask);
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

multiversion! {
    /// Takes one of two numbers.
    fn numbers<T: Pod>(condition: &[u8], numbers: [T; 2], out: &mut [T]) {
        let [then, other] = numbers;
        for (out, c) in out.iter_mut().zip(condition) {
            *out = if *c != 0 { then } else { other };
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

    #[test]
    fn elements_of_all_sizes() {
        fn check<T: Pod>(of: impl Fn(u8) -> T) {
            let condition: Vec<u8> = (0..100).map(|i| i % 3).collect();
            let (then, other): (Vec<T>, Vec<T>) = (0..100).map(|i| (of(i), of(200 - i))).unzip();
            let plan = Broadcast::new(&[100], [&[100]; 3]);
            let mut out = vec![T::default(); 100];
            select(&Threads::new(2), &plan, &condition, &then, &other, &mut out);
            for (i, out) in out.iter().enumerate() {
                assert_eq!(*out, if i % 3 != 0 { then[i] } else { other[i] });
            }
        }
        check(|i| i);
        check(|i| i16::from(i) - 300);
        check(|i| f32::from(i) - 0.5);
        check(|i| f64::from(i) - 0.5);
        check(|i| [i; 3]);
    }
}
