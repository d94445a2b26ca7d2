//! Reshape of Caffe: `dim` replaces `num_axes` dims of the shape, from `axis` on.
//!
//! Follows `ReshapeParameter` and the layer's source; if its documented example contradicts the
//! source (`axis: -3`), the source. `docs/dialects/reshape-and-roll.md` says why.

use crate::rule::prelude::*;
use crate::rules::reshape::{EmptyRule, Target, reshape};

/// Blobs have at most this many axes.
const MAX_AXES: usize = 32;

/// Reshape, `version="caffe"`.
#[derive(Debug)]
pub struct CaffeReshape {
    dim: Vec<i64>,
    axis: i64,
    num_axes: i64,
}

impl Parse for CaffeReshape {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let op = CaffeReshape {
            dim: attrs.list_opt("dim")?.unwrap_or_default(),
            axis: attrs.int_or("axis", 0)?,
            num_axes: attrs.int_in("num_axes", Some(-1), -1..)?,
        };
        if let Some(size) = op.dim.iter().find(|size| **size < -1) {
            return Err(AttrError::new("dim", format!("{size} is not a size, 0 or -1")));
        }
        Ok(op)
    }
}

impl Op for CaffeReshape {
    fn input_names(&self) -> &'static [&'static str] {
        &["bottom"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let shape = match cx.shape(0).dims() {
            None => cx.unranked("the rank of the input is unknown"),
            Some(dims) => {
                let targets = self.targets(dims)?;
                let shape = reshape(dims, &targets, EmptyRule::Refuse, cx.symbols())
                    .map_err(|e| e.about("dim"))?;
                let rank = targets.len();
                require!(rank <= MAX_AXES, "{shape} has {rank} axes; a blob has up to {MAX_AXES}");
                let count = shape.volume().min();
                require!(
                    count <= i64::from(i32::MAX),
                    "{shape} has {count} elements; a blob has up to {}",
                    i32::MAX
                );
                shape
            }
        };
        cx.set(0, cx.element_type(0), shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        cx.passed_through(0)
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

impl CaffeReshape {
    /// The axes `[start, end)` that `dim` replaces. `axis` may be the rank itself (append), and
    /// -1 means "after the last axis".
    fn replaced(&self, rank: usize) -> Result<(usize, usize), RuleError> {
        let size = i64::try_from(rank).unwrap_or(i64::MAX);
        let start = if self.axis < 0 { self.axis.saturating_add(size + 1) } else { self.axis };
        let lowest = -size - 1;
        let axis = self.axis;
        require!(
            attribute "axis"; (0..=size).contains(&start),
            "axis {axis} is out of range for rank {rank}, [{lowest}, {rank}]"
        );
        let end = if self.num_axes < 0 { size } else { start.saturating_add(self.num_axes) };
        let num_axes = self.num_axes;
        require!(
            attribute "num_axes"; end <= size,
            "axis {axis} and num_axes {num_axes} reach beyond the {rank} axes of the input"
        );
        let index = |v: i64| usize::try_from(v).unwrap_or(rank);
        Ok((index(start), index(end)))
    }

    fn targets(&self, dims: &[Dim]) -> Result<Vec<Target>, RuleError> {
        let (start, end) = self.replaced(dims.len())?;
        let mut targets: Vec<Target> = (0..start).map(Target::Copy).collect();
        for (i, &size) in self.dim.iter().enumerate() {
            targets.push(match size {
                -1 => Target::Infer,
                0 => {
                    let (from, rank) = (start + i, dims.len());
                    require!(
                        attribute "dim"; from < rank,
                        "dim {i} is 0, which copies axis {from}, but the input has {rank} axes"
                    );
                    // With num_axes 0 the axis itself is also retained, so this is not just a copy.
                    if from < end { Target::Copy(from) } else { Target::Size(dims[from]) }
                }
                size => Target::Size(Dim::fixed(size)),
            });
        }
        targets.extend((end..dims.len()).map(Target::Copy));
        Ok(targets)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(input: &str, dim: &str, axis: i64, num_axes: i64, expected: Result<&str, &str>) {
        Case::of("Reshape", "caffe")
            .attr("dim", dim)
            .attr("axis", &axis.to_string())
            .attr("num_axes", &num_axes.to_string())
            .inputs([Input::shape(F32, input)])
            .expect(&[expected]);
    }

    #[test]
    fn rule() {
        case("2,8", "2,2,4", 0, -1, Ok("f32[2,2,4]"));
        case("2,8", "0,-1,4", 0, -1, Ok("f32[2,2,4]"));
        case("2,8", "2,4", 1, -1, Ok("f32[2,2,4]"));
        case("2,8", "2,4", -2, -1, Ok("f32[2,2,4]"));
        // The documented example; the layer itself refuses it.
        case("2,8", "2,4", -3, -1, Err("has 16 elements, the requested shape [2,4] has 8"));
        case("2,8", "1", 1, 0, Ok("f32[2,1,8]"));
        case("2,8", "1", 2, -1, Ok("f32[2,8,1]"));
        case("2,8", "", 0, 0, Ok("f32[2,8]"));
        case("1,1", "", 0, -1, Ok("f32[]"));
        case("2,8", "", 0, -1, Err("has 16 elements, the requested shape [] has 1"));
        case("2,8", "0", 0, 0, Err("[2,8] has 16 elements, the requested shape [2,2,8] has 32"));
        case("2,8", "1", 3, -1, Err("axis 3 is out of range for rank 2, [-3, 2]"));
        case("2,8", "1", 1, 2, Err("axis 1 and num_axes 2 reach beyond the 2 axes"));
        case("2,8", "0", 2, -1, Err("dim 0 is 0, which copies axis 2"));
        case("2,8", "-1,-1", 0, -1, Err("dims 0 and 1 are both -1"));
        case("0,8", "0,-1", 0, -1, Err("-1 cannot be inferred beside a dim of 0"));
        case("2,8", "-2", 0, -1, Err("attribute dim: -2 is not a size, 0 or -1"));
        case("2,8", "16", 0, -2, Err("attribute num_axes: -2 is not in -1.."));
        case("?,8", "0,2,-1", 0, -1, Ok("f32[?,2,4]"));
        case("65536,65536", "-1", 0, -1, Err("a blob has up to 2147483647"));
    }
}
