//! WAV: samples from -1 to 1, in as many channels as an input takes.

use super::Wanted;
use crate::print;
use anyhow::{Context, Result, bail, ensure};
use hound::{SampleFormat, WavReader};
use infer::PartialShape;
use ir::ElementType;
use runtime::Tensor;
use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a file holds.
struct Sound {
    /// Sample by sample, of each its channels.
    samples: Vec<f64>,
    channels: u16,
    /// Samples in a second.
    rate: u32,
}

/// Reads a sound for an input.
///
/// # Errors
/// When the file is damaged, or the input takes no sound.
pub fn read(file: &[u8], wanted: &Wanted<'_>) -> Result<Tensor> {
    let element_type = match wanted.element_type {
        ElementType::Dynamic => ElementType::F32,
        ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64 => {
            wanted.element_type
        }
        other => bail!("sound has values from -1 to 1, which {other} does not hold"),
    };
    let axes = Axes::of(wanted.shape)?;
    let sound = Sound::decode(file)?;
    let channels = axes.channels(wanted.shape, sound.channels)?;
    tell_rate(&sound, channels, wanted);
    let sizes = axes.sizes(sound.len(), channels);
    let values = Tensor::from_vec(&sizes, sound.laid_out(&axes, channels))?;
    Ok(runtime::convert(&values, element_type)?)
}

/// The rate that was told last: files of a directory mostly have the same.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Says at which rate the samples are, unless an input of the model takes the rate.
fn tell_rate(sound: &Sound, channels: usize, wanted: &Wanted<'_>) {
    if wanted.knows_rate || TOLD.swap(sound.rate, Relaxed) == sound.rate {
        return;
    }
    let (name, rate, own) = (wanted.name, sound.rate, sound.channels);
    let mixed = match channels {
        1 if own > 1 => format!(", the mean of {own} channels"),
        _ => String::new(),
    };
    print::note(format_args!(
        "note: {name} has {rate} samples a second{mixed}; they are not converted to another rate"
    ));
}

impl Sound {
    fn decode(file: &[u8]) -> Result<Sound> {
        let broken = "the sound is damaged, or of a kind of WAV that is not read";
        let (head, rest) = with_length(file);
        let mut reader = WavReader::new(head.chain(rest)).context(broken)?;
        let spec = reader.spec();
        let bits = spec.bits_per_sample;
        let samples: Result<Vec<f64>, hound::Error> = match spec.sample_format {
            SampleFormat::Float => reader.samples::<f32>().map(|v| Ok(f64::from(v?))).collect(),
            SampleFormat::Int => {
                ensure!((1..=32).contains(&bits), "{bits} bits a sample are not read");
                let whole = 2f64.powi(i32::from(bits) - 1);
                reader.samples::<i32>().map(|v| Ok(f64::from(v?) / whole)).collect()
            }
        };
        let samples = samples.context(broken)?;
        Ok(Sound { samples, channels: spec.channels.max(1), rate: spec.sample_rate })
    }

    /// Samples of a channel.
    fn len(&self) -> usize {
        self.samples.len() / usize::from(self.channels)
    }

    /// The values in the order of the tensor, in some number of channels.
    fn laid_out(&self, axes: &Axes, channels: usize) -> Vec<f64> {
        let frames = || self.samples.chunks_exact(usize::from(self.channels));
        let value = |frame: &[f64], channel: usize| match frame {
            [one] => *one,
            _ if channels == 1 => frame.iter().sum::<f64>() / f64::from(self.channels),
            _ => frame.get(channel).copied().unwrap_or_default(),
        };
        match axes.channels {
            Some(channel) if channel > axes.samples => {
                frames().flat_map(|frame| (0..channels).map(move |c| value(frame, c))).collect()
            }
            _ => (0..channels).flat_map(|c| frames().map(move |frame| value(frame, c))).collect(),
        }
    }
}

/// What programs write for the length of samples that come through a pipe, or more: no file has so
/// many.
const NO_LENGTH: u32 = 0x7fff_f000;

/// A file whose header tells its length, up to the samples and from there on. Where programs write
/// into a pipe they cannot come back to say how much it was; then it is all there is.
fn with_length(file: &[u8]) -> (Cursor<Vec<u8>>, &[u8]) {
    let begin = content(file, b"data").unwrap_or(0);
    let (head, rest) = file.split_at_checked(begin).unwrap_or((file, &[]));
    let mut head = head.to_vec();
    if let Some((_, length)) = head.split_last_chunk_mut::<4>() {
        let told = u32::from_le_bytes(*length);
        let has = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let has_no_length = told == 0 && !are_chunks(rest) || told >= NO_LENGTH && told > has;
        if has_no_length {
            *length = (has - has % block(file)).to_le_bytes();
        }
    }
    (Cursor::new(head), rest)
}

