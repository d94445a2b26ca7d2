//! `irrun ops`: the table of operations.

use crate::args::OpsArgs;
use crate::exit::{Exit, Failure};
use crate::table::table;
use crate::text::{Glob, nearest, plural};
use crate::{json, print};
use anyhow::anyhow;
use infer::{ROWS, Row, Versions};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// Lists the operations.
///
/// # Errors
/// When no operation is called as asked, or the list cannot be written.
pub(crate) fn ops(args: &OpsArgs) -> Result<Exit, Failure> {
    // As in files, an operation may be written in any letter case.
    let only = args.only.as_ref().map(Glob::in_any_case);
    let chosen = |row: &&Row| only.as_ref().is_none_or(|pattern| pattern.matches(row.op_type));
    let rows: Vec<&Row> = ROWS.iter().filter(chosen).collect();
    if let (Some(pattern), true) = (&args.only, rows.is_empty()) {
        let near = nearest(pattern.as_str(), ROWS.iter().map(|row| row.op_type));
        let hint = match near {
            Some(kind) => format!("; did you mean {kind}?"),
            None => "; `irrun ops` lists those there are".to_owned(),
        };
        let error = anyhow!("there is no operation {pattern}{hint}");
        return Err(Failure { exit: Exit::Usage, error });
    }
    if args.markdown {
        print::text(page(&rows))?;
    } else if args.json {
        json::print(&Report { operations: rows.iter().map(|row| operation(row)).collect() })?;
    } else {
        print::text(listing(&rows))?;
    }
    Ok(Exit::Good)
}

/// What `irrun ops --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    operations: Vec<Operation>,
}

/// An operation in the versions in which it has one meaning.
#[derive(Serialize, JsonSchema)]
struct Operation {
    /// The operation type.
    #[serde(rename = "type")]
    op_type: &'static str,
    /// The first opset, or the name of the version.
    version: String,
    /// The last opset; null for versions with a name.
    last: Option<String>,
}

fn operation(row: &Row) -> Operation {
    let last = match row.versions {
        Versions::Opset(_, last) => Some(format!("opset{last}")),
        Versions::Named(_) => None,
    };
    Operation { op_type: row.op_type, version: row.versions.introduced(), last }
}

/// Where the specification describes the opsets.
const OPSETS: &str = "https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/available-opsets";

/// The page `docs/operations.md`: a line for each row, with its specification and its two files.
pub(crate) fn page(rows: &[&Row]) -> String {
    let types: BTreeSet<&str> = rows.iter().map(|row| row.op_type).collect();
    let mut text = format!(
        "<!-- Written by `make operations` from the table in crates/infer/src/table.rs. -->\n\
         # Operations\n\n\
         {} operation types in {} versions. A row covers the opsets in which an operation has one meaning: a file may name\n\
         any of them. The page of an opset links to the specification of each of its operations; the rule file begins with\n\
         what it follows. What is decided where the specification is open is in [numerics.md](numerics.md).\n\n\
         | type | opsets | specification | rule | kernel |\n|---|---|---|---|---|\n",
        types.len(),
        rows.len()
    );
    for row in rows {
        let (opsets, specification) = match row.versions {
            Versions::Opset(first, last) => {
                let until = if last > first { format!(" to {last}") } else { String::new() };
                (format!("{first}{until}"), format!("[opset{first}]({OPSETS}/opset{first}.html)"))
            }
            Versions::Named(name) if row.op_type.ends_with("Reshape") => {
                (format!("`{name}`"), "[the dialects](dialects/reshape-and-roll.md)".to_owned())
            }
            Versions::Named(name) => (format!("`{name}`"), "OpenVINO's own".to_owned()),
        };
        let file = |of: &str| format!("[{0}.rs](../crates/{of}/src/ops/{0}.rs)", row.module);
        let (rule, kernel) = (file("infer"), file("runtime"));
        let kind = row.op_type;
        text.push_str(&format!("| {kind} | {opsets} | {specification} | {rule} | {kernel} |\n"));
    }
    text
}

fn listing(rows: &[&Row]) -> String {
    let line = |row: &&Row| {
        let until = match row.versions {
            Versions::Opset(first, last) if last > first => format!("to opset{last}"),
            _ => String::new(),
        };
        vec![row.op_type.to_owned(), row.versions.introduced(), until]
    };
    let mut text = table(&rows.iter().map(line).collect::<Vec<_>>());
    text.push_str(&format!("{}\n", plural(rows.len(), "row")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_page_is_what_the_table_gives() {
        let rows: Vec<&Row> = ROWS.iter().collect();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page_now = std::fs::read_to_string(root.join("docs/operations.md")).unwrap_or_default();
        assert!(page_now == page(&rows), "docs/operations.md is out of date: make operations");
        for row in rows {
            for of in ["infer", "runtime"] {
                let file = root.join(format!("crates/{of}/src/ops/{}.rs", row.module));
                assert!(file.exists(), "{}", file.display());
            }
        }
    }
}
