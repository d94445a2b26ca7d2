//! If-8: runs the plan of one body.

use crate::prelude::*;
use infer::Fact;
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
        let is_list = |fact: &Fact| fact.shape.rank() == Some(1);
        let lists = cx.output_facts().iter().map(is_list).collect();
        Ok(Box::new(IfKernel { then: branch(true), other: branch(false), lists }))
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
    /// For each output whether it is a list; then a scalar of a branch becomes a list of one
    /// element.
    lists: Vec<bool>,
}

impl Kernel for IfKernel {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let branch = if cx.tensor(0).truth() { &self.then } else { &self.other };
        let input = |feed: &Feed| match feed {
            Feed::Input(input) => Ok(cx.tensor(*input).clone()),
            _ => Err(KernelError::new("a Parameter of the branch has no input")),
        };
        let inputs: Vec<Tensor> = branch.map.feeds.iter().map(input).collect::<Result<_, _>>()?;
        let results = cx.run_body(branch.index, &branch.graph, &inputs)?;
        for (output, source) in branch.map.outputs.iter().enumerate() {
            let result = &results[source.result];
            let is_list = self.lists.get(output) == Some(&true);
            let tensor = if is_list && result.sizes().is_empty() {
                result.as_list()?
            } else {
                result.clone()
            };
            cx.provide(output, tensor);
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
