//! If-8: runs the plan of one body.

use crate::prelude::*;
use infer::ops::condition::If;
use infer::rules::bodies::{Feed, Map};
use ir::Graph;

impl Lower for If {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let branch = |condition: bool| {
            let (index, map) = self.branch(condition);
            let graph = cx.bodies()[*index].graph.clone();
            Branch { index: *index, graph, map: map.clone() }
        };
        Ok(Box::new(IfKernel { then: branch(true), other: branch(false) }))
    }
}

struct Branch {
    index: usize,
    graph: Graph,
    map: Map,
}

struct IfKernel {
    then: Branch,
    other: Branch,
}

impl Kernel for IfKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let condition = cx.tensor(0).bytes().first().is_some_and(|c| *c != 0);
        let branch = if condition { &self.then } else { &self.other };
        let input = |feed: &Feed| match feed {
            Feed::Input(input) => Ok(cx.tensor(*input).clone()),
            _ => Err(KernelError::new("a Parameter of the branch has no input")),
        };
        let inputs: Vec<Tensor> = branch.map.feeds.iter().map(input).collect::<Result<_, _>>()?;
        let results = cx.run_body(branch.index, &branch.graph, &inputs)?;
        for (output, source) in branch.map.sources.iter().enumerate() {
            cx.provide(output, results[source.result].clone());
        }
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::Provides
    }

    fn name(&self) -> &'static str {
        "if"
    }
}
