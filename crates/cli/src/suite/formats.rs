//! Outcomes of `irrun test` as other programs read them: JUnit XML, annotations of GitHub.

use super::outcome::{Outcome, Tested};
use crate::text::xml;
use anyhow::Result;
use std::io::Write;

/// Writes outcomes as JUnit XML, which GitLab, Jenkins and others show.
///
/// # Errors
/// When `out` cannot be written.
pub fn junit(tested: &[Tested], out: &mut dyn Write) -> Result<()> {
    let count = |wanted: fn(&Outcome) -> bool| tested.iter().filter(|t| wanted(&t.outcome)).count();
    let failures = count(|o| matches!(o, Outcome::Failed(_)));
    let skipped = count(|o| matches!(o, Outcome::Skipped));
    let seconds: f64 = tested.iter().map(|t| t.time.as_secs_f64()).sum();
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        "<testsuite name=\"irrun\" tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\" \
         time=\"{seconds:.3}\">",
        tested.len()
    )?;
    for Tested { path, outcome, time, .. } in tested {
        let (name, seconds) = (xml(&path.display().to_string()), time.as_secs_f64());
        write!(out, r#"  <testcase classname="irrun" name="{name}" time="{seconds:.3}""#)?;
        match outcome {
            Outcome::Failed(message) => {
                let message = xml(message);
                writeln!(out, "><failure message=\"{message}\"/></testcase>")?;
            }
            Outcome::Skipped => writeln!(out, "><skipped/></testcase>")?,
            Outcome::Passed | Outcome::Updated(_) | Outcome::FailedAsExpected => {
                writeln!(out, "/>")?
            }
        }
    }
    Ok(writeln!(out, "</testsuite>")?)
}

/// The lines by which a workflow of GitHub marks the cases that failed.
pub fn annotations(tested: &[Tested]) -> String {
    let line = |t: &Tested| match &t.outcome {
        Outcome::Failed(message) => {
            let file = property(&t.described_in.display().to_string());
            Some(format!("::error file={file},title=irrun test::{}\n", data(message)))
        }
        _ => None,
    };
    tested.iter().filter_map(line).collect()
}

/// Text as a workflow command holds it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    fn tested() -> Vec<Tested> {
        let of = |dir: &str, outcome| Tested {
            path: dir.into(),
            described_in: Path::new(dir).join("case.json"),
            outcome,
            time: Duration::from_millis(1500),
            digests: None,
        };
        let failed = Outcome::Failed("a < \"b\"\n100 %".to_owned());
        vec![of("a&b", Outcome::Passed), of("c,d", failed), of("e", Outcome::Skipped)]
    }

    #[test]
    fn junit_is_escaped_and_counted() {
        let mut out = Vec::new();
        junit(&tested(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..],
            [
                r#"<testsuite name="irrun" tests="3" failures="1" skipped="1" time="4.500">"#,
                r#"  <testcase classname="irrun" name="a&amp;b" time="1.500"/>"#,
                r#"  <testcase classname="irrun" name="c,d" time="1.500"><failure message="a &lt; &quot;b&quot;&#10;100 %"/></testcase>"#,
                r#"  <testcase classname="irrun" name="e" time="1.500"><skipped/></testcase>"#,
                "</testsuite>",
            ]
        );
    }

    #[test]
    fn annotations_are_one_line_each() {
        let line = "::error file=c%2Cd/case.json,title=irrun test::a < \"b\"%0A100 %25\n";
        assert_eq!(annotations(&tested()), line);
    }
}
