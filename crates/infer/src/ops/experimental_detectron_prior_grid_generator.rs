//! ExperimentalDetectronPriorGridGenerator-6: boxes repeated around every cell of a feature map.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/experimental-detectron-prior-grid-generator-6.html>
//!
//! The rest of the output is zero; the specification leaves it undefined.

use crate::rule::prelude::*;
use crate::rules::detection::rows;

/// ExperimentalDetectronPriorGridGenerator-6.
#[derive(Clone, Debug)]
pub struct ExperimentalDetectronPriorGridGenerator {
    flatten: bool,
    /// Rows and columns of the grid; 0 for those of the feature map.
    pub cells: (usize, usize),
    /// Vertical and horizontal distance of the centres; 0 if it follows from the image.
    pub stride: (f32, f32),
}

impl Parse for ExperimentalDetectronPriorGridGenerator {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let cells = (attrs.count_in("h", Some(0), 0..)?, attrs.count_in("w", Some(0), 0..)?);
        let stride = (attrs.single("stride_y", Some(0.0))?, attrs.single("stride_x", Some(0.0))?);
        let flatten = attrs.bool_or("flatten", true);
        Ok(ExperimentalDetectronPriorGridGenerator { flatten, cells, stride })
    }
}

impl Op for ExperimentalDetectronPriorGridGenerator {
    fn input_names(&self) -> &'static [&'static str] {
        &["priors", "feature_map", "im_data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        let element_type = cx.same_real(0..3)?;
        cx.expect_rows(0, 2, 4)?;
        cx.expect_rank(1, 4..=4)?;
        cx.expect_rank(2, 4..=4)?;
        cx.same_dim("items", [(1, 0), (2, 0)])?;
        let (height, width) = (cx.shape(1).dim(2), cx.shape(1).dim(3));
        for (cells, size) in [(self.cells.0, height), (self.cells.1, width)] {
            let fits = Dim::of(cells).max() <= size.max();
            require!(1; fits, "has an axis of {size}, the grid {cells} cells");
        }
        let priors = cx.shape(0).dim(0);
        let shape = if self.flatten {
            rows(height.times(width).times(priors), 4)
        } else {
            [height, width, priors, Dim::fixed(4)].into_iter().collect()
        };
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let check = |attrs: &[(&str, &str)], shapes: [&str; 3], expected| {
            let case = Case::of("ExperimentalDetectronPriorGridGenerator", "opset6");
            let case = attrs.iter().fold(case, |case, (name, value)| case.attr(name, value));
            case.inputs(shapes.map(|s| Input::shape(F32, s))).expect(&[expected]);
        };
        let deep = [("flatten", "false")];
        check(&[], ["3,4", "1,2,4,5", "1,3,32,40"], Ok("f32[60,4]"));
        check(&deep, ["3,4", "1,2,4,5", "1,3,32,40"], Ok("f32[4,5,3,4]"));
        check(&[], ["...", "1,2,4,5", "..."], Ok("f32[?,4]"));
        check(&deep, ["?,?", "...", "1,3,32,40"], Ok("f32[?,?,?,4]"));
        check(&[("h", "5")], ["3,4", "1,2,4,5", "1,3,32,40"], Err("has an axis of 4, the grid 5"));
        check(&[], ["3,5", "1,2,4,5", "1,3,32,40"], Err("the last axis must have 4 elements"));
        check(&[], ["3,4", "1,2,4,5", "2,3,32,40"], Err("has 2 items, an earlier input has 1"));
    }
}
