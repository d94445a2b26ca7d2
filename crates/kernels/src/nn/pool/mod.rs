//! Pooling in NCHW: the maximum or mean of each window over the spatial axes of a plane.
//!
//! A row of the output takes two passes. The first folds the input rows under its windows into one
//! row; the second folds that row along the windows. Both keep some elements of the result in
//! registers: of a maximum in memory, LLVM makes masked stores, which take some twenty cycles on
//! AMD with AVX2. Rows are divided among threads; the order of each fold depends on the windows
//! only.

mod fold;

use crate::base::num::{Stored, Wide as _};
use crate::base::par::Threads;
use crate::gemm::Window;
use crate::math::arithmetic::Arithmetic as _;
use crate::multiversion;
pub(crate) use fold::{Fold, Largest, Sum};
pub use fold::{Mean, Pooled};
use std::ops::Range;

/// Elements that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// Elements of a row that are folded at a time, in registers.
const LANES: usize = 16;

/// Input rows that are folded at a time: so many are read side by side.
const LINES: usize = 8;

/// The windows along one axis, clipped to the input.
#[derive(Clone, Debug)]
pub struct Axis {
    input: usize,
    /// Distance from tap to tap.
    step: usize,
    windows: Vec<Taps>,
    /// The window that slides, if all are alike.
    sliding: Option<Window>,
}

/// The taps of one window that are within the input: the position of the first, and their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taps {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl Axis {
    /// Windows with equal numbers of taps, at equal distances.
    pub fn sliding(window: &Window) -> Axis {
        let windows = (0..window.output).map(|output| Taps::of(window, output)).collect();
        Axis { input: window.input, step: window.dilation, windows, sliding: Some(*window) }
    }

    /// `output` windows that cover an axis evenly.
    pub fn adaptive(input: usize, output: usize) -> Axis {
        let position = |i: usize| i as u128 * input as u128;
        let taps = |i| {
            let first = (position(i) / output as u128) as usize;
            let end = position(i + 1).div_ceil(output as u128) as usize;
            Taps { first, count: end - first }
        };
        Axis { input, step: 1, windows: (0..output).map(taps).collect(), sliding: None }
    }
}

impl Taps {
    /// Those of the window of an output.
    pub(crate) fn of(window: &Window, output: usize) -> Taps {
        let taps = window.taps_within(output);
        Taps { first: window.position(output, taps.start).unwrap_or(0), count: taps.len() }
    }

    fn positions(self, step: usize) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |tap| self.first + tap * step)
    }
}

/// What is computed from a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The maximum, NaN passed over. A window that is empty, or has nothing but NaN and -∞, gives
    /// the lowest finite value.
    Max,
    /// The sum divided by this number or, if `None`, by the number of taps within the input; 0 if
    /// there are none. Integers are rounded to nearest, ties to even.
    Mean(Option<usize>),
}

/// Windows over the spatial axes of some planes.
#[derive(Clone, Debug)]
pub struct Pool {
    axes: [Axis; 3],
    /// If the windows of the last axis slide: for each tap, the windows that have it within the
    /// input, and its position in the first of these.
    spans: Vec<(Range<usize>, usize)>,
    /// A value below every element, if not the lowest value of the type.
    lowest: Option<f64>,
}

impl Pool {
    /// Windows along three axes, outermost first; missing axes have size 1.
    pub fn new(axes: [Axis; 3]) -> Pool {
        let mut spans = Vec::new();
        if let Some(window) = &axes[2].sliding {
            let span = |tap| {
                let windows = window.outputs_within(tap);
                let first = window.position(windows.start, tap)?;
                (!windows.is_empty()).then_some((windows, first))
            };
            // Of very long windows only few taps are within the input.
            let last = window.output.saturating_sub(1);
            let taps = window.taps_within(last).start..window.taps_within(0).end;
            spans = taps.filter_map(span).collect();
        }
        Pool { axes, spans, lowest: None }
    }

    /// The same for elements that are stored in a narrower type than they are computed in; `lowest`
    /// is the lowest finite value of the stored type.
    pub fn above(self, lowest: f64) -> Pool {
        Pool { lowest: Some(lowest), ..self }
    }

    /// A value below every element.
    fn lowest<T: Pooled>(&self) -> T::Wide {
        self.lowest.map_or(T::LOWEST, T::from_f64).widen()
    }

    /// Elements of a plane of the input and of the output.
    fn plane(&self) -> (usize, usize) {
        let product = |size: fn(&Axis) -> usize| self.axes.iter().map(size).product();
        (product(|a| a.input), product(|a| a.windows.len()))
    }

