//! EqualStr, StringToHashBucket, NumericToString, ContribStringJoin and ContribStringSplit of
//! OpenVINO Tokenizers: compares, hashes, prints, joins and splits strings.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::{axes, strings};

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// EqualStr.
    Equal,
    /// StringToHashBucket.
    HashBucket,
    /// NumericToString.
    OfNumber,
    /// ContribStringJoin: joins the strings along an axis, with a separator.
    Join,
    /// ContribStringSplit: splits strings at a delimiter, as a sparse tensor.
    Split,
}

/// One of the operations.
#[derive(Debug)]
pub struct TextValues {
    kind: Kind,
    buckets: usize,
}

impl Parse for TextValues {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let buckets = if kind == Kind::HashBucket { attrs.size("num_buckets")? } else { 1 };
        Ok(TextValues { kind, buckets })
    }
}

impl TextValues {
    /// Which of the operations.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The number of buckets.
    pub fn buckets(&self) -> usize {
        self.buckets
    }
}

impl Op for TextValues {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::OfNumber => &["data"],
            Kind::Join => &["begins", "ends", "chars", "separator", "axis"],
            Kind::Split => &["begins", "ends", "chars", "delimiter", "skip_empty"],
            _ => &["begins", "ends", "chars"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        if self.kind == Kind::OfNumber {
            cx.expect_inputs(1..=1)?;
            let allowed = |t: ElementType| {
                let real = matches!(t, ElementType::F32 | ElementType::F64);
                t.is_integral() || real || t == ElementType::Boolean
            };
            cx.expect_type(0, "boolean, an integer type, f32 or f64", allowed)?;
            cx.set(0, ElementType::String, cx.shape(0).clone());
            return Ok(());
        }
        strings::expect_strings(cx, 0)?;
        match self.kind {
            Kind::Equal => {
                cx.expect_inputs(6..=6)?;
                strings::expect_strings(cx, 3)?;
                cx.set(0, ElementType::I32, PartialShape::of_rank(1));
                Ok(())
            }
            Kind::Join => join(cx),
            Kind::Split => split(cx),
            _ => {
                cx.expect_inputs(3..=3)?;
                cx.set(0, ElementType::I64, cx.shape(0).clone());
                Ok(())
            }
        }
    }
}

fn join(cx: &mut InferCx<'_>) -> Result<(), RuleError> {
    cx.expect_inputs(5..=5)?;
    strings::expect_bytes(cx, 3)?;
    cx.expect_index(4)?;
    cx.expect_one(4, "axis")?;
    let shape = match (cx.shape(0).dims(), cx.int(4)) {
        (Some(dims), _) if dims.len() <= 1 => PartialShape::of_rank(0),
        (Some(dims), Some(axis)) => {
            let axis = axes::normalize_of(4, axis, dims.len())?;
            let others = dims.iter().enumerate().filter(|(i, _)| *i != axis);
            PartialShape::from_iter(others.map(|(_, dim)| *dim))
        }
        (Some(dims), None) => PartialShape::of_rank(dims.len() - 1),
        (None, _) => cx.unranked("the rank of the strings is unknown"),
    };
    strings::set_strings(cx, 0, shape);
    Ok(())
}

fn split(cx: &mut InferCx<'_>) -> Result<(), RuleError> {
    cx.expect_inputs(5..=5)?;
    strings::expect_bytes(cx, 3)?;
    let flag = |t| matches!(t, ElementType::Boolean | ElementType::U8 | ElementType::I8);
    cx.expect_type(4, "boolean, u8 or i8", flag)?;
    cx.expect_one(4, "flag")?;
    let rank = cx.rank(0).map_or(Dim::any(), |rank| Dim::of(rank + 1));
    cx.because("how many parts there are is known only when running");
    cx.set(0, ElementType::I64, [Dim::any(), rank]);
    strings::set_strings(cx, 1, PartialShape::of_rank(1));
    cx.set(4, ElementType::I64, [rank]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    const STRINGS: [(ir::ElementType, &str); 3] = [(I32, "2,3"), (I32, "2,3"), (U8, "?")];

    #[test]
    fn rule() {
        Case::of_shapes("EqualStr", &[&STRINGS[..], &STRINGS].concat()).expect(&[Ok("i32[?]")]);
        let hash = Case::of_shapes("StringToHashBucket", &STRINGS);
        hash.attr("num_buckets", "7").expect(&[Ok("i64[2,3]")]);
        Case::of_shapes("StringToHashBucket", &STRINGS).expect(&[Err("num_buckets")]);
        Case::of_shapes("ContribStringJoin", &[&STRINGS[..], &[(U8, "1"), (I64, "")]].concat())
            .expect(&[Ok("i32[?]"), Ok("i32[?]"), Ok("u8[?]")]);
        Case::of_shapes(
            "ContribStringSplit",
            &[&STRINGS[..], &[(U8, "1"), (Boolean, "")]].concat(),
        )
        .expect(&[Ok("i64[?,3]"), Ok("i32[?]"), Ok("i32[?]"), Ok("u8[?]"), Ok("i64[3]")]);
    }

    #[test]
    fn numbers() {
        let case =
            |t| Case::of("NumericToString", "openvino_tokenizers").inputs([Input::shape(t, "2,?")]);
        case(F32).expect(&[Ok("string[2,?]")]);
        case(F16).expect(&[Err("must be boolean, an integer type, f32 or f64, not f16")]);
    }
}
