//! Findings about a file, with stable codes and the place in the XML.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use unicode_width::UnicodeWidthStr;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)+) => {
        /// A stable number for each kind of finding, printed as `IR0101`.
        ///
        /// 01xx: the XML; 02xx: the structure of the graph; 03xx: attributes; 04xx: weights;
        /// 05xx: types and shapes; 06xx: operations. `docs/errors.md` explains each.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// Every code with its explanation, in numerical order.
            pub const ALL: &'static [(Code, &'static str)] = &[$((Code::$name, concat!($($doc),+)),)+];

            /// The four digits after `IR`.
            pub fn number(self) -> u16 {
                match self { $(Code::$name => $number,)+ }
            }
        }
    };
}

codes! {
    /// The file cannot be opened or read.
    Unreadable = 100,
    /// The text is not well-formed XML, or not in its encoding.
    Syntax = 101,
    /// The root element is not `<net>`.
    NotIr = 102,
    /// The IR version is none of 2 to 11.
    Version = 103,
    /// A mandatory attribute or element is missing.
    Missing = 104,
    /// An attribute of the file format itself is not of its form.
    Malformed = 105,
    /// Elements are nested deeper than any real model.
    TooDeep = 106,
    /// An element that the format does not have.
    UnknownElement = 107,
    /// `<pre-process>` does not fit the model.
    PreProcess = 108,
    /// Two layers of one graph share an id.
    DuplicateLayer = 201,
    /// Two ports of one layer share an id.
    DuplicatePort = 202,
    /// An edge names a layer that is not there.
    UnknownLayer = 203,
    /// An edge names a port that its layer does not have.
    UnknownPort = 204,
    /// Two edges lead into one input port.
    DoubledEdge = 205,
    /// No edge leads into an input port.
    Unconnected = 206,
    /// Layers depend on each other in a circle.
    Cycle = 207,
    /// A port map or back edge does not fit the body or the layer.
    PortMap = 208,
    /// Layers that no output needs.
    DeadLayers = 209,
    /// An attribute of an operation is missing, malformed or out of range.
    Attribute = 301,
    /// An attribute that the operation does not have.
    UnknownAttribute = 302,
    /// A constant lies outside the `.bin`, or the `.bin` is missing or not weights.
    Weights = 401,
    /// The `.bin` goes on long after the last constant.
    UnusedWeights = 402,
    /// Constants share a part of their bytes.
    OverlappingWeights = 403,
    /// Weights that are no number, infinite or subnormal.
    NotFinite = 404,
    /// A constant holds the same bytes as another.
    DuplicateConstant = 405,
    /// An input has a type the operation does not take.
    Type = 501,
    /// Shapes or values break a rule of the operation.
    Shape = 502,
    /// The shape or type the file declares for a port is not the one inferred.
    Declared = 503,
    /// Shapes are given as ranges, and not every size in them was tried.
    Unproven = 504,
    /// A tensor is converted to a type that holds less, and back.
    LossyConvert = 505,
    /// No operation of that type and version exists here.
    Unsupported = 601,
    /// The operation cannot be executed for these types, shapes or attributes.
    Lowering = 602,
    /// Executing the layer failed.
    Execution = 701,
}

impl Code {
    /// Whether the text of the XML is at fault, so that an excerpt helps even without a layer.
    fn is_of_text(self) -> bool {
        (Code::Syntax.number()..=Code::UnknownAttribute.number()).contains(&self.number())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IR{:04}", self.number())
    }
}

/// The severity of a finding: an error stops the model from running, a warning does not, and a note
/// is no fault of the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Severity {
    /// The model cannot run.
    Error,
    /// The model runs, but a converter would not have written such a file.
    Warning,
    /// Something worth knowing; nothing is wrong.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// A byte offset into the XML. Not part of equality: equal graphs may come from different text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteOffset(pub usize);

impl PartialEq for ByteOffset {
    fn eq(&self, _: &ByteOffset) -> bool {
        true
    }
}

impl Eq for ByteOffset {}

