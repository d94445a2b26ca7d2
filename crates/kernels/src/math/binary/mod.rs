//! Functions of two elements, each written once for all types.
//!
//! Rows are compiled for the types that networks compute in. Elements of other types are converted
//! to one of those and back, block by block in the cache.

mod row;

use crate::base::num::{Bool, Pod, Stored, Wide as _};
use crate::base::par::{Slice, Threads};
use crate::math::arithmetic::Arithmetic;
use crate::math::broadcast::Broadcast;
use crate::math::convert::{Decoder, Element, Encoder};
pub use row::{Formula, Row};
use row::{NARROW_LANES, RowFn, lanes, vector_row};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements converted at a time.
const BLOCK: usize = 512;

/// Declares functions of two elements: a formula over the wide type, and the type of the result.
macro_rules! formulas {
    ($(#[$doc:meta])* $enum:ident, $module:ident, $narrow:ident, $out:ident;
     $($(#[$vdoc:meta])* $name:ident |$a:ident, $b:ident| $body:expr $(, fast $fast:expr)?;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum {
            $($(#[$vdoc])* $name,)*
        }

        mod $module {
            $(pub(crate) struct $name;)*
        }

        $(impl<T: Lane> Formula<T, formulas!(@ $out, T)> for $module::$name {
            #[inline(always)]
            fn apply(a: T, b: T) -> formulas!(@ $out, T) {
                let ($a, $b) = (a.widen(), b.widen());
                $narrow($body)
            }

            $(const HAS_FAST: bool = true;

            #[inline(always)]
            fn apply_fast(a: T, b: T) -> (formulas!(@ $out, T), bool) {
                let ($a, $b) = (a.widen(), b.widen());
                let (value, holds) = $fast;
                ($narrow(value), holds)
            })?
        })*

        impl $enum {
            /// Applies the function to every pair of elements.
            ///
            /// # Panics
            /// When the operands are not those of the plan.
            pub fn run<T: Element<Lane: Lane>>(
                self,
                threads: &Threads,
                plan: &Broadcast<2>,
                operands: Operands<'_, T, formulas!(@ $out, T)>,
            ) {
                operands.check(plan);
                run(threads, plan, &operands.untyped(), self.row());
            }

            /// The function for a row.
            fn row<T: Lane>(self) -> RowFn<T, formulas!(@ $out, T)> {
                match self {
                    $($enum::$name => T::row::<formulas!(@ $out, T), $module::$name>,)*
                }
            }
        }
    };
    (@ same, $t:ident) => { $t };
    (@ truth, $t:ident) => { Bool };
}

/// A type that rows are computed in.
pub trait Lane: Stored<Wide: Arithmetic> {
    /// Computes a row.
    ///
    /// # Safety
    /// The row is within its operands, which are aligned, and nobody else uses its part of the
    /// output.
    #[doc(hidden)]
    unsafe fn row<U: Pod, F: Formula<Self, U>>(row: Row<Self, U>) {
        // SAFETY: the caller's promise.
        unsafe { lanes::<NARROW_LANES, Self, U, F>(row) }
    }
}

impl Lane for f64 {}
impl Lane for u64 {}
impl Lane for Bool {}

impl Lane for f32 {
    unsafe fn row<U: Pod, F: Formula<f32, U>>(row: Row<f32, U>) {
        vector_row::<f32, U, F>(row);
    }
}

/// Formulas that are made for wide vectors are compiled for each instruction set, others once.
macro_rules! integer_lanes {
    ($($t:ty)*) => {
        $(impl Lane for $t {
            unsafe fn row<U: Pod, F: Formula<$t, U>>(row: Row<$t, U>) {
                if F::HAS_FAST {
                    vector_row::<$t, U, F>(row);
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { lanes::<NARROW_LANES, $t, U, F>(row) }
                }
            }
        })*
    };
}

integer_lanes!(i32 i64);

/// Two inputs and an output. The output may be the memory of an input that is read once, from its
/// first element to its last.
pub struct Operands<'a, T, U> {
    a: *const T,
    b: *const T,
    lens: [usize; 2],
    out: Slice<U>,
    borrow: PhantomData<(&'a [T], &'a mut [U])>,
}

impl<'a, T: Pod, U: Pod> Operands<'a, T, U> {
    /// Inputs and output that do not overlap.
    pub fn separate(a: &'a [T], b: &'a [T], out: &'a mut [U]) -> Operands<'a, T, U> {
        Operands::new((a.as_ptr(), a.len()), (b.as_ptr(), b.len()), Slice::new(out))
    }

    fn new(a: (*const T, usize), b: (*const T, usize), out: Slice<U>) -> Operands<'a, T, U> {
        Operands { a: a.0, b: b.0, lens: [a.1, b.1], out, borrow: PhantomData }
    }

    fn check(&self, plan: &Broadcast<2>) {
        let out = &self.out;
        assert_eq!(out.count(), plan.count(), "the output is not that of the plan");
        let same = |p: *const T| p.addr() == out.start().addr() && out.count() > 0;
        assert!((!same(self.a) || plan.is_dense(0)) && (!same(self.b) || plan.is_dense(1)));
        let within = (0..2).all(|k| plan.reach(k) <= self.lens[k]);
        assert!(within, "an operand is not that of the plan");
    }
}

impl<'a, T: Pod> Operands<'a, T, T> {
    /// The output overwrites the first input.
    pub fn over_first(a: &'a mut [T], b: &'a [T]) -> Operands<'a, T, T> {
        // One pointer for both: it stays valid for reads after writes through it.
        let out = Slice::new(a);
        Operands::new((out.start(), out.count()), (b.as_ptr(), b.len()), out)
    }

    /// The output overwrites the second input.
    pub fn over_second(a: &'a [T], b: &'a mut [T]) -> Operands<'a, T, T> {
        let out = Slice::new(b);
        Operands::new((a.as_ptr(), a.len()), (out.start(), out.count()), out)
    }
}

impl<T: Element, U: Element> Operands<'_, T, U> {
    fn untyped(self) -> Untyped<T::Lane, U::Lane> {
        Untyped {
            inputs: [self.a.cast(), self.b.cast()],
            size: size_of::<T>(),
            decode: T::WAYS.map(|(decode, _)| decode),
            out: self.out.bytes(),
            out_size: size_of::<U>(),
            encode: U::WAYS.map(|(_, encode)| encode),
        }
    }
}

