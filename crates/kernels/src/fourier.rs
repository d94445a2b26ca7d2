//! Discrete Fourier transforms of any length, in f64.
//!
//! Lengths whose prime factors are small are divided by them; others go through a convolution
//! with a chirp (Bluestein), whose length is a power of two. Both take O(n log n).

use crate::num::Plain;
use crate::par::{Slice, Threads};
use crate::real::{Real, StoredReal};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

// SAFETY: two f64 without padding.
unsafe impl Plain for Complex {}

impl Complex {
    /// `exp(-2πi · part / whole)`.
    fn root(part: usize, whole: usize) -> Complex {
        let angle = -2.0 * std::f64::consts::PI * (part as f64 / whole as f64);
        Complex { re: libm::cos(angle), im: libm::sin(angle) }
    }

    #[inline(always)]
    fn add(self, b: Complex) -> Complex {
        Complex { re: self.re + b.re, im: self.im + b.im }
    }

    #[inline(always)]
    fn sub(self, b: Complex) -> Complex {
        Complex { re: self.re - b.re, im: self.im - b.im }
    }

    #[inline(always)]
    fn mul(self, b: Complex) -> Complex {
        Complex { re: self.re * b.re - self.im * b.im, im: self.re * b.im + self.im * b.re }
    }

    /// The product with `-i`.
    #[inline(always)]
    fn turned(self) -> Complex {
        Complex { re: self.im, im: -self.re }
    }

    /// The complex conjugate.
    pub fn conjugate(self) -> Complex {
        Complex { im: -self.im, ..self }
    }

    /// Real and imaginary part exchanged, which turns a transform into its inverse.
    fn swapped(self) -> Complex {
        Complex { re: self.im, im: self.re }
    }
}

/// The largest prime factor that is divided by.
const MOST: usize = 31;

/// Multiplications that are worth a second thread.
const GRAIN: usize = 8 << 10;

/// The transform of one length.
pub struct Fft {
    len: usize,
    method: Method,
}

enum Method {
    /// The factors of the length, and the roots of unity.
    Divided { factors: Vec<usize>, roots: Vec<Complex> },
    /// The chirp, and the transform of its conjugate over the length of `inner`.
    Chirp { chirp: Vec<Complex>, spectrum: Vec<Complex>, inner: Box<Fft> },
}

