//! Reshape of MXNet: codes 0, -1, -2, -3 and -4, read from either end.
//!
//! Follows the documentation (`mx.nd.Reshape`, 1.6) and, where that is silent, the operator's
//! source, without its defects. `docs/dialects/reshape-and-roll.md` lists both.

use crate::rule::prelude::*;
use crate::rules::reshape::{EmptyRule, Target, reshape};

/// Reshape, `version="mxnet"`.
#[derive(Debug)]
pub struct MxnetReshape {
    shape: Vec<i64>,
    reverse: bool,
    target_shape: Vec<i64>,
    keep_highest: bool,
}

impl Parse for MxnetReshape {
    type Kind = ();

    fn parse((): (), attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let op = MxnetReshape {
            shape: attrs.optional("shape", tuple)?.unwrap_or_default(),
            reverse: attrs.bool_or("reverse", false),
            target_shape: attrs.optional("target_shape", tuple)?.unwrap_or_default(),
            keep_highest: attrs.bool_or("keep_highest", false),
        };
        if op.shape.is_empty() && op.target_shape.is_empty() {
            return Err(AttrError::new("shape", "neither shape nor target_shape is given"));
        }
        if let Some(code) = op.shape.iter().find(|code| **code < -4) {
            return Err(AttrError::new("shape", format!("{code} is not a code; the last is -4")));
        }
        if let Some(size) = op.target_shape.iter().find(|size| **size < 0) {
            return Err(AttrError::new("target_shape", format!("{size} is not a size")));
        }
        Ok(op)
    }
}

/// A tuple as MXNet writes it, `(0, -1)` or `[3L, 4,]`, or a plain list.
fn tuple(text: &str) -> Result<Vec<i64>, String> {
    let inner = match text.chars().next() {
        Some('(') => text.strip_prefix('(').and_then(|t| t.strip_suffix(')')),
        Some('[') => text.strip_prefix('[').and_then(|t| t.strip_suffix(']')),
        _ => Some(text),
    };
    let inner = inner.ok_or_else(|| format!("\"{text}\" lacks its closing bracket"))?.trim();
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let number = |field: &str| {
        let digits = field.trim().trim_end_matches(['L', 'l']);
        digits.parse().map_err(|_| format!("\"{}\" is not a number", field.trim()))
    };
    inner.split(',').map(number).collect()
}