/// Operands as bytes, with their conversions.
struct Untyped<T, U> {
    inputs: [*const u8; 2],
    size: usize,
    decode: Option<Decoder<T>>,
    out: Slice<u8>,
    out_size: usize,
    encode: Option<Encoder<U>>,
}

// SAFETY: the inputs are only read, and rows write disjoint parts of the output.
unsafe impl<T, U> Sync for Untyped<T, U> {}

fn run<T: Lane, U: Pod>(
    threads: &Threads,
    plan: &Broadcast<2>,
    operands: &Untyped<T, U>,
    row: RowFn<T, U>,
) {
    if operands.decode.is_none()
        && let Some((len @ 1..=SHORT_ROW, strides)) = plan.row()
    {
        return short_rows(threads, plan, len, strides, operands, row);
    }
    let steps = plan.steps();
    plan.rows(threads, |first, len, at| {
        // SAFETY: `reach` has shown that every offset of the plan is within the operands, and rows
        // write disjoint parts of the output. If the output is the memory of an input, element `i`
        // is written after element `i` of that input has been read, as both are dense.
        unsafe {
            let [a, b] = [0, 1].map(|k| operands.inputs[k].add(at[k] * operands.size));
            let out = operands.out.at(first * operands.out_size);
            match operands.decode {
                None => row(Row { a: a.cast(), b: b.cast(), out: out.cast(), len, steps }),
                Some(decode) => operands.blocks(decode, row, Row { a, b, out, len, steps }),
            }
        }
    });
}

/// Up to this many elements, several rows are computed as one: starting a row takes as long as some
/// dozens of elements.
const SHORT_ROW: usize = 24;

/// The most elements in such a group of rows.
const SOME: usize = 512;

