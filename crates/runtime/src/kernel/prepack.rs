//! Packing of inputs that are the same in every run.

use crate::kernel::RunCx;
use crate::memory::prepack::Slot;
use crate::tensor::Tensor;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The packed form of inputs that are the same in every run, such as weights.
pub(crate) struct Prepacked<T> {
    /// The inputs, if they are the same in every run.
    inputs: Option<Range<usize>>,
    slot: OnceLock<Arc<Slot<T>>>,
}

impl<T: Send + Sync + 'static> Prepacked<T> {
    /// For `input`, if it is the same in every run.
    pub(crate) fn new(input: usize, is_invariant: bool) -> Prepacked<T> {
        Prepacked::of(input..input + 1, is_invariant)
    }

    /// For several inputs, if they are the same in every run.
    pub(crate) fn of(inputs: Range<usize>, are_invariant: bool) -> Prepacked<T> {
        Prepacked { inputs: are_invariant.then_some(inputs), slot: OnceLock::new() }
    }

    /// The inputs packed by `make`, from the second use on, whatever the layout of the first;
    /// `form` names the layout. `None` at the first use, since a process that runs a model once
    /// gains nothing by packing, and for inputs that change.
    pub(crate) fn on_second_use(
        &self,
        cx: &RunCx<'_>,
        form: impl FnOnce() -> String,
        make: impl FnOnce() -> T,
    ) -> Option<&T> {
        let slot = self.slot(cx, form)?;
        slot.is_needed_again().then(|| slot.made_by(make))
    }

    /// The same, packed at the first use.
    pub(crate) fn now(
        &self,
        cx: &RunCx<'_>,
        form: impl FnOnce() -> String,
        make: impl FnOnce() -> T,
    ) -> Option<&T> {
        self.slot(cx, form).map(|slot| slot.made_by(make))
    }

    /// The packed form, if it exists. Then the input need not be read.
    pub(crate) fn made(&self) -> Option<&T> {
        self.slot.get()?.made()
    }

    /// The same, if another plan has made it.
    pub(crate) fn made_elsewhere(
        &self,
        cx: &RunCx<'_>,
        form: impl FnOnce() -> String,
    ) -> Option<&T> {
        self.slot(cx, form)?.made()
    }

    fn slot(&self, cx: &RunCx<'_>, form: impl FnOnce() -> String) -> Option<&Slot<T>> {
        let inputs = self.inputs.clone()?;
        Some(self.slot.get_or_init(|| {
            let inputs: Vec<&Tensor> = inputs.map(|i| cx.tensor(i)).collect();
            cx.store().slot(&inputs, form())
        }))
    }
}
