//! A model of a directory: a session with named inputs and outputs.

use crate::error::Error;
use ir::{ElementType, Graph, Layer};
use runtime::{Element, Session, Tensor, Threads};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A session, with the names of its inputs and outputs.
pub(crate) struct Model {
    pub(crate) path: PathBuf,
    pub(crate) session: Session,
    pub(crate) inputs: Vec<Vec<String>>,
    pub(crate) outputs: Vec<Vec<String>>,
}

impl Model {
    /// Compiles a graph for inputs of any shape.
    pub(crate) fn new(
        path: &Path,
        graph: &Graph,
        options: &runtime::Options,
        threads: &Arc<Threads>,
    ) -> Result<Model, Error> {
        let facts = infer::propagate(graph, &infer::Inputs::default()).map_err(Error::Model)?;
        let plan = runtime::compile_with(graph, &facts, options).map_err(Error::Model)?;
        let layer = |index: &usize| graph.layers().get(*index);
        Ok(Model {
            path: path.to_owned(),
            session: plan.session_on(Arc::clone(threads)),
            inputs: graph.parameters().iter().filter_map(layer).map(|l| names(l, 0)).collect(),
            outputs: graph.results().iter().map(|&result| output_names(graph, result)).collect(),
        })
    }

    /// The index of an output, by one of its names.
    pub(crate) fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|names| names.iter().any(|own| own == name))
    }

    /// Runs the model and returns one of its outputs.
    pub(crate) fn run(&mut self, inputs: &[Tensor], output: usize) -> Result<Tensor, Error> {
        let mut outputs = self.session.run(inputs).map_err(Error::Run)?;
        let missing = || Error::unsuitable(&self.path, format!("there is no output {output}"));
        let in_range = output < outputs.len();
        in_range.then(|| outputs.swap_remove(output)).ok_or_else(missing)
    }

    /// A tensor for an input, converted to the type of the input.
    pub(crate) fn tensor<T: Element>(
        &self,
        input: usize,
        sizes: &[usize],
        values: Vec<T>,
    ) -> Result<Tensor, Error> {
        let own = self.session.declared_inputs().get(input).map(|(element, _)| *element);
        let own = own.filter(|element| element.is_static());
        let tensor = Tensor::from_vec(sizes, values).map_err(|e| self.tensor_error(&e))?;
        match own {
            Some(own) if own != tensor.element_type() => self.converted(&tensor, own),
            _ => Ok(tensor),
        }
    }

    pub(crate) fn converted(&self, tensor: &Tensor, to: ElementType) -> Result<Tensor, Error> {
        runtime::convert(tensor, to).map_err(|e| self.tensor_error(&e))
    }

    pub(crate) fn tensor_error(&self, error: &runtime::TensorError) -> Error {
        Error::unsuitable(&self.path, error.to_string())
    }
}

/// The names of a tensor; that of its layer is last.
fn names(layer: &Layer, port: usize) -> Vec<String> {
    let mut names = layer.outputs.get(port).map(|p| p.names.clone()).unwrap_or_default();
    names.push(layer.name.clone());
    names
}

fn output_names(graph: &Graph, result: usize) -> Vec<String> {
    let Some(layer) = graph.layers().get(result) else { return Vec::new() };
    let own = layer.tags.iter().find(|(key, _)| key == "output_names");
    let own = own.map(|(_, names)| ir::split_names(names)).unwrap_or_default();
    let source = graph.inputs_of(result).first();
    let source = source.and_then(|from| Some((graph.layers().get(from.layer)?, from.port)));
    let of_tensor = source.map(|(layer, port)| names(layer, port)).unwrap_or_default();
    own.into_iter().chain(of_tensor).collect()
}
