//! PNG and JPEG: decoded, resized to what an input takes, and laid out as it is.

use super::Wanted;
use super::layout::Axes;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, Luma, RgbImage};
use infer::PartialShape;
use ir::ElementType;
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::Cursor;

/// How pictures become inputs.
#[derive(Debug, Default, Args)]
pub struct PictureArgs {
    /// What is subtracted from the values of a picture, which are 0 to 255: a number, or one for
    /// each channel of the input.
    #[arg(long, value_name = "M[,M,M]", value_parser = PerChannel::parse)]
    #[arg(allow_hyphen_values = true)]
    pub mean: Option<PerChannel>,
    /// What the values of a picture are divided by, after --mean.
    #[arg(long, value_name = "S[,S,S]", value_parser = PerChannel::divisors)]
    #[arg(allow_hyphen_values = true)]
    pub scale: Option<PerChannel>,
    /// The order in which the input takes the channels of a picture; rgb without it.
    #[arg(long, value_name = "ORDER", value_enum)]
    pub channels: Option<Channels>,
}

impl PictureArgs {
    /// Whether no flag is given.
    pub fn is_empty(&self) -> bool {
        self.mean.is_none() && self.scale.is_none() && self.channels.is_none()
    }

    /// Whether values are no longer whole numbers from 0 to 255.
    fn has_arithmetic(&self) -> bool {
        self.mean.is_some() || self.scale.is_some()
    }

    /// Refuses numbers for other channels than there are.
    fn fit(&self, channels: usize) -> Result<()> {
        for (flag, numbers) in [("--mean", &self.mean), ("--scale", &self.scale)] {
            let given = numbers.as_ref().map_or(1, |numbers| numbers.0.len());
            ensure!(
                given == 1 || given == channels,
                "{flag} has {given} numbers, but the input has {channels} channels"
            );
        }
        Ok(())
    }
}

/// The order of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Channels {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red, as OpenCV has them.
    Bgr,
}

/// What a flag with numbers takes.
const WANTED: &str = "give a number, or one for each channel, such as 123.7,116.3,103.5";

/// A number for each channel, or one for all.
#[derive(Clone, Debug, PartialEq)]
pub struct PerChannel(Vec<f32>);

impl PerChannel {
    /// Numbers that are there already.
    ///
    /// # Errors
    /// When there is none, or one is not finite.
    pub fn of_numbers(numbers: Vec<f32>) -> Result<PerChannel, String> {
        if !numbers.is_empty() && numbers.iter().all(|number| number.is_finite()) {
            Ok(PerChannel(numbers))
        } else {
            Err(WANTED.to_owned())
        }
    }

    fn parse(text: &str) -> Result<PerChannel, String> {
        let numbers = text.split(',').map(|part| part.trim().parse().ok()).collect();
        Option::ok_or_else(numbers, || WANTED.to_owned()).and_then(PerChannel::of_numbers)
    }

    fn divisors(text: &str) -> Result<PerChannel, String> {
        PerChannel::parse(text)?.without_zero()
    }

    /// Refuses 0 among them.
    ///
    /// # Errors
    /// When there is one.
    pub fn without_zero(self) -> Result<PerChannel, String> {
        if self.0.contains(&0.0) { Err("0 divides nothing".to_owned()) } else { Ok(self) }
    }

    fn of(&self, channel: usize) -> Option<f32> {
        match self.0.as_slice() {
            [one] => Some(*one),
            many => many.get(channel).copied(),
        }
    }
}

/// Reads a picture for an input.
///
/// # Errors
/// When the file is damaged, or the input takes no pictures.
pub fn read(file: &[u8], wanted: &Wanted<'_>, args: &PictureArgs) -> Result<Tensor> {
    let element_type = element_type(wanted, args)?;
    let axes = Axes::of(wanted.shape, wanted.layout)?;
    let channels = channels(&axes, wanted.shape)?;
    args.fit(channels)?;
    let picture = in_channels(decode(file)?, channels);
    let picture = resized(picture, &axes, wanted.shape)?;
    let sizes = sizes(&axes, wanted.shape, &picture, channels)?;
    let values = laid_out(&picture, &axes, &sizes, args)?;
    let values = Tensor::from_vec(&sizes, values)?;
    Ok(runtime::convert(&values, element_type)?)
}

