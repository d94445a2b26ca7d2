//! CombineSegments, Truncate, RaggedToDense, RaggedToSparse, RaggedToRagged, RaggedTensorPack and
//! FuzeRagged of OpenVINO Tokenizers: rows of different lengths.
//!
//! <https://github.com/openvinotoolkit/openvino_tokenizers>

use crate::rule::prelude::*;
use crate::rules::{sizes, strings};

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CombineSegments: concatenates rows of several tensors.
    Combine,
    /// Truncate: rows that are too long are cut.
    Truncate,
    /// RaggedToDense: pads rows to one length.
    ToDense,
    /// RaggedToSparse: row and column of each element.
    ToSparse,
    /// RaggedToRagged: rows from the row numbers of elements.
    ToRagged,
    /// RaggedTensorPack: the elements by themselves.
    Pack,
    /// FuzeRagged: concatenates the strings of each row.
    Fuze,
}

/// One of the operations.
#[derive(Debug)]
pub struct Ragged {
    kind: Kind,
    pad_right: bool,
    pad_whole: bool,
}

impl Parse for Ragged {
    type Kind = Kind;

    fn parse(kind: Kind, attrs: &mut Attrs<'_>) -> Result<Self, AttrError> {
        if kind == Kind::Truncate {
            attrs.ignore(&["m_num_inputs"]);
        }
        Ok(Ragged {
            kind,
            pad_right: kind != Kind::ToDense || attrs.bool_or("pad_right", true),
            pad_whole: kind == Kind::ToDense && attrs.bool_or("m_pad_max_length", false),
        })
    }
}

impl Ragged {
    /// Which of the operations.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether rows are padded at their end, unless an input says so.
    pub fn pad_right(&self) -> bool {
        self.pad_right
    }

    /// Whether rows are assumed to have the target length already.
    pub fn pad_whole(&self) -> bool {
        self.pad_whole
    }
}

impl Op for Ragged {
    fn input_names(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::ToDense => &["begins", "ends", "data", "length", "padding", "pad_right"],
            Kind::ToRagged => &["row_ids", "rows"],
            Kind::Fuze => &["ragged_begins", "ragged_ends", "begins", "ends"],
            _ => &["begins", "ends", "data"],
        }
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<(), RuleError> {
        match self.kind {
            Kind::Combine => combine(cx),
            Kind::Truncate => truncate(cx),
            Kind::ToDense => to_dense(cx),
            Kind::ToSparse => {
                cx.expect_inputs(2..=2)?;
                strings::expect_rows(cx, 0)?;
                cx.because("how many elements there are is known only when running");
                cx.set(0, ElementType::I32, [Dim::any(), Dim::of(2)]);
                Ok(())
            }
            Kind::ToRagged => {
                cx.expect_inputs(2..=2)?;
                strings::expect_i32(cx, 0)?;
                strings::expect_i32(cx, 1)?;
                let rows = sizes::count(cx, 1, "rows")?;
                cx.set(0, ElementType::I32, [rows]);
                cx.set(1, ElementType::I32, [rows]);
                Ok(())
            }
            Kind::Pack => {
                cx.expect_inputs(3..=3)?;
                strings::expect_rows(cx, 0)?;
                cx.set(0, cx.element_type(2), cx.shape(2).clone());
                Ok(())
            }
            Kind::Fuze => {
                cx.expect_inputs(4..=4)?;
                strings::expect_rows(cx, 0)?;
                strings::expect_rows(cx, 2)?;
                for output in [0, 1] {
                    cx.set(output, ElementType::I32, cx.shape(0).clone());
                }
                Ok(())
            }
        }
    }
}

/// Segments with three inputs each, and an input with a number per segment.
fn combine(cx: &mut InferCx<'_>) -> Result<(), RuleError> {
    let count = cx.input_count();
    if count < 4 || count % 3 != 1 {
        let message = format!("it takes three inputs for each segment and one more, not {count}");
        return Err(RuleError::new(message));
    }
    let (segments, last) = (count / 3, count - 1);
    let mut rows: Option<PartialShape> = None;
    for begins in (0..segments).map(|segment| 3 * segment) {
        strings::expect_rows(cx, begins)?;
        let own = cx.shape(begins);
        // A segment with a single row is added to each row.
        if own.rank().is_some_and(|rank| rank > 0) {
            let known = rows.unwrap_or_else(|| own.clone());
            let message = || format!("has rows {own}, an earlier segment has {known}");
            rows = Some(known.meet(own).ok_or_else(|| RuleError::at(begins, message()))?);
        }
    }
    let element_type = cx.same_type((0..segments).map(|segment| 3 * segment + 2))?;
    cx.expect_dim(
        last,
        0,
        "a number for each segment",
        match cx.rank(last) {
            Some(1) => Dim::of(segments),
            _ => Dim::any(),
        },
    )?;
    let scalar = (0..segments).all(|segment| cx.rank(3 * segment) == Some(0));
    let unknown = || if scalar { PartialShape::of_rank(0) } else { PartialShape::unranked() };
    let rows = rows.unwrap_or_else(unknown);
    strings::set_ragged(cx, 0, rows.clone(), element_type);
    strings::set_ragged(cx, 3, rows, cx.element_type(last));
    Ok(())
}

