//! Reading: from `model.xml` to a [`Graph`](crate::Graph).

mod attributes;
mod audit;
mod decode;
mod legacy;
mod preprocess;
mod reader;
mod xml;

pub use attributes::AttributeOffsets;
pub use reader::{read, read_bytes};