impl Fft {
    /// The transform of `len` elements, at least one.
    pub fn new(len: usize) -> Fft {
        let len = len.max(1);
        let (mut factors, mut rest) = (Vec::new(), len);
        for factor in [4].into_iter().chain(2..=MOST) {
            while rest % factor == 0 {
                factors.push(factor);
                rest /= factor;
            }
        }
        if rest == 1 {
            let roots = (0..len).map(|i| Complex::root(i, len)).collect();
            return Fft { len, method: Method::Divided { factors, roots } };
        }
        // Angles are those of i² modulo 2 len.
        let square = |i: usize| ((i as u128 * i as u128) % (2 * len as u128)) as usize;
        let chirp: Vec<Complex> = (0..len).map(|i| Complex::root(square(i), 2 * len)).collect();
        let inner = Fft::new((2 * len - 1).next_power_of_two());
        let mut around = vec![Complex::default(); inner.len];
        for (i, c) in chirp.iter().enumerate() {
            around[i] = c.conjugate();
            around[(inner.len - i) % inner.len] = c.conjugate();
        }
        let mut spectrum = vec![Complex::default(); inner.len];
        inner.forward(&around, &mut spectrum);
        Fft { len, method: Method::Chirp { chirp, spectrum, inner: Box::new(inner) } }
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// The sum over `x[j] exp(-2πi jk / n)` for every `k`.
    ///
    /// # Panics
    /// When a slice is of another length.
    pub fn forward(&self, from: &[Complex], to: &mut [Complex]) {
        assert!(from.len() == self.len && to.len() == self.len);
        match &self.method {
            Method::Divided { factors, roots } => divided(from, 1, to, factors, roots),
            Method::Chirp { chirp, spectrum, inner } => {
                let mut a = vec![Complex::default(); inner.len];
                let mut b = a.clone();
                for ((a, x), c) in a.iter_mut().zip(from).zip(chirp) {
                    *a = x.mul(*c);
                }
                inner.forward(&a, &mut b);
                for (b, s) in b.iter_mut().zip(spectrum) {
                    *b = b.mul(*s);
                }
                inner.inverse(&mut b, &mut a);
                for ((to, x), c) in to.iter_mut().zip(&a).zip(chirp) {
                    *to = x.mul(*c);
                }
            }
        }
    }

    /// What [`Fft::forward`] came from. Overwrites its input.
    ///
    /// # Panics
    /// As [`Fft::forward`].
    pub fn inverse(&self, from: &mut [Complex], to: &mut [Complex]) {
        from.iter_mut().for_each(|x| *x = x.swapped());
        self.forward(from, to);
        let scale = 1.0 / self.len as f64;
        to.iter_mut().for_each(|x| *x = Complex { re: x.im * scale, im: x.re * scale });
    }

    /// Transforms a real line; the result has `len / 2 + 1` elements that tell the others.
    pub fn real(&self, from: impl Iterator<Item = f64>, work: &mut Work) {
        work.resize(self.len);
        work.from.iter_mut().zip(from).for_each(|(to, re)| *to = Complex { re, im: 0.0 });
        self.forward(&work.from, &mut work.to);
    }

    /// The line whose transform begins with the given elements, and goes on as that of a real
    /// line does.
    pub fn hermitian(&self, from: impl Iterator<Item = Complex>, work: &mut Work) {
        work.resize(self.len);
        for (i, x) in from.take(self.len / 2 + 1).enumerate() {
            work.from[i] = x;
            if i > 0 && 2 * i < self.len {
                work.from[self.len - i] = x.conjugate();
            }
        }
        self.inverse(&mut work.from, &mut work.to);
    }

    /// Multiplications of a transform, roughly.
    fn cost(&self) -> usize {
        8 * self.len * (self.len.ilog2() as usize + 1)
    }
}

/// A line before and after its transform.
#[derive(Default)]
pub struct Work {
    from: Vec<Complex>,
    /// What the last transform gave.
    pub to: Vec<Complex>,
}

impl Work {
    /// Makes room, and zeros the line before the transform.
    fn resize(&mut self, len: usize) {
        self.from.clear();
        self.from.resize(len, Complex::default());
        self.to.resize(len, Complex::default());
    }
}

/// Transforms every `stride`th element: as many lines as the first factor, then their sums.
fn divided(
    from: &[Complex],
    stride: usize,
    to: &mut [Complex],
    factors: &[usize],
    roots: &[Complex],
) {
    let Some((&radix, factors)) = factors.split_first() else {
        to[0] = from[0];
        return;
    };
    let part = to.len() / radix;
    for (q, to) in to.chunks_exact_mut(part).enumerate() {
        divided(&from[q * stride..], stride * radix, to, factors, roots);
    }
    let mut x = [Complex::default(); MOST];
    for u in 0..part {
        for (q, x) in x.iter_mut().enumerate().take(radix) {
            *x = to[u + q * part].mul(roots[stride * q * u]);
        }
        match radix {
            2 => {
                to[u] = x[0].add(x[1]);
                to[u + part] = x[0].sub(x[1]);
            }
            4 => {
                let (a, b) = (x[0].add(x[2]), x[0].sub(x[2]));
                let (c, d) = (x[1].add(x[3]), x[1].sub(x[3]).turned());
                to[u] = a.add(c);
                to[u + part] = b.add(d);
                to[u + 2 * part] = a.sub(c);
                to[u + 3 * part] = b.sub(d);
            }
            _ => {
                let turn = roots.len() / radix;
                for k in 0..radix {
                    let term = |q: usize| x[q].mul(roots[q * k % radix * turn]);
                    to[u + k * part] = (1..radix).fold(x[0], |sum, q| sum.add(term(q)));
                }
            }
        }
    }
}

/// What is done with the lines of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// [`Fft::forward`].
    Forward,
    /// [`Fft::inverse`].
    Inverse,
    /// [`Fft::hermitian`].
    Hermitian,
}

/// A transform along one axis: `outer` times `input` runs of `inner` elements become as many of
/// `output`. Lines are cut or filled with zeros to the length of the transform.
pub struct AxisTransform {
    /// Size of the axes before.
    pub outer: usize,
    /// Size of the axis.
    pub input: usize,
    /// Size of the axis afterwards, at most the length of the transform.
    pub output: usize,
    /// Size of the axes after.
    pub inner: usize,
    /// The transform.
    pub fft: Fft,
    /// What is done with each line.
    pub direction: Direction,
}

impl AxisTransform {
    /// Number of elements afterwards.
    pub fn count(&self) -> usize {
        self.outer * self.output * self.inner
    }

