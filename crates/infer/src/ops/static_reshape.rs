//! StaticReshape-1 of oneDNN Graph: the shape is an attribute.
//!
//! <https://uxlfoundation.github.io/oneDNN/dev_guide_op_staticreshape.html>

use crate::rule::prelude::*;
use crate::rules::reshape::{EmptyRule, Target, reshape};

/// StaticReshape-1, `version="onednn"` or `"extension"`.
#[derive(Debug)]
pub struct StaticReshape {
    targets: Vec<Target>,
}

impl Parse for StaticReshape {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let shape = attrs.list::<i64>("shape")?;
        let special_zero =
            attrs.required("special_zero", |text| match text.to_ascii_lowercase().as_str() {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(format!("\"{text}\" is neither true nor false")),
            })?;
        let target = |(i, &size): (usize, &i64)| match size {
            0 if special_zero => Ok(Target::Copy(i)),
            -1 => Ok(Target::Infer),
            size if size < -1 => {
                let message = format!("element {i} is {size}; it must be a size, 0 or -1");
                Err(AttrError::new("shape", message))
            }
            size => Ok(Target::Size(Dim::fixed(size))),
        };
        let targets = shape.iter().enumerate().map(target).collect::<Result<_, _>>()?;
        Ok(StaticReshape { targets })
    }
}

impl Op for StaticReshape {
    fn input_names(&self) -> &'static [&'static str] {
        &["src"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let allowed = |t| matches!(t, ElementType::F32 | ElementType::F16 | ElementType::BF16);
        let element_type = cx.expect_type(0, "f32, f16 or bf16", allowed)?;
        let shape = match cx.shape(0).dims() {
            Some(dims) => {
                for target in &self.targets {
                    if let Target::Copy(i) = target {
                        let rank = dims.len();
                        require!(
                            attribute "shape"; *i < rank,
                            "element {i} of shape is 0, which copies dim {i}, but the rank is {rank}"
                        );
                    }
                }
                reshape(dims, &self.targets, EmptyRule::Refuse, cx.symbols())
                    .map_err(|e| e.about("shape"))?
            }
            None => {
                cx.because("the rank of the input is unknown");
                let dim = |target: &Target| match target {
                    Target::Size(dim) => *dim,
                    Target::Copy(_) | Target::Infer => Dim::any(),
                };
                self.targets.iter().map(dim).collect()
            }
        };
        cx.set(0, element_type, shape);
        Ok(())
    }

    fn value(&self, cx: &ValueCx<'_>) -> Option<PartialValue> {
        cx.passed_through(0)
    }

    fn traits(&self) -> OpTraits {
        OpTraits::moving(InputSet::one(0))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    fn case(shape: &str, special_zero: &str) -> Case {
        Case::of("StaticReshape", "onednn").attr("shape", shape).attr("special_zero", special_zero)
    }

    #[test]
    fn rule() {
        for (input, shape, special, expected) in [
            ("2,8,32", "16,4,8", "false", Ok("f32[16,4,8]")),
            ("2,8,32", "4,0,16", "true", Ok("f32[4,8,16]")),
            ("2,8,32", "4,0,16", "false", Err("has 512 elements, the requested shape [4,0,16]")),
            ("0,3", "-1,3", "true", Ok("f32[0,3]")),
            ("0,3", "0,-1", "true", Err("-1 cannot be inferred beside a dim of 0")),
            ("2,3", "0,0,0", "true", Err("element 2 of shape is 0, which copies dim 2")),
            ("1", "", "true", Ok("f32[]")),
            ("...", "4,0,-1", "true", Ok("f32[4,?,?]")),
        ] {
            case(shape, special).inputs([Input::shape(F32, input)]).expect(&[expected]);
        }
        let data = || [Input::shape(F32, "2,8")];
        let below = "attribute shape: element 0 is -6; it must be a size, 0 or -1";
        case("-6,1", "true").inputs(data()).expect(&[Err(below)]);
        case("16", "maybe").inputs(data()).expect(&[Err("attribute special_zero: \"maybe\"")]);
        Case::of("StaticReshape", "extension")
            .attr("shape", "16")
            .inputs(data())
            .expect(&[Err("attribute special_zero: is missing")]);
        case("16", "1").inputs([Input::shape(I8, "16")]).expect(&[Err("f32, f16 or bf16")]);
    }
}
