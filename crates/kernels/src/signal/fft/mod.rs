//! Discrete Fourier transforms of any length, in f64.
//!
//! Lengths with small prime factors use mixed radices; others use a convolution with a chirp
//! (Bluestein), with a power of two as length. Both take O(n log n).

mod axis;
mod number;

pub use axis::{AxisTransform, Direction, Elements};
pub use number::{Complex, Number};

use crate::multiversion;

/// The largest prime factor that is used as a radix.
const MAX_PRIME: usize = 31;

/// The transform for one length.
pub struct Fft {
    len: usize,
    method: Method,
}

enum Method {
    /// Mixed radix: the factors, the order in which elements are combined, and the roots of unity.
    Divided { factors: Vec<usize>, order: Vec<usize>, roots: Vec<Complex> },
    /// Bluestein: the chirp, and the transform of its conjugate over the length of `inner`.
    Chirp { chirp: Vec<Complex>, spectrum: Vec<Complex>, inner: Box<Fft> },
}

impl Fft {
    /// The transform of `len` elements, at least one.
    pub fn new(len: usize) -> Fft {
        let len = len.max(1);
        let (mut factors, mut rest) = (Vec::new(), len);
        for factor in [4].into_iter().chain(2..=MAX_PRIME) {
            while rest % factor == 0 {
                factors.push(factor);
                rest /= factor;
            }
        }
        if rest == 1 {
            let roots = (0..len).map(|i| Complex::root(i, len)).collect();
            let order = order(&factors);
            return Fft { len, method: Method::Divided { factors, order, roots } };
        }
        // The angles are those of i² modulo 2 len.
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
    /// When a slice has another length.
    pub fn forward<N: Number>(&self, from: &[N], to: &mut [N]) {
        assert!(from.len() == self.len && to.len() == self.len);
        match &self.method {
            Method::Divided { factors, order, roots } => {
                to.iter_mut().zip(order).for_each(|(to, i)| *to = from[*i]);
                let mut part = 1;
                for radix in factors.iter().rev() {
                    combine(to, *radix, part, roots);
                    part *= radix;
                }
            }
            Method::Chirp { chirp, spectrum, inner } => {
                let mut a = vec![N::default(); inner.len];
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

    /// The inverse of [`Fft::forward`]. Overwrites its input.
    ///
    /// # Panics
    /// As [`Fft::forward`].
    pub fn inverse<N: Number>(&self, from: &mut [N], to: &mut [N]) {
        from.iter_mut().for_each(|x| *x = x.swapped());
        self.forward(from, to);
        let scale = 1.0 / self.len as f64;
        to.iter_mut().for_each(|x| *x = x.swapped().scaled(scale));
    }

    /// Transforms a real line. The result is the first `len / 2 + 1` elements; the others follow by
    /// symmetry.
    pub fn real(&self, from: impl Iterator<Item = f64>, work: &mut Work<Complex>) {
        work.resize(self.len);
        work.from.iter_mut().zip(from).for_each(|(to, re)| *to = Complex { re, im: 0.0 });
        self.forward(&work.from, &mut work.to);
    }

    /// The inverse transform from the first `len / 2 + 1` elements of a spectrum; the others are
    /// set as those of a real line.
    ///
    /// # Panics
    /// When the work has another length.
    pub fn hermitian<N: Number>(&self, work: &mut Work<N>) {
        for i in (1..self.len / 2 + 1).filter(|i| 2 * i < self.len) {
            work.from[self.len - i] = work.from[i].conjugate();
        }
        self.inverse(&mut work.from, &mut work.to);
    }

    /// Multiplications of a transform, approximately.
    fn cost(&self) -> usize {
        8 * self.len * (self.len.ilog2() as usize + 1)
    }
}

/// The input and output buffers of a transform.
#[derive(Default)]
pub struct Work<N> {
    /// The input; zeros at first.
    pub from: Vec<N>,
    /// The output of the last transform.
    pub to: Vec<N>,
}

impl<N: Number> Work<N> {
    /// Resizes to `len` elements per line, and sets them to zero.
    pub fn resize(&mut self, len: usize) {
        self.from.clear();
        self.from.resize(len, N::default());
        self.to.resize(len, N::default());
    }
}

/// The order of the elements when parts are combined, the last factor first.
fn order(factors: &[usize]) -> Vec<usize> {
    let within = |inner: Vec<usize>, radix: &usize| {
        (0..*radix).flat_map(|q| inner.iter().map(move |i| q + radix * i)).collect()
    };
    factors.iter().rev().fold(vec![0], within)
}

multiversion! {
    /// Combines `radix` transforms of `part` elements to one, in each run of `radix * part`.
    fn combine<N: Number>(line: &mut [N], radix: usize, part: usize, roots: &[Complex]) {
        let (stride, quarter) = (roots.len() / (radix * part), roots.len() / radix);
        for to in line.chunks_exact_mut(radix * part) {
            for u in 0..part {
                let x = |q: usize| to[u + q * part].mul(roots[stride * q * u]);
                match radix {
                    2 => {
                        let [a, b] = [x(0), x(1)];
                        to[u] = a.add(b);
                        to[u + part] = a.sub(b);
                    }
                    4 => {
                        let [x0, x1, x2, x3] = [x(0), x(1), x(2), x(3)];
                        let (a, b) = (x0.add(x2), x0.sub(x2));
                        let (c, d) = (x1.add(x3), x1.sub(x3).quarter_turned());
                        to[u] = a.add(c);
                        to[u + part] = b.add(d);
                        to[u + 2 * part] = a.sub(c);
                        to[u + 3 * part] = b.sub(d);
                    }
                    _ => {
                        let mut all = [N::default(); MAX_PRIME];
                        for q in 0..radix {
                            all[q] = x(q);
                        }
                        for k in 0..radix {
                            let mut sum = all[0];
                            for q in 1..radix {
                                sum = sum.add(all[q].mul(roots[q * k % radix * quarter]));
                            }
                            to[u + k * part] = sum;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::par::Threads;

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
            let x = line(len);
            let (mut y, mut back) = (x.clone(), x.clone());
            fft.forward(&x, &mut y);
            let sum = |k: usize| {
                let terms =
                    x.iter().enumerate().map(|(j, x)| x.mul(Complex::root(j * k % len, len)));
                terms.fold(Complex::default(), Complex::add)
            };
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
            work.resize(len);
            work.from[..half.len()].copy_from_slice(&half);
            fft.hermitian(&mut work);
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
            let to = Elements::Complex(&mut out[..]);
            pass.run::<f64>(&Threads::new(threads), Elements::Complex(&data), to);
            let at = |i: usize| if i < 3 { data[6 + 2 * i + 1] } else { Complex::default() };
            let from: Vec<Complex> = (0..size).map(at).collect();
            let mut expected = from.clone();
            Fft::new(size).forward(&from, &mut expected);
            let found: Vec<Complex> = (0..size).map(|i| out[2 * size + 2 * i + 1]).collect();
            assert_eq!(found, expected);
        }
    }
}
