//! BytesToChars and CharsToBytes of OpenVINO Tokenizers: bytes as printable characters, and back.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::strings;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// BytesToChars.
    ToChars,
    /// CharsToBytes.
    ToBytes,
}

/// One of the operations.
#[derive(Debug)]
pub struct TextBytes {
    kind: Kind,
}

impl Parse for TextBytes {
    type Kind = Kind;

    fn parse(kind: Kind, _: &mut Attrs<'_>) -> Result<Self, AttrError> {
        Ok(TextBytes { kind })
    }
}

impl TextBytes {
    /// Which of the operations.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Op for TextBytes {
    fn input_names(&self) -> &'static [&'static str] {
        &["ragged_begins", "ragged_ends", "begins", "ends", "chars"]
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        strings::expect_ragged_strings(cx, 0)?;
        let rows = cx.shape(0).clone();
        if self.kind == Kind::ToBytes {
            cx.expect_inputs(5..=5)?;
            strings::set_strings(cx, 0, rows);
            return Ok(());
        }
        cx.expect_inputs(5..=6)?;
        strings::set_ragged_strings(cx, 0, rows);
        for output in [2, 3] {
            cx.set(output, ElementType::I32, cx.shape(output).clone());
        }
        if cx.input_count() == 6 {
            cx.expect_boolean(5)?;
            cx.set(5, ElementType::Boolean, cx.shape(5).clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn rule() {
        let own = [(I32, "2"), (I32, "2"), (I32, "3"), (I32, "3"), (U8, "?")];
        let case = |kind| {
            let inputs = own.iter().map(|(t, shape)| Input::shape(*t, shape));
            Case::of(kind, "extension").inputs(inputs)
        };
        let chars = [Ok("i32[2]"), Ok("i32[2]"), Ok("i32[3]"), Ok("i32[3]"), Ok("u8[?]")];
        case("BytesToChars").expect(&chars);
        case("CharsToBytes").expect(&[Ok("i32[2]"), Ok("i32[2]"), Ok("u8[?]")]);
    }
}
