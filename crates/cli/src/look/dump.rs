//! `--dump`, `--dump-all`: values of layers, kept until the run is over.

use super::LookArgs;
use crate::text::{Glob, nearest};
use anyhow::{Context, Result, bail};
use ir::{Graph, Layer};
use runtime::{Observed, Tensor};
use std::collections::HashMap;

/// The values that are wanted, as far as they are there.
pub(crate) struct Dump {
    patterns: Vec<Pattern>,
    all: bool,
    arrays: Vec<(String, Tensor)>,
    /// Where in the list each of them is.
    places: HashMap<String, usize>,
}

/// Layers that people name.
enum Pattern {
    /// By type.
    Type(Glob),
    /// By layer name, tensor name or path.
    Name(Glob),
}

impl Pattern {
    fn new(text: &str) -> Result<Pattern> {
        let glob = |text: &str| text.parse().with_context(|| format!("--dump {text}"));
        Ok(match text.strip_prefix("op:") {
            Some(op_type) => Pattern::Type(glob(op_type)?),
            None => Pattern::Name(glob(text)?),
        })
    }

    fn is_layer(&self, layer: &Layer) -> bool {
        match self {
            Pattern::Type(glob) => glob.matches(&layer.op_type),
            Pattern::Name(glob) => {
                let names = layer.outputs.iter().flat_map(|port| &port.names);
                glob.matches(&layer.name) || names.into_iter().any(|name| glob.matches(name))
            }
        }
    }

    fn is(&self, value: &Observed<'_>) -> bool {
        let by_path = matches!(self, Pattern::Name(glob) if glob.matches(&value.path()));
        by_path || self.is_layer(value.layer)
    }
}

impl Dump {
    /// What the flags ask for.
    ///
    /// # Errors
    /// When a pattern names no layer.
    pub(crate) fn new(args: &LookArgs, graph: &Graph) -> Result<Dump> {
        let mut layers = Vec::new();
        collect(graph, &mut layers);
        let patterns =
            args.dump.iter().map(|text| Pattern::new(text)).collect::<Result<Vec<_>>>()?;
        for (text, pattern) in args.dump.iter().zip(&patterns) {
            // A path that leads into a body names a layer by its last part.
            let last = text.rsplit('/').next().unwrap_or(text);
            let last = last.rsplit_once(':').map_or(last, |(name, _)| name);
            if !layers.iter().any(|layer| pattern.is_layer(layer) || layer.name == last) {
                return no_such_layer(text, pattern, &layers);
            }
        }
        let (all, arrays) = (args.dump_all.is_some(), Vec::new());
        Ok(Dump { patterns, all, arrays, places: HashMap::new() })
    }

    /// Takes in a value. What the plan has computed replaces what was computed as written.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn value(&mut self, value: &Observed<'_>) -> Result<(), String> {
        let is_constant = value.layer.is("Const");
        let named = || self.patterns.iter().any(|pattern| pattern.is(value));
        if !(self.all && !is_constant || named()) {
            return Ok(());
        }
        let tensor = value.tensor().map_err(|e| e.to_string())?;
        let path = value.path();
        match self.places.get(&path) {
            Some(&place) => self.arrays[place].1 = tensor,
            None => {
                self.places.insert(path.clone(), self.arrays.len());
                self.arrays.push((path, tensor));
            }
        }
        Ok(())
    }

    /// The values, in the order in which they were computed first.
    pub(crate) fn arrays(&self) -> &[(String, Tensor)] {
        &self.arrays
    }
}

fn no_such_layer(text: &str, pattern: &Pattern, layers: &[&Layer]) -> Result<Dump> {
    let near = match pattern {
        Pattern::Type(glob) => nearest(glob.as_str(), layers.iter().map(|l| l.op_type.as_str()))
            .map(|near| format!("op:{near}")),
        Pattern::Name(glob) => {
            nearest(glob.as_str(), layers.iter().map(|l| l.name.as_str())).map(str::to_owned)
        }
    };
    match near {
        Some(near) => bail!("--dump {text}: no layer is called so; did you mean \"{near}\"?"),
        None => {
            bail!("--dump {text}: no layer is called so; `irrun check MODEL.xml --all` lists them")
        }
    }
}

/// The layers of a graph and of all its bodies.
pub(crate) fn collect<'g>(graph: &'g Graph, layers: &mut Vec<&'g Layer>) {
    for layer in graph.layers() {
        layers.push(layer);
        layer.bodies.iter().for_each(|body| collect(&body.graph, layers));
    }
}
