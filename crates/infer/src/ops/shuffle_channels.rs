//! ShuffleChannels-1: interleaves the groups of an axis.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/movement/shuffle-channels-1.html>

use crate::rule::prelude::*;
use crate::rules::axes;

/// ShuffleChannels-1.
#[derive(Debug)]
pub struct ShuffleChannels {
    axis: i64,
    group: i64,
}

impl Parse for ShuffleChannels {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let axis = attrs.int_or("axis", 1)?;
        Ok(ShuffleChannels { axis, group: attrs.int_in("group", Some(1), 1..)? })
    }
}

impl ShuffleChannels {
    /// The axis that is shuffled.
    ///
    /// # Errors
    /// When the rank has no such axis.
    pub fn axis(&self, rank: usize) -> Result<usize, RuleError> {
        axes::normalize_attribute("axis", self.axis, rank)
    }

    /// The number of groups.
    pub fn group(&self) -> i64 {
        self.group
    }
}

impl Op for ShuffleChannels {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        cx.expect_rank(0, 1..=usize::MAX)?;
        let shape = cx.shape(0);
        if let Some(rank) = shape.rank() {
            let channels = shape.dim(self.axis(rank)?);
            let group = self.group;
            let message = || format!("has {channels} channels, not a multiple of {group} groups");
            let fits = channels.div_exact(group);
            fits.ok_or_else(|| RuleError::at(0, message()).about("group"))?;
        }
        cx.set(0, cx.element_type(0), shape.clone());
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        for (axis, group, shape, expected) in [
            ("1", "3", "5,12,200,400", Ok("f16[5,12,200,400]")),
            ("-1", "2", "?,2..5", Ok("f16[?,2..5]")),
            ("0", "1", "7", Ok("f16[7]")),
            ("1", "2", "...", Ok("f16[...]")),
            ("1", "5", "1,12", Err("input 0 (data): has 12 channels, not a multiple of 5 groups")),
            ("2", "1", "1,12", Err("axis 2 is out of range for rank 2, [-2, 1]")),
            ("0", "0", "1,12", Err("attribute group: 0 is not in 1..")),
            ("0", "1", "[]", Err("must have rank at least 1, not 0")),
        ] {
            let case = Case::of("ShuffleChannels", "opset1").attr("axis", axis);
            case.attr("group", group).inputs([Input::shape(F16, shape)]).expect(&[expected]);
        }
    }
}