    /// Pools planes of `from` into planes of `to`.
    ///
    /// # Panics
    /// When the slices do not hold equally many planes.
    pub fn run<T: Pooled>(&self, threads: &Threads, pooling: Pooling, from: &[T], to: &mut [T]) {
        match pooling {
            Pooling::Max => self.fold(threads, Largest(self.lowest::<T>()), from, to),
            Pooling::Mean(divisor) => {
                self.fold(threads, Sum(divisor.map(T::Wide::of_count)), from, to);
            }
        }
    }

    fn fold<F, T>(&self, threads: &Threads, f: F, from: &[T], to: &mut [T])
    where
        F: Fold<T::Wide>,
        T: Pooled,
    {
        let row = self.check(from.len(), to.len());
        threads.par_chunks_mut(to, row, self.grain() * row, |first, part| {
            rows(f, self, first, from, part);
        });
    }

    /// The length of an output row. Panics unless the slices hold equally many planes.
    fn check(&self, from: usize, to: usize) -> usize {
        let (input, output) = self.plane();
        let planes = to.checked_div(output).unwrap_or(0);
        assert_eq!((planes * input, planes * output), (if to == 0 { 0 } else { from }, to));
        self.axes[2].windows.len()
    }

    /// Output rows that are worth a second thread.
    fn grain(&self) -> usize {
        let [depth, height, width] = &self.axes;
        let most = |axis: &Axis| axis.windows.iter().map(|w| w.count).max().unwrap_or(0);
        let down = most(depth).saturating_mul(most(height)).saturating_mul(width.input);
        let along = most(width).saturating_mul(width.windows.len());
        GRAIN.div_ceil(down.saturating_add(along).max(1))
    }

    /// As [`Pooling::Max`], to the bit, with the position of each maximum (the first, if there are
    /// several) in a tensor of all planes, modulo `modulus`.
    ///
    /// # Panics
    /// As [`Pool::run`].
    pub fn arg_max<T: Pooled, I: Stored>(
        &self,
        threads: &Threads,
        modulus: usize,
        from: &[T],
        (to, indices): (&mut [T], &mut [I]),
    ) {
        // Of equal zeros of both signs, the first along rows need not be the one of `run`.
        self.run(threads, Pooling::Max, from, to);
        let row = self.check(from.len(), to.len());
        assert_eq!(to.len(), indices.len());
        threads.par_chunks_mut(indices, row, self.grain() * row, |first, part| {
            for (i, indices) in part.chunks_exact_mut(row).enumerate() {
                self.arg_max_row(first + i, from, indices, modulus.max(1));
            }
        });
    }

    fn arg_max_row<T: Pooled, I: Stored>(
        &self,
        row: usize,
        from: &[T],
        indices: &mut [I],
        modulus: usize,
    ) {
        let width = &self.axes[2];
        let (plane, windows) = self.row(row);
        for (index, window) in indices.iter_mut().zip(&width.windows) {
            let (mut best, mut place) = (self.lowest::<T>(), plane * self.plane().0);
            for line in self.lines(plane, windows) {
                for at in window.positions(width.step) {
                    let x = from[line + at].widen();
                    if x > best {
                        (best, place) = (x, line + at);
                    }
                }
            }
            *index = I::from_i64((place % modulus) as i64);
        }
    }

    /// The plane of an output row, and its windows along the outer axes.
    fn row(&self, row: usize) -> (usize, (Taps, Taps)) {
        let [depth, height, _] = &self.axes;
        let (y, rest) = (row % height.windows.len(), row / height.windows.len());
        let (z, plane) = (rest % depth.windows.len(), rest / depth.windows.len());
        (plane, (depth.windows[z], height.windows[y]))
    }

    /// Offsets of the input rows of a plane under windows along the outer axes.
    fn lines(&self, plane: usize, windows: (Taps, Taps)) -> impl Iterator<Item = usize> {
        let [depth, height, width] = &self.axes;
        let (deep, high, wide) = (depth.input, height.input, width.input);
        let step = height.step;
        windows.0.positions(depth.step).flat_map(move |z| {
            let line = move |y| ((plane * deep + z) * high + y) * wide;
            windows.1.positions(step).map(line)
        })
    }
}

