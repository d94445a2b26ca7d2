//! Findings as SARIF, which GitHub shows beside the lines of a file.

use crate::out;
use anyhow::Result;
use ir::{Code, Diagnostic, Severity, SourceFile};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Serialize)]
struct Run {
    tool: Tool,
    results: Vec<Finding>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    version: &'static str,
    information_uri: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    short_description: Text,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    rule_id: String,
    level: &'static str,
    message: Text,
    locations: [Location; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: PhysicalLocation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Artifact,
    region: Region,
}

#[derive(Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
}

/// Writes the findings of a file as SARIF 2.1.0.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &Path, findings: &[Diagnostic], source: &SourceFile) -> Result<()> {
    let rule = |(code, text): &(Code, &str)| Rule {
        id: code.to_string(),
        short_description: Text { text: text.trim().to_owned() },
    };
    let driver = Driver {
        name: "irrun",
        version: env!("CARGO_PKG_VERSION"),
        information_uri: env!("CARGO_PKG_REPOSITORY"),
        rules: Code::ALL.iter().map(rule).collect(),
    };
    let results = findings.iter().map(|finding| result(finding, source)).collect();
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [Run { tool: Tool { driver }, results }],
    };
    let text = serde_json::to_string_pretty(&log)?;
    out::write_whole(path, |file| Ok(writeln!(file, "{text}")?))
}

fn result(finding: &Diagnostic, source: &SourceFile) -> Finding {
    // A URI has no blanks and no backslashes.
    let uri = source.path().display().to_string().replace('\\', "/").replace(' ', "%20");
    let place = PhysicalLocation {
        artifact_location: Artifact { uri },
        region: Region { start_line: source.line(finding.at) },
    };
    Finding {
        rule_id: finding.code.to_string(),
        level: match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        message: Text { text: finding.full_message() },
        locations: [Location { physical_location: place }],
    }
}
