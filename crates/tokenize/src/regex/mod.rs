//! Patterns in PCRE2's syntax, with its UTF and UCP options on.

mod class;
mod engine;
mod pcre;
mod substitute;

pub use engine::{Pattern, Text};
pub use substitute::Substitution;
