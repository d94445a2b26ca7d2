//! The files of suites: `case.json` and `irrun.toml`.

use cli::suite::case::Case;
use cli::suite::case_file::CaseFile;
use cli::suite::file::SuiteFile;
use std::path::Path;

/// Any text is a case, a suite, or an error with a message. A text that begins with `{` is a case.
pub fn case(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = if text.trim_start().starts_with('{') {
        CaseFile::parse(text).and_then(|file| Case::of(Path::new("case"), file)).map(drop)
    } else {
        SuiteFile::parse(Path::new("irrun.toml"), text).map(|suite| tolerances(&suite))
    };
    if let Err(error) = read {
        assert!(!format!("{error:#}").is_empty());
    }
}

/// Every model of a valid suite has tolerances.
fn tolerances(suite: &SuiteFile) {
    for model in suite.models() {
        suite.tolerance(model).unwrap_or_else(|e| panic!("{}: {e:#}", model.name));
    }
}
