//! The numbers of a transform: a complex number, or one of each of several lines as lanes. Each
//! lane is computed alike, so the result of a line does not depend on the others.

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Complex {
    /// `exp(-2πi · part / whole)`.
    pub(super) fn root(part: usize, whole: usize) -> Complex {
        let angle = -2.0 * std::f64::consts::PI * (part as f64 / whole as f64);
        Complex { re: libm::cos(angle), im: libm::sin(angle) }
    }
}

/// Complex numbers of [`Number::LANES`] lines.
pub trait Number: Copy + Default {
    /// Number of lines.
    const LANES: usize;
    /// The number of a line.
    fn get(&self, lane: usize) -> Complex;
    /// Sets the number of a line.
    fn set(&mut self, lane: usize, value: Complex);
    /// Sums.
    fn add(self, b: Self) -> Self;
    /// Differences.
    fn sub(self, b: Self) -> Self;
    /// Products with one complex number.
    fn mul(self, b: Complex) -> Self;
    /// Products with one real number.
    fn scaled(self, factor: f64) -> Self;
    /// Products with `-i`.
    fn quarter_turned(self) -> Self;
    /// Complex conjugates.
    fn conjugate(self) -> Self;
    /// Real and imaginary parts swapped, which turns a transform into its inverse.
    fn swapped(self) -> Self;
}

impl Number for Complex {
    const LANES: usize = 1;

    #[inline(always)]
    fn get(&self, _lane: usize) -> Complex {
        *self
    }

    #[inline(always)]
    fn set(&mut self, _lane: usize, value: Complex) {
        *self = value;
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

    #[inline(always)]
    fn scaled(self, factor: f64) -> Complex {
        Complex { re: self.re * factor, im: self.im * factor }
    }

    #[inline(always)]
    fn quarter_turned(self) -> Complex {
        Complex { re: self.im, im: -self.re }
    }

    #[inline(always)]
    fn conjugate(self) -> Complex {
        Complex { im: -self.im, ..self }
    }

    #[inline(always)]
    fn swapped(self) -> Complex {
        Complex { re: self.im, im: self.re }
    }
}

/// Lines that are transformed together.
const FFT_LANES: usize = 8;

/// Complex numbers of several lines.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct LaneComplex {
    re: [f64; FFT_LANES],
    im: [f64; FFT_LANES],
}

impl LaneComplex {
    /// The lanes from `f` of each.
    #[inline(always)]
    fn of(f: impl Fn(usize) -> (f64, f64)) -> LaneComplex {
        let mut all = LaneComplex::default();
        for i in 0..FFT_LANES {
            (all.re[i], all.im[i]) = f(i);
        }
        all
    }
}

impl Number for LaneComplex {
    const LANES: usize = FFT_LANES;

    #[inline(always)]
    fn get(&self, lane: usize) -> Complex {
        Complex { re: self.re[lane], im: self.im[lane] }
    }

    #[inline(always)]
    fn set(&mut self, lane: usize, value: Complex) {
        (self.re[lane], self.im[lane]) = (value.re, value.im);
    }

    #[inline(always)]
    fn add(self, b: LaneComplex) -> LaneComplex {
        LaneComplex::of(|i| (self.re[i] + b.re[i], self.im[i] + b.im[i]))
    }

    #[inline(always)]
    fn sub(self, b: LaneComplex) -> LaneComplex {
        LaneComplex::of(|i| (self.re[i] - b.re[i], self.im[i] - b.im[i]))
    }

    #[inline(always)]
    fn mul(self, b: Complex) -> LaneComplex {
        let LaneComplex { re, im } = self;
        LaneComplex::of(|i| (re[i] * b.re - im[i] * b.im, re[i] * b.im + im[i] * b.re))
    }

    #[inline(always)]
    fn scaled(self, factor: f64) -> LaneComplex {
        LaneComplex::of(|i| (self.re[i] * factor, self.im[i] * factor))
    }

    #[inline(always)]
    fn quarter_turned(self) -> LaneComplex {
        LaneComplex::of(|i| (self.im[i], -self.re[i]))
    }

    #[inline(always)]
    fn conjugate(self) -> LaneComplex {
        LaneComplex::of(|i| (self.re[i], -self.im[i]))
    }

    #[inline(always)]
    fn swapped(self) -> LaneComplex {
        LaneComplex { re: self.im, im: self.re }
    }
}