/// The XML file a graph came from: its path and its text.
#[derive(Default)]
pub struct SourceFile {
    path: PathBuf,
    text: String,
    /// The starts of all lines except the first. Computed on first use, since most files have no
    /// findings.
    lines: OnceLock<Vec<usize>>,
}

/// How many characters of a long line are shown before a byte and after it.
const SHOWN: (usize, usize) = (30, 66);

/// Characters that indent a line at most, so that a finding takes the same time in any file.
const MAX_INDENT: usize = 400;

/// How many characters from the end of a line's beginning, given backwards, follow its indent.
fn begin_of_text(backwards: &[char]) -> usize {
    backwards.iter().rposition(|c| !c.is_whitespace()).map_or(0, |last| last + 1)
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} bytes)", self.path.display(), self.text.len())
    }
}

impl SourceFile {
    /// A file with this text.
    pub fn new(path: &Path, text: String) -> SourceFile {
        SourceFile { path: path.to_owned(), text, lines: OnceLock::new() }
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The XML file; empty for a graph built in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the line with byte `at`, from 1.
    pub fn line(&self, at: ByteOffset) -> usize {
        let search = || memchr::memchr_iter(b'\n', self.text.as_bytes()).map(|i| i + 1).collect();
        1 + self.lines.get_or_init(search).partition_point(|start| *start <= at.0)
    }

    /// The line with byte `at`, its number, and a caret below the byte:
    ///
    /// ```text
    ///   31 | <layer id="4" name="roll" type="Roll">
    ///      | ^
    /// ```
    ///
    /// A long line is cut around the byte. `None` for a graph built in memory.
    fn excerpt(&self, at: ByteOffset) -> Option<String> {
        let (before, after) = self.text.split_at_checked(at.0)?;
        let is_inside = |c: &char| *c != '\n';
        let longest = SHOWN.0 + SHOWN.1;
        let left: Vec<char> =
            before.chars().rev().take_while(is_inside).take(longest + MAX_INDENT).collect();
        let right: Vec<char> = after.chars().take_while(is_inside).take(longest + 1).collect();
        let visible = |c: &char| if c.is_control() { ' ' } else { *c };
        // What indents a line is not shown. Of a line that begins far before it is not looked for.
        let is_far = left.len() == longest + MAX_INDENT;
        let begins = if is_far { left.len() } else { begin_of_text(&left) };
        let is_whole = begins + right.len() <= longest;
        let (most_left, most_right) = if is_whole { (longest, longest) } else { SHOWN };
        let mut line: String = left.iter().take(begins.min(most_left)).rev().map(visible).collect();
        if begins > most_left {
            line.insert(0, '…');
        }
        let column = line.width();
        line.extend(right.iter().take(most_right).map(visible));
        if right.len() > most_right {
            line.push('…');
        }
        let number = self.line(at).to_string();
        let (shown, margin) = (line.trim_end(), number.len());
        (!shown.is_empty())
            .then(|| format!("\n  {number} | {shown}\n  {:margin$} | {:column$}^", "", ""))
    }

    /// `model.xml:31`; empty for a graph built in memory.
    pub fn place(&self, at: ByteOffset) -> String {
        match self.path.file_name() {
            Some(name) => format!("{}:{}", name.to_string_lossy(), self.line(at)),
            None => String::new(),
        }
    }
}

/// A finding: something that is wrong with a file or with running it.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The rule that is broken.
    pub code: Code,
    /// Whether the model can still run.
    pub severity: Severity,
    /// The place in the XML.
    pub at: ByteOffset,
    /// The id of the layer it concerns, if it concerns one.
    pub layer: Option<u64>,
    /// The name and the operation type of that layer.
    pub name_and_type: Option<(String, String)>,
    /// The layer as messages name it: `Roll "roll_3" (opset7, layer 41)`.
    pub subject: Option<String>,
    /// The port it concerns: `input 2 (axes)`.
    pub port: Option<String>,
    /// What is wrong and what to do, in one line.
    pub message: String,
    /// The inputs of the layer: `inputs: f32[1,?,64,64]  i64[2] = {2, 5}`.
    pub context: Option<String>,
    /// How many further layers have the same fault.
    pub alike: usize,
    /// How many downstream layers are unknown, or differ as well, because of it.
    pub behind: usize,
}

