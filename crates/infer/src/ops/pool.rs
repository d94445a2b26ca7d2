//! MaxPool-1, MaxPool-8, MaxPool-14, AvgPool-1, AvgPool-14 and AvgPool-16: maximum or mean over
//! sliding windows along one to three spatial axes.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/pooling/max-pool-14.html>
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/pooling/avg-pool-16.html>

use crate::lattice::shape::Dims;
use crate::rule::prelude::*;
use crate::rules::axes;
use crate::rules::window::{Padding, Rounding, Windows, kernel, outputs, parse, rounding, spatial};

/// The operations and their versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MaxPool without dilations and indices.
    Max1,
    /// MaxPool with both.
    Max8,
    /// MaxPool with `ceil_torch`.
    Max14,
    /// AvgPool.
    Avg1,
    /// AvgPool with `ceil_torch`.
    Avg14,
    /// AvgPool with dilations.
    Avg16,
}

impl Kind {
    fn is_max(self) -> bool {
        matches!(self, Kind::Max1 | Kind::Max8 | Kind::Max14)
    }
}

/// An operation of this file.
#[derive(Debug)]
pub struct Pool {
    kind: Kind,
    windows: Windows,
    kernel: Vec<i64>,
    rounding: Rounding,
    exclude_pad: bool,
    /// Type of the indices, and the axis from which they count.
    indices: Option<(ElementType, i64)>,
}

impl Parse for Pool {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let dilated = matches!(kind, Kind::Max8 | Kind::Max14 | Kind::Avg16);
        let windows = parse(attrs, dilated.then_some("dilations"))?;
        let count = windows.len();
        if count > 3 {
            return Err(AttrError::new(
                "strides",
                format!("{count} values; there are 1 to 3 axes"),
            ));
        }
        let kernel = kernel(attrs, "kernel", count)?;
        let rounding = rounding(attrs, !matches!(kind, Kind::Max1 | Kind::Max8 | Kind::Avg1))?;
        let exclude_pad = !kind.is_max() && attrs.bool_or("exclude-pad", true);
        let indices = match kind {
            Kind::Max8 | Kind::Max14 => Some((index_type(attrs)?, attrs.int_or("axis", 0)?)),
            _ => None,
        };
        let pool = Pool { kind, windows, kernel, rounding, exclude_pad, indices };
        pool.check_padding()?;
        Ok(pool)
    }
}

/// Reads `index_element_type`.
///
/// # Errors
/// When it is neither i32 nor i64.
pub(crate) fn index_type(attrs: &mut Attrs<'_>) -> Result<ElementType, AttrError> {
    let words = [("i64", ElementType::I64), ("i32", ElementType::I32)];
    attrs.choice_or("index_element_type", &words, ElementType::I64)
}

impl Pool {
    /// Whether it takes the maximum rather than the mean.
    pub fn is_max(&self) -> bool {
        self.kind.is_max()
    }

    /// The windows, one per spatial axis.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The number of taps on each spatial axis.
    pub fn kernel(&self) -> &[i64] {
        &self.kernel
    }

    /// The divisor of a mean, for this padding; `None` for the number of input elements in the
    /// window. With no padding at all it is always that number, even for a window past the end that
    /// rounding up added.
    pub fn divisor(&self, pads: &[(i64, i64)]) -> Option<i64> {
        let padded = pads.iter().any(|pads| *pads != (0, 0));
        let taps = || self.kernel.iter().fold(1i64, |n, k| n.saturating_mul(*k));
        (padded && !self.exclude_pad).then(taps)
    }

    /// The axis from which indices count.
    ///
    /// # Errors
    /// When it is out of range for this rank.
    pub fn first_axis(&self, rank: usize) -> Result<usize, RuleError> {
        let normal = |axis| axes::normalize_attribute("axis", axis, rank);
        self.indices.map_or(Ok(0), |(_, axis)| normal(axis))
    }

    /// Checks that no mean is that of padding alone.
    fn check_padding(&self) -> Result<(), AttrError> {
        if self.is_max() || !self.exclude_pad {
            return Ok(());
        }
        for (window, taps) in self.windows.iter().zip(&self.kernel) {
            let Padding::Explicit(begin, end) = window.padding else { continue };
            let extent = window.extent(Dim::fixed(*taps)).min();
            for (name, pads) in [("pads_begin", begin), ("pads_end", end)] {
                if pads >= extent {
                    let message = format!("{pads} leave no element in a window over {extent}");
                    return Err(AttrError::new(name, message));
                }
            }
        }
        Ok(())
    }

