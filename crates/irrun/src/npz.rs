//! `.npz` files: zip archives of `.npy` files.

use crate::npy::{self, Cast};
use crate::out;
use anyhow::{Context, Result, ensure};
use ir::{ElementType, Weights, WeightsSlice};
use runtime::Tensor;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// An archive opened for reading.
pub struct Npz {
    archive: ZipArchive<BufReader<File>>,
}

impl Npz {
    /// Opens an archive.
    ///
    /// # Errors
    /// When the file cannot be opened or is not a zip archive.
    pub fn open(path: &Path) -> Result<Npz> {
        let shown = path.display().to_string();
        let file = File::open(path).with_context(|| format!("{shown} cannot be opened"))?;
        let archive = ZipArchive::new(BufReader::new(file));
        let archive = archive.with_context(|| format!("{shown} is not an .npz archive"))?;
        Ok(Npz { archive })
    }

    /// The names of the arrays, without `.npy`.
    pub fn names(&self) -> Vec<String> {
        let names = self.archive.file_names().filter_map(Result::ok);
        names.map(|n| n.strip_suffix(".npy").unwrap_or(&n).to_owned()).collect()
    }

    /// Reads one array as [`npy::read`] reads a file.
    ///
    /// # Errors
    /// As [`npy::read`].
    pub fn read(&mut self, name: &str, wanted: ElementType, cast: Cast) -> Result<Tensor> {
        let context = format!("array \"{name}\"");
        let mut bytes = Vec::new();
        let member = format!("{name}.npy");
        let member = if self.archive.index_for_name(&member).is_some() { &member } else { name };
        let mut entry = self.archive.by_name(member).with_context(|| context.clone())?;
        let (size, left) = (entry.size(), runtime::memory_left());
        let fits = || format!("it takes {size} bytes, more than the memory limit leaves ({left})");
        ensure!(size <= left, "{context}: {}", fits());
        entry.read_to_end(&mut bytes).with_context(|| context.clone())?;
        let len = u64::try_from(bytes.len())?;
        let slice = WeightsSlice::new(&Arc::new(Weights::from_bytes(bytes)), 0, len)?;
        npy::from_bytes(&slice, wanted, cast).context(context)
    }
}

/// Whether a file is called an archive.
pub fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz"))
}

/// Writes arrays under their names, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, arrays: &[(String, Tensor)]) -> Result<()> {
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
