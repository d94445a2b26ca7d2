//! What does not depend on the inputs, but is too large to be computed when the plan is made:
//! weights that are stored in fewer bits.

use crate::net::{Made, Node, ValueId};
use crate::prelude::*;
use ir::Graph;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A value that is computed in the first run and kept.
#[derive(Clone)]
pub(crate) struct Once {
    pub(crate) graph: Graph,
    /// The nodes that compute it, in order.
    pub(crate) nodes: Vec<Node>,
    /// The constants that they read: the inputs.
    pub(crate) constants: Vec<ValueId>,
    pub(crate) value: ValueId,
    pub(crate) kept: Arc<OnceLock<Tensor>>,
}

impl Made for Once {
    fn lower(&self, _: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        Ok(Box::new(self.clone()))
    }
}

impl Once {
    fn compute(&self, cx: &RunCx<'_>) -> Result<Tensor, KernelError> {
        let inputs = self.constants.iter().enumerate();
        let mut known: HashMap<ValueId, Tensor> =
            inputs.map(|(i, &v)| (v, cx.tensor(i).clone())).collect();
        let missing = || KernelError::new("an input has not been computed");
        for node in &self.nodes {
            let inputs: Option<Vec<Tensor>> =
                node.inputs.iter().map(|v| known.get(v).cloned()).collect();
            let outputs = cx.evaluate(&self.graph, node, &inputs.ok_or_else(missing)?)?;
            known.extend(node.outputs.iter().copied().zip(outputs));
        }
        known.remove(&self.value).ok_or_else(missing)
    }
}

impl Kernel for Once {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let value = match self.kept.get() {
            Some(value) => value.clone(),
            None => {
                let value = self.compute(cx)?;
                self.kept.get_or_init(|| value).clone()
            }
        };
        cx.provide(0, value);
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        "once"
    }
}