    fn shape(&self, data: &PartialShape) -> Result<PartialShape, RuleError> {
        let spatial = spatial(data, &self.windows);
        let kernel: Dims = self.kernel.iter().map(|k| Dim::fixed(*k)).collect();
        let sizes = outputs(&self.windows, &spatial, &kernel, self.rounding)?;
        Ok([data.dim(0), data.dim(1)].into_iter().chain(sizes).collect())
    }
}

impl Op for Pool {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let element_type = cx.expect_number(0)?;
        let rank = self.windows.len() + 2;
        cx.expect_rank(0, rank..=rank)?;
        self.first_axis(rank)?;
        let shape = self.shape(cx.shape(0))?;
        if let Some((index_type, _)) = self.indices {
            cx.set(1, index_type, shape.clone());
        }
        cx.set(0, element_type, shape);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(kind: &'static str, version: &'static str, attrs: &[(&str, &str)]) -> Case {
        let common = [("kernel", "3,3"), ("strides", "2,2"), ("pads_begin", "1,1")];
        let common = common.into_iter().chain([("pads_end", "1,1")]);
        let common = common.filter(|(name, _)| attrs.iter().all(|(given, _)| given != name));
        let case = common.fold(Case::of(kind, version), |case, (name, v)| case.attr(name, v));
        attrs.iter().fold(case, |case, (name, value)| case.attr(name, value))
    }

    #[test]
    fn rule() {
        let run = |attrs: &[(&str, &str)], data: &str, expected| {
            let case = case("AvgPool", "opset16", attrs);
            case.inputs([Input::shape(F32, data)]).expect(&[expected]);
        };
        run(&[], "1,3,112,112", Ok("f32[1,3,56,56]"));
        run(&[("rounding_type", "ceil")], "?,2..4,6,?", Ok("f32[?,2..4,4,1..]"));
        run(&[("rounding_type", "ceil_torch"), ("kernel", "2,2")], "1,1,3,3", Ok("f32[1,1,2,2]"));
        run(&[("auto_pad", "valid")], "1,3,8,4..9", Ok("f32[1,3,3,1..4]"));
        run(&[("auto_pad", "same_upper")], "1,3,7,?", Ok("f32[1,3,4,?]"));
        run(&[("dilations", "2,1")], "1,1,9,9", Ok("f32[1,1,4,5]"));
        run(&[], "...", Ok("f32[?,?,1..,1..]"));
        run(&[], "0,3,8,8", Ok("f32[0,3,4,4]"));
        let far = [("pads_begin", "3,1")];
        run(&far, "1,3,8,8", Err("attribute pads_begin: 3 leave no element in a window over 3"));
        run(&[far[0], ("dilations", "2,1")], "1,3,8,8", Ok("f32[1,3,4,4]"));
        run(&[far[0], ("exclude-pad", "false")], "1,3,8,8", Ok("f32[1,3,5,4]"));
        run(&[], "1,3,8", Err("input 0 (data): must have rank 4, not 3"));
        run(&[("kernel", "7,3")], "1,1,4,4", Err("spatial axis 0: a window over 7 elements"));
        run(&[("kernel", "3")], "1,1,4,4", Err("attribute kernel: holds 1 values"));
        run(&[("strides", "0,1")], "1,1,4,4", Err("attribute strides: 0 is not in 1..="));
        let old = case("AvgPool", "opset1", &[("rounding_type", "ceil_torch")]);
        old.expect(&[Err("\"ceil_torch\" is not one of floor, ceil")]);
    }

    #[test]
    fn indices() {
        let run = |axis: &str, expected: &[Result<&str, &str>]| {
            let attrs = [("axis", axis), ("index_element_type", "i32")];
            let case = case("MaxPool", "opset8", &attrs);
            case.inputs([Input::shape(U8, "1,3,8,8")]).expect(expected);
        };
        run("-4", &[Ok("u8[1,3,4,4]"), Ok("i32[1,3,4,4]")]);
        run("4", &[Err("axis 4 is out of range for rank 4, [-4, 3]")]);
        let plain = case("MaxPool", "opset1", &[]).inputs([Input::shape(BF16, "1,3,8,8")]);
        plain.expect(&[Ok("bf16[1,3,4,4]")]);
    }
}