impl Diagnostic {
    /// Sorts findings in the order of the file.
    pub fn sort(diagnostics: &mut [Diagnostic]) {
        diagnostics.sort_by_key(|p| p.at.0);
    }

    /// An error at a place in the XML.
    pub fn error(code: Code, at: ByteOffset, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            at,
            layer: None,
            name_and_type: None,
            subject: None,
            port: None,
            message: message.into(),
            context: None,
            alike: 0,
            behind: 0,
        }
    }

    /// The same, as a warning.
    pub fn warning(code: Code, at: ByteOffset, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, at, message) }
    }

    /// The same, as a note.
    pub fn note(code: Code, at: ByteOffset, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::error(code, at, message) }
    }

    /// The message with its port and its consequences, as `--json` prints it.
    pub fn full_message(&self) -> String {
        match &self.port {
            Some(port) => format!("{port}: {}{}", self.message, self.consequences()),
            None => format!("{}{}", self.message, self.consequences()),
        }
    }

    /// The consequences, as text that follows the message; may be empty.
    fn consequences(&self) -> String {
        let mut text = String::new();
        if self.alike > 0 {
            let layers = if self.alike == 1 { "layer" } else { "layers" };
            text.push_str(&format!("; same error in {} more {layers}", self.alike));
        }
        if self.behind > 0 {
            let verb = match (self.code, self.behind) {
                (Code::Declared, 1) => "differs as well",
                (Code::Declared, _) => "differ as well",
                (_, _) => "not inferred",
            };
            let layers = if self.behind == 1 { "layer" } else { "layers" };
            text.push_str(&format!("; {} downstream {layers} {verb}", self.behind));
        }
        text
    }

    /// The finding as text for people: `Roll "roll_3" (opset7, layer 41) at model.xml:1187, input 2
    /// (axes): axis 5 is …`.
    pub fn render(&self, source: &SourceFile) -> String {
        let place = match self.code {
            // These concern a file, not a line of the XML.
            Code::Unreadable | Code::UnusedWeights | Code::Unproven => String::new(),
            // So do failures of the whole: of inputs, or of time and memory.
            code if self.subject.is_none() && code.number() >= Code::Type.number() => String::new(),
            _ => source.place(self.at),
        };
        // Failures that belong to no layer are of no line either.
        let has_place = !place.is_empty() && (self.subject.is_some() || self.code.is_of_text());
        let mut text = match (&self.subject, place.as_str()) {
            (Some(subject), "") => subject.clone(),
            (Some(subject), place) => format!("{subject} at {place}"),
            (None, place) => place.to_owned(),
        };
        if let Some(port) = &self.port {
            text.push_str(", ");
            text.push_str(port);
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&self.message);
        text.push_str(&self.consequences());
        // Names and attributes may hold line breaks, but a finding is one line.
        text = text.replace('\n', "\\n");
        if let Some(context) = &self.context {
            text.push_str("\n  ");
            text.push_str(context);
        }
        if has_place && self.severity != Severity::Note {
            text.extend(source.excerpt(self.at));
        }
        text
    }
}

/// All findings about a file, printed one per line.
#[derive(Clone, thiserror::Error)]
pub struct Diagnostics {
    source_file: Arc<SourceFile>,
    list: Vec<Diagnostic>,
}

/// Every error found while reading a file.
pub type ReadError = Diagnostics;

impl Diagnostics {
    /// Findings about one file.
    pub fn new(source_file: Arc<SourceFile>, list: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics { source_file, list }
    }

    /// The findings, in the order of the file.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// The file that they concern.
    pub fn source_file(&self) -> &SourceFile {
        &self.source_file
    }
}

