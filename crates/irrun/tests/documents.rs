//! What the documents show is what the binary takes and prints.

use clap::CommandFactory;
use cli::usage;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words of a line as a shell would divide it: quotes, and a comment at its end.
fn words(line: &str) -> Vec<OsString> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut open) = (None, false);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => {
                if !open {
                    words.push(String::new());
                }
                (quote, open) = (Some(c), true);
            }
            (c, Some(q)) if c == q => quote = None,
            (' ', None) => open = false,
            (c, _) => {
                if !open {
                    words.push(String::new());
                }
                open = true;
                words.last_mut().expect("a word").push(c);
            }
        }
    }
    words.into_iter().map(OsString::from).collect()
}

/// The commands of irrun in the examples of a document, up to a pipe or a redirection.
fn commands(text: &str) -> Vec<String> {
    let of = |line: &str| {
        let line = line.trim().trim_start_matches("- run: ").trim_start_matches("$ ");
        let line = line.strip_prefix("irrun ")?.replace("${{ matrix.shard }}", "1");
        let end = line.find(['|', '>', '<', '…', '#']).unwrap_or(line.len());
        Some(format!("irrun {}", line[..end].trim_end()))
    };
    let shown = text.lines().filter(|line| {
        line.trim().starts_with("$ irrun ") || line.trim().starts_with("- run: irrun ")
    });
    shown.filter_map(of).collect()
}

#[test]
fn commands_that_are_shown_are_understood() {
    let mut pages = vec![root().join("README.md")];
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    pages.extend(
        docs.map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "md")),
    );
    let mut count = 0;
    for page in pages {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            let parsed = usage::parse(&words(&command));
            let said = parsed.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.is_empty(), "{}: {command}: {said}", page.display());
            count += 1;
        }
    }
    assert!(count > 10, "only {count} commands were found");
}

/// Commands of the picture in the README.
const SHOWN: [&str; 3] = [
    "irrun models/swin_block --input models/swin_block/input_0.npy",
    "irrun check models/swin_block --only '*roll*'",
    "irrun check fixtures/matmul_batched --shape 'in1[2,11,18]'",
];

/// What a command prints in the directory of the repository.
fn printed(command: &str) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_irrun"))
        .args(&words(command)[1..])
        .env("IRRUN_ISA", "portable")
        .env("NO_COLOR", "1")
        .current_dir(root())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A terminal with commands and what they print.
fn terminal(commands: &[&str]) -> String {
    const SIZE: usize = 13;
    const LINE: usize = 19;
    const MARGIN: usize = 20;
    let mut lines = Vec::new();
    for command in commands {
        lines.push(("#8fbc8b", format!("$ {command}")));
        lines.extend(printed(command).trim_end().lines().map(|line| ("#d8dee9", line.to_owned())));
        lines.push(("#d8dee9", String::new()));
    }
    lines.pop();
    let longest = lines.iter().map(|(_, line)| line.chars().count()).max().unwrap_or(0);
    let (width, height) =
        (longest * SIZE * 602 / 1000 + 2 * MARGIN, lines.len() * LINE + 2 * MARGIN);
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let row = |(i, (color, line)): (usize, &(&str, String))| {
        let (y, line) = (MARGIN + LINE * i + SIZE, escaped(line));
        format!(
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{color}\" xml:space=\"preserve\">{line}</text>\n"
        )
    };
    let rows: String = lines.iter().enumerate().map(row).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace\" \
         font-size=\"{SIZE}\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#20242c\"/>\n{rows}</svg>\n"
    )
}

/// `make picture` draws them anew.
#[test]
fn pictures_show_what_commands_print() {
    let plan = printed("irrun graph models/swin_block --plan --format svg");
    for (file, picture) in [("docs/run.svg", terminal(&SHOWN)), ("docs/plan.svg", plan)] {
        let path = root().join(file);
        if std::env::var_os("IRRUN_UPDATE").is_some() {
            std::fs::write(&path, &picture).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == picture, "{file} is out of date: make picture");
    }
}

/// What a command is in a line, and its page: its help, and the schema of what it prints for
/// programs.
fn page_of(command: &mut clap::Command) -> String {
    let name = command.get_name().to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let mut page = format!("# irrun {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    let of_models = ["extract", "edit", "reduce", "repro"].contains(&&*name);
    let schema = if of_models { "written" } else { &*name };
    if root().join(format!("docs/schema/{schema}.json")).exists() {
        let link = format!("[an object of this schema](../schema/{schema}.json)");
        page += &format!("\nWith `--json` it prints {link}.\n");
    }
    page
}

/// A page for each command below `docs/commands`, made of its help; `IRRUN_UPDATE=1` writes them
/// anew.
#[test]
fn pages_of_commands_are_their_help() {
    let mut irrun = cli::args::Cli::command();
    irrun.build();
    let names: Vec<String> =
        irrun.get_subcommands().map(|c| c.get_name().to_owned()).filter(|n| n != "help").collect();
    let mut list = "# Commands\n\nEach page is what `--help` prints.\n\n".to_owned();
    let mut pages = Vec::new();
    for name in &names {
        let command = irrun.find_subcommand_mut(name).expect("a command");
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        list += &format!("- [irrun {name}]({name}.md): {about}\n");
        pages.push((format!("{name}.md"), page_of(command)));
    }
    pages.push(("README.md".to_owned(), list));
    let dir = root().join("docs/commands");
    for (name, page) in pages {
        let path = dir.join(name);
        if std::env::var_os("IRRUN_UPDATE").is_some() {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(&path, &page).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == page, "{} is out of date: IRRUN_UPDATE=1", path.display());
    }
}

/// What a line may not be broken in: tables, links, code.
fn is_whole(line: &str) -> bool {
    let text = line.trim_start_matches(['/', '!', ' ']);
    text.starts_with('|') || !text.trim_start_matches(['-', ' ']).contains(' ')
}

/// The files of the workspace with an extension, without what a build, a converter or a benchmark
/// writes.
fn files(at: &Path, extension: &str, to: &mut Vec<PathBuf>) {
    const WRITTEN: [&str; 7] =
        ["target", "machines", "commands", "fixtures", "models", "unsafe.md", "operations.md"];
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || WRITTEN.contains(&&*name) {
            continue;
        } else if path.is_dir() {
            files(&path, extension, to);
        } else if path.extension().is_some_and(|own| own == extension) {
            to.push(path);
        }
    }
}

#[test]
fn comments_and_documents_end_at_column_100() {
    let mut all = Vec::new();
    for part in ["crates", "fuzz/src", "docs"] {
        files(&root().join(part), "rs", &mut all);
        files(&root().join(part), "md", &mut all);
    }
    let mut long = Vec::new();
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_rust = path.extension().is_some_and(|own| own == "rs");
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_code ^= line.trim_start_matches(['/', '!', ' ']).starts_with("```");
            let is_text = !is_rust || line.trim_start().starts_with("//");
            if is_text && !is_code && line.chars().count() > 100 && !is_whole(line) {
                long.push(format!("{}:{number}: {line}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{} lines are longer:\n{}", long.len(), long.join("\n"));
}
