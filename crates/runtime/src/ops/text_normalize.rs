//! Text operations that change each string by itself.

use crate::kernel::text::{TextCx, changed, packed, text_kernel};
use crate::prelude::*;
use infer::ops::text_normalize::{Change, Form, TextNormalize};
use tokenize::charsmap::{self, Normalizer, Spaces};
use tokenize::regex::Substitution;

impl Lower for TextNormalize {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let has_skips = self.has_skips(cx.input_count());
        let name = match self.change() {
            Change::Replace { .. } => "replace by pattern",
            Change::Rewrite { .. } => "normalize text",
            Change::AsciiCase { .. } => "change case",
            Change::Validate { .. } => "validate utf-8",
            Change::ByteFallback => "tokens to bytes",
        };
        let change = self.change();
        Ok(text_kernel(cx, name, move |cx| run(cx, change, has_skips)))
    }
}

fn run(cx: &TextCx<'_, '_>, change: Change, has_skips: bool) -> Result<Vec<Tensor>, KernelError> {
    let rule = rule(cx, change, 3 + usize::from(has_skips))?;
    let skips = if has_skips { cx.bytes(3) } else { &[] };
    let text = changed(cx.threads(), cx.strings(0)?, |index, text, out| {
        if skips.get(index).is_some_and(|skip| *skip != 0) {
            out.extend_from_slice(text)
        } else {
            rule(text, out)
        }
    });
    let mut outputs = packed(cx.sizes(0), text)?;
    if has_skips {
        outputs.push(cx.tensor(3).clone());
    }
    Ok(outputs)
}

type Rule = Box<dyn Fn(&[u8], &mut Vec<u8>) + Sync>;

/// The change of each string; patterns and maps begin at input `parameters`.
fn rule(cx: &TextCx<'_, '_>, change: Change, parameters: usize) -> Result<Rule, KernelError> {
    Ok(match change {
        Change::Replace { everywhere } => {
            let substitution = cx.made_of(parameters..parameters + 2, || {
                let (pattern, replacement) = (cx.text(parameters)?, cx.text(parameters + 1)?);
                Ok(Substitution::new(pattern, replacement, everywhere))
            })?;
            Box::new(move |text, out| substitution.apply(text, out))
        }
        Change::Rewrite { form, fold, dummy_prefix, remove_extra_spaces, escape_spaces } => {
            let (remove_extra, escape) = (remove_extra_spaces, escape_spaces);
            let spaces = Spaces { dummy_prefix, as_suffix: false, remove_extra, escape };
            let end = parameters + usize::from(form.is_none());
            let normalizer = cx.made_of(parameters..end, || match form {
                Some(form) => Ok(Normalizer::unicode(form_of(form), fold, spaces)),
                None => {
                    let made = Normalizer::precompiled(cx.bytes(parameters), spaces);
                    made.map_err(|e| KernelError::at(parameters, e.0))
                }
            })?;
            Box::new(move |text, out| normalizer.apply(text, out))
        }
        Change::AsciiCase { lower } => Box::new(move |text, out| {
            if lower {
                out.extend(text.iter().map(u8::to_ascii_lowercase))
            } else {
                out.extend(text.iter().map(u8::to_ascii_uppercase))
            }
        }),
        Change::Validate { replace } => {
            Box::new(move |text, out| tokenize::bytes::validate(text, replace, out))
        }
        Change::ByteFallback => Box::new(tokenize::bytes::fall_back),
    })
}

fn form_of(form: Form) -> charsmap::Form {
    match form {
        Form::Identity => charsmap::Form::Identity,
        Form::Nfc => charsmap::Form::Nfc,
        Form::Nfd => charsmap::Form::Nfd,
        Form::Nfkc => charsmap::Form::Nfkc,
        Form::Nfkd => charsmap::Form::Nfkd,
    }
}
