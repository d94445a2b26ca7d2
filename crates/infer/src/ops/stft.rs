//! STFT-15, ISTFT-16: Fourier transforms of overlapping frames of a signal, and their inverse.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/signals/stft-15.html>
//!
//! In the inverse, each frame is multiplied by its window again, and sums are divided by the sums
//! of squared windows, as in OpenVINO and PyTorch. The specification leaves it open.

use crate::rule::prelude::*;

/// The direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From a signal to spectra.
    Stft,
    /// From spectra to a signal.
    Istft,
}

/// STFT or ISTFT.
#[derive(Debug)]
pub struct Stft {
    kind: Kind,
    transposed: bool,
    center: bool,
    normalized: bool,
}

/// The frames of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Elements of a frame.
    pub size: usize,
    /// Elements between the starts of two frames.
    pub step: usize,
}

impl Parse for Stft {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(match kind {
            Kind::Stft => {
                let transposed = attrs.bool_or("transpose_frames", false);
                Stft { kind, transposed, center: false, normalized: false }
            }
            Kind::Istft => Stft {
                kind,
                transposed: true,
                center: attrs.bool_or("center", false),
                normalized: attrs.bool_or("normalized", false),
            },
        })
    }
}

impl Stft {
    /// Which direction.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the axis of frequencies comes before that of frames.
    pub fn transposed(&self) -> bool {
        self.transposed
    }

    /// Whether half a frame was added at both ends of the signal.
    pub fn center(&self) -> bool {
        self.center
    }

    /// Whether spectra were divided by the square root of the frame size.
    pub fn normalized(&self) -> bool {
        self.normalized
    }

    /// The frames, from the values of `frame_size` and `frame_step` and the size of the window.
    ///
    /// # Errors
    /// When one is not positive, or the window is longer than a frame.
    pub fn frames(&self, size: i64, step: i64, window: Dim) -> Result<Frames, RuleError> {
        require!(2; size > 0, "is {size}, not positive");
        require!(3; step > 0, "is {step}, not positive");
        let fits = window.meet(Dim::range(1, size)).is_some();
        require!(1; fits, "has {window} elements; frames have {size}");
        let number =
            |n| usize::try_from(n).map_err(|_| RuleError::new(format!("{n} is too large")));
        Ok(Frames { size: number(size)?, step: number(step)? })
    }

    fn known_frames(&self, cx: &InferCx<'_>) -> Result<(Option<Dim>, Option<i64>), RuleError> {
        let (size, step) = (cx.int(2), cx.int(3));
        let window = cx.shape(1).dim(0);
        self.frames(size.unwrap_or(i64::MAX), step.unwrap_or(1), window)?;
        Ok((size.map(Dim::fixed), step))
    }

    fn spectra(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        cx.expect_rank(0, 1..=2)?;
        let (size, step) = self.known_frames(cx)?;
        let Some((signal, batch)) = cx.shape(0).dims().and_then(<[Dim]>::split_last) else {
            return Ok(cx.unranked("the rank of the signal is unknown"));
        };
        let (mut count, mut bins) = (Dim::any(), Dim::any());
        if let Some(size) = size {
            let least = Dim::range(size.min(), Dim::INF);
            require!(0; signal.meet(least).is_some(), "has {signal} elements; frames have {size}");
            bins = size.div_floor(2).offset(1);
            if let Some(step) = step {
                count = signal.offset(size.min().saturating_neg()).div_floor(step).offset(1);
            }
        }
        if size.is_none() || step.is_none() {
            cx.because("the size or step of the frames is known only when running");
        }
        let pair = if self.transposed { [bins, count] } else { [count, bins] };
        Ok(batch.iter().copied().chain(pair).chain([Dim::fixed(2)]).collect())
    }

    fn signal(&self, cx: &mut InferCx<'_>) -> Result<PartialShape, RuleError> {
        cx.expect_rank(0, 3..=4)?;
        let (size, step) = self.known_frames(cx)?;
        let length = self.given_length(cx)?;
        let Some([batch @ .., bins, count, pair]) = cx.shape(0).dims() else {
            return Ok(cx.unranked("the rank of the data is unknown"));
        };
        let pairs = pair.contains(2);
        require!(0; pairs, "is {}; the last axis must hold pairs", cx.shape(0));
        if let Some(size) = size {
            let expected = size.div_floor(2).offset(1);
            let fits = bins.meet(expected).is_some();
            require!(0; fits, "has spectra of {bins}; those of frames of {size} have {expected}");
        }
        let length = match (length, size, step) {
            (Some(length), ..) => length,
            (None, Some(size), Some(step)) => {
                let span = count.offset(-1).scaled(step);
                if self.center { span } else { span.plus(size) }
            }
            _ => {
                cx.because("the size or step of the frames is known only when running");
                Dim::any()
            }
        };
        Ok(batch.iter().copied().chain([length]).collect())
    }

