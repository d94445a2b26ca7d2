//! Archives of arrays: `.npz` files, which are zip archives of `.npy` files, and `.safetensors`.

use crate::npy::{self, Cast};
use crate::safetensors::{self, SafetensorsFile};
use crate::{hint, out};
use anyhow::{Context, Result, anyhow, ensure};
use ir::{ElementType, Weights};
use runtime::Tensor;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// What an archive is read from: a file, or what came from a pipe.
trait Source: Read + Seek + Send {}
impl<T: Read + Seek + Send> Source for T {}

/// An archive opened for reading.
pub struct Npz {
    archive: Archive,
}

enum Archive {
    Zip(ZipArchive<Box<dyn Source>>),
    Safetensors(SafetensorsFile),
}

impl Npz {
    /// Opens an archive.
    ///
    /// # Errors
    /// When the file cannot be opened or is not a zip archive.
    pub fn open(path: &Path) -> Result<Npz> {
        if safetensors::is_named(path) {
            return Ok(Npz { archive: Archive::Safetensors(SafetensorsFile::open(path)?) });
        }
        let shown = path.display().to_string();
        let failed = || format!("{shown} cannot be opened{}", hint::file(path));
        let file = File::open(path).with_context(failed)?;
        if out::is_stream(path) {
            let bytes = std::fs::read(path).with_context(failed)?;
            return Npz::from_stream(bytes).context(shown);
        }
        let archive = ZipArchive::new(Box::new(BufReader::new(file)) as Box<dyn Source>);
        let archive = archive.map_err(|_| {
            let mut start = [0; 2];
            let read = File::open(path).and_then(|mut file| file.read(&mut start));
            let fault = fault(&start[..read.unwrap_or(0)]);
            anyhow!("{shown}: {fault}")
        })?;
        Ok(Npz { archive: Archive::Zip(archive) })
    }

    /// Opens what came from a pipe or the like.
    ///
    /// # Errors
    /// When it is not a zip archive.
    pub fn from_stream(bytes: Vec<u8>) -> Result<Npz> {
        let fault = fault(&bytes);
        let archive = ZipArchive::new(Box::new(Cursor::new(bytes)) as Box<dyn Source>);
        Ok(Npz { archive: Archive::Zip(archive.map_err(|_| anyhow!(fault))?) })
    }

    /// Reads the bytes of a `.safetensors` file.
    ///
    /// # Errors
    /// When its header does not fit it.
    pub fn from_safetensors(bytes: Vec<u8>) -> Result<Npz> {
        let file = SafetensorsFile::of(Arc::new(Weights::from_bytes(bytes)));
        let file = file.context("no .safetensors file")?;
        Ok(Npz { archive: Archive::Safetensors(file) })
    }

    /// The names of the arrays, without `.npy`.
    pub fn names(&self) -> Vec<String> {
        let archive = match &self.archive {
            Archive::Zip(archive) => archive,
            Archive::Safetensors(file) => return file.names(),
        };
        let names = archive.file_names().filter_map(Result::ok);
        names.map(|n| n.strip_suffix(".npy").unwrap_or(&n).to_owned()).collect()
    }

    /// Reads one array as [`npy::read`] reads a file.
    ///
    /// # Errors
    /// As [`npy::read`].
    pub fn read(&mut self, name: &str, wanted: ElementType, cast: Cast) -> Result<Tensor> {
        let archive = match &mut self.archive {
            Archive::Zip(archive) => archive,
            Archive::Safetensors(file) => return file.read(name, wanted, cast),
        };
        let context = format!("array \"{name}\"");
        let mut bytes = Vec::new();
        let member = format!("{name}.npy");
        let member = if archive.index_for_name(&member).is_some() { &member } else { name };
        let mut entry = archive.by_name(member).with_context(|| context.clone())?;
        let (size, left) = (entry.size(), runtime::memory_left());
        let fits = || format!("it takes {size} bytes, more than the memory limit leaves ({left})");
        ensure!(size <= left, "{context}: {}", fits());
        entry.read_to_end(&mut bytes).with_context(|| context.clone())?;
        npy::from_stream(bytes, wanted, cast).context(context)
    }
}

/// What is wrong with a file that is no archive, by its first bytes.
fn fault(start: &[u8]) -> &'static str {
    match start {
        [] => "the file is empty",
        [b'P', b'K', ..] => "the archive is cut short or damaged",
        _ => "not an .npz archive, as numpy.savez writes it",
    }
}

/// Whether a file is called an archive.
pub fn is_named(path: &Path) -> bool {
    safetensors::is_named(path) || path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz"))
}

/// Writes arrays under their names, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, arrays: &[(String, Tensor)]) -> Result<()> {
    if safetensors::is_named(path) {
        return safetensors::write(path, arrays);
    }
    out::write_whole(path, |file| {
        let mut zip = ZipWriter::new_stream(file);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        for (name, tensor) in arrays {
            zip.start_file(format!("{name}.npy"), options)?;
            let mut bytes = Vec::new();
            npy::write(tensor, &mut bytes)?;
            zip.write_all(&bytes)?;
        }
        zip.finish()?;
        Ok(())
    })
}
