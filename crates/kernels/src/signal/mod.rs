//! Fourier transforms.

pub mod fft;
pub mod stft;
