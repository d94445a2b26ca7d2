//! Every command of the guide runs, with the exit code that it shows, and every link leads
//! somewhere.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Finds the same box in every picture.
#[cfg(unix)]
const DETECTOR: &str = r#"<net name="detector" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,3,8,8" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="1" name="found" type="Const" version="opset1"><data element_type="f32" shape="1,1,1,7" offset="0" size="28"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="2" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="1" from-port="0" to-layer="2" to-port="0"/></edges></net>"#;

/// The square root of a product that is negative, and declared as of another shape; one of the
/// weights is subnormal.
#[cfg(unix)]
const ODD: &str = r#"<net name="odd" version="11"><layers>
<layer id="0" name="a" type="Parameter" version="opset1"><data shape="2,3" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="1" name="w" type="Const" version="opset1"><data element_type="f32" shape="3,2" offset="0" size="24"/><output><port id="0" precision="FP32"/></output></layer>
<layer id="2" name="sum" type="MatMul" version="opset1"><input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"><dim>2</dim><dim>3</dim></port></output></layer>
<layer id="3" name="root" type="Sqrt" version="opset1"><input><port id="0"/></input><output><port id="1" precision="FP32"/></output></layer>
<layer id="4" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/><edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/><edge from-layer="3" from-port="1" to-layer="4" to-port="0"/></edges></net>"#;

/// A directory with the models of the repository, an input, its output, a picture, a sound,
/// and models that are broken, do not fit, or are odd.
#[cfg(unix)]
fn room() -> tempfile::TempDir {
    let room = tempfile::tempdir().unwrap();
    for name in ["models", "fixtures"] {
        std::os::unix::fs::symlink(root().join(name), room.path().join(name)).unwrap();
    }
    let case = root().join("models/swin_block");
    fs::copy(case.join("input_0.npy"), room.path().join("x.npy")).unwrap();
    fs::copy(case.join("expected_0.npy"), room.path().join("ref.npy")).unwrap();
    image::RgbImage::new(4, 3).save(room.path().join("cat.png")).unwrap();
    fs::create_dir(room.path().join("pictures")).unwrap();
    fs::copy(room.path().join("cat.png"), room.path().join("pictures/cat.png")).unwrap();
    beep(&room.path().join("beep.wav"));
    fs::write(room.path().join("detector.xml"), DETECTOR).unwrap();
    let row = [0.0, 1.0, 0.9, 0.25, 0.25, 0.75, 0.75].map(f32::to_le_bytes);
    fs::write(room.path().join("detector.bin"), row.concat()).unwrap();
    let weights = [-1.0, -1.0, -1.0, -1.0, -1.0, 1e-40_f32].map(f32::to_le_bytes).concat();
    let misfit = ODD.replace("shape=\"3,2\"", "shape=\"2,3\"");
    for (name, model) in [("odd", ODD), ("misfit", &misfit)] {
        fs::write(room.path().join(name).with_extension("xml"), model).unwrap();
        fs::write(room.path().join(name).with_extension("bin"), &weights).unwrap();
    }
    fs::write(room.path().join("broken.xml"), "<net name=\"n\" version=\"11\"><layers>").unwrap();
    room
}

/// A sound of 64 samples.
#[cfg(unix)]
fn beep(path: &Path) {
    let (sample_rate, sample_format) = (16000, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate, bits_per_sample: 16, sample_format };
    let mut writer = hound::WavWriter::create(path, spec).unwrap();
    (0..64).for_each(|i| writer.write_sample(1000 * (i % 8)).unwrap());
    writer.finalize().unwrap();
}

#[test]
#[cfg(unix)]
fn commands_of_the_pages() {
    let room = room();
    std::env::set_current_dir(room.path()).unwrap();
    let cases = trycmd::TestCases::new();
    cases.register_bin("irrun", Path::new(env!("CARGO_BIN_EXE_irrun")));
    cases.case(root().join("docs/guide/*.md"));
    cases.run();
}

/// Rows of tables that end with a command, what it shows or the file that it makes, and its exit
/// code.
#[test]
#[cfg(unix)]
fn commands_of_the_tables() {
    let room = room();
    let dir = Path::new(env!("CARGO_BIN_EXE_irrun")).parent().unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    let page = fs::read_to_string(root().join("docs/guide/features.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let code = cells.last()?.trim_end_matches(" |").parse::<i32>().ok()?;
        let cell = |back: usize| Some(cells.iter().rev().nth(back)?.trim_matches('`').to_owned());
        Some((cell(2)?, cell(1)?, code))
    });
    let mut wrong = Vec::new();
    let mut count = 0;
    for (command, shown, code) in rows {
        let shell = std::process::Command::new("sh")
            .args(["-c", &command])
            .env("PATH", &path)
            .current_dir(room.path())
            .output()
            .unwrap();
        count += 1;
        let said = [shell.stdout, shell.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let is_shown = said.contains(&shown) || room.path().join(&shown).is_file();
        if shell.status.code() != Some(code) || !is_shown {
            let status = shell.status;
            wrong.push(format!("{command}: {status} and not {code}, or no {shown:?}\n{said}"));
        }
    }
    assert_eq!(count, 41);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A line with every number as `#`, and one space where there are several: times and the widths of
/// columns differ from run to run.
fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    for c in line.trim_end().chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        let repeats = (c == '#' || c == ' ') && out.ends_with(c);
        let is_point = c == '.' && out.ends_with('#');
        if !repeats && !is_point {
            out.push(c);
        }
    }
    out
}

/// Commands of the tour with models of the repository: each line that the page shows is printed.
#[test]
#[cfg(unix)]
fn commands_of_the_tour() {
    let room = room();
    let page = fs::read_to_string(root().join("docs/tour.md")).unwrap();
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(|block| block.split("$ ").skip(1));
    let mut count = 0;
    for command in commands.filter(|c| c.contains("fixtures") || c.contains("models")) {
        let (command, shown) = command.split_once('\n').unwrap();
        let irrun = command.replacen("irrun", env!("CARGO_BIN_EXE_irrun"), 1);
        let run = std::process::Command::new("sh")
            .args(["-c", &irrun])
            .current_dir(room.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
        let printed: Vec<String> = said.lines().map(without_numbers).collect();
        for line in shown.lines().filter(|line| !line.is_empty() && *line != "…") {
            assert!(printed.contains(&without_numbers(line)), "{command}: no {line:?} in\n{said}");
        }
        count += 1;
    }
    assert_eq!(count, 5);
}

/// Links of a page that are paths, without what follows `#`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = targets.map(|target| target.split('#').next().unwrap_or_default());
    paths.filter(|path| !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:"))
}

fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

#[test]
fn links_of_the_documents() {
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    pages(&root().join("docs"), &mut found);
    let mut broken = Vec::new();
    for page in &found {
        let text = fs::read_to_string(page).unwrap();
        let dir = page.parent().unwrap();
        let missing = links(&text).filter(|link| !dir.join(link).exists());
        broken.extend(missing.map(|link| format!("{}: {link}", page.display())));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Pages that no reader would find.
#[test]
fn the_summary_has_every_page() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = links(&summary).map(|link| docs.join(link)).collect();
    let mut found = Vec::new();
    pages(&docs, &mut found);
    let missing: Vec<&PathBuf> = found
        .iter()
        .filter(|page| !listed.contains(page))
        .filter(|page| page.file_name().is_some_and(|name| name != "SUMMARY.md"))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