/// The type of the input, if it can hold a picture.
fn element_type(wanted: &Wanted<'_>, args: &PictureArgs) -> Result<ElementType> {
    use ElementType::*;
    let element_type = match wanted.element_type {
        Dynamic if args.has_arithmetic() => F32,
        Dynamic => U8,
        known => known,
    };
    match element_type {
        F16 | BF16 | F32 | F64 => {}
        U8 | U16 | U32 | U64 | I16 | I32 | I64 => ensure!(
            !args.has_arithmetic(),
            "--mean and --scale make fractions, which an input of {element_type} does not take"
        ),
        _ => bail!("a picture has values from 0 to 255, which {element_type} does not hold"),
    }
    Ok(element_type)
}

/// How many channels the input takes: three where it is open.
fn channels(axes: &Axes, shape: &PartialShape) -> Result<usize> {
    let Some(axis) = axes.channels else { return Ok(1) };
    let dim = shape.dim(axis);
    let fits = |n: &usize| i64::try_from(*n).is_ok_and(|n| dim.contains(n));
    let found = [3, 1, 4].into_iter().find(fits);
    found.with_context(|| {
        format!("a picture has 1, 3 or 4 channels, and axis {axis} of the input takes {dim}")
    })
}

/// Bytes of a decoded picture at most: 13000 × 13000 pixels of three channels.
const MOST_BYTES: u64 = 1 << 29;

/// Decodes a picture, the right way up.
///
/// # Errors
/// When it is damaged, of another format or too large.
pub fn decode(file: &[u8]) -> Result<DynamicImage> {
    ensure!(!file.is_empty(), "the file is empty");
    let mut reader = ImageReader::new(Cursor::new(file)).with_guessed_format()?;
    let is_known = matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg));
    ensure!(is_known, "it begins as neither a PNG nor a JPEG");
    let most = runtime::memory_left().min(MOST_BYTES);
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(most);
    reader.limits(limits);
    // The library tells its causes several times.
    let broken = |_| anyhow!("the picture is cut short or damaged");
    let mut decoder = reader.into_decoder().map_err(broken)?;
    let (size, (width, height)) = (decoder.total_bytes(), decoder.dimensions());
    ensure!(size <= most, "{width}x{height} pixels take {size} bytes, more than {most}");
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
    picture.apply_orientation(orientation);
    Ok(picture)
}

/// The picture with 1, 3 or 4 channels of 8 bits.
fn in_channels(picture: DynamicImage, channels: usize) -> DynamicImage {
    match channels {
        1 if picture.color().has_color() => DynamicImage::ImageLuma8(grey(&picture.into_rgb8())),
        1 => DynamicImage::ImageLuma8(picture.into_luma8()),
        3 => DynamicImage::ImageRgb8(picture.into_rgb8()),
        _ => DynamicImage::ImageRgba8(picture.into_rgba8()),
    }
}

/// Brightness as Pillow and OpenCV have it (ITU-R 601), in 16 bits of fraction.
fn grey(picture: &RgbImage) -> GrayImage {
    GrayImage::from_fn(picture.width(), picture.height(), |x, y| {
        let [r, g, b] = picture.get_pixel(x, y).0.map(u32::from);
        let sum = 19595 * r + 38470 * g + 7471 * b + 0x8000;
        Luma([u8::try_from(sum >> 16).unwrap_or(u8::MAX)])
    })
}