/// One or two ragged tensors with three inputs each, a length, a side and a mode.
fn truncate(cx: &mut InferCx<'_>) -> Result<(), RuleError> {
    let count = cx.input_count();
    if count != 6 && count != 9 {
        return Err(RuleError::new(format!("it takes 6 or 9 inputs, not {count}")));
    }
    cx.expect_integer(count - 3)?;
    cx.expect_one(count - 3, "length")?;
    strings::expect_bytes(cx, count - 2)?;
    strings::expect_bytes(cx, count - 1)?;
    for begins in (0..count - 3).step_by(3) {
        strings::expect_rows(cx, begins)?;
        let rows = cx.shape(begins).clone();
        strings::set_ragged(cx, begins, rows, cx.element_type(begins + 2));
        cx.set(begins + 2, cx.element_type(begins + 2), cx.shape(begins + 2).clone());
    }
    Ok(())
}

fn to_dense(cx: &mut InferCx<'_>) -> Result<(), RuleError> {
    cx.expect_inputs(5..=6)?;
    strings::expect_rows(cx, 0)?;
    cx.expect_integer(3)?;
    cx.expect_one(3, "length")?;
    let element_type = cx.same_type([2, 4])?;
    cx.expect_one(4, "padding")?;
    let length = sizes::count(cx, 3, "elements of each row")?;
    let shape = match (cx.shape(0).dims(), cx.shape(2).dims()) {
        (Some(rows), Some(data)) => {
            let inner = data.iter().skip(1);
            PartialShape::from_iter(rows.iter().chain([&length]).chain(inner).cloned())
        }
        _ => cx.unranked("the rank of the rows or of the data is unknown"),
    };
    cx.set(0, element_type, shape.clone());
    cx.set(1, ElementType::Boolean, shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Case, Input};
    use ir::ElementType::*;

    const ROWS: [(ir::ElementType, &str); 3] = [(I32, "2"), (I32, "2"), (I32, "?")];
    const OUT: [Result<&str, &str>; 3] = [Ok("i32[2]"), Ok("i32[2]"), Ok("i32[?]")];

    #[test]
    fn combining() {
        let one = [(I32, ""), (I32, ""), (I32, "1")];
        let both = [&OUT[..], &OUT].concat();
        Case::of_shapes("CombineSegments", &[&one[..], &ROWS, &[(I32, "2")]].concat())
            .expect(&both);
        // The last segment in tokenizers of text pairs: its begin is a scalar, its end a list.
        let mixed = [(I32, ""), (I32, "1"), (I32, "1")];
        Case::of_shapes("CombineSegments", &[&ROWS[..], &mixed, &[(I32, "2")]].concat())
            .expect(&both);
        let error = "has rows [3], an earlier segment has [2]";
        let other = [(I32, "3"), (I32, "3"), (I32, "?")];
        Case::of_shapes("CombineSegments", &[&ROWS[..], &other, &[(I32, "2")]].concat())
            .expect(&[Err(error)]);
        Case::of_shapes("CombineSegments", &ROWS).expect(&[Err("three inputs for each segment")]);
    }

    #[test]
    fn cutting() {
        let cut = [(I32, ""), (U8, "5"), (U8, "13")];
        Case::of_shapes("Truncate", &[&ROWS[..], &cut].concat()).expect(&OUT);
        Case::of_shapes("Truncate", &[&ROWS[..], &ROWS, &cut].concat())
            .expect(&[&OUT[..], &OUT].concat());
        Case::of_shapes("Truncate", &ROWS).expect(&[Err("it takes 6 or 9 inputs, not 3")]);
    }

    #[test]
    fn dense() {
        let dense = |length| {
            let rows = ROWS.map(|(t, shape)| Input::shape(t, shape));
            let more = [length, Input::shape(I32, "")];
            Case::of("RaggedToDense", "extension").inputs(rows.into_iter().chain(more))
        };
        dense(Input::scalar(I32, 7)).expect(&[Ok("i32[2,7]"), Ok("boolean[2,7]")]);
        dense(Input::shape(I32, "")).expect(&[Ok("i32[2,?]"), Ok("boolean[2,?]")]);
    }

    #[test]
    fn the_others() {
        Case::of_shapes("RaggedToSparse", &ROWS[..2]).expect(&[Ok("i32[?,2]")]);
        Case::of_shapes("RaggedToRagged", &[(I32, "?"), (I32, "1")])
            .expect(&[Ok("i32[?]"), Ok("i32[?]")]);
        Case::of_shapes("RaggedTensorPack", &ROWS).expect(&[Ok("i32[?]")]);
        let strings = [ROWS[0], ROWS[1], (I32, "?"), (I32, "?")];
        Case::of_shapes("FuzeRagged", &strings).expect(&OUT[..2]);
        Case::of_shapes("FuzeRagged", &ROWS).expect(&[Err("it takes 4 inputs, not 3")]);
    }
}
