//! Connectionist temporal classification: CTCGreedyDecoder-1, CTCGreedyDecoderSeqLen-6 and
//! CTCLoss-4.
//!
//! <https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/ctc-loss-4.html>

use crate::rule::prelude::*;

/// The operations of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CTCGreedyDecoder: a mask gives the steps of each sequence.
    GreedyDecoder,
    /// CTCGreedyDecoderSeqLen: an input gives their number.
    GreedyDecoderSeqLen,
    /// CTCLoss.
    Loss,
}

/// An operation of this file.
#[derive(Debug)]
pub struct Ctc {
    kind: Kind,
    merges: bool,
    collapses: bool,
    unique: bool,
    /// The types of the outputs of CTCGreedyDecoderSeqLen.
    types: [ElementType; 2],
}

impl Parse for Ctc {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        let mut op = Ctc {
            kind,
            merges: true,
            collapses: false,
            unique: false,
            types: [ElementType::I32; 2],
        };
        match kind {
            Kind::GreedyDecoder => op.merges = attrs.bool_or("ctc_merge_repeated", true),
            Kind::GreedyDecoderSeqLen => {
                op.merges = attrs.bool_or("merge_repeated", true);
                op.types = [
                    attrs.index_type_or("classes_index_type", ElementType::I32)?,
                    attrs.index_type_or("sequence_length_type", ElementType::I32)?,
                ];
            }
            Kind::Loss => {
                op.merges = attrs.bool_or("ctc_merge_repeated", true);
                op.collapses = attrs.bool_or("preprocess_collapse_repeated", false);
                op.unique = attrs.bool_or("unique", false);
            }
        }
        Ok(op)
    }
}

/// The dim that axes of several inputs share.
fn agreed(cx: &InferCx<'_>, name: &str, axes: &[(usize, usize)]) -> Result<Dim, RuleError> {
    let dim = |known, (input, axis): &(usize, usize)| cx.expect_dim(*input, *axis, name, known);
    axes.iter().try_fold(Dim::any(), dim)
}

impl Ctc {
    /// Which operation it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether repeated classes without a blank in between are merged.
    pub fn merges(&self) -> bool {
        self.merges
    }

    /// Whether repeated labels are collapsed.
    pub fn collapses(&self) -> bool {
        self.collapses
    }

    /// Whether each label counts only at its first occurrence.
    pub fn unique(&self) -> bool {
        self.unique
    }

    fn decoder(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=2)?;
        cx.expect_real(1)?;
        cx.expect_rank(1, 2..=2)?;
        let element_type = cx.mixed(0..2)?;
        let steps = agreed(cx, "the steps", &[(0, 0), (1, 0)])?;
        let batch = agreed(cx, "the batch", &[(0, 1), (1, 1)])?;
        let one = Dim::fixed(1);
        cx.set(0, element_type, [batch, steps, one, one]);
        Ok(())
    }

    fn decoder_with_lengths(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(2..=3)?;
        cx.expect_rank(1, 1..=1)?;
        cx.expect_index(1)?;
        if cx.input_count() > 2 {
            cx.expect_index(2)?;
            cx.expect_rank(2, 0..=1)?;
            require!(2; cx.shape(2).volume().contains(1), "is {}, not one class", cx.shape(2));
        }
        cx.same_type(1..cx.input_count())?;
        let batch = agreed(cx, "the batch", &[(0, 0), (1, 0)])?;
        let steps = cx.shape(0).dim(1);
        cx.set(0, self.types[0], [batch, steps]);
        cx.set(1, self.types[1], [batch]);
        Ok(())
    }

    fn loss(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_inputs(4..=5)?;
        for (input, rank) in (1..cx.input_count()).zip([1, 2, 1, 0]) {
            cx.expect_index(input)?;
            cx.expect_rank(input, rank..=rank)?;
        }
        cx.same_type([1, 3])?;
        cx.same_type([2, 4])?;
        let batch = agreed(cx, "the batch", &[(0, 0), (1, 0), (2, 0), (3, 0)])?;
        agreed(cx, "the steps", &[(0, 1), (2, 1)])?;
        cx.set(0, cx.element_type(0), [batch]);
        Ok(())
    }
}

impl Op for Ctc {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::GreedyDecoder => &["data", "sequence_mask"],
            Kind::GreedyDecoderSeqLen => &["data", "sequence_length", "blank_index"],
            Kind::Loss => &["logits", "logit_length", "labels", "label_length", "blank_index"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        cx.expect_real(0)?;
        cx.expect_rank(0, 3..=3)?;
        cx.because("the shapes of the inputs leave it open");
        match self.kind {
            Kind::GreedyDecoder => self.decoder(cx),
            Kind::GreedyDecoderSeqLen => self.decoder_with_lengths(cx),
            Kind::Loss => self.loss(cx),
        }
    }

    fn traits(&self) -> OpTraits {
        OpTraits::PURE.mixing()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    #[test]
    fn decoders() {
        let masked = |data, mask| {
            let inputs = [Input::shape(F16, data), Input::shape(F16, mask)];
            Case::of("CTCGreedyDecoder", "opset1").inputs(inputs)
        };
        masked("6,?,4", "...").expect(&[Ok("f16[?,6,1,1]")]);
        masked("?,2..5,4", "6,4..8").expect(&[Ok("f16[4..5,6,1,1]")]);
        masked("6,2,4", "6,3")
            .expect(&[Err("input 1 (sequence_mask): is [6,3]: axis 1, the batch, must be 2")]);
        masked("6,2", "6,2").expect(&[Err("input 0 (data): must have rank 3, not 2")]);
        let counted = |data, lengths, blank| {
            let inputs = [Input::shape(F32, data), Input::shape(I32, lengths), blank];
            Case::of("CTCGreedyDecoderSeqLen", "opset6").inputs(inputs)
        };
        let blank = Input::shape(I32, "1");
        let both = [Ok("i64[2,6]"), Ok("i32[2]")];
        counted("?,6,4", "2", blank.clone()).attr("classes_index_type", "i64").expect(&both);
        counted("...", "...", blank.clone()).expect(&[Ok("i32[?,?]"), Ok("i32[?]")]);
        counted("2,6,4", "3", blank.clone()).expect(&[Err("the batch, must be 2")]);
        counted("2,6,4", "2", Input::shape(I32, "2")).expect(&[Err("is [2], not one class")]);
        counted("2,6,4", "2", blank)
            .attr("sequence_length_type", "u8")
            .expect(&[Err("sequence_length_type: must be i32 or i64, not u8")]);
    }

    #[test]
    fn loss() {
        let case = |logits, lengths, labels, blank| {
            let inputs = [
                Input::shape(F32, logits),
                Input::shape(I32, lengths),
                Input::shape(I64, labels),
                Input::shape(I32, "?"),
                blank,
            ];
            Case::of("CTCLoss", "opset4").inputs(inputs)
        };
        let blank = Input::scalar(I64, 0);
        case("?,6,4", "?", "2,?", blank.clone()).expect(&[Ok("f32[2]")]);
        case("2,6,4", "2", "2,5", blank.clone()).expect(&[Err("the steps, must be 6")]);
        case("2,6,4", "1,2", "2,5", blank).expect(&[Err("must have rank 1, not 2")]);
        case("2,6,4", "2", "2,6", Input::scalar(I32, 0))
            .expect(&[Err("input 4 (blank_index): is i32, but an earlier input is i64")]);
    }
}