impl Op for MxnetReshape {
    fn input_names(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(1..=1)?;
        let shape = match cx.shape(0).dims() {
            None => cx.unranked("the rank of the input is unknown"),
            Some(dims) if self.shape.is_empty() => {
                let targets = self.deprecated(dims)?;
                reshape(dims, &targets, EmptyRule::Refuse, cx.symbols())
                    .map_err(|e| e.about("target_shape"))?
            }
            Some(dims) => {
                let targets = self.targets(dims);
                targets
                    .and_then(|to| reshape(dims, &to, EmptyRule::Refuse, cx.symbols()))
                    .map_err(|e| e.about("shape"))?
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

impl MxnetReshape {
    /// The codes as targets. `reverse` reads codes and dims from the right, so a split has its -4
    /// last.
    fn targets(&self, dims: &[Dim]) -> Result<Vec<Target>, RuleError> {
        let rank = dims.len();
        if !self.reverse {
            return Codes { dims, at: 0 }.translate(&self.shape);
        }
        let codes: Vec<i64> = self.shape.iter().rev().copied().collect();
        let dims: Vec<Dim> = dims.iter().rev().copied().collect();
        let mut targets = Codes { dims: &dims, at: 0 }.translate(&codes)?;
        targets.reverse();
        for target in &mut targets {
            if let Target::Copy(i) = target {
                *i = rank - 1 - *i;
            }
        }
        Ok(targets)
    }

    /// `target_shape`: one 0 is inferred; `keep_highest` keeps the first dim.
    fn deprecated(&self, dims: &[Dim]) -> Result<Vec<Target>, RuleError> {
        let zeros = self.target_shape.iter().skip(usize::from(self.keep_highest));
        let zeros = zeros.filter(|size| **size == 0).count();
        require!(
            attribute "target_shape"; zeros <= 1,
            "target_shape has {zeros} zeros; only one can be inferred"
        );
        require!(
            attribute "keep_highest"; !self.keep_highest || !dims.is_empty(),
            "keep_highest keeps dim 0, but the input is a scalar"
        );
        let target = |(i, &size): (usize, &i64)| match size {
            _ if i == 0 && self.keep_highest => Target::Copy(0),
            0 => Target::Infer,
            size => Target::Size(Dim::fixed(size)),
        };
        Ok(self.target_shape.iter().enumerate().map(target).collect())
    }
}

/// The codes consume the input dims with a cursor.
struct Codes<'a> {
    dims: &'a [Dim],
    at: usize,
}

impl Codes<'_> {
    fn translate(mut self, codes: &[i64]) -> Result<Vec<Target>, RuleError> {
        let mut targets = Vec::new();
        let mut codes = codes.iter().copied();
        while let Some(code) = codes.next() {
            match code {
                0 => {
                    self.need(1, "0 copies a dim")?;
                    targets.push(Target::Copy(self.advance(1)));
                }
                -1 => {
                    self.advance(1);
                    targets.push(Target::Infer);
                }
                -2 => {
                    let rest = self.at.min(self.dims.len())..self.dims.len();
                    targets.extend(rest.map(Target::Copy));
                    self.at = self.dims.len();
                }
                -3 => {
                    self.need(2, "-3 merges two dims")?;
                    let i = self.advance(2);
                    targets.push(Target::Size(self.dims[i].times(self.dims[i + 1])));
                }
                -4 => {
                    let (Some(a), Some(b)) = (codes.next(), codes.next()) else {
                        return Err(RuleError::new("-4 splits a dim and needs two sizes after it"));
                    };
                    self.need(1, "-4 splits a dim")?;
                    let i = self.advance(1);
                    targets.extend(split(self.dims[i], a, b)?.map(Target::Size));
                }
                size => {
                    self.advance(1);
                    targets.push(Target::Size(Dim::fixed(size)));
                }
            }
        }
        Ok(targets)
    }

    fn need(&self, count: usize, what: &str) -> Result<(), RuleError> {
        let left = self.dims.len().saturating_sub(self.at);
        let rank = self.dims.len();
        require!(left >= count, "{what}, but {left} of the input's {rank} dims are left");
        Ok(())
    }

    fn advance(&mut self, count: usize) -> usize {
        let at = self.at;
        self.at += count;
        at
    }
}

/// The two dims into which -4 splits one; either size may be -1.
fn split(dim: Dim, a: i64, b: i64) -> Result<[Dim; 2], RuleError> {
    require!(!(a == -1 && b == -1), "-4 cannot infer both sizes");
    for size in [a, b] {
        require!(size == -1 || size > 0, "-4 is followed by {size}; it must be a size or -1");
    }
    if a != -1 && b != -1 {
        let product = a.saturating_mul(b);
        require!(dim.contains(product), "-4 cannot split {dim} into {a} times {b}");
        return Ok([Dim::fixed(a), Dim::fixed(b)]);
    }
    let known = if a == -1 { b } else { a };
    let other = match dim.value() {
        Some(size) => {
            require!(size % known == 0, "-4 cannot split {size} into {known} equal parts");
            Dim::fixed(size / known)
        }
        None => dim.div_floor(known),
    };
    Ok(if a == -1 { [other, Dim::fixed(b)] } else { [Dim::fixed(a), other] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, Input};
    use ElementType::*;

    fn case(attrs: &[(&str, &str)], input: &str, expected: Result<&str, &str>) {
        let start = Case::of("Reshape", "mxnet");
        let case = attrs.iter().fold(start, |case, (key, value)| case.attr(key, value));
        case.inputs([Input::shape(F32, input)]).expect(&[expected]);
    }

    #[test]
    fn codes() {
        for (input, shape, expected) in [
            ("2,3,4", "(4, 0, 2)", Ok("f32[4,3,2]")),
            ("2,3,4", "6,1,-1", Ok("f32[6,1,4]")),
            ("2,3,4", "(-2,1,1)", Ok("f32[2,3,4,1,1]")),
            ("2,3,4,5", "[-3,-3]", Ok("f32[6,20]")),
            ("2,3,4", "(2,-4,-1,3,-2)", Ok("f32[2,1,3,4]")),
            ("?,3,4", "(-4,2,-1,-2)", Ok("f32[2,?,3,4]")),
            // MXNet itself puts the inferred dim in the wrong position here.
            ("2,3", "(-2,-1)", Ok("f32[2,3,1]")),
            ("2,3,4", "(5,-1)", Err("24 elements do not divide evenly by 5")),
            ("2,3", "(0,0,0)", Err("0 copies a dim, but 0 of the input's 2 dims are left")),
            ("[]", "(-3,)", Err("-3 merges two dims, but 0 of the input's 0 dims are left")),
            ("6", "(-4,2,2)", Err("-4 cannot split 6 into 2 times 2")),
            ("6", "(-4,4,2)", Err("-4 cannot split 6 into 4 times 2")),
            ("6", "(-4,4,-1)", Err("-4 cannot split 6 into 4 equal parts")),
            ("6", "(-4,-1,-1)", Err("-4 cannot infer both sizes")),
            ("6", "(-4,0,6)", Err("-4 is followed by 0")),
            ("6", "(-4,2)", Err("-4 splits a dim and needs two sizes after it")),
            ("2,3", "(-5,1)", Err("attribute shape: -5 is not a code")),
            ("2,3", "(2,3", Err("attribute shape: \"(2,3\" lacks its closing bracket")),
            ("...", "(2,-1)", Ok("f32[...]")),
        ] {
            case(&[("shape", shape)], input, expected);
        }
        case(&[], "2", Err("attribute shape: neither shape nor target_shape is given"));
    }

    #[test]
    fn reverse_reads_from_the_right() {
        for (input, shape, expected) in [
            ("10,5,4", "(-1,0)", Ok("f32[50,4]")),
            ("64", "(16,4,-4)", Ok("f32[16,4]")),
            ("1,2,3,64", "(-2,-1,16,-4)", Ok("f32[1,2,3,4,16]")),
            ("64", "(-4,16,4)", Err("-4 splits a dim and needs two sizes after it")),
        ] {
            case(&[("shape", shape), ("reverse", "True")], input, expected);
        }
    }

    #[test]
    fn target_shape() {
        case(&[("target_shape", "(2, 0)")], "2,3,5,5", Ok("f32[2,75]"));
        let keep = [("target_shape", "(0, 0)"), ("keep_highest", "True")];
        case(&keep, "2,3,5,5", Ok("f32[2,75]"));
        case(&[("target_shape", "(0, 0)")], "2,3", Err("target_shape has 2 zeros"));
    }

    #[test]
    fn tuple_text() {
        assert_eq!(tuple("(1, -2L,)").unwrap(), [1, -2]);
        assert!(tuple("()").unwrap().is_empty());
        assert_eq!(tuple("5").unwrap(), [5]);
        assert!(tuple("(a)").is_err() && tuple("[1").is_err());
    }
}