/// As [`run`], for short rows of `len` elements; `strides` are those along the next outer axis.
/// Rows that are not contiguous are copied to a buffer.
fn short_rows<T: Lane, U: Pod>(
    threads: &Threads,
    plan: &Broadcast<2>,
    len: usize,
    strides: [usize; 2],
    operands: &Untyped<T, U>,
    row: RowFn<T, U>,
) {
    plan.some_rows(threads, SOME / len, |first, rows, starts| {
        let mut workspaces = [MaybeUninit::<[T; SOME]>::uninit(); 2];
        let [workspace_a, workspace_b] = &mut workspaces;
        // SAFETY: as in `run`; consecutive rows of the output are contiguous.
        unsafe {
            let [a, b] = [(0, workspace_a), (1, workspace_b)].map(|(k, workspace)| {
                let from = operands.inputs[k].cast::<T>().add(starts[k]);
                let (step, stride) = (plan.steps()[k], strides[k]);
                match (step, stride) {
                    (1, stride) if stride == len => return from,
                    (1, 0) => repeat(from, len, rows, workspace.as_mut_ptr().cast()),
                    _ => {
                        let elements = Axis { len, stride: step };
                        let rows = Axis { len: rows, stride };
                        gather_columns(from, elements, rows, workspace.as_mut_ptr().cast());
                    }
                }
                workspace.as_ptr().cast()
            });
            let out = operands.out.at(first * operands.out_size).cast();
            row(Row { a, b, out, len: rows * len, steps: [1, 1] });
        }
    });
}

/// Writes a row of `len` elements `rows` times.
///
/// # Safety
/// `from` has these elements, and `to` holds that many rows.
unsafe fn repeat<T: Pod>(from: *const T, len: usize, rows: usize, to: *mut T) {
    let (mut done, all) = (len, rows * len);
    debug_assert!(rows > 0 && all <= SOME);
    // SAFETY: the caller's promise; only elements that have been written are copied again.
    unsafe {
        from.copy_to_nonoverlapping(to, len);
        while done < all {
            let more = done.min(all - done);
            to.copy_to_nonoverlapping(to.add(done), more);
            done += more;
        }
    }
}

/// Elements or rows that are `stride` elements apart.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    stride: usize,
}

/// Copies rows of elements to contiguous memory.
///
/// # Safety
/// `from` has these elements, and `to` holds them.
unsafe fn gather_columns<T: Pod>(from: *const T, elements: Axis, rows: Axis, to: *mut T) {
    let len = elements.len;
    debug_assert!(rows.len * len <= SOME);
    for row in 0..rows.len {
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (from.add(row * rows.stride), to.add(row * len));
            for i in 0..len {
                *to.add(i) = *from.add(i * elements.stride);
            }
        }
    }
}

impl<T: Lane, U: Pod> Untyped<T, U> {
    /// Computes a row in blocks, converted to another type.
    ///
    /// # Safety
    /// As [`RowFn`].
    unsafe fn blocks(&self, decode: Decoder<T>, row: RowFn<T, U>, bytes: Row<u8, u8>) {
        let (mut a, mut b) = ([T::default(); BLOCK], [T::default(); BLOCK]);
        let mut results = [U::default(); BLOCK];
        let steps = bytes.steps;
        debug_assert!(steps.iter().all(|step| *step <= 1));
        for start in (0..bytes.len).step_by(BLOCK) {
            let len = BLOCK.min(bytes.len - start);
            // SAFETY: the caller's promise; an operand with stride 0 has one element.
            unsafe {
                let read = |from: *const u8, step: usize, to: &mut [T; BLOCK]| {
                    let to = &mut to[..if step == 0 { 1 } else { len }];
                    let from = from.add(start * step * self.size);
                    decode(std::slice::from_raw_parts(from, to.len() * self.size), to);
                };
                read(bytes.a, steps[0], &mut a);
                read(bytes.b, steps[1], &mut b);
                let out = bytes.out.add(start * self.out_size);
                let to = if self.encode.is_some() { results.as_mut_ptr() } else { out.cast() };
                row(Row { a: a.as_ptr(), b: b.as_ptr(), out: to, len, steps });
                if let Some(encode) = self.encode {
                    let out = std::slice::from_raw_parts_mut(out, len * self.out_size);
                    encode(&results[..len], out);
                }
            }
        }
    }
}

/// Narrows to the same type.
#[inline(always)]
fn same<T: Stored>(value: T::Wide) -> T {
    value.narrow()
}

/// A boolean.
#[inline(always)]
fn truth(value: bool) -> Bool {
    Bool(u8::from(value))
}

