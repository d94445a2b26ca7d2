//! What commands that write a model say of it.

use crate::exit::Failure;
use crate::json;
use crate::print;
use crate::text::plural;
use ir::Graph;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `irrun extract`, `edit`, `reduce` and `repro` print with `--json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// The model, or the directory of a report.
    file: String,
    /// Its layers.
    layers: usize,
    /// The layers of the model that it was made from.
    of: usize,
    /// Its inputs.
    inputs: usize,
    /// Its outputs.
    outputs: usize,
    /// How often the command of `irrun reduce` ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    tries: Option<usize>,
}

impl Report {
    /// Of a model that was made from another.
    pub(crate) fn new(path: &Path, made: &Graph, from: &Graph) -> Report {
        Report {
            file: path.display().to_string(),
            layers: made.layers().len(),
            of: from.layers().len(),
            inputs: made.parameters().len(),
            outputs: made.results().len(),
            tries: None,
        }
    }

    /// With the number of runs of a command.
    pub(crate) fn after(self, tries: usize) -> Report {
        Report { tries: Some(tries), ..self }
    }

    /// Prints it for programs, or something for people.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn tell(&self, for_programs: bool, for_people: &str) -> Result<(), Failure> {
        if for_programs {
            return json::print(self);
        }
        print::note(for_people);
        Ok(())
    }

    /// `4 layers of 402, 1 input, 1 output`.
    pub(crate) fn text(&self) -> String {
        let (layers, of) = (plural(self.layers, "layer"), self.of);
        let (inputs, outputs) = (plural(self.inputs, "input"), plural(self.outputs, "output"));
        let is_more = self.layers > of;
        let of = if is_more { format!(" ({of} before)") } else { format!(" of {of}") };
        format!("{}: {layers}{of}, {inputs}, {outputs}", self.file)
    }
}
