//! The `.bin` of a model, mapped rather than copied.
//!
//! This is the only file of the crate with `unsafe`: the map call, and advice about the map.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Whether files are mapped, for the whole process.
static IS_MAPPED: AtomicBool = AtomicBool::new(true);

/// From now on, files are read into memory instead of mapped, for the whole process. That takes
/// longer and as much memory as the files have, but a file that shrinks cannot kill the process.
pub fn disable_mmap() {
    IS_MAPPED.store(false, Ordering::Relaxed);
}

/// The first bytes of a Git LFS pointer file.
const LFS_MAGIC: &[u8] = b"version https://git-lfs";

/// The bytes of constants.
pub struct Weights {
    path: PathBuf,
    content: Content,
    /// Why ranges past the end are missing, if several constants share the cause.
    missing_end: OnceLock<String>,
}

enum Content {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
    Unavailable(String),
}

/// Why a range of the weights is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// The file is missing, unreadable, a Git LFS pointer, or lacks an end that several constants
    /// need.
    #[error("{reason}")]
    Unavailable {
        /// What was found instead, and what to do.
        reason: String,
    },
    /// The range is not in the file.
    #[error(
        "bytes {offset}..{} lie outside {path}, which has {len} bytes; \
         the .bin is cut short or belongs to another model", u128::from(*offset) + u128::from(*size)
    )]
    OutOfRange {
        /// The first byte of the range.
        offset: u64,
        /// The size of the range.
        size: u64,
        /// The size of the file.
        len: u64,
        /// The file.
        path: String,
    },
}

impl Weights {
    /// Maps a file, or reads it after [`disable_mmap`]. If neither works, that is an error only
    /// once a constant needs it.
    pub fn open(path: &Path) -> Weights {
        let content = Content::open(path).unwrap_or_else(Content::Unavailable);
        Weights { path: path.to_owned(), content, missing_end: OnceLock::new() }
    }

    /// Weights in memory, for graphs that are built rather than read.
    pub fn from_bytes(bytes: Vec<u8>) -> Weights {
        let content = Content::Owned(bytes);
        Weights { path: PathBuf::new(), content, missing_end: OnceLock::new() }
    }

    /// All bytes; empty if the file is unavailable.
    pub fn bytes(&self) -> &[u8] {
        self.content.bytes()
    }

    /// The file of the weights; empty if they are in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The common reason for which constants are missing, if there is one: the file is unreadable,
    /// or its end is missing.
    pub fn unavailable(&self) -> Option<&str> {
        match &self.content {
            Content::Unavailable(reason) => Some(reason),
            _ => self.missing_end.get().map(String::as_str),
        }
    }

    /// Sets the reason for all ranges that reach past the end. The first reason stays.
    pub(crate) fn blame_missing_end(&self, reason: String) {
        self.missing_end.get_or_init(|| reason);
    }

    /// The bytes `[offset, offset + size)`.
    pub fn range(&self, offset: u64, size: u64) -> Result<&[u8], WeightsError> {
        if let Content::Unavailable(reason) = &self.content {
            return Err(WeightsError::Unavailable { reason: reason.clone() });
        }
        let bytes = self.bytes();
        let found = usize::try_from(offset).ok().and_then(|start| {
            let end = start.checked_add(usize::try_from(size).ok()?)?;
            bytes.get(start..end)
        });
        found.ok_or_else(|| match self.missing_end.get() {
            Some(reason) => WeightsError::Unavailable { reason: reason.clone() },
            None => WeightsError::OutOfRange {
                offset,
                size,
                len: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
                path: self.name(),
            },
        })
    }

    /// The name of the file, for messages.
    pub(crate) fn name(&self) -> String {
        match self.path.file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => "the weights".to_owned(),
        }
    }
}

impl Content {
    fn open(path: &Path) -> Result<Content, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = File::open(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                format!("{name} is missing; it belongs beside the .xml")
            }
            _ => format!("{name} cannot be read: {e}"),
        })?;
        let meta = file.metadata().map_err(|e| format!("{name} cannot be read: {e}"))?;
        if !meta.is_file() {
            return Err(format!("{name} is not a file"));
        }
        if meta.len() == 0 {
            return Ok(Content::Owned(Vec::new()));
        }
        let content = if IS_MAPPED.load(Ordering::Relaxed) {
            // SAFETY: the map is read-only and private to this value. Another process that
            // truncates the file while it is mapped can stop this one with SIGBUS; docs/security.md
            // says so. One that writes to it changes numbers: whatever is an index is checked where
            // it is used.
            let map = unsafe { memmap2::Mmap::map(&file) }
                .map_err(|e| format!("{name} cannot be mapped: {e}"))?;
            Content::Mapped(map)
        } else {
            let bytes = read_whole(&file, meta.len());
            Content::Owned(bytes.map_err(|e| format!("{name} cannot be read: {e}"))?)
        };
        if content.bytes().starts_with(LFS_MAGIC) {
            return Err(format!(
                "{name} is a Git LFS pointer, not the file itself; run `git lfs pull`"
            ));
        }
        Ok(content)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Content::Mapped(map) => map,
            Content::Owned(bytes) => bytes,
            Content::Unavailable(_) => &[],
        }
    }
}

