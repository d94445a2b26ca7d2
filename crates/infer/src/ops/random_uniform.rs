//! RandomUniform-8, Multinomial-13: random numbers.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/generation/random-uniform-8.html>

use crate::rule::prelude::*;
use crate::rules::sizes;

/// The seeds; if both are 0, each run gives other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// The global seed.
    pub global: u64,
    /// The seed of the operation.
    pub op: u64,
}

impl Seeds {
    fn parse(attrs: &mut Attrs<'_>) -> Result<Seeds, AttrError> {
        let mut seed = |name: &str| -> Result<u64, AttrError> {
            let number = |text: &str| {
                text.parse().map_err(|_| format!("\"{text}\" is not a seed, 0 to {}", u64::MAX))
            };
            Ok(attrs.optional(name, number)?.unwrap_or(0))
        };
        Ok(Seeds { global: seed("global_seed")?, op: seed("op_seed")? })
    }
}

/// RandomUniform-8.
#[derive(Debug)]
pub struct RandomUniform {
    output_type: ElementType,
    seeds: Seeds,
    mt19937: bool,
}

impl Parse for RandomUniform {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        use ElementType::{BF16, F16, F32, F64, I32, I64};
        let output_type = attrs.element_type("output_type")?;
        if !matches!(output_type, I32 | I64 | F16 | BF16 | F32 | F64) {
            let message = format!("must be i32, i64, f16, bf16, f32 or f64, not {output_type}");
            return Err(AttrError::new("output_type", message));
        }
        let frameworks = [("tensorflow", false), ("pytorch", true)];
        let mt19937 = attrs.choice_or("alignment", &frameworks, false)?;
        Ok(RandomUniform { output_type, seeds: Seeds::parse(attrs)?, mt19937 })
    }
}

impl RandomUniform {
    /// The seeds.
    pub fn seeds(&self) -> Seeds {
        self.seeds
    }

    /// Whether the generator is PyTorch's, MT19937; otherwise it is TensorFlow's, Philox.
    pub fn mt19937(&self) -> bool {
        self.mt19937
    }
}

impl Op for RandomUniform {
    fn input_names(&self) -> &'static [&'static str] {
        &["shape", "minval", "maxval"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(3..=3)?;
        cx.expect_index(0)?;
        cx.expect_rank(0, 1..=1)?;
        for input in [1, 2] {
            let wanted = self.output_type;
            cx.expect_type(input, &format!("{wanted}, as output_type"), |t| t == wanted)?;
            expect_one(cx, input)?;
        }
        let bound = |input: usize| cx.value(input)?.f64s()?.first().copied();
        if let (Some(low), Some(high)) = (bound(1), bound(2)) {
            let above = low < high;
            require!(2; above, "{high} is not above minval, {low}");
        }
        let shape = sizes::shape(cx, 0, "the shape is known only when running")?;
        cx.set(0, self.output_type, shape);
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::STATEFUL
    }
}

/// Checks that an input is a scalar or a list of one element.
fn expect_one(cx: &InferCx<'_>, input: usize) -> Result<(), RuleError> {
    cx.expect_rank(input, 0..=1)?;
    cx.expect_one(input, "element")
}

/// Multinomial-13: samples classes by their probabilities.
///
/// <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/generation/multinomial-13.html>
#[derive(Debug)]
pub struct Multinomial {
    convert_type: ElementType,
    with_replacement: bool,
    log_probs: bool,
    seeds: Seeds,
}

impl Parse for Multinomial {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(Multinomial {
            convert_type: attrs.index_type_or("convert_type", ElementType::I64)?,
            with_replacement: attrs.bool_or("with_replacement", false),
            log_probs: attrs.bool_or("log_probs", false),
            seeds: Seeds::parse(attrs)?,
        })
    }
}

impl Multinomial {
    /// Whether a class can be sampled more than once.
    pub fn with_replacement(&self) -> bool {
        self.with_replacement
    }

    /// Whether the input holds logarithms of probabilities.
    pub fn log_probs(&self) -> bool {
        self.log_probs
    }

    /// The seeds.
    pub fn seeds(&self) -> Seeds {
        self.seeds
    }
}

impl Op for Multinomial {
    fn input_names(&self) -> &'static [&'static str] {
        &["probs", "num_samples"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_real(0)?;
        cx.expect_index(1)?;
        cx.expect_rank(0, 2..=2)?;
        expect_one(cx, 1)?;
        let samples = sizes::count(cx, 1, "samples")?;
        let (batch, classes) = (cx.shape(0).dim(0), cx.shape(0).dim(1));
        require!(
            1; self.with_replacement || samples.min() <= classes.max(),
            "{samples} samples cannot be drawn of {classes} classes without replacement"
        );
        cx.set(0, self.convert_type, [batch, samples]);
        Ok(())
    }

    fn traits(&self) -> OpTraits {
        OpTraits::STATEFUL
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn random_uniform() {
        let case = |shape, low, high| {
            let op = Case::of("RandomUniform", "opset8").attr("output_type", "f16");
            op.attr("global_seed", "18446744073709551615").inputs([shape, low, high])
        };
        let (zero, one) = (Input::reals(F16, &[0.0]), Input::reals(F16, &[1.0]));
        let any = Input::shape(F16, "[]");
        let shape = Input::ints(I32, &[2, 3]);
        case(shape.clone(), zero.clone(), one.clone()).expect(&[Ok("f16[2,3]")]);
        case(Input::bounds(I64, &[(1, 4)]), any.clone(), any.clone()).expect(&[Ok("f16[1..4]")]);
        case(Input::shape(I64, "3"), any.clone(), any.clone()).expect(&[Ok("f16[?,?,?]")]);
        case(Input::shape(I64, "?"), any.clone(), any.clone()).expect(&[Ok("f16[...]")]);
        case(shape.clone(), one, zero).expect(&[Err("input 2 (maxval): 0 is not above minval, 1")]);
        let wrong = case(shape.clone(), any.clone(), Input::shape(F32, "[]"));
        wrong.expect(&[Err("input 2 (maxval): must be f16, as output_type, not f32")]);
        let two = case(shape, Input::shape(F16, "2"), any.clone());
        two.expect(&[Err("input 1 (minval): must hold one element, but is [2]")]);
        let seed = case(Input::ints(I32, &[2]), any.clone(), any).attr("op_seed", "-1");
        seed.expect(&[Err("attribute op_seed: \"-1\" is not a seed")]);
    }

    #[test]
    fn multinomial() {
        let case = |probs, samples| {
            let op = Case::of("Multinomial", "opset13").attr("convert_type", "i32");
            op.attr("with_replacement", "false").inputs([Input::shape(F32, probs), samples])
        };
        let samples = |n| Input::ints(I64, &[n]);
        case("2,3", samples(3)).expect(&[Ok("i32[2,3]")]);
        case("?,?", Input::shape(I32, "[]")).expect(&[Ok("i32[?,?]")]);
        case("...", samples(3)).expect(&[Ok("i32[?,3]")]);
        case("2,3", samples(4)).expect(&[Err("4 samples cannot be drawn of 3 classes without")]);
        case("2,3", samples(-4)).expect(&[Err("input 1 (num_samples): -4 is not a number of")]);
        case("2", samples(4)).expect(&[Err("input 0 (probs): must have rank 2, not 1")]);
    }
}