    /// Transforms every line.
    ///
    /// # Panics
    /// When a slice is of another size.
    pub fn run(&self, threads: &Threads, from: &[Complex], to: &mut [Complex]) {
        let AxisTransform { outer, input, output, inner, ref fft, direction } = *self;
        assert!(from.len() == outer * input * inner && to.len() == self.count());
        assert!(output <= fft.len);
        if to.is_empty() {
            return;
        }
        let out = Slice::new(to);
        threads.ranges(outer * inner, GRAIN.div_ceil(fft.cost()), |lines| {
            let mut work = Work::default();
            for line in lines {
                let (outer, inner_at) = (line / inner, line % inner);
                let from =
                    (0..input.min(fft.len)).map(|i| from[(outer * input + i) * inner + inner_at]);
                if direction == Direction::Hermitian {
                    fft.hermitian(from, &mut work);
                } else {
                    work.resize(fft.len);
                    work.from.iter_mut().zip(from).for_each(|(to, x)| *to = x);
                    match direction {
                        Direction::Forward => fft.forward(&work.from, &mut work.to),
                        _ => fft.inverse(&mut work.from, &mut work.to),
                    }
                }
                for (i, x) in work.to[..output].iter().enumerate() {
                    // SAFETY: lines are disjoint, and this is an element of one.
                    unsafe { *out.at((outer * output + i) * inner + inner_at) = *x };
                }
            }
        });
    }
}

/// Reads complex numbers stored as pairs, or reals.
pub fn load<T: StoredReal>(pairs: bool, from: &[T], to: &mut [Complex]) {
    let wide = |x: T| x.widen().to_f64();
    match pairs {
        true => to.iter_mut().zip(from.chunks_exact(2)).for_each(|(to, x)| {
            *to = Complex { re: wide(x[0]), im: wide(x[1]) };
        }),
        false => {
            to.iter_mut().zip(from).for_each(|(to, x)| *to = Complex { re: wide(*x), im: 0.0 });
        }
    }
}

/// Stores complex numbers as pairs, or their real parts.
pub fn store<T: StoredReal>(pairs: bool, from: &[Complex], to: &mut [T]) {
    let narrow = |x: f64| T::from_f64(x);
    match pairs {
        true => to.chunks_exact_mut(2).zip(from).for_each(|(to, x)| {
            to.copy_from_slice(&[narrow(x.re), narrow(x.im)]);
        }),
        false => to.iter_mut().zip(from).for_each(|(to, x)| *to = narrow(x.re)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(len: usize) -> Vec<Complex> {
        let part = |i: usize| ((i * i * 7 + 3 * i) % 23) as f64 - 11.0;
        (0..len).map(|i| Complex { re: part(i), im: part(i + 5) }).collect()
    }

    fn close(a: &[Complex], b: &[Complex]) -> bool {
        let near =
            |(a, b): (&Complex, &Complex)| (a.re - b.re).abs() < 1e-9 && (a.im - b.im).abs() < 1e-9;
        a.len() == b.len() && a.iter().zip(b).all(near)
    }

    #[test]
    fn every_length_gives_the_sum_and_its_inverse() {
        for len in (1..70).chain([74, 97, 128, 360, 961]) {
            let fft = Fft::new(len);
            let mut x = line(len);
            let (mut y, mut back) = (x.clone(), x.clone());
            fft.forward(&x, &mut y);
            let sum = |k: usize| {
                let terms =
                    x.iter().enumerate().map(|(j, x)| x.mul(Complex::root(j * k % len, len)));
                terms.fold(Complex::default(), Complex::add)
            };
            x = line(len);
            assert!(close(&y, &(0..len).map(sum).collect::<Vec<_>>()), "{len}");
            fft.inverse(&mut y, &mut back);
            assert!(close(&back, &x), "{len}");
        }
    }

    #[test]
    fn half_a_spectrum_tells_a_real_line() {
        for len in [1, 2, 5, 8, 12] {
            let (fft, mut work) = (Fft::new(len), Work::default());
            let x: Vec<f64> = line(len).iter().map(|x| x.re).collect();
            fft.real(x.iter().copied(), &mut work);
            let half = work.to[..len / 2 + 1].to_vec();
            fft.hermitian(half.into_iter(), &mut work);
            let real: Vec<Complex> = x.iter().map(|re| Complex { re: *re, im: 0.0 }).collect();
            assert!(close(&work.to, &real));
        }
    }

    #[test]
    fn lines_are_cut_and_filled() {
        let data = line(2 * 3 * 2);
        for (size, threads) in [(2, 1), (5, 3)] {
            let pass = AxisTransform {
                outer: 2,
                input: 3,
                output: size,
                inner: 2,
                fft: Fft::new(size),
                direction: Direction::Forward,
            };
            let mut out = vec![Complex::default(); pass.count()];
            pass.run(&Threads::new(threads), &data, &mut out);
            let at = |i: usize| if i < 3 { data[6 + 2 * i + 1] } else { Complex::default() };
            let from: Vec<Complex> = (0..size).map(at).collect();
            let mut expected = from.clone();
            Fft::new(size).forward(&from, &mut expected);
            let found: Vec<Complex> = (0..size).map(|i| out[2 * size + 2 * i + 1]).collect();
            assert_eq!(found, expected);
        }
    }
}
