//! Port maps: how inputs and outputs of a layer connect to the Parameters and Results of a body.

use crate::fact::Fact;
use crate::rule::error::AttrError;
use ir::{Body, PortMap};

/// What feeds a Parameter of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Nothing: the Parameter is not in the map and not used.
    Nothing,
    /// An input of the layer, the same in every iteration.
    Input(usize),
    /// A slice of an input, another one in each iteration.
    Sliced(usize, ir::Slice),
    /// An input in the first iteration, then a Result of the previous iteration.
    Merged {
        /// The input of the first iteration.
        input: usize,
        /// Index of the Result.
        result: usize,
    },
    /// The number of the iteration.
    Counter,
}

/// The source of an output of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyOutput {
    /// Index of the Result.
    pub result: usize,
    /// How the results of all iterations are concatenated; without it, the result of the last
    /// iteration.
    pub slice: Option<ir::Slice>,
}

/// The resolved port map of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// For each Parameter.
    pub feeds: Vec<Feed>,
    /// For each output of the layer.
    pub outputs: Vec<BodyOutput>,
    /// Index of the Result that says whether to continue.
    pub condition: Option<usize>,
    /// The name of each Parameter.
    names: Vec<String>,
}

impl Map {
    /// Resolves the map of a body.
    ///
    /// # Errors
    /// When it names a port that does not exist; the reader has checked the rest.
    pub fn new(body: &Body) -> Result<Map, AttrError> {
        let lost =
            |what: &str| AttrError::new("port_map", format!("names a {what} that is not there"));
        let parameter = |id: u64| position(body, body.graph.parameters(), id);
        let result = |id: u64| position(body, body.graph.results(), id);
        let mut feeds = vec![Feed::Nothing; body.graph.parameters().len()];
        for entry in &body.inputs {
            let parameter = parameter(entry.internal_layer).ok_or_else(|| lost("Parameter"))?;
            let slot = feeds.get_mut(parameter).ok_or_else(|| lost("Parameter"))?;
            *slot = feed(body, entry, &result);
        }
        let condition = body.outputs.iter().find(|o| o.external_port < 0);
        let condition = condition.and_then(|o| result(o.internal_layer));
        let mut mapped: Vec<&PortMap> =
            body.outputs.iter().filter(|o| o.external_port >= 0).collect();
        mapped.sort_unstable_by_key(|o| o.external_port);
        let output = |o: &&PortMap| {
            let result = result(o.internal_layer).ok_or_else(|| lost("Result"))?;
            Ok(BodyOutput { result, slice: o.slice })
        };
        let outputs = mapped.iter().map(output).collect::<Result<_, AttrError>>()?;
        let parameters = body.graph.parameters().iter();
        let name = |&p: &usize| body.graph.layers().get(p).map(|l| l.name.clone());
        let names = parameters.map(|p| name(p).unwrap_or_default()).collect();
        Ok(Map { feeds, outputs, condition, names })
    }
}

impl Map {
    /// A Parameter as messages name it.
    pub fn parameter(&self, position: usize) -> String {
        let name = self.names.get(position).map_or("", String::as_str);
        format!("Parameter \"{name}\"")
    }
}

fn feed(body: &Body, entry: &PortMap, result: &dyn Fn(u64) -> Option<usize>) -> Feed {
    let Ok(input) = usize::try_from(entry.external_port) else { return Feed::Counter };
    if let Some(slice) = entry.slice {
        return Feed::Sliced(input, slice);
    }
    let back = body.back_edges.iter().find(|(_, to)| *to == entry.internal_layer);
    match back.and_then(|(from, _)| result(*from)) {
        Some(result) => Feed::Merged { input, result },
        None => Feed::Input(input),
    }
}

fn position(body: &Body, list: &[usize], id: u64) -> Option<usize> {
    let layer = body.graph.find(id)?;
    list.iter().position(|&p| p == layer)
}

/// A fact without its value, which may change between iterations.
pub fn without_value(fact: Fact) -> Fact {
    Fact { value: None, ..fact }
}