/// The picture with the height and width that the input takes, or its own where these are open.
fn resized(picture: DynamicImage, axes: &Axes, shape: &PartialShape) -> Result<DynamicImage> {
    let side = |axis: usize, own: u32| match shape.dim(axis).size() {
        Some(size) => u32::try_from(size).ok().filter(|size| *size > 0),
        None => Some(own),
    };
    let sides = (side(axes.width, picture.width()), side(axes.height, picture.height()));
    let (Some(width), Some(height)) = sides else {
        bail!("an input of {shape} takes no pixels");
    };
    // The wider of both pictures as f32, and the result; a failed allocation ends the process.
    let most = u64::from(width.max(picture.width())) * u64::from(height.max(picture.height()));
    let bytes = most.saturating_mul(20);
    let fits = bytes <= runtime::memory_left() && has_memory(bytes);
    ensure!(fits, "there is no memory for a picture of {width}x{height} pixels");
    Ok(if (width, height) == (picture.width(), picture.height()) {
        picture
    } else {
        picture.resize_exact(width, height, FilterType::Triangle)
    })
}

/// Whether the system gives so many bytes.
fn has_memory(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// The shape of the tensor.
fn sizes(
    axes: &Axes,
    shape: &PartialShape,
    picture: &DynamicImage,
    channels: usize,
) -> Result<Vec<usize>> {
    let size = |axis| {
        if axis == axes.height {
            return Ok(usize::try_from(picture.height())?);
        }
        if axis == axes.width {
            return Ok(usize::try_from(picture.width())?);
        }
        if Some(axis) == axes.channels {
            return Ok(channels);
        }
        let dim = shape.dim(axis);
        ensure!(dim.contains(1), "axis {axis} of the input takes {dim}, and a picture is 1 there");
        Ok(1)
    };
    (0..axes.rank).map(size).collect()
}

/// The values of a picture in the order of the tensor.
fn laid_out(
    picture: &DynamicImage,
    axes: &Axes,
    sizes: &[usize],
    args: &PictureArgs,
) -> Result<Vec<f32>> {
    let channels = axes.channels.and_then(|axis| sizes.get(axis)).copied().unwrap_or(1);
    let width = usize::try_from(picture.width())?.max(1);
    let stride = |axis: usize| sizes.iter().skip(axis + 1).product::<usize>();
    let [down, right] = [axes.height, axes.width].map(stride);
    let across = axes.channels.map_or(0, stride);
    let bytes = picture.as_bytes();
    let mut values = Vec::new();
    values.try_reserve_exact(bytes.len()).context("there is no memory for the picture")?;
    values.resize(bytes.len(), 0.0);
    for (i, pixel) in bytes.chunks_exact(channels).enumerate() {
        let first = i / width * down + i % width * right;
        for (channel, byte) in pixel.iter().enumerate() {
            let channel = match channel {
                0 | 2 if channels > 1 && args.channels == Some(Channels::Bgr) => 2 - channel,
                _ => channel,
            };
            if let Some(value) = values.get_mut(first + channel * across) {
                *value = normalized(*byte, channel, args);
            }
        }
    }
    Ok(values)
}

/// A value as the flags want it.
fn normalized(byte: u8, channel: usize, args: &PictureArgs) -> f32 {
    let number = |flag: &Option<PerChannel>| flag.as_ref().and_then(|flag| flag.of(channel));
    let value = f32::from(byte) - number(&args.mean).unwrap_or(0.0);
    value / number(&args.scale).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_channels() {
        assert_eq!(PerChannel::parse("1"), Ok(PerChannel(vec![1.0])));
        assert_eq!(PerChannel::parse("-1, 2.5,3"), Ok(PerChannel(vec![-1.0, 2.5, 3.0])));
        for bad in ["", "a", "1,,2", "nan", "1e99"] {
            assert!(PerChannel::parse(bad).is_err(), "{bad}");
        }
        assert!(PerChannel::divisors("1,0").is_err());
    }

    #[test]
    fn grey_is_that_of_pillow() {
        // Image.new("RGB", (1, 1), colour).convert("L") of Pillow.
        for (colour, expected) in [
            ([255, 0, 0], 76),
            ([0, 255, 0], 150),
            ([0, 0, 255], 29),
            ([255, 255, 255], 255),
            ([10, 200, 30], 124),
        ] {
            let picture = RgbImage::from_pixel(1, 1, image::Rgb(colour));
            assert_eq!(grey(&picture).into_raw(), [expected], "{colour:?}");
        }
    }
}
