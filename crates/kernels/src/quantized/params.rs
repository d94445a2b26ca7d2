//! Quantization parameters.

use crate::math::quantize::Quantizer;

/// How the data are quantized: the byte `q` stands for `(q - zero_point) · scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantParams {
    scale: f32,
    zero_point: u8,
}

impl QuantParams {
    /// The parameters for at most 256 values, `scale` apart, of which the lowest is `low`. `None`
    /// unless 0 is one of them, or nearly.
    pub fn new(low: f64, scale: f64) -> Option<QuantParams> {
        /// How far 0 may be from a quantized value, in steps. Limits that are stored as f16 may
        /// move it this far: by half a unit in the last place in the middle of 256 values.
        const TOLERANCE: f64 = 1.0 / 16.0;
        let zero = -low / scale;
        let is_near =
            (zero - zero.round()).abs() <= TOLERANCE && (0.0..=255.0).contains(&zero.round());
        let normal = (scale as f32).is_normal() && scale > 0.0;
        let zero_point = zero.round() as u8;
        (is_near && normal).then_some(QuantParams { scale: scale as f32, zero_point })
    }

    /// The step between neighbouring values.
    pub fn scale(self) -> f32 {
        self.scale
    }

    /// The quantized value of 0.
    pub fn zero_point(self) -> u8 {
        self.zero_point
    }

    /// The quantizer of the data, if there is one.
    pub fn quantizer(self) -> Option<Quantizer> {
        let (scale, zero) = (f64::from(self.scale), f64::from(self.zero_point));
        Quantizer::new((-zero * scale) as f32, ((255.0 - zero) * scale) as f32, 256)
    }
}
