//! What sessions compute and refuse, each subject in a file of its own. They are one executable,
//! since each takes a second to link.

mod broken_files;
mod convolutions;
mod custom_operation;
mod differences;
mod failures;
mod flops;
mod indices;
mod matmul;
mod memory;
mod pointers;
mod pools;
mod profile;
mod spec_examples;
mod strings;
mod variables;
