//! Short-time Fourier transform (STFT): overlapping, windowed frames of a signal; and its inverse.

use crate::base::par::{Slice, Threads};
use crate::math::real::{Real, StoredReal};
use crate::signal::fft::{Complex, Fft, Work};

/// The frames of a batch of signals.
pub struct Frames {
    /// Number of signals.
    pub batch: usize,
    /// Elements of a signal.
    pub signal: usize,
    /// Number of frames of a signal.
    pub count: usize,
    /// Distance from one frame to the next.
    pub step: usize,
    /// Whether the spectrum axis comes before the frames.
    pub transposed: bool,
    /// The transform of a frame.
    pub fft: Fft,
}

/// How the frames of an inverse transform become a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// The offset of a signal in its first frame.
    pub start: usize,
    /// Factor of the result.
    pub scale: f64,
}

/// Multiplications that are worth a second thread.
const GRAIN: usize = 16 << 10;

/// A window, padded with zeros on both sides to the size of a frame.
///
/// # Panics
/// When it is longer than a frame.
pub fn padded<T: StoredReal>(window: &[T], size: usize) -> Vec<f64> {
    let mut padded = vec![0.0; size];
    let start = (size - window.len()) / 2;
    let window = window.iter().map(|w| w.widen().to_f64());
    padded[start..].iter_mut().zip(window).for_each(|(to, w)| *to = w);
    padded
}

impl Frames {
    /// Elements of a spectrum.
    fn bins(&self) -> usize {
        self.fft.len() / 2 + 1
    }

    /// The index of an element of a spectrum, in pairs.
    fn place(&self, signal: usize, frame: usize, bin: usize) -> usize {
        let (count, bins) = (self.count, self.bins());
        signal * count * bins
            + if self.transposed { bin * count + frame } else { frame * bins + bin }
    }

    /// Transforms every frame.
    ///
    /// # Panics
    /// When a slice has another size.
    pub fn forward<T: StoredReal>(
        &self,
        threads: &Threads,
        (signals, window): (&[T], &[T]),
        spectra: &mut [T],
    ) {
        assert_eq!(signals.len(), self.batch * self.signal);
        assert_eq!(spectra.len(), 2 * self.batch * self.count * self.bins());
        let size = self.fft.len();
        let window = padded(window, size);
        let out = Slice::new(spectra);
        threads.par_ranges(self.batch * self.count, GRAIN.div_ceil(8 * size), |frames| {
            let mut work = Work::default();
            for i in frames {
                let (signal, frame) = (i / self.count, i % self.count);
                let from = &signals[signal * self.signal + frame * self.step..][..size];
                let from = from.iter().zip(&window).map(|(x, w)| x.widen().to_f64() * w);
                self.fft.real(from, &mut work);
                for (bin, x) in work.to[..self.bins()].iter().enumerate() {
                    let at = 2 * self.place(signal, frame, bin);
                    // SAFETY: within the output, whose size has been checked; every frame has its
                    // own elements.
                    unsafe {
                        *out.at(at) = T::from_f64(x.re);
                        *out.at(at + 1) = T::from_f64(x.im);
                    }
                }
            }
        });
    }

    /// Inverse: adds up the windowed frames of the spectra, and divides by the sum of the squared
    /// windows.
    ///
    /// # Panics
    /// When a slice has another size.
    pub fn inverse<T: StoredReal>(
        &self,
        threads: &Threads,
        (spectra, window): (&[T], &[T]),
        Placement { start, scale }: Placement,
        signals: &mut [T],
    ) {
        assert_eq!(spectra.len(), 2 * self.batch * self.count * self.bins());
        assert_eq!(signals.len(), self.batch * self.signal);
        let (size, window) = (self.fft.len(), padded(window, self.fft.len()));
        let mut frames = vec![0.0; self.batch * self.count * size];
        threads.par_chunks_mut(&mut frames, size, GRAIN / 8, |first, part| {
            let mut work = Work::default();
            for (i, to) in part.chunks_mut(size).enumerate() {
                let (signal, frame) = ((first + i) / self.count, (first + i) % self.count);
                work.resize(size);
                for (bin, to) in work.from.iter_mut().take(self.bins()).enumerate() {
                    let at = 2 * self.place(signal, frame, bin);
                    let [re, im] = [spectra[at], spectra[at + 1]].map(|x| x.widen().to_f64());
                    *to = Complex { re, im };
                }
                self.fft.hermitian(&mut work);
                to.iter_mut().zip(&work.to).for_each(|(to, x)| *to = x.re);
            }
        });
        threads.par_chunks_mut(signals, 1, GRAIN / 8, |first, part| {
            for (i, to) in part.iter_mut().enumerate() {
                let (signal, at) = ((first + i) / self.signal, (first + i) % self.signal + start);
                let reaching = (at + 1).saturating_sub(size).div_ceil(self.step);
                let last = (at / self.step + 1).min(self.count);
                let (mut sum, mut weight) = (0.0, 0.0);
                for frame in reaching..last {
                    let (within, w) = (at - frame * self.step, window[at - frame * self.step]);
                    sum += frames[(signal * self.count + frame) * size + within] * w;
                    weight += w * w;
                }
                *to = T::from_f64(if weight == 0.0 { 0.0 } else { sum / weight * scale });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_comes_back() {
        for transposed in [false, true] {
            let frames =
                Frames { batch: 2, signal: 23, count: 6, step: 3, transposed, fft: Fft::new(8) };
            let signal: Vec<f32> = (0..46).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
            let window = [0.5f32, 1.0, 2.0, 1.0, 0.5, 0.25];
            let mut spectra = vec![0.0; 2 * 2 * 6 * 5];
            frames.forward(&Threads::new(2), (&signal, &window), &mut spectra);
            let from: Vec<f64> = padded(&window, 8);
            let mean: f64 = (0..8).map(|i| from[i] * f64::from(signal[3 + i])).sum();
            let at = 2 * frames.place(0, 1, 0);
            assert!((f64::from(spectra[at]) - mean).abs() < 1e-5);
            let mut back = vec![9.0f32; 46];
            let placement = Placement { start: 0, scale: 1.0 };
            frames.inverse(&Threads::new(2), (&spectra, &window), placement, &mut back);
            for (i, (a, b)) in signal.iter().zip(&back).enumerate() {
                // The window is 0 at both ends of a frame.
                let expected = if matches!(i % 23, 0 | 22) { 0.0 } else { *a };
                assert!((expected - b).abs() < 1e-5, "{i}: {a} {b}");
            }
        }
    }
}