    /// The length that an input gives.
    fn given_length(&self, cx: &mut InferCx<'_>) -> Result<Option<Dim>, RuleError> {
        if cx.input_count() < 5 {
            return Ok(None);
        }
        cx.expect_one(4, "length")?;
        let Some(length) = cx.interval(4) else {
            cx.because("the length is known only when running");
            return Ok(Some(Dim::any()));
        };
        require!(4; length.hi >= 0, "is {}, a negative length", length.hi);
        Ok(Some(Dim::from(length)))
    }
}

impl Op for Stft {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Stft => &["signal", "window", "frame_size", "frame_step"],
            Kind::Istft => &["data", "window", "frame_size", "frame_step", "signal_length"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(if self.kind == Kind::Stft { 4..=4 } else { 4..=5 })?;
        for input in 0..2 {
            cx.expect_type(input, "a real type", ElementType::is_real)?;
        }
        for input in 2..cx.input_count() {
            cx.expect_index(input)?;
            cx.expect_rank(input, 0..=usize::from(input == 4))?;
        }
        cx.expect_rank(1, 1..=1)?;
        let element_type = cx.same_type(0..2)?;
        let shape = match self.kind {
            Kind::Stft => self.spectra(cx)?,
            Kind::Istft => self.signal(cx)?,
        };
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn n(value: i64) -> Input {
        Input::scalar(I64, value)
    }

    #[test]
    fn spectra() {
        let run = |transposed, signal, window, size, step, expected| {
            let inputs = [Input::shape(F32, signal), Input::shape(F32, window), size, step];
            Case::of("STFT", "opset15")
                .attr("transpose_frames", transposed)
                .inputs(inputs)
                .expect(&[expected]);
        };
        let late = || Input::shape(I64, "[]");
        run("false", "56", "7", n(11), n(3), Ok("f32[16,6,2]"));
        run("true", "3,56", "7", n(11), n(3), Ok("f32[3,6,16,2]"));
        run("true", "?,20..40", "?", n(11), n(3), Ok("f32[?,6,4..10,2]"));
        run("false", "2,56", "7", n(11), late(), Ok("f32[2,?,6,2]"));
        run("false", "2,56", "7", late(), n(3), Ok("f32[2,?,?,2]"));
        run("false", "...", "7", n(11), n(3), Ok("f32[...]"));
        run("false", "56", "12", n(11), n(3), Err("input 1 (window): has 12 elements; frames"));
        run("false", "10", "7", n(11), n(3), Err("input 0 (signal): has 10 elements; frames"));
        run("false", "56", "7", n(0), n(3), Err("input 2 (frame_size): is 0, not positive"));
        run("false", "56", "7", n(11), n(-1), Err("input 3 (frame_step): is -1, not positive"));
    }

    #[test]
    fn signal() {
        let run = |center, data, more: &[Input], expected| {
            let start = [Input::shape(F32, data), Input::shape(F32, "7"), n(11)];
            Case::of("ISTFT", "opset16")
                .attr("center", center)
                .inputs(start.into_iter().chain(more.iter().cloned()))
                .expect(&[expected]);
        };
        run("false", "6,16,2", &[n(3)], Ok("f32[56]"));
        run("true", "4,6,16,2", &[n(3)], Ok("f32[4,45]"));
        run("true", "?,6,..16,2", &[n(3)], Ok("f32[?,..45]"));
        run("false", "6,16,2", &[n(3), n(64)], Ok("f32[64]"));
        run("false", "6,16,2", &[n(3), Input::bounds(I32, &[(1, 5)])], Ok("f32[1..5]"));
        run("false", "6,16,2", &[Input::shape(I64, "[]")], Ok("f32[?]"));
        run("false", "5,16,2", &[n(3)], Err("input 0 (data): has spectra of 5; those of frames"));
        run("false", "6,16,3", &[n(3)], Err("the last axis must hold pairs"));
        run("false", "6,16,2", &[n(3), n(-1)], Err("input 4 (signal_length): is -1"));
    }
}
