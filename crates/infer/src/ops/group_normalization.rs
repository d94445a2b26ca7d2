//! GroupNormalization-12: normalizes groups of channels, then applies scale and bias per channel.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/group-normalization-12.html>

use crate::ops::batch_norm::per_channel;
use crate::rule::prelude::*;

/// GroupNormalization-12.
#[derive(Debug)]
pub struct GroupNormalization {
    groups: usize,
    epsilon: f64,
}

impl Parse for GroupNormalization {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(GroupNormalization {
            groups: attrs.size("num_groups")?,
            epsilon: attrs.float("epsilon")?,
        })
    }
}

impl GroupNormalization {
    /// Number of groups, at least 1.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The ε added to variances.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }
}

impl Op for GroupNormalization {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "scale", "bias"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        let element_type = cx.mixed_real(0..3)?;
        cx.expect_rank(0, 2..=usize::MAX)?;
        let channels = per_channel(cx, 1, cx.shape(0).dim(1))?;
        let channels = per_channel(cx, 2, channels)?;
        if let Some(count) = channels.size() {
            let groups = self.groups;
            if count % groups != 0 {
                let message = format!("has {count} channels for {groups} groups");
                return Err(RuleError::at(0, message).about("num_groups"));
            }
        }
        cx.set(0, element_type, cx.shape(0).clone().with_dim(1, channels));
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::PURE.mixing()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let op = |groups: &str, shapes: [&str; 3], expected| {
            let inputs = shapes.map(|shape| Input::shape(F16, shape));
            let case = Case::of("GroupNormalization", "opset12").attr("num_groups", groups);
            case.attr("epsilon", "1e-5").inputs(inputs).expect(&[expected]);
        };
        op("2", ["3,4,?", "4", "4"], Ok("f16[3,4,?]"));
        op("2", ["?,?,5", "...", "4"], Ok("f16[?,4,5]"));
        op("4", ["...", "4", "4"], Ok("f16[...]"));
        op("3", ["1,4", "4", "4"], Err("input 0 (data): has 4 channels for 3 groups"));
        op("2", ["1,4", "4", "2"], Err("input 2 (bias): holds 2 elements for 4 channels"));
        op("0", ["1,4", "4", "4"], Err("attribute num_groups: 0 is not in 1.."));
        op("1", ["4", "4", "4"], Err("must have rank at least 2, not 1"));
    }

    #[test]
    fn f32_beside_f16_gives_the_type_of_the_data() {
        Case::of("GroupNormalization", "opset12")
            .attr("num_groups", "1")
            .attr("epsilon", "1e-5")
            .inputs([Input::shape(F16, "2,3"), Input::shape(F32, "3"), Input::shape(F32, "3")])
            .expect(&[Ok("f16[2,3]")]);
    }
}