formulas! {
    /// A function of two elements with a result of their type. Integers wrap.
    Binary, binary, same, same;
    /// Sum.
    Add |a, b| a.add(b);
    /// Difference.
    Subtract |a, b| a.sub(b);
    /// Product.
    Multiply |a, b| a.mul(b);
    /// Quotient; integers round down.
    Divide |a, b| a.div(b), fast a.div_fast(b);
    /// Quotient; integers round towards zero.
    DivideTruncated |a, b| a.div_trunc(b), fast a.div_trunc_fast(b);
    /// Remainder with the sign of the dividend.
    Mod |a, b| a.rem(b), fast a.rem_fast(b);
    /// Remainder with the sign of the divisor.
    FloorMod |a, b| a.rem_floor(b), fast a.rem_floor_fast(b);
    /// `a` to the power of `b`.
    Power |a, b| a.pow(b);
    /// The larger.
    Maximum |a, b| if a < b { b } else { a };
    /// The smaller.
    Minimum |a, b| if b < a { b } else { a };
    /// Square of the difference.
    SquaredDifference |a, b| { let d = a.sub(b); d.mul(d) };
    /// `a`, multiplied by `b` if it is below 0.
    PRelu |a, b| if a < T::Wide::of_bits(0) { a.mul(b) } else { a };
    /// Bits in both.
    And |a, b| T::Wide::of_bits(a.bits() & b.bits());
    /// Bits in either.
    Or |a, b| T::Wide::of_bits(a.bits() | b.bits());
    /// Bits in exactly one.
    Xor |a, b| T::Wide::of_bits(a.bits() ^ b.bits());
    /// Bits shifted left.
    ShiftLeft |a, b| a.shift_left(b);
    /// Bits shifted right; the sign stays.
    ShiftRight |a, b| a.shift_right(b);
}

