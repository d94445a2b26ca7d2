//! ExperimentalDetectronTopKROIs-6: the regions with the highest scores.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/experimental-detectron-top-krois-6.html>
//!
//! With too few regions the rest is zero; the specification leaves it undefined.

use crate::rule::prelude::*;
use crate::rules::detection::rows;

/// ExperimentalDetectronTopKROIs-6.
#[derive(Debug)]
pub struct ExperimentalDetectronTopKRois {
    max_rois: usize,
}

impl Parse for ExperimentalDetectronTopKRois {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let max_rois = attrs.count_in("max_rois", Some(0), 0..)?;
        Ok(ExperimentalDetectronTopKRois { max_rois })
    }
}

impl ExperimentalDetectronTopKRois {
    /// Number of regions to list.
    pub fn max_rois(&self) -> usize {
        self.max_rois
    }
}

impl Op for ExperimentalDetectronTopKRois {
    fn input_names(&self) -> &'static [&'static str] {
        &["input_rois", "rois_probs"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        let element_type = cx.same_real(0..2)?;
        cx.expect_rows(0, 2, 4)?;
        cx.expect_rank(1, 1..=1)?;
        cx.same_dim("regions", [(0, 0), (1, 0)])?;
        cx.set(0, element_type, rows(Dim::of(self.max_rois), 4));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let check = |shapes: [&str; 2], expected| {
            let case = Case::of("ExperimentalDetectronTopKROIs", "opset6").attr("max_rois", "3");
            case.inputs(shapes.map(|s| Input::shape(BF16, s))).expect(&[expected]);
        };
        check(["6,4", "6"], Ok("bf16[3,4]"));
        check(["...", "?"], Ok("bf16[3,4]"));
        check(["6,5", "6"], Err("the last axis must have 4 elements"));
        check(["6,4", "7"], Err("input 1 (rois_probs): has 7 regions, an earlier input has 6"));
    }
}
