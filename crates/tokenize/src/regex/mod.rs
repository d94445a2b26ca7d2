//! Regular expressions in PCRE2 syntax, with its UTF and UCP options.

mod class;
mod engine;
mod pcre;
mod substitute;

pub use engine::{Pattern, Text};
pub use substitute::Substitution;
