//! From what people type to inputs and outputs: names, indices, shape overrides, files.

mod declared;
mod files;
mod ports;
mod targets;

pub use declared::Declared;
pub use files::{Given, complete, given_inputs, input_files, missing, read_inputs, text_files};
pub use ports::{Port, find, inputs, outputs, split};
pub use targets::{Target, array_names, in_file_name, targets};
