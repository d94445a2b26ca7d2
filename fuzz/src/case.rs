//! A `case.json`.

use irrun::suite::case::Case;
use irrun::suite::case_file::CaseFile;
use std::path::Path;

/// Any text is a case or an error with a message.
pub fn case(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let case = CaseFile::parse(text).and_then(|file| Case::of(Path::new("case"), file));
    if let Err(error) = case {
        assert!(!format!("{error:#}").is_empty());
    }
}
