//! What the commands do with good input and with bad, each family of them in a file of its own. They
//! are one executable, since each takes a second to link.

#[path = "../support/mod.rs"]
mod support;

mod batch;
mod boxes;
mod differences;
mod files;
mod findings;
mod first_impressions;
mod graph;
mod limits;
mod models;
mod observed;
mod pages;
mod parts;
mod pictures;
mod process;
mod riddles;
mod sounds;
mod strangers;
mod suites;
mod top;
