//! Reshape-1: the same elements in another shape.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/shape/reshape-1.html>
//!
//! For rules beyond the specification, see `docs/dialects/reshape-and-roll.md`: the number of
//! elements is always checked, and 0 elements over 0 elements give 1.

use crate::lattice::shape::Dims;
use crate::lattice::value::Interval;
use crate::rule::prelude::*;
use crate::rules::reshape::{EmptyRule, Target, reshape};

/// Reshape-1.
#[derive(Debug)]
pub struct Reshape {
    special_zero: bool,
}

impl Parse for Reshape {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Reshape { special_zero: attrs.bool_or("special_zero", false) })
    }
}

impl Reshape {
    /// A reshape to the sizes in the second input; a 0 is a size.
    pub fn to_sizes() -> Reshape {
        Reshape { special_zero: false }
    }
}

impl Op for Reshape {
    fn input_names(&self) -> &'static [&'static str] {
        &["data", "shape"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_integer(1)?;
        cx.expect_rank(1, 0..=1)?;
        let shape = match cx.intervals(1) {
            Some(pattern) => self.with_pattern(cx, pattern)?,
            None => {
                cx.because("the requested shape is known only when running");
                match cx.shape(1).dims() {
                    Some([]) => PartialShape::scalar(),
                    Some([length]) => match length.size() {
                        Some(rank) => PartialShape::of_rank(rank),
                        None => PartialShape::unranked(),
                    },
                    _ => PartialShape::unranked(),
                }
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

/// One element of the pattern.
enum Code {
    Size(Dim),
    Zero,
    Infer,
}

impl Reshape {
    fn with_pattern(
        &self,
        cx: &mut InferCx<'_>,
        pattern: &[Interval],
    ) -> Result<PartialShape, RuleError> {
        if cx.rank(1) == Some(0) {
            // Accepted up to OpenVINO 2026.3: a pattern without dims, written as the scalar 1.
            let value = pattern.first().and_then(|v| v.value());
            require!(1; value == Some(1), "a scalar shape must be 1, which means a scalar");
            return reshape_ranked(cx, &[]);
        }
        let codes = pattern.iter().enumerate().map(|(i, v)| self.code(i, *v));
        let codes = codes.collect::<Result<Vec<Code>, RuleError>>()?;
        let Some(rank) = cx.rank(0) else { return unranked(cx, &codes) };
        let mut targets = Vec::with_capacity(codes.len());
        for (i, code) in codes.iter().enumerate() {
            targets.push(match code {
                Code::Size(dim) => Target::Size(*dim),
                Code::Infer => Target::Infer,
                Code::Zero => {
                    let data = cx.shape(0);
                    require!(
                        1; i < rank,
                        "element {i} is 0, which copies dim {i} of the data, but {data} has rank {rank}"
                    );
                    Target::Copy(i)
                }
            });
        }
        reshape_ranked(cx, &targets)
    }

    fn code(&self, i: usize, v: Interval) -> Result<Code, RuleError> {
        // 2^64-1 in a u64 pattern is -1; i64::MAX means an unbounded dim.
        let top = (1i128 << 64) - 1;
        let v = if v.value() == Some(top) { Interval::exact(-1) } else { v };
        Ok(match (v.lo, v.hi) {
            (-1, -1) => Code::Infer,
            (0, 0) if self.special_zero => Code::Zero,
            (lo, hi) if lo < 0 && hi < 0 => {
                let shown = if lo == hi { format!("{lo}") } else { format!("{lo}..{hi}") };
                let message = format!("element {i} is {shown}; it must be a size, 0 or -1");
                return Err(RuleError::at(1, message));
            }
            (lo, _) if lo < 0 => Code::Size(Dim::any().with_why(v.why)),
            _ => Code::Size(v.into()),
        })
    }
}

fn reshape_ranked(cx: &mut InferCx<'_>, targets: &[Target]) -> Result<PartialShape, RuleError> {
    match cx.shape(0).dims() {
        Some(dims) => reshape(dims, targets, EmptyRule::One, cx.symbols()),
        None => Ok(PartialShape::scalar()),
    }
}

/// The shape that a pattern gives if the rank of the data is unknown.
fn unranked(cx: &mut InferCx<'_>, codes: &[Code]) -> Result<PartialShape, RuleError> {
    cx.because("the rank of the data is unknown");
    let count = |f: fn(&Code) -> bool| codes.iter().filter(|c| f(c)).count();
    let infers = count(|c| matches!(c, Code::Infer));
    require!(1; infers <= 1, "{infers} elements are -1; only one can be inferred");
    let literal_zero = |c: &Code| matches!(c, Code::Size(d) if d.value() == Some(0));
    require!(
        1; infers == 0 || !codes.iter().any(literal_zero),
        "-1 cannot be inferred beside a dim of 0 unless the input is empty"
    );
    let copies = count(|c| matches!(c, Code::Zero)) > 0;
    let dims: Dims = codes
        .iter()
        .map(|code| match code {
            Code::Size(dim) => *dim,
            Code::Zero => Dim::any(),
            // OpenVINO's lower bound: a dim inferred from unknown data is at least 1.
            Code::Infer if !copies => Dim::range(1, Dim::INF),
            Code::Infer => Dim::any(),
        })
        .collect();
    Ok(PartialShape::Ranked(dims))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ElementType::*;
    use ir::ElementType;

    fn case(special_zero: bool) -> Case {
        Case::of("Reshape", "opset1").attr("special_zero", if special_zero { "true" } else { "0" })
    }

    #[test]
    fn patterns() {
        let data = |shape| Input::shape(F32, shape);
        for (special, shape, pattern, expected) in [
            (true, "2,5,5,24", vec![0, -1, 4], Ok("f32[2,150,4]")),
            (false, "2,5,5,0", vec![0, 4], Ok("f32[0,4]")),
            (false, "?,3", vec![2, 5], Ok("f32[2,5]")),
            (true, "?,3", vec![0, -1], Ok("f32[?,3]")),
            (true, "...", vec![3, 0, 2], Ok("f32[3,?,2]")),
            (false, "...", vec![-1], Ok("f32[1..]")),
            (true, "...", vec![0, -1, 3], Ok("f32[?,?,3]")),
            (false, "...", vec![0, -1], Err("input 1 (shape): -1 cannot be inferred")),
            (false, "...", vec![-1, -1], Err("input 1 (shape): 2 elements are -1")),
            (false, "2,3", vec![-2, 3], Err("input 1 (shape): element 0 is -2; it must be")),
            (
                true,
                "6",
                vec![-1, 0],
                Err("input 1 (shape): element 1 is 0, which copies dim 1 of the data, but [6] has"),
            ),
        ] {
            let pattern = Input::ints(I64, &pattern);
            case(special).inputs([data(shape), pattern]).expect(&[expected]);
        }
    }

    #[test]
    fn pattern_types_ranks_and_unknowns() {
        let data = || Input::shape(F32, "3,4");
        for (pattern, expected) in [
            (Input::shape(I64, "3"), Ok("f32[?,?,?]")),
            (Input::shape(I64, "1..3"), Ok("f32[...]")),
            (Input::shape(I64, "4294967296"), Ok("f32[...]")),
            (Input::shape(I64, "0"), Ok("f32[]")),
            (Input::scalar(I64, 2), Err("input 1 (shape): a scalar shape must be 1")),
            (Input::shape(I64, "3,1"), Err("input 1 (shape): must have rank 0 to 1, not 2")),
            (Input::shape(F32, "2"), Err("input 1 (shape): must be an integer type, not f32")),
            (Input::shape(Boolean, "2"), Err("input 1 (shape): must be an integer type")),
            (Input::ints(U64, &[-1]), Ok("f32[12]")),
        ] {
            case(false).inputs([data(), pattern]).expect(&[expected]);
        }
        let scalar = Input::shape(F32, "[]");
        case(false).inputs([scalar, Input::scalar(I32, 1)]).expect(&[Ok("f32[]")]);
    }

    #[test]
    fn intervals_in_the_pattern() {
        let data = Input::shape(F32, "12,2");
        let pattern = Input::bounds(I64, &[(0, 4), (-1, -1)]);
        case(true).inputs([data.clone(), pattern]).expect(&[Ok("f32[..4,6..]")]);
        let pattern = Input::bounds(I64, &[(-6, 1), (3, 3)]);
        case(true).inputs([data.clone(), pattern]).expect(&[Ok("f32[?,3]")]);
        let pattern = Input::bounds(I64, &[(-5, -3), (3, 3)]);
        case(true)
            .inputs([data, pattern])
            .expect(&[Err("input 1 (shape): element 0 is -5..-3; it must be")]);
    }
}