/// Prints like `Display`, since a `main` that returns an error prints its `Debug` form.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.list.iter().map(|p| p.render(&self.source_file)).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ordered() {
        let numbers: Vec<u16> = Code::ALL.iter().map(|(code, _)| code.number()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        assert_eq!(Code::Version.to_string(), "IR0103");
    }

    #[test]
    fn a_caret_is_below_the_byte() {
        let long = format!("<a b=\"{}\"/>\n", "é".repeat(5000));
        let text = format!("<net>\n\t<layer id=\"4\">\r\n{long}");
        let at = |part: &str| ByteOffset(text.find(part).unwrap());
        let file = SourceFile::new(Path::new("model.xml"), text.clone());
        assert_eq!(file.excerpt(at("id")).unwrap(), "\n  2 | <layer id=\"4\">\n    |        ^");
        assert_eq!(file.excerpt(at("<net")).unwrap(), "\n  1 | <net>\n    | ^");
        let inside = file.excerpt(ByteOffset(at("é").0 + 2 * 2500)).unwrap();
        let lines: Vec<&str> = inside.trim_start().lines().collect();
        let [line, caret] = lines[..] else { panic!("{inside}") };
        assert!(line.starts_with("3 | …é") && line.ends_with("é…"), "{line}");
        assert_eq!(caret.chars().count(), "  3 | …".chars().count() + 30 + 1);
        // Characters of two columns, as in many names.
        let wide = SourceFile::new(Path::new("m.xml"), "<a n=\"输入\" b/>".to_owned());
        let place = ByteOffset("<a n=\"输入\" ".len());
        let expected = format!("\n  1 | <a n=\"输入\" b/>\n    | {}^", " ".repeat(12));
        assert_eq!(wide.excerpt(place).unwrap(), expected);
        // A line that is not long is shown whole, wherever the byte is.
        let indent = " ".repeat(200);
        let text = format!("{indent}<layer id=\"4\" name=\"{}\" type=\"Roll\"/>", "n".repeat(40));
        let at = |part: &str| ByteOffset(text.find(part).unwrap());
        let file = SourceFile::new(Path::new("model.xml"), text.clone());
        let (text, column) = (text.trim_start(), at("type").0 - indent.len());
        let expected = format!("\n  1 | {text}\n    | {}^", " ".repeat(column));
        assert_eq!(file.excerpt(at("type")).unwrap(), expected);
    }

    #[test]
    fn there_is_no_caret_where_there_is_no_text() {
        let text = "<a b=\"é\"/>\n".to_owned();
        let at = |part: &str| ByteOffset(text.find(part).unwrap());
        let file = SourceFile::new(Path::new("model.xml"), text.clone());
        // Inside a character, past the end, or in an empty line there is nothing to show.
        let none = [at("é").0 + 1, text.len() + 1, text.len()];
        assert!(none.iter().all(|at| file.excerpt(ByteOffset(*at)).is_none()));
    }

    #[test]
    fn a_problem_is_one_line_whatever_names_hold() {
        let diagnostic =
            Diagnostic::error(Code::Unconnected, ByteOffset(0), "\"a\nerror: b\" is not there");
        let diagnostic = Diagnostic { subject: Some("Roll \"x\ny\"".to_owned()), ..diagnostic };
        let text = diagnostic.render(&SourceFile::default());
        assert_eq!(text, r#"Roll "x\ny": "a\nerror: b" is not there"#);
    }

    #[test]
    fn a_main_that_returns_diagnostics_prints_the_message() {
        let source = SourceFile::new(Path::new("dir/m.xml"), "<net/>".to_owned());
        let list = vec![Diagnostic::error(Code::Missing, ByteOffset(0), "no version")];
        let error: Box<dyn std::error::Error> = Box::new(Diagnostics::new(Arc::new(source), list));
        assert_eq!(format!("{error:?}"), "m.xml:1: no version\n  1 | <net/>\n    | ^");
    }

    #[test]
    fn offsets_become_lines() {
        let source = SourceFile::new(Path::new("dir/m.xml"), "a\nbb\n\nc".to_owned());
        let lines: Vec<usize> = (0..7).map(|i| source.line(ByteOffset(i))).collect();
        assert_eq!(lines, [1, 1, 2, 2, 2, 3, 4]);
        assert_eq!(source.place(ByteOffset(6)), "m.xml:4");
    }
}