/// All bytes that a file of `len` bytes still has.
fn read_whole(file: &File, len: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let capacity = usize::try_from(len).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(capacity).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Default for Weights {
    fn default() -> Weights {
        Weights::from_bytes(Vec::new())
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Unavailable(reason) => write!(f, "Weights(unavailable: {reason})"),
            _ => write!(f, "Weights({} bytes)", self.bytes().len()),
        }
    }
}

/// A range of shared weights, which keeps them alive.
#[derive(Clone)]
pub struct WeightsSlice {
    weights: Arc<Weights>,
    start: usize,
    len: usize,
}

impl WeightsSlice {
    /// The bytes `[offset, offset + size)` of `weights`, without a copy.
    pub fn new(weights: &Arc<Weights>, offset: u64, size: u64) -> Result<Self, WeightsError> {
        let len = weights.range(offset, size)?.len();
        // `range` has shown that the offset is an index of the bytes.
        let start = usize::try_from(offset).unwrap_or(0);
        Ok(WeightsSlice { weights: Arc::clone(weights), start, len })
    }

    /// A part of the range; `None` if it is not inside.
    pub fn part(&self, offset: usize, len: usize) -> Option<WeightsSlice> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let weights = Arc::clone(&self.weights);
        inside.then(|| WeightsSlice { weights, start: self.start + offset, len })
    }

    /// The bytes, without a copy.
    pub fn bytes(&self) -> &[u8] {
        self.weights.bytes().get(self.start..self.start + self.len).unwrap_or(&[])
    }

    /// Releases the memory of a mapped file. The bytes stay valid: the next reader waits until the
    /// system has read them from the file again.
    pub fn give_back(&self) {
        #[cfg(target_os = "linux")]
        if let Content::Mapped(map) = &self.weights.content {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the range lies in the map, which is of a file and was never written, so that
            // Linux brings back the same bytes from the file. A refusal changes nothing.
            let _ = unsafe { map.unchecked_advise_range(advice, self.start, self.len) };
        }
    }
}

impl fmt::Debug for WeightsSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightsSlice({}..{})", self.start, self.start + self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.bin");
        std::fs::write(&path, content).unwrap();
        (dir, path)
    }

    #[test]
    fn ranges_are_checked() {
        let (_dir, path) = file(b"0123456789");
        let w = Weights::open(&path);
        assert_eq!(w.range(3, 4).unwrap(), b"3456");
        assert_eq!(w.range(10, 0).unwrap(), b"");
        let e = w.range(8, 4).unwrap_err().to_string();
        assert!(e.starts_with("bytes 8..12 lie outside m.bin, which has 10 bytes"), "{e}");
        assert!(w.range(u64::MAX, 2).is_err());
    }

    #[test]
    fn slices_point_into_the_map() {
        let (_dir, path) = file(b"0123456789");
        let w = Arc::new(Weights::open(&path));
        let slice = WeightsSlice::new(&w, 3, 4).unwrap();
        assert_eq!(slice.bytes().as_ptr(), w.bytes()[3..].as_ptr());
    }

    #[test]
    fn what_is_given_back_is_still_there() {
        let content: Vec<u8> = (0..100_000u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
        let (_dir, path) = file(&content);
        for weights in [Weights::open(&path), Weights::from_bytes(content.clone())] {
            let weights = Arc::new(weights);
            for (start, len) in [(0, 100_000), (5000, 90_000), (7, 10), (100_000, 0)] {
                WeightsSlice::new(&weights, start, len).unwrap().give_back();
                assert_eq!(weights.bytes(), &content[..]);
            }
        }
    }

    #[test]
    fn what_is_not_weights_is_named() {
        let (_dir, path) = file(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
        let e = Weights::open(&path).range(0, 1).unwrap_err().to_string();
        assert!(e.contains("Git LFS pointer"), "{e}");
        let e = Weights::open(&path.with_extension("no")).range(0, 1).unwrap_err().to_string();
        assert_eq!(e, "m.no is missing; it belongs beside the .xml");
        let (_dir, empty) = file(b"");
        assert_eq!(Weights::open(&empty).range(0, 0).unwrap(), b"");
    }
}
