//! Decompression of weights in the first run. They depend on no input, but are too large for
//! constant folding.

use crate::graph::net::{FusedOp, Node, ValueId};
use crate::kernel::evaluate::evaluate;
use crate::memory::prepack::Slot;
use crate::prelude::*;
use infer::InputSet;
use ir::Graph;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

/// A value that the first run computes and keeps.
#[derive(Clone)]
pub(crate) struct Once {
    pub(crate) graph: Graph,
    /// The nodes that compute it, in order.
    pub(crate) nodes: Vec<Node>,
    /// The constants that the nodes read; they are the inputs.
    pub(crate) constants: Vec<ValueId>,
    pub(crate) value: ValueId,
}

impl FusedOp for Once {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(OnceKernel { once: self.clone(), slot: OnceLock::new() }))
    }
}

impl Once {
    /// The computation as text: operations with all their attributes, and the numbers of their
    /// inputs.
    fn layout(&self) -> String {
        let mut numbers: HashMap<ValueId, usize> = HashMap::new();
        let made = self.nodes.iter().flat_map(|n| &n.outputs);
        for &value in self.constants.iter().chain(made) {
            let next = numbers.len();
            numbers.entry(value).or_insert(next);
        }
        let mut layout = String::new();
        for op in &self.nodes {
            let inputs: Vec<_> = op.inputs.iter().map(|v| numbers.get(v)).collect();
            let _ = write!(layout, "{}{inputs:?}", op.text());
        }
        layout
    }

    fn compute(&self, cx: &RunCx<'_>) -> Result<Tensor, KernelError> {
        let inputs = self.constants.iter().enumerate();
        let mut known: HashMap<ValueId, Tensor> =
            inputs.map(|(i, &v)| (v, cx.tensor(i).clone())).collect();
        let missing = || KernelError::new("an input has not been computed");
        for node in &self.nodes {
            let inputs: Option<Vec<Tensor>> =
                node.inputs.iter().map(|v| known.get(v).cloned()).collect();
            let outputs = {
                let operation = node.deferred(InputSet::NONE).ok_or_else(missing)?;
                evaluate(&self.graph, &operation, &inputs.ok_or_else(missing)?, cx.site())?
            };
            known.extend(node.outputs.iter().copied().zip(outputs));
        }
        known.remove(&self.value).ok_or_else(missing)
    }
}

struct OnceKernel {
    once: Once,
    slot: OnceLock<Arc<Slot<Tensor>>>,
}

impl Kernel for OnceKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let slot = self.slot.get_or_init(|| {
            let inputs: Vec<&Tensor> = (0..cx.input_count()).map(|i| cx.tensor(i)).collect();
            cx.store().slot(&inputs, self.once.layout())
        });
        cx.provide(0, slot.made_or(|| self.once.compute(cx))?.clone());
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    /// Each operation aligns its own inputs.
    fn accepts_unaligned(&self) -> InputSet {
        InputSet::ALL
    }

    fn name(&self) -> &'static str {
        "once"
    }
}
