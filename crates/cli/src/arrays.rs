//! Named arrays: an `.npz` or `.safetensors`, a directory of `.npy` files, or one `.npy`; archives
//! and arrays from standard input too.

use crate::bind::in_file_name;
use crate::hint;
use crate::npy::{self, Cast};
use crate::npz::{self, Npz};
use crate::stream;
use crate::text::nearest;
use anyhow::{Context, Result, ensure};
use ir::{ElementType, Weights, WeightsSlice};
use runtime::Tensor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arrays that are read one by one.
pub(crate) struct Arrays {
    path: PathBuf,
    names: Vec<String>,
    source: Source,
}

enum Source {
    Archive(Npz),
    /// The file of each.
    Files(Vec<PathBuf>),
    /// One `.npy` that came through a pipe.
    Piped(WeightsSlice),
}

impl Arrays {
    /// Opens an archive, a directory or an array.
    ///
    /// # Errors
    /// When there is nothing of that kind, or no array in it.
    pub(crate) fn open(path: &Path) -> Result<Arrays> {
        let shown = path.display();
        let (names, source) = if let Some(bytes) = stream::read(path)? {
            piped(bytes).with_context(|| shown.to_string())?
        } else if path.is_dir() {
            let files = files(path)?;
            ensure!(!files.is_empty(), "the directory {shown} holds no .npy");
            let names = files.iter().map(|file| stem(file)).collect();
            (names, Source::Files(files))
        } else if npz::is_named(path) {
            let archive = Npz::open(path)?;
            (archive.names(), Source::Archive(archive))
        } else {
            ensure!(
                path.exists(),
                "{shown} does not exist{}; give an .npy, an .npz or a directory",
                hint::file(path)
            );
            (vec![stem(path)], Source::Files(vec![path.to_owned()]))
        };
        ensure!(!names.is_empty(), "{shown} holds no array");
        Ok(Arrays { path: path.to_owned(), names, source })
    }

    /// The names of the arrays.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where they lie.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is one array, whose name says nothing.
    pub(crate) fn is_one_file(&self) -> bool {
        match &self.source {
            Source::Archive(_) => false,
            Source::Files(_) => self.names.len() == 1 && self.path.is_file(),
            Source::Piped(_) => true,
        }
    }

    /// The array of a name, or of the file name that was made of it.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let exact = self.names.iter().position(|own| own == name);
        exact.or_else(|| {
            let (file, alike) = (in_file_name(name), |own: &String| in_file_name(own));
            self.names.iter().position(|own| alike(own) == file)
        })
    }

    /// The name nearest to one that there is not.
    pub(crate) fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.names.iter().map(String::as_str))
    }

    /// Reads an array. It is of type `wanted` where the file can be read so without converting a
    /// value, else of its own.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn read(&mut self, index: usize, wanted: ElementType) -> Result<Tensor> {
        let name = &self.names[index];
        match &mut self.source {
            Source::Archive(npz) => {
                let read = npz.read(name, wanted, Cast::Keep);
                read.with_context(|| self.path.display().to_string())
            }
            Source::Files(files) => npy::read(&files[index], wanted, Cast::Keep),
            Source::Piped(file) => {
                let read = npy::from_bytes(file, wanted, Cast::Keep);
                read.with_context(|| self.path.display().to_string())
            }
        }
    }
}

/// What came through a pipe, with the names of its arrays: it tells itself what it is.
fn piped(bytes: Vec<u8>) -> Result<(Vec<String>, Source)> {
    if bytes.starts_with(b"PK") {
        let archive = Npz::from_stream(bytes)?;
        return Ok((archive.names(), Source::Archive(archive)));
    }
    let len = u64::try_from(bytes.len())?;
    let file = WeightsSlice::new(&Arc::new(Weights::from_bytes(bytes)), 0, len)?;
    Ok((vec!["-".to_owned()], Source::Piped(file)))
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The arrays in a directory, sorted.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if npy::is_named(&path) && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}