formulas! {
    /// A function of two elements with a boolean result.
    Comparison, comparison, truth, truth;
    /// Whether both are equal.
    Equal |a, b| a == b;
    /// Whether they differ.
    NotEqual |a, b| a != b;
    /// Whether the first is smaller.
    Less |a, b| a < b;
    /// Whether the first is not larger.
    LessEqual |a, b| a <= b;
    /// Whether the first is larger.
    Greater |a, b| a > b;
    /// Whether the first is not smaller.
    GreaterEqual |a, b| a >= b;
    /// Whether both are true.
    And |a, b| a.truth() && b.truth();
    /// Whether one is true.
    Or |a, b| a.truth() || b.truth();
    /// Whether exactly one is true.
    Xor |a, b| a.truth() != b.truth();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::f16;

    fn apply<T: Element<Lane: Lane>>(op: Binary, a: &[T], b: &[T]) -> Vec<T> {
        let count = a.len().max(b.len());
        let mut out = vec![T::default(); count];
        let plan = Broadcast::new(&[count], [&[a.len()], &[b.len()]]);
        op.run(&Threads::new(2), &plan, Operands::separate(a, b, &mut out));
        out
    }

    #[test]
    fn integers_wrap_in_their_own_width() {
        assert_eq!(apply(Binary::Add, &[100i8, -128], &[100, -1]), [-56, 127]);
        assert_eq!(apply(Binary::Multiply, &[i64::MAX], &[3]), [i64::MAX.wrapping_mul(3)]);
        assert_eq!(apply(Binary::Subtract, &[0u8, 5], &[1]), [255, 4]);
        assert_eq!(apply(Binary::Power, &[3u8, 2], &[5, 9]), [243, 0]);
        assert_eq!(apply(Binary::Power, &[-1i32, 2], &[-3, -1]), [-1, 0]);
        assert_eq!(apply(Binary::ShiftLeft, &[1i8, 3], &[7, 9]), [-128, 0]);
        assert_eq!(apply(Binary::ShiftRight, &[-8i8, 8], &[1, 100]), [-4, 0]);
        assert_eq!(apply(Binary::SquaredDifference, &[i32::MIN], &[1]), [1]);
    }

    #[test]
    fn division_has_two_signs() {
        let (a, b) = ([7, -7, 7, -7], [2, 2, -2, -2]);
        assert_eq!(apply(Binary::Divide, &a, &b), [3, -4, -4, 3]);
        assert_eq!(apply(Binary::DivideTruncated, &a, &b), [3, -3, -3, 3]);
        assert_eq!(apply(Binary::Mod, &a, &b), [1, -1, 1, -1]);
        assert_eq!(apply(Binary::FloorMod, &a, &b), [1, 1, -1, -1]);
        let real = |v: [i32; 4]| v.map(|x| x as f32);
        assert_eq!(apply(Binary::FloorMod, &real(a), &real(b)), [1.0, 1.0, -1.0, -1.0]);
        assert_eq!(apply(Binary::Divide, &[i64::MIN], &[-1]), [i64::MIN]);
    }

    #[test]
    fn narrow_floats_are_computed_in_f32() {
        let h = |v: f32| f16::from_f32(v);
        assert_eq!(apply(Binary::Multiply, &[h(300.0)], &[h(300.0)]), [h(f32::INFINITY)]);
        let many: Vec<f16> = (0..100).map(|i| h(i as f32)).collect();
        let doubled = apply(Binary::Add, &many, &many);
        assert!(doubled.iter().zip(&many).all(|(d, v)| d.to_f32() == 2.0 * v.to_f32()));
        let many = vec![h(1.5); 300];
        assert_eq!(apply(Binary::Subtract, &[h(4.0)], &many), vec![h(2.5); 300]);
    }

    #[test]
    fn prelu_multiplies_all_that_is_below_zero() {
        let x = [f32::NEG_INFINITY, -2.0, -0.0, 3.0, f32::INFINITY];
        assert_eq!(apply(Binary::PRelu, &x, &[-0.5]), [f32::INFINITY, 1.0, -0.0, 3.0, x[4]]);
        assert!(apply(Binary::PRelu, &x, &[0.0])[0].is_nan());
        assert_eq!(apply(Binary::PRelu, &[i32::MIN, -3, 4], &[2]), [0, -6, 4]);
        assert_eq!(apply(Binary::PRelu, &[0u8, 200], &[2]), [0, 200]);
    }

    /// Rows that are contiguous, broadcast, constant, and at any stride.
    #[test]
    fn short_rows_are_computed_together() {
        let sizes: [[&[usize]; 3]; 6] = [
            [&[500, 3], &[500, 3], &[3]],
            [&[90, 7], &[90, 1], &[90, 7]],
            [&[4, 5, 60, 16], &[5, 1, 16], &[4, 1, 60, 1]],
            [&[3, 40, 24], &[3, 1, 24], &[40, 1]],
            [&[600, 2], &[600, 1], &[2]],
            [&[7, 30, 5], &[7, 30, 5], &[7, 1, 5]],
        ];
        for [result, a, b] in sizes {
            let numbers = |sizes: &[usize], factor: f32| -> Vec<f32> {
                (0..sizes.iter().product()).map(|i| i as f32 * factor).collect()
            };
            let (x, y) = (numbers(a, 0.5), numbers(b, 0.37));
            let mut found = vec![f32::NAN; result.iter().product()];
            let plan = Broadcast::new(result, [a, b]);
            Binary::Subtract.run(&Threads::new(2), &plan, Operands::separate(&x, &y, &mut found));
            for (i, found) in found.iter().enumerate() {
                let place = |sizes: &[usize]| {
                    let (mut rest, mut at, mut stride) = (i, 0, 1);
                    let missing = result.len() - sizes.len();
                    for axis in (0..result.len()).rev() {
                        let own = axis.checked_sub(missing).map_or(1, |axis| sizes[axis]);
                        at += rest % result[axis] % own * stride;
                        (rest, stride) = (rest / result[axis], stride * own);
                    }
                    at
                };
                assert_eq!(*found, x[place(a)] - y[place(b)], "{result:?} {a:?} {b:?} {i}");
            }
        }
    }

    #[test]
    fn comparisons_and_in_place() {
        let (a, b) = ([1f32, f32::NAN, 3.0], [2f32, f32::NAN, 3.0]);
        let plan = Broadcast::new(&[3], [&[3], &[3]]);
        let mut out = [Bool(9); 3];
        Comparison::Equal.run(Threads::single(), &plan, Operands::separate(&a, &b, &mut out));
        assert_eq!(out.map(|b| b.0), [0, 0, 1]);
        let mut data = vec![1f32; 40];
        let plan = Broadcast::new(&[40], [&[40], &[1]]);
        Binary::Add.run(Threads::single(), &plan, Operands::over_first(&mut data, &[2.0]));
        assert_eq!(data, vec![3f32; 40]);
    }
}
