//! A row of a function of two elements.

use crate::base::num::Pod;
use crate::multiversion;

/// Elements of a group with wide vectors: enough that each group stays a loop. With fewer,
/// the compiler makes vectors of one element from each group, which are slow to store.
const WIDE_LANES: usize = 64;

/// Elements of a group otherwise.
pub(super) const NARROW_LANES: usize = 16;

/// A function of two elements of one type.
pub trait Formula<T: Pod, U: Pod> {
    /// The value for one pair.
    fn apply(a: T, b: T) -> U;

    /// Whether [`Formula::apply_fast`] is a formula of its own, made for wide vectors.
    const HAS_FAST: bool = false;

    /// The value for most pairs, without branches, and whether it is that of [`Formula::apply`].
    #[inline(always)]
    fn apply_fast(a: T, b: T) -> (U, bool) {
        (Self::apply(a, b), true)
    }
}

/// One row: its start in each operand, the strides, and its length.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Row<T, U> {
    pub(super) a: *const T,
    pub(super) b: *const T,
    pub(super) out: *mut U,
    pub(super) len: usize,
    pub(super) steps: [usize; 2],
}

/// Computes a row. It must be within its operands, and nobody else may use its part of the output.
pub(super) type RowFn<T, U> = unsafe fn(Row<T, U>);

multiversion! {
    /// Computes a row in vectors.
    pub(super) fn vector_row<T: Pod, U: Pod, F: Formula<T, U>>(row: Row<T, U>) {
        // SAFETY: the promise of `Lane::row`, the only caller.
        unsafe { lanes::<WIDE_LANES, T, U, F>(row) }
    }
}

/// A group of elements, aligned so that no vector load crosses a cache line.
#[repr(align(64))]
struct Group<const LANES: usize, T>([T; LANES]);

/// Computes a row in groups of lanes.
///
/// # Safety
/// The row is within its operands, and nobody else uses its part of the output.
#[inline(always)]
pub(super) unsafe fn lanes<const LANES: usize, T: Pod, U: Pod, F: Formula<T, U>>(row: Row<T, U>) {
    let Row { a, b, out, len, steps } = row;
    debug_assert!(a.is_aligned() && b.is_aligned() && out.is_aligned());
    debug_assert!(steps.iter().all(|step| *step <= 1));
    let whole = len - len % LANES;
    // An operand of one element is broadcast to a group, so that one loop is compiled for all.
    let (copies_of_a, copies_of_b);
    // SAFETY: the caller's promise. Loops, not iterators: only what is inlined here is compiled for
    // the instruction set.
    unsafe {
        let (mut groups_of_a, mut groups_of_b) = (a, b);
        if whole > 0 && steps[0] == 0 {
            copies_of_a = Group([*a; LANES]);
            groups_of_a = copies_of_a.0.as_ptr();
        }
        if whole > 0 && steps[1] == 0 {
            copies_of_b = Group([*b; LANES]);
            groups_of_b = copies_of_b.0.as_ptr();
        }
        let load = |p: *const T, i: usize| p.add(i).cast::<[T; LANES]>().read_unaligned();
        for i in (0..whole).step_by(LANES) {
            let (x, y) = (load(groups_of_a, i * steps[0]), load(groups_of_b, i * steps[1]));
            group::<LANES, T, U, F>(x, y, out.add(i));
        }
        for i in whole..len {
            *out.add(i) = F::apply(*a.add(i * steps[0]), *b.add(i * steps[1]));
        }
    }
}

/// Computes a group of elements: without branches, and again where that does not hold for all.
///
/// # Safety
/// `out` holds as many elements, and nobody else uses them.
#[inline(always)]
unsafe fn group<const LANES: usize, T: Pod, U: Pod, F: Formula<T, U>>(
    x: [T; LANES],
    y: [T; LANES],
    out: *mut U,
) {
    let mut all_hold = true;
    // SAFETY: the caller's promise.
    unsafe {
        for k in 0..LANES {
            let (value, holds) = F::apply_fast(x[k], y[k]);
            *out.add(k) = value;
            all_hold &= holds;
        }
        if !all_hold {
            for k in 0..LANES {
                *out.add(k) = F::apply(x[k], y[k]);
            }
        }
    }
}
