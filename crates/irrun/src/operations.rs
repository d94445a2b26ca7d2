//! `irrun ops`: the table of operations.

use crate::args::OpsArgs;
use crate::exit::{Exit, Failure};
use crate::table::table;
use crate::text::glob;
use infer::{ROWS, Row, Versions};
use serde_json::json;

/// Lists the operations.
///
/// # Errors
/// Never; the other commands have the same form.
pub fn ops(args: &OpsArgs) -> Result<Exit, Failure> {
    let chosen = |row: &&Row| args.only.as_ref().is_none_or(|pattern| glob(pattern, row.kind));
    let rows: Vec<&Row> = ROWS.iter().filter(chosen).collect();
    if args.json {
        let op = |row: &&Row| {
            let last = match row.versions {
                Versions::Opset(_, last) => Some(format!("opset{last}")),
                Versions::Named(_) => None,
            };
            json!({ "type": row.kind, "version": row.versions.introduced(), "last": last })
        };
        let list: Vec<_> = rows.iter().map(op).collect();
        println!("{}", json!({ "schema": 1, "operations": list }));
    } else {
        print!("{}", listing(&rows));
    }
    Ok(Exit::Good)
}

fn listing(rows: &[&Row]) -> String {
    let line = |row: &&Row| {
        let until = match row.versions {
            Versions::Opset(first, last) if last > first => format!("to opset{last}"),
            _ => String::new(),
        };
        vec![row.kind.to_owned(), row.versions.introduced(), until]
    };
    let mut text = table(&rows.iter().map(line).collect::<Vec<_>>());
    text.push_str(&format!("{} rows\n", rows.len()));
    text
}
