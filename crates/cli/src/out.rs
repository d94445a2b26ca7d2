//! Files that are written: whole or not at all, none of them twice, and none that is read.

use crate::exit::{Exit, Failure};
use crate::limits::Unfinished;
use crate::print;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};

/// Writes a file whole or not at all: a temporary file beside it, then a rename. Where a device, a
/// pipe or the like has the name, it is written to: a rename would put a file in its place.
///
/// # Errors
/// When the directory cannot be made or written; a file already there is then left as it was.
pub(crate) fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    ensure!(!path.is_dir(), "{} is a directory; give the name of a file", path.display());
    let failed = || format!("{} cannot be written", path.display());
    if path == Path::new(DASH) {
        return fill_and_flush(&mut io::stdout().lock(), fill).context("standard output");
    }
    if is_stream(path) {
        return write_to(path, fill).with_context(failed);
    }
    let path = &behind_link(path);
    let dir = dir_of(path);
    make_dir(dir)?;
    // Opened here: the errors of `tempfile_in` name the temporary file, which nobody asked for.
    let new = |path: &Path| File::options().write(true).create_new(true).open(path);
    let mut file =
        tempfile::Builder::new().prefix(".irrun-").make_in(dir, new).with_context(failed)?;
    let _unfinished = Unfinished::new(file.path());
    fill_and_flush(file.as_file_mut(), fill).with_context(failed)?;
    file.persist(path).map_err(|e| e.error).with_context(failed)?;
    Ok(())
}

/// The directory that a file lies in.
pub(crate) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a directory and those around it, and says so; nothing if it is there.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    if dir.exists() {
        return Ok(());
    }
    let made = fs::create_dir_all(dir);
    made.with_context(|| format!("the directory {} cannot be made", dir.display()))?;
    print::note(format_args!("note: made the directory {}", dir.display()));
    Ok(())
}

/// Appends, as to standard output: what is in a file that it leads to stays.
fn write_to(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    fill_and_flush(&mut File::options().append(true).open(path)?, fill)
}

fn fill_and_flush(
    file: &mut impl Write,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    Ok(out.flush()?)
}

/// Whether a path leads to what holds no file: a device, a pipe, a socket, or what a process has
/// open.
pub(crate) fn is_stream(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(known) if !known.is_file() => !known.is_dir(),
        _ => is_descriptor(path),
    }
}

/// `/dev/stdout`, `/dev/fd/1` and their like lead through `/proc`, to a file if a shell opened one.
fn is_descriptor(path: &Path) -> bool {
    let Ok(target) = fs::read_link(path) else { return false };
    let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
    target.starts_with("/proc") || dir.is_some_and(|dir| dir.starts_with("/proc"))
}

/// The file that a link leads to, so that the link stays one.
fn behind_link(path: &Path) -> PathBuf {
    let target = if path.is_symlink() { path.canonicalize().ok() } else { None };
    target.unwrap_or_else(|| path.to_owned())
}

/// What stands for standard output.
pub(crate) const DASH: &str = "-";

/// Whether a path leads to standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    [DASH, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Refuses a file that would come between the lines of a report for programs.
///
/// # Errors
/// When one of some files is standard output, and so is the report.
pub(crate) fn leave_room_for_report<'a>(
    json: bool,
    mut written: impl Iterator<Item = &'a Path>,
) -> Result<(), Failure> {
    if !json || !written.any(is_standard_output) {
        return Ok(());
    }
    let error = anyhow!("--json prints on standard output; write the output to a file");
    Err(Failure { exit: Exit::Usage, error })
}

/// A file that is read, and what it is, for messages.
pub(crate) type Read = (&'static str, PathBuf);

/// The two files of a model.
pub(crate) fn of_model(xml: &Path) -> [Read; 2] {
    [("the model", xml.to_owned()), ("the weights of the model", xml.with_extension("bin"))]
}

/// Refuses to write one file twice, which would lose what came first, or one that is read.
///
/// # Errors
/// The first file of which that is so.
pub(crate) fn keep_apart(written: &[&Path], read: &[Read]) -> Result<()> {
    let places: Vec<PathBuf> = written.iter().map(|path| place(path)).collect();
    for (i, path) in written.iter().enumerate() {
        if let Some(first) = places[..i].iter().position(|other| *other == places[i]) {
            let first = written[first];
            ensure!(first != *path, "{} would be written twice", path.display());
            bail!("{} is {}, which would be written twice", path.display(), first.display());
        }
        if let Some((what, _)) = read.iter().find(|(_, file)| replaces(&places[i], &place(file))) {
            bail!("{} is {what}, which would be overwritten; give another name", path.display());
        }
    }
    Ok(())
}

/// Whether writing a file replaces one that is read, by itself or as an array of a directory.
fn replaces(written: &Path, read: &Path) -> bool {
    let is_array = || written.extension().is_some_and(|e| e == "npy") && written.exists();
    written == read || written.parent() == Some(read) && is_array()
}

/// Whether two paths lead to one file.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    place(a) == place(b)
}

/// One spelling for all paths of a file, which may not exist yet: links are followed as far as it
/// does, the rest goes by its names.
fn place(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = |dir: &Path| Some((dir.canonicalize().ok()?, path.strip_prefix(dir).ok()?));
    let Some((mut place, rest)) = path.ancestors().find_map(real) else { return path };
    for component in rest.components() {
        match component {
            Component::ParentDir => drop(place.pop()),
            other => place.push::<&OsStr>(other.as_ref()),
        }
    }
    place
}