multiversion! {
    wide if size_of::<T>() == size_of::<f32>(), vectors if size_of::<T>() <= size_of::<f32>();
    /// Computes whole output rows, from row `first` on.
    fn rows<F: Fold<T::Wide>, T: Pooled>(f: F, pool: &Pool, first: usize, from: &[T], to: &mut [T]) {
        let width = &pool.axes[2];
        // Pairs of elements may reach past the last one.
        let mut line = vec![f.start(); width.input + 1];
        let mut folded = vec![f.start(); width.windows.len()];
        let counts = width.windows.iter().map(|window| T::Wide::of_count(window.count));
        let counts: Vec<T::Wide> = counts.collect();
        let mut lines = Vec::new();
        for (i, to) in to.chunks_exact_mut(folded.len()).enumerate() {
            let (plane, windows) = pool.row(first + i);
            lines.clear();
            // `extend` would ask the nested iterators for one line after the other.
            pool.lines(plane, windows).for_each(|line| lines.push(line));
            down(f, from, &lines, &mut line[..width.input]);
            match &width.sliding {
                Some(window) => slide(f, &pool.spans, window.stride, &line, &mut folded),
                None => gather(f, &width.windows, &line, &mut folded),
            }
            let lines = T::Wide::of_count(lines.len());
            for ((to, sum), taps) in to.iter_mut().zip(&folded).zip(&counts) {
                *to = f.finish(*sum, lines.mul(*taps)).narrow();
            }
        }
    }
}

/// Folds the input rows that begin at these offsets into one.
#[inline(always)]
fn down<F: Fold<T::Wide>, T: Pooled>(f: F, from: &[T], lines: &[usize], to: &mut [T::Wide]) {
    to.fill(f.start());
    let (groups, rest) = to.as_chunks_mut::<LANES>();
    let whole = groups.len() * LANES;
    for lines in lines.chunks(LINES) {
        for (i, to) in groups.iter_mut().enumerate() {
            let mut sums = *to;
            for line in lines {
                let x = &from[line + i * LANES..][..LANES];
                for i in 0..LANES {
                    sums[i] = f.step(sums[i], x[i].widen());
                }
            }
            *to = sums;
        }
        for (i, to) in rest.iter_mut().enumerate() {
            let column = lines.iter().map(|line| from[line + whole + i].widen());
            *to = column.fold(*to, |sum, x| f.step(sum, x));
        }
    }
}

/// Folds a row along sliding windows. `spans` are those of a [`Pool`].
#[inline(always)]
fn slide<F: Fold<W>, W: Mean>(
    f: F,
    spans: &[(Range<usize>, usize)],
    stride: usize,
    line: &[W],
    to: &mut [W],
) {
    // Windows of which all taps are within the input.
    let first = spans.iter().map(|(windows, _)| windows.start).max().unwrap_or(0);
    let end = spans.iter().map(|(windows, _)| windows.end).min().unwrap_or(to.len());
    let groups = end.saturating_sub(first) / LANES;
    let grouped = if groups > 0 { first..end } else { 0..0 };
    for group in 0..groups {
        slide_some(f, spans, stride, line, first + group * LANES, to);
    }
    if !grouped.len().is_multiple_of(LANES) {
        // The last ones, with some again.
        slide_some(f, spans, stride, line, end - LANES, to);
    }
    for window in (0..grouped.start).chain(grouped.end..to.len()) {
        let taps = spans.iter().filter(|(windows, _)| windows.contains(&window));
        let taps = taps.map(|(windows, first)| line[first + (window - windows.start) * stride]);
        to[window] = taps.fold(f.start(), |sum, x| f.step(sum, x));
    }
}

/// Folds a row along [`LANES`] sliding windows from one on, of which all taps are within the input.
#[inline(always)]
fn slide_some<F: Fold<W>, W: Mean>(
    f: F,
    spans: &[(Range<usize>, usize)],
    stride: usize,
    line: &[W],
    window: usize,
    to: &mut [W],
) {
    let mut sums = [f.start(); LANES];
    for (windows, first) in spans {
        let x = &line[first + (window - windows.start) * stride..];
        match stride {
            1 => {
                let x = &x[..LANES];
                for i in 0..LANES {
                    sums[i] = f.step(sums[i], x[i]);
                }
            }
            // Pairs of neighbours are loaded together.
            2 => {
                let x = &x[..2 * LANES];
                for i in 0..LANES {
                    sums[i] = f.step(sums[i], x[2 * i]);
                }
            }
            _ => {
                for i in 0..LANES {
                    sums[i] = f.step(sums[i], x[i * stride]);
                }
            }
        }
    }
    to[window..][..LANES].copy_from_slice(&sums);
}

