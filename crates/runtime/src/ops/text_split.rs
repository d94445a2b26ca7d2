//! RegexSplit and SpecialTokensSplit: they only make positions; the bytes are not copied.

use crate::kernel::text::{TextCx, in_pieces, rows_of_strings, tensor, tensor_as, text_kernel};
use crate::prelude::*;
use infer::ops::text_split::{Behaviour, Kind, TextSplit};
use std::collections::HashSet;
use tokenize::split::{self, SpecialTokens, Splitter};

impl Lower for TextSplit {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let behaviour = match self.behaviour() {
            Behaviour::Remove => split::Behaviour::Remove,
            Behaviour::Isolate => split::Behaviour::Isolate,
            Behaviour::Contiguous => split::Behaviour::Contiguous,
            Behaviour::MergedWithPrevious => split::Behaviour::MergedWithPrevious,
            Behaviour::MergedWithNext => split::Behaviour::MergedWithNext,
        };
        let has_skips = cx.input_count() == 7;
        let (invert, max_splits) = (self.invert(), self.max_splits());
        let pattern = 5 + usize::from(has_skips);
        Ok(match self.kind() {
            Kind::SpecialTokens => text_kernel(cx, "split at special tokens", move |cx| {
                let made = || cx.text(pattern).map(SpecialTokens::new);
                let tokens = cx.made_of(pattern..pattern + 1, made)?;
                run(cx, has_skips, true, |text, cuts| {
                    tokens.split(text, |begin, end, special| cuts.push(begin, end, special));
                })
            }),
            Kind::Regex => text_kernel(cx, "split by pattern", move |cx| {
                let made = || {
                    let pattern = cx.text(pattern)?;
                    Ok((Splitter::new(pattern, behaviour, invert, max_splits), kept(cx)?))
                };
                let rule = cx.made_of(pattern..cx.input_count(), made)?;
                run(cx, has_skips, has_skips, |text, cuts| {
                    if rule.1.contains(text) {
                        cuts.push(0, text.len(), false)
                    } else {
                        rule.0.split(text, |begin, end| cuts.push(begin, end, false))
                    }
                })
            }),
        })
    }
}

/// Strings that are not split, in files of 2024.
fn kept(cx: &TextCx<'_, '_>) -> Result<HashSet<Box<[u8]>>, KernelError> {
    if cx.input_count() != 9 {
        return Ok(HashSet::new());
    }
    Ok(cx.strings(6)?.iter().map(Box::from).collect())
}

/// The pieces of some strings.
#[derive(Default)]
struct Cuts {
    /// The start of the current string.
    offset: i32,
    begins: Vec<i32>,
    ends: Vec<i32>,
    skips: Vec<u8>,
    /// The number of pieces up to the end of each string.
    counts: Vec<usize>,
}

impl Cuts {
    fn push(&mut self, begin: usize, end: usize, skip: bool) {
        self.begins.push(self.offset + begin as i32);
        self.ends.push(self.offset + end as i32);
        self.skips.push(skip.into());
    }
}

fn run(
    cx: &TextCx<'_, '_>,
    has_skips: bool,
    gives_skips: bool,
    split: impl Fn(&[u8], &mut Cuts) + Sync,
) -> Result<Vec<Tensor>, KernelError> {
    let strings = cx.strings(2)?;
    let rows = cx.rows(0, strings.len())?;
    let skips = if has_skips { cx.bytes(5) } else { &[] };
    let order: Vec<usize> = rows.iter().flatten().collect();
    let pieces = in_pieces(cx.threads(), order.len(), strings.total(), |range| {
        let mut cuts = Cuts::default();
        for &index in &order[range] {
            let text = strings.get(index);
            cuts.offset = strings.begin(index);
            if skips.get(index).is_some_and(|skip| *skip != 0) {
                cuts.push(0, text.len(), true)
            } else {
                split(text, &mut cuts)
            }
            let before: usize = cuts.begins.len();
            cuts.counts.push(before);
        }
        cuts
    });
    let mut all = Cuts::default();
    for piece in pieces {
        let before = all.begins.len();
        all.counts.extend(piece.counts.iter().map(|count| before + count));
        all.begins.extend(piece.begins);
        all.ends.extend(piece.ends);
        all.skips.extend(piece.skips);
    }
    let (begins, ends) = rows_of_strings(&rows, &all.counts);
    let count = all.begins.len();
    let mut outputs = vec![
        tensor(cx.sizes(0), begins)?,
        tensor(cx.sizes(0), ends)?,
        tensor(&[count], all.begins)?,
        tensor(&[count], all.ends)?,
        cx.tensor(4).clone(),
    ];
    if gives_skips {
        outputs.push(tensor_as(ElementType::Boolean, &[count], all.skips)?);
    }
    Ok(outputs)
}
