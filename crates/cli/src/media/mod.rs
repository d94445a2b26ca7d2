//! Pictures and sound as inputs, and pictures with what was found on them.

pub mod boxes;
pub mod layout;
pub mod picture;
pub mod sound;

use crate::hint;
use anyhow::{Context, Result, bail, ensure};
use infer::PartialShape;
use ir::ElementType;
use layout::Layout;
use picture::PictureArgs;
use runtime::Tensor;
use std::path::Path;

/// What a file is to become: the input as the model declares it.
pub struct Wanted<'a> {
    /// The name, for messages.
    pub name: &'a str,
    /// The element type; `dynamic` where the model leaves it open.
    pub element_type: ElementType,
    /// The shape.
    pub shape: &'a PartialShape,
    /// What each axis is, where the model says so.
    pub layout: Option<&'a Layout>,
    /// Whether another input takes the rate of samples.
    pub knows_rate: bool,
}

/// What a file holds that is no array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A PNG or JPEG.
    Picture,
    /// A WAV.
    Sound,
}

/// Endings of pictures that are not read.
const OTHER_PICTURES: [&str; 8] = ["gif", "bmp", "webp", "tif", "tiff", "heic", "avif", "jp2"];

/// Endings of sounds that are not read.
const OTHER_SOUNDS: [&str; 6] = ["mp3", "flac", "ogg", "opus", "m4a", "aac"];

impl Kind {
    /// What a file is called; nothing for arrays.
    ///
    /// # Errors
    /// When it is called like a picture or sound of a kind that is not read.
    pub fn of_name(path: &Path) -> Result<Option<Kind>> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match ending.as_str() {
            "png" | "jpg" | "jpeg" => Ok(Some(Kind::Picture)),
            "wav" => Ok(Some(Kind::Sound)),
            other if OTHER_PICTURES.contains(&other) => {
                bail!("{}: .{other} is not read; save it as .png or .jpg", path.display())
            }
            other if OTHER_SOUNDS.contains(&other) => {
                bail!("{}: .{other} is not read; save it as .wav", path.display())
            }
            _ => Ok(None),
        }
    }

    /// What bytes begin as; nothing for arrays.
    pub fn of_bytes(bytes: &[u8]) -> Option<Kind> {
        let is_picture = bytes.starts_with(b"\x89PNG") || bytes.starts_with(b"\xff\xd8\xff");
        let is_sound = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE");
        is_picture.then_some(Kind::Picture).or(is_sound.then_some(Kind::Sound))
    }

    /// Reads the bytes of a file as an input.
    ///
    /// # Errors
    /// When the file is damaged, or the input takes nothing of the kind.
    pub fn read(self, bytes: &[u8], wanted: &Wanted<'_>, args: &PictureArgs) -> Result<Tensor> {
        match self {
            Kind::Picture => picture::read(bytes, wanted, args),
            Kind::Sound => sound::read(bytes, wanted),
        }
    }
}

/// Reads a whole file.
///
/// # Errors
/// When it cannot be read, or is larger than the memory limit leaves.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let failed = || format!("{} cannot be read{}", path.display(), hint::file(path));
    let (size, left) =
        (std::fs::metadata(path).with_context(failed)?.len(), runtime::memory_left());
    ensure!(size <= left, "{} has {size} bytes; the memory limit leaves {left}", path.display());
    std::fs::read(path).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_bytes() {
        let kind = |name: &str| Kind::of_name(Path::new(name)).ok();
        assert_eq!(kind("a.PNG"), Some(Some(Kind::Picture)));
        assert_eq!(kind("b.c/a.jpeg"), Some(Some(Kind::Picture)));
        assert_eq!(kind("a.npy"), Some(None));
        assert_eq!(kind("png"), Some(None));
        assert_eq!(kind("a.webp"), None);
        assert_eq!(Kind::of_bytes(b"\x89PNG\r\n"), Some(Kind::Picture));
        assert_eq!(Kind::of_bytes(b"\xff\xd8\xff\xe0"), Some(Kind::Picture));
        assert_eq!(Kind::of_bytes(b"RIFF\0\0\0\0WAVEfmt "), Some(Kind::Sound));
        assert_eq!(Kind::of_bytes(b"RIFF\0\0\0\0WEBP"), None);
        assert_eq!(Kind::of_bytes(b"\x93NUMPY"), None);
    }
}