/// Folds a row along arbitrary windows.
#[inline(always)]
fn gather<F: Fold<W>, W: Mean>(f: F, windows: &[Taps], line: &[W], to: &mut [W]) {
    for (to, taps) in to.iter_mut().zip(windows) {
        let taps = &line[taps.first..][..taps.count];
        *to = taps.iter().fold(f.start(), |sum, x| f.step(sum, *x));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(inputs: Range<usize>, outputs: Range<usize>) -> impl Strategy<Value = Window> {
        (inputs, outputs, 1usize..4, 1usize..5, 1usize..4, -3isize..1).prop_map(
            |(input, output, taps, stride, dilation, start)| Window {
                input,
                output,
                taps,
                stride,
                dilation,
                start,
            },
        )
    }

    /// The elements in each window, by index.
    fn seen(planes: usize, axes: &[Window; 3]) -> Vec<Vec<usize>> {
        let places = |axis: Window, output: usize| -> Vec<usize> {
            (0..axis.taps).filter_map(|tap| axis.position(output, tap)).collect()
        };
        let [depth, height, width] = *axes;
        let mut all = Vec::new();
        for i in 0..planes * depth.output * height.output * width.output {
            let (x, rest) = (i % width.output, i / width.output);
            let (y, rest) = (rest % height.output, rest / height.output);
            let (z, plane) = (rest % depth.output, rest / depth.output);
            let mut window = Vec::new();
            for z in places(depth, z) {
                for y in places(height, y) {
                    let line = ((plane * depth.input + z) * height.input + y) * width.input;
                    window.extend(places(width, x).iter().map(|x| line + x));
                }
            }
            all.push(window);
        }
        all
    }

    /// Windows along three axes; along the last, some are folded in groups.
    fn axes() -> impl Strategy<Value = [Window; 3]> {
        let (few, many) = (window(1..9, 0..7), window(1..90, 0..60));
        (window(1..9, 0..7), few, prop_oneof![window(1..9, 0..7), many])
            .prop_map(|(z, y, x)| [z, y, x])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn windows_are_those_of_the_definition(planes in 1usize..4, axes in axes()) {
            let pool = Pool::new([0, 1, 2].map(|i| Axis::sliding(&axes[i])));
            let size: usize = planes * axes.iter().map(|a| a.input).product::<usize>();
            let from: Vec<f32> = (0..size).map(|i| (i * 37 % 101) as f32).collect();
            let windows = seen(planes, &axes);
            let threads = Threads::new(2);
            let (mut max, mut mean) = (vec![0f32; windows.len()], vec![0f32; windows.len()]);
            pool.run(&threads, Pooling::Mean(None), &from, &mut mean);
            pool.run(&threads, Pooling::Max, &from, &mut max);
            let (mut same, mut places) = (max.clone(), vec![-1i32; max.len()]);
            pool.arg_max(&threads, usize::MAX, &from, (&mut same, &mut places));
            prop_assert_eq!(&same, &max);
            for (i, window) in windows.iter().enumerate() {
                let values = window.iter().map(|at| from[*at]);
                let count = window.len().max(1) as f32;
                prop_assert_eq!(mean[i], values.clone().sum::<f32>() / count);
                prop_assert_eq!(max[i], values.clone().fold(f32::MIN, f32::max));
                let first = window.iter().find(|at| from[**at] == max[i]);
                prop_assert!(first.is_none_or(|at| *at == places[i] as usize));
            }
            let zeros: Vec<f32> = from.iter().map(|x| if *x < 50.0 { -0.0 } else { 0.0 }).collect();
            pool.run(&threads, Pooling::Max, &zeros, &mut max);
            pool.arg_max(&threads, usize::MAX, &zeros, (&mut same, &mut places));
            prop_assert!(same.iter().zip(&max).all(|(x, y)| x.to_bits() == y.to_bits()));
        }
    }

    #[test]
    fn other_types_and_fixed_divisors() {
        let window = Window { input: 4, output: 3, taps: 2, stride: 2, dilation: 1, start: -1 };
        let pool = Pool::new([Window::NONE, Window::NONE, window].map(|w| Axis::sliding(&w)));
        let run = |pooling| {
            let mut to = [0i8; 3];
            pool.run(Threads::single(), pooling, &[-5, 3, -6, 100], &mut to);
            to
        };
        assert_eq!(run(Pooling::Max), [-5, 3, 100]);
        assert_eq!(run(Pooling::Mean(None)), [-5, -2, 100]);
        assert_eq!(run(Pooling::Mean(Some(2))), [-2, -2, 50]);
    }

    #[test]
    fn adaptive_windows_cover_the_axis() {
        let axes = [(1, 1), (1, 1), (5, 3)].map(|(input, output)| Axis::adaptive(input, output));
        let (mut to, mut places) = ([0f64; 3], [0i64; 3]);
        let from = [1., 2., 3., 4., 5.];
        let pool = Pool::new(axes);
        pool.run(Threads::single(), Pooling::Mean(None), &from, &mut to);
        assert_eq!(to, [1.5, 3., 4.5]);
        pool.arg_max(Threads::single(), 4, &from, (&mut to, &mut places));
        assert_eq!((to, places), ([2., 4., 5.], [1, 3, 0]));
    }
}
