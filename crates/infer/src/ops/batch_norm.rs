//! BatchNormInference-1 and BatchNormInference-5: channels normalized by a given mean and variance.
//! The versions differ in the order of the inputs.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/batch-norm-inference-5.html>

use crate::rule::prelude::*;

/// The versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// BatchNormInference-1: the data is input 2.
    V1,
    /// BatchNormInference-5: the data is input 0.
    V5,
}

/// BatchNormInference.
#[derive(Debug)]
pub struct BatchNorm {
    kind: Kind,
    epsilon: f64,
}

impl Parse for BatchNorm {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let epsilon = attrs.float("epsilon")?;
        if epsilon < 0.0 {
            return Err(AttrError::new("epsilon", format!("{epsilon} is negative")));
        }
        Ok(BatchNorm { kind, epsilon })
    }
}

impl BatchNorm {
    /// The ε added to variances.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The inputs with data, gamma, beta, mean and variance.
    pub fn inputs(&self) -> [usize; 5] {
        match self.kind {
            Kind::V1 => [2, 0, 1, 3, 4],
            Kind::V5 => [0, 1, 2, 3, 4],
        }
    }
}

impl Op for BatchNorm {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::V1 => &["gamma", "beta", "data", "mean", "variance"],
            Kind::V5 => &["data", "gamma", "beta", "mean", "variance"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(5..=5)?;
        let element_type = cx.same_real(0..5)?;
        let [data, channel_inputs @ ..] = self.inputs();
        cx.expect_rank(data, 2..=usize::MAX)?;
        let mut channels = cx.shape(data).dim(1);
        for input in channel_inputs {
            channels = per_channel(cx, input, channels)?;
        }
        require!(data; channels.max() > 0, "has no channels to normalize");
        cx.set(0, element_type, cx.shape(data).clone().with_dim(1, channels));
        Ok(())
    }
}

/// The number of channels, with one element of an input for each.
///
/// # Errors
/// When it is not a list of that length.
pub(crate) fn per_channel(cx: &InferCx<'_>, input: usize, channels: Dim) -> Result<Dim, RuleError> {
    cx.expect_rank(input, 1..=1)?;
    let count = cx.shape(input).dim(0);
    let message = || format!("holds {count} elements for {channels} channels");
    channels.meet(count).ok_or_else(|| RuleError::at(input, message()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let op = |version| Case::of("BatchNormInference", version).attr("epsilon", "0.001");
        let f = |shape: &str| Input::shape(F32, shape);
        let five = |data: &str, c: [&str; 4], expected| {
            op("opset5").inputs([f(data), f(c[0]), f(c[1]), f(c[2]), f(c[3])]).expect(&[expected]);
            op("opset1").inputs([f(c[0]), f(c[1]), f(data), f(c[2]), f(c[3])]).expect(&[expected]);
        };
        five("2,3,?", ["3"; 4], Ok("f32[2,3,?]"));
        five("2,?", ["3", "?", "...", "?"], Ok("f32[2,3]"));
        five("...", ["3"; 4], Ok("f32[...]"));

        five("2,0,?", ["?"; 4], Err("(data): has no channels to normalize"));
        five("2,1..4", ["?", "?", "3..9", "?"], Ok("f32[2,3..4]"));
        five("2,3", ["3", "3", "4", "3"], Err("(mean): holds 4 elements for 3 channels"));
        five("2,3", ["3", "3", "3", "3,1"], Err("(variance): must have rank 1, not 2"));
        five("3", ["3"; 4], Err("(data): must have rank at least 2, not 1"));
        let mixed = [f("1,2"), f("2"), f("2"), f("2"), Input::shape(F16, "2")];
        op("opset5").inputs(mixed).expect(&[Err("is f16, but an earlier input is f32")]);
        let negative = Case::of("BatchNormInference", "opset5").attr("epsilon", "-1");
        negative.inputs([f("1")]).expect(&[Err("attribute epsilon: -1 is negative")]);
    }
}
