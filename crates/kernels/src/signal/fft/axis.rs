//! Transforms along an axis, of several lines together as lanes.

use super::number::{Complex, LaneComplex, Number};
use super::{Fft, Work};
use crate::base::par::{Slice, Threads};
use crate::math::real::{Real, StoredReal};
use std::ops::{Deref, Range};

/// Multiplications that are worth a second thread.
const GRAIN: usize = 8 << 10;

/// From this many elements on, lines are transformed one by one: several together exceed the
/// caches.
const LONG_AXIS: usize = 1 << 15;

/// The transform of the lines of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// [`Fft::forward`].
    Forward,
    /// [`Fft::inverse`].
    Inverse,
    /// [`Fft::hermitian`].
    Hermitian,
}

/// A transform along one axis: `outer` times `input` runs of `inner` elements become `outer` times
/// `output` runs. Lines are cut or padded with zeros to the length of the transform.
pub struct AxisTransform {
    /// Size of the axes before.
    pub outer: usize,
    /// Size of the axis.
    pub input: usize,
    /// Size of the axis in the result, at most the length of the transform.
    pub output: usize,
    /// Size of the axes after.
    pub inner: usize,
    /// The transform.
    pub fft: Fft,
    /// The transform of each line.
    pub direction: Direction,
}

/// Complex numbers in memory, as computed or as in a tensor.
#[derive(Clone, Copy)]
pub enum Elements<C, T> {
    /// In f64.
    Complex(C),
    /// Pairs of real and imaginary part.
    Pairs(T),
    /// Real parts only.
    Reals(T),
}

impl<S, C: Deref<Target = [Complex]>, T: Deref<Target = [S]>> Elements<C, T> {
    fn len(&self) -> usize {
        match self {
            Elements::Complex(all) => all.len(),
            Elements::Pairs(all) => all.len() / 2,
            Elements::Reals(all) => all.len(),
        }
    }
}

/// The input.
type Given<'a, T> = Elements<&'a [Complex], &'a [T]>;

/// The output; each thread writes its own elements.
type Shared<T> = Elements<Slice<Complex>, Slice<T>>;

impl<T: StoredReal> Given<'_, T> {
    /// Reads every `step`th element of some lines, which begin at `starts`.
    fn read<N: Number>(&self, starts: &[usize], step: usize, to: &mut [N]) {
        let wide = |x: T| x.widen().to_f64();
        match *self {
            Elements::Complex(all) => each(starts, step, to, |at| all[at]),
            Elements::Pairs(all) => each(starts, step, to, |at| {
                let pair = &all[2 * at..2 * at + 2];
                Complex { re: wide(pair[0]), im: wide(pair[1]) }
            }),
            Elements::Reals(all) => {
                each(starts, step, to, |at| Complex { re: wide(all[at]), im: 0.0 });
            }
        }
    }
}

/// Sets each element of some lines.
#[inline(always)]
fn each<N: Number>(
    starts: &[usize],
    step: usize,
    to: &mut [N],
    element: impl Fn(usize) -> Complex,
) {
    for (i, to) in to.iter_mut().enumerate() {
        for (lane, start) in starts.iter().enumerate().take(N::LANES) {
            to.set(lane, element(start + i * step));
        }
    }
}

impl<T: StoredReal> Elements<&mut [Complex], &mut [T]> {
    fn shared(self) -> Shared<T> {
        match self {
            Elements::Complex(all) => Shared::Complex(Slice::new(all)),
            Elements::Pairs(all) => Shared::Pairs(Slice::new(all)),
            Elements::Reals(all) => Shared::Reals(Slice::new(all)),
        }
    }
}

impl<T: StoredReal> Shared<T> {
    fn count(self) -> usize {
        match self {
            Shared::Complex(to) => to.count(),
            Shared::Pairs(to) => to.count() / 2,
            Shared::Reals(to) => to.count(),
        }
    }