/// Where the content of the first chunk of a name begins.
fn content(file: &[u8], name: &[u8; 4]) -> Option<usize> {
    // Behind `RIFF`, the size and `WAVE`.
    let mut at = 12usize;
    loop {
        let (id, size) = chunk(file.get(at..)?)?;
        at = at.checked_add(8)?;
        if id == *name {
            return Some(at);
        }
        at = at.checked_add(size)?;
    }
}

/// The name of the chunk that bytes begin with, and how many bytes its content has, with padding.
fn chunk(bytes: &[u8]) -> Option<([u8; 4], usize)> {
    let (id, rest) = bytes.split_first_chunk::<4>()?;
    let size = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
    Some((*id, size.checked_add(size % 2)?))
}

/// Whether bytes are chunks from the first to the last: what follows a file of no samples.
fn are_chunks(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let rest = chunk(bytes).and_then(|(_, size)| bytes.get(8..)?.get(size..));
        let Some(rest) = rest else { return false };
        bytes = rest;
    }
    true
}

/// Bytes of a sample in all channels, as the chunk `fmt ` tells.
fn block(file: &[u8]) -> u32 {
    let format = content(file, b"fmt ").and_then(|at| file.get(at..)?.get(12..)?.first_chunk());
    format.map_or(1, |bytes| u32::from(u16::from_le_bytes(*bytes)).max(1))
}

/// Channels that one is repeated for at most: an axis of more is none of channels.
const MOST_CHANNELS: usize = 64;

/// The axes along which a sound lies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axes {
    rank: usize,
    samples: usize,
    channels: Option<usize>,
}

impl Axes {
    /// Samples are the last axis, and channels the one before, unless the shape has one or two at
    /// its end alone.
    fn of(shape: &PartialShape) -> Result<Axes> {
        let rank = shape.rank().unwrap_or(2);
        let is_count = |axis| shape.dim(axis).size().is_some_and(|n| matches!(n, 1 | 2));
        let axes = match rank {
            1 => Axes { rank, samples: 0, channels: None },
            2 | 3 if is_count(rank - 1) && !is_count(rank - 2) => {
                Axes { rank, samples: rank - 2, channels: Some(rank - 1) }
            }
            2 | 3 => Axes { rank, samples: rank - 1, channels: Some(rank - 2) },
            _ => bail!("sound has 1 to 3 axes, and the input takes {shape}"),
        };
        let batch = shape.dim(0);
        let is_one = rank < 3 || batch.contains(1);
        ensure!(is_one, "axis 0 of the input takes {batch}, and a sound is 1 there");
        Ok(axes)
    }

    /// How many channels the input takes of a file with some: one where it is open.
    fn channels(&self, shape: &PartialShape, own: u16) -> Result<usize> {
        let Some(axis) = self.channels else { return Ok(1) };
        let (dim, own) = (shape.dim(axis), usize::from(own));
        let wanted = match dim.size() {
            Some(wanted) => wanted,
            None if dim.contains(1) => 1,
            None => own,
        };
        let fits = wanted == 1 || own == 1 && wanted <= MOST_CHANNELS || wanted == own;
        ensure!(
            fits,
            "the file has {own} channels, and axis {axis} of the input takes {dim} of them"
        );
        Ok(wanted)
    }

    fn sizes(&self, samples: usize, channels: usize) -> Vec<usize> {
        let size = |axis| match axis {
            axis if axis == self.samples => samples,
            axis if Some(axis) == self.channels => channels,
            _ => 1,
        };
        (0..self.rank).map(size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_shapes() {
        let axes = |shape: &str| Axes::of(&shape.parse().unwrap()).ok();
        let axes = |shape| axes(shape).map(|axes| (axes.samples, axes.channels));
        assert_eq!(axes("?"), Some((0, None)));
        for shape in ["?,?", "1,?", "2,16000", "1,1", "..."] {
            assert_eq!(axes(shape), Some((1, Some(0))), "{shape}");
        }
        for shape in ["?,1", "16000,2"] {
            assert_eq!(axes(shape), Some((0, Some(1))), "{shape}");
        }
        assert_eq!(axes("1,2,?"), Some((2, Some(1))));
        assert_eq!(axes("?,?,1"), Some((1, Some(2))));
        for shape in ["", "1,1,1,?", "4,1,?"] {
            assert_eq!(axes(shape), None, "{shape}");
        }
    }
}