    /// Writes every `step`th element of some lines, which begin at `starts`.
    ///
    /// # Safety
    /// The output has these elements, and no other thread uses them.
    unsafe fn write<N: Number>(self, starts: &[usize], step: usize, from: &[N]) {
        let last = from.len().saturating_sub(1) * step;
        debug_assert!(from.is_empty() || starts.iter().all(|start| start + last < self.count()));
        for (i, from) in from.iter().enumerate() {
            for (lane, start) in starts.iter().enumerate().take(N::LANES) {
                let (at, x) = (start + i * step, from.get(lane));
                // SAFETY: the caller's promise.
                unsafe {
                    match self {
                        Shared::Complex(to) => *to.at(at) = x,
                        Shared::Pairs(to) => {
                            *to.at(2 * at) = T::from_f64(x.re);
                            *to.at(2 * at + 1) = T::from_f64(x.im);
                        }
                        Shared::Reals(to) => *to.at(at) = T::from_f64(x.re),
                    }
                }
            }
        }
    }
}

impl AxisTransform {
    /// Number of elements of the result.
    pub fn count(&self) -> usize {
        self.outer * self.output * self.inner
    }

    /// Transforms every line.
    ///
    /// # Panics
    /// When a slice has another size.
    pub fn run<T: StoredReal>(
        &self,
        threads: &Threads,
        from: Elements<&[Complex], &[T]>,
        to: Elements<&mut [Complex], &mut [T]>,
    ) {
        assert!(from.len() == self.outer * self.input * self.inner && to.len() == self.count());
        assert!(self.output <= self.fft.len());
        if self.count() == 0 {
            return;
        }
        let to = to.shared();
        let lines = self.outer * self.inner;
        let at_once = if self.fft.len() > LONG_AXIS { 1 } else { LaneComplex::LANES };
        let groups = lines.div_ceil(at_once);
        let grain = GRAIN.div_ceil(self.fft.cost() * at_once);
        threads.par_ranges(groups, grain, |groups| {
            let (mut one, mut some) = (Work::default(), Work::default());
            for first in groups.map(|group| group * at_once) {
                let last = lines.min(first + at_once);
                // SAFETY: lines are disjoint, and these are within the axes.
                unsafe {
                    // Lanes for a single line would take as long as for all of them.
                    match last - first {
                        1 => self.lines::<T, Complex>(first..last, (from, to), &mut one),
                        _ => self.lines::<T, LaneComplex>(first..last, (from, to), &mut some),
                    }
                }
            }
        });
    }

    /// Transforms some lines, at most as many as there are lanes.
    ///
    /// # Safety
    /// They are lines of the transform, and no other thread uses these lines of the result.
    unsafe fn lines<T: StoredReal, N: Number>(
        &self,
        lines: Range<usize>,
        (from, to): (Given<'_, T>, Shared<T>),
        work: &mut Work<N>,
    ) {
        let AxisTransform { input, output, inner, ref fft, .. } = *self;
        let start = |line: usize, size: usize| line / inner * size * inner + line % inner;
        let count = lines.len();
        debug_assert!(count <= LaneComplex::LANES && lines.end <= self.outer * inner);
        let [mut before, mut after] = [[0; LaneComplex::LANES]; 2];
        for (i, line) in lines.enumerate() {
            (before[i], after[i]) = (start(line, input), start(line, output));
        }
        work.resize(fft.len());
        let given = match self.direction {
            Direction::Hermitian => input.min(fft.len() / 2 + 1),
            _ => input.min(fft.len()),
        };
        from.read(&before[..count], inner, &mut work.from[..given]);
        match self.direction {
            Direction::Forward => fft.forward(&work.from, &mut work.to),
            Direction::Inverse => fft.inverse(&mut work.from, &mut work.to),
            Direction::Hermitian => fft.hermitian(work),
        }
        // SAFETY: the caller's promise.
        unsafe { to.write(&after[..count], inner, &work.to[..output]) };
    }
}
